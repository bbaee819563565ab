// SPDX-License-Identifier: MIT
/* Queue pair: state, posting, completion in order, and the ways a stream ends. */
#include "qp.h"

#include <errno.h>
#include <string.h>

#include "qp_priv.h"

static_assert((IW_QP_SQ & (IW_QP_SQ - 1)) == 0 && (IW_QP_RQ & (IW_QP_RQ - 1)) == 0, "queues");
static_assert((IW_QP_IRD & (IW_QP_IRD - 1)) == 0 && (IW_QP_ORD & (IW_QP_ORD - 1)) == 0, "queues");

#define RECV_MIN 8u	/* Immediate Data eats a buffer of at least its own size (EXT-6.3-03) */

void iw_qp_init(struct iw_qp *qp)
{
	/* entries of the queues are written before they are read: they touch the pages that they need */
	memset(&qp->rq_one, 0, sizeof(*qp) - offsetof(struct iw_qp, rq_one));
	qp->version = IW_QP_VERSION;
	for (unsigned int i = 0; i < IW_QN_COUNT; i++)
		qp->tx_msn[i] = qp->rx_msn[i] = 1;
	qp->tx_rid = 1;
	qp->param.recv_min = RECV_MIN;
}

static bool param_ok(const struct iw_qp_param *p)
{
	return p->mulpdu >= IW_MULPDU_MIN && p->mulpdu <= IW_MULPDU_MAX && p->ird <= IW_QP_IRD && p->ord <= IW_QP_ORD &&
	       p->rtr <= IW_RTR_SEND && (p->initiator || !p->rtr) && p->recv_min >= RECV_MIN;
}

int iw_qp_start(struct iw_qp *qp, const struct iw_qp_param *p)
{
	if (qp->state != IW_QP_IDLE || !param_ok(p))
		return -EINVAL;
	for (uint32_t i = qp->rq_tail; i != qp->rq_head; i++)
		if (iw_rqe(qp, i)->sge.len < p->recv_min)
			return -EINVAL;
	qp->param = *p;
	qp->rtr_due = p->rtr;
	qp->state = IW_QP_RTS;
	return 0;
}

void iw_qp_set_mulpdu(struct iw_qp *qp, uint16_t mulpdu)
{
	if (mulpdu < IW_MULPDU_MIN)
		mulpdu = IW_MULPDU_MIN;
	if (mulpdu > IW_MULPDU_MAX)
		mulpdu = IW_MULPDU_MAX;
	qp->param.mulpdu = mulpdu;
}

void iw_qp_sq_shut(struct iw_qp *qp)
{
	qp->sq_shut = 1;
}

/* Octets of the message a work request stands for, or -EINVAL, -EMSGSIZE. */
static int64_t wr_len(const struct iw_wr *wr)
{
	uint64_t len = 0;

	switch (wr->op) {
	case IW_WR_SEND:
		if (wr->flags & IW_WR_INLINE && wr->inl_len > IW_WR_INLINE_MAX)
			return -EINVAL;
		len = wr->flags & IW_WR_INLINE ? wr->inl_len : 0;
		break;
	case IW_WR_WRITE:
		break;
	case IW_WR_READ:
		if (wr->nsge > 1)
			return -EINVAL;
		break;
	case IW_WR_IMM:
		return wr->nsge ? -EINVAL : (int64_t)IW_IMM_LEN;
	case IW_WR_FETCHADD:
	case IW_WR_CMPSWAP:
		return wr->nsge ? -EINVAL : 8;
	default:
		return -EINVAL;
	}
	if (wr->nsge > IW_QP_SGE)
		return -EINVAL;
	for (unsigned int i = 0; i < wr->nsge; i++)
		len += wr->sge[i].len;
	return len > UINT32_MAX ? -EMSGSIZE : (int64_t)len;
}

int iw_qp_post_send(struct iw_qp *qp, const struct iw_wr *wr)
{
	struct iw_sqe *e;
	int64_t len;

	if (qp->state != IW_QP_RTS || qp->sq_shut)
		return -ENOTCONN;
	len = wr_len(wr);
	if (len < 0)
		return (int)len;
	if ((wr->flags & IW_WR_SE && wr->op != IW_WR_SEND && wr->op != IW_WR_IMM) ||
	    (wr->flags & (IW_WR_INVALIDATE | IW_WR_INLINE) && wr->op != IW_WR_SEND))
		return -EINVAL;
	if (iw_op_is_read(wr->op) && !qp->param.ord)
		return -EINVAL;		/* would never leave */
	if (!iw_qp_sq_free(qp))
		return -EAGAIN;
	e = iw_sqe(qp, qp->sq_head);
	memcpy(&e->wr, wr, offsetof(struct iw_wr, inl) + (wr->flags & IW_WR_INLINE ? wr->inl_len : 0));	/* few have any */
	e->end = e->orig = 0;
	e->len = (uint32_t)len;
	e->st = IW_SQE_QUEUED;
	e->status = IW_WC_OK;
	qp->sq_head++;
	return 0;
}

int iw_qp_post_recv(struct iw_qp *qp, uint64_t wr_id, const struct iw_sge *sge)
{
	struct iw_rqe *e;

	if (qp->state != IW_QP_RTS && qp->state != IW_QP_IDLE)
		return -ENOTCONN;
	if (sge->len < qp->param.recv_min || sge->to > UINT64_MAX - sge->len)
		return -EINVAL;
	if (qp->rq_head - qp->rq_tail == IW_QP_RQ)
		return -EAGAIN;
	e = iw_rqe(qp, qp->rq_head);
	e->wr_id = wr_id;
	e->sge = *sge;
	qp->rq_head++;
	return 0;
}

static bool sqe_done(const struct iw_qp *qp, const struct iw_sqe *e)
{
	if (iw_op_is_read(e->wr.op))
		return e->st == IW_SQE_DONE;
	return e->st == IW_SQE_FRAMED && qp->tx_acked >= e->end;
}

/* Takes the oldest entry off the queue before the owner hears of it: it may post from its callback. */
static void complete_one(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, uint8_t status)
{
	const struct iw_sqe *e = iw_sqe(qp, qp->sq_tail);
	struct iw_cqe cqe = { .wr_id = e->wr.wr_id, .op = e->wr.op, .status = status, .len = e->len, .orig = e->orig };
	bool quiet = e->wr.flags & IW_WR_QUIET && status == IW_WC_OK;

	qp->sq_tail++;
	if (qp->sq_tail == qp->sq_head)		/* empty: back to the first pages */
		qp->sq_head = qp->sq_next = qp->sq_tail = 0;
	if (!quiet)
		ops->complete(ctx, &cqe);
}

void iw_qp_complete_sq(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx)
{
	while (qp->state == IW_QP_RTS && qp->sq_tail != qp->sq_head && sqe_done(qp, iw_sqe(qp, qp->sq_tail)))
		complete_one(qp, ops, ctx, IW_WC_OK);
}

void iw_qp_flush(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx)
{
	qp->ord_head = qp->ord_tail = qp->ird_head = qp->ird_tail = qp->atomics = 0;
	qp->tx_cur = 0;
	qp->rx_mo[IW_QN_SEND] = 0;	/* goes with its buffer */
	while (qp->sq_tail != qp->sq_head) {
		const struct iw_sqe *e = iw_sqe(qp, qp->sq_tail);

		complete_one(qp, ops, ctx, e->status ? e->status : sqe_done(qp, e) ? IW_WC_OK : IW_WC_FLUSH);
	}
	while (qp->rq_tail != qp->rq_head) {
		struct iw_cqe cqe = { .wr_id = iw_rqe(qp, qp->rq_tail)->wr_id, .op = IW_WR_RECV, .status = IW_WC_FLUSH };

		qp->rq_tail++;
		ops->complete(ctx, &cqe);
	}
}

static void terminate(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, bool send)
{
	qp->state = send ? IW_QP_TERMINATE : IW_QP_CLOSING;
	qp->term_due = send;
	ops->event(ctx, IW_QP_EV_TERM_SENT);
	iw_qp_flush(qp, ops, ctx);
}

void iw_qp_fail(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, enum iw_terr e, const struct iw_quoted *q)
{
	if (qp->state != IW_QP_RTS)
		return;		/* the first error is the one reported (RDMAP-7.1-05) */
	iw_term_set(&qp->term, e, q);
	terminate(qp, ops, ctx, true);
}

void iw_qp_terminate(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, uint8_t layer, uint8_t etype, uint8_t code)
{
	if (qp->state != IW_QP_RTS)
		return;
	memset(&qp->term, 0, sizeof(qp->term));
	qp->term.layer = layer;
	qp->term.etype = etype;
	qp->term.code = code;
	/* a Responder that has seen no FPDU may not send one (MPA-7.1.2-05): the peer will find the connection closed */
	terminate(qp, ops, ctx, qp->param.initiator || qp->first_seen);
}

static bool message_open(struct iw_qp *qp)
{
	if (qp->write_open || (qp->ord_head != qp->ord_tail && iw_ore(qp, qp->ord_tail)->open))
		return true;
	for (unsigned int i = 0; i < IW_QN_COUNT; i++)
		if (qp->rx_open[i])
			return true;
	return false;
}

void iw_qp_rx_eof(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, size_t left)
{
	if (qp->state != IW_QP_RTS || qp->rx_eof)
		return;
	if (left || message_open(qp)) {
		iw_qp_lost(qp, ops, ctx, EPROTO);
		return;
	}
	qp->rx_eof = 1;
	ops->event(ctx, IW_QP_EV_EOF);
}

void iw_qp_lost(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, int err)
{
	bool known = qp->state != IW_QP_RTS && qp->state != IW_QP_IDLE;

	qp->state = IW_QP_ERROR;
	qp->term_due = 0;
	if (known)
		return;		/* the owner heard of the end before, and everything was flushed */
	qp->err = err;
	iw_term_set(&qp->term, IW_TE_LLP_LOST, NULL);
	ops->event(ctx, IW_QP_EV_LOST);
	iw_qp_flush(qp, ops, ctx);
}

void iw_qp_end(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx)
{
	if (qp->state != IW_QP_RTS && qp->state != IW_QP_IDLE)
		return;		/* flushed when that state was entered */
	qp->state = IW_QP_CLOSING;
	iw_qp_flush(qp, ops, ctx);
}
