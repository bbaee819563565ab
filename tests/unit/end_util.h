/* SPDX-License-Identifier: MIT */
/*
 * The state of one end of a stream in memory of its own, started and in Full Operation, as a daemon has it when it maps it; and that state worked
 * as the daemon does, by queue pair and ring stream without a map.
 */
#ifndef TESTS_END_UTIL_H
#define TESTS_END_UTIL_H

#include <stdlib.h>
#include <string.h>

#include "proto/end.h"
#include "kept.h"

#define E_TX	0x100u
#define E_RX	0x200u
#define E_RD	0x300u
#define E_RQ	0x400u

struct priv {
	struct iw_map_priv p;		/* each by itself, so that a sanitizer sees their ends */
	uint8_t *tx_ring;
	struct iw_map *map;
	uint64_t map_len;
	bool eof, lost;			/* what the queue pair has said */
	/* for a peer's Reads, as daemon/stream/remote_rs.c has it */
	struct { uint32_t stag, len; uint64_t off; } exposed[IW_RS_SA];
	uint32_t next_stag;
};

struct priv_param {
	struct iw_rs_param rs;
	struct iw_qp_param qp;		/* initiator and Markers are those of side 0 */
	bool large;
};

static inline struct priv_param priv_default(void)
{
	return (struct priv_param){
		.rs = {
			.tx_len = 1u << 20, .rx_len = 1u << 20, .rd_len = 1u << 20, .tx_stag = E_TX, .rx_stag = E_RX, .rd_stag = E_RD, .rq_stag = E_RQ,
			.tx_to = 0x10000000, .rx_to = 0x20000000, .rd_to = 0x30000000, .rq_to = 0x40000000, .bufs = 256, .buf_size = 576, .rq_step = 576,
			.inline_max = 512, .srcavail_min = 256u << 10, .read_max = 256u << 10,
			.caps = IW_RS_CAP_IMM | IW_RS_CAP_SRCAVAIL | IW_RS_CAP_SENDINV | IW_RS_CAP_LARGE,
		},
		.qp = { .crc = 1, .mulpdu = 64768, .ird = 8, .ord = 8, .recv_min = 8 },
		.large = true,
	};
}

/* ---- the plain composition ---- */

static inline int priv_post_send(void *ctx, const struct iw_wr *wr)
{
	return iw_qp_post_send(&((struct priv *)ctx)->p.s->qp, wr);
}

static inline int priv_post_recv(void *ctx, uint64_t wr_id, const struct iw_sge *sge)
{
	return iw_qp_post_recv(&((struct priv *)ctx)->p.s->qp, wr_id, sge);
}

static inline unsigned int priv_sq_free(void *ctx)
{
	return iw_qp_sq_free(&((struct priv *)ctx)->p.s->qp);
}

static inline void *priv_mem(void *ctx, uint32_t stag, uint64_t to, size_t len)
{
	const struct priv *v = ctx;
	const struct iw_rs_param *p = &v->p.f->p;
	const struct { uint32_t stag; uint64_t to, len; uint8_t *mem; } a[] = {
		{ p->tx_stag, p->tx_to, p->tx_len, v->tx_ring }, { p->rx_stag, p->rx_to, p->rx_len, v->p.rx_ring },
		{ p->rd_stag, p->rd_to, p->rd_len, v->p.rd }, { p->rq_stag, p->rq_to, iw_rs_rq_len(p), v->p.rq },
	};

	for (unsigned int i = 0; i < 4; i++)
		if (a[i].stag == stag && to >= a[i].to && len <= a[i].len && to - a[i].to <= a[i].len - len)
			return a[i].mem + (to - a[i].to);
	return NULL;
}

static inline int priv_expose(void *ctx, uint64_t off, uint32_t len, uint32_t *stag, uint64_t *to)
{
	struct priv *v = ctx;

	for (unsigned int i = 0; i < IW_RS_SA; i++) {
		if (v->exposed[i].stag)
			continue;
		*stag = v->exposed[i].stag = 0x1000 + v->next_stag++;
		v->exposed[i].len = len;
		*to = v->exposed[i].off = off;
		return 0;
	}
	return -1;
}

static inline void priv_unexpose(void *ctx, uint32_t stag)
{
	struct priv *v = ctx;

	for (unsigned int i = 0; i < IW_RS_SA; i++)
		if (v->exposed[i].stag == stag)
			v->exposed[i].stag = 0;
}

static inline void priv_rs_event(void *ctx, enum iw_rs_event ev)
{
	struct priv *v = ctx;

	if (ev == IW_RS_EV_ABORT)
		v->p.f->ev_abort = 1;
	else if (ev == IW_RS_EV_DONE)
		v->p.f->ev_done = 1;
}

static const struct iw_rs_ops priv_rs_ops = {
	.post_send = priv_post_send, .post_recv = priv_post_recv, .sq_free = priv_sq_free, .mem = priv_mem, .expose = priv_expose,
	.unexpose = priv_unexpose, .event = priv_rs_event,
};

static inline enum iw_access_err priv_access(void *ctx, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	struct priv *v = ctx;

	if (right == IW_ACCESS_REMOTE_READ) {
		for (unsigned int i = 0; i < IW_RS_SA; i++) {
			if (v->exposed[i].stag != stag || !stag)
				continue;
			if (to < v->exposed[i].off || len > v->exposed[i].len || to - v->exposed[i].off > v->exposed[i].len - len)
				return IW_ACC_BOUNDS;
			*ptr = v->tx_ring + to;
			return IW_ACC_OK;
		}
		return IW_ACC_STAG;
	}
	*ptr = priv_mem(v, stag, to, (size_t)len);
	return *ptr ? IW_ACC_OK : IW_ACC_BOUNDS;
}

static inline enum iw_access_err priv_invalidate(void *ctx, uint32_t stag)
{
	priv_unexpose(ctx, stag);
	return IW_ACC_OK;
}

static inline void priv_complete(void *ctx, const struct iw_cqe *cqe)
{
	iw_rs_complete(&((struct priv *)ctx)->p.f->rs, &priv_rs_ops, ctx, cqe);
}

static inline void priv_event(void *ctx, enum iw_qp_event ev)
{
	struct priv *v = ctx;

	v->eof |= ev == IW_QP_EV_EOF;
	v->lost |= ev != IW_QP_EV_EOF && ev != IW_QP_EV_FIRST_FPDU;
}

static const struct iw_qp_ops priv_qp_ops = {
	.access = priv_access, .invalidate = priv_invalidate, .complete = priv_complete, .event = priv_event,
};

/* As daemon/rnic/soft_tx.c frames: into tx[0], and tx[1] behind it. */
static inline void priv_frame(struct priv *v)
{
	struct iw_soft *s = v->p.s;

	iw_rs_pump(&v->p.f->rs, &priv_rs_ops, v);
	while (!s->tx[1].used && iw_qp_tx_pending(&s->qp)) {
		struct iw_soft_tx b = { .pos = s->qp.tx_pos, .buf = s->tx[0].used ? !s->tx[0].buf : 0, .used = 1 };

		b.len = (uint32_t)iw_qp_tx(&s->qp, &priv_qp_ops, v, s->txbuf[b.buf], IW_SOFT_TX, 0);
		if (!b.len)
			return;
		s->tx[s->tx[0].used ? 1 : 0] = b;
	}
}

/* ---- making ---- */

static inline void priv_new(struct priv *v, const struct priv_param *pp, const struct priv_param *peer, bool initiator)
{
	const struct iw_rs_param *p = &pp->rs;
	struct iw_qp_param qp = pp->qp;
	struct iw_rs scratch;
	struct iw_rs_pd pd = { 0 };

	memset(v, 0, sizeof(*v));
	v->p.f = calloc(1, sizeof(*v->p.f));
	v->p.s = kept_get(sizeof(*v->p.s));
	memset(v->p.s, 0, offsetof(struct iw_soft, rx));
	v->p.rq = kept_get(iw_rs_rq_len(p));
	v->p.rd = kept_get(p->rd_len);
	v->p.rx_ring = kept_get(p->rx_len);
	v->p.tx = v->tx_ring = kept_get(p->tx_len);
	*v->p.f = (struct iw_remote){ .magic = IW_REMOTE_MAGIC, .version = IW_REMOTE_VERSION, .running = 1, .p = *p };
	v->p.s->magic = IW_SOFT_MAGIC;
	v->p.s->version = IW_SOFT_VERSION;
	v->p.s->size = sizeof(*v->p.s);
	v->p.s->large = pp->large;
	iw_qp_init(&v->p.s->qp);
	iw_rs_init(&v->p.f->rs, p, &pd);
	iw_rs_post_all(&v->p.f->rs, &priv_rs_ops, v);
	qp.initiator = initiator;
	if (!initiator) {
		qp.tx_markers = pp->qp.rx_markers;
		qp.rx_markers = pp->qp.tx_markers;
	}
	if (iw_qp_start(&v->p.s->qp, &qp))
		abort();
	v->p.s->qp.first_seen = 1;	/* the RTR */
	iw_rs_init(&scratch, &peer->rs, &pd);
	if (iw_rs_start(&v->p.f->rs, &pd))
		abort();
	iw_rs_depths(&v->p.f->rs, qp.ird, qp.ord);
	v->map_len = iw_map_size(p);
	v->map = kept_get(v->map_len);
	memset(v->map, 0, v->map_len);
}

static inline void priv_free(struct priv *v)
{
	free(v->p.f);
	kept_put(v->p.s);
	kept_put(v->p.rq);
	kept_put(v->p.rd);
	kept_put(v->p.rx_ring);
	kept_put(v->tx_ring);
	kept_put(v->map);
}

#endif
