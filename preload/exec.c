// SPDX-License-Identifier: MIT
/*
 * exec: a child of a fork that starts a program lets go of what is close-on-exec, as by close, so that its relatives may be alone with it.
 * What the program takes along stays counted, and nobody is alone with that again.
 */
#include <stdarg.h>
#include <unistd.h>

#include "candidate.h"
#include "fdtab.h"
#include "holders.h"
#include "init.h"
#include "lib.h"
#include "map.h"
#include "proc.h"
#include "real.h"
#include "stream.h"
#include "sys.h"

IW_EXPORT int execve(const char *path, char *const argv[], char *const envp[]);
IW_EXPORT int execv(const char *path, char *const argv[]);
IW_EXPORT int execvp(const char *file, char *const argv[]);
IW_EXPORT int execvpe(const char *file, char *const argv[], char *const envp[]);
IW_EXPORT int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags);
IW_EXPORT int fexecve(int fd, char *const argv[], char *const envp[]);
IW_EXPORT int execl(const char *path, const char *arg, ...);
IW_EXPORT int execlp(const char *file, const char *arg, ...);
IW_EXPORT int execle(const char *path, const char *arg, ...);

/* Where the holders of this fd's file are counted, or 0. */
static uint32_t holder_of(int fd)
{
	uint32_t w = iw_word(fd);

	if (iw_word_kind(w) == IW_FD_SWITCHING)
		w = iw_word_ungated(w);
	if (iw_word_kind(w) == IW_FD_STREAM)
		return iw_stream_at(iw_word_val(w))->holder;
	return iw_word_kind(w) == IW_FD_CANDIDATE ? iw_word_val(w) : 0;
}

static void each(void (*fn)(uint32_t holder, int fd))
{
	int high = atomic_load(&iw_fd_high_app);

	for (int fd = 0; fd <= high; fd++) {
		uint32_t holder = holder_of(fd);

		if (holder)
			fn(holder, fd);
	}
}

static void begin(uint32_t holder, int fd)
{
	atomic_fetch_and(&iw_candidate_at(holder)->flags, ~IW_CAND_STAYS);
}

static void look(uint32_t holder, int fd)
{
	long fl = IW_SYS(fcntl, fd, F_GETFD, 0);

	if (fl < 0 || !(fl & FD_CLOEXEC))
		atomic_fetch_or(&iw_candidate_at(holder)->flags, IW_CAND_STAYS);
}

static bool stays(uint32_t holder)
{
	return atomic_load(&iw_candidate_at(holder)->flags) & IW_CAND_STAYS;
}

static void leave(uint32_t holder, int fd)
{
	if (!stays(holder))
		iw_holders_put(holder);
}

static void come_back(uint32_t holder, int fd)
{
	if (!stays(holder))
		iw_holders_back(holder);
}

/* true: failed() has to follow when the program is not started. */
static bool starting(void)
{
	int saved = errno;

	iw_init();
	if (!iw_in_vfork())
		iw_maps_give(true);	/* also those that are closed by it: this process, which lives on, would seem to have them */
	if (!iw_holders_relatives() || iw_in_vfork())
		return false;
	each(begin);
	each(look);
	each(leave);
	errno = saved;
	return true;
}

static int failed(bool started, int ret)
{
	if (started)
		each(come_back);
	return ret;
}

static int do_execve(const char *path, char *const argv[], char *const envp[])
{
	bool s = starting();

	return failed(s, iw_real.execve(path, argv, envp));
}

static int do_execv(const char *path, char *const argv[])
{
	bool s = starting();

	return failed(s, iw_real.execv(path, argv));
}

static int do_execvp(const char *file, char *const argv[])
{
	bool s = starting();

	return failed(s, iw_real.execvp(file, argv));
}

int execve(const char *path, char *const argv[], char *const envp[])
{
	return do_execve(path, argv, envp);
}

int execv(const char *path, char *const argv[])
{
	return do_execv(path, argv);
}

int execvp(const char *file, char *const argv[])
{
	return do_execvp(file, argv);
}

int execvpe(const char *file, char *const argv[], char *const envp[])
{
	bool s = starting();

	return failed(s, iw_real.execvpe(file, argv, envp));
}

int execveat(int dir, const char *path, char *const argv[], char *const envp[], int flags)
{
	bool s = starting();

	return failed(s, iw_real.execveat(dir, path, argv, envp, flags));
}

int fexecve(int fd, char *const argv[], char *const envp[])
{
	bool s = starting();

	return failed(s, iw_real.fexecve(fd, argv, envp));
}

/* ---- arguments one by one: on the stack, as libc has them ---- */

static size_t count(va_list ap)
{
	size_t n = 1;

	while (va_arg(ap, char *))
		n++;
	return n;
}

/* argv: the arguments, with the NULL behind them; ap stands behind that afterwards. */
#define GATHER(argv, arg, ap) \
	va_start(ap, arg); \
	size_t n_ = count(ap); \
	va_end(ap); \
	char *argv[n_ + 1]; \
	va_start(ap, arg); \
	argv[0] = (char *)arg; \
	for (size_t i_ = 1; i_ <= n_; i_++) \
		argv[i_] = va_arg(ap, char *)

int execl(const char *path, const char *arg, ...)
{
	va_list ap;

	GATHER(argv, arg, ap);
	va_end(ap);
	return do_execv(path, argv);
}

int execlp(const char *file, const char *arg, ...)
{
	va_list ap;

	GATHER(argv, arg, ap);
	va_end(ap);
	return do_execvp(file, argv);
}

int execle(const char *path, const char *arg, ...)
{
	char *const *envp;
	va_list ap;

	GATHER(argv, arg, ap);
	envp = va_arg(ap, char *const *);
	va_end(ap);
	return do_execve(path, argv, envp);
}
