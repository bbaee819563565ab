// SPDX-License-Identifier: MIT
/* Options asked of the TCP socket behind a stream: by the daemon that holds it, or of a fresh socket where that one is gone. */
#include <netinet/in.h>
#include <string.h>

#include "proto/ctlmsg.h"
#include "daemon.h"
#include "lib.h"
#include "opts_tcp.h"
#include "stream.h"
#include "sys.h"
#include "user.h"

/* 0 with the daemon's answer in r, or -errno when there is no daemon or it no longer knows the stream. */
static int ask_daemon(struct iw_stream *s, int fd, struct iw_ctl_opt *m, struct iw_ctl_opt *r)
{
	int ret = iw_stream_own(s, fd), fds[2] = { -1, -1 };

	if (ret)
		return ret;
	m->stream_id = s->stream_id;
	m->end = s->end;
	m->error = 0;
	m->pad = 0;
	ret = iw_daemon_ask(m, -1, r, sizeof(*r), fds, 0);
	if (ret)
		return ret;
	if (r->error == ENOTCONN)
		return -ENOTCONN;
	return r->error < 0 || r->error > 4095 || r->optlen > IW_CTL_OPTMAX ? -EPROTO : 0;
}

/* A socket as TCP gives it to this process: knows every option of this kernel and what the process may. */
static int fresh(struct iw_stream *s)
{
	return (int)IW_SYS(socket, s->local.family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
}

static int get_fresh(struct iw_stream *s, int level, int name, void *val, socklen_t *len)
{
	int t = fresh(s);
	long r;

	if (t < 0)
		return iw_fail(ENOPROTOOPT);
	r = IW_SYS(getsockopt, t, level, name, val, len);
	IW_SYS(close, t);
	return (int)iw_ret(r);
}

int iw_opt_get(struct iw_stream *s, int fd, int level, int name, void *val, socklen_t *len)
{
	struct iw_ctl_opt m, r;
	socklen_t room;

	if (iw_room_in(&room, len))
		return -1;
	iw_ctl_init(&m, IW_CTL_GETSOCKOPT, 0);
	m.level = level;
	m.optname = name;
	m.optlen = room < IW_CTL_OPTMAX ? room : IW_CTL_OPTMAX;
	memset(m.val, 0, sizeof(m.val));
	/* an option that the daemon does not serve cannot have been set through it either: it has its initial value */
	if (ask_daemon(s, fd, &m, &r) || r.error == ENOPROTOOPT || r.error == EOPNOTSUPP)
		return get_fresh(s, level, name, val, len);
	if (r.error)
		return iw_fail(r.error);
	if (r.optlen > room)
		r.optlen = room;
	room = r.optlen;
	if (iw_copy_out(val, r.val, room) || iw_copy_out(len, &room, sizeof(room)))
		return iw_fail(EFAULT);
	return 0;
}

static bool has_value(struct iw_stream *s, int fd, const struct iw_ctl_opt *m)
{
	uint8_t now[IW_CTL_OPTMAX];
	socklen_t len = m->optlen;
	int err = errno;
	bool same = !iw_opt_get(s, fd, m->level, m->optname, now, &len) && len == m->optlen && !memcmp(now, m->val, len);

	errno = err;
	return same;
}

long iw_opt_try(struct iw_stream *s, int level, int name, const void *val, socklen_t len)
{
	int t = fresh(s);
	long r = 0;

	if (t >= 0) {
		r = IW_SYS(setsockopt, t, level, name, val, len);
		IW_SYS(close, t);
	}
	return r;
}

/*
 * The daemon may hold rights that this process lacks, or lack some that it has. So a fresh socket is asked first: what it refuses
 * for want of permission is refused; what it and the daemon both refuse gets its reason.
 */
int iw_opt_set(struct iw_stream *s, int fd, int level, int name, const void *val, socklen_t len)
{
	struct iw_ctl_opt m, r;
	long try;

	if ((int)len < 0)
		return iw_fail(EINVAL);
	try = iw_opt_try(s, level, name, val, len);
	if (try == -EPERM || try == -EACCES || try == -EFAULT || try == -ENOPROTOOPT)
		return iw_fail((int)-try);
	if (len > IW_CTL_OPTMAX)
		return iw_fail(try ? (int)-try : ENOPROTOOPT);
	iw_ctl_init(&m, IW_CTL_SETSOCKOPT, 0);
	m.level = level;
	m.optname = name;
	m.optlen = len;
	memset(m.val, 0, sizeof(m.val));
	if (iw_copy_in(m.val, val, len))	/* of text the kernel reads no more than there is */
		return iw_fail(try ? (int)-try : EFAULT);
	if (ask_daemon(s, fd, &m, &r))	/* the connection below is gone, and with it what the option would act on */
		return (int)iw_ret(try);
	if (!r.error)
		return 0;
	if (r.error != ENOPROTOOPT && r.error != EOPNOTSUPP)
		return iw_fail(r.error);
	if (try)
		return iw_fail((int)-try);
	/* the daemon keeps this one from applications; but it may have that value already */
	return has_value(s, fd, &m) ? 0 : iw_fail(r.error);
}
