/* SPDX-License-Identifier: MIT */
/* The carrier's ends (FIN, reset, the application's close), and the watch over a stream whose octets are held. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stream_priv.h"

/* ---- how the stream towards the application ends ---- */

void carrier_fin(struct stream *st)
{
	/* before the shutdown: an EOF without this record is a reset (docs/design.md 2) */
	atomic_store(&stream_page_end(st)->close_state, IW_CLOSE_FIN);
	shutdown(st->d, SHUT_WR);
}

void carrier_drop(struct stream *st)
{
	st->d_drop = true;
	engine_cancel(&st->d_rx);
	engine_cancel(&st->d_tx);
	engine_cancel(&st->d_poll);
	stream_ended_op(st);
}

/*
 * TCP carries no descriptors, but an application can send some to a unix socket. Without room for them the kernel would close them
 * in this thread, with whatever their close waits for.
 */
void carrier_recv(struct stream *st, void *buf, size_t len, op_fn fn)
{
	struct io_uring_sqe *sqe = engine_sqe();

	st->d_iov = (struct iovec){ buf, len };
	st->d_msg = (struct msghdr){
		.msg_iov = &st->d_iov, .msg_iovlen = 1, .msg_control = &st->d_control, .msg_controllen = sizeof(st->d_control),
	};
	st->d_rx.fn = fn;
	io_uring_prep_recvmsg(sqe, st->d, &st->d_msg, MSG_CMSG_CLOEXEC);
	engine_submit(sqe, &st->d_rx);
}

/* One that failed left d_msg and d_control as they were: what stands there is of an earlier message. */
void carrier_received(struct stream *st, int res)
{
	if (res >= 0 && st->d_msg.msg_controllen)
		passed_take(&st->d_msg, NULL, 0, st->end[0].uid);
}

void carrier_record_reset(struct stream *st, int err)
{
	struct iw_page_end *e = stream_page_end(st);

	if (atomic_load(&e->close_state) == IW_CLOSE_FIN && err == ECONNRESET)
		err = EPIPE;	/* a RST in CLOSE_WAIT; the reader's end of stream stays one */
	if (atomic_load(&e->close_state) != IW_CLOSE_RESET) {
		atomic_store(&e->close_errno, (uint32_t)err);
		atomic_store(&e->close_state, IW_CLOSE_RESET);
	}
}

void carrier_reset(struct stream *st, int err)
{
	carrier_record_reset(st, err);
	carrier_drop(st);
}

bool carrier_hup(const struct stream *st)
{
	struct pollfd p = { .fd = st->d };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

bool tcp_linger0(int tcp)
{
	struct linger l = { 0 };
	socklen_t len = sizeof(l);

	return !getsockopt(tcp, SOL_SOCKET, SO_LINGER, &l, &len) && l.l_onoff && !l.l_linger;
}

void tcp_reset_on_close(int tcp)
{
	struct linger l = { .l_onoff = 1 };

	setsockopt(tcp, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
}

/* ---- the application's close ---- */

static void poll_hup(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, d_poll);

	if (st->state == STREAM_DEAD || st->d_drop || res == -ECANCELED) {
		stream_ended_op(st);
		return;
	}
	if (res > 0 && (res & (POLLHUP | POLLERR))) {
		if (!st->app_closed) {
			st->app_closed = true;
			st->on_hup(st, res & POLLERR);
		}
		engine_cancel(&st->d_poll);
	} else if (!more) {
		carrier_poll(st, st->on_hup);
	}
}

/* Multishot, for errors and hang-up only: a half-close wakes it once, data does not. */
void carrier_poll(struct stream *st, void (*hup)(struct stream *st, bool error))
{
	struct io_uring_sqe *sqe;

	st->on_hup = hup;
	st->d_poll.fn = poll_hup;
	sqe = engine_sqe();
	io_uring_prep_poll_multishot(sqe, st->d, 0);
	engine_submit(sqe, &st->d_poll);
}

/* ---- held ---- */

static void tell_octets(struct stream *st)
{
	if (st->octets_told)
		return;
	st->octets_told = true;
	if (stream_cm && stream_cm->held_octets)
		stream_cm->held_octets(st);
}

/* Octets, or the application's close: both wait for the claim, in the carrier. */
static void held_carrier(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, d_rx);

	if (st->state == STREAM_HELD)
		tell_octets(st);
	else
		hold_stopped(st);
}

static void held_end(struct stream *st, enum iw_reason reason)
{
	stream_withdraw(st, reason);
	if (stream_cm && stream_cm->withdrawn)
		stream_cm->withdrawn(st, reason);
}

static void held_lost(struct stream *st, int err)
{
	st->reason = IW_REASON_UNCLAIMED;
	if (stream_cm && stream_cm->withdrawn)
		stream_cm->withdrawn(st, st->reason);
	carrier_reset(st, err);
	stream_kill(st);
}

static void held_tcp_arm(struct stream *st);

/* The server's side moved before any claim: octets that can only be a plain server's, a FIN, or an error. */
static void held_tcp(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, t_rx);
	char c;
	ssize_t n;

	if (st->state != STREAM_HELD) {
		hold_stopped(st);
		return;
	}
	n = recv(st->end[0].tcp, &c, 1, MSG_PEEK | MSG_DONTWAIT);
	if (n > 0)
		held_end(st, IW_REASON_NOT_MPA);
	else if (!n)
		held_end(st, IW_REASON_UNCLAIMED);
	else if (errno == EAGAIN || errno == EINTR)
		held_tcp_arm(st);
	else
		held_lost(st, errno);
}

static void held_tcp_arm(struct stream *st)
{
	struct io_uring_sqe *sqe = engine_sqe();

	st->t_rx.fn = held_tcp;
	io_uring_prep_poll_add(sqe, st->end[0].tcp, POLLIN | POLLRDHUP);
	engine_submit(sqe, &st->t_rx);
}

void hold_start(struct stream *st)
{
	struct io_uring_sqe *sqe;

	held_tcp_arm(st);
	st->d_rx.fn = held_carrier;
	sqe = engine_sqe();
	io_uring_prep_poll_add(sqe, st->d, POLLIN | POLLRDHUP);
	engine_submit(sqe, &st->d_rx);
}

void hold_stop(struct stream *st, void (*then)(struct stream *st))
{
	st->hold_then = then;
	engine_cancel(&st->d_rx);
	engine_cancel(&st->t_rx);
	hold_stopped(st);
}

void hold_stopped(struct stream *st)
{
	void (*then)(struct stream *st) = st->hold_then;

	if (st->state == STREAM_DEAD) {
		stream_ended_op(st);
		return;
	}
	if (st->d_rx.busy || st->t_rx.busy || !then)
		return;
	st->hold_then = NULL;
	then(st);
}
