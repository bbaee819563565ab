/* SPDX-License-Identifier: MIT */
/* Queue pairs of the RNIC joined by a piece of memory instead of TCP. */
#ifndef VERBS_UTIL_H
#define VERBS_UTIL_H

#include "util.h"

#include "daemon/rnic/rnic.h"
#include "proto/wire.h"

struct vqp {
	struct rnic_qp *qp;
	unsigned int events[8];
	uint32_t invalidated;
	bool gone;		/* it sent or received a Terminate */
};

static inline void vqp_event(void *ctx, enum iw_qp_event ev)
{
	struct vqp *v = ctx;

	v->events[ev]++;
	v->gone = v->gone || ev == IW_QP_EV_TERM_SENT || ev == IW_QP_EV_TERM_RECEIVED || ev == IW_QP_EV_LOST;
}

static inline void vqp_invalidated(void *ctx, uint32_t stag)
{
	((struct vqp *)ctx)->invalidated = stag;
}

static inline int vqp_new(struct vqp *v, struct rnic_pd *pd, struct rnic_cq *scq, struct rnic_cq *rcq, unsigned int send, unsigned int recv)
{
	struct rnic_qp_attr a = {
		.pd = pd, .send_cq = scq, .recv_cq = rcq, .max_send = send, .max_recv = recv, .event = vqp_event,
		.invalidated = vqp_invalidated, .ctx = v,
	};

	memset(v, 0, sizeof(*v));
	return rnic_qp_create(&a, &v->qp);
}

static inline void vqp_start(struct vqp *v, bool initiator)
{
	struct iw_qp_param p = { .initiator = initiator, .crc = 1, .mulpdu = 4096, .ird = 4, .ord = 4, .recv_min = 8 };

	assert_int_equal(iw_qp_start(rnic_qp_state(v->qp), &p), 0);
}

static uint8_t wire[1 << 20];

/* Everything that a has to say goes to b. Octets. */
static inline size_t flow(struct vqp *a, struct vqp *b)
{
	struct iw_qp *qa = rnic_qp_state(a->qp), *qb = rnic_qp_state(b->qp);
	size_t sum = 0, n;

	while ((n = iw_qp_tx(qa, &rnic_qp_ops, a->qp, wire, sizeof(wire), 0))) {
		iw_qp_tx_done(qa, &rnic_qp_ops, a->qp, n);
		assert_int_equal(iw_qp_rx(qb, &rnic_qp_ops, b->qp, wire, n), n);
		sum += n;
	}
	return sum;
}

static inline void exchange(struct vqp *a, struct vqp *b)
{
	while (flow(a, b) + flow(b, a))
		;
}

static inline struct rnic_cq *new_cq(struct rnic_pd *pd, unsigned int size)
{
	const struct rnic_cq_attr attr = { .size = size };
	struct rnic_cq *cq;

	assert_int_equal(rnic_cq_create(pd, &attr, &cq), 0);
	return cq;
}

static inline struct rnic_mr *new_mr(struct rnic_pd *pd, struct rnic_qp *scope, void *mem, size_t len, unsigned int access)
{
	struct rnic_mr *mr;

	assert_int_equal(rnic_mr_reg(pd, scope, mem, len, 0, access, &mr), 0);
	return mr;
}

static inline struct iw_sge sge_of(struct rnic_mr *mr, uint64_t off, uint32_t len)
{
	return (struct iw_sge){ .stag = rnic_mr_stag(mr), .to = rnic_mr_to(mr) + off, .len = len };
}

static inline int post_recv(struct vqp *v, uint64_t id, struct rnic_mr *mr, uint64_t off, uint32_t len)
{
	struct iw_sge sge = sge_of(mr, off, len);

	return rnic_post_recv(v->qp, id, &sge);
}

static inline int post_text(struct vqp *v, uint64_t id, const char *text, unsigned int flags)
{
	struct iw_wr wr = { .wr_id = id, .op = IW_WR_SEND, .flags = (uint8_t)(IW_WR_INLINE | flags), .inl_len = (uint8_t)strlen(text) };

	memcpy(wr.inl, text, wr.inl_len);
	return rnic_post_send(v->qp, &wr);
}

#endif
