/* SPDX-License-Identifier: MIT */
/* A queue pair for tests: a small STag table, logs of completions and events, and a wire in memory to another one. */
#ifndef TESTS_QP_UTIL_H
#define TESTS_QP_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/qp.h"
#include "kept.h"

struct reg {
	uint32_t stag;
	uint64_t to, len;
	uint8_t *mem;
	unsigned int access;
	int pd;
	int stream;		/* 0: every stream of the domain */
	bool shared;		/* valid on several streams */
};

#define END_REGS	64
#define END_CQ		8192
#define END_IN		(4u << 20)

struct end {
	struct iw_qp qp;
	int pd, stream;
	struct reg regs[END_REGS];
	unsigned int nregs;
	struct iw_cqe *cq;
	unsigned int ncq, cq_seen;
	enum iw_qp_event ev[16];
	unsigned int nev;
	uint8_t *in;		/* octets received and not consumed */
	size_t nin;
	uint8_t *out;		/* scratch for iw_qp_tx() */
};

static inline enum iw_access_err end_access(void *ctx, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	struct end *e = ctx;

	assert_true(len > 0);
	if (to > UINT64_MAX - len)
		return IW_ACC_WRAP;
	for (unsigned int i = 0; i < e->nregs; i++) {
		struct reg *r = &e->regs[i];

		if (r->stag != stag)
			continue;
		if (r->pd != e->pd || (r->stream && r->stream != e->stream))
			return IW_ACC_SCOPE;
		if (!(r->access & right))
			return IW_ACC_RIGHTS;
		if (to < r->to || to - r->to > r->len || len > r->len - (to - r->to))
			return IW_ACC_BOUNDS;
		*ptr = r->mem + (to - r->to);
		return IW_ACC_OK;
	}
	return IW_ACC_STAG;
}

static inline enum iw_access_err end_invalidate(void *ctx, uint32_t stag)
{
	struct end *e = ctx;

	for (unsigned int i = 0; i < e->nregs; i++) {
		struct reg *r = &e->regs[i];

		if (r->stag != stag)
			continue;
		if (r->pd != e->pd || r->shared || (r->stream && r->stream != e->stream))
			return IW_ACC_SCOPE;
		*r = e->regs[--e->nregs];
		return IW_ACC_OK;
	}
	return IW_ACC_STAG;
}

static inline void end_complete(void *ctx, const struct iw_cqe *cqe)
{
	struct end *e = ctx;

	assert_true(e->ncq < END_CQ);
	e->cq[e->ncq++] = *cqe;
}

static inline void end_event(void *ctx, enum iw_qp_event ev)
{
	struct end *e = ctx;

	assert_true(e->nev < sizeof(e->ev) / sizeof(e->ev[0]));
	e->ev[e->nev++] = ev;
}

static const struct iw_qp_ops end_ops = {
	.access = end_access, .invalidate = end_invalidate, .complete = end_complete, .event = end_event,
};

static inline bool end_had(const struct end *e, enum iw_qp_event ev)
{
	for (unsigned int i = 0; i < e->nev; i++)
		if (e->ev[i] == ev)
			return true;
	return false;
}

static inline struct reg *end_reg(struct end *e, uint32_t stag, uint64_t to, void *mem, uint64_t len, unsigned int access)
{
	struct reg *r = &e->regs[e->nregs++];

	assert_true(e->nregs <= END_REGS);
	*r = (struct reg){ .stag = stag, .to = to, .len = len, .mem = mem, .access = access, .pd = e->pd, .stream = e->stream };
	return r;
}

static const struct iw_qp_param param_default = { .initiator = 1, .crc = 1, .mulpdu = 1442, .ird = 8, .ord = 8, .recv_min = 8 };

static inline struct end *end_new(const struct iw_qp_param *p)
{
	struct end *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	e->cq = memset(kept_get(END_CQ * sizeof(*e->cq)), 0, END_CQ * sizeof(*e->cq));
	e->in = kept_get(END_IN);
	e->out = kept_get(IW_FPDU_MAX_MARKERS);
	e->pd = e->stream = 1;
	iw_qp_init(&e->qp);
	if (p)
		assert_int_equal(iw_qp_start(&e->qp, p), 0);
	return e;
}

static inline void end_free(struct end *e)
{
	kept_put(e->cq);
	kept_put(e->in);
	kept_put(e->out);
	free(e);
}

/* Feed octets. The QP gets them from an exact allocation, so that a sanitizer sees any octet read beyond them. */
static inline void end_feed(struct end *e, const void *p, size_t n)
{
	uint8_t *exact;
	size_t used;

	assert_true(e->nin + n <= END_IN);
	memcpy(e->in + e->nin, p, n);
	e->nin += n;
	exact = malloc(e->nin ? e->nin : 1);
	memcpy(exact, e->in, e->nin);
	used = iw_qp_rx(&e->qp, &end_ops, e, exact, e->nin);
	assert_true(used <= e->nin);
	memmove(e->in, e->in + used, e->nin - used);
	e->nin -= used;
	free(exact);
}

/* Everything e has to say, as the LLP would take it; into buf (may be NULL). Returns octets. */
static inline size_t end_drain(struct end *e, uint8_t *buf, size_t cap)
{
	size_t n, total = 0;

	while (iw_qp_tx_pending(&e->qp)) {
		n = iw_qp_tx(&e->qp, &end_ops, e, e->out, IW_FPDU_MAX_MARKERS, 0);
		assert_true(n > 0 && n <= IW_FPDU_MAX_MARKERS);
		if (buf) {
			assert_true(total + n <= cap);
			memcpy(buf + total, e->out, n);
		}
		total += n;
		iw_qp_tx_done(&e->qp, &end_ops, e, n);
	}
	return total;
}

/* One batch from a to b. */
static inline size_t end_move(struct end *a, struct end *b)
{
	size_t n = iw_qp_tx(&a->qp, &end_ops, a, a->out, IW_FPDU_MAX_MARKERS, 0);

	if (n) {
		iw_qp_tx_done(&a->qp, &end_ops, a, n);
		end_feed(b, a->out, n);
	}
	return n;
}

/* Until both are quiet. */
static inline void end_settle(struct end *a, struct end *b)
{
	while (end_move(a, b) + end_move(b, a))
		;
}

static inline const struct iw_cqe *end_cqe(struct end *e)
{
	return e->cq_seen < e->ncq ? &e->cq[e->cq_seen++] : NULL;
}

#endif
