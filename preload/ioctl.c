// SPDX-License-Identifier: MIT
/* ioctl on a stream: queue lengths from its path, the interface calls from an inet socket, the rest from the carrier. */
#include <linux/sockios.h>
#include <stdarg.h>
#include <sys/ioctl.h>

#include "connecting.h"
#include "fdtab.h"
#include "lib.h"
#include "path.h"
#include "real.h"
#include "stream.h"
#include "sys.h"
#include "user.h"

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
	int t = (int)IW_SYS(socket, s->local.family, SOCK_STREAM | SOCK_CLOEXEC, 0);
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
	long inq;

	switch (req) {
	case SIOCINQ:
		inq = iw_path(s)->inq(s, fd);
		return inq < 0 ? iw_fail((int)-inq) : put_int(arg, (int)inq);
	case SIOCOUTQ:
		return put_int(arg, iw_path(s)->outq(s, fd, false));
	case SIOCOUTQNSD:
		return put_int(arg, iw_path(s)->outq(s, fd, true));
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
		kind = req == FIONBIO || req == FIOASYNC ? iw_connecting_settle_seen(fd) : iw_connecting_settle(fd);
	if (kind == IW_FD_STREAM)
		s = iw_stream_of(fd);
	if (!s || !iw_stream_verify(fd, s))
		return iw_real.ioctl(fd, req, arg);
	return stream_ioctl(s, fd, req, arg);
}
