// SPDX-License-Identifier: MIT
/* The swap of an open file for another one under the application's number, its epoll registrations included. */
#include <sys/socket.h>

#include "reg.h"
#include "swap.h"
#include "sys.h"

static void timeout_read(int fd, int opt, struct timeval *tv)
{
	socklen_t len = sizeof(*tv);

	if (IW_SYS(getsockopt, fd, SOL_SOCKET, opt, tv, &len) < 0)
		*tv = (struct timeval){ 0, 0 };
}

/* What belongs to the open file and not to TCP. FD_CLOEXEC belongs to the number and is not here. */
void iw_flags_read(int fd, struct iw_flags *f)
{
	f->fl = IW_SYS(fcntl, fd, F_GETFL, 0);
	f->fl = f->fl < 0 ? 0 : f->fl & (O_NONBLOCK | O_ASYNC);
	f->sig = IW_SYS(fcntl, fd, F_GETSIG, 0);
	if (IW_SYS(fcntl, fd, F_GETOWN_EX, &f->own) < 0)
		f->own.pid = 0;
	timeout_read(fd, SO_RCVTIMEO, &f->rcv);
	timeout_read(fd, SO_SNDTIMEO, &f->snd);
}

void iw_flags_write(int fd, const struct iw_flags *f)
{
	if (f->own.pid)		/* of use without O_ASYNC too: for SIGURG, and when that is set later */
		IW_SYS(fcntl, fd, F_SETOWN_EX, &f->own);
	if (f->sig > 0)
		IW_SYS(fcntl, fd, F_SETSIG, f->sig);
	IW_SYS(fcntl, fd, F_SETFL, f->fl);
	IW_SYS(setsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &f->rcv, sizeof(f->rcv));
	IW_SYS(setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &f->snd, sizeof(f->snd));
}

int iw_swap(int fd, int carrier)
{
	struct iw_flags f;
	long fdflags, r;

	if (iw_reg_lost(fd))
		return -EBUSY;
	fdflags = IW_SYS(fcntl, fd, F_GETFD, 0);
	if (fdflags < 0)
		return (int)fdflags;
	iw_flags_read(fd, &f);
	iw_flags_write(carrier, &f);
	r = iw_reg_detach(fd);
	if (r)
		return (int)r;
	r = IW_SYS(dup3, carrier, fd, fdflags & FD_CLOEXEC ? O_CLOEXEC : 0);
	iw_reg_attach(fd, r >= 0);
	return r < 0 ? (int)r : 0;
}
