// SPDX-License-Identifier: MIT
/* The watch over a stream whose octets are held in the carrier until the claim comes. */
#include "carrier_hold.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "carrier.h"
#include "life.h"
#include "stream_priv.h"

static void hold_stopped(struct stream *st);

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

/*
 * Time stamps and the like, which the application can have made as long as it shares the socket: while one is left every poll ends at
 * once. A round's worth; each has cost its maker a system call.
 */
static void errors_drop(int tcp)
{
	struct msghdr m = { 0 };

	for (int i = 0; i < 64 && recvmsg(tcp, &m, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0; i++)
		m = (struct msghdr){ 0 };
}

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
	if (n > 0) {
		held_end(st, IW_REASON_NOT_MPA);
	} else if (!n) {
		held_end(st, IW_REASON_UNCLAIMED);
	} else if (errno != EAGAIN && errno != EINTR) {
		held_lost(st, errno);
	} else {
		if (res > 0 && (res & POLLERR))
			errors_drop(st->end[0].tcp);
		held_tcp_arm(st);
	}
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

static void hold_stopped(struct stream *st)
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
