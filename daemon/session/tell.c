// SPDX-License-Identifier: MIT
/* The acceptor's side of a session: answers about our listeners and offers, notices of changes, confirmations of claims. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "daemon/net/locals.h"
#include "port.h"
#include "tell.h"

#define CONFIRMS_MAX	1024u		/* that wait for the peer to acknowledge earlier notices */

struct their_lookup {			/* waits for our own session to the asker */
	struct list node;
	uint32_t seq;
	struct iw_addr a;
};
struct confirm {
	struct list node;
	struct iw_sm m;
};

static void answer(struct sess *s, uint32_t seq, bool yes, enum iw_reason reason)
{
	s->questions--;
	sess_send(s, &(struct iw_sm){ .type = IW_SM_ANSWER, .seq = seq, .yes = yes, .reason = yes ? 0 : reason });
}

/* May we act on what this peer's daemon says? Only over a session that we dialled from the same address of ours. */
static bool trusted(struct sess *s)
{
	struct sess *out = sess_out(s->peer, s->local);

	return out && out->state == SESS_UP;
}

/* ---- LOOKUP ---- */

static unsigned int notices_max(const struct sess *s)
{
	return s->theirs.bufs / 4 < SESS_NOTICES ? s->theirs.bufs / 4 : SESS_NOTICES;
}

static void lookup_answer(struct sess *s, uint32_t seq, const struct iw_addr *a)
{
	bool there = session_ops->listens(a), ok = trusted(s);

	port_set(s->asked, a->port, true);
	port_set(s->told, a->port, there && ok);
	answer(s, seq, there && ok, there ? IW_REASON_PEER_UNTRUSTED : IW_REASON_LISTENER_NOT_REGISTERED);
}

static void lookup(struct sess *s, const struct iw_sm *m)
{
	enum iw_reason reason;
	struct their_lookup *l;
	struct sess *out;

	if (!iw_ip_same(m->a.ip, s->local)) {
		answer(s, m->seq, false, IW_REASON_TUPLE_UNKNOWN);
		return;
	}
	out = sess_out(s->peer, s->local);
	if (!out && !peer_negative(s->peer) && !addr_is_local(s->peer->ip))
		out = sess_dial(s->peer, s->local, &reason);
	/* wait for a session that is being dialled, but not for one that has kept an application waiting already */
	if (!session_ops->listens(&m->a) || !out || out->state == SESS_UP || engine_now_ms() - out->started > conf.answer_timeout) {
		lookup_answer(s, m->seq, &m->a);
		return;
	}
	l = calloc(1, sizeof(*l));
	if (!l) {
		answer(s, m->seq, false, IW_REASON_RESOURCES);
		return;
	}
	l->seq = m->seq;
	l->a = m->a;
	list_add_tail(&s->lookups, &l->node);
}

static void notices_run(struct sess *s);

void tell_dialled(struct peer *p, const uint8_t local[16], bool up)
{
	list_each(n, nxt, &p->in) {
		struct sess *s = list_entry(n, struct sess, node);

		if (!iw_ip_same(s->local, local))
			continue;
		notices_run(s);		/* whether we act on what it says has changed */
		if (up)
			port_prove(s);
		if (s->state != SESS_UP)
			continue;
		while (!list_empty(&s->lookups)) {
			struct their_lookup *l = list_entry(s->lookups.next, struct their_lookup, node);

			list_del(&l->node);
			lookup_answer(s, l->seq, &l->a);
			free(l);
		}
	}
}

/* ---- notices ---- */

static void notice_send(struct sess *s, struct iw_sm *m)
{
	s->notices++;
	m->seq = ++s->seq;
	sess_send(s, m);
}

static void confirms_run(struct sess *s)
{
	while (!list_empty(&s->confirms) && s->notices < notices_max(s)) {
		struct confirm *c = list_entry(s->confirms.next, struct confirm, node);

		list_del(&c->node);
		s->nconfirms--;
		notice_send(s, &c->m);
		free(c);
	}
}

static void notice_port(struct sess *s, uint16_t port)
{
	struct iw_sm m = { .type = IW_SM_LISTENER, .a.port = port };
	bool there;

	memcpy(m.a.ip, s->local, 16);
	there = session_ops->listens(&m.a);
	m.yes = there && trusted(s);
	if (m.yes == port_bit(s->told, port))
		return;
	if (s->notices >= notices_max(s)) {
		s->dirty = true;	/* again when an ACK comes */
		return;
	}
	if (!m.yes)
		m.reason = there ? IW_REASON_PEER_UNTRUSTED : IW_REASON_LISTENER_GONE;
	port_set(s->told, port, m.yes);
	notice_send(s, &m);
}

void tell_stopping(struct sess *s)
{
	struct iw_sm m = { .type = IW_SM_LISTENER, .reason = IW_REASON_DAEMON_GONE, .a.port = conf.control_port };

	if (s->state != SESS_UP || s->notices >= notices_max(s))
		return;
	memcpy(m.a.ip, s->local, 16);
	notice_send(s, &m);
}

/* Daemons only. Any program can ask about all ports, again and again, and would have us go through them at each change. */
static void notices_run(struct sess *s)
{
	if (s->state != SESS_UP)
		return;
	confirms_run(s);
	if (!s->vouched)
		return;
	s->dirty = false;
	for (unsigned int i = 0; i < PORT_BYTES; i++)
		for (unsigned int b = 0; s->asked[i] && b < 8; b++)
			if (s->asked[i] >> b & 1)
				notice_port(s, (uint16_t)(i * 8 + b));
}

void tell_vouched(struct sess *s)
{
	notices_run(s);
}

static void changed_peer(struct peer *p, void *arg)
{
	uint16_t port = *(const uint16_t *)arg;

	list_each(n, nxt, &p->in) {
		struct sess *s = list_entry(n, struct sess, node);

		if (s->state == SESS_UP && s->vouched && port_bit(s->asked, port))
			notice_port(s, port);
	}
}

void sess_listener_changed(uint16_t port)
{
	peers_each(changed_peer, &port);
}

/* ---- CLAIM and CONFIRM ---- */

void sess_claim_answer(struct sess_claim *q, bool yes, enum iw_reason reason)
{
	list_del(&q->node);
	answer(q->sess, q->seq, yes, reason);
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

static void claim(struct sess *s, const struct iw_sm *m)
{
	struct iw_tuple t = { .local = m->b, .peer = m->a };
	struct sess_claim *q;

	/* answer about a connection only to the address in it */
	if (!iw_ip_same(m->a.ip, s->peer->ip) || !iw_ip_same(m->b.ip, s->local)) {
		answer(s, m->seq, false, IW_REASON_TUPLE_UNKNOWN);
		return;
	}
	if (our_session(s->peer, m)) {
		answer(s, m->seq, true, 0);
		return;
	}
	q = session_ops->claim_new();
	if (!q) {
		answer(s, m->seq, false, IW_REASON_RESOURCES);
		return;
	}
	q->sess = s;
	q->seq = m->seq;
	list_add_tail(&s->claims, &q->node);
	/* less than the asker waits, so that an answer finds it waiting */
	session_ops->claim(q, &t, conf.answer_timeout - conf.answer_timeout / 4);
}

static bool confirms_to(const struct sess *s, const struct iw_tuple *t)
{
	return s->state == SESS_UP && iw_ip_same(s->local, t->local.ip);
}

/* A CONFIRM that cannot go now waits. Memory for it, or the end of the session, which tells the other daemon that nothing will come. */
static struct confirm *confirm_room(struct sess *s)
{
	struct confirm *c = s->spare ? s->spare : calloc(1, sizeof(*c));

	s->spare = NULL;
	if (!c)
		sess_fail(s, IW_REASON_RESOURCES, "no memory for a CONFIRM");
	return c;
}

static bool confirms_now(const struct sess *s)
{
	return list_empty(&s->confirms) && s->notices < notices_max(s);
}

static void confirm(struct sess *s, struct iw_sm *m)
{
	struct confirm *c;

	if (confirms_now(s)) {
		notice_send(s, m);
		return;
	}
	if (s->nconfirms >= CONFIRMS_MAX) {
		sess_fail(s, IW_REASON_VERSION, "notices are not acknowledged");
		return;
	}
	c = confirm_room(s);
	if (!c)
		return;
	c->m = *m;
	list_add_tail(&s->confirms, &c->node);
	s->nconfirms++;
}

bool sess_can_confirm(const struct iw_tuple *t)
{
	struct peer *p = peer_find(t->peer.ip);
	bool can = false;

	if (!p)
		return false;
	list_each(n, nxt, &p->in) {
		struct sess *s = list_entry(n, struct sess, node);

		if (!confirms_to(s, t))
			continue;
		if (!confirms_now(s))
			s->spare = confirm_room(s);
		can |= s->state == SESS_UP;
	}
	return can;
}

/* Anybody on that host can dial us: all of them are told, the one who holds the connection acts. */
int sess_confirm(const struct iw_tuple *t, bool yes, enum iw_reason reason)
{
	struct iw_sm m = { .type = IW_SM_CONFIRM, .yes = yes, .reason = yes ? 0 : reason, .a = t->local, .b = t->peer };
	struct peer *p = peer_find(t->peer.ip);
	int ret = -ENOTCONN;

	if (!p)
		return ret;
	list_each(n, nxt, &p->in) {
		struct sess *s = list_entry(n, struct sess, node);

		if (!confirms_to(s, t))
			continue;
		confirm(s, &m);
		if (s->state == SESS_UP)
			ret = 0;
	}
	return ret;
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
	answer(s, m->seq, true, 0);
	log_debug("session from %s", iw_ip_text(s->peer->ip));
	/* dial back at once, whatever was remembered of that address; never to ourselves */
	if (!addr_is_local(s->peer->ip) && !sess_out(s->peer, s->local))
		sess_dial(s->peer, s->local, &reason);
}

static void ack(struct sess *s)
{
	if (!s->notices) {
		sess_fail(s, IW_REASON_VERSION, "ACK without a notice");
		return;
	}
	s->notices--;
	confirms_run(s);
	if (s->dirty)
		notices_run(s);
}

void tell_received(struct sess *s, const struct iw_sm *m)
{
	if (s->state != (m->type == IW_SM_HELLO ? SESS_HELLO : SESS_UP)) {
		sess_fail(s, IW_REASON_VERSION, m->type == IW_SM_HELLO ? "second HELLO" : "no HELLO");
		return;
	}
	if (m->type == IW_SM_ACK) {
		ack(s);
		return;
	}
	if (++s->questions > SESS_WINDOW) {
		sess_fail(s, IW_REASON_VERSION, "more questions than the window allows");
		return;
	}
	if (m->type == IW_SM_HELLO)
		hello(s, m);
	else if (m->type == IW_SM_LOOKUP)
		lookup(s, m);
	else if (m->type == IW_SM_CLAIM)
		claim(s, m);
	else
		answer(s, m->seq, true, 0);
}

void tell_down(struct sess *s)
{
	while (!list_empty(&s->claims)) {
		struct list *n = s->claims.next;

		list_del(n);
		session_ops->claim_gone(list_entry(n, struct sess_claim, node));
	}
	while (!list_empty(&s->lookups)) {
		struct list *n = s->lookups.next;

		list_del(n);
		free(list_entry(n, struct their_lookup, node));
	}
	while (!list_empty(&s->confirms)) {
		struct list *n = s->confirms.next;

		list_del(n);
		free(list_entry(n, struct confirm, node));
	}
	free(s->spare);
}
