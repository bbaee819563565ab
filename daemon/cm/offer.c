// SPDX-License-Identifier: MIT
/* Offers, the client's side of a set-up: from the socket the library passes to the stream that a server claims, or to plain TCP. */
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
#include "daemon/net/sock.h"
#include "book.h"
#include "claim.h"
#include "intent.h"
#include "listeners.h"
#include "offer.h"

#define OFFER_HASH 1024u
#define PROMISE_MS 2000u

static struct list all = { &all, &all };
static struct list table[OFFER_HASH];

static struct list *bucket(const struct iw_tuple *t)
{
	return list_bucket(&table[iw_tuple_hash(t) % OFFER_HASH]);
}

/*
 * The socket's own name decides whose connection this is. While it connects there is none, and the destination that the library says
 * serves for questions only: nobody's claim, offer or octets meet this offer before the kernel has told the same.
 */
static bool peer_confirmed(struct offer *o)
{
	struct iw_addr peer;
	int tcp = o->st ? stream_tcp(o->st, 0) : o->tcp;

	if (o->confirm_peer && tcp >= 0 && !sock_name(tcp, &peer, true) && iw_addr_same(&peer, &o->t.peer))
		o->confirm_peer = false;
	return !o->confirm_peer;
}

struct offer *offer_find(const struct iw_tuple *t)
{
	list_each(n, nxt, bucket(t)) {
		struct offer *o = list_entry(n, struct offer, hash);

		if (iw_tuple_same(&o->t, t) && peer_confirmed(o))
			return o;
	}
	return NULL;
}

static void socket_gone(struct offer *o)
{
	o->tcp = -1;
	prm_passed_gone(o->uid);
}

static void socket_close(struct offer *o)
{
	close_passed(o->tcp, o->uid);
	socket_gone(o);
}

void offer_done(struct offer *o)
{
	timer_stop(&o->timer);
	sess_ask_cancel(&o->ask);
	req_end(&o->req);
	list_del(&o->all);
	list_del(&o->hash);
	list_del(&o->node);
	if (o->st)
		stream_set_cm_data(o->st, NULL);
	if (o->tcp >= 0)
		socket_close(o);
	claims_settle(o, IW_REASON_TUPLE_UNKNOWN);
	free(o);
}

/* ---- OFFER ---- */

static void offer_plain(struct offer *o, enum iw_reason reason)
{
	if (o->req.client)
		plain_record(o->req.client, o->conn_id, &o->t, true, o->fd, reason);
	socket_close(o);	/* before the answer: a close by the application must be the last one */
	req_plain(&o->req, reason);
	claims_settle(o, reason);
	offer_done(o);
}

void no_stream_log(const struct stream_owner *o, const struct iw_tuple *t, int err)
{
	struct log_about about = { .id = LOG_ID_STREAM, .program = o->program, .pid = o->pid, .uid = o->uid, .peer = iw_addr_text(&t->peer) };

	log_about(LOG_WARNING, &about, "no stream for %s (pid %d), %s: %s", o->program, (int)o->pid, iw_tuple_text(t), strerror(-err));
}

static void offer_answered(struct sess_ask *q, bool yes, enum iw_reason reason)
{
	struct offer *o = container_of(q, struct offer, ask);
	struct stream_grant g;
	struct stream_owner owner;
	int ret;

	if (yes)
		reason = refused_find(&o->t);	/* a claim may have given up while we asked */
	if (yes && !reason && o->spoken_to)
		reason = IW_REASON_NOT_MPA;
	if (!o->req.client)
		reason = IW_REASON_TUPLE_UNKNOWN;
	if (reason) {
		offer_plain(o, reason);
		return;
	}
	o->client = o->req.client;
	owner = (struct stream_owner){ .pid = o->client->pid, .uid = o->client->uid, .fd = o->fd, .program = o->client->program };
	ret = stream_offer(o->tcp, &o->t, &owner, &g, &o->st);
	if (ret) {
		o->st = NULL;
		no_stream_log(&owner, &o->t, ret);
		offer_plain(o, no_stream_reason(ret));
		return;
	}
	socket_gone(o);
	o->state = OFFER_OFFERED;
	stream_set_cm_data(o->st, o);
	list_add_tail(&o->client->priv->offers, &o->node);
	req_stream(&o->req, &g);
}

/* Both names of the socket. While it connects, the kernel tells the local one only. */
static enum iw_reason offer_names(struct offer *o, const struct iw_ctl_conn *m, int state)
{
	if (sock_name(o->tcp, &o->t.local, false))
		return IW_REASON_NOT_STREAM;
	if (state == TCP_ESTABLISHED)
		return sock_name(o->tcp, &o->t.peer, true) ? IW_REASON_NOT_STREAM : IW_REASON_ACCELERATED;
	o->confirm_peer = true;
	o->t.peer = m->peer;
	o->t.peer.family = o->t.local.family;
	if (iw_ip_any(o->t.peer.ip))	/* the kernel takes it for this host */
		memcpy(o->t.peer.ip, o->t.local.ip, 16);
	return o->t.peer.port && o->t.local.port && !iw_ip_any(o->t.local.ip) ? IW_REASON_ACCELERATED : IW_REASON_NOT_STREAM;
}

/* Why this socket cannot be offered, or ACCELERATED. Puts it into the tables when it can. */
static enum iw_reason offer_check(struct offer *o, const struct iw_ctl_conn *m)
{
	enum iw_reason reason = sock_check(o->tcp);
	int state = sock_state(o->tcp);

	if (reason)
		return reason;
	if (state != TCP_ESTABLISHED && state != TCP_SYN_SENT)
		return IW_REASON_NOT_STREAM;
	reason = offer_names(o, m, state);
	if (reason)
		return reason;
	reason = ipsec_check(&o->t);
	if (reason)
		return reason;
	o->spoken_to = state == TCP_ESTABLISHED && !sock_unused(o->tcp);
	if (offer_find(&o->t))
		return IW_REASON_FD_SHARED;
	reason = refused_find(&o->t);
	return reason ? reason : shun_find(&o->t.peer);
}

int cm_offer(struct client *c, const struct iw_ctl_conn *m, int fd)
{
	struct offer *o = calloc(1, sizeof(*o));
	enum iw_reason reason;
	bool room;

	if (!o || req_begin(&o->req, c, &m->h)) {
		free(o);
		close_passed(fd, c->uid);
		return -EPROTO;
	}
	list_init(&o->all);
	list_init(&o->hash);
	list_init(&o->node);
	list_init(&o->claims);
	intents_client_moves(c);
	o->tcp = fd;
	o->fd = m->fd;
	o->conn_id = m->conn_id;
	o->uid = c->uid;
	room = prm_passed(c->uid);
	reason = offer_check(o, m);
	if (!reason && !room)
		reason = IW_REASON_QUOTA;
	if (reason) {
		offer_plain(o, reason);
		return 0;
	}
	list_add_tail(&all, &o->all);
	list_add_tail(bucket(&o->t), &o->hash);
	claims_offered(&o->t);
	o->ask.type = IW_SM_LOOKUP;
	o->ask.a = o->t.peer;
	memcpy(o->ask.src, o->t.local.ip, 16);
	o->ask.fn = offer_answered;
	if (addr_is_local(o->t.peer.ip))
		offer_answered(&o->ask, listener_match(&o->t.peer), IW_REASON_LISTENER_NOT_REGISTERED);
	else
		sess_ask(&o->ask, &o->t.peer, conf.answer_timeout);
	return 0;
}

/* ---- COMMIT, ABANDON ---- */

static struct offer *offer_by_id(struct client *c, uint64_t id)
{
	struct stream *st = grant_has(c, id, 0) ? stream_find(id) : NULL;
	struct offer *o = st ? stream_cm_data(st) : NULL;

	return o && o->client == c && o->state == OFFER_OFFERED ? o : NULL;
}

/* What speaks against holding octets for a stream that was just committed. */
static enum iw_reason commit_check(struct offer *o)
{
	if (o->doomed)
		return o->doomed;
	if (!peer_confirmed(o))
		return IW_REASON_TUPLE_UNKNOWN;
	return refused_find(&o->t);
}

int cm_commit(struct client *c, const struct iw_ctl_id *m)
{
	struct offer *o = offer_by_id(c, m->id);
	enum iw_reason reason;

	if (!o)		/* its connection died meanwhile, or it never was: nothing can come of it */
		return 0;
	list_del(&o->node);
	o->client = NULL;
	o->state = OFFER_HELD;
	reason = commit_check(o);
	stream_commit(o->st, m->fd);
	o = stream_find(m->id) ? stream_cm_data(stream_find(m->id)) : NULL;
	if (!o)
		return 0;
	if (reason)
		offer_withdraw(o, reason);
	else
		claims_settle(o, IW_REASON_ACCELERATED);
	return 0;
}

int cm_abandon(struct client *c, const struct iw_ctl_id *m)
{
	struct offer *o = offer_by_id(c, m->id);
	struct stream *st;

	if (!o)
		return 0;
	st = o->st;
	if (m->reason)
		plain_record(c, o->conn_id, &o->t, true, o->fd, m->reason);
	claims_settle(o, m->reason ? m->reason : IW_REASON_TUPLE_UNKNOWN);
	offer_done(o);
	stream_abandon(st);
	return 0;
}

void offers_client_gone(struct client *c)
{
	while (!list_empty(&c->priv->offers)) {
		struct offer *o = list_entry(c->priv->offers.next, struct offer, node);
		struct stream *st = o->st;

		offer_done(o);
		stream_abandon(st);
	}
}

/* ---- the end of HELD ---- */

/* Final for its connection; which one that is the kernel must have said. */
static void refuse(const struct offer *o, enum iw_reason reason)
{
	if (!o->confirm_peer)
		refused_add(&o->t, reason);
}

void offer_withdraw(struct offer *o, enum iw_reason reason)
{
	struct stream *st = o->st;

	log_debug("%s: back to plain TCP: %s", iw_tuple_text(&o->t), iw_reason_name(reason));
	refuse(o, reason);
	reason_add(reason, true);
	offer_done(o);
	stream_withdraw(st, reason);
}

void offer_claimed(struct offer *o)
{
	struct stream *st = o->st;

	reason_add(IW_REASON_ACCELERATED, true);
	offer_done(o);
	stream_claimed(st);
}

static void withdraw_or_doom(struct offer *o, enum iw_reason reason)
{
	if (o->state == OFFER_HELD)
		offer_withdraw(o, reason);
	else if (o->state == OFFER_OFFERED)
		o->doomed = reason;
}

static void offer_rechecked(struct sess_ask *q, bool yes, enum iw_reason reason)
{
	struct offer *o = container_of(q, struct offer, ask);

	if (!yes)
		withdraw_or_doom(o, reason == IW_REASON_LISTENER_NOT_REGISTERED ? IW_REASON_LISTENER_GONE : reason);
}

/* The notice may be about a listener that was closed and opened again: ask how it stands now. */
static void offer_recheck(struct offer *o)
{
	if (o->ask.active)
		return;
	o->ask.type = IW_SM_LOOKUP;
	o->ask.a = o->t.peer;
	memcpy(o->ask.src, o->t.local.ip, 16);
	o->ask.fn = offer_rechecked;
	sess_ask(&o->ask, &o->t.peer, conf.answer_timeout);
}

void offers_withdraw_to(const uint8_t ip[16], uint16_t port, const uint8_t local_ip[16], enum iw_reason reason)
{
	list_each(n, nxt, &all) {
		struct offer *o = list_entry(n, struct offer, all);

		if (!iw_ip_same(o->t.peer.ip, ip) || (port && o->t.peer.port != port))
			continue;
		if (!iw_ip_same(o->t.local.ip, local_ip))
			continue;
		if (reason == IW_REASON_LISTENER_GONE)
			offer_recheck(o);
		else
			withdraw_or_doom(o, reason);
	}
}

void offers_listener_gone(uint16_t port)
{
	list_each(n, nxt, &all) {
		struct offer *o = list_entry(n, struct offer, all);

		if (o->t.peer.port == port && addr_is_local(o->t.peer.ip) && !listener_match(&o->t.peer))
			withdraw_or_doom(o, IW_REASON_LISTENER_GONE);
	}
}

/* ---- what streams tell ---- */

static void promise_late(struct timer *t)
{
	offer_withdraw(container_of(t, struct offer, timer), IW_REASON_TIMEOUT);
}

static void claim_late(struct timer *t)
{
	struct offer *o = container_of(t, struct offer, timer);

	if (o->promised) {
		/* The server's library gives up on its daemon after answer_timeout + 1 s; until then a CONFIRM may come. */
		timer_start(t, conf.answer_timeout + PROMISE_MS, promise_late);
		return;
	}
	shun_add(&o->t.peer, IW_REASON_UNCLAIMED);
	offer_withdraw(o, IW_REASON_UNCLAIMED);
}

static void held_octets(struct stream *st)
{
	struct offer *o = stream_cm_data(st);

	if (o && !o->timer.due)
		timer_start(&o->timer, conf.claim_timeout, claim_late);
}

static void withdrawn(struct stream *st, enum iw_reason reason)
{
	struct offer *o = stream_cm_data(st);

	reason_add(reason, o != NULL);
	if (!o)
		return;
	refuse(o, reason);
	if (reason == IW_REASON_NOT_MPA)
		shun_add(&o->t.peer, reason);
	offer_done(o);
}

static void gone(struct stream *st)
{
	struct offer *o = stream_cm_data(st);

	grants_stream_gone(stream_id(st));
	if (o)
		offer_done(o);
}

static const struct stream_cm_ops ops = { .withdrawn = withdrawn, .held_octets = held_octets, .gone = gone };

void offers_start(void)
{
	stream_cm = &ops;
}
