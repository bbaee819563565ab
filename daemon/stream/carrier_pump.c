/* SPDX-License-Identifier: MIT */
/* The pump of a remote stream: carrier to transmit ring, receive ring to carrier, and what their ends mean. */
#include "carrier_pump.h"

#include <errno.h>
#include <sys/socket.h>

#include "carrier.h"
#include "life.h"
#include "map.h"
#include "orphan.h"
#include "relay.h"
#include "remote.h"
#include "remote_mem.h"
#include "remote_rs.h"
#include "stream_priv.h"
#include "tcp.h"

#define PUMP_MAX	(256u << 10)	/* octets per request, so that they are still in the cache when the next layer copies them */
#define ACK_DELAY_MS	100u		/* so that the peer's SIOCOUTQ falls to 0 on a stream that went idle */

static void pump_tx(struct stream *st);
static void abort_behind(struct stream *st);

/* ---- application to network ---- */

/*
 * Where the next octets of the application go: the ring's end is in the middle of them, if it must. What was written by one call is sent as one, since
 * there are programs that take for granted that it comes so.
 */
static unsigned int tx_places(struct stream *st, struct iovec v[2])
{
	uint32_t off, len, sum = 0;
	unsigned int n = 0;

	for (; n < 2 && sum < PUMP_MAX; n++, sum += len) {
		iw_rs_tx_space(&st->remote->f->rs, sum, &off, &len);
		if (!len)
			break;
		if (len > PUMP_MAX - sum)
			len = PUMP_MAX - sum;
		v[n] = (struct iovec){ remote_tx_ring(st) + off, len };
	}
	return n;
}

/* The application's half ended: by shutdown, by an orderly close, or by a close with SO_LINGER 0. */
static void tx_end(struct stream *st)
{
	struct stream_remote *r = st->remote;
	uint32_t stag;
	uint64_t to;

	st->app_closed = st->app_closed || carrier_hup(st);
	if (st->app_closed && st->d_tx.busy)
		return;		/* until it is known what the application has had */
	r->f->tx_eof = true;
	/* octets that it will not read make it a reset, as TCP does it */
	if (st->app_closed && r->ep && (stream_linger0(st) || iw_rs_rx_peek(&r->f->rs, &stag, &to))) {
		remote_abort(st, ECONNRESET);
		return;
	}
	iw_rs_tx_fin(&r->f->rs);
}

static void tx_taken(struct stream *st, uint32_t n)
{
	struct iw_rs *rs = &st->remote->f->rs;

	st->tx_bytes += n;
	st->active_ms = engine_now_ms();
	atomic_store_explicit(&stream_page_end(st)->tx_taken, st->tx_bytes, memory_order_relaxed);
	iw_rs_tx_produced(rs, n);
	iw_rs_push(rs);
}

static void tx_received(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, d_rx);
	struct stream_remote *r;

	carrier_received(st, res);
	if (st->state == STREAM_DEAD || st->d_drop) {
		stream_ended_op(st);
		return;
	}
	r = st->remote;
	if (r->f->reset_err)
		return;
	if (res > 0)
		tx_taken(st, (uint32_t)res);
	else if (!res)
		tx_end(st);
	else if (!op_again(res) && res != -ECANCELED)
		r->resets = true;	/* closed with octets unread */
	if (r->resets)
		abort_behind(st);
	else
		pump_queue(st);
}

/* What the relay had in hand at the end goes first. False: not yet. */
static bool left_moved(struct stream *st, uint8_t *to, uint32_t len)
{
	struct stream_remote *r = st->remote;
	bool eof = false;
	int n = relay_left(st, to, len, &eof);

	if (n == -EAGAIN)
		return false;
	if (n < 0) {
		remote_abort(st, ECONNRESET);
		return false;
	}
	if (n) {
		iw_rs_tx_produced(&r->f->rs, (uint32_t)n);
		iw_rs_push(&r->f->rs);
		pump_queue(st);
	}
	if (eof)
		tx_end(st);
	if (st->state != STREAM_DEAD && !relay_left_len(st))
		stream_relay_over(st);
	return !n && !eof;
}

/*
 * The application is gone, and TCP would have been reset. What was written before is on its way then, so that the peer can read it; what does not go at
 * once would not have been.
 */
static void abort_behind(struct stream *st)
{
	struct stream_remote *r = st->remote;
	uint32_t off, len;
	ssize_t n = 1;

	r->resets = true;
	if (st->d_rx.busy)
		return;		/* until it has ended */
	while (n > 0 && r->ep && !r->f->tx_eof && !r->f->reset_err && !r->f->aborted && !map_rests(st)) {
		iw_rs_tx_space(&r->f->rs, 0, &off, &len);
		if (!len)
			break;
		if (st->relay && !left_moved(st, remote_tx_ring(st) + off, len))
			continue;	/* there may be more, or it was the end */
		n = carrier_take(st, remote_tx_ring(st) + off, len);
		if (n > 0)
			tx_taken(st, (uint32_t)n);
	}
	if (r->ep && !r->f->reset_err && !r->f->aborted && !map_rests(st))
		iw_rs_pump(&r->f->rs, &remote_rs_ops, st);
	remote_abort(st, ECONNRESET);
}

static void pump_tx(struct stream *st)
{
	struct stream_remote *r = st->remote;
	struct iovec v[2];
	unsigned int n;

	if (st->d_rx.busy || st->d_drop || r->f->tx_eof || r->f->reset_err || !r->ep || (st->app_closed && st->d_tx.busy) || map_holds_tx(st))
		return;
	n = tx_places(st, v);
	if (!n || (st->relay && !left_moved(st, v[0].iov_base, (uint32_t)v[0].iov_len)))
		return;
	carrier_recv(st, v, n, tx_received);
}

/* ---- network to application ---- */

static void ack_now(struct timer *t)
{
	struct stream_remote *r = container_of(t, struct stream_remote, ack);

	iw_rs_ack(&r->f->rs);
	pump_queue(r->st);
}

static void rx_consumed(struct stream *st, uint32_t n)
{
	struct stream_remote *r = st->remote;

	iw_rs_rx_consumed(&r->f->rs, n);
	if (!r->ack.due && r->ep)
		timer_start(&r->ack, ACK_DELAY_MS, ack_now);
}

static void rx_given(struct stream *st, uint32_t n)
{
	st->rx_bytes += n;
	st->active_ms = engine_now_ms();
	atomic_store_explicit(&stream_page_end(st)->rx_given, st->rx_bytes, memory_order_relaxed);
	rx_consumed(st, n);
}

static void rx_sent(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, d_tx);
	struct stream_remote *r;

	if (st->state == STREAM_DEAD || st->d_drop) {
		stream_ended_op(st);
		return;
	}
	r = st->remote;
	if (res > 0) {
		rx_given(st, (uint32_t)res);
	} else if (!op_again(res) && res != -ECANCELED) {
		if (st->app_closed || carrier_hup(st)) {
			abort_behind(st);	/* octets that nobody will read */
			return;
		}
		r->f->discard = true;
	}
	pump_queue(st);
}

/* The next octets for it: two pieces where the ring ends, since what comes as one is given as one. */
static unsigned int rx_pieces(struct stream *st, struct iovec v[2])
{
	const struct iw_rs *rs = &st->remote->f->rs;
	uint32_t stag[2], len, sum = 0;
	unsigned int n = 0;
	uint64_t to[2];

	for (; n < 2 && sum < PUMP_MAX; n++, sum += len) {
		len = iw_rs_rx_at(rs, sum, &stag[n], &to[n]);
		if (!len || (n && (stag[1] != stag[0] || to[1] > to[0])))
			break;
		if (len > PUMP_MAX - sum)
			len = PUMP_MAX - sum;
		v[n] = (struct iovec){ remote_mem(st, stag[n], to[n], len), len };
	}
	return n;
}

static void rx_send(struct stream *st)
{
	struct io_uring_sqe *sqe = engine_sqe();

	st->d_out = (struct msghdr){ .msg_iov = st->d_out_iov, .msg_iovlen = rx_pieces(st, st->d_out_iov) };
	st->d_tx.fn = rx_sent;
	io_uring_prep_sendmsg(sqe, st->d, &st->d_out, MSG_NOSIGNAL);
	engine_submit(sqe, &st->d_tx);
}

/* Everything the peer sent has been passed on: its FIN, or the reset that followed. */
static void rx_drained(struct stream *st)
{
	struct stream_remote *r = st->remote;

	if (r->f->reset_err) {
		carrier_drop(st);
		return;
	}
	if (r->f->fin_given || !iw_rs_rx_fin(&r->f->rs))
		return;
	r->f->fin_given = true;
	if (!st->app_closed)
		carrier_fin(st);
	iw_rs_rx_fin_consumed(&r->f->rs);
}

void pump_unread(struct stream *st)
{
	struct stream_remote *r = st->remote;
	struct iovec v[2];
	struct msghdr m = { .msg_iov = v };

	if (st->app_closed || st->d_tx.busy || st->d_drop || r->f->discard)
		return;
	while ((m.msg_iovlen = rx_pieces(st, v))) {
		ssize_t all = (ssize_t)(v[0].iov_len + (m.msg_iovlen > 1 ? v[1].iov_len : 0)), k = sendmsg(st->d, &m, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (k <= 0)
			return;
		rx_given(st, (uint32_t)k);
		if (k < all)
			return;
	}
	rx_drained(st);
}

static void pump_rx(struct stream *st)
{
	struct stream_remote *r = st->remote;
	uint32_t n, stag;
	uint64_t to;

	if (st->d_tx.busy || st->d_drop || map_holds_rx(st))
		return;
	while ((n = iw_rs_rx_peek(&r->f->rs, &stag, &to))) {
		if (st->app_closed) {
			if (r->f->reset_err)
				carrier_drop(st);
			else
				abort_behind(st);	/* octets for a closed socket: TCP answers by RST */
			return;
		}
		if (!r->f->discard) {
			rx_send(st);
			return;
		}
		rx_consumed(st, n);
	}
	rx_drained(st);
}

/* ---- both ---- */

static void acked(struct stream *st, uint64_t left)
{
	_Atomic uint64_t *told = &stream_page_end(st)->tx_acked;
	uint64_t pos = st->tx_bytes - relay_left_len(st) - left;

	if ((int64_t)(pos - atomic_load_explicit(told, memory_order_relaxed)) > 0)
		atomic_store_explicit(told, pos, memory_order_relaxed);
}

/* The peer's own word comes late, or when its application reads. What its TCP has is not left, but what it is offered to read is. */
void pump_acked(struct stream *st)
{
	const struct iw_rs *rs = &st->remote->f->rs;

	if (!map_rests(st))
		acked(st, iw_rs_tx_left(rs, rs->tx_pos - rs->tx_done + (uint64_t)tcp_unacked(st->end[0].tcp)));
}

static void pump_work(struct work *w)
{
	struct stream *st = container_of(w, struct stream, work);
	struct stream_remote *r = st->remote;

	if (st->state == STREAM_DEAD || !r->f->running || map_rests(st))
		return;
	if (r->f->ev_abort && !r->f->reset_err && !r->f->aborted) {
		remote_reset(st, r->f->rs.err == ETIMEDOUT ? ETIMEDOUT : ECONNRESET);
		if (r->ep) {
			iw_rs_pump(&r->f->rs, &remote_rs_ops, st);
			endpoint_close(r->ep);
		}
	}
	pump_rx(st);
	pump_tx(st);
	if (r->ep) {
		iw_rs_pump(&r->f->rs, &remote_rs_ops, st);
		acked(st, iw_rs_tx_unacked(&r->f->rs));
		pump_tx(st);
	}
	if (r->f->ev_done && r->ep) {
		st->state = STREAM_CLOSING;
		endpoint_close(r->ep);
	}
	if (st->app_closed && r->ep && !r->orphan.due)
		orphan_begin(st);
	remote_end(st);
	map_look(st);
}

void pump_queue(struct stream *st)
{
	work_queue(&st->work, pump_work);
}

static void pump_hup(struct stream *st, bool error)
{
	struct stream_remote *r = st->remote;

	if (error || (r->ep && stream_linger0(st))) {
		abort_behind(st);
		return;
	}
	if (st->state == STREAM_RUNNING)
		st->state = STREAM_CLOSING;
	pump_queue(st);
}

void pump_start(struct stream *st)
{
	carrier_poll(st, pump_hup);
	if (st->app_closed)
		pump_hup(st, st->app_error);
	if (st->d_drop)
		return;
	iw_rs_rx_waiting(&st->remote->f->rs, true);	/* in carrier mode the reader sleeps in the kernel: an event wakes it */
	pump_queue(st);
}
