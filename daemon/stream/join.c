/* SPDX-License-Identifier: MIT */
/*
 * A relayed stream whose other end is an application of this host, too, becomes a pair. The two TCP sockets are the ends of one connection, both in
 * our hands: when the carrier is not read any more, and what one of them sent the other has received and handed on, there is nothing left
 * but what is in the carrier, and its other end can be given away.
 */
#include "join.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "daemon/base/log.h"
#include "carrier.h"
#include "life.h"
#include "local.h"
#include "relay.h"
#include "stream_priv.h"
#include "tcp.h"
#include "upgrade.h"

#define TICK_MS		1u
/* The carrier stays unread so long for the next attempt, while the application reads what it has, some octets a ms. */
#define KEEP_MS		5u
#define KEEP_OCTETS	(16u << 10)
#define KEEP_MOST_MS	250u
#define LATE_TRIES	5u		/* a ms each, for what is on its way */

struct stream_join {
	struct stream *st;
	int tcp;
	struct iw_tuple tuple;
	struct stream_owner owner;
	char program[STREAM_PROGRAM];
	uint64_t until;
	uint64_t left;		/* octets that the application of tcp has still to read from it */
	bool stopping;		/* all was still, and what waited is being taken back */
	bool offered;		/* the other end of the carrier; the relay rests */
	int queued;		/* in the carrier for the first application then, with what that costs the kernel */
	struct timer tick;
	void (*done)(void *arg, int ret, const struct stream_grant *g);
	void *arg;
};

static void forget(struct stream *st)
{
	timer_stop(&st->join->tick);
	free(st->join);
	st->join = NULL;
}

static void finish(struct stream *st, int ret, const struct stream_grant *g)
{
	struct stream_join j = *st->join;

	forget(st);
	j.done(j.arg, ret, g);
}

static void failed(struct stream *st, int ret, unsigned int keep_ms)
{
	struct stream_join j = *st->join;

	forget(st);
	relay_resume(st, keep_ms);
	j.done(j.arg, ret, NULL);
}

/* 1: nothing is under way on the connection, nor in hand; 0: something is, -EAGAIN: which its application has not read; -ENOTCONN. */
static int still(const struct stream *st)
{
	const struct stream_relay *r = st->relay;
	struct tcp_count a, b;
	int ret;

	if (st->state != STREAM_RELAY || st->app_closed || r->up.eof || r->down.eof)
		return -ENOTCONN;
	ret = tcp_count(st->end[0].tcp, st->client, &a);
	if (!ret)
		ret = tcp_count(st->join->tcp, !st->client, &b);
	if (ret)
		return ret == -EAGAIN ? 0 : -ENOTCONN;
	st->join->left = a.sent - b.received + b.unread + relay_hand(&r->up);
	if (b.unread)
		return -EAGAIN;
	return !relay_hand(&r->up) && !relay_hand(&r->down) && !st->t_tx.busy && !st->d_tx.busy && !a.unread && a.sent == b.received &&
	       b.sent == a.received;
}

static int queued(const struct stream *st)
{
	int n = 0;

	return ioctl(st->d, SIOCOUTQ, &n) ? 0 : n;
}

static void offer(struct stream *st)
{
	struct stream_join *j = st->join;
	struct stream_grant g;
	int ret = stream_offer_end(st, &j->tuple, &j->owner, &g);

	if (ret) {
		failed(st, ret, 0);
		return;
	}
	timer_stop(&j->tick);
	st->relay->rest = NULL;
	j->queued = queued(st);
	j->offered = true;
	j->done(j->arg, 0, &g);
}

static void look(struct stream *st);

/*
 * The requests that wait for octets of TCP, or for the application's close, end; what comes meanwhile is passed on, and then it was not still.
 */
static void stop(struct stream *st)
{
	struct stream_join *j = st->join;

	j->stopping = true;
	relay_still(st, true, true, look);
	carrier_unpoll(st, relay_rest);
}

static unsigned int keep_ms(const struct stream_join *j)
{
	uint64_t ms = KEEP_MS + j->left / KEEP_OCTETS;

	return ms < KEEP_MOST_MS ? (unsigned int)ms : KEEP_MOST_MS;
}

static void look(struct stream *st)
{
	struct stream_join *j = st->join;
	int ret = still(st);

	if (ret < 0) {
		failed(st, ret, ret == -EAGAIN ? keep_ms(j) : 0);
	} else if (!ret && engine_now_ms() >= j->until) {
		failed(st, -EAGAIN, 0);
	} else if (ret && !j->stopping) {
		stop(st);
	} else if (!ret && j->stopping && relay_resting(st)) {
		j->stopping = false;
		relay_unmute(st);
	} else if (ret && relay_resting(st) && !st->d_poll.busy) {
		offer(st);
	}
}

static void tick(struct timer *t)
{
	struct stream_join *j = container_of(t, struct stream_join, tick);

	timer_start(t, TICK_MS, tick);
	look(j->st);
}

void stream_join(struct stream *st, int tcp, const struct iw_tuple *t, const struct stream_owner *o, unsigned int wait_ms,
		 void (*done)(void *arg, int ret, const struct stream_grant *g), void *arg)
{
	struct stream_join *j;

	if (st->state != STREAM_RELAY) {
		done(arg, -ENOTCONN, NULL);
		return;
	}
	if (st->join || st->back || upgrade_open(st)) {
		done(arg, -EBUSY, NULL);
		return;
	}
	j = calloc(1, sizeof(*j));
	if (!j) {
		done(arg, -ENOMEM, NULL);
		return;
	}
	*j = (struct stream_join){ .st = st, .tcp = tcp, .tuple = *t, .owner = *o, .until = engine_now_ms() + wait_ms, .done = done, .arg = arg };
	snprintf(j->program, sizeof(j->program), "%s", o->program ? o->program : "");
	j->owner.program = j->program;
	st->join = j;
	relay_still(st, true, false, look);
	timer_start(&j->tick, TICK_MS, tick);
	look(st);
}

/*
 * Octets that the second application wrote into its TCP socket between our last look and the exchange, unseen by its library: they go into the carrier, whose
 * end it has now. false: they cannot, or others that it wrote later are in the carrier already.
 */
static bool late(struct stream *st)
{
	struct stream_join *j = st->join;
	struct pollfd came = { .fd = st->end[0].tcp, .events = POLLIN };
	struct tcp_count a, b;

	for (unsigned int i = 0; i <= LATE_TRIES; i++) {
		bool overtaken = queued(st) > j->queued;
		int n = overtaken ? tcp_unread(st->end[0].tcp) : carrier_late(st->end[0].tcp, st->d, st->end[1].uid);

		if (n < 0 || (n && overtaken))
			return false;
		if (n)
			j->queued = queued(st);
		relay_given(st, (size_t)n);
		if (tcp_count(st->end[0].tcp, st->client, &a) || tcp_count(j->tcp, !st->client, &b) || a.received - a.unread >= b.sent)
			return true;
		poll(&came, 1, TICK_MS);
	}
	return false;
}

/* As a reset: recorded before it can be seen. */
static void cut(struct stream *st)
{
	stream_log(st, LOG_WARNING, "octets were written past the library while it was joined, and cannot be passed on: reset");
	for (unsigned int e = 0; e < 2; e++) {
		struct iw_page_end *p = &st->page->end[e];
		uint32_t open = IW_CLOSE_OPEN;

		atomic_store(&p->close_errno, ECONNRESET);
		atomic_compare_exchange_strong(&p->close_state, &open, IW_CLOSE_RESET);
	}
	shutdown(st->d, SHUT_RDWR);
}

int stream_joined(struct stream *st)
{
	int tcp;

	if (!st->join || !st->join->offered)
		return -EINVAL;
	if (!late(st))
		cut(st);
	tcp = st->join->tcp;
	forget(st);
	upgrade_joined(st);
	stream_join_end(st, tcp);
	stream_no_upgrade(st);
	return 0;
}

bool stream_join_cancel(struct stream *st)
{
	if (!st->join)
		return true;
	if (st->join->offered && !stream_withdraw_end(st))
		return false;
	forget(st);
	relay_resume(st, 0);
	return true;
}

bool join_offered(const struct stream *st)
{
	return st->join && st->join->offered;
}

void join_over(struct stream *st)
{
	if (join_offered(st))
		forget(st);
	else if (st->join)
		finish(st, -ENOTCONN, NULL);
}
