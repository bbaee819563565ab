// SPDX-License-Identifier: MIT
/* Claims: the server's side of a set-up, and the question "is this connection offered?" at the client's side. */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/closing.h"
#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "daemon/net/ipsec.h"
#include "daemon/net/locals.h"
#include "daemon/net/peers.h"
#include "daemon/net/sock.h"
#include "book.h"
#include "claim.h"
#include "intent.h"

#define CLAIM_HASH 1024u

static struct list table[CLAIM_HASH];	/* claims that met no offer, but an open intent */

static struct list *bucket(const struct iw_tuple *t)
{
	return list_bucket(&table[iw_tuple_hash(t) % CLAIM_HASH]);
}

/* ---- the question ---- */

void claim_cancel(struct claim *cl)
{
	if (!cl->waiting)
		return;
	cl->waiting = false;
	list_del(&cl->node);
	list_del(&cl->hash);
	timer_stop(&cl->timer);
}

static void claim_no(struct claim *cl, enum iw_reason reason)
{
	claim_cancel(cl);
	refused_add(&cl->t, reason);
	cl->fn(cl, NULL, reason);
}

static void claim_late(struct timer *t)
{
	struct claim *cl = container_of(t, struct claim, timer);

	if (!list_empty(&cl->hash))	/* it waited for intents, not for a COMMIT */
		intents_set_aside(&cl->t.peer, cl->pid);
	claim_no(cl, IW_REASON_TIMEOUT);
}

static void claim_wait(struct claim *cl, struct list *head, bool intents)
{
	list_add_tail(head, &cl->node);
	if (intents)
		list_add_tail(bucket(&cl->t), &cl->hash);
}

void claim_look(struct claim *cl)
{
	enum iw_reason reason = refused_find(&cl->t);
	struct offer *o = offer_find(&cl->t);
	struct list *intents;

	list_del(&cl->node);
	list_del(&cl->hash);
	if (reason) {
		claim_cancel(cl);
		if (reason == IW_REASON_UNCLAIMED)	/* so it does claim, only late: new connections may try again */
			shun_del(&cl->t.peer);
		cl->fn(cl, NULL, reason);
	} else if (o && o->state == OFFER_HELD) {
		claim_cancel(cl);
		cl->fn(cl, o, IW_REASON_ACCELERATED);
	} else if (o) {
		claim_wait(cl, &o->claims, false);
	} else if ((intents = intent_claims(&cl->t.peer, cl->pid))) {
		claim_wait(cl, intents, true);
	} else {
		claim_no(cl, IW_REASON_TUPLE_UNKNOWN);
	}
}

void claim_ask(struct claim *cl, unsigned int wait_ms)
{
	list_init(&cl->node);
	list_init(&cl->hash);
	cl->waiting = true;
	timer_start(&cl->timer, wait_ms, claim_late);
	claim_look(cl);
}

void claims_settle(struct offer *o, enum iw_reason reason)
{
	struct list claims;

	list_take(&claims, &o->claims);
	while (!list_empty(&claims)) {	/* o may be freed by the first answer */
		struct claim *cl = list_entry(claims.next, struct claim, node);

		list_del(&cl->node);
		if (reason)
			claim_no(cl, reason);
		else
			claim_look(cl);
	}
}

void claims_offered(const struct iw_tuple *t)
{
	list_each(n, nxt, bucket(t)) {
		struct claim *cl = list_entry(n, struct claim, hash);

		if (iw_tuple_same(&cl->t, t))
			claim_look(cl);		/* it waits for the offer now */
	}
}

/* ---- CLAIM of a server of this host ---- */

struct server_claim {
	struct cm_req req;
	struct claim local;		/* the client is a process of this host */
	struct sess_ask remote;
	struct iw_tuple t;
	struct stream_owner owner;
	char program[64];
	uint64_t conn_id;
	int tcp, fd;
};

static void server_free(struct server_claim *s)
{
	req_end(&s->req);
	if (s->tcp >= 0)
		close_passed(s->tcp, s->owner.uid);
	prm_passed_gone(s->owner.uid);
	free(s);
}

static void server_plain(struct server_claim *s, enum iw_reason reason)
{
	if (s->req.client)
		plain_record(s->req.client, s->conn_id, &s->t, false, s->fd, reason);
	close_passed(s->tcp, s->owner.uid);	/* before the answer: a close by the application must be the last one */
	s->tcp = -1;
	req_plain(&s->req, reason);
	server_free(s);
}

static void server_stream(struct server_claim *s, struct stream_grant *g)
{
	s->tcp = -1;
	reason_add(IW_REASON_ACCELERATED, false);
	req_stream(&s->req, g);
	server_free(s);
}

static void local_answered(struct claim *cl, struct offer *o, enum iw_reason reason)
{
	struct server_claim *s = container_of(cl, struct server_claim, local);
	struct stream_grant g;
	int ret;

	if (!o) {
		server_plain(s, reason);
		return;
	}
	if (!req_promise(&s->req)) {	/* the server died: the client's connection goes the way of TCP */
		offer_withdraw(o, IW_REASON_UNCLAIMED);
		server_free(s);
		return;
	}
	ret = stream_claim_local(o->st, s->tcp, &s->t, &s->owner, &g);
	if (ret) {
		offer_withdraw(o, no_stream_reason(ret));
		server_plain(s, no_stream_reason(ret));
		return;
	}
	reason_add(IW_REASON_ACCELERATED, true);
	offer_done(o);
	server_stream(s, &g);
}

/* Yes means: the client's daemon holds on until we confirm. Only when everything is ready for MPA do we. */
static void remote_answered(struct sess_ask *q, bool yes, enum iw_reason reason)
{
	struct server_claim *s = container_of(q, struct server_claim, remote);
	struct stream_grant g;
	struct stream *st;
	int ret;

	if (!yes) {
		server_plain(s, reason);
		return;
	}
	if (!sess_can_confirm(&s->t) || !req_promise(&s->req)) {
		sess_confirm(&s->t, false, IW_REASON_UNCLAIMED);
		server_plain(s, IW_REASON_DAEMON_GONE);
		return;
	}
	ret = stream_claim(s->tcp, &s->t, &s->owner, &g, &st);
	if (ret) {
		no_stream_log(&s->owner, &s->t, ret);
		sess_confirm(&s->t, false, no_stream_reason(ret));
		server_plain(s, no_stream_reason(ret));
		return;
	}
	if (sess_confirm(&s->t, true, IW_REASON_ACCELERATED))
		stream_unconfirmed(st);
	server_stream(s, &g);
}

static enum iw_reason server_check(struct server_claim *s)
{
	enum iw_reason reason = sock_check(s->tcp);

	if (reason)
		return reason;
	if (sock_name(s->tcp, &s->t.local, false) || sock_name(s->tcp, &s->t.peer, true))
		return IW_REASON_NOT_STREAM;
	reason = ipsec_check(&s->t);
	if (reason)
		return reason;
	/* octets have come or gone: the client does not hold back, so it did not offer */
	return sock_state(s->tcp) == TCP_ESTABLISHED && sock_unused(s->tcp) ? IW_REASON_ACCELERATED : IW_REASON_TUPLE_UNKNOWN;
}

/* A claim whose answer is known to be no, so that the client's daemon learns that this server claims. */
struct late_claim {
	struct claim local;
	struct sess_ask remote;
	struct iw_tuple t;
	enum iw_reason reason;
};

static void late_local(struct claim *cl, struct offer *o, enum iw_reason reason)
{
	struct late_claim *l = container_of(cl, struct late_claim, local);

	if (o)
		offer_withdraw(o, l->reason);
	free(l);
}

static void late_remote(struct sess_ask *q, bool yes, enum iw_reason reason)
{
	struct late_claim *l = container_of(q, struct late_claim, remote);

	if (yes)
		sess_confirm(&l->t, false, l->reason);
	free(l);
}

static void claim_is_late(const struct iw_tuple *t, enum iw_reason reason)
{
	struct late_claim *l = calloc(1, sizeof(*l));
	struct peer *p = peer_find(t->peer.ip);

	if (!l)
		return;
	l->t = *t;
	l->reason = reason;
	if (addr_is_local(t->peer.ip)) {
		l->local.t = iw_tuple_mirror(t);
		l->local.fn = late_local;
		claim_ask(&l->local, conf.answer_timeout);
	} else if (p && p->state == IW_PEER_POSITIVE) {
		l->remote = (struct sess_ask){ .type = IW_SM_CLAIM, .a = t->local, .b = t->peer, .fn = late_remote };
		memcpy(l->remote.src, t->local.ip, 16);
		sess_ask(&l->remote, &t->peer, conf.answer_timeout);
	} else {
		free(l);
	}
}

int cm_claim(struct client *c, const struct iw_ctl_conn *m, int fd)
{
	struct server_claim *s = calloc(1, sizeof(*s));
	enum iw_reason reason;
	bool room;

	if (!s || req_begin(&s->req, c, &m->h)) {
		free(s);
		close_passed(fd, c->uid);
		return -EPROTO;
	}
	s->tcp = fd;
	s->fd = m->fd;
	s->conn_id = m->conn_id;
	memcpy(s->program, c->program, sizeof(s->program));
	s->owner = (struct stream_owner){ .pid = c->pid, .uid = c->uid, .fd = m->fd, .program = s->program };
	room = prm_passed(c->uid);
	reason = server_check(s);
	if (!reason && !room)
		reason = IW_REASON_QUOTA;
	if (reason) {
		if (reason == IW_REASON_TUPLE_UNKNOWN || reason == IW_REASON_NO_IPSEC || reason == IW_REASON_QUOTA)
			claim_is_late(&s->t, reason == IW_REASON_TUPLE_UNKNOWN ? IW_REASON_NOT_MPA : reason);
		server_plain(s, reason);
		return 0;
	}
	if (addr_is_local(s->t.peer.ip)) {
		s->local.t = iw_tuple_mirror(&s->t);
		s->local.fn = local_answered;
		s->local.pid = c->pid;
		claim_ask(&s->local, conf.answer_timeout);
		return 0;
	}
	s->remote.type = IW_SM_CLAIM;
	s->remote.a = s->t.local;
	s->remote.b = s->t.peer;
	memcpy(s->remote.src, s->t.local.ip, 16);
	s->remote.fn = remote_answered;
	sess_ask(&s->remote, &s->t.peer, conf.answer_timeout);
	return 0;
}
