/* SPDX-License-Identifier: MIT */
/*
 * The upgrade of the wire (docs/upgrade.md 3): two daemons that relay one connection agree on where MPA begins in either direction. The end that
 * begins holds what its application writes, the other one then, too, when it has read everything before; Request and Reply stand where they
 * hold. Going back is to send what is in hand: one octet at either position tells which it is.
 */
#include "upgrade.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "daemon/base/log.h"
#include "carrier.h"
#include "life.h"
#include "relay.h"
#include "remote.h"
#include "stream_priv.h"

#define KEY		'M'	/* MPA's frames begin by it */
#define PAUSE_MS	20u	/* the allowed pause: two round trips, and what lies in T, have to fit */
#define SHORT_MOST	5u	/* doublings of that */
#define WAIT_MS		1000u	/* for reading up to where the other holds: it gives up long before */
#define SECOND_MS	20u	/* the end that did not connect leaves the first attempt to the other for so long */
#define FIRST_MS	5u	/* after a failure, doubled each time */
#define LAST_MS		10000u
#define KEEPALIVE_MS	1000u

unsigned int upgrade_least_ms = 4;

enum upgrade_state {		/* docs/upgrade.md; A has the first two, B the next three */
	PLAIN, HOLDING, ASKED, WAIT, GIVEN, RESUMED,
};

struct stream_upgrade {
	struct stream *st;
	enum upgrade_state state;
	bool wanted;		/* stream_upgrade() was called */
	bool never;		/* it cannot be */
	bool due;		/* the next octets in hand may begin an attempt */
	bool answered;		/* HOLDING: HELD came */
	bool stop;		/* WAIT: everything is read, and only what is being sent is sent to its end */
	bool tired;		/* GIVEN: waited long enough */
	uint64_t nonce;
	uint64_t mine, theirs;	/* where this end holds, and the other */
	uint64_t last;		/* where this end held last, + 1 */
	uint32_t crc;		/* the other's */
	unsigned int pause;	/* ms to the next attempt */
	unsigned int shorts;	/* attempts for which the time was too short */
	struct timer timer;
	size_t frame_len, frame_off;
	uint8_t frame[ENDPOINT_FRAME_MAX];

	unsigned int attempts;
	const char *failed;
	uint64_t up_ms, up_tx, up_rx;
};

/* ---- a pause, and the next attempt ---- */

static void due(struct timer *t);

static void later(struct stream_upgrade *u)
{
	if (!u->wanted || u->never)
		return;
	timer_start(&u->timer, u->pause, due);
	u->pause = u->pause * 2 < LAST_MS ? u->pause * 2 : LAST_MS;
}

/* Back to plain: what is in hand goes out. What was prepared serves the next attempt, unless it has made a Request. */
static void plain(struct stream_upgrade *u, const char *why)
{
	struct stream *st = u->st;
	bool b = u->state == WAIT, used = u->state == ASKED;

	u->failed = why;
	u->state = PLAIN;
	u->due = u->answered = u->stop = u->tired = false;
	tcp_alive(st->end[0].tcp, &st->kept, false);
	st->relay->looked_at = false;
	timer_stop(&u->timer);
	if (used || u->never || !u->wanted)
		remote_unprepare(st);
	later(u);
	if (b)
		stream_ops->held(st, u->nonce, false, 0, 0);
}

static void plain_go(struct stream_upgrade *u, const char *why)
{
	plain(u, why);
	relay_go(u->st);
}

static bool open_both(const struct stream *st)
{
	const struct stream_relay *r = st->relay;

	return st->state == STREAM_RELAY && !st->app_closed && !st->join && !st->back && !r->over && !r->up.eof && !r->down.eof && !r->discard;
}

/*
 * What the other end's application has not read cannot be seen from here, and has to be read while this end holds: that is no pause, since who
 * reads has octets and who writes would wait for room. So the next attempt is given twice as long.
 */
static void too_short(struct stream_upgrade *u)
{
	u->shorts += u->shorts < SHORT_MOST;
}

/* How long a hold would last; 0: too long. Our counts have to be TCP's, else somebody else works T. */
static unsigned int pause_of(struct stream_upgrade *u)
{
	const struct stream_relay *r = u->st->relay;
	struct tcp_count c;
	uint64_t us;

	if (tcp_count(u->st->end[0].tcp, u->st->client, &c))
		return 0;
	if ((c.sent != r->up.pos && !u->st->t_tx.busy) || c.received - c.unread < r->down.pos || c.received - c.unread > r->down.pos + RELAY_BUF) {
		stream_log(u->st, LOG_WARNING, "octets were sent or read by somebody else: it stays plain TCP");
		u->never = true;
		return 0;
	}
	us = 2 * (uint64_t)c.rtt_us + (c.rate ? (c.sent - c.acked) * 1000000 / c.rate : c.sent - c.acked > RELAY_BUF ? UINT32_MAX : 0);
	if (us / 1000 < PAUSE_MS << u->shorts)
		return (upgrade_least_ms << u->shorts) + 2 * (unsigned int)(us / 1000);
	too_short(u);
	return 0;
}

/* What the endpoint makes of its own is there, or does not come. */
static void made(void *ctx)
{
	struct stream *st = ctx;
	struct stream_upgrade *u = st->upgrade;

	if (st->state == STREAM_RELAY && u->state == PLAIN && u->wanted && !u->never)
		timer_start(&u->timer, 0, due);
}

static void due(struct timer *t)
{
	struct stream_upgrade *u = container_of(t, struct stream_upgrade, timer);

	if (u->state != PLAIN)
		return;
	if (u->st->join || u->st->back) {
		later(u);
	} else if (!open_both(u->st)) {
		u->never = true;
		u->failed = "one direction has ended";
	} else if (!remote_prepare(u->st) && !remote_ready(u->st, made)) {
		u->failed = "a connection by a device is being made";
	} else if (!pause_of(u)) {
		u->failed = u->never ? "octets were sent or read by somebody else" : "a pause would be too long";
		if (!remote_made(u->st))
			remote_unprepare(u->st);
		later(u);
	} else if (remote_prepare(u->st)) {
		u->failed = "out of resources";
		later(u);
	} else {
		u->due = true;
	}
}

/* ---- the end that begins ---- */

static void enough(struct timer *t)
{
	struct stream_upgrade *u = container_of(t, struct stream_upgrade, timer);

	too_short(u);
	plain_go(u, u->answered ? "the other end's octets did not come in time" : "the other daemon did not answer in time");
}

/* There is an octet in hand, by which the other end can tell that there was no Request. */
static bool begin(struct stream_upgrade *u)
{
	struct stream *st = u->st;
	struct relay_dir *d = &st->relay->up;
	unsigned int ms;

	if (!relay_hand(d) || d->buf[d->off] == KEY || u->last == d->pos + 1 || !open_both(st))
		return false;
	u->due = false;
	ms = pause_of(u);
	if (!ms || getrandom(&u->nonce, sizeof(u->nonce), 0) != (ssize_t)sizeof(u->nonce)) {
		plain(u, "a pause would be too long");
		return false;
	}
	u->nonce += !u->nonce;
	u->attempts++;
	u->mine = d->pos;
	u->last = d->pos + 1;
	u->state = HOLDING;
	timer_start(&u->timer, ms, enough);
	stream_ops->hold(st, u->nonce, u->mine, relay_crc(d));
	return true;
}

static void frame_send(struct stream *st);

static void frame_sent(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, t_tx);
	struct stream_upgrade *u = st->upgrade;

	if (st->state == STREAM_DEAD) {
		stream_ended_op(st);
		return;
	}
	if (res < 0 && !engine_file_again(st->end[0].tcp, res, &st->relay->spun)) {
		relay_lost(st, -res);
		return;
	}
	if (res > 0) {
		relay_count(&st->relay->up, u->frame + u->frame_off, (size_t)res);
		u->frame_off += (size_t)res;
	}
	if (u->frame_off < u->frame_len) {
		frame_send(st);
	} else {	/* when it is plain already */
		relay_go(st);
		relay_moved(st);
	}
}

static void frame_send(struct stream *st)
{
	struct stream_upgrade *u = st->upgrade;
	struct io_uring_sqe *sqe = engine_sqe();

	st->t_tx.fn = frame_sent;
	io_uring_prep_send(sqe, st->end[0].tcp, u->frame + u->frame_off, u->frame_len - u->frame_off, MSG_NOSIGNAL);	/* see up_send() */
	engine_submit(sqe, &st->t_tx);
}

static bool crc_right(struct stream_upgrade *u)
{
	uint32_t own = relay_crc(&u->st->relay->down);

	if (!own || !u->crc || own == u->crc)
		return true;
	stream_log(u->st, LOG_WARNING, "the two daemons have not seen the same octets: it stays plain TCP");
	u->never = true;
	return false;
}

/* HELD came: the Request goes out when everything that the other end sent before is with the application. */
static void ask(struct stream_upgrade *u)
{
	struct stream *st = u->st;
	const struct relay_dir *d = &st->relay->down;
	int n;

	if (d->eof || d->pos > u->theirs) {
		plain_go(u, "the other end went on");
		return;
	}
	if (d->pos < u->theirs || relay_hand(d) || st->d_tx.busy)
		return;
	if (!crc_right(u)) {
		plain_go(u, "the octets before differ");
		return;
	}
	n = remote_request(st, u->nonce, u->frame);
	if (n < 0) {
		plain_go(u, "out of resources");
		return;
	}
	timer_stop(&u->timer);
	u->state = ASKED;
	u->frame_len = (size_t)n;
	u->frame_off = 0;
	frame_send(st);
}

void stream_held(struct stream *st, uint64_t nonce, bool yes, uint64_t pos, uint32_t crc)
{
	struct stream_upgrade *u = st->upgrade;

	if (st->state != STREAM_RELAY || !u || u->state != HOLDING || u->answered || nonce != u->nonce)
		return;
	if (!yes) {
		plain_go(u, "the other daemon would not");
		return;
	}
	u->answered = true;
	u->theirs = pos;
	u->crc = crc;
	ask(u);
}

/* ---- the other end ---- */

static void alive(struct timer *t)
{
	struct stream *st = container_of(t, struct stream_upgrade, timer)->st;

	tcp_alive(st->end[0].tcp, &st->kept, true);
}

static void given_long(struct timer *t)
{
	struct stream_upgrade *u = container_of(t, struct stream_upgrade, timer);

	u->tired = true;
	timer_start(t, KEEPALIVE_MS, alive);
	relay_go(u->st);
}

static void waited_long(struct timer *t)
{
	plain_go(container_of(t, struct stream_upgrade, timer), "the other end's octets did not come in time");
}

/* HELD goes out when everything that was sent before the other's position is with the application. */
static void give(struct stream_upgrade *u)
{
	struct stream *st = u->st;
	struct stream_relay *r = st->relay;
	unsigned int ms;

	if (!open_both(st) || r->down.pos > u->theirs) {
		plain_go(u, "the other end went on");
		return;
	}
	if (r->down.pos < u->theirs || relay_hand(&r->down) || st->d_tx.busy)
		return;
	u->stop = true;
	if (st->t_tx.busy)
		return;
	if (!crc_right(u)) {
		plain_go(u, "the octets before differ");
		return;
	}
	ms = pause_of(u);
	if (!ms) {
		plain_go(u, "a pause would be too long");
		return;
	}
	u->state = GIVEN;
	u->mine = r->up.pos;
	timer_start(&u->timer, ms, given_long);
	stream_ops->held(st, u->nonce, true, u->mine, relay_crc(&r->up));
}

/* Both may hold at the same time: then the end that connected goes on. */
static bool may_wait(struct stream_upgrade *u, uint64_t pos)
{
	const struct stream *st = u->st;

	if (u->never || !st->relay->counted || !open_both(st) || pos < st->relay->down.pos)
		return false;
	return u->state == PLAIN || u->state == WAIT || (u->state == HOLDING && !st->client);
}

void stream_their_hold(struct stream *st, uint64_t nonce, uint64_t pos, uint32_t crc)
{
	struct stream_upgrade *u = st->upgrade;

	if (st->state != STREAM_RELAY || !u || !nonce || !may_wait(u, pos)) {
		stream_ops->held(st, nonce, false, 0, 0);
		return;
	}
	if (u->state != PLAIN)
		plain_go(u, u->state == WAIT ? "the other end began anew" : "both ends began");
	if (st->state != STREAM_RELAY || !may_wait(u, pos) || remote_prepare(st)) {
		stream_ops->held(st, nonce, false, 0, 0);
		return;
	}
	u->attempts++;
	u->due = false;
	u->state = WAIT;
	u->nonce = nonce;
	u->theirs = pos;
	u->crc = crc;
	timer_start(&u->timer, WAIT_MS, waited_long);
	give(u);
}

/* ---- what stands at the other's position ---- */

/* It is MPA from here on, both ways. */
static void up(struct stream_upgrade *u, bool initiator, size_t n)
{
	struct stream *st = u->st;
	struct relay_dir *d = &st->relay->down;
	int ret;

	if (n != d->len || (initiator && st->t_tx.busy)) {	/* RFC 5044 7.1.3: octets behind it, or a Reply to half a Request */
		stream_log(st, LOG_WARNING, "octets behind the MPA startup frame");
		relay_abort(st);
		return;
	}
	u->up_ms = engine_now_ms();
	u->up_tx = u->mine;
	u->up_rx = u->theirs;
	u->failed = NULL;
	timer_stop(&u->timer);
	tcp_alive(st->end[0].tcp, &st->kept, false);
	ret = remote_go(st, initiator, d->buf, n);
	if (ret) {
		stream_log(st, LOG_WARNING, "MPA startup: %s", strerror(-ret));
		relay_abort(st);
	}
}

/* A frame begins at the position: it is looked at when it is whole. */
static void framed(struct stream_upgrade *u)
{
	struct stream *st = u->st;
	struct relay_dir *d = &st->relay->down;
	int n = remote_frame(st, d->buf, d->len, u->state == ASKED, u->nonce);

	st->relay->looked_at = !n && !d->eof;
	if (!n && !d->eof)
		return;
	if (n <= 0) {		/* positions that are not the same at both ends, or a daemon that lies: they are the application's octets */
		u->never = true;
		plain_go(u, "what came was no MPA frame");
	} else if (u->state == RESUMED) {
		d->off = (size_t)n;
		too_short(u);
		plain_go(u, "the Request came too late");
	} else {
		up(u, u->state == ASKED, (size_t)n);
	}
}

void upgrade_came(struct stream *st)
{
	struct stream_upgrade *u = st->upgrade;
	const struct relay_dir *d = &st->relay->down;

	if (u->state != ASKED && u->state != GIVEN && u->state != RESUMED)
		return;
	if (!relay_hand(d) || d->buf[0] != KEY)
		plain_go(u, "the other end went on");
	else
		framed(u);
}

/* ---- what the relay asks ---- */

bool upgrade_holds(struct stream *st)
{
	struct stream_upgrade *u = st->upgrade;
	const struct relay_dir *d = &st->relay->up;

	switch (u->state) {
	case HOLDING:
	case ASKED:
		return true;
	case WAIT:
		return u->stop;
	case GIVEN:
		if (!u->tired || (relay_hand(d) && d->buf[d->off] == KEY))
			return true;
		u->state = RESUMED;
		return false;
	case PLAIN:
		return u->due && begin(u);
	case RESUMED:
		break;
	}
	return false;
}

bool upgrade_keeps(const struct stream *st)
{
	const struct stream_upgrade *u = st->upgrade;

	return u->state == HOLDING || u->state == ASKED || (u->state == GIVEN && !u->tired) || (u->state == WAIT && u->stop);
}

void upgrade_moved(struct stream *st)
{
	struct stream_upgrade *u = st->upgrade;

	if (st->state == STREAM_DEAD)
		return;
	if (u->state == WAIT)
		give(u);
	else if (u->state == HOLDING && (u->answered || st->relay->down.eof))
		ask(u);
}

bool upgrade_open(const struct stream *st)
{
	return st->upgrade && st->upgrade->state != PLAIN;
}

void stream_upgrade(struct stream *st)
{
	struct stream_upgrade *u = st->upgrade;

	if (!u || u->wanted)
		return;
	u->wanted = true;
	if (st->state == STREAM_RELAY)
		upgrade_switched(st);
}

void upgrade_switched(struct stream *st)
{
	struct stream_upgrade *u = st->upgrade;

	u->never |= !st->relay->counted;
	if (u->never)
		u->failed = "the octets could not be counted";
	if (u->never || !u->wanted || u->state != PLAIN)
		return;
	remote_prepare(st);	/* not only when the other end holds already; it is tried again then */
	timer_start(&u->timer, st->client ? 0 : SECOND_MS, due);
}

void upgrade_over(struct stream *st)
{
	struct stream_upgrade *u = st->upgrade;

	if (!u)
		return;
	u->never = true;
	timer_stop(&u->timer);
	if (u->state == WAIT)
		stream_ops->held(st, u->nonce, false, 0, 0);
	u->state = PLAIN;
}

void upgrade_joined(struct stream *st)
{
	struct stream_upgrade *u = st->upgrade;

	u->up_ms = engine_now_ms();
	u->up_tx = st->relay->counted ? st->relay->up.pos : 0;
	u->up_rx = st->relay->counted ? st->relay->down.pos : 0;
}

int upgrade_new(struct stream *st)
{
	st->upgrade = calloc(1, sizeof(*st->upgrade));
	if (!st->upgrade)
		return -ENOMEM;
	st->upgrade->st = st;
	st->upgrade->pause = FIRST_MS;
	return 0;
}

void upgrade_free(struct stream *st)
{
	if (st->upgrade)
		timer_stop(&st->upgrade->timer);
	free(st->upgrade);
	st->upgrade = NULL;
}

void upgrade_info(const struct stream *st, struct stream_info *i)
{
	const struct stream_upgrade *u = st->upgrade;

	if (!u)
		return;
	i->attempts = u->attempts;
	i->failed = u->failed;
	i->upgraded_ms = u->up_ms;
	i->upgraded_tx = u->up_tx;
	i->upgraded_rx = u->up_rx;
}
