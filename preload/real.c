/* SPDX-License-Identifier: MIT */
/* Finds the originals of the interposed functions; see real.h for what holds before they are found. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "real.h"
#include "sys.h"

#define IW_FIND(name) \
	do { \
		void *p_ = dlsym(RTLD_NEXT, #name); \
		if (p_) \
			__atomic_store_n((void **)&iw_real.name, p_, __ATOMIC_RELEASE); \
	} while (0)

static long iw_raw_ppoll(struct pollfd *p, nfds_t n, int ms, const struct timespec *t, const sigset_t *s, bool given)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

	if (given) {
		if (t)
			ts = *t;	/* the kernel writes the rest back, libc does not show it */
		return IW_SYS(ppoll, p, n, t ? &ts : NULL, s, 8);
	}
	return IW_SYS(ppoll, p, n, ms < 0 ? NULL : &ts, NULL, 8);
}

static long iw_raw_pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t, const sigset_t *s)
{
	struct { const sigset_t *s; size_t n; } mask = { s, 8 };
	struct timespec ts;

	if (t)
		ts = *t;
	return IW_SYS(pselect6, n, r, w, e, t ? &ts : NULL, &mask);
}

static long iw_raw_select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t)
{
	struct timespec ts;
	long ret;

	if (!t)
		return IW_SYS(pselect6, n, r, w, e, NULL, NULL);
	ts.tv_sec = t->tv_sec + t->tv_usec / 1000000;
	ts.tv_nsec = t->tv_usec % 1000000 * 1000L;
	ret = IW_SYS(pselect6, n, r, w, e, &ts, NULL);
	t->tv_sec = ts.tv_sec;
	t->tv_usec = ts.tv_nsec / 1000;
	return ret;
}

static int raw_fcntl(int fd, int c, ...)
{
	va_list ap;
	long arg;

	va_start(ap, c);
	arg = va_arg(ap, long);
	va_end(ap);
	return (int)iw_ret(IW_SYS(fcntl, fd, c, arg));
}

static int raw_ioctl(int fd, unsigned long r, ...)
{
	va_list ap;
	long arg;

	va_start(ap, r);
	arg = va_arg(ap, long);
	va_end(ap);
	return (int)iw_ret(IW_SYS(ioctl, fd, r, arg));
}

static long raw_syscall(long n, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, n);
	iw_six(a, ap);
	va_end(ap);
	return iw_ret(sys6(n, a[0], a[1], a[2], a[3], a[4], a[5]));
}

/* A child with a stack of its own is nothing that a system call makes alone. */
static int raw_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	return (int)iw_ret(-ENOSYS);
}

/* Nothing that libc builds out of several calls works before it is found. */
static IW_SPAWN(raw_spawn)
{
	return ENOSYS;
}

static int raw_adddup2(posix_spawn_file_actions_t *a, int fd, int to)
{
	return ENOSYS;
}

static FILE *raw_popen(const char *command, const char *mode)
{
	errno = ENOSYS;
	return NULL;
}

static FILE *raw_fdopen(int fd, const char *mode)
{
	errno = ENOSYS;
	return NULL;
}

static int raw_vdprintf(int fd, const char *format, va_list ap)
{
	errno = ENOSYS;
	return -1;
}

static int raw_vdprintf_chk(int fd, int flag, const char *format, va_list ap)
{
	return raw_vdprintf(fd, format, ap);
}

static void raw_exit(int status)
{
	for (;;)
		IW_SYS(exit_group, status);
}

/* Nobody goes on where he cannot go on. */
static void raw_jump(void *env, int v)
{
	raw_exit(127);
}

#define X(ret, name, params, args, raw) \
	static ret raw_call_##name params { return (ret)iw_ret(raw); }
IW_REALS(X)
#undef X

struct iw_real iw_real = {
#define X(ret, name, params, args, raw) .name = raw_call_##name,
	IW_REALS(X)
#undef X
	.fcntl = raw_fcntl,
	.fcntl64 = raw_fcntl,
	.ioctl = raw_ioctl,
	.syscall = raw_syscall,
	.clone = raw_clone,
	.posix_spawn = raw_spawn,
	.posix_spawnp = raw_spawn,
	.posix_spawn_file_actions_adddup2 = raw_adddup2,
	.popen = raw_popen,
	.fdopen = raw_fdopen,
	.vdprintf = raw_vdprintf,
	.__vdprintf_chk = raw_vdprintf_chk,
	._exit = raw_exit,
	.longjmp = raw_jump,
	._longjmp = raw_jump,
	.siglongjmp = raw_jump,
	.__longjmp_chk = raw_jump,
};

static _Atomic int state;	/* 0 nothing yet, 1 somebody is at it, 2 done */

/* A second thread, or an allocator called by dlsym, meets state 1 and goes on with system calls: correct, not waiting. */
void iw_real_init(void)
{
	int idle = 0;

	if (atomic_load_explicit(&state, memory_order_acquire) == 2 || !atomic_compare_exchange_strong(&state, &idle, 1))
		return;
#define X(ret, name, params, args, raw) IW_FIND(name);
	IW_REALS(X)
#undef X
	IW_FIND(fcntl);
	IW_FIND(fcntl64);
	IW_FIND(ioctl);
	IW_FIND(syscall);
	IW_FIND(clone);
	IW_FIND(posix_spawn);
	IW_FIND(posix_spawnp);
	IW_FIND(posix_spawn_file_actions_adddup2);
	IW_FIND(popen);
	IW_FIND(fdopen);
	IW_FIND(vdprintf);
	IW_FIND(__vdprintf_chk);
	IW_FIND(_exit);
	IW_FIND(longjmp);
	IW_FIND(_longjmp);
	IW_FIND(siglongjmp);
	IW_FIND(__longjmp_chk);
	atomic_store_explicit(&state, 2, memory_order_release);
}
