/* SPDX-License-Identifier: MIT */
/*
 * What holds for all code of libiwsock.so. No interposed name is ever called from inside (raw system calls of sys.h, or the resolved
 * originals in iw_real); no malloc, no output, no thread; errno is kept unless the call fails; async-signal-safe where the original is;
 * nothing blocks longer than the original except for the bounded answer of the daemon. Declarations stand between visibility pragmas:
 * what is hidden is reached without the GOT; entry points say IW_EXPORT.
 */
#ifndef IW_PRELOAD_LIB_H
#define IW_PRELOAD_LIB_H

#include <errno.h>
#include <pthread.h>
#include <sys/single_threaded.h>
#include <sys/types.h>

#define IW_EXPORT __attribute__((visibility("default")))

#define iw_likely(x)	__builtin_expect(!!(x), 1)
#define iw_unlikely(x)	__builtin_expect(!!(x), 0)
#define IW_APART __attribute__((noinline))	/* what a call on an fd that is not ours has no use for */

static inline int iw_fail(int err)
{
	errno = err;
	return -1;
}

/* n is said to the program, of which a call that succeeds leaves errno as it was before, `saved`. */
static inline ssize_t iw_kept(ssize_t n, int saved)
{
	if (n >= 0)
		errno = saved;
	return n;
}

/* Where what follows may be done without the libc call that would be one: a pending cancellation ends the thread. */
static inline void iw_cancel_point(void)
{
	if (!__libc_single_threaded)
		pthread_testcancel();
}

#endif
