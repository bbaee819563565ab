// SPDX-License-Identifier: MIT
/*
 * syscall(), by which run-times call what libc lacks, or what it would make a cancellation point: libuv closes by it. The calls that have a name here
 * are those of that name, with what the kernel does otherwise than libc. All others, and those made without libc, go their way.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "deadline.h"
#include "lib.h"
#include "real.h"
#include "sys.h"
#include "user.h"

#define KERNEL_SIGSET 8u	/* octets */

IW_EXPORT long syscall(long n, ...);

static long as_it_is(long n, const long a[6])
{
	return iw_real.syscall(n, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* What is left of it is the caller's to know, unless there was nothing. */
static void time_left(struct timespec *user, const struct iw_deadline *d)
{
	struct timespec t, *left;
	int saved = errno;

	if (!user || iw_copy_in(&t, user, sizeof(t)) || !(t.tv_sec || t.tv_nsec))
		return;
	left = iw_deadline_left(d, &t);
	if (left)
		iw_copy_out(user, left, sizeof(*left));
	errno = saved;
}

static bool time_given(const struct timespec *user, struct iw_deadline *d)
{
	struct timespec t;

	return (!user || !iw_copy_in(&t, user, sizeof(t))) && iw_deadline_ts(d, user ? &t : NULL);
}

static bool sigset_given(long set, long size)
{
	return !set || size == KERNEL_SIGSET;
}

static long timed_poll(long n, const long a[6])
{
	struct timespec *t = (void *)a[2];
	struct iw_deadline d;
	long r;

	if (!sigset_given(a[3], a[4]) || !time_given(t, &d))
		return as_it_is(n, a);
	r = ppoll((void *)a[0], (nfds_t)(unsigned int)a[1], t, (void *)a[3]);
	time_left(t, &d);
	return r;
}

static long timed_select(long n, const long a[6])
{
	struct { long set, size; } mask = { 0 };
	struct timespec *t = (void *)a[4];
	struct iw_deadline d;
	long r;

	if ((a[5] && iw_copy_in(&mask, (void *)a[5], sizeof(mask))) || !sigset_given(mask.set, mask.size) || !time_given(t, &d))
		return as_it_is(n, a);
	r = pselect((int)a[0], (void *)a[1], (void *)a[2], (void *)a[3], t, (void *)mask.set);
	time_left(t, &d);
	return r;
}

#define F(i)	((int)a[i])
#define P(i)	((void *)a[i])
#define U(i)	((unsigned int)a[i])
#define Z(i)	((size_t)a[i])
/* X(name, call): SYS_name is call. */
#define HERE(X) \
X(accept, accept(F(0), P(1), P(2))) \
X(accept4, accept4(F(0), P(1), P(2), F(3))) \
X(close, close(F(0))) \
X(close_range, close_range(U(0), U(1), F(2))) \
X(connect, connect(F(0), P(1), U(2))) \
X(dup, dup(F(0))) \
X(dup3, dup3(F(0), F(1), F(2))) \
X(epoll_create1, epoll_create1(F(0))) \
X(epoll_ctl, epoll_ctl(F(0), F(1), F(2), P(3))) \
X(epoll_pwait, sigset_given(a[4], a[5]) ? epoll_pwait(F(0), P(1), F(2), F(3), P(4)) : as_it_is(n, a)) \
X(epoll_pwait2, sigset_given(a[4], a[5]) ? epoll_pwait2(F(0), P(1), F(2), P(3), P(4)) : as_it_is(n, a)) \
X(fcntl, fcntl(F(0), F(1), a[2])) \
X(getpeername, getpeername(F(0), P(1), P(2))) \
X(getsockname, getsockname(F(0), P(1), P(2))) \
X(getsockopt, getsockopt(F(0), F(1), F(2), P(3), P(4))) \
X(ioctl, ioctl(F(0), U(1), a[2])) \
X(ppoll, timed_poll(n, a)) \
X(preadv2, preadv2(F(0), P(1), F(2), a[3], F(5))) \
X(pselect6, timed_select(n, a)) \
X(pwritev2, pwritev2(F(0), P(1), F(2), a[3], F(5))) \
X(read, read(F(0), P(1), Z(2))) \
X(readv, readv(F(0), P(1), F(2))) \
X(recvfrom, recvfrom(F(0), P(1), Z(2), F(3), P(4), P(5))) \
X(recvmmsg, recvmmsg(F(0), P(1), U(2), F(3), P(4))) \
X(recvmsg, recvmsg(F(0), P(1), F(2))) \
X(sendfile, sendfile(F(0), F(1), P(2), Z(3))) \
X(sendmmsg, sendmmsg(F(0), P(1), U(2), F(3))) \
X(sendmsg, sendmsg(F(0), P(1), F(2))) \
X(sendto, sendto(F(0), P(1), Z(2), F(3), P(4), U(5))) \
X(setsockopt, setsockopt(F(0), F(1), F(2), P(3), U(4))) \
X(shutdown, shutdown(F(0), F(1))) \
X(socket, socket(F(0), F(1), F(2))) \
X(socketpair, socketpair(F(0), F(1), F(2), P(3))) \
X(splice, splice(F(0), P(1), F(2), P(3), Z(4), U(5))) \
X(unshare, unshare(F(0))) \
X(write, write(F(0), P(1), Z(2))) \
X(writev, writev(F(0), P(1), F(2)))
/* After these nothing is put back, and a vfork's child has its parent's thread; no cancellation ends them. */
#define HERE_LAST(X) \
X(execve, execve(P(0), P(1), P(2))) \
X(execveat, execveat(F(0), P(1), P(2), P(3), F(4))) \
X(exit_group, (_exit(F(0)), 0))
/* What the newer machines' kernels have no numbers for. */
#ifdef SYS_poll
#define HERE_OLD(X) \
X(dup2, dup2(F(0), F(1))) \
X(epoll_create, epoll_create(F(0))) \
X(epoll_wait, epoll_wait(F(0), P(1), F(2), F(3))) \
X(poll, poll(P(0), (nfds_t)U(1), F(2))) \
X(select, select(F(0), P(1), P(2), P(3), P(4)))
#else
#define HERE_OLD(X)
#endif

static int uncancelled(void)
{
	int before = -1;

	if (!__libc_single_threaded)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static long answered(long r, int before)
{
	if (before >= 0)
		pthread_setcancelstate(before, NULL);
	return r;
}

/* Nothing that is called so is a cancellation point. */
static long here(long n, const long a[6])
{
	int before;

	switch (n) {
#define X(name, call) case SYS_##name: before = uncancelled(); return answered(call, before);
	HERE(X)
	HERE_OLD(X)
#undef X
#define X(name, call) case SYS_##name: return call;
	HERE_LAST(X)
#undef X
	default:
		return as_it_is(n, a);
	}
}

long syscall(long n, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, n);
	iw_six(a, ap);
	va_end(ap);
	return here(n, a);
}
