// SPDX-License-Identifier: MIT
/*
 * Receiving more than the carrier has. The kernel says once that a unix socket was reset, and not to a call of its own that has got something and
 * waits for more: so such calls wait here, and what it says is recorded.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "preload/paths/carrier_all.h"
#include "preload/real.h"
#include "preload/sys.h"
#include "preload/tcpstate.h"

long iw_carrier_received(struct iw_stream *s, long n)
{
	if (iw_unlikely(n == -ECONNRESET))
		iw_tcp_reset(s);
	return n;
}

long iw_carrier_receive(struct iw_mapped_call *c, int fd)
{
	struct iovec v[IW_MAPPED_VECTOR];
	struct msghdr m;
	long n, sum = 0;

	do {
		iw_mapped_rest_of(c, v, &m);
		n = iw_carrier_received(c->s, IW_SYS(recvmsg, fd, &m, (c->flags & MSG_PEEK) | MSG_DONTWAIT));
		if (n > 0) {
			c->done += (size_t)n;
			sum += n;
		}
	} while (n > 0 && (size_t)n == iw_iov_total(v, m.msg_iovlen) && c->done < c->len && !(c->flags & MSG_PEEK));
	return sum ? sum : n;
}

void iw_carrier_more(struct iw_mapped_call *c, size_t least, int64_t begin_ns)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };
	struct iw_deadline d = { .end = -1 };
	struct timeval tv = { 0, 0 };
	socklen_t len = sizeof(tv);
	struct timespec t;
	int r;

	if (IW_SYS(getsockopt, c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &len) >= 0 && (tv.tv_sec || tv.tv_usec))
		d.end = begin_ns + tv.tv_sec * 1000000000LL + tv.tv_usec * 1000;
	do
		r = iw_real.ppoll(&p, 1, iw_deadline_left(&d, &t), NULL);
	while (r > 0 && iw_carrier_receive(c, c->fd) > 0 && c->done < least);
}

ssize_t iw_carrier_rx_all(struct iw_stream *s, int fd, struct iw_io *io, int flags, ssize_t (*rx)(int fd, struct iw_io *io, int flags))
{
	int64_t begin = iw_mono_ns();
	struct iw_mapped_call c;
	int saved = errno;
	ssize_t n;

	if (!iw_mapped_call(&c, s, fd, io, flags))
		return -1;
	n = rx(fd, io, flags & ~MSG_WAITALL);
	if (n <= 0 || (size_t)n >= c.len || flags & MSG_DONTWAIT || IW_SYS(fcntl, fd, F_GETFL, 0) & O_NONBLOCK)
		return n;
	c.done = (size_t)n;
	iw_carrier_more(&c, c.len, begin);
	errno = saved;
	return (ssize_t)c.done;
}
