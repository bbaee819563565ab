/* SPDX-License-Identifier: MIT */
/* The table of fds: what each number is to us. */
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "core.h"

_Atomic uint32_t iw_fdtab[IW_FD_MAX];
_Atomic uint32_t iw_streams, iw_connecting;
_Atomic int iw_fd_high = -1;
struct iw_lock iw_tab_lock;

static _Atomic uint32_t tcp_serial = 1, fork_serial;

static void count(uint32_t old, uint32_t w)
{
	bool was = iw_word_kind(old) == IW_FD_STREAM, is = iw_word_kind(w) == IW_FD_STREAM;

	if (was != is)
		atomic_fetch_add(&iw_streams, is ? 1 : -1u);
}

uint32_t iw_word_set(int fd, uint32_t w)
{
	int high = atomic_load_explicit(&iw_fd_high, memory_order_relaxed);
	uint32_t old;

	if ((unsigned int)fd >= IW_FD_MAX)
		return 0;
	if (!w && !atomic_load_explicit(&iw_fdtab[fd], memory_order_relaxed))
		return 0;	/* do not touch memory for what was never ours */
	while (w && high < fd && !atomic_compare_exchange_weak(&iw_fd_high, &high, fd))
		;
	old = atomic_exchange(&iw_fdtab[fd], w);
	count(old, w);
	return old;
}

bool iw_word_cas(int fd, uint32_t old, uint32_t w)
{
	if (!atomic_compare_exchange_strong(&iw_fdtab[fd], &old, w))
		return false;
	count(old, w);
	return true;
}

uint32_t iw_tcp_new_serial(void)
{
	return atomic_fetch_add_explicit(&tcp_serial, 1, memory_order_relaxed) & (IW_TCP_SERIALS - 1);
}

/* Serial numbers wrap after 8 million sockets; a socket older than half of that counts as shared, which is only plain TCP. */
bool iw_tcp_forked(uint32_t w)
{
	uint32_t since = (iw_tcp_serial(w) - atomic_load(&fork_serial)) & (IW_TCP_SERIALS - 1);

	return atomic_load(&iw_forks) && since >= IW_TCP_SERIALS / 2;
}

void iw_tcp_note_fork(void)
{
	atomic_store(&fork_serial, atomic_load(&tcp_serial) & (IW_TCP_SERIALS - 1));
}

static int get_int(int fd, int opt)
{
	socklen_t len = sizeof(int);
	int v = -1;

	return IW_SYS(getsockopt, fd, SOL_SOCKET, opt, &v, &len) < 0 ? -1 : v;
}

bool iw_is_tcp(int fd)
{
	int domain;

	if (get_int(fd, SO_PROTOCOL) != IPPROTO_TCP || get_int(fd, SO_TYPE) != SOCK_STREAM)
		return false;
	domain = get_int(fd, SO_DOMAIN);
	return domain == AF_INET || domain == AF_INET6;
}

bool iw_is_nonblock(int fd)
{
	long fl = IW_SYS(fcntl, fd, F_GETFL, 0);

	return fl >= 0 && (fl & O_NONBLOCK);
}

void iw_set_plain(int fd, uint32_t conn_id)
{
	iw_word_set(fd, conn_id ? iw_word_make(IW_FD_PLAIN, conn_id) : IW_OTHER_SEEN);
}

uint64_t iw_fd_ino(int fd)
{
	struct stat st;

	return IW_SYS(fstat, fd, &st) < 0 ? 0 : st.st_ino;
}

/* High enough to stay out of the application's way, low enough not to blow up the kernel's table. */
static long hide_base(void)
{
	struct rlimit r;

	if (IW_SYS(prlimit64, 0, RLIMIT_NOFILE, NULL, &r) < 0 || r.rlim_cur >= 1024)
		return 512;
	return (long)r.rlim_cur / 2;
}

int iw_fd_hide(int fd)
{
	long n = IW_SYS(fcntl, fd, F_DUPFD_CLOEXEC, hide_base());

	IW_SYS(close, fd);
	if (n < 0)
		return (int)n;
	if (n >= IW_FD_MAX) {
		IW_SYS(close, n);
		return -EMFILE;
	}
	iw_word_set((int)n, iw_word_make(IW_FD_INTERNAL, 1));
	return (int)n;
}

bool iw_fd_room(int fd)
{
	long a = IW_SYS(fcntl, fd, F_DUPFD_CLOEXEC, 0), b = a < 0 ? a : IW_SYS(fcntl, fd, F_DUPFD_CLOEXEC, 0);

	if (a >= 0)
		IW_SYS(close, a);
	if (b >= 0)
		IW_SYS(close, b);
	return b >= 0;
}

void iw_fd_unhide_close(int fd)
{
	if (iw_word_kind(iw_word_set(fd, 0)) == IW_FD_INTERNAL)
		IW_SYS(close, fd);
}

bool iw_stream_verify(int fd, struct iw_stream *s)
{
	uint32_t w = iw_word(fd);

	if (iw_word_kind(w) == IW_FD_STREAM && iw_stream_of(fd) == s && iw_fd_ino(fd) == s->ino)
		return true;
	if (iw_in_vfork())
		return false;
	if (iw_word_kind(w) == IW_FD_STREAM && w == iw_stream_word(s))
		iw_fd_forget(fd);
	return false;
}

void iw_fd_forget(int fd)
{
	uint32_t w = iw_word(fd);
	uint64_t sigs;

	if (!w || iw_word_kind(w) == IW_FD_INTERNAL || iw_in_vfork())
		return;
	w = iw_word_set(fd, 0);
	switch (iw_word_kind(w)) {
	case IW_FD_STREAM:
	case IW_FD_TCP:
	case IW_FD_EPOLL:
		sigs = iw_lock(&iw_tab_lock);
		if (iw_word_kind(w) == IW_FD_EPOLL)
			iw_reg_drop_epfd(fd, iw_word_val(w));
		else
			iw_reg_drop_fd(fd);
		iw_unlock(&iw_tab_lock, sigs);
		if (iw_word_kind(w) == IW_FD_STREAM)
			iw_stream_put(iw_stream_at(iw_word_val(w)), true);
		break;
	case IW_FD_CONNECTING:
		iw_connect_forget(fd, w, 0);
		break;
	case IW_FD_LISTENER:
		iw_listener_put(iw_word_val(w));
		break;
	case IW_FD_PLAIN:
		iw_reg_forget(fd);	/* from before its connect */
		iw_tell_id(IW_CTL_CLOSED, iw_word_val(w), 0, fd);
		break;
	default:
		iw_reg_forget(fd);
		break;
	}
}

void iw_fd_born(int fd, uint32_t w)
{
	uint32_t old = iw_word(fd);

	if (old == w && iw_word_kind(w) == IW_FD_OTHER)
		return;
	if (old) {
		if (iw_in_vfork())	/* the number is another file's in the parent, whose table this is */
			return;
		iw_fd_forget(fd);
	}
	iw_word_set(fd, w);
}

/* A carrier is known by the abstract name of its other end. */
static bool is_carrier(int fd)
{
	struct sockaddr_un un;
	socklen_t len = sizeof(un);

	return IW_SYS(getpeername, fd, &un, &len) >= 0 && un.sun_family == AF_UNIX &&
	       len >= offsetof(struct sockaddr_un, sun_path) + 8 && !memcmp(un.sun_path, "\0iwsock.", 8);
}

enum iw_fd_kind iw_adopt_slow(int fd)
{
	struct iw_ctl_fdmsg m;
	struct iw_ctl_stream r;
	struct iw_stream *s;
	int fds[2], saved = errno;
	uint32_t none = 0, id;

	if (!atomic_load(&iw_on) || (unsigned int)fd >= IW_FD_MAX || iw_in_vfork())
		return IW_FD_OTHER;
	iw_init();
	if (!is_carrier(fd)) {
		long r0 = get_int(fd, SO_TYPE);

		if (r0 >= 0)	/* not for bad fds: the number may become anything */
			atomic_compare_exchange_strong(&iw_fdtab[fd], &none, IW_OTHER_ADOPTED);
		errno = saved;
		return iw_fd_kind(fd);
	}
	id = iw_conn_id_new();
	iw_ctl_init(&m, IW_CTL_OPEN, 0);
	m.conn_id = id;
	m.fd = fd;
	m.pad = 0;
	if (iw_ctl_ready() && !iw_rpc(&m, fd, &r, sizeof(r), fds)) {
		if (fds[1] >= 0)
			IW_SYS(close, fds[1]);
		s = r.result || fds[0] < 0 ? NULL : iw_stream_new(&r, fds[0], fd, id);
		if (s) {
			atomic_store(&s->connect_told, 1);
			s->serial = UINT32_MAX;	/* whoever handed it to us may still have it */
			if (!iw_word_cas(fd, 0, iw_stream_word(s)))
				iw_stream_put(s, false);
		}
	}
	if (!iw_word(fd))	/* no answer: carrier without page; do not ask again */
		iw_word_set(fd, IW_OTHER_SEEN);
	errno = saved;
	return iw_fd_kind(fd);
}

void iw_adopt_inherited(void)
{
	struct stat st;

	for (int fd = 0; fd < 3; fd++)
		if (IW_SYS(fstat, fd, &st) >= 0 && S_ISSOCK(st.st_mode) && is_carrier(fd))
			iw_adopt_slow(fd);
}
