// SPDX-License-Identifier: MIT
/* Octets of the ring stream: control words, private data of the MPA frames, what a Reject says. */
#include "rs.h"

#include <errno.h>
#include <string.h>

#define RS_MAGIC	0x5253544du	/* "RSTM" */
#define RS_RING_MIN	(64u << 10)
#define RS_RING_MAX	(64u << 20)
#define RS_BUFS_MIN	8u
#define RS_BUF_MIN	64u
#define RS_REJECT_LEN	10u
#define MASK48		0xffffffffffffull

static void put16(uint8_t *p, uint16_t v)
{
	p[0] = v >> 8;
	p[1] = v & 0xff;
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p + 2, v & 0xffff);
}

static void put64(uint8_t *p, uint64_t v)
{
	put32(p, v >> 32);
	put32(p + 4, v & 0xffffffff);
}

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static uint64_t get64(const uint8_t *p)
{
	return (uint64_t)get32(p) << 32 | get32(p + 4);
}

/* ---- control words ---- */

static const uint8_t cw_flags[] = {
	[IW_CW_DATA] = IW_CW_FIN | IW_CW_URG | IW_CW_MORE,
	[IW_CW_INLINE] = IW_CW_FIN | IW_CW_URG | IW_CW_MORE,
	[IW_CW_ACK] = IW_CW_FIN | IW_CW_WAITING,
	[IW_CW_CREDIT] = 0,
	[IW_CW_SRCAVAIL] = IW_CW_FIN | IW_CW_URG | IW_CW_MORE,
	[IW_CW_RDDONE] = IW_CW_REFUSED,
	[IW_CW_CANCEL] = 0,
	[IW_CW_URGENT] = 0,
	[IW_CW_ABORT] = 0,
	[IW_CW_PING] = IW_CW_ANSWER,
};

void iw_cw_encode(const struct iw_cw *cw, uint8_t out[8])
{
	put64(out, (uint64_t)(cw->type & 15) << 60 | (uint64_t)(cw->flags & 15) << 56 | (uint64_t)cw->credits << 48 |
	      (cw->value & MASK48));
}

int iw_cw_decode(struct iw_cw *cw, const uint8_t in[8])
{
	uint64_t w = get64(in);

	cw->type = w >> 60;
	cw->flags = w >> 56 & 15;
	cw->credits = w >> 48 & 255;
	cw->value = w & MASK48;
	if (cw->type >= sizeof(cw_flags) || cw->flags & ~cw_flags[cw->type])
		return -EPROTO;
	return 0;
}

void iw_cw_encode_srcavail(const struct iw_cw_srcavail *sa, uint8_t out[IW_CW_SRCAVAIL_LEN])
{
	put32(out, sa->stag);
	put64(out + 4, sa->to);
	put64(out + 12, sa->len);
}

void iw_cw_decode_srcavail(struct iw_cw_srcavail *sa, const uint8_t in[IW_CW_SRCAVAIL_LEN])
{
	sa->stag = get32(in);
	sa->to = get64(in + 4);
	sa->len = get64(in + 12);
}

void iw_cw_encode_rddone(uint64_t octets, uint8_t out[IW_CW_RDDONE_LEN])
{
	put64(out, octets);
}

uint64_t iw_cw_decode_rddone(const uint8_t in[IW_CW_RDDONE_LEN])
{
	return get64(in);
}

/* ---- private data ---- */

/* The family is not on the wire: an IPv4-mapped address is taken as AF_INET. */
static void get_addr(struct iw_addr *a, const uint8_t *ip, const uint8_t *port)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	memset(a, 0, sizeof(*a));
	memcpy(a->ip, ip, 16);
	a->port = get16(port);
	a->family = memcmp(ip, mapped, sizeof(mapped)) ? AF_INET6 : AF_INET;
}

void iw_rs_pd_encode(const struct iw_rs_pd *pd, uint8_t out[IW_RS_PD_LEN])
{
	memset(out, 0, IW_RS_PD_LEN);
	put32(out, RS_MAGIC);
	out[4] = pd->ver_lo;
	out[5] = pd->ver_hi;
	put16(out + 6, pd->caps);
	put32(out + 8, pd->ring_stag);
	put64(out + 12, pd->ring_to);
	put32(out + 20, pd->ring_len);
	put16(out + 24, pd->bufs);
	put16(out + 26, pd->buf_size);
	put16(out + 28, pd->srcavail_max);
	put16(out + 30, pd->dst.port);
	memcpy(out + 32, pd->dst.ip, 16);
	memcpy(out + 48, pd->src.ip, 16);
	put16(out + 64, pd->src.port);
}

static int check_pd(const struct iw_rs_pd *pd)
{
	uint32_t len = pd->ring_len;

	if (len < RS_RING_MIN || len > RS_RING_MAX || len & (len - 1))
		return -EPROTO;
	if (pd->ring_to + (len - 1) < pd->ring_to)
		return -EPROTO;
	if (pd->bufs < RS_BUFS_MIN || pd->buf_size < RS_BUF_MIN)
		return -EPROTO;
	return 0;
}

int iw_rs_pd_decode(struct iw_rs_pd *pd, const uint8_t *in, size_t len)
{
	memset(pd, 0, sizeof(*pd));
	if (len < 6 || get32(in) != RS_MAGIC)
		return -EPROTO;
	pd->ver_lo = in[4];
	pd->ver_hi = in[5];
	if (pd->ver_lo > pd->ver_hi)
		return -EPROTO;
	/* another version may lay the rest out differently */
	if (pd->ver_lo > IW_RS_VERSION || pd->ver_hi < IW_RS_VERSION)
		return -EPROTONOSUPPORT;
	if (len < IW_RS_PD_LEN)
		return -EPROTO;
	pd->caps = get16(in + 6);
	pd->ring_stag = get32(in + 8);
	pd->ring_to = get64(in + 12);
	pd->ring_len = get32(in + 20);
	pd->bufs = get16(in + 24);
	pd->buf_size = get16(in + 26);
	pd->srcavail_max = get16(in + 28);
	get_addr(&pd->dst, in + 32, in + 30);
	get_addr(&pd->src, in + 48, in + 64);
	return check_pd(pd);
}

size_t iw_rs_reject_encode(enum iw_rs_reject why, uint8_t *out)
{
	put32(out, RS_MAGIC);
	out[4] = IW_RS_VERSION;
	out[5] = IW_RS_VERSION;
	put32(out + 6, why);
	return RS_REJECT_LEN;
}

int iw_rs_reject_decode(const uint8_t *in, size_t len)
{
	uint32_t why;

	if (len < RS_REJECT_LEN || get32(in) != RS_MAGIC)
		return -EPROTO;
	why = get32(in + 6);
	if (why < IW_RS_REJ_NO_LISTENER || why > IW_RS_REJ_RESOURCES)
		return -EPROTO;
	return (int)why;
}
