// SPDX-License-Identifier: MIT
/* The dialler's side of a session: questions, their window and their answers, what is known of the other host's listeners. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "ask.h"
#include "tell.h"

/* ---- questions on a session that is up ---- */

static struct sess_slot *slot_take(struct sess *s)
{
	unsigned int i = 0;

	if (s->nslots >= s->window)
		return NULL;
	while (s->slot[i].used)
		i++;
	s->nslots++;
	s->slot[i] = (struct sess_slot){ .used = true, .seq = ++s->seq * SESS_WINDOW + i };
	return &s->slot[i];
}
static_assert((SESS_WINDOW & (SESS_WINDOW - 1)) == 0, "seq wraps");

static void question(struct sess *s, struct sess_slot *sl, const struct iw_sm *m)
{
	struct iw_sm out = *m;

	out.seq = sl->seq;
	sl->type = m->type;
	sl->a = m->a;
	sl->b = m->b;
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
	timer_stop(&q->timer);
	list_del(&q->node);
	if (q->sent)
		q->sess->slot[q->slot].ask = NULL;
	q->sent = false;
	q->sess = NULL;
}

static void ask_answer(struct sess_ask *q, bool yes, enum iw_reason reason)
{
	ask_end(q);
	q->fn(q, yes, reason);
}

void sess_ask_cancel(struct sess_ask *q)
{
	if (q->active)
		ask_end(q);
}

/* What the session already knows. Answers q and returns true when that is enough. */
static bool ask_known(struct sess *s, struct sess_ask *q)
{
	if (q->type != IW_SM_LOOKUP || q->fresh || !port_bit(s->known, q->a.port) || !iw_ip_same(q->a.ip, s->peer->ip))
		return false;
	if (port_bit(s->registered, q->a.port))
		ask_answer(q, true, IW_REASON_ACCELERATED);
	else
		ask_answer(q, false, IW_REASON_LISTENER_NOT_REGISTERED);
	return true;
}

/* Send what waits, as far as the window allows. */
static void ask_run(struct sess *s)
{
	while (s->state == SESS_UP && !list_empty(&s->waiting)) {
		struct sess_ask *q = list_entry(s->waiting.next, struct sess_ask, node);
		struct sess_slot *sl;

		if (ask_known(s, q))
			continue;
		sl = slot_take(s);
		if (!sl)
			return;
		list_del(&q->node);
		sl->ask = q;
		q->slot = (int)(sl - s->slot);
		q->sent = true;
		question(s, sl, &(struct iw_sm){ .type = q->type, .a = q->a, .b = q->b });
	}
}

/* The application has waited long enough. */
static void ask_late(struct timer *t)
{
	struct sess_ask *q = container_of(t, struct sess_ask, timer);
	struct sess *s = q->sess;

	if (s->state == SESS_DEAD) {
		ask_answer(q, false, s->never_up ? s->why : IW_REASON_DAEMON_GONE);
		return;
	}
	if (s->state != SESS_UP) {
		/* dialling goes on; until it has an end, connections to this address need not ask */
		if (!peer_negative(s->peer) && s->peer->state != IW_PEER_POSITIVE)
			peer_set(s->peer, IW_PEER_NEGATIVE, IW_REASON_PEER_UNREACHABLE, SESS_DIAL_MS);
		ask_answer(q, false, IW_REASON_PEER_UNREACHABLE);
		return;
	}
	if (!s->late) {
		s->late = true;
		s->late_since = engine_now_ms();
	}
	ask_answer(q, false, IW_REASON_TIMEOUT);
}

/* Round trips that TCP needs on this session, ms: distance is no fault of the daemons. */
static unsigned int rtt_ms(const struct sess *s)
{
	struct tcp_info ti = { 0 };
	socklen_t len = sizeof(ti);

	if (!s->ep || getsockopt(soft_fd(s->ep), IPPROTO_TCP, TCP_INFO, &ti, &len))
		return 0;
	return ti.tcpi_rtt / 1000 > 300 ? 300 : ti.tcpi_rtt / 1000;
}

static void ask_refuse(struct sess_ask *q, enum iw_reason reason)
{
	q->active = false;
	q->fn(q, false, reason);
}

void sess_ask(struct sess_ask *q, const struct iw_addr *dst, unsigned int wait_ms)
{
	struct peer *p = peer_get(dst->ip, dst->scope_id);
	enum iw_reason reason = IW_REASON_RESOURCES;
	struct sess *s;

	list_init(&q->node);
	q->sent = false;
	if (!p) {
		ask_refuse(q, IW_REASON_RESOURCES);
		return;
	}
	if (peer_negative(p)) {
		ask_refuse(q, p->reason);
		return;
	}
	if (p->state == IW_PEER_NEGATIVE && sess_out(p, q->src) && sess_out(p, q->src)->state == SESS_UP)
		peer_set(p, IW_PEER_POSITIVE, 0, 0);	/* it could not reach us; perhaps now */
	s = sess_out(p, q->src);
	if (!s)
		s = sess_dial(p, q->src, &reason);
	if (!s || (s->state == SESS_UP && s->late)) {
		if (s && !s->nslots)
			ask_ping(s);
		ask_refuse(q, s ? IW_REASON_TIMEOUT : reason);
		return;
	}
	q->active = true;
	q->peer = p;
	q->sess = s;
	list_add_tail(&s->waiting, &q->node);
	timer_start(&q->timer, wait_ms + 2 * rtt_ms(s), ask_late);
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
	peer_set(s->peer, IW_PEER_POSITIVE, 0, 0);
	ask_run(s);
	tell_dialled(s->peer, s->local, true);
}

static void lookup_answered(struct sess *s, const struct sess_slot *sl, const struct iw_sm *m)
{
	/* They cannot reach us, so nothing to that address can be accelerated; a LISTENER notice comes when they can. */
	if (!m->yes && m->reason == IW_REASON_PEER_UNTRUSTED)
		peer_set(s->peer, IW_PEER_NEGATIVE, m->reason, conf.negative_ttl * 1000);
	if (!m->yes && m->reason != IW_REASON_LISTENER_NOT_REGISTERED)
		return;		/* not about the listener: ask again next time */
	port_set(s->known, sl->a.port, true);
	port_set(s->registered, sl->a.port, m->yes);
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
	if (sl.type == IW_SM_HELLO)
		hello_answered(s, m);
	else if (sl.type == IW_SM_LOOKUP)
		lookup_answered(s, &sl, m);
	else if (sl.type == IW_SM_CLAIM && !sl.ask && m->yes)
		/* too late: our application has the plain connection; nothing was sent on it, so the other may have it too */
		sess_confirm(&(struct iw_tuple){ sl.a, sl.b }, false, IW_REASON_TIMEOUT);
	if (sl.ask) {
		sl.ask->sent = false;
		ask_answer(sl.ask, m->yes, m->reason);
	}
	ask_run(s);
}

static void listener_notice(struct sess *s, const struct iw_sm *m)
{
	if (!iw_ip_same(m->a.ip, s->peer->ip))
		return;
	s->stopped |= !m->yes && m->reason == IW_REASON_DAEMON_GONE;
	/* "gone" is not remembered: a server that restarts its listener is there again before the next notice */
	port_set(s->known, m->a.port, m->yes);
	port_set(s->registered, m->a.port, m->yes);
	ask_run(s);		/* it may answer what waits; and nothing that waits may be answered from inside the walk over the offers below */
	if (m->yes && s->peer->state != IW_PEER_POSITIVE)
		peer_set(s->peer, IW_PEER_POSITIVE, 0, 0);
	if (m->yes)
		session_ops->listener_up(&m->a);
	else
		session_ops->listeners_gone(m->a.ip, m->a.port, s->local, m->reason);
}

/* m->a is the server's address: only its own daemon, which we dialled, may decide about it. */
static void confirmed(struct sess *s, const struct iw_sm *m)
{
	struct iw_tuple t = { .local = m->b, .peer = m->a };

	if (iw_ip_same(m->a.ip, s->peer->ip))
		session_ops->confirmed(&t, m->yes, m->reason);
	else
		log_warn("session to %s: CONFIRM for %s ignored", iw_ip_text(s->peer->ip), iw_tuple_text(&t));
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
	sess_send(s, &(struct iw_sm){ .type = IW_SM_ACK, .seq = m->seq });
	if (m->type == IW_SM_LISTENER)
		listener_notice(s, m);
	else
		confirmed(s, m);
}

/* The session is over: s->slot and s->waiting are emptied. */
void ask_down(struct sess *s, enum iw_reason why)
{
	for (unsigned int i = 0; i < SESS_WINDOW; i++)
		if (s->slot[i].ask)
			ask_answer(s->slot[i].ask, false, why);
	while (!list_empty(&s->waiting))
		ask_answer(list_entry(s->waiting.next, struct sess_ask, node), false, why);
}
