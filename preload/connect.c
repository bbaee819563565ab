/* SPDX-License-Identifier: MIT */
/* connect(): the kernel's own, which makes a candidate another connection; and what TCP says to it when the fd is a stream. */
#include <string.h>

#include "candidate.h"
#include "fdtab.h"
#include "lib.h"
#include "lock.h"
#include "paths/burst.h"
#include "real.h"
#include "reg.h"
#include "stream.h"
#include "swap.h"
#include "sys.h"
#include "turn.h"
#include "user.h"

IW_EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len);

/*
 * connect(AF_UNSPEC) dissolves a connection and leaves a fresh socket. The carrier goes, as by close, and a new TCP socket takes its
 * place; a port the application had bound is not bound again.
 */
static int disconnect(int fd, struct iw_stream *s)
{
	int family = s->local.family == AF_INET6 ? AF_INET6 : AF_INET;
	long t = IW_SYS(socket, family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint32_t w;
	uint64_t sigs;
	int r;

	if (t < 0)
		return (int)iw_ret(t);
	sigs = iw_lock(&iw_tab_lock);
	r = iw_swap(fd, (int)t);
	if (!r) {
		w = iw_candidate_born(true);
		if (iw_word_kind(w) == IW_FD_CANDIDATE)
			atomic_store(&iw_candidate_at(iw_word_val(w))->note.unsure, 1);
		iw_reg_drop_fd(fd);
		iw_word_set(fd, w);
	}
	iw_unlock(&iw_tab_lock, sigs);
	IW_SYS(close, t);
	if (!r)
		iw_stream_put(s, true);
	return (int)iw_ret(r);
}

static int connect_stream(int fd, struct iw_stream *s, const struct sockaddr *addr, socklen_t len)
{
	sa_family_t family;

	if (!iw_stream_verify(fd, s))
		return iw_real.connect(fd, addr, len);
	if (len > sizeof(struct sockaddr_storage))
		return iw_fail(EINVAL);
	if (!iw_user_readable(addr, len))
		return iw_fail(EFAULT);
	if (len < sizeof(family))
		return iw_fail(EINVAL);
	memcpy(&family, &addr->sa_family, sizeof(family));
	return family == AF_UNSPEC ? disconnect(fd, s) : iw_fail(EISCONN);
}

/* Begun, or dissolved: it is not the connection that was counted. One that goes on, or is there, is an error. */
static int connect_candidate(int fd, struct iw_candidate *c, const struct sockaddr *addr, socklen_t len)
{
	int ret = iw_real.connect(fd, addr, len), err = errno;

	if (!ret || err == EINPROGRESS || err == EINTR)
		iw_candidate_again(c);
	errno = err;
	return ret;
}

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct iw_turn t;
	int ret;

	iw_burst_wait();
	if (!iw_turn(&t, fd, IW_TURN_SOCKET))
		return iw_real.connect(fd, addr, len);
	ret = t.s ? connect_stream(fd, t.s, addr, len) : connect_candidate(fd, t.c, addr, len);
	iw_turn_end();
	return ret;
}
