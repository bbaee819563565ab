// SPDX-License-Identifier: MIT
/* ioctl on a stream: queue lengths from carrier and page, the interface calls from an inet socket, the rest from the carrier. */
#include <linux/sockios.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#include "stream.h"

#define SKB_OVERHEAD	768	/* what the kernel accounts for a small buffer beside its octets */

/*
 * Octets in the carrier that the other side has not taken. The kernel tells its own accounting, which is 0 exactly when there are
 * none; above that it is bounded by what was written, which is exact when this process is the only writer.
 */
static int carrier_out(struct iw_stream *s, int fd, uint64_t taken)
{
	uint64_t put = atomic_load(&s->tx_put);
	int q = 0;

	if (IW_SYS(ioctl, fd, SIOCOUTQ, &q) < 0 || q <= 0)
		return 0;
	q = q > SKB_OVERHEAD ? q - SKB_OVERHEAD : 1;
	return put > taken && put - taken < (uint64_t)q ? (int)(put - taken) : q;
}

/*
 * TCP: not yet acknowledged. On a LOCAL stream what was written lies in the reader's receive queue, which TCP would have
 * acknowledged; but for what no longer fits.
 */
static int outq(struct iw_stream *s, int fd, bool nsd)
{
	struct iw_page_end *me = iw_stream_end(s);
	uint64_t acked, taken;
	int q;

	if (iw_stream_local(s))
		return iw_carrier_bits(fd, POLLOUT) & POLLOUT ? 0 : carrier_out(s, fd, 0);
	taken = atomic_load(&me->tx_taken);
	q = carrier_out(s, fd, taken);
	if (nsd)
		return q;
	acked = atomic_load(&me->tx_acked);
	if (taken > acked && taken - acked < 1u << 30)
		q += (int)(taken - acked);
	return q;
}

static int put_int(void *arg, int v)
{
	if (iw_copy_out(arg, &v, sizeof(v))) {
		errno = EFAULT;
		return -1;
	}
	return 0;
}

/* Calls of the inet layer and of network devices: a fresh socket of the same family answers as the stream's own would. */
static int by_inet(struct iw_stream *s, unsigned long req, void *arg)
{
	int t = (int)IW_SYS(socket, iw_stream_end(s)->local.family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	long r;

	if (t < 0) {
		errno = ENOTTY;
		return -1;
	}
	r = IW_SYS(ioctl, t, req, arg);
	IW_SYS(close, t);
	return (int)iw_ret(r);
}

static int stream_ioctl(struct iw_stream *s, int fd, unsigned long req, void *arg)
{
	switch (req) {
	case SIOCOUTQ:
		return put_int(arg, outq(s, fd, false));
	case SIOCOUTQNSD:
		return put_int(arg, outq(s, fd, true));
	case SIOCATMARK:
		return iw_stream_local(s) ? iw_real.ioctl(fd, req, arg) : put_int(arg, 0);
	case FIOSETOWN:
	case SIOCSPGRP:
	case FIOGETOWN:
	case SIOCGPGRP:
		return iw_real.ioctl(fd, req, arg);
	}
	if ((req & ~0xfful) == 0x8900)
		return by_inet(s, req, arg);
	return iw_real.ioctl(fd, req, arg);
}

IW_EXPORT int ioctl(int fd, unsigned long req, ...)
{
	struct iw_stream *s = NULL;
	enum iw_fd_kind kind = iw_fd_kind(fd);
	va_list ap;
	void *arg;

	va_start(ap, req);
	arg = va_arg(ap, void *);
	va_end(ap);
	req = (unsigned int)req;	/* as the kernel takes it; some callers sign-extend */
	if (kind == IW_FD_CONNECTING)
		kind = req == FIONBIO || req == FIOASYNC ? iw_connect_settle_seen(fd) : iw_connect_settle(fd);
	if (kind == IW_FD_STREAM)
		s = iw_stream_of(fd);
	if (!s || !iw_stream_verify(fd, s))
		return iw_real.ioctl(fd, req, arg);
	return stream_ioctl(s, fd, req, arg);
}
