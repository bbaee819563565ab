// SPDX-License-Identifier: MIT
/* Descriptors come and go: socket, close, dup and fcntl keep the table right. */
#include <linux/close_range.h>
#include <limits.h>
#include <stdarg.h>
#include <unistd.h>

#include "candidate.h"
#include "fdtab.h"
#include "init.h"
#include "internal.h"
#include "kinds.h"
#include "lib.h"
#include "map.h"
#include "paths/rings.h"
#include "proc.h"
#include "real.h"
#include "reg.h"
#include "sys.h"
#include "turn.h"

IW_EXPORT int socket(int domain, int type, int protocol);
IW_EXPORT int socketpair(int domain, int type, int protocol, int sv[2]);
IW_EXPORT int close(int fd);
IW_EXPORT int __close(int fd);
IW_EXPORT int fclose(FILE *f);
IW_EXPORT FILE *fdopen(int fd, const char *mode);
IW_EXPORT int vdprintf(int fd, const char *format, va_list ap);
IW_EXPORT int __vdprintf_chk(int fd, int flag, const char *format, va_list ap);
IW_EXPORT int dprintf(int fd, const char *format, ...);
IW_EXPORT int __dprintf_chk(int fd, int flag, const char *format, ...);
IW_EXPORT int dup(int fd);
IW_EXPORT int dup2(int from, int to);
IW_EXPORT int __dup2(int from, int to);
IW_EXPORT int dup3(int from, int to, int flags);
IW_EXPORT int fcntl(int fd, int cmd, ...);
IW_EXPORT int __fcntl(int fd, int cmd, ...);
IW_EXPORT int fcntl64(int fd, int cmd, ...);
IW_EXPORT int close_range(unsigned int first, unsigned int last, int flags);
IW_EXPORT void closefrom(int low);

int socket(int domain, int type, int protocol)
{
	int saved = errno, fd;

	iw_init();
	fd = iw_real.socket(domain, type, protocol);
	if (fd < 0 || !atomic_load_explicit(&iw_on, memory_order_relaxed) || fd >= IW_FD_MAX || iw_in_vfork())
		return fd;
	if ((domain == AF_INET || domain == AF_INET6) && (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) == SOCK_STREAM &&
	    (protocol == 0 || protocol == IPPROTO_TCP))
		iw_fd_born(fd, iw_candidate_born(true));
	else
		iw_fd_born(fd, IW_OTHER_SEEN);
	errno = saved;
	return fd;
}

int socketpair(int domain, int type, int protocol, int sv[2])
{
	int saved = errno, ret;

	ret = iw_real.socketpair(domain, type, protocol, sv);
	if (ret || !atomic_load_explicit(&iw_on, memory_order_relaxed))
		return ret;
	for (int i = 0; i < 2; i++)
		if (sv[i] < IW_FD_MAX)
			iw_fd_born(sv[i], IW_OTHER_SEEN);
	errno = saved;
	return ret;
}

/* The fd is about to be closed: let go of what it stands for. false: it is not open as far as the application knows. */
static bool let_go(int fd)
{
	uint32_t w = iw_word(fd);
	int saved = errno;

	if (iw_word_kind(w) == IW_FD_OTHER) {
		iw_word_cas(fd, w, 0);
		iw_reg_forget(fd);
		return true;
	}
	if (iw_in_vfork())	/* the table is the parent's, who keeps the fd open */
		return true;
	if (iw_word_kind(w) == IW_FD_INTERNAL)
		return !iw_internal_still(fd);
	iw_fd_forget(fd);
	errno = saved;
	return true;
}

int close(int fd)
{
	if (iw_unlikely(iw_word(fd)) && !let_go(fd)) {
		errno = EBADF;
		return -1;
	}
	return iw_real.close(fd);
}

int __close(int fd)
{
	return close(fd);
}

int fclose(FILE *f)
{
	int saved = errno, fd = f ? fileno(f) : -1;

	iw_init();
	if (fd >= 0 && iw_fd_kind(fd) == IW_FD_STREAM)
		fflush(f);	/* while it still is what it was */
	if (fd >= 0 && iw_word(fd))
		let_go(fd);
	errno = saved;
	return iw_real.fclose(f);
}

/* Octets move inside libc from now on. */
static void by_libc(int fd)
{
	int saved = errno;
	struct iw_turn t;

	iw_init();
	if (iw_turn(&t, fd, IW_TURN_ASK)) {
		if (iw_turn_holder(&t))		/* else it is never mapped again */
			iw_candidate_flag(iw_candidate_at(iw_turn_holder(&t)), IW_CAND_UNSEEN);
		if (t.s)
			iw_map_hand(fd, t.s);
		iw_turn_end();
	}
	errno = saved;
}

FILE *fdopen(int fd, const char *mode)
{
	by_libc(fd);
	return iw_real.fdopen(fd, mode);
}

int vdprintf(int fd, const char *format, va_list ap)
{
	by_libc(fd);
	return iw_real.vdprintf(fd, format, ap);
}

int __vdprintf_chk(int fd, int flag, const char *format, va_list ap)
{
	by_libc(fd);
	return iw_real.__vdprintf_chk(fd, flag, format, ap);
}

int dprintf(int fd, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vdprintf(fd, format, ap);
	va_end(ap);
	return n;
}

int __dprintf_chk(int fd, int flag, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = __vdprintf_chk(fd, flag, format, ap);
	va_end(ap);
	return n;
}

/* ---- duplicates ---- */

static int after_dup(int from, int to)
{
	uint32_t w = iw_word(from);

	if (to < 0 || (!w && !iw_word(to)) || to >= IW_FD_MAX || iw_in_vfork())
		return to;
	if (iw_word(to))
		iw_fd_forget(to);
	iw_word_set(to, iw_kind_dup(from, w));
	if (iw_word_kind(w) == IW_FD_STREAM)
		iw_map_duplicated(from, to, iw_stream_at(iw_word_val(w)));
	return to;
}

/* The number `to` will be closed by the kernel, if from is open. */
static void before_dup_over(int from, int to)
{
	if (iw_likely(!iw_word(to)) || from == to || iw_in_vfork())
		return;
	if (!iw_word_moves(iw_word(from)) && IW_SYS(fcntl, from, F_GETFD, 0) < 0)
		return;
	if (iw_fd_kind(to) == IW_FD_INTERNAL)
		iw_internal_make_way(to);
	else
		iw_fd_forget(to);
}

int dup(int fd)
{
	int saved = errno, r;
	struct iw_turn t;
	bool turn = iw_turn(&t, fd, IW_TURN_ASK);

	if (turn)
		iw_turn_exec(&t, fd, false);
	r = after_dup(fd, iw_real.dup(fd));
	if (turn)
		iw_turn_end();
	if (r >= 0)
		errno = saved;
	return r;
}

int dup2(int from, int to)
{
	int saved = errno, r;
	struct iw_turn t;
	bool turn;

	before_dup_over(from, to);
	turn = iw_turn(&t, from, IW_TURN_ASK);
	if (turn)
		iw_turn_exec(&t, from, false);
	r = iw_real.dup2(from, to);
	if (r >= 0 && from != to) {
		after_dup(from, to);
		errno = saved;
	}
	if (turn)
		iw_turn_end();
	return r;
}

int __dup2(int from, int to)
{
	return dup2(from, to);
}

int dup3(int from, int to, int flags)
{
	int saved = errno, r;
	struct iw_turn t;
	bool turn;

	if (!(flags & ~O_CLOEXEC))
		before_dup_over(from, to);
	turn = iw_turn(&t, from, IW_TURN_ASK);
	if (turn)
		iw_turn_exec(&t, from, false);
	r = iw_real.dup3(from, to, flags);
	if (r >= 0) {
		after_dup(from, to);
		errno = saved;
	}
	if (turn)
		iw_turn_end();
	return r;
}

static int dup_fcntl(int (*real)(int, int, ...), int fd, int cmd, long arg)
{
	int saved = errno, r = after_dup(fd, real(fd, cmd, arg));

	if (r >= 0)
		errno = saved;
	return r;
}

/* Asked or set of the open file, which may be about to be another one. */
static int file_fcntl(int (*real)(int, int, ...), struct iw_stream *s, int fd, int cmd, long arg)
{
	struct iw_step st;
	int r;

	iw_map_lock_still(s, &st);
	r = real(fd, cmd, arg);
	iw_map_unlock(s, &st);
	if (cmd == F_SETFL)
		atomic_store(&s->ring_mode, 0);
	return r;
}

static bool of_file(int cmd)
{
	return cmd == F_GETFL || cmd == F_SETFL || cmd == F_SETOWN || cmd == F_SETOWN_EX || cmd == F_SETSIG;
}

static inline int do_fcntl(int (*real)(int, int, ...), int fd, int cmd, long arg)
{
	bool dups = cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC;
	struct iw_turn t;
	int r;

	if (!iw_turn(&t, fd, IW_TURN_ASK))
		return dups ? dup_fcntl(real, fd, cmd, arg) : real(fd, cmd, arg);
	if (t.s && cmd == F_SETFL && (arg & O_ASYNC) && !iw_rings_still(t.s))
		iw_map_give(fd, t.s);
	if (dups || cmd == F_SETFD)
		iw_turn_exec(&t, fd, !dups && (arg & FD_CLOEXEC));
	r = dups ? dup_fcntl(real, fd, cmd, arg) : t.s && of_file(cmd) ? file_fcntl(real, t.s, fd, cmd, arg) : real(fd, cmd, arg);
	iw_turn_end();
	return r;
}

#define FCNTL(name, real) \
	int name(int fd, int cmd, ...) \
	{ \
		va_list ap; \
		long arg; \
\
		va_start(ap, cmd); \
		arg = va_arg(ap, long); \
		va_end(ap); \
		return do_fcntl(iw_real.real, fd, cmd, arg); \
	}

FCNTL(fcntl, fcntl)
FCNTL(__fcntl, fcntl)
FCNTL(fcntl64, fcntl64)

/* ---- ranges ---- */

/* Internal fds are left open: for the application they are not there. */
static int close_range_around(unsigned int first, unsigned int last, int flags)
{
	unsigned int from = first, fd;
	int high = atomic_load(&iw_fd_high), ret;

	for (fd = first; (int)fd <= high && fd <= last; fd++) {
		if (!iw_word((int)fd) || let_go((int)fd))
			continue;
		if (fd > from) {
			ret = iw_real.close_range(from, fd - 1, flags);
			if (ret)
				return ret;
		}
		from = fd + 1;
	}
	return from <= last && from >= first ? iw_real.close_range(from, last, flags) : 0;
}

/* CLOSE_RANGE_CLOEXEC */
static void range_exec(unsigned int first, unsigned int last)
{
	int high = atomic_load(&iw_fd_high);
	struct iw_turn t;

	for (unsigned int fd = first; (int)fd <= high && fd <= last; fd++)
		if (iw_word_moves(iw_word((int)fd)) && iw_turn(&t, (int)fd, IW_TURN_ASK)) {
			iw_turn_exec(&t, (int)fd, true);
			iw_turn_end();
		}
}

int close_range(unsigned int first, unsigned int last, int flags)
{
	int high = atomic_load(&iw_fd_high);

	iw_unsharing(flags & CLOSE_RANGE_UNSHARE);
	if (flags & CLOSE_RANGE_CLOEXEC)
		range_exec(first, last);
	if (high < 0 || first > (unsigned int)high || first > last || (flags & ~CLOSE_RANGE_UNSHARE) || iw_in_vfork())
		return iw_real.close_range(first, last, flags);
	return close_range_around(first, last, flags);
}

void closefrom(int low)
{
	close_range(low > 0 ? (unsigned int)low : 0, UINT_MAX, 0);
}
