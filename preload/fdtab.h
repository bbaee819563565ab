/* SPDX-License-Identifier: MIT */
/* The table of fds: what each number is to us. A call on an fd that is not ours costs one load from it. */
#ifndef IW_PRELOAD_FDTAB_H
#define IW_PRELOAD_FDTAB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "lock.h"

#pragma GCC visibility push(hidden)

#define IW_FD_MAX (1 << 20)	/* fds above are never accelerated */

enum iw_fd_kind {
	IW_FD_OTHER = 0,	/* not ours: everything goes to the original */
	IW_FD_TCP,		/* a TCP socket made by socket(), not connected: watched (tcp.c) */
	IW_FD_LISTENER,		/* listening TCP socket (listener.c) */
	IW_FD_CONNECTING,	/* non-blocking connect under way, offered to the daemon (connecting.c) */
	IW_FD_PLAIN,		/* connected, stays plain TCP; known to the daemon as such (plain.c) */
	IW_FD_STREAM,		/* a carrier (stream.c) */
	IW_FD_INTERNAL,		/* our own (control socket): hidden from close_range and the like (internal.c) */
	IW_FD_EPOLL,		/* an epoll instance that holds, or may hold, our fds (epoll.c) */
};

/*
 * One word per fd: kind in the low 4 bits, above it what belongs to the kind (STREAM, LISTENER, CONNECTING: index of the entry;
 * TCP: see tcp.h; PLAIN: conn_id; EPOLL: 1 = it may have other numbers; OTHER: IW_OTHER_*).
 */
extern _Atomic uint32_t iw_fdtab[IW_FD_MAX];

#define IW_OTHER_ADOPTED (1u << 4)	/* word of an OTHER fd that is no carrier: iw_adopt need not look again */
#define IW_OTHER_SEEN	(3u << 4)	/* nor a listener: accept need not look either */

static inline enum iw_fd_kind iw_fd_kind(int fd)
{
	if ((unsigned int)fd >= IW_FD_MAX)
		return IW_FD_OTHER;
	return (enum iw_fd_kind)(atomic_load_explicit(&iw_fdtab[fd], memory_order_relaxed) & 15);
}

static inline uint32_t iw_word(int fd)
{
	return (unsigned int)fd < IW_FD_MAX ? atomic_load_explicit(&iw_fdtab[fd], memory_order_acquire) : 0;
}

static inline enum iw_fd_kind iw_word_kind(uint32_t w)
{
	return (enum iw_fd_kind)(w & 15);
}

static inline uint32_t iw_word_val(uint32_t w)
{
	return w >> 4;
}

static inline uint32_t iw_word_make(enum iw_fd_kind kind, uint32_t val)
{
	return (uint32_t)kind | val << 4;
}

/* Nobody has looked whether it listens. */
static inline bool iw_word_unseen(uint32_t w)
{
	return iw_word_kind(w) == IW_FD_OTHER && w != IW_OTHER_SEEN;
}

/* Returns the word that was there; iw_streams is kept right. */
uint32_t iw_word_set(int fd, uint32_t w);
bool iw_word_cas(int fd, uint32_t old, uint32_t w);

extern struct iw_lock iw_tab_lock;	/* slots, epoll registry, CONNECTING entries, listeners; never held over a wait */
extern _Atomic int iw_fd_high;		/* no word above this fd was ever set */
extern _Atomic uint32_t iw_streams;	/* number of STREAM fds: 0 lets poll and friends pass straight through */

/* A new fd: its meaning is known for certain, whatever the table said about its number is old. */
void iw_fd_born(int fd, uint32_t w);
/* It is closed, or new to this process (came by SCM_RIGHTS): forget what its number meant. */
void iw_fd_forget(int fd);
uint64_t iw_fd_ino(int fd);	/* st_ino, 0 on error */

#pragma GCC visibility pop
#endif
