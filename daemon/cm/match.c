// SPDX-License-Identifier: MIT
/*
 * What becomes of proposals. This is control: it knows connections by their names, and touches no descriptor of a program's. What has to be
 * done with those it tells the agent (switch.c), who tells it what came of that.
 */
#include "match_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/probe.h"
#include "daemon/base/conf.h"
#include "daemon/net/locals.h"
#include "book.h"
#include "pace.h"
#include "place.h"
#include "switch.h"
#include "times.h"

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
	while (o && (o == p || o->state == PROPOSAL_DONE || !proposals_meet(p, o)));
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

bool match_rested(const struct proposal *p)
{
	return p->state != PROPOSAL_OPEN || engine_now_ms() >= p->not_before;
}

/*
 * It is told GO when the other end is there, or has been. Where GO is not for both at once each rests by itself, and each might come whenever the other
 * rests: so whoever is relayed is followed.
 */
bool match_ready(const struct proposal *p)
{
	return !p->never && (match_rested(p) || (conf.go_at_once && other_first(p)));
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
void match_waits(struct proposal *p, enum iw_reason reason)
{
	if (!p->never && !p->here)
		p->reason = reason;
}

bool match_may(struct proposal *p)
{
	if (pace_take(p))
		return true;
	p->here = false;
	p->reason = IW_REASON_NO_GAIN;
	plain_tell(p);
	return false;
}

void match_promised(struct proposal *p)
{
	match_waits(p, IW_REASON_UNANSWERED);
	match_look(p);
}

void match_lapsed(struct proposal *p)
{
	match_stop(p);
	pace_leave(p);
	match_ask(p);
}

void match_go(struct proposal *p)
{
	if (p->state != PROPOSAL_OPEN || p->never)
		return;
	if (!match_ready(p)) {
		timer_start(&p->timer, (unsigned int)(p->not_before - engine_now_ms()), its_time);
		return;
	}
	if (!match_may(p))
		return;
	match_waits(p, waits_for(p));
	if (!place_take(p, other_first(p)))
		return;
	p->state = PROPOSAL_MATCHED;
	IW_PROBE1(iwarpd, go, p->number);
	agent_go(p, true);
}

void match_turn(struct proposal *p)
{
	match_go(p);
}

bool match_may_switch(struct proposal *p)
{
	if (place_take(p, other_first(p)))
		return true;
	p->state = PROPOSAL_OPEN;
	agent_go(p, false);
	return false;
}

static void leave(struct proposal *p)
{
	place_leave(p);
	pace_leave(p);
}

/* It binds nobody: who switches nevertheless is told that it is not the time. */
void match_stop(struct proposal *p)
{
	if (p->state == PROPOSAL_OPEN)
		leave(p);
	if (p->state != PROPOSAL_MATCHED || p->st || conf.go_at_once)
		return;
	p->state = PROPOSAL_OPEN;
	leave(p);
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

void match_wait_other(struct proposal *p)
{
	p->reason = waits_for(p);
	p->busy = 0;
	p->tick_ms = ALONE_TICK_MS;
	p->relayed = p->relayed_then = agent_relayed(p);
	timer_start(&p->timer, p->tick_ms, alone);
}

/* The other end will not come. */
void match_give_up(struct proposal *p, enum iw_reason reason, enum iw_reason theirs)
{
	if (p->never)
		return;
	match_stop(p);
	p->here = false;
	p->reason = reason;
	p->theirs = theirs;
	plain_tell(p);
	if (p->state == PROPOSAL_SWITCHED) {
		timer_stop(&p->timer);
		agent_want_back(p, true);
	}
}

/* The other end has been proposed. */
void match_is_there(struct proposal *p)
{
	p->theirs = IW_REASON_ACCELERATED;
	if (p->reason == IW_REASON_UNANSWERED || p->reason == IW_REASON_OTHER_END)
		match_waits(p, IW_REASON_MATCHED);
}

/* ---- both ends on this host ---- */

/* Of that connection, the one that has its socket. */
struct proposal *match_relayed(const struct iw_tuple *t)
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

	while (q && (q == p || q->netns != p->netns || !match_ready(q)))
		q = proposal_next(&p->t, q);
	return q;
}

/* p cannot be switched, or not now; left: it is about to go. */
static void others_stop(struct proposal *p, bool left)
{
	bool gone = p->state < PROPOSAL_SWITCHED && !another(p);

	for (struct proposal *o = other_next(p, NULL); gone && o; o = other_next(p, o)) {
		match_stop(o);
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
		match_is_there(o);
		if (!match_ready(o))
			continue;	/* it looks itself when its time has come */
		if (o->state == PROPOSAL_SWITCHED || !p->is_client)
			match_go(p);
		else
			match_go(o);
	}
	if (!there && !theirs)
		theirs = plain_why(&mirror);
	if (there)
		match_is_there(p);
	else if (theirs)
		match_give_up(p, IW_REASON_OTHER_END, theirs);
	else if (p->reason == IW_REASON_OTHER_END)
		p->reason = IW_REASON_UNANSWERED;
}

/* ---- one that stays plain ---- */

void match_plain(const struct iw_tuple *t, bool is_client, enum iw_reason reason)
{
	struct iw_tuple mirror = iw_tuple_mirror(t);

	if (!t->local.port || !t->peer.port || reason == IW_REASON_NETNS)
		return;
	for (struct proposal *p = proposal_next(t, NULL); p; p = proposal_next(t, p))
		if (!p->never)
			return;
	if (!addr_is_local(t->peer.ip))
		match_note(t, is_client, reason);
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
		match_ask(p);
	if (conf.go_at_once)
		match_go(p);
}

void match_never(struct proposal *p, enum iw_reason reason)
{
	if (p->st)
		return;
	match_stop(p);
	leave(p);
	timer_stop(&p->timer);
	p->never = true;
	p->reason = reason;
	plain_tell(p);
	if (p->local)
		others_stop(p, false);
	match_plain(&p->t, p->is_client, reason);
}

/* p is relayed: now the other end. */
static void others_go(struct proposal *p)
{
	if (!p->local)
		match_ask(p);
	for (struct proposal *o = p->local ? other_next(p, NULL) : NULL; o; o = other_next(p, o))
		match_go(o);
}

void match_switched(struct proposal *p)
{
	p->state = PROPOSAL_SWITCHED;
	p->switched_ms = engine_now_ms();
	switch_totals.switched++;
	IW_PROBE2(iwarpd, switched, p->number, stream_id(p->st));
	p->refused = 0;
	p->here = false;
	match_wait_other(p);
	others_go(p);
}

/* first, or twice that, four times ... */
static void open_later(struct proposal *p, unsigned int first, unsigned int before)
{
	unsigned int ms = first << (before < DOUBLINGS ? before : DOUBLINGS);

	p->state = PROPOSAL_OPEN;
	leave(p);
	agent_go(p, false);
	p->not_before = engine_now_ms() + ms;
	timer_start(&p->timer, ms, its_time);
}

/* p is about to come. */
static void others_wait(struct proposal *p)
{
	for (struct proposal *o = other_next(p, NULL); o; o = other_next(p, o))
		if (o->state == PROPOSAL_SWITCHED && !o->never)
			match_wait_other(o);
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
		match_note(&p->t, p->is_client, reason);
}

void match_hindered(struct proposal *p, enum iw_reason reason)
{
	p->here = true;
	p->reason = reason;
	plain_tell(p);
}

void match_back(struct proposal *p, enum iw_reason reason)
{
	switch_totals.back += p->state == PROPOSAL_SWITCHED;
	IW_PROBE2(iwarpd, back, p->number, reason);
	open_later(p, BACK_MS, p->backs++);
	if (reason) {
		p->reason = reason;
		plain_tell(p);
	}
	if (p->local)
		others_stop(p, false);
	else if (!p->never)
		match_ask(p);
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
	times_add(engine_now_ms() - p->proposed_ms);
	IW_PROBE3(iwarpd, upgraded, p->number, p->st ? stream_id(p->st) : 0, p->local);
	if (p->local || conf.map == CONF_MAP_NO)
		place_leave(p);		/* else when it is mapped, too */
	pace_leave(p);			/* the promise was kept */
	p->state = PROPOSAL_DONE;
	reason_add(IW_REASON_ACCELERATED, p->is_client);
	if (cm_watch && p->st)
		cm_watch->upgraded(stream_id(p->st), p->end);
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
	p->gain = IW_GAIN_YES;
	pace_leave(p);
	if (p->state == PROPOSAL_SWITCHED) {
		agent_want_back(p, false);
		match_wait_other(p);
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
		pace_leave(p);
		p->never = true;
		p->reason = IW_REASON_DOWNGRADED;
		plain_tell(p);
		agent_want_back(p, true);
		match_plain(&p->t, p->is_client, p->reason);
	} else {
		match_never(p, IW_REASON_DOWNGRADED);
	}
	return 0;
}

void match_comes_home(struct proposal *p)
{
	if (p->local || p->st || p->joining || p->never)
		return;
	match_stop(p);
	match_peer_forget(p);
	p->there = THERE_NOTHING;
	p->local = true;
}

void match_forget(struct proposal *p)
{
	leave(p);
	timer_stop(&p->timer);
	match_peer_forget(p);
	if (p->local)
		others_stop(p, true);
}
