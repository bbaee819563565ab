/* SPDX-License-Identifier: MIT */
/* What the tests of golden vectors share: feeding in pieces, and a receiver in the exact state of section 7 of vectors.txt. */
#ifndef TESTS_VEC_DUT_H
#define TESTS_VEC_DUT_H

#include "qp_util.h"

#include <sys/mman.h>

#include "proto/crc32c.h"
#include "proto/mpa.h"
#include "proto/qp_priv.h"
#include "end_util.h"
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

/* The receiver: a queue pair as the daemon has it, or an end on its map as the library works it (proto/end.h). */
struct dut {
	struct end *e;
	uint8_t *mem[7], *before[7];	/* five registrations, two receive buffers; canaries around each */

	struct iw_end m;		/* mapped: instead of all that */
	struct iw_map_priv at;
	struct priv v;
	uint8_t *pages, *copy;		/* the map between two pages that nobody may touch; what its memory was: DUT_RQ, DUT_REST */
};

#define MEMSZ	4096u
#define GUARD	64u

/* The octets of T that come; to a mapped end where it says, in as many goes as that takes. */
static inline void dut_feed(struct dut *d, const uint8_t *p, size_t n)
{
	size_t room;

	if (d->e)
		end_feed(d->e, p, n);
	for (size_t k; !d->e && n; p += k, n -= k) {
		uint8_t *to = iw_end_in(&d->m, &room);

		k = n < room ? n : room;
		memcpy(to, p, k);
		iw_end_in_done(&d->m, k);
	}
}

static inline size_t dut_drain(struct dut *d, uint8_t *out, size_t cap)
{
	const uint8_t *p;
	size_t n = 0, k;

	if (d->e)
		return end_drain(d->e, out, cap);
	for (iw_end_pump(&d->m); (p = iw_end_out(&d->m, &k)); iw_end_pump(&d->m)) {
		assert_true(n + k <= cap);
		memcpy(out + n, p, k);
		n += k;
		iw_end_out_done(&d->m, k);
	}
	return n;
}

static inline const struct iw_qp *dut_qp(const struct dut *d)
{
	return d->e ? &d->e->qp : &d->m.s->qp;
}

enum feed { WHOLE, OCTETS, CUT };

static inline void feed(struct dut *d, const uint8_t *p, size_t n, enum feed how, size_t cut)
{
	switch (how) {
	case WHOLE:
		dut_feed(d, p, n);
		break;
	case OCTETS:
		for (size_t i = 0; i < n; i++)
			dut_feed(d, p + i, 1);
		break;
	case CUT:
		dut_feed(d, p, cut);
		dut_feed(d, p + cut, n - cut);
		break;
	}
}

static inline uint8_t *dut_mem(struct dut *d, unsigned int i)
{
	d->mem[i] = aligned_alloc(64, MEMSZ + 2 * GUARD);
	d->before[i] = malloc(MEMSZ + 2 * GUARD);
	for (unsigned int k = 0; k < MEMSZ + 2 * GUARD; k++)
		d->mem[i][k] = (uint8_t)(k * 13 + i);
	memcpy(d->before[i], d->mem[i], MEMSZ + 2 * GUARD);
	return d->mem[i] + GUARD;
}

#define DUT_RQ		(8u * 64)		/* octets of a map's receive buffers */
#define DUT_REST	(MEMSZ + 65536)		/* and of where Reads go, with the ring behind it */

/* On a map: one STag can be written to, the ring's, and of the 64-octet receive buffers two are posted. Nothing can be read. */
static inline void dut_map(struct dut *d)
{
	struct priv_param p = priv_default();
	size_t len;

	p.rs.rx_stag = STAG;
	p.rs.rx_to = 0x1000;
	p.rs.rx_len = 65536;
	p.rs.tx_len = p.rs.rd_len = MEMSZ;
	p.rs.read_max = 512;
	p.rs.rq_stag = RECV;
	p.rs.bufs = 8;
	p.rs.buf_size = 64;
	p.rs.inline_max = 56;
	p.qp = (struct iw_qp_param){ .crc = 1, .mulpdu = 1442, .ird = 2, .ord = 2, .recv_min = 8 };
	*d = (struct dut){ 0 };
	priv_new(&d->v, &p, &p, true);
	len = d->v.map_len + 2 * IW_MAP_PAGE;
	d->pages = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(d->pages != MAP_FAILED && !mprotect(d->pages + IW_MAP_PAGE, d->v.map_len, PROT_READ | PROT_WRITE));
	iw_map_export((struct iw_map *)(d->pages + IW_MAP_PAGE), &d->v.p);
	assert_int_equal(iw_end_open(&d->m, (struct iw_map *)(d->pages + IW_MAP_PAGE), d->v.map_len), 0);
	iw_map_at(d->m.m, &p.rs, &d->at);
	d->m.f->rs.p.rx_len = MEMSZ;	/* the rest of the ring is canaries */
	d->m.s->qp.rq_head = d->m.s->qp.rq_tail + 2;
	d->m.s->qp.first_seen = 0;
	d->copy = malloc(DUT_RQ + DUT_REST);
	memcpy(d->copy, d->at.rq, DUT_RQ);
	memcpy(d->copy + DUT_RQ, d->at.rd, DUT_REST);
}

/* Of a map's receive buffers the first octets may differ, of its ring those that the peer may have written. */
static inline void dut_map_canaries(const struct dut *d, unsigned int recv, unsigned int ring)
{
	const uint8_t *rd = d->copy + DUT_RQ;

	assert_ptr_equal(d->at.rx_ring, d->at.rd + MEMSZ);
	assert_memory_equal(d->at.rq + recv, d->copy + recv, DUT_RQ - recv);
	assert_memory_equal(d->at.rd, rd, MEMSZ);
	assert_memory_equal(d->at.rx_ring + ring, rd + MEMSZ + ring, DUT_REST - MEMSZ - ring);
}

static inline void dut_new_at(struct dut *d, bool mapped)
{
	struct iw_qp_param p = { .crc = 1, .mulpdu = 1442, .ird = 2, .ord = 2, .recv_min = 8 };
	unsigned int rw = IW_ACCESS_REMOTE_READ | IW_ACCESS_REMOTE_WRITE;
	const struct vec *first = vec_get("fpdu.write.zero");
	struct iw_sge s1 = { .stag = RECV, .to = 0, .len = 64 }, s2 = { .stag = RECV + 1, .to = 0, .len = 4096 };
	struct end *e;

	if (mapped) {
		dut_map(d);
		dut_feed(d, first->p, first->n);
		assert_true(d->m.s->qp.first_seen);
		return;
	}
	e = d->e = end_new(&p);
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

static inline void dut_new(struct dut *d)
{
	dut_new_at(d, false);
}

/* Everything that may not change did not. may: octets at the start of memory `which` that may. */
static inline void dut_canaries(const struct dut *d, unsigned int which, unsigned int may)
{
	if (!d->e) {
		dut_map_canaries(d, which == 5 ? may : 0, which == 0 ? may : 0);
		return;
	}
	for (unsigned int i = 0; i < 7; i++) {
		if (i == which)
			memcpy(d->before[i] + GUARD, d->mem[i] + GUARD, may);
		assert_memory_equal(d->mem[i], d->before[i], MEMSZ + 2 * GUARD);
	}
}

static inline void dut_free(struct dut *d)
{
	if (!d->e) {
		munmap(d->pages, d->v.map_len + 2 * IW_MAP_PAGE);
		free(d->copy);
		priv_free(&d->v);
		return;
	}
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
