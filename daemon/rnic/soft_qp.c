// SPDX-License-Identifier: MIT
/* The soft endpoint: its queue pair, and what that tells. */
#include "soft_qp.h"

#include <errno.h>

#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "soft_cut.h"
#include "soft_priv.h"

static void on_completed(void *ctx)
{
	struct soft *c = ctx;
	struct rnic_wc wc[16];
	int n;

	if (!c->cq || c->polling)
		return;
	c->polling = true;
	while ((n = rnic_cq_poll(c->cq, wc, 16)) > 0) {
		for (int i = 0; i < n && !c->detached; i++)
			c->ep.ulp->complete(c->ep.ctx, &wc[i].cqe);
	}
	c->polling = false;
}

static void on_invalidated(void *ctx, uint32_t stag)
{
	struct soft *c = ctx;

	if (!c->detached && c->ep.ulp->invalidated)
		c->ep.ulp->invalidated(c->ep.ctx, stag);
}

static void terminate_log(const struct soft *c, const char *what)
{
	const struct iw_term *t = &c->s->qp.term;

	soft_log(c, LOG_WARNING, "Terminate %s: layer %u, type %u, code 0x%02x (%s)%s", what, t->layer, t->etype, t->code,
		 iw_term_text(t->layer, t->etype, t->code), t->cut || t->bad ? ", malformed" : "");
}

static void on_event(void *ctx, enum iw_qp_event ev)
{
	static const enum endpoint_event events[] = {
		[IW_QP_EV_FIRST_FPDU] = ENDPOINT_EV_FIRST, [IW_QP_EV_TERM_SENT] = ENDPOINT_EV_TERM_SENT,
		[IW_QP_EV_TERM_RECEIVED] = ENDPOINT_EV_TERM_RECEIVED, [IW_QP_EV_EOF] = ENDPOINT_EV_EOF, [IW_QP_EV_LOST] = ENDPOINT_EV_LOST,
	};
	struct soft *c = ctx;

	if (!c->detached && c->ep.ulp->event)
		c->ep.ulp->event(c->ep.ctx, events[ev]);
	switch (ev) {
	case IW_QP_EV_FIRST_FPDU:
		if (!c->s->closing)
			timer_stop(&c->timer);
		break;
	case IW_QP_EV_TERM_SENT:
	case IW_QP_EV_TERM_RECEIVED:
		terminate_log(c, ev == IW_QP_EV_TERM_SENT ? "sent" : "received");
		soft_fail(c, EPROTO);
		timer_start(&c->timer, conf.close_timeout, soft_timeout);
		if (ev == IW_QP_EV_TERM_RECEIVED)
			soft_cut(c);
		soft_kick(c);
		break;
	case IW_QP_EV_LOST:
		soft_fail(c, c->s->qp.err && c->s->qp.err != EPROTO ? c->s->qp.err : ECONNRESET);
		soft_finish(c, true);
		break;
	case IW_QP_EV_EOF:
		break;	/* soft_rx.c decides */
	}
}

static void on_posted(void *ctx)
{
	soft_kick(ctx);
}

/*
 * The endpoint's own completion queue has twice the room that its work requests need: its callbacks post anew what they have just been given,
 * while the rest of a batch, and what a flush brings, is still in it.
 */
int soft_qp_make(struct soft *c, const struct endpoint_attr *a, const struct soft_queues *q)
{
	const struct rnic_cq_attr cq = { .size = SOFT_CQES, .flags = a->flags };
	struct rnic_qp_attr attr = {
		.pd = a->pd, .state = &c->s->qp, .send_cq = q->send_cq, .recv_cq = q->recv_cq, .max_send = q->max_send, .max_recv = q->max_recv,
		.max_reads = SOFT_READS, .flags = a->flags, .event = on_event, .invalidated = on_invalidated, .posted = on_posted,
		.completed = on_completed, .ctx = c,
	};
	int ret;

	if (!q->send_cq) {
		ret = rnic_cq_create(a->pd, &cq, &c->cq);
		if (ret)
			return ret;
		attr.send_cq = attr.recv_cq = c->cq;
	}
	ret = rnic_qp_create(&attr, &c->qp);
	if (ret)
		rnic_cq_destroy(c->cq);
	return ret;
}
