// SPDX-License-Identifier: MIT
/*
 * What becomes of proposals. This is control: it knows connections by their names, and touches no descriptor of a program's. What has to be
 * done with those it tells the agent (switch.c), who tells it what came of that.
 */
#include "match.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/conf.h"
#include "daemon/net/locals.h"
#include "daemon/net/peers.h"
#include "daemon/session/session.h"
#include "book.h"
#include "place.h"
#include "switch.h"

/* An end that is relayed and alone goes back after so long in use, or so many octets; while nothing is sent it costs nothing. */
#define ALONE_TICK_MS	25u
#define ALONE_TICKS	4u
#define ALONE_OCTETS	(16u << 20)
#define ALONE_IDLE_MS	10000u	/* the longest between two looks */
/* It is tried again after so long, and then each time after twice as long. */
#define BACK_MS		1000u
#define REFUSED_MS	20u
#define REFUSED_TIMES	4u	/* in a row, before that */
#define DOUBLINGS	8u
#define NOTES		16u	/* to other daemons, not answered yet */

/* A question to the other host's daemon. Without one the other end is not known. */
struct question {
	struct sess_ask ask;
	struct proposal *p;
	struct work refused;		/* HOLD */
};

struct switch_totals switch_totals;

/* ---- GO ---- */

static void its_time(struct timer *t)
{
	match_look(container_of(t, struct proposal, timer));
}

static struct proposal *other_next(const struct proposal *p, struct proposal *o)
{
	struct iw_tuple mirror = iw_tuple_mirror(&p->t);

	do
		o = proposal_next(&mirror, o);
	while (o && (o == p || o->state == PROPOSAL_DONE));
	return o;
}

/* The other end is relayed already, and alone. */
static bool other_first(const struct proposal *p)
{
	struct proposal *o = p->local ? other_next(p, NULL) : NULL;

	while (o && o->state != PROPOSAL_SWITCHED)
		o = other_next(p, o);
	return o || p->there == THERE_SWITCHED;
}

static bool rested(const struct proposal *p)
{
	return p->state != PROPOSAL_OPEN || engine_now_ms() >= p->not_before;
}

/*
 * It is told GO when the other end is there, or has been. Where GO is not for both at once each rests by itself, and each might come whenever the other
 * rests: so whoever is relayed is followed.
 */
static bool ready(const struct proposal *p)
{
	return !p->never && (rested(p) || (conf.go_at_once && other_first(p)));
}

/* Nothing hinders it that is known here. */
static enum iw_reason waits_for(const struct proposal *p)
{
	struct proposal *o = p->local ? other_next(p, NULL) : NULL;

	while (o && o->never)
		o = other_next(p, o);
	return o || p->there != THERE_NOTHING ? IW_REASON_MATCHED : IW_REASON_UNANSWERED;
}

/* What for, unless something is known that will be in the way. */
static void waits(struct proposal *p, enum iw_reason reason)
{
	if (!p->never && !p->here)
		p->reason = reason;
}

static void go(struct proposal *p)
{
	if (p->state != PROPOSAL_OPEN || p->never)
		return;
	if (!ready(p)) {
		timer_start(&p->timer, (unsigned int)(p->not_before - engine_now_ms()), its_time);
		return;
	}
	waits(p, waits_for(p));
	if (!place_take(p, other_first(p)))
		return;
	p->state = PROPOSAL_MATCHED;
	agent_go(p, true);
}

void match_turn(struct proposal *p)
{
	go(p);
}

bool match_may_switch(struct proposal *p)
{
	if (place_take(p, other_first(p)))
		return true;
	p->state = PROPOSAL_OPEN;
	agent_go(p, false);
	return false;
}

/* It binds nobody: who switches nevertheless is told that it is not the time. */
static void stop(struct proposal *p)
{
	if (p->state == PROPOSAL_OPEN)
		place_leave(p);
	if (p->state != PROPOSAL_MATCHED || p->st || conf.go_at_once)
		return;
	p->state = PROPOSAL_OPEN;
	place_leave(p);
	agent_go(p, false);
}

/* ---- an end that waits for the other one ---- */

static void alone(struct timer *t)
{
	struct proposal *p = container_of(t, struct proposal, timer);
	uint64_t relayed = agent_relayed(p);

	if (relayed != p->relayed) {
		p->busy++;
		p->tick_ms = ALONE_TICK_MS;
	} else if (p->tick_ms < ALONE_IDLE_MS) {
		p->tick_ms *= 2;
	}
	p->relayed = relayed;
	if (p->busy >= ALONE_TICKS || relayed - p->relayed_then >= ALONE_OCTETS)
		agent_want_back(p, true);
	else
		timer_start(&p->timer, p->tick_ms, alone);
}

static void wait_other(struct proposal *p)
{
	p->reason = waits_for(p);
	p->busy = 0;
	p->tick_ms = ALONE_TICK_MS;
	p->relayed = p->relayed_then = agent_relayed(p);
	timer_start(&p->timer, p->tick_ms, alone);
}

/* The other end will not come. */
static void give_up(struct proposal *p, enum iw_reason reason, enum iw_reason theirs)
{
	if (p->never)
		return;
	stop(p);
	p->here = false;
	p->reason = reason;
	p->theirs = theirs;
	if (p->state == PROPOSAL_SWITCHED) {
		timer_stop(&p->timer);
		agent_want_back(p, true);
	}
}

/* The other end has been proposed. */
static void is_there(struct proposal *p)
{
	p->theirs = IW_REASON_ACCELERATED;
	if (p->reason == IW_REASON_UNANSWERED || p->reason == IW_REASON_OTHER_END)
		waits(p, IW_REASON_MATCHED);
}

/* ---- both ends on this host ---- */

/* Of that connection, the one that has its socket. */
static struct proposal *relayed(const struct iw_tuple *t)
{
	struct proposal *p = proposal_next(t, NULL);

	while (p && p->state != PROPOSAL_SWITCHED)
		p = proposal_next(t, p);
	return p;
}

/* Somebody else says that he has the same end, and may have. */
static bool another(const struct proposal *p)
{
	struct proposal *q = proposal_next(&p->t, NULL);

	while (q && (q == p || !ready(q)))
		q = proposal_next(&p->t, q);
	return q;
}

/* p cannot be switched, or not now; left: it is about to go. */
static void others_stop(struct proposal *p, bool left)
{
	bool gone = p->state < PROPOSAL_SWITCHED && !another(p);

	for (struct proposal *o = other_next(p, NULL); gone && o; o = other_next(p, o)) {
		stop(o);
		if (left && o->state == PROPOSAL_OPEN && o->reason == IW_REASON_MATCHED)
			o->reason = IW_REASON_UNANSWERED;
	}
}

/*
 * One end goes first, the accepting one, and the other when that is relayed: so its switch can be the join. Of several that say that they
 * are the same end each is told: who has the socket will show.
 */
static void look_here(struct proposal *p)
{
	struct iw_tuple mirror = iw_tuple_mirror(&p->t);
	enum iw_reason theirs = IW_REASON_ACCELERATED;
	bool there = false;

	for (struct proposal *o = other_next(p, NULL); o; o = other_next(p, o)) {
		if (o->never) {
			theirs = o->reason;
			continue;
		}
		there = true;
		is_there(o);
		if (!ready(o))
			continue;	/* it looks itself when its time has come */
		if (o->state == PROPOSAL_SWITCHED || !p->is_client)
			go(p);
		else
			go(o);
	}
	if (!there && !theirs)
		theirs = plain_why(&mirror);
	if (there)
		is_there(p);
	else if (theirs)
		give_up(p, IW_REASON_OTHER_END, theirs);
	else if (p->reason == IW_REASON_OTHER_END)
		p->reason = IW_REASON_UNANSWERED;
}

/* ---- the other end is another host's ---- */

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

	is_there(p);
	p->there = switched ? THERE_SWITCHED : THERE_PROPOSED;
	if (p->never)		/* it goes back, or has */
		return;
	if (went_back && p->state == PROPOSAL_SWITCHED) {
		wait_other(p);
	} else if (went_back) {
		stop(p);
	} else if (switched && p->state == PROPOSAL_SWITCHED) {
		timer_stop(&p->timer);
		p->reason = IW_REASON_TIMEOUT;	/* until they have agreed */
		agent_want_back(p, false);
		agent_upgrade(p);
	} else {
		go(p);
	}
}

static void ask(struct proposal *p);

static void answered(struct sess_ask *a, const struct iw_sm *m, enum iw_reason reason)
{
	struct question *q = container_of(a, struct question, ask);
	struct proposal *p = q->p;

	p->ask = NULL;
	free(q);
	p->asked = m;
	if (m && !p->never && (p->again || (p->said && !m->yes))) {
		ask(p);
		return;
	}
	if (m && m->yes && ends_agree(p, m->flags)) {
		there(p, m->flags);
		return;
	}
	p->there = THERE_NOTHING;
	if (m)
		stop(p);
	if (!m || reason == IW_REASON_UNANSWERED)
		waits(p, reason);
	else
		give_up(p, IW_REASON_OTHER_END, m->yes ? IW_REASON_TUPLE_UNKNOWN : reason);
}

/* What was asked already is asked again when it is answered: the answers come in order, and the last is about us as we are. */
static void ask(struct proposal *p)
{
	if (p->ask) {
		p->again = true;
		return;
	}
	p->again = p->said = p->asked = false;
	p->ask = question_new(p, IW_SM_PROPOSE, answered);
	if (!p->ask)
		return;
	p->ask->ask.m.flags = (uint8_t)our_flags(p);
	sess_ask(&p->ask->ask, p->uid);
}

/* ---- one that stays plain ---- */

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

static void note(const struct iw_tuple *t, bool is_client, enum iw_reason reason)
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

void match_plain(const struct iw_tuple *t, bool is_client, enum iw_reason reason)
{
	struct iw_tuple mirror = iw_tuple_mirror(t);

	if (!t->local.port || !t->peer.port || reason == IW_REASON_NETNS)
		return;
	for (struct proposal *p = proposal_next(t, NULL); p; p = proposal_next(t, p))
		if (!p->never)
			return;
	if (!addr_is_local(t->peer.ip))
		note(t, is_client, reason);
	for (struct proposal *o = proposal_next(&mirror, NULL); o; o = proposal_next(&mirror, o))
		if (o->local && o->state != PROPOSAL_DONE && !o->never)
			look_here(o);
}

/* ---- how it goes on ---- */

void match_look(struct proposal *p)
{
	if (p->never)
		return;
	if (p->local)
		look_here(p);
	else
		ask(p);
	if (conf.go_at_once)
		go(p);
}

void match_never(struct proposal *p, enum iw_reason reason)
{
	if (p->st)
		return;
	stop(p);
	timer_stop(&p->timer);
	p->never = true;
	p->reason = reason;
	if (p->local)
		others_stop(p, false);
	match_plain(&p->t, p->is_client, reason);
}

/* p is relayed: now the other end. */
static void others_go(struct proposal *p)
{
	if (!p->local)
		ask(p);
	for (struct proposal *o = p->local ? other_next(p, NULL) : NULL; o; o = other_next(p, o))
		go(o);
}

void match_switched(struct proposal *p)
{
	p->state = PROPOSAL_SWITCHED;
	p->switched_ms = engine_now_ms();
	switch_totals.switched++;
	p->refused = 0;
	p->here = false;
	wait_other(p);
	others_go(p);
}

/* first, or twice that, four times ... */
static void open_later(struct proposal *p, unsigned int first, unsigned int before)
{
	unsigned int ms = first << (before < DOUBLINGS ? before : DOUBLINGS);

	p->state = PROPOSAL_OPEN;
	place_leave(p);
	agent_go(p, false);
	p->not_before = engine_now_ms() + ms;
	timer_start(&p->timer, ms, its_time);
}

/* p is about to come. */
static void others_wait(struct proposal *p)
{
	for (struct proposal *o = other_next(p, NULL); o; o = other_next(p, o))
		if (o->state == PROPOSAL_SWITCHED && !o->never)
			wait_other(o);
}

void match_not_yet(struct proposal *p, enum iw_reason reason)
{
	if (p->state != PROPOSAL_MATCHED)
		return;
	p->refused++;
	if (p->refused >= REFUSED_TIMES)
		open_later(p, REFUSED_MS, p->refused - REFUSED_TIMES);
	else if (p->local)
		others_wait(p);
	match_hindered(p, reason);
	if (p->refused >= REFUSED_TIMES && !p->local)
		note(&p->t, p->is_client, reason);
}

void match_hindered(struct proposal *p, enum iw_reason reason)
{
	p->here = true;
	p->reason = reason;
}

void match_back(struct proposal *p, enum iw_reason reason)
{
	switch_totals.back += p->state == PROPOSAL_SWITCHED;
	open_later(p, BACK_MS, p->backs++);
	if (reason)
		p->reason = reason;
	if (p->local)
		others_stop(p, false);
	else if (!p->never)
		ask(p);
}

void match_done(struct proposal *p)
{
	if (p->state == PROPOSAL_DONE)
		return;
	timer_stop(&p->timer);
	agent_want_back(p, false);
	switch_totals.switched += p->state != PROPOSAL_SWITCHED;	/* joined by its switch */
	if (p->local)
		switch_totals.joined++;
	else
		switch_totals.upgraded++;
	if (p->local || conf.map == CONF_MAP_NO)
		place_leave(p);		/* else when it is mapped, too */
	p->state = PROPOSAL_DONE;
	reason_add(IW_REASON_ACCELERATED, p->is_client);
}

/* ---- what people ask for ---- */

int match_upgrade(struct proposal *p)
{
	if (p->state == PROPOSAL_DONE)
		return -EALREADY;
	if (p->never && p->reason != IW_REASON_DOWNGRADED)
		return -EOPNOTSUPP;
	if (p->never) {
		p->never = false;
		p->reason = IW_REASON_UNANSWERED;
	}
	p->backs = p->refused = 0;
	p->not_before = 0;
	p->here = false;
	if (p->state == PROPOSAL_SWITCHED) {
		agent_want_back(p, false);
		wait_other(p);
		others_go(p);
	} else if (p->state == PROPOSAL_OPEN) {
		timer_stop(&p->timer);
		match_look(p);
	}
	return 0;
}

int match_downgrade(struct proposal *p)
{
	if (p->state == PROPOSAL_DONE)
		return -EOPNOTSUPP;
	if (p->never)
		return -EALREADY;
	if (p->st && p->state != PROPOSAL_SWITCHED)
		return -EBUSY;
	if (p->st) {
		timer_stop(&p->timer);
		p->never = true;
		p->reason = IW_REASON_DOWNGRADED;
		agent_want_back(p, true);
		match_plain(&p->t, p->is_client, p->reason);
	} else {
		match_never(p, IW_REASON_DOWNGRADED);
	}
	return 0;
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

void match_forget(struct proposal *p)
{
	place_leave(p);
	timer_stop(&p->timer);
	drop(&p->ask);
	drop(&p->hold);
	held_no(p);
	if (p->local)
		others_stop(p, true);
}

/* ---- what other daemons ask ---- */

/* The other end stays plain. */
static void plain_there(const struct iw_tuple *t, const struct iw_sm *m)
{
	for (struct proposal *p = proposal_next(t, NULL); p; p = proposal_next(t, p))
		if (p->state != PROPOSAL_DONE && ends_agree(p, m->flags)) {
			p->there = THERE_NOTHING;
			give_up(p, IW_REASON_OTHER_END, m->reason);
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
		else if (ends_agree(p, flags) && !rested(p))	/* there() is not for these */
			p->there = THERE_PROPOSED;
		if (p->never || (p->refused && !ready(p)))
			never = p->reason;
		else if (ready(p) && ends_agree(p, flags) && (!best || p->state > best->state))
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
	struct proposal *p = relayed(t);

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
		ask(p);
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
