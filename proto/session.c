// SPDX-License-Identifier: MIT
/* Encoding and checking of the messages between daemons. */
#include "session.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "be.h"
#include "reason.h"

/*
 * Message:	type 1 | bits 1 (0: yes, 1-2: IW_SM_F_*) | length 2 | seq 4 | reason 2 | zero 2 | body
 * Body:	generation 8, or addresses, nonce 8, pos 8, crc 4 and zero 4: what the type has, in this order
 * Address:	ip 16 (IPv4-mapped if IPv4) | port 2 | zero 2
 */
#define HDR		12u
#define ADDR		20u
#define POS		12u	/* pos, crc */

static const struct {
	const char *name;
	uint8_t len;
	uint8_t dialler;	/* who sends it */
	uint8_t addrs;
	uint8_t verdict;	/* yes/reason mean something */
	uint8_t flags;
	uint8_t nonce, pos;
} types[] = {
	[IW_SM_HELLO] = { "HELLO", HDR + 8, .dialler = 1 },
	[IW_SM_PROPOSE] = { "PROPOSE", HDR + 2 * ADDR, .dialler = 1, .addrs = 2, .flags = 1 },
	[IW_SM_HOLD] = { "HOLD", HDR + 2 * ADDR + 8 + POS + 4, .dialler = 1, .addrs = 2, .nonce = 1, .pos = 1 },
	[IW_SM_PING] = { "PING", HDR, .dialler = 1 },
	[IW_SM_VOUCH] = { "VOUCH", HDR + 2 * ADDR, .dialler = 1, .addrs = 2 },
	[IW_SM_ANSWER] = { "ANSWER", HDR + POS + 4, .verdict = 1, .flags = 1, .pos = 1 },
	[IW_SM_GOODBYE] = { "GOODBYE", HDR },
	[IW_SM_ACK] = { "ACK", HDR, .dialler = 1 },
};
#define NTYPES (sizeof(types) / sizeof(types[0]))
static_assert(HDR + 2 * ADDR + 8 + POS + 4 <= IW_SM_MAX, "iw_sm_max");

/* ---- private data: "IWCM" | lowest, highest version | bufs 2 | size 2 | zero 2 | generation 8 ---- */

void iw_sm_pd_encode(const struct iw_sm_pd *pd, uint8_t out[IW_SM_PD_LEN])
{
	memset(out, 0, IW_SM_PD_LEN);
	memcpy(out, "IWCM", 4);
	out[4] = pd->ver_lo;
	out[5] = pd->ver_hi;
	iw_put16(out + 6, pd->bufs);
	iw_put16(out + 8, pd->buf_size);
	iw_put64(out + 12, pd->generation);
}

int iw_sm_pd_decode(struct iw_sm_pd *pd, const uint8_t *in, size_t len)
{
	memset(pd, 0, sizeof(*pd));
	if (len < 6 || memcmp(in, "IWCM", 4) || in[4] > in[5])
		return -EPROTO;
	pd->ver_lo = in[4];
	pd->ver_hi = in[5];
	if (pd->ver_lo > IW_SM_VERSION || pd->ver_hi < IW_SM_VERSION)
		return -EPROTONOSUPPORT;
	if (len < IW_SM_PD_LEN)
		return -EPROTO;
	pd->bufs = iw_get16(in + 6);
	pd->buf_size = iw_get16(in + 8);
	pd->generation = iw_get64(in + 12);
	if (pd->bufs < 16 || pd->bufs > 1024 || pd->buf_size < IW_SM_MAX)
		return -EPROTO;
	return 0;
}

void iw_sm_reject_encode(unsigned int reason, uint8_t out[IW_SM_REJECT_LEN])
{
	memset(out, 0, IW_SM_REJECT_LEN);
	memcpy(out, "IWCM", 4);
	out[4] = out[5] = IW_SM_VERSION;
	iw_put32(out + 8, reason);
}

int iw_sm_reject_decode(const uint8_t *in, size_t len)
{
	if (len < IW_SM_REJECT_LEN || memcmp(in, "IWCM", 4))
		return -EPROTO;
	if (iw_get32(in + 8) == IW_REASON_ACCELERATED || iw_get32(in + 8) > IW_REASON_OTHER)
		return -EPROTO;
	return (int)iw_get32(in + 8);
}

/* ---- messages ---- */

static bool known(unsigned int type)
{
	return type < NTYPES && types[type].name;
}

const char *iw_sm_name(unsigned int type)
{
	return known(type) ? types[type].name : "unknown";
}

static void addr_encode(const struct iw_addr *a, uint8_t *p)
{
	memcpy(p, a->ip, 16);
	iw_put16(p + 16, a->port);
	iw_put16(p + 18, 0);
}

static int addr_decode(struct iw_addr *a, const uint8_t *p)
{
	static const uint8_t zero[16];

	memset(a, 0, sizeof(*a));
	memcpy(a->ip, p, 16);
	a->port = iw_get16(p + 16);
	a->family = iw_ip_family(p);
	if (!a->port || iw_get16(p + 18))
		return -EPROTO;
	if (a->family == AF_INET && (!p[12] || p[12] >= 224))	/* 0/8, multicast, reserved, broadcast */
		return -EPROTO;
	if (a->family == AF_INET6 && (p[0] == 0xff || !memcmp(p, zero, 16)))
		return -EPROTO;
	return 0;
}

int iw_sm_encode(const struct iw_sm *m, uint8_t out[IW_SM_MAX])
{
	uint8_t *p = out + HDR;

	if (!known(m->type) || m->yes > 1 || m->flags > (IW_SM_F_SWITCHED | IW_SM_F_CLIENT))
		return -EINVAL;
	memset(out, 0, types[m->type].len);
	out[0] = m->type;
	out[1] = (uint8_t)(m->yes | m->flags << 1);
	iw_put16(out + 2, types[m->type].len);
	iw_put32(out + 4, m->seq);
	iw_put16(out + 8, m->reason);
	if (m->type == IW_SM_HELLO)
		iw_put64(p, m->generation);
	if (types[m->type].addrs) {
		addr_encode(&m->a, p);
		addr_encode(&m->b, p + ADDR);
		p += 2 * ADDR;
	}
	if (types[m->type].nonce) {
		iw_put64(p, m->nonce);
		p += 8;
	}
	if (types[m->type].pos) {
		iw_put64(p, m->pos);
		iw_put32(p + 8, m->crc);
	}
	return types[m->type].len;
}

static int verdict_decode(struct iw_sm *m, const uint8_t *in)
{
	m->yes = in[1] & 1;
	m->flags = in[1] >> 1;
	m->reason = iw_get16(in + 8);
	if (m->flags > (IW_SM_F_SWITCHED | IW_SM_F_CLIENT) || iw_get16(in + 10))
		return -EPROTO;
	if (m->flags && !(types[m->type].flags && (m->yes || !types[m->type].verdict)))
		return -EPROTO;
	if (!types[m->type].verdict)
		return m->yes || (m->reason && m->type != IW_SM_PROPOSE) ? -EPROTO : 0;
	return !m->yes == !m->reason ? -EPROTO : 0;	/* a no says why, a yes has nothing to say */
}

int iw_sm_decode(struct iw_sm *m, const uint8_t *in, size_t len, bool from_dialler)
{
	memset(m, 0, sizeof(*m));
	if (len < HDR || !known(in[0]) || types[in[0]].dialler != from_dialler)
		return -EPROTO;
	m->type = in[0];
	if (len != types[m->type].len || iw_get16(in + 2) != len)
		return -EPROTO;
	m->seq = iw_get32(in + 4);
	if (verdict_decode(m, in))
		return -EPROTO;
	if (m->type == IW_SM_HELLO)
		m->generation = iw_get64(in + HDR);
	in += HDR;
	if (types[m->type].addrs) {
		if (addr_decode(&m->a, in) || addr_decode(&m->b, in + ADDR))
			return -EPROTO;
		in += 2 * ADDR;
	}
	if (types[m->type].nonce) {
		m->nonce = iw_get64(in);
		in += 8;
	}
	if (types[m->type].pos) {
		m->pos = iw_get64(in);
		m->crc = iw_get32(in + 8);
		if (iw_get32(in + 12))
			return -EPROTO;
	}
	return 0;
}
