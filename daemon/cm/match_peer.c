// SPDX-License-Identifier: MIT
/* What becomes of proposals whose other end is another host's: what the two daemons ask each other about it. */
#include "match_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/net/peers.h"
#include "daemon/session/session.h"
#include "book.h"
#include "pace.h"
#include "switch.h"

#define NOTES	16u	/* to other daemons, not answered yet */

/* A question to the other host's daemon. Without one the other end is not known. */
struct question {
	struct sess_ask ask;
	struct proposal *p;
	struct work refused;		/* HOLD */
};

/* ---- what this host's daemon asks ---- */

static void drop(struct question **slot)
{
	struct question *q = *slot;

	if (!q)
		return;
	*slot = NULL;
	work_cancel(&q->refused);
	sess_ask_cancel(&q->ask);
	free(q);
}

static struct question *question_new(struct proposal *p, enum iw_sm_type type, void (*fn)(struct sess_ask *q, const struct iw_sm *m, enum iw_reason reason))
{
	struct question *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	q->p = p;
	q->ask.fn = fn;
	q->ask.m = (struct iw_sm){ .type = type, .a = p->t.local, .b = p->t.peer };
	return q;
}

static unsigned int our_flags(const struct proposal *p)
{
	return (p->state >= PROPOSAL_SWITCHED ? IW_SM_F_SWITCHED : 0) | (p->is_client ? IW_SM_F_CLIENT : 0);
}

/* One of the two has connected. */
static bool ends_agree(const struct proposal *p, unsigned int theirs)
{
	return !(theirs & IW_SM_F_CLIENT) == p->is_client;
}

/* The other end is there, and as far as it says. */
static void there(struct proposal *p, unsigned int flags)
{
	bool switched = flags & IW_SM_F_SWITCHED, went_back = p->there == THERE_SWITCHED && !switched;

	match_is_there(p);
	p->there = switched ? THERE_SWITCHED : THERE_PROPOSED;
	if (p->never)		/* it goes back, or has */
		return;
	if (went_back && p->state == PROPOSAL_SWITCHED) {
		match_wait_other(p);
	} else if (went_back) {
		match_stop(p);
	} else if (switched && p->state == PROPOSAL_SWITCHED) {
		timer_stop(&p->timer);
		p->reason = IW_REASON_TIMEOUT;	/* until they have agreed */
		agent_want_back(p, false);
		agent_upgrade(p);
	} else {
		match_go(p);
	}
}

static void answered(struct sess_ask *a, const struct iw_sm *m, enum iw_reason reason)
{
	struct question *q = container_of(a, struct question, ask);
	struct proposal *p = q->p;

	p->ask = NULL;
	free(q);
	p->asked = m;
	if (m && !p->never && (p->again || (p->said && !m->yes))) {
		match_ask(p);
		return;
	}
	if (m && m->yes && ends_agree(p, m->flags)) {
		there(p, m->flags);
		return;
	}
	p->there = THERE_NOTHING;
	if (p->pacing == PACE_WAITS)
		return;
	if (m)
		match_stop(p);
	else if (p->state == PROPOSAL_OPEN)
		pace_leave(p);
	if (!m || reason == IW_REASON_UNANSWERED)
		match_waits(p, reason);
	else
		match_give_up(p, IW_REASON_OTHER_END, m->yes ? IW_REASON_TUPLE_UNKNOWN : reason);
	if (!m)
		plain_tell(p);
}

/*
 * What was asked already is asked again when it is answered: the answers come in order, and the last is about us as we are. Where others have to lose their
 * pacing before, or it would gain nothing, or it rests and has no promise, the other daemon is told that instead, if there is a session: it asks itself, and dials, when it likes.
 */
void match_ask(struct proposal *p)
{
	bool may;

	if (p->ask) {
		p->again = true;
		return;
	}
	p->again = p->said = p->asked = false;
	p->ask = question_new(p, IW_SM_PROPOSE, answered);
	if (!p->ask)
		return;
	may = match_rested(p) ? match_may(p) : p->gain == IW_GAIN_YES;
	p->ask->ask.m.flags = (uint8_t)our_flags(p);
	p->ask->ask.m.reason = may ? 0 : IW_REASON_NO_GAIN;
	sess_ask(&p->ask->ask, may ? p->uid : SESS_NO_DIAL);
}

/* So that the other end's user learns why. Who says so may be anybody: if another program has proposed that end, that counts. */
struct note {
	struct sess_ask ask;
};
static unsigned int notes;

static void noted(struct sess_ask *a, const struct iw_sm *m, enum iw_reason reason)
{
	free(container_of(a, struct note, ask));
	notes--;
}

void match_note(const struct iw_tuple *t, bool is_client, enum iw_reason reason)
{
	struct note *n = notes < NOTES && peer_find(t->peer.ip) ? calloc(1, sizeof(*n)) : NULL;

	if (!n)
		return;
	notes++;
	n->ask.fn = noted;
	n->ask.m = (struct iw_sm){
		.type = IW_SM_PROPOSE, .flags = is_client ? IW_SM_F_CLIENT : 0, .reason = (uint16_t)reason, .a = t->local, .b = t->peer,
	};
	sess_ask(&n->ask, SESS_NO_DIAL);
}

/* ---- the upgrade of the wire: between the stream and the other daemon ---- */

static void hold_refused(struct work *w)
{
	struct question *q = container_of(w, struct question, refused);
	struct proposal *p = q->p;
	uint64_t nonce = q->ask.m.nonce;

	p->hold = NULL;
	free(q);
	agent_held(p, nonce, false, 0, 0);
}

static void hold_answered(struct sess_ask *a, const struct iw_sm *m, enum iw_reason reason)
{
	struct question *q = container_of(a, struct question, ask);
	struct proposal *p = q->p;
	uint64_t nonce = q->ask.m.nonce;

	if (!m || !m->yes) {	/* perhaps from inside the asking, where the stream wants no answer */
		work_queue(&q->refused, hold_refused);
		return;
	}
	p->hold = NULL;
	free(q);
	agent_held(p, nonce, true, m->pos, m->crc);
}

/* Without memory there is no answer, and the attempt comes to nothing. */
void match_hold(struct proposal *p, uint64_t nonce, uint64_t pos, uint32_t crc)
{
	drop(&p->hold);
	p->hold = question_new(p, IW_SM_HOLD, hold_answered);
	if (!p->hold)
		return;
	p->hold->ask.m.nonce = nonce;
	p->hold->ask.m.pos = pos;
	p->hold->ask.m.crc = crc;
	sess_ask(&p->hold->ask, SESS_NO_DIAL);
}

static void held_no(struct proposal *p)
{
	if (p->their_hold)
		sess_answer(p->their_hold, &(struct iw_sm){ .reason = IW_REASON_BUSY });
	p->their_hold = NULL;
}

void match_held(struct proposal *p, uint64_t nonce, bool yes, uint64_t pos, uint32_t crc)
{
	struct sess_question *q = p->their_hold;

	if (!q || q->m.nonce != nonce)
		return;
	p->their_hold = NULL;
	sess_answer(q, &(struct iw_sm){ .yes = yes, .pos = pos, .crc = crc, .reason = yes ? 0 : IW_REASON_BUSY });
}

void match_peer_forget(struct proposal *p)
{
	drop(&p->ask);
	drop(&p->hold);
	held_no(p);
}

/* ---- what other daemons ask ---- */

/* The other end stays plain. That comes by another session than the answer to what we have asked, which may be older: it is asked again. */
static void plain_there(const struct iw_tuple *t, const struct iw_sm *m)
{
	for (struct proposal *p = proposal_next(t, NULL); p; p = proposal_next(t, p))
		if (p->state != PROPOSAL_DONE && ends_agree(p, m->flags)) {
			p->there = THERE_NOTHING;
			p->again = p->ask;
			match_give_up(p, IW_REASON_OTHER_END, m->reason);
		}
}

static void propose(const struct iw_tuple *t, const struct iw_sm *m, struct iw_sm *answer)
{
	enum iw_reason never = plain_why(t);
	const struct proposal *best = NULL;
	unsigned int flags = m->flags;
	struct proposal *p;

	for (p = proposal_next(t, NULL); p; p = proposal_next(t, p))
		p->said = p->ask;
	if (m->reason) {
		plain_there(t, m);
		answer->reason = IW_REASON_UNANSWERED;
		return;
	}
	for (p = proposal_next(t, NULL); p; p = proposal_next(t, p)) {
		if (ends_agree(p, flags) && flags & IW_SM_F_SWITCHED)
			p->there = THERE_SWITCHED;
		else if (ends_agree(p, flags) && !match_rested(p))	/* there() is not for these */
			p->there = THERE_PROPOSED;
		if (p->never || (p->refused && !match_ready(p)))
			never = p->reason;
		else if (match_ready(p) && ends_agree(p, flags) && !match_may(p))
			never = IW_REASON_NO_GAIN;
		else if (match_ready(p) && ends_agree(p, flags) && (!best || p->state > best->state))
			best = p;
	}
	if (!best) {
		answer->reason = (uint16_t)(never ? never : IW_REASON_UNANSWERED);
		return;
	}
	answer->yes = 1;
	answer->flags = (uint8_t)our_flags(best);
	for (p = proposal_next(t, NULL); p; p = proposal_next(t, p))
		if (!p->never && ends_agree(p, flags))
			there(p, flags);
}

static void hold(struct sess_question *q, const struct iw_tuple *t)
{
	struct proposal *p = match_relayed(t);

	if (!p || p->never) {
		sess_answer(q, &(struct iw_sm){ .reason = (uint16_t)(p ? p->reason : IW_REASON_UNANSWERED) });
		return;
	}
	held_no(p);		/* the attempt before */
	p->their_hold = q;
	q->data = p;
	agent_hold(p, q->m.nonce, q->m.pos, q->m.crc);
}

/* Without an answer nothing comes of that attempt; the stream will see. */
static void hold_gone(struct sess_question *q)
{
	struct proposal *p = q->data;

	p->their_hold = NULL;
}

static void ask_again(struct proposal *p)
{
	if (!p->local && !p->ask && !p->asked && !p->never && p->state != PROPOSAL_DONE)
		match_ask(p);
}

static void peer_up(const uint8_t ip[16])
{
	proposals_of_peer(ip, ask_again);
}

static void not_asked(struct proposal *p)
{
	p->asked = false;
}

static void peer_gone(const uint8_t ip[16])
{
	proposals_of_peer(ip, not_asked);
}

static const struct session_ops ops = {
	.propose = propose, .hold = hold, .hold_gone = hold_gone, .peer_up = peer_up, .peer_gone = peer_gone,
};

void match_start(void)
{
	session_ops = &ops;
}
