// SPDX-License-Identifier: MIT
/*
 * A device was lost under a stream, which goes on by T: each end says there how many Sends have come by the device, when nothing more can; the other end
 * sends what is behind them again, and from then on everything. Writes before a Send that has not come are made again, too: nobody has looked at what
 * they put, and what they take is still there (ENDPOINT_KEEPS). tests/beside.pml is the model of it.
 */
#include "verbs_priv.h"

#include <errno.h>
#include <string.h>

#define TOLD	UINT64_MAX
#define AGAIN	(UINT64_C(1) << 63)	/* wr_id: posted again, with its place in v->sent */

bool verbs_lost(const struct verbs *v)
{
	return v->chosen && v->open && !v->over && !v->judged && v->state == VERBS_GONE && !v->on_t && v->soft && !v->soft_closing && !v->eof;
}

/* Ends it, as if there was no T. */
static void doubt(struct verbs *v, const char *why)
{
	log_info("device: what has come by it is in doubt: %s, beside %s", why, iw_tuple_text(&v->t));
	v->judged = true;
	verbs_kick(v);
}

static void tell(struct verbs *v)
{
	struct iw_wr wr = { .wr_id = TOLD, .op = IW_WR_IMM, .flags = IW_WR_SE | IW_WR_QUIET };

	if (!(endpoint_caps(v->soft) & ENDPOINT_IMM)) {
		doubt(v, "the other end takes no Immediate Data");
		return;
	}
	iw_beside_lost_encode(v->came, wr.imm);
	v->told = !endpoint_post_send(v->soft, &wr);	/* else when the Responder may send; or T is over, which is told */
}

/* Does it go again? A Send that the other end does not have, or a Write before one. */
static bool missing(const struct verbs *v, const struct verbs_sent *s)
{
	return v->sends - s->before <= v->sends - v->theirs;
}

static void post_again(struct verbs *v)
{
	while (v->next != v->head && endpoint_send_room(v->soft)) {
		const struct verbs_sent *s = &v->sent[v->next % VERBS_LOG];
		struct iw_wr wr = {
			.wr_id = AGAIN | v->next, .op = s->op, .flags = s->flags & ~IW_WR_QUIET, .nsge = s->nsge, .inl_len = s->inl_len, .rstag = s->rstag,
			.rto = s->rto,
		};

		memcpy(wr.sge, s->sge, s->nsge * sizeof(s->sge[0]));
		memcpy(wr.inl, s->inl, s->inl_len);
		if (endpoint_post_send(v->soft, &wr))
			return;		/* T is over, which is told */
		v->next++;
	}
	if (v->next != v->head)
		return;
	v->ep.ulp->event(v->ep.ctx, ENDPOINT_EV_FIRST);		/* it may send what is new */
	verbs_kick(v);
}

static void go_on(struct verbs *v)
{
	v->next = v->head > VERBS_LOG ? v->head - VERBS_LOG : 0;
	if (v->sends - v->theirs > VERBS_RECV || (v->next && missing(v, &v->sent[v->next % VERBS_LOG]))) {
		doubt(v, "the other end counts otherwise");
		return;
	}
	while (v->next != v->head && !missing(v, &v->sent[v->next % VERBS_LOG]))
		v->next++;
	log_info("device: lost, %s goes on by TCP, %u Sends again", iw_tuple_text(&v->t), v->sends - v->theirs);
	timer_stop(&v->timer);
	device_carries_no_more(&v->user);
	v->on_t = true;
	while (v->tail < v->next)
		verbs_was_sent(v);
	post_again(v);
}

void verbs_turn_to_t(struct verbs *v)
{
	if (verbs_lost(v) && !v->told)
		tell(v);
	if (verbs_lost(v) && v->told && v->heard)
		go_on(v);
}

/* In the order posted, and before what was posted since. */
static void again_done(struct verbs *v, const struct iw_cqe *c)
{
	uint64_t i = c->wr_id & ~AGAIN;
	const struct verbs_sent *s = &v->sent[i % VERBS_LOG];
	struct iw_cqe e = *c;

	if (i >= v->tail) {
		v->tail = i + 1;
		e.wr_id = s->wr_id;
		if (c->status || !(s->flags & IW_WR_QUIET))
			verbs_deliver(v, &e);
	}
	if (v->next != v->head && !v->over && v->soft)
		post_again(v);
}

/* Nothing but this is used of what comes on T before. */
static void hear(struct verbs *v, const struct iw_cqe *c)
{
	if (c->op != IW_WR_RECV || c->status || !c->has_imm || v->heard || iw_beside_lost_decode(&v->theirs, c->imm))
		return;
	v->heard = true;
	for (unsigned int i = 0; i < v->nrecv; i++)
		if (v->recv[i].wr_id == c->wr_id)
			endpoint_post_recv(v->soft, c->wr_id, &v->recv[i].sge);
	v->broken |= v->state == VERBS_UP;
	verbs_kick(v);
	verbs_turn_to_t(v);	/* who was told goes on at once, and what it sends again may be the next */
}

void verbs_complete_on_t(struct verbs *v, const struct iw_cqe *c)
{
	if (!v->on_t)
		hear(v, c);
	else if (c->op != IW_WR_RECV && c->wr_id == TOLD)
		return;
	else if (c->op != IW_WR_RECV && c->wr_id & AGAIN)
		again_done(v, c);
	else
		verbs_deliver(v, c);
}
