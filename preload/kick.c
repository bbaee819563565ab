// SPDX-License-Identifier: MIT
/*
 * A socket that always has an octet to read. Who waits has an edge-triggered epoll set of its own with it; who kicks adds an octet, which
 * is an edge in all of them, and takes one away.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/single_threaded.h>
#include <sys/socket.h>

#include "fdtab.h"
#include "internal.h"
#include "kick.h"
#include "lock.h"
#include "proc.h"
#include "sys.h"

#define WATCHES	32	/* that are kept */
#define BUSY	(1 << 30)

static _Atomic int ends[2];	/* 0: none yet; octets go from 1 to 0 */
static uint64_t inos[2];
static _Atomic int watches[WATCHES];	/* 0; a number; the same with BUSY while somebody waits by it */
static _Atomic uint32_t forks;		/* iw_forks when these were made: what two processes share reports to one */

static bool ours(int i)
{
	int fd = atomic_load(&ends[i]);

	return fd && iw_fd_kind(fd) == IW_FD_INTERNAL && iw_fd_ino(fd) == inos[i];
}

static _Atomic int *watch_of(int fd)
{
	for (int i = 0; i < WATCHES; i++)
		if (fd > 0 && (atomic_load(&watches[i]) & ~BUSY) == fd)
			return &watches[i];
	return NULL;
}

bool iw_kick_owns(int fd)
{
	if (watch_of(fd))
		return true;
	for (int i = 0; i < 2; i++)
		if (fd == atomic_load(&ends[i]) && ours(i))
			return true;
	return false;
}

static bool there(void)
{
	return ours(0) && ours(1);
}

static void octet_in(void)
{
	IW_SYS(sendto, atomic_load(&ends[1]), "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
}

/* Under iw_tab_lock. */
static bool make(void)
{
	int sv[2];

	if (there())
		return true;
	if (IW_SYS(socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
		return false;
	for (int i = 0; i < 2; i++) {
		int fd = iw_fd_hide(sv[i]);

		inos[i] = fd < 0 ? 0 : iw_fd_ino(fd);
		atomic_store(&ends[i], fd < 0 ? 0 : fd);
	}
	if (!there())
		return false;
	octet_in();
	return true;
}

bool iw_kick_may(void)
{
	return !__libc_single_threaded || atomic_load(&iw_forks);
}

static void drop_all(void)
{
	for (int i = 0; i < WATCHES; i++) {
		int fd = atomic_load(&watches[i]);

		if (fd && atomic_compare_exchange_strong(&watches[i], &fd, 0) && !(fd & BUSY))
			iw_fd_unhide_close(fd);
	}
}

/* It may tell of something old. */
int iw_kick_watch_kept(void)
{
	uint32_t now = atomic_load(&iw_forks);

	if (atomic_exchange(&forks, now) != now)
		drop_all();
	for (int i = 0; i < WATCHES; i++) {
		int fd = atomic_load(&watches[i]);

		if (fd && !(fd & BUSY) && atomic_compare_exchange_strong(&watches[i], &fd, fd | BUSY))
			return fd;
	}
	return -1;
}

static int keep(int fd)
{
	for (int i = 0, none = 0; i < WATCHES; i++, none = 0)
		if (atomic_compare_exchange_strong(&watches[i], &none, fd | BUSY))
			break;
	return fd;
}

static int new_watch(void)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	uint64_t sigs;
	bool made;
	int ep;

	sigs = iw_lock(&iw_tab_lock);
	made = make();
	iw_unlock(&iw_tab_lock, sigs);
	ep = made ? (int)IW_SYS(epoll_create1, EPOLL_CLOEXEC) : -1;
	if (ep >= 0)
		ep = iw_fd_hide(ep);
	if (ep < 0)
		return -1;
	if (IW_SYS(epoll_ctl, ep, EPOLL_CTL_ADD, atomic_load(&ends[0]), &ev) < 0) {
		iw_fd_unhide_close(ep);
		return -1;
	}
	iw_kick_seen(ep);	/* what it begins with */
	return keep(ep);
}

int iw_kick_watch(void)
{
	int fd = iw_kick_watch_kept();

	return fd < 0 ? new_watch() : fd;
}

void iw_kick_done(int watch)
{
	_Atomic int *w = watch_of(watch);

	if (w)
		atomic_store(w, watch);
	else
		iw_fd_unhide_close(watch);
}

void iw_kick_seen(int watch)
{
	struct epoll_event ev;

	IW_SYS(epoll_pwait, watch, &ev, 1, 0, NULL, 8);
}

void iw_kick(void)
{
	char c;

	if (!there())
		return;
	octet_in();
	IW_SYS(recvfrom, atomic_load(&ends[0]), &c, 1, MSG_DONTWAIT, NULL, NULL);
}

void iw_kick_make_way(int fd)
{
	_Atomic int *w = watch_of(fd);

	if (w)
		atomic_store(w, 0);
	for (int i = 0; i < 2; i++) {
		long n;

		if (fd != atomic_load(&ends[i]))
			continue;
		n = IW_SYS(fcntl, fd, F_DUPFD_CLOEXEC, fd + 1);
		if (n >= IW_FD_MAX) {
			IW_SYS(close, n);
			n = 0;
		}
		if (n > 0)
			iw_word_set((int)n, iw_word_make(IW_FD_INTERNAL, 1));
		atomic_store(&ends[i], n > 0 ? (int)n : 0);
	}
	iw_word_cas(fd, iw_word_make(IW_FD_INTERNAL, 1), 0);
}
