// SPDX-License-Identifier: MIT
/* ioctl on a stream: queue lengths from its path, the interface calls from an inet socket, the rest from the carrier. */
#include <linux/sockios.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#include "lib.h"
#include "map.h"
#include "path.h"
#include "paths/rings.h"
#include "real.h"
#include "stream.h"
#include "sys.h"
#include "turn.h"
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

/* The carrier, asked the same, says whether the number and the place for the answer are good. */
static int stream_inq(struct iw_stream *s, int fd, void *arg)
{
	int r = iw_real.ioctl(fd, SIOCINQ, arg), n;
	long inq = r ? 0 : iw_path(s)->inq(s, fd);

	if (r || inq < 0)
		return r ? r : iw_fail((int)-inq);
	n = (int)inq;
	memcpy(arg, &n, sizeof(n));
	return 0;
}

/* Set of the open file, which may be about to be another one. */
static int by_file(struct iw_stream *s, int fd, unsigned long req, void *arg)
{
	struct iw_step st;
	int r;

	iw_map_lock_still(s, &st);
	r = iw_real.ioctl(fd, req, arg);
	iw_map_unlock(s, &st);
	if (req == FIONBIO)
		atomic_store(&s->ring_mode, 0);
	return r;
}

static int stream_ioctl(struct iw_stream *s, int fd, unsigned long req, void *arg)
{
	switch (req) {
	case SIOCOUTQ:
		return put_int(arg, iw_path(s)->outq(s, fd, false));
	case SIOCOUTQNSD:
		return put_int(arg, iw_path(s)->outq(s, fd, true));
	case SIOCATMARK:
		return iw_stream_local(s) ? iw_real.ioctl(fd, req, arg) : put_int(arg, 0);
	case FIOASYNC:
		if (!iw_rings_still(s))
			iw_map_give(fd, s);
		return by_file(s, fd, req, arg);
	case FIONBIO:
	case FIOSETOWN:
	case SIOCSPGRP:
		return by_file(s, fd, req, arg);
	case FIOGETOWN:
	case SIOCGPGRP:
		return iw_real.ioctl(fd, req, arg);
	}
	if ((req & ~0xfful) == 0x8900)
		return by_inet(s, req, arg);
	return iw_real.ioctl(fd, req, arg);
}

static int turn_ioctl(const struct iw_turn *t, int fd, unsigned long req, void *arg)
{
	int r, n;

	if (req == FIOCLEX || req == FIONCLEX)
		iw_turn_exec(t, fd, req == FIOCLEX);
	if (t->s && req == SIOCINQ && (atomic_load(&t->s->mapped) || iw_stream_verify(fd, t->s)))
		return stream_inq(t->s, fd, arg);
	if (t->s && iw_stream_verify(fd, t->s))
		return stream_ioctl(t->s, fd, req, arg);
	if (t->c && req == SIOCATMARK)
		iw_candidate_flag(t->c, IW_CAND_URGENT);
	r = iw_real.ioctl(fd, req, arg);
	if (t->c && req == SIOCINQ && !r) {
		memcpy(&n, arg, sizeof(n));	/* the kernel has just written it there: asking it whether that can be read would cost as much again */
		iw_candidate_told(t->c, n);
	}
	return r;
}

IW_EXPORT int ioctl(int fd, unsigned long req, ...)
{
	struct iw_turn t;
	va_list ap;
	void *arg;
	int r;

	va_start(ap, req);
	arg = va_arg(ap, void *);
	va_end(ap);
	req = (unsigned int)req;	/* as the kernel takes it; some callers sign-extend */
	if (!iw_turn(&t, fd, IW_TURN_ASK))
		return iw_real.ioctl(fd, req, arg);
	r = turn_ioctl(&t, fd, req, arg);
	iw_turn_end();
	return r;
}
