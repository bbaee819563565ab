/* SPDX-License-Identifier: MIT */
/* A withdrawn stream: plain octets between carrier and TCP, with both half-closes and resets as TCP has them. */
#include "relay.h"

#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "carrier.h"
#include "life.h"
#include "stream_priv.h"

#define RELAY_BUF (128u << 10)

struct relay_dir {
	size_t len, off;	/* in buf: off..len is still to be sent */
	bool eof;		/* end of stream passed on */
	uint8_t buf[RELAY_BUF];
};

struct stream_relay {
	bool discard;		/* nobody reads the carrier any more, yet it is not closed (SHUT_RD) */
	struct relay_dir up, down;	/* up: application to network */
	unsigned int spun;	/* see engine_file_again() */
};

static void up_recv(struct stream *st);
static void down_recv(struct stream *st);
static void down_watch(struct stream *st);
static void up_send(struct stream *st);
static void down_send(struct stream *st);

/* The application reset the connection, or octets came for nobody: RST on TCP. */
static void relay_abort(struct stream *st)
{
	tcp_reset_on_close(st->end[0].tcp);
	stream_kill(st);
}

/* TCP is lost. */
static void relay_lost(struct stream *st, int err)
{
	carrier_reset(st, err == EPIPE || err == EAGAIN ? ECONNRESET : err);
	stream_kill(st);
}

static void relay_check_end(struct stream *st)
{
	const struct stream_relay *r = st->relay;

	if (!r->up.eof)
		return;
	/* both halves ended; or the application is gone, and the kernel knows better than we what its orphan has to do */
	if (r->down.eof || (st->app_closed && r->down.off == r->down.len))
		stream_kill(st);
	else if (st->app_closed)
		st->state = STREAM_CLOSING;
}

static void relay_hup(struct stream *st, bool error)
{
	if (error || tcp_linger0(st->end[0].tcp))
		relay_abort(st);
	else
		relay_check_end(st);
}

/* ---- application to network ---- */

static void up_received(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, d_rx);
	struct relay_dir *d;

	carrier_received(st, res);
	if (st->state == STREAM_DEAD) {
		stream_ended_op(st);
		return;
	}
	d = &st->relay->up;
	if (res > 0) {
		st->tx_bytes += (uint64_t)res;
		st->active_ms = engine_now_ms();
		atomic_store_explicit(&stream_page_end(st)->tx_taken, st->tx_bytes, memory_order_relaxed);
		d->off = 0;
		d->len = (size_t)res;
		up_send(st);
	} else if (op_again(res)) {
		up_recv(st);
	} else if (res < 0) {
		relay_abort(st);	/* closed with octets unread */
	} else {
		d->eof = true;
		st->app_closed = st->app_closed || carrier_hup(st);
		if (st->app_closed && tcp_linger0(st->end[0].tcp)) {
			relay_abort(st);
			return;
		}
		shutdown(st->end[0].tcp, SHUT_WR);
		relay_check_end(st);
	}
}

static void up_recv(struct stream *st)
{
	carrier_recv(st, st->relay->up.buf, RELAY_BUF, up_received);
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
	if (res < 0 && !engine_file_again(st->end[0].tcp, res, &st->relay->spun)) {
		relay_lost(st, -res);
		return;
	}
	d->off += res > 0 ? (size_t)res : 0;
	atomic_store_explicit(&stream_page_end(st)->tx_acked, st->tx_bytes - (d->len - d->off), memory_order_relaxed);
	if (d->off < d->len)
		up_send(st);
	else
		up_recv(st);
}

static void up_send(struct stream *st)
{
	struct relay_dir *d = &st->relay->up;
	struct io_uring_sqe *sqe = engine_sqe();

	st->t_tx.fn = up_sent;
	io_uring_prep_send(sqe, st->end[0].tcp, d->buf + d->off, d->len - d->off, MSG_NOSIGNAL | MSG_WAITALL);
	engine_submit(sqe, &st->t_tx);
}

/* ---- network to application ---- */

/* The peer's half has ended, and nothing reads the connection any more: a RST must be heard all the same. */
static void down_watched(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, t_rx);
	int err = 0;
	socklen_t len = sizeof(err);

	if (st->state == STREAM_DEAD)
		stream_ended_op(st);
	else if (res > 0 && (res & POLLERR) && !getsockopt(st->end[0].tcp, SOL_SOCKET, SO_ERROR, &err, &len))
		relay_lost(st, err ? err : ECONNRESET);
	else if (!more && (res > 0 || op_again(res)))
		down_watch(st);
}

static void down_watch(struct stream *st)
{
	struct io_uring_sqe *sqe = engine_sqe();

	st->t_rx.fn = down_watched;
	io_uring_prep_poll_multishot(sqe, st->end[0].tcp, 0);	/* POLLRDHUP comes unasked: once */
	engine_submit(sqe, &st->t_rx);
}

static void down_received(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, t_rx);
	struct relay_dir *d;

	if (st->state == STREAM_DEAD) {
		stream_ended_op(st);
		return;
	}
	d = &st->relay->down;
	if (res < 0 && engine_file_again(st->end[0].tcp, res, &st->relay->spun)) {
		down_recv(st);
	} else if (res < 0) {
		relay_lost(st, -res);
	} else if (res > 0 && st->app_closed) {
		relay_abort(st);
	} else if (res > 0 && st->relay->discard) {
		down_recv(st);
	} else if (res > 0) {
		st->rx_bytes += (uint64_t)res;
		st->active_ms = engine_now_ms();
		d->off = 0;
		d->len = (size_t)res;
		down_send(st);
	} else {
		d->eof = true;
		carrier_fin(st);
		down_watch(st);
		relay_check_end(st);
	}
}

static void down_recv(struct stream *st)
{
	struct io_uring_sqe *sqe = engine_sqe();

	st->t_rx.fn = down_received;
	io_uring_prep_recv(sqe, st->end[0].tcp, st->relay->down.buf, RELAY_BUF, 0);
	engine_submit(sqe, &st->t_rx);
}

static void down_sent(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, d_tx);
	struct relay_dir *d;

	if (st->state == STREAM_DEAD) {
		stream_ended_op(st);
		return;
	}
	d = &st->relay->down;
	if (res < 0 && !op_again(res)) {
		if (st->app_closed || carrier_hup(st)) {
			relay_abort(st);
			return;
		}
		st->relay->discard = true;
		d->off = d->len;
	}
	d->off += res > 0 ? (size_t)res : 0;
	atomic_store_explicit(&stream_page_end(st)->rx_given, st->rx_bytes - (d->len - d->off), memory_order_relaxed);
	if (d->off < d->len)
		down_send(st);
	else
		down_recv(st);
}

static void down_send(struct stream *st)
{
	struct relay_dir *d = &st->relay->down;
	struct io_uring_sqe *sqe = engine_sqe();

	st->d_tx.fn = down_sent;
	io_uring_prep_send(sqe, st->d, d->buf + d->off, d->len - d->off, MSG_NOSIGNAL | MSG_WAITALL);
	engine_submit(sqe, &st->d_tx);
}

/* ---- start and end ---- */

size_t relay_memory(void)
{
	return sizeof(struct stream_relay);
}

int relay_start(struct stream *st)
{
	int tcp = st->end[0].tcp, one = 1;
	struct stream_relay *r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (r == MAP_FAILED)
		return -ENOMEM;
	st->relay = r;
	engine_file_waits(tcp);
	setsockopt(tcp, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
	setsockopt(st->d, SOL_SOCKET, SO_OOBINLINE, &one, sizeof(one));	/* an urgent octet is not lost, its mark is */
	carrier_poll(st, relay_hup);
	up_recv(st);
	down_recv(st);
	return 0;
}

void relay_free(struct stream *st)
{
	if (st->relay)
		munmap(st->relay, sizeof(*st->relay));
	st->relay = NULL;
}
