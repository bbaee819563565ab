/* SPDX-License-Identifier: MIT */
/* Two queue pairs with memory of their own, work requests between them, and FPDUs made by hand. */
#ifndef TESTS_QP_PAIR_H
#define TESTS_QP_PAIR_H

#include "qp_util.h"

#include "proto/mpa.h"
#include "proto/qp_priv.h"

#define AMEM	0x00000a01u
#define BMEM	0x5a17c301u
#define MEMSZ	(1u << 20)

struct pair {
	struct end *a, *b;	/* Initiator, Responder */
	uint8_t *amem, *bmem;	/* TO 0.. of AMEM and BMEM, every right */
};

static inline void pair_new(struct pair *t, struct iw_qp_param pa, struct iw_qp_param pb)
{
	static uint8_t a[MEMSZ], b[MEMSZ];

	for (unsigned int i = 0; !b[MEMSZ - 1] && i < MEMSZ; i++) {
		a[i] = (uint8_t)(i * 7 + i / 256);
		b[i] = (uint8_t)(i * 11 + i / 512);
	}
	pa.initiator = 1;
	pb.initiator = 0;
	t->a = end_new(&pa);
	t->b = end_new(&pb);
	t->amem = memcpy(kept_get(MEMSZ), a, MEMSZ);
	t->bmem = memcpy(kept_get(MEMSZ), b, MEMSZ);
	end_reg(t->a, AMEM, 0, t->amem, MEMSZ, 63);
	end_reg(t->b, BMEM, 0, t->bmem, MEMSZ, 63);
}

static inline void pair_free(struct pair *t)
{
	end_free(t->a);
	end_free(t->b);
	kept_put(t->amem);
	kept_put(t->bmem);
}

static inline void post(struct end *e, const struct iw_wr *wr)
{
	assert_int_equal(iw_qp_post_send(&e->qp, wr), 0);
}

static inline void post_recvs(struct end *e, uint32_t stag, unsigned int n, uint32_t each)
{
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(iw_qp_post_recv(&e->qp, 1000 + i, &(struct iw_sge){ .stag = stag, .to = i * each, .len = each }), 0);
}

static inline struct iw_wr wr_send(uint64_t id, uint32_t stag, uint64_t to, uint32_t len)
{
	return (struct iw_wr){ .wr_id = id, .op = IW_WR_SEND, .nsge = 1, .sge = { { .stag = stag, .to = to, .len = len } } };
}

static inline struct iw_wr wr_read(uint64_t id, uint64_t from, uint64_t to, uint32_t len)
{
	return (struct iw_wr){ .wr_id = id, .op = IW_WR_READ, .nsge = 1, .rstag = BMEM, .rto = from,
			       .sge = { { .stag = AMEM, .to = to, .len = len } } };
}

static inline struct iw_wr wr_write(uint64_t id, uint64_t from, uint64_t to, uint32_t len)
{
	return (struct iw_wr){ .wr_id = id, .op = IW_WR_WRITE, .nsge = 1, .rstag = BMEM, .rto = to,
			       .sge = { { .stag = AMEM, .to = from, .len = len } } };
}

/* FPDUs of this opcode in n octets without Markers. */
static inline unsigned int count_op(const uint8_t *p, size_t n, uint8_t op)
{
	unsigned int c = 0;

	while (n) {
		size_t k = iw_mpa_fpdu_len(iw_get16(p));

		c += (p[3] & 15) == op;
		p += k;
		n -= k;
	}
	return c;
}

/* One FPDU without a CRC, whatever it says. */
static inline size_t untagged(uint8_t *out, uint8_t op, bool last, uint32_t qn, uint32_t msn, uint32_t mo, const void *p, uint16_t n)
{
	uint16_t ulpdu = (uint16_t)(18 + n);
	size_t body = 2 + ulpdu + iw_mpa_pad(ulpdu);

	memset(out, 0, body);
	iw_put16(out, ulpdu);
	out[2] = last ? 0x41 : 0x01;
	out[3] = 0x40 | op;
	iw_put32(out + 8, qn);
	iw_put32(out + 12, msn);
	iw_put32(out + 16, mo);
	memcpy(out + 20, p, n);
	return body + 4;	/* CRC off */
}

static inline size_t tagged(uint8_t *out, uint8_t op, bool last, uint32_t stag, uint64_t to, const void *p, uint16_t n)
{
	uint16_t ulpdu = (uint16_t)(14 + n);
	size_t body = 2 + ulpdu + iw_mpa_pad(ulpdu);

	memset(out, 0, body);
	iw_put16(out, ulpdu);
	out[2] = last ? 0xc1 : 0x81;
	out[3] = 0x40 | op;
	iw_put32(out + 4, stag);
	iw_put64(out + 8, to);
	memcpy(out + 16, p, n);
	return body + 4;
}

static inline struct iw_qp_param no_crc(void)
{
	struct iw_qp_param p = param_default;

	p.crc = 0;
	return p;
}

static inline void expect_term(struct end *e, uint8_t layer, uint8_t etype, uint8_t code)
{
	assert_int_equal(e->qp.state, IW_QP_TERMINATE);
	if (e->qp.term.layer != layer || e->qp.term.etype != etype || e->qp.term.code != code)
		fail_msg("%u/%u/%02x, want %u/%u/%02x", e->qp.term.layer, e->qp.term.etype, e->qp.term.code, layer, etype, code);
}

#endif
