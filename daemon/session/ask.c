// SPDX-License-Identifier: MIT
/* The dialler's side of a session: questions, their window and their answers. */
#include <string.h>

#include "daemon/base/conf.h"
#include "answer.h"
#include "ask.h"

#define HOLDS(s) ((s)->window / 2)	/* they are answered when it pleases: others need room, too */

/* ---- questions on a session that is up ---- */

static struct sess_slot *slot_take(struct sess *s)
{
	unsigned int i = 0;

	if (s->nslots >= s->window)
		return NULL;
	while (s->slot[i].used)
		i++;
	s->nslots++;
	sess_listen(s);
	s->slot[i] = (struct sess_slot){ .used = true, .seq = ++s->seq * SESS_WINDOW + i };
	return &s->slot[i];
}
static_assert((SESS_WINDOW & (SESS_WINDOW - 1)) == 0, "seq wraps");

static void question(struct sess *s, struct sess_slot *sl, const struct iw_sm *m)
{
	struct iw_sm out = *m;

	out.seq = sl->seq;
	sl->type = m->type;
	s->nholds += m->type == IW_SM_HOLD;
	sess_send(s, &out);
}

int ask_ping(struct sess *s)
{
	struct sess_slot *sl = slot_take(s);

	if (!sl)
		return -1;
	question(s, sl, &(struct iw_sm){ .type = IW_SM_PING });
	return 0;
}

void ask_up(struct sess *s)
{
	struct sess_slot *sl = slot_take(s);

	if (sl)
		question(s, sl, &(struct iw_sm){ .type = IW_SM_HELLO, .generation = daemon_generation() });
}

static void ask_end(struct sess_ask *q)
{
	q->active = false;
	list_del(&q->node);
	if (q->sent)
		q->sess->slot[q->slot].ask = NULL;
	q->sent = false;
	q->sess = NULL;
}

static void ask_refuse(struct sess_ask *q, enum iw_reason reason)
{
	if (q->active)
		ask_end(q);
	q->fn(q, NULL, reason);
}

void sess_ask_cancel(struct sess_ask *q)
{
	if (q->active)
		ask_end(q);
}

/*
 * Whose session it is, and PING, are answered at once; all else may wait for that: two daemons that ask each other much would both wait if they
 * could not prove their sessions meanwhile. So the last slot is for these.
 */
static bool room_for(const struct sess *s, const struct sess_ask *q)
{
	return s->nslots + (q->m.type != IW_SM_VOUCH) < s->window;
}

/* Send what waits, as far as the window allows. */
static void ask_run(struct sess *s)
{
	while (s->state == SESS_UP && !list_empty(&s->waiting)) {
		struct sess_ask *q = list_entry(s->waiting.next, struct sess_ask, node);
		struct sess_slot *sl;

		if (q->m.type == IW_SM_HOLD && s->nholds >= HOLDS(s)) {
			ask_refuse(q, IW_REASON_TIMEOUT);
			continue;
		}
		if (!room_for(s, q))
			return;
		sl = slot_take(s);
		list_del(&q->node);
		sl->ask = q;
		q->slot = (int)(sl - s->slot);
		q->sent = true;
		if (iw_ip_any(q->m.a.ip))
			memcpy(q->m.a.ip, s->local, 16);
		question(s, sl, &q->m);
	}
}

void sess_ask(struct sess_ask *q, uint64_t uid)
{
	struct peer *p = peer_get(q->m.b.ip, q->m.b.scope_id);
	enum iw_reason reason = IW_REASON_RESOURCES;
	struct sess *s = p ? sess_out(p, q->m.a.ip) : NULL;

	list_init(&q->node);
	q->active = q->sent = false;
	if (p && uid == SESS_NO_DIAL) {
		reason = IW_REASON_DAEMON_GONE;
		s = s && s->state == SESS_UP ? s : NULL;
	} else if (p && peer_negative(p)) {
		reason = p->reason;
		s = NULL;
	} else if (p && !s) {
		s = sess_dial(p, q->m.a.ip, uid, &reason);
	}
	if (!s) {
		ask_refuse(q, reason);
		return;
	}
	q->active = true;
	q->sess = s;
	list_add_tail(q->m.type == IW_SM_VOUCH ? s->waiting.next : &s->waiting, &q->node);
	ask_run(s);
}

/* ---- what comes ---- */

static void hello_answered(struct sess *s, const struct iw_sm *m)
{
	if (!m->yes) {
		sess_fail(s, m->reason, "refused");
		return;
	}
	s->state = SESS_UP;
	sess_dialled(s);
	s->took_ms = (unsigned int)(engine_now_ms() - s->started);
	timer_stop(&s->peer->redial);
	s->peer->redials = 0;
	ask_run(s);
	answer_dialled(s->peer, s->local, true);
	sess_review(s->peer);
}

static void answered(struct sess *s, const struct iw_sm *m)
{
	struct sess_slot sl, *p = &s->slot[m->seq % SESS_WINDOW];

	if (!p->used || p->seq != m->seq) {
		sess_fail(s, IW_REASON_VERSION, "answer to a question that was not asked");
		return;
	}
	sl = *p;
	*p = (struct sess_slot){ 0 };
	s->nslots--;
	s->nholds -= sl.type == IW_SM_HOLD;
	if (sl.ask)
		sl.ask->sent = false;
	if (sl.type == IW_SM_HELLO) {
		hello_answered(s, m);
	} else if (!m->yes && m->reason == IW_REASON_PEER_UNTRUSTED) {
		/* they cannot reach us; when they can they dial, and are asked again */
		peer_set(s->peer, IW_PEER_NEGATIVE, m->reason, conf.negative_ttl * 1000);
		if (sl.ask)
			ask_refuse(sl.ask, m->reason);
	} else if (sl.ask) {
		ask_end(sl.ask);
		sl.ask->fn(sl.ask, m, m->reason);
	}
	ask_run(s);
}

void ask_received(struct sess *s, const struct iw_sm *m)
{
	if (m->type == IW_SM_ANSWER) {
		answered(s, m);
		return;
	}
	if (s->state != SESS_UP) {
		sess_fail(s, IW_REASON_VERSION, "notice before the HELLO was answered");
		return;
	}
	s->stopped = true;	/* GOODBYE */
	sess_send(s, &(struct iw_sm){ .type = IW_SM_ACK, .seq = m->seq });
}

/* The session is over: s->slot and s->waiting are emptied. */
void ask_down(struct sess *s, enum iw_reason why)
{
	for (unsigned int i = 0; i < SESS_WINDOW; i++)
		if (s->slot[i].ask)
			ask_refuse(s->slot[i].ask, why);
	while (!list_empty(&s->waiting))
		ask_refuse(list_entry(s->waiting.next, struct sess_ask, node), why);
}
