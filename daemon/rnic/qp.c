/* SPDX-License-Identifier: MIT */
/* Queue pairs: posting, and what the protocol engine below asks and tells. */
#include "qp_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "mr_priv.h"
#include "pd_priv.h"

/* The one place that knows that completions are told after every call of the engine, and before what the engine tells meanwhile. */
static void completed(struct rnic_qp *qp)
{
	if (qp->attr.completed)
		qp->attr.completed(qp->attr.ctx);
}

/* ---- what the protocol engine asks ---- */

static enum iw_access_err qp_access(void *ctx, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	return mr_access(ctx, stag, to, len, right, ptr);
}

static enum iw_access_err qp_invalidate(void *ctx, uint32_t stag)
{
	struct rnic_qp *qp = ctx;
	enum iw_access_err e = mr_invalidate(qp, stag);

	if (e != IW_ACC_OK)
		return e;
	completed(qp);
	if (qp->attr.invalidated)
		qp->attr.invalidated(qp->attr.ctx, stag);
	return e;
}

static void qp_complete(void *ctx, const struct iw_cqe *cqe)
{
	struct rnic_qp *qp = ctx;

	cq_push(cqe->op == IW_WR_RECV ? qp->attr.recv_cq : qp->attr.send_cq, qp, cqe);
}

static void qp_event(void *ctx, enum iw_qp_event ev)
{
	struct rnic_qp *qp = ctx;

	completed(qp);
	if (qp->attr.event)
		qp->attr.event(qp->attr.ctx, ev);
}

const struct iw_qp_ops rnic_qp_ops = {
	.access = qp_access,
	.invalidate = qp_invalidate,
	.complete = qp_complete,
	.event = qp_event,
};

/* ---- the octets ---- */

size_t rnic_qp_rx(struct rnic_qp *qp, uint8_t *in, size_t len)
{
	size_t n = iw_qp_rx(qp->state, &rnic_qp_ops, qp, in, len);

	completed(qp);
	return n;
}

void rnic_qp_rx_eof(struct rnic_qp *qp, size_t left)
{
	iw_qp_rx_eof(qp->state, &rnic_qp_ops, qp, left);
	completed(qp);
}

size_t rnic_qp_tx(struct rnic_qp *qp, uint8_t *out, size_t cap)
{
	size_t n = iw_qp_tx(qp->state, &rnic_qp_ops, qp, out, cap, 0);

	completed(qp);
	return n;
}

void rnic_qp_tx_done(struct rnic_qp *qp, size_t n)
{
	iw_qp_tx_done(qp->state, &rnic_qp_ops, qp, n);
	completed(qp);
}

void rnic_qp_lost(struct rnic_qp *qp, int err)
{
	iw_qp_lost(qp->state, &rnic_qp_ops, qp, err);
	completed(qp);
}

void rnic_qp_end(struct rnic_qp *qp)
{
	iw_qp_end(qp->state, &rnic_qp_ops, qp);
	completed(qp);
}

void rnic_qp_terminate(struct rnic_qp *qp, uint8_t layer, uint8_t etype, uint8_t code)
{
	iw_qp_terminate(qp->state, &rnic_qp_ops, qp, layer, etype, code);
	completed(qp);
}

/* ---- posting ---- */

static int qp_postable(const struct rnic_qp *qp)
{
	return cq_dead(qp->attr.send_cq) || cq_dead(qp->attr.recv_cq) ? -EOVERFLOW : 0;
}

int rnic_post_send(struct rnic_qp *qp, const struct iw_wr *wr)
{
	int ret = qp_postable(qp);

	if (!ret && qp->state->sq_head - qp->state->sq_tail >= qp->attr.max_send)
		ret = qp->state->state == IW_QP_RTS ? -EAGAIN : -ENOTCONN;
	if (!ret)
		ret = iw_qp_post_send(qp->state, wr);
	if (!ret && qp->attr.posted)
		qp->attr.posted(qp->attr.ctx);
	return ret;
}

int rnic_post_recv(struct rnic_qp *qp, uint64_t wr_id, const struct iw_sge *sge)
{
	int ret = qp_postable(qp);

	if (!ret && qp->state->rq_head - qp->state->rq_tail >= qp->attr.max_recv)
		ret = qp->state->state == IW_QP_RTS || qp->state->state == IW_QP_IDLE ? -EAGAIN : -ENOTCONN;
	return ret ? ret : iw_qp_post_recv(qp->state, wr_id, sge);
}

unsigned int rnic_send_room(const struct rnic_qp *qp)
{
	return qp->attr.max_send - (qp->state->sq_head - qp->state->sq_tail);
}

/* ---- life ---- */

static int attr_check(struct rnic_qp_attr *a)
{
	if (!a->pd || !a->send_cq || !a->recv_cq || a->max_send > IW_QP_SQ || a->max_recv > IW_QP_RQ)
		return -EINVAL;
	if (!a->max_send)
		a->max_send = IW_QP_SQ;
	if (!a->max_recv)
		a->max_recv = IW_QP_RQ;
	return 0;
}

/* A mapping of its own: pages of queues that a quiet connection never reaches stay untouched. */
static struct iw_qp *state_new(void)
{
	void *p = mmap(NULL, sizeof(struct iw_qp), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void qp_free(struct rnic_qp *qp)
{
	if (!qp->attr.state && qp->state)
		munmap(qp->state, sizeof(*qp->state));
	free(qp);
}

int rnic_qp_create(const struct rnic_qp_attr *attr, struct rnic_qp **out)
{
	struct rnic_qp *qp = calloc(1, sizeof(*qp));
	int ret;

	if (!qp)
		return -ENOMEM;
	qp->attr = *attr;
	ret = attr_check(&qp->attr);
	if (ret)
		goto err_qp;
	qp->state = attr->state ? attr->state : state_new();
	ret = qp->state ? 0 : -ENOMEM;
	if (ret)
		goto err_qp;
	ret = cq_join(qp->attr.send_cq, &qp->use[0], qp, qp->attr.max_send);
	if (ret)
		goto err_qp;
	ret = cq_join(qp->attr.recv_cq, &qp->use[1], qp, qp->attr.max_recv);
	if (ret)
		goto err_send;
	if (!(attr->flags & RNIC_PREPAID)) {
		ret = prm_take_one(attr->pd->user, PRM_READS, attr->max_reads);
		if (ret)
			goto err_recv;
	}
	attr->pd->refs++;
	if (!(attr->flags & RNIC_GOES_ON))
		iw_qp_init(qp->state);
	*out = qp;
	return 0;
err_recv:
	cq_leave(qp->attr.recv_cq, &qp->use[1], qp->attr.max_recv);
err_send:
	cq_leave(qp->attr.send_cq, &qp->use[0], qp->attr.max_send);
err_qp:
	qp_free(qp);
	return ret;
}

int rnic_qp_start(struct rnic_qp *qp, const struct iw_qp_param *p)
{
	if (qp_postable(qp))
		return -EOVERFLOW;
	if (p->ird > qp->attr.max_reads || p->ord > qp->attr.max_reads - p->ird)
		return -EINVAL;		/* SEC-P02 */
	return iw_qp_start(qp->state, p);
}

void rnic_qp_destroy(struct rnic_qp *qp)
{
	struct rnic_pd *pd;

	if (!qp)
		return;
	while (qp->mrs)
		rnic_mr_dereg(qp->mrs);
	cq_leave(qp->attr.send_cq, &qp->use[0], qp->attr.max_send);
	cq_leave(qp->attr.recv_cq, &qp->use[1], qp->attr.max_recv);
	pd = qp->attr.pd;
	if (!(qp->attr.flags & RNIC_PREPAID))
		prm_give_one(pd->user, PRM_READS, qp->attr.max_reads);
	qp_free(qp);
	rnic_pd_put(pd);
}

void *rnic_qp_ctx(const struct rnic_qp *qp)
{
	return qp->attr.ctx;
}

struct rnic_pd *rnic_qp_pd(const struct rnic_qp *qp)
{
	return qp->attr.pd;
}

struct iw_qp *rnic_qp_state(struct rnic_qp *qp)
{
	return qp->state;
}
