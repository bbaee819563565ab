// SPDX-License-Identifier: MIT
/* The acceptor's side of a session: whose it is, and answers. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/net/locals.h"
#include "daemon/rnic/prm.h"
#include "answer.h"
#include "port.h"

static void answer(struct sess *s, uint32_t seq, struct iw_sm *m)
{
	s->nquestions--;
	m->type = IW_SM_ANSWER;
	m->seq = seq;
	sess_send(s, m);
}

static void answer_no(struct sess *s, uint32_t seq, enum iw_reason reason)
{
	answer(s, seq, &(struct iw_sm){ .reason = reason });
}

static void answer_yes(struct sess *s, uint32_t seq)
{
	answer(s, seq, &(struct iw_sm){ .yes = 1 });
}

/* ---- whose session is it? ---- */

enum trust { TRUST_NO, TRUST_WAIT, TRUST_YES };

/*
 * Is it the daemon's of that address? Only the session that we dialled there tells, from the same address of ours. Each change of what this depends
 * on comes by answer_run() or answer_dialled().
 */
static enum trust trust(struct sess *s)
{
	enum iw_reason reason;
	struct sess *out;

	if (s->vouched)
		return TRUST_YES;
	if (s->disowned)
		return TRUST_NO;
	out = sess_out(s->peer, s->local);
	if (!out && !peer_negative(s->peer) && !addr_is_local(s->peer->ip))
		out = sess_dial(s->peer, s->local, PRM_DAEMON, &reason);
	if (!out)
		return TRUST_NO;
	port_prove(s);
	return TRUST_WAIT;
}

void answer_dialled(struct peer *p, const uint8_t local[16], bool up)
{
	list_each(n, nxt, &p->in) {
		struct sess *s = list_entry(n, struct sess, node);

		if (!iw_ip_same(s->local, local) || s->state == SESS_DEAD)
			continue;
		s->disowned &= !up;
		if (up)
			port_prove(s);
		answer_run(s);
	}
}

/* So that the other daemon can tell our sessions from those that any program of this host dials. */
static bool our_session(const struct peer *p, const struct iw_sm *m)
{
	list_each(n, nxt, &p->out) {
		struct sess *s = list_entry(n, struct sess, node);

		if (s->state != SESS_DEAD && iw_addr_same(&s->me, &m->b) && iw_addr_same(&s->them, &m->a))
			return true;
	}
	return false;
}

/* ---- questions about connections ---- */

/* NULL: it was answered. */
static struct sess_question *question_keep(struct sess *s, const struct iw_sm *m, struct list *list)
{
	struct sess_question *q = calloc(1, sizeof(*q));

	if (!q) {
		answer_no(s, m->seq, IW_REASON_RESOURCES);
		return NULL;
	}
	q->sess = s;
	q->m = *m;
	list_add_tail(list, &q->node);
	return q;
}

static void question_end(struct sess_question *q)
{
	list_del(&q->node);
	free(q);
}

void sess_answer(struct sess_question *q, const struct iw_sm *m)
{
	struct iw_sm out = *m;

	answer(q->sess, q->m.seq, &out);
	question_end(q);
}

/* Of its daemon. */
static void ask_above(struct sess *s, const struct iw_sm *m)
{
	struct iw_tuple t = { .local = m->b, .peer = m->a };
	struct iw_sm out = { 0 };
	struct sess_question *q;

	if (m->type == IW_SM_PROPOSE) {
		session_ops->propose(&t, m, &out);
		answer(s, m->seq, &out);
		return;
	}
	q = question_keep(s, m, &s->asked);
	if (q)
		session_ops->hold(q, &t);
}

/* false: it is to be asked again. */
static bool about_connection(struct sess *s, const struct iw_sm *m)
{
	enum trust ours;

	/* answer about a connection only to the address in it */
	if (!iw_ip_same(m->a.ip, s->peer->ip) || !iw_ip_same(m->b.ip, s->local)) {
		answer_no(s, m->seq, IW_REASON_TUPLE_UNKNOWN);
		return true;
	}
	ours = trust(s);
	if (ours == TRUST_YES)
		ask_above(s, m);
	else if (ours == TRUST_NO)
		answer_no(s, m->seq, IW_REASON_PEER_UNTRUSTED);
	return ours != TRUST_WAIT;
}

void answer_run(struct sess *s)
{
	while (s->state == SESS_UP && !list_empty(&s->proving)) {
		struct sess_question *q = list_entry(s->proving.next, struct sess_question, node);

		if (!about_connection(s, &q->m))
			return;
		question_end(q);
	}
}

/* ---- what comes ---- */

static void hello(struct sess *s, const struct iw_sm *m)
{
	enum iw_reason reason;

	if (m->generation != s->theirs.generation) {
		sess_fail(s, IW_REASON_VERSION, "HELLO and MPA Request do not agree");
		return;
	}
	s->state = SESS_UP;
	timer_stop(&s->timer);
	answer_yes(s, m->seq);
	log_debug("session from %s", iw_ip_text(s->peer->ip));
	sess_review(s->peer);	/* it may have been vouched for by now */
	/* dial back at once, whatever was remembered of that address; never to ourselves */
	if (!addr_is_local(s->peer->ip) && !sess_out(s->peer, s->local))
		sess_dial(s->peer, s->local, PRM_DAEMON, &reason);
}

static void received(struct sess *s, const struct iw_sm *m)
{
	switch (m->type) {
	case IW_SM_HELLO:
		hello(s, m);
		break;
	case IW_SM_PING:
		answer_yes(s, m->seq);
		break;
	case IW_SM_VOUCH:
		if (iw_ip_same(m->a.ip, s->peer->ip) && our_session(s->peer, m))
			answer_yes(s, m->seq);
		else
			answer_no(s, m->seq, IW_REASON_TUPLE_UNKNOWN);
		break;
	default:
		if (!list_empty(&s->proving) || !about_connection(s, m))	/* in order */
			question_keep(s, m, &s->proving);
	}
}

void answer_received(struct sess *s, const struct iw_sm *m)
{
	if (s->state != (m->type == IW_SM_HELLO ? SESS_HELLO : SESS_UP)) {
		sess_fail(s, IW_REASON_VERSION, m->type == IW_SM_HELLO ? "second HELLO" : "no HELLO");
		return;
	}
	if (m->type == IW_SM_ACK && s->goodbye)
		s->goodbye = false;
	else if (m->type == IW_SM_ACK)
		sess_fail(s, IW_REASON_VERSION, "ACK without a notice");
	else if (++s->nquestions > SESS_WINDOW)
		sess_fail(s, IW_REASON_VERSION, "more questions than the window allows");
	else
		received(s, m);
}

void answer_stopping(struct sess *s)
{
	s->goodbye = true;
	if (s->state == SESS_UP)
		sess_send(s, &(struct iw_sm){ .type = IW_SM_GOODBYE, .seq = ++s->seq });
}

void answer_down(struct sess *s)
{
	while (!list_empty(&s->proving))
		question_end(list_entry(s->proving.next, struct sess_question, node));
	while (!list_empty(&s->asked)) {
		struct sess_question *q = list_entry(s->asked.next, struct sess_question, node);

		session_ops->hold_gone(q);
		question_end(q);
	}
}
