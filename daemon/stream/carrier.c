// SPDX-License-Identifier: MIT
/* The carrier: how it is made, how the stream towards the application ends on it, and the application's close. */
#include "carrier.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/probe.h"
#include "life.h"
#include "stream_priv.h"

#define CONTROL	CMSG_SPACE(IW_SCM_MAX * sizeof(int))
#define LATE_MOST	(256u << 10)	/* octets, */
#define LATE_PIECE	16384u		/* so many at a time */
#define LATE_MS		5		/* that it is waited for room */
#define CARRIER_BUF	(256 << 10)	/* SO_SNDBUF of both ends; the kernel clamps it to wmem_max */

/* ---- making one ---- */

/* An abstract name, so that an image after exec knows the carrier by getsockname or getpeername. */
static int name_socket(int fd, uint64_t id)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	uint64_t r;
	int len;

	if (getrandom(&r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return -EIO;
	len = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "iwsock.%016llx.%016llx", (unsigned long long)id,
		       (unsigned long long)r);
	if (bind(fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)))
		return -errno;
	return 0;
}

int carrier_cookie(int fd, uint64_t *cookie)
{
	socklen_t len = sizeof(*cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, cookie, &len) ? -errno : 0;
}

int carrier_make(uint64_t id, int s[2])
{
	int size = CARRIER_BUF, ret;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s))
		return -errno;
	for (int i = 0; i < 2; i++) {
		setsockopt(s[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		ret = name_socket(s[i], id);
		if (ret) {
			close(s[0]);
			close(s[1]);
			return ret;
		}
	}
	return 0;
}

/* The kernel counts a buffer with what it costs, and takes the next one while there is any room. */
uint32_t carrier_takes(int fd)
{
	int size = 0;
	socklen_t len = sizeof(size);

	return getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &len) ? 0 : (uint32_t)size / 2;
}

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
bool carrier_room(struct stream *st)
{
	if (!st->d_control)
		st->d_control = malloc(CONTROL);
	return st->d_control;
}

void carrier_lean(struct stream *st)
{
	if (st->d_rx.busy)
		return;
	free(st->d_control);
	st->d_control = NULL;
}

void carrier_recv(struct stream *st, const struct iovec *v, unsigned int n, op_fn fn)
{
	struct io_uring_sqe *sqe = engine_sqe();

	st->d_iov[0] = v[0];
	st->d_iov[1] = v[n - 1];
	st->d_msg = (struct msghdr){ .msg_iov = st->d_iov, .msg_iovlen = n, .msg_control = st->d_control, .msg_controllen = CONTROL };
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

static ssize_t take(int fd, void *buf, size_t len, uint32_t uid)
{
	union {
		struct cmsghdr h;
		uint8_t room[CONTROL];
	} control;
	struct iovec v = { .iov_base = buf, .iov_len = len };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n > 0)
		passed_take(&m, NULL, 0, uid);
	return n;
}

ssize_t carrier_take(struct stream *st, void *buf, size_t len)
{
	return take(st->d, buf, len, st->end[0].uid);
}

static int put(int fd, const uint8_t *p, size_t n)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };

	while (n) {
		ssize_t k = send(fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (k < 0 && (errno != EAGAIN || poll(&room, 1, LATE_MS) <= 0))
			return -errno;
		p += k > 0 ? k : 0;
		n -= k > 0 ? (size_t)k : 0;
	}
	return 0;
}

int carrier_late(int from, int to, uint32_t uid)
{
	uint8_t buf[LATE_PIECE];
	unsigned int all = 0;
	ssize_t n;
	int ret;

	while ((n = take(from, buf, sizeof(buf), uid)) > 0) {
		all += (unsigned int)n;
		ret = all > LATE_MOST ? -EMSGSIZE : put(to, buf, (size_t)n);
		if (ret)
			return ret;
	}
	return (int)all;
}

void carrier_record_reset(struct stream *st, int err)
{
	struct iw_page_end *e = stream_page_end(st);

	if (!st->lost) {
		st->lost = err;
		IW_PROBE2(iwarpd, reset, st->id, err);
	}
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

/*
 * What the application wrote and nobody will send. A full carrier would keep it asleep in poll(POLLOUT), since a unix socket is not
 * writable merely because it cannot send. One octet stays: closing with it unread is a reset for programs without the library.
 */
static void drop_unsent(struct stream *st)
{
	char buf[16384];
	int have = 0;

	while (!ioctl(st->d, FIONREAD, &have) && have > 1)
		if (carrier_take(st, buf, (size_t)have - 1 < sizeof(buf) ? (size_t)have - 1 : sizeof(buf)) <= 0)
			break;
}

void carrier_lost(struct stream *st, int err)
{
	carrier_record_reset(st, err);
	engine_cancel(&st->d_rx);
	shutdown(st->d, SHUT_RD);
	drop_unsent(st);
}

bool carrier_hup(const struct stream *st)
{
	struct pollfd p = { .fd = st->d };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

/* ---- the application's close ---- */

static void poll_arm(struct stream *st);

static void poll_hup(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, d_poll);

	if (st->state == STREAM_DEAD || st->d_drop) {
		stream_ended_op(st);
		return;
	}
	if (res > 0 && (res & (POLLHUP | POLLERR)) && !st->app_closed) {
		st->app_closed = true;
		st->app_error = res & POLLERR;
		if (st->on_hup)
			st->on_hup(st, st->app_error);
	}
	if (more && st->app_closed)
		engine_cancel(&st->d_poll);
	else if (!more && st->state == STREAM_DEAD)
		stream_ended_op(st);
	else if (!more && st->on_hup && !st->app_closed)
		poll_arm(st);
	else if (!more && st->on_unpolled)
		st->on_unpolled(st);
}

/* Multishot, for errors and hang-up only: a half-close wakes it once, data does not. */
static void poll_arm(struct stream *st)
{
	struct io_uring_sqe *sqe = engine_sqe();

	st->d_poll.fn = poll_hup;
	io_uring_prep_poll_multishot(sqe, st->d, 0);
	engine_submit(sqe, &st->d_poll);
}

void carrier_poll(struct stream *st, void (*hup)(struct stream *st, bool error))
{
	st->on_hup = hup;
	if (!st->d_poll.busy && !st->app_closed)
		poll_arm(st);
}

void carrier_unpoll(struct stream *st, void (*then)(struct stream *st))
{
	st->on_hup = NULL;
	st->on_unpolled = then;
	engine_cancel(&st->d_poll);
}
