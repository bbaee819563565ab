/* SPDX-License-Identifier: MIT */
/* A switched stream: plain octets between carrier and TCP, counted, with both half-closes and resets as TCP has them. */
#include "relay.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "proto/crc32c.h"
#include "carrier.h"
#include "life.h"
#include "stream_priv.h"
#include "tcp.h"
#include "upgrade.h"

#define KEPT	32u
#define KEPT_MS	1000u

static void up_go(struct stream *st);
static void down_go(struct stream *st);
static void down_watch(struct stream *st);

/* ---- ends ---- */

void relay_abort(struct stream *st)
{
	st->tcp_reset = true;
	stream_kill(st);
}

/* One that waits for room is not waited for. */
static bool sends_now(const struct stream *st)
{
	struct pollfd p = { .fd = st->end[0].tcp, .events = POLLOUT };

	return st->t_tx.busy && poll(&p, 1, 0) == 1 && !(p.revents & (POLLERR | POLLHUP));
}

/* What the application wrote and TCP takes at once. */
static void up_flush(struct stream *st)
{
	struct relay_dir *d = &st->relay->up;
	ssize_t n;

	if (st->t_tx.busy || d->fin)
		return;
	do {
		while (relay_hand(d)) {
			n = send(st->end[0].tcp, d->buf + d->off, relay_hand(d), MSG_DONTWAIT | MSG_NOSIGNAL);
			if (n <= 0)
				return;
			relay_count(d, d->buf + d->off, (size_t)n);
			d->off += (size_t)n;
		}
		n = carrier_take(st, d->buf, RELAY_BUF);
		d->off = 0;
		d->len = n > 0 ? (size_t)n : 0;
	} while (n > 0);
}

/*
 * The application is gone, and TCP would have been reset. What was written before is on its way then, so that the peer can read it; what TCP does not
 * take now would not have been.
 */
static void abort_behind(struct stream *st)
{
	st->relay->resets = true;
	if (st->d_rx.busy || sends_now(st) || upgrade_keeps(st))
		return;		/* until it has ended: the upgrade takes what there is along, or gives it back */
	up_flush(st);
	relay_abort(st);
}

void relay_lost(struct stream *st, int err)
{
	struct stream_relay *r = st->relay;

	if (r->lost)
		return;
	r->lost = true;
	if (err == EAGAIN)
		err = ECONNRESET;
	if (st->app_closed || r->down.fin) {
		carrier_reset(st, err);
		stream_kill(st);
		return;
	}
	st->state = STREAM_CLOSING;
	carrier_lost(st, err);
	engine_cancel(&st->t_rx);	/* the watch; then what is unread is read */
	relay_go(st);
	relay_moved(st);
}

static void relay_check_end(struct stream *st)
{
	const struct stream_relay *r = st->relay;

	if (!r->up.fin)
		return;
	/* both halves ended; or the application is gone, and the kernel knows better than we what its orphan has to do */
	if (r->down.fin || (st->app_closed && !relay_hand(&r->down)))
		stream_kill(st);
	else if (st->app_closed)
		st->state = STREAM_CLOSING;
}

static void relay_hup(struct stream *st, bool error)
{
	if (st->relay->lost)
		relay_abort(st);
	else if (error || stream_linger0(st))
		abort_behind(st);
	else
		relay_check_end(st);
}

/* ---- positions ---- */

void relay_count(struct relay_dir *d, const uint8_t *octets, size_t n)
{
	size_t keep = n < RELAY_LAST ? RELAY_LAST - n : 0, add = RELAY_LAST - keep;

	memmove(d->last, d->last + RELAY_LAST - keep, keep);
	memcpy(d->last + keep, octets + n - add, add);
	d->known = d->known + add < RELAY_LAST ? d->known + (uint32_t)add : RELAY_LAST;
	d->pos += n;
}

uint32_t relay_crc(const struct relay_dir *d)
{
	uint32_t n = d->pos < RELAY_LAST ? (uint32_t)d->pos : RELAY_LAST;

	return d->known < n ? 0 : iw_crc32c(0, d->last + RELAY_LAST - n, n);
}

/* ---- coming to rest ---- */

static void rest_work(struct work *w)
{
	struct stream *st = container_of(w, struct stream, work);

	if (st->state != STREAM_DEAD && st->relay && st->relay->rest)
		st->relay->rest(st);
}

void relay_rest(struct stream *st)
{
	if (st->relay->rest)
		work_queue(&st->work, rest_work);
}

void relay_moved(struct stream *st)
{
	upgrade_moved(st);
	if (st->state != STREAM_DEAD && st->relay && !st->relay->over)
		relay_rest(st);
}

void relay_still(struct stream *st, bool deaf, bool mute, void (*rest)(struct stream *st))
{
	struct stream_relay *r = st->relay;

	timer_stop(&r->deaf_timer);
	r->deaf |= deaf;
	r->mute |= mute;
	r->rest = rest;
	if (r->deaf)
		engine_cancel(&st->d_rx);
	if (r->mute)
		engine_cancel(&st->t_rx);
	relay_rest(st);
}

void relay_unmute(struct stream *st)
{
	st->relay->mute = false;
	relay_go(st);
}

bool relay_halted(const struct stream *st)
{
	return !st->d_rx.busy && !st->d_tx.busy && !st->t_rx.busy && !st->t_tx.busy;
}

bool relay_resting(const struct stream *st)
{
	return relay_halted(st) && !relay_hand(&st->relay->up) && !relay_hand(&st->relay->down);
}

void relay_halt(struct stream *st)
{
	st->relay->halts = true;
	st->on_hup = NULL;	/* the next one hears of it */
	relay_still(st, true, true, NULL);
	engine_cancel(&st->t_tx);
	engine_cancel(&st->d_tx);
}

static bool called_back(const struct stream *st, int res)
{
	return st->relay->halts && res == -ECANCELED;
}

static void deaf_end(struct timer *t)
{
	struct stream_relay *r = container_of(t, struct stream_relay, deaf_timer);

	r->deaf = r->mute = false;
	relay_go(r->st);
}

void relay_resume(struct stream *st, unsigned int ms)
{
	struct stream_relay *r = st->relay;
	bool untold = !st->on_hup;

	r->rest = NULL;
	r->halts = false;
	if (ms)
		timer_start(&r->deaf_timer, ms, deaf_end);
	else
		r->deaf = r->mute = false;
	carrier_poll(st, relay_hup);
	if (untold && st->app_closed)
		relay_hup(st, st->app_error);
	relay_go(st);
}

/* ---- application to network ---- */

/* As TCP ends it when its application closes: octets that this one will not read make it a reset, and there was no FIN before. */
static bool unread(const struct stream *st)
{
	return relay_hand(&st->relay->down) || (!st->relay->down.eof && tcp_unread(st->end[0].tcp));
}

static void up_fin(struct stream *st)
{
	st->app_closed = st->app_closed || carrier_hup(st);
	if (st->app_closed && st->d_tx.busy)
		return;		/* until it is known what the application has had */
	if (st->app_closed && (stream_linger0(st) || unread(st))) {
		relay_abort(st);	/* behind what it wrote: the end comes last */
		return;
	}
	st->relay->up.fin = true;
	shutdown(st->end[0].tcp, SHUT_WR);
	relay_check_end(st);
}

static void up_received(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, d_rx);
	struct stream_relay *r;

	carrier_received(st, res);
	if (st->state == STREAM_DEAD || st->d_drop) {
		stream_ended_op(st);
		return;
	}
	r = st->relay;
	if (res > 0) {
		st->tx_bytes += (uint64_t)res;
		st->active_ms = engine_now_ms();
		atomic_store_explicit(&stream_page_end(st)->tx_taken, st->tx_bytes, memory_order_relaxed);
		r->up.off = 0;
		r->up.len = (size_t)res;
	} else if (!res) {
		r->up.eof = true;
	} else if (!op_again(res) && res != -ECANCELED) {
		if (!r->over) {
			relay_abort(st);	/* closed with octets unread */
			return;
		}
		r->err = res;
	}
	if (r->over) {
		r->left(st);
		return;
	}
	if (r->resets) {
		abort_behind(st);
		return;
	}
	up_go(st);
	relay_moved(st);
}

/* What TCP has taken is not acknowledged yet: the application is told of what its own TCP would tell of. */
void relay_acked(struct stream *st)
{
	uint64_t left = relay_hand(&st->relay->up) + (uint64_t)tcp_unacked(st->end[0].tcp);

	atomic_store_explicit(&stream_page_end(st)->tx_acked, st->tx_bytes - left, memory_order_relaxed);
}

static void up_sent(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, t_tx);
	struct relay_dir *d;

	if (st->state == STREAM_DEAD) {
		stream_ended_op(st);
		return;
	}
	d = &st->relay->up;
	if (res < 0 && !called_back(st, res) && !engine_file_again(st->end[0].tcp, res, &st->relay->spun)) {
		relay_lost(st, -res);
		return;
	}
	if (res > 0) {
		relay_count(d, d->buf + d->off, (size_t)res);
		d->off += (size_t)res;
	}
	relay_acked(st);
	if (st->relay->resets) {
		abort_behind(st);
		return;
	}
	up_go(st);
	relay_moved(st);
}

/*
 * Not MSG_WAITALL: when a part has gone, a send that waits for the rest takes the error of a reset with it, and what is read next looks like FIN.
 */
static void up_send(struct stream *st)
{
	struct relay_dir *d = &st->relay->up;
	struct io_uring_sqe *sqe = engine_sqe();

	st->t_tx.fn = up_sent;
	io_uring_prep_send(sqe, st->end[0].tcp, d->buf + d->off, relay_hand(d), MSG_NOSIGNAL);
	engine_submit(sqe, &st->t_tx);
}

static void up_go(struct stream *st)
{
	struct stream_relay *r = st->relay;
	struct relay_dir *d = &r->up;

	if (st->state == STREAM_DEAD || r->over || r->lost || r->halts)
		return;
	if (r->resets)
		abort_behind(st);
	else if (st->t_tx.busy)
		return;
	else if (relay_hand(d) || (d->eof && !d->fin)) {
		if (upgrade_holds(st))
			return;
		if (relay_hand(d))
			up_send(st);
		else
			up_fin(st);
	} else if (!d->eof && !r->deaf && !st->d_rx.busy) {
		carrier_recv(st, &(struct iovec){ d->buf, RELAY_BUF }, 1, up_received);
	}
}

/* ---- network to application ---- */

/*
 * Nothing reads the connection: the peer's half has ended, or the application does not read what came before. A RST must be heard all the same.
 */
static void down_watched(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, t_rx);
	int err = 0;
	socklen_t len = sizeof(err);

	if (st->state == STREAM_DEAD) {
		stream_ended_op(st);
	} else if (res > 0 && (res & POLLERR) && !getsockopt(st->end[0].tcp, SOL_SOCKET, SO_ERROR, &err, &len) && (err || !st->t_tx.busy)) {
		relay_lost(st, err ? err : ECONNRESET);	/* without one a send has it, and will say so */
	} else if (!more && !st->relay->down.fin) {
		down_go(st);
		relay_moved(st);
	} else if (!more && !st->relay->halts && (res > 0 || op_again(res))) {
		down_watch(st);
	}
}

static void down_watch(struct stream *st)
{
	struct io_uring_sqe *sqe = engine_sqe();

	st->t_rx.fn = down_watched;
	io_uring_prep_poll_multishot(sqe, st->end[0].tcp, 0);	/* POLLRDHUP comes unasked: once */
	engine_submit(sqe, &st->t_rx);
}

static void down_fin(struct stream *st)
{
	st->relay->down.fin = true;
	carrier_fin(st);
	down_watch(st);
	relay_check_end(st);
}

static void down_received(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, t_rx);
	struct stream_relay *r = st->relay;
	struct relay_dir *d;

	if (st->state == STREAM_DEAD) {
		stream_ended_op(st);
		return;
	}
	d = &r->down;
	if (res > 0) {
		relay_count(d, d->buf + d->len, (size_t)res);
		d->len += (size_t)res;
	} else if (!res) {
		d->eof = true;
	} else if (res != -ECANCELED && !engine_file_again(st->end[0].tcp, res, &r->spun)) {
		d->eof = true;
		relay_lost(st, -res);
	}
	if (res > 0 || (!res && !r->lost))
		upgrade_came(st);
	if (st->state == STREAM_DEAD || r->over)
		return;
	down_go(st);
	relay_moved(st);
}

static void down_recv(struct stream *st)
{
	struct relay_dir *d = &st->relay->down;
	struct io_uring_sqe *sqe = engine_sqe();

	st->t_rx.fn = down_received;
	io_uring_prep_recv(sqe, st->end[0].tcp, d->buf + d->len, RELAY_BUF - d->len, 0);
	engine_submit(sqe, &st->t_rx);
}

void relay_given(struct stream *st, size_t n)
{
	st->rx_bytes += n;
	atomic_store_explicit(&stream_page_end(st)->rx_given, st->rx_bytes, memory_order_relaxed);
}

static void given(struct stream *st, size_t n)
{
	st->relay->down.off += n;
	st->active_ms = engine_now_ms();
	relay_given(st, n);
}

static void down_sent(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, d_tx);

	if (st->state == STREAM_DEAD) {
		stream_ended_op(st);
		return;
	}
	if (res < 0 && !op_again(res) && !called_back(st, res)) {
		if (st->app_closed || carrier_hup(st)) {
			abort_behind(st);
			return;
		}
		st->relay->discard = true;
	}
	if (res > 0)
		given(st, (size_t)res);
	st->relay->full = relay_hand(&st->relay->down);
	if (st->t_rx.busy && !st->relay->down.fin)
		engine_cancel(&st->t_rx);	/* the watch; then it is read again */
	relay_go(st);
	relay_moved(st);
}

/* Only one that waits needs the watch. */
static void down_send(struct stream *st)
{
	struct stream_relay *r = st->relay;
	struct relay_dir *d = &r->down;
	struct io_uring_sqe *sqe = engine_sqe();

	st->d_tx.fn = down_sent;
	io_uring_prep_send(sqe, st->d, d->buf + d->off, relay_hand(d), MSG_NOSIGNAL | (r->full ? MSG_WAITALL : MSG_DONTWAIT));
	engine_submit(sqe, &st->d_tx);
	if (r->full && !st->t_rx.busy && !d->eof && !r->mute)
		down_watch(st);
}

static void down_go(struct stream *st)
{
	struct stream_relay *r = st->relay;
	struct relay_dir *d = &r->down;

	if (st->state == STREAM_DEAD || r->over || r->halts || st->d_tx.busy)
		return;
	if (relay_hand(d) && !r->looked_at) {
		if (st->app_closed) {	/* octets for nobody: TCP answers by RST */
			abort_behind(st);
			if (st->state == STREAM_DEAD)
				return;
		} else if (!r->discard) {
			down_send(st);
			return;
		}
		d->off = d->len;
	}
	if (!relay_hand(d))
		d->off = d->len = 0;
	if (d->eof && r->lost)
		stream_kill(st);
	else if (d->eof && !d->fin)
		down_fin(st);
	else if (!d->eof && !r->mute && !st->t_rx.busy)
		down_recv(st);
}

/* ---- start and end ---- */

void relay_go(struct stream *st)
{
	up_go(st);
	if (st->state != STREAM_DEAD && st->relay)
		down_go(st);
}

size_t relay_memory(void)
{
	return sizeof(struct stream_relay);
}

/*
 * Many connections become worth it at once, and each is relayed for some ms only: the next one takes the memory that the last one left. Unmapping
 * interrupts all processors: a seventh of the time that 50 upgrades at once took. What lies in the buffers nobody reads.
 */
static struct {
	unsigned int n;
	struct stream_relay *r[KEPT];
	struct timer timer;
} kept;

static void kept_end(struct timer *t)
{
	while (kept.n)
		munmap(kept.r[--kept.n], sizeof(struct stream_relay));
}

static struct stream_relay *kept_one(void)
{
	struct stream_relay *r = kept.r[--kept.n];

	memset(r, 0, offsetof(struct stream_relay, up));
	memset(&r->up, 0, offsetof(struct relay_dir, buf));
	memset(&r->down, 0, offsetof(struct relay_dir, buf));
	return r;
}

int relay_alloc(struct stream *st)
{
	struct stream_relay *r = kept.n ? kept_one() : mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (r == MAP_FAILED)
		return -ENOMEM;
	r->st = st;
	st->relay = r;
	return 0;
}

void relay_note(const struct stream *st, struct relay_kept *k)
{
	const struct stream_relay *r = st->relay;

	*k = (struct relay_kept){ .counted = r->counted, .discard = r->discard, .up = r->up, .down = r->down };
}

static bool sound(const struct relay_dir *d)
{
	return d->off <= d->len && d->len <= sizeof(d->buf) && d->known <= sizeof(d->last);
}

int relay_revive(struct stream *st, const struct relay_kept *k)
{
	int ret = sound(&k->up) && sound(&k->down) ? relay_alloc(st) : -EPROTO;

	if (ret)
		return ret;
	st->relay->counted = k->counted;
	st->relay->discard = k->discard;
	st->relay->up = k->up;
	st->relay->down = k->down;
	engine_file_waits(st->end[0].tcp);
	carrier_poll(st, relay_hup);
	if (k->down.fin)
		down_watch(st);
	return 0;
}

static void count(struct stream *st)
{
	struct stream_relay *r = st->relay;
	struct tcp_count c;

	r->counted = !tcp_count(st->end[0].tcp, st->client, &c);
	if (!r->counted)
		return;
	r->up.pos = c.sent;
	r->down.pos = c.received - c.unread;
}

static void move_unread(struct stream *st)
{
	struct relay_dir *d = &st->relay->down;
	int have = tcp_unread(st->end[0].tcp);

	while (have > 0) {
		size_t n = (size_t)have < RELAY_BUF ? (size_t)have : RELAY_BUF;
		ssize_t k = recv(st->end[0].tcp, d->buf, n, MSG_DONTWAIT), s;

		if (k < 0 && !op_again(-errno)) {
			relay_lost(st, errno);
			return;
		}
		if (k <= 0)
			break;
		relay_count(d, d->buf, (size_t)k);
		d->off = 0;
		d->len = (size_t)k;
		s = send(st->d, d->buf, (size_t)k, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (s > 0)
			given(st, (size_t)s);
		if (s != k)
			break;
		have -= (int)k;
	}
}

void relay_start(struct stream *st)
{
	int one = 1;

	engine_file_waits(st->end[0].tcp);
	setsockopt(st->d, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one));	/* an urgent octet is not lost, its mark is */
	count(st);
	relay_acked(st);
	carrier_poll(st, relay_hup);
	move_unread(st);
	relay_go(st);
}

static void hup_noted(struct stream *st, bool error)
{
}

void relay_end(struct stream *st, void (*left)(struct stream *st))
{
	struct stream_relay *r = st->relay;

	r->over = true;
	r->left = left;
	r->rest = NULL;
	timer_stop(&r->deaf_timer);
	st->on_hup = hup_noted;
	engine_cancel(&st->d_rx);
}

size_t relay_left_len(const struct stream *st)
{
	return st->relay ? relay_hand(&st->relay->up) : 0;
}

int relay_left(struct stream *st, void *to, uint32_t n, bool *eof)
{
	struct relay_dir *d = &st->relay->up;

	if (st->d_rx.busy)
		return -EAGAIN;
	if (n > relay_hand(d))
		n = (uint32_t)relay_hand(d);
	memcpy(to, d->buf + d->off, n);
	d->off += n;
	*eof = d->eof && !relay_hand(d);
	return n || !st->relay->err ? (int)n : st->relay->err;
}

void relay_free(struct stream *st)
{
	if (!st->relay)
		return;
	timer_stop(&st->relay->deaf_timer);
	if (kept.n < KEPT)
		kept.r[kept.n++] = st->relay;
	else
		munmap(st->relay, sizeof(*st->relay));
	if (!kept.timer.node)
		timer_start(&kept.timer, KEPT_MS, kept_end);
	st->relay = NULL;
}
