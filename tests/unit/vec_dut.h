/* SPDX-License-Identifier: MIT */
/* What the tests of golden vectors share: feeding in pieces, and a receiver in the exact state of section 7 of vectors.txt. */
#ifndef TESTS_VEC_DUT_H
#define TESTS_VEC_DUT_H

#include "qp_util.h"

#include "proto/mpa.h"
#include "proto/qp_priv.h"
#include "vec_util.h"

#define STAG	0x5a17c301u
#define SINK	0x19f0c709u
#define LOCAL	0x00000a01u	/* our own memory */
#define RECV	0x00000a02u

static inline bool starts(const char *name, const char *s)
{
	return !strncmp(name, s, strlen(s));
}

static inline void post(struct end *e, const struct iw_wr *wr)
{
	assert_int_equal(iw_qp_post_send(&e->qp, wr), 0);
}

enum feed { WHOLE, OCTETS, CUT };

static inline void feed(struct end *e, const uint8_t *p, size_t n, enum feed how, size_t cut)
{
	switch (how) {
	case WHOLE:
		end_feed(e, p, n);
		break;
	case OCTETS:
		for (size_t i = 0; i < n; i++)
			end_feed(e, p + i, 1);
		break;
	case CUT:
		end_feed(e, p, cut);
		end_feed(e, p + cut, n - cut);
		break;
	}
}

struct dut {
	struct end *e;
	uint8_t *mem[7], *before[7];	/* five registrations, two receive buffers; canaries around each */
};

#define MEMSZ	4096u
#define GUARD	64u

static inline uint8_t *dut_mem(struct dut *d, unsigned int i)
{
	d->mem[i] = aligned_alloc(64, MEMSZ + 2 * GUARD);
	d->before[i] = malloc(MEMSZ + 2 * GUARD);
	for (unsigned int k = 0; k < MEMSZ + 2 * GUARD; k++)
		d->mem[i][k] = (uint8_t)(k * 13 + i);
	memcpy(d->before[i], d->mem[i], MEMSZ + 2 * GUARD);
	return d->mem[i] + GUARD;
}

static inline void dut_new(struct dut *d)
{
	struct iw_qp_param p = { .crc = 1, .mulpdu = 1442, .ird = 2, .ord = 2, .recv_min = 8 };
	unsigned int rw = IW_ACCESS_REMOTE_READ | IW_ACCESS_REMOTE_WRITE;
	const struct vec *first = vec_get("fpdu.write.zero");
	struct end *e = d->e = end_new(&p);
	struct iw_sge s1 = { .stag = RECV, .to = 0, .len = 64 }, s2 = { .stag = RECV + 1, .to = 0, .len = 4096 };

	end_reg(e, STAG, 0x1000, dut_mem(d, 0), MEMSZ, rw | IW_ACCESS_REMOTE_ATOMIC);
	end_reg(e, 0x77e0b902, 0, dut_mem(d, 1), MEMSZ, IW_ACCESS_REMOTE_READ)->stream = 0;
	end_reg(e, 0x1d40aa03, 0, dut_mem(d, 2), MEMSZ, IW_ACCESS_REMOTE_WRITE)->stream = 0;
	end_reg(e, 0x2b9c6e04, 0, dut_mem(d, 3), MEMSZ, rw)->pd = 2;
	end_reg(e, 0x4e33d505, 0, d->mem[3] + GUARD, MEMSZ, rw)->stream = 2;
	end_reg(e, 0x6612f806, 0, dut_mem(d, 4), MEMSZ, rw)->shared = true;
	e->regs[e->nregs - 1].stream = 0;
	end_reg(e, RECV, 0, dut_mem(d, 5), 64, IW_ACCESS_LOCAL_WRITE);
	end_reg(e, RECV + 1, 0, dut_mem(d, 6), 4096, IW_ACCESS_LOCAL_WRITE);
	assert_int_equal(iw_qp_post_recv(&e->qp, 1, &s1), 0);
	assert_int_equal(iw_qp_post_recv(&e->qp, 2, &s2), 0);
	end_feed(e, first->p, first->n);
	assert_true(end_had(e, IW_QP_EV_FIRST_FPDU));
}

/* Everything that may not change did not. may: octets at the start of memory `which` that may. */
static inline void dut_canaries(const struct dut *d, unsigned int which, unsigned int may)
{
	for (unsigned int i = 0; i < 7; i++) {
		if (i == which)
			memcpy(d->before[i] + GUARD, d->mem[i] + GUARD, may);
		assert_memory_equal(d->mem[i], d->before[i], MEMSZ + 2 * GUARD);
	}
}

static inline void dut_free(struct dut *d)
{
	for (unsigned int i = 0; i < 7; i++) {
		free(d->mem[i]);
		free(d->before[i]);
	}
	end_free(d->e);
}

static inline void same(const char *name, const uint8_t *out, size_t n)
{
	const struct vec *v = vec_get(name);

	assert_int_equal(n, v->n);
	assert_memory_equal(out, v->p, n);
}

#endif
