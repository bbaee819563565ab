/* SPDX-License-Identifier: MIT */
/*
 * The application gets its TCP socket back: with nothing in the carrier and nothing in hand, whatever comes next comes there. What is unread in TCP
 * stays in it.
 */
#include "back.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "daemon/base/log.h"
#include "carrier.h"
#include "life.h"
#include "relay.h"
#include "stream_priv.h"
#include "tcp.h"
#include "upgrade.h"

#define WAIT_MS		5u	/* for what is in hand */
#define KEEP_MS		5u	/* TCP stays unread so long for the next attempt, while the application reads what is in the carrier */

struct stream_back {
	struct stream *st;
	uint64_t until;
	struct timer tick;
	bool offered;		/* the relay rests */
	uint64_t sent;		/* octets that T had been given then; UINT64_MAX: it could not be told */
	void (*done)(void *arg, int ret, int tcp);
	void *arg;
};

void stream_want_back(struct stream *st, bool want)
{
	if (want)
		atomic_fetch_or(&st->page->want, IW_WANT_BACK);
	else
		atomic_fetch_and(&st->page->want, ~IW_WANT_BACK);
}

static void forget(struct stream *st)
{
	timer_stop(&st->back->tick);
	free(st->back);
	st->back = NULL;
}

static void finish(struct stream *st, int ret, int tcp)
{
	struct stream_back j = *st->back;

	forget(st);
	j.done(j.arg, ret, tcp);
}

static void failed(struct stream *st, int ret, unsigned int keep_ms)
{
	struct stream_back j = *st->back;

	forget(st);
	relay_resume(st, keep_ms);
	j.done(j.arg, ret, -1);
}

/* Its last holder has closed the carrier: in its place there is T. */
static void closed(struct stream *st, bool error)
{
	stream_kill(st);
}

static uint64_t sent(const struct stream *st)
{
	struct tcp_count c;

	return tcp_count(st->end[0].tcp, st->client, &c) ? UINT64_MAX : c.sent;
}

/* The carrier's hang-up says nothing until it is known whether T was taken. */
static void offer(struct stream *st)
{
	struct stream_back *b = st->back;

	timer_stop(&b->tick);
	st->relay->rest = NULL;
	st->on_hup = NULL;
	b->offered = true;
	b->sent = sent(st);
	tcp_offer(st->end[0].tcp, &st->kept);
	atomic_store(&stream_page_end(st)->hand, IW_HAND_OFFERED);
	b->done(b->arg, 0, st->end[0].tcp);
}

bool back_offered(const struct stream *st)
{
	return st->back && st->back->offered;
}

static int queued(int fd, unsigned long what)
{
	int n = 0;

	return ioctl(fd, what, &n) ? 1 : n;
}

/* Octets that the application wrote into the carrier between our last look and the exchange, unseen by its library, go before what it writes into T now. */
static void late(struct stream *st)
{
	int n;

	if (!queued(st->d, SIOCINQ))
		return;
	n = sent(st) == st->back->sent ? carrier_late(st->d, st->end[0].tcp, st->end[0].uid) : -EILSEQ;
	if (n >= 0) {
		st->tx_bytes += (uint64_t)n;
	} else {
		stream_log(st, LOG_WARNING, "octets were written past the library while it went back, and cannot be passed on: reset");
		tcp_cut(st->end[0].tcp);
	}
}

int stream_backed(struct stream *st)
{
	if (!back_offered(st))
		return -EINVAL;
	late(st);
	forget(st);
	close_socket(st->end[0].tcp);
	st->end[0].tcp = -1;
	st->state = STREAM_CLOSING;
	st->given_back = true;
	st->page->want = 0;
	stream_no_upgrade(st);
	carrier_poll(st, closed);
	if (st->app_closed)
		stream_kill(st);
	return 0;
}

static void look(struct stream *st)
{
	const struct stream_relay *r = st->relay;

	if (st->state != STREAM_RELAY || st->app_closed || r->up.eof || r->down.eof)
		failed(st, -ENOTCONN, 0);
	else if (queued(st->d, SIOCOUTQ) || relay_hand(&r->down))
		failed(st, -EAGAIN, KEEP_MS);	/* there is something to read */
	else if (!st->d_rx.busy && queued(st->d, SIOCINQ))
		failed(st, -EAGAIN, 0);		/* somebody writes */
	else if (relay_resting(st))
		offer(st);
	else if (engine_now_ms() >= st->back->until)
		failed(st, -EAGAIN, 0);
}

static void tick(struct timer *t)
{
	struct stream_back *b = container_of(t, struct stream_back, tick);

	timer_start(t, WAIT_MS, tick);
	look(b->st);
}

void stream_back(struct stream *st, void (*done)(void *arg, int ret, int tcp), void *arg)
{
	struct stream_back *b;

	if (st->state != STREAM_RELAY) {
		done(arg, -ENOTCONN, -1);
		return;
	}
	b = st->join || st->back || upgrade_open(st) ? NULL : calloc(1, sizeof(*b));
	if (!b) {
		done(arg, -EAGAIN, -1);
		return;
	}
	*b = (struct stream_back){ .st = st, .until = engine_now_ms() + WAIT_MS, .done = done, .arg = arg };
	st->back = b;
	timer_start(&b->tick, WAIT_MS, tick);
	relay_still(st, true, true, look);
}

/* Once T was passed nobody knows what was done to it. */
bool stream_back_cancel(struct stream *st)
{
	bool offered = back_offered(st);

	if (!st->back)
		return true;
	if (offered && !stream_withdraw(st, 0))
		return false;
	forget(st);
	if (offered) {
		tcp_keep(st->end[0].tcp, &st->kept);
		engine_file_waits(st->end[0].tcp);
	}
	relay_resume(st, 0);
	return true;
}

void back_over(struct stream *st)
{
	if (back_offered(st))
		forget(st);
	else if (st->back)
		finish(st, -ENOTCONN, -1);
}
