// SPDX-License-Identifier: MIT
/* Octets of the ring stream: control words and private data of the MPA frames. */
#include "rs.h"

#include <errno.h>
#include <string.h>

#include "be.h"

#define RS_MAGIC	0x5253544du	/* "RSTM" */
#define RS_RING_MIN	(64u << 10)
#define RS_RING_MAX	(64u << 20)
#define RS_BUFS_MIN	8u
#define RS_BUF_MIN	64u
#define MASK48		0xffffffffffffull

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
	iw_put64(out, (uint64_t)(cw->type & 15) << 60 | (uint64_t)(cw->flags & 15) << 56 | (uint64_t)cw->credits << 48 |
	      (cw->value & MASK48));
}

int iw_cw_decode(struct iw_cw *cw, const uint8_t in[8])
{
	uint64_t w = iw_get64(in);

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
	iw_put32(out, sa->stag);
	iw_put64(out + 4, sa->to);
	iw_put64(out + 12, sa->len);
}

void iw_cw_decode_srcavail(struct iw_cw_srcavail *sa, const uint8_t in[IW_CW_SRCAVAIL_LEN])
{
	sa->stag = iw_get32(in);
	sa->to = iw_get64(in + 4);
	sa->len = iw_get64(in + 12);
}

void iw_cw_encode_rddone(uint64_t octets, uint8_t out[IW_CW_RDDONE_LEN])
{
	iw_put64(out, octets);
}

uint64_t iw_cw_decode_rddone(const uint8_t in[IW_CW_RDDONE_LEN])
{
	return iw_get64(in);
}

/* ---- private data ---- */

/* The family is not on the wire: an IPv4-mapped address is taken as AF_INET. */
static void get_addr(struct iw_addr *a, const uint8_t *ip, const uint8_t *port)
{
	memset(a, 0, sizeof(*a));
	memcpy(a->ip, ip, 16);
	a->port = iw_get16(port);
	a->family = iw_ip_family(ip);
}

void iw_rs_pd_encode(const struct iw_rs_pd *pd, uint8_t out[IW_RS_PD_LEN])
{
	memset(out, 0, IW_RS_PD_LEN);
	iw_put32(out, RS_MAGIC);
	out[4] = pd->ver_lo;
	out[5] = pd->ver_hi;
	iw_put16(out + 6, pd->caps);
	iw_put32(out + 8, pd->ring_stag);
	iw_put64(out + 12, pd->ring_to);
	iw_put32(out + 20, pd->ring_len);
	iw_put16(out + 24, pd->bufs);
	iw_put16(out + 26, pd->buf_size);
	iw_put16(out + 28, pd->srcavail_max);
	iw_put16(out + 30, pd->dst.port);
	memcpy(out + 32, pd->dst.ip, 16);
	memcpy(out + 48, pd->src.ip, 16);
	iw_put16(out + 64, pd->src.port);
	iw_put64(out + 68, pd->nonce);
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
	if (len < 6 || iw_get32(in) != RS_MAGIC)
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
	pd->caps = iw_get16(in + 6);
	pd->ring_stag = iw_get32(in + 8);
	pd->ring_to = iw_get64(in + 12);
	pd->ring_len = iw_get32(in + 20);
	pd->bufs = iw_get16(in + 24);
	pd->buf_size = iw_get16(in + 26);
	pd->srcavail_max = iw_get16(in + 28);
	get_addr(&pd->dst, in + 32, in + 30);
	get_addr(&pd->src, in + 48, in + 64);
	pd->nonce = iw_get64(in + 68);
	return check_pd(pd);
}
