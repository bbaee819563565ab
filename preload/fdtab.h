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
	IW_FD_CANDIDATE,	/* the kernel's own TCP socket, as far as we know; counted (candidate.c) */
	IW_FD_STREAM,		/* a carrier (stream.c) */
	IW_FD_SWITCHING,	/* on its way from one of these two to the other: whoever comes waits (switch.c) */
	IW_FD_INTERNAL,		/* our own (control socket): hidden from close_range and the like (internal.c) */
	IW_FD_EPOLL,		/* an epoll instance that holds, or may hold, our fds (reg.c) */
};

/*
 * One word per fd: kind in the low 4 bits, above it what belongs to the kind (CANDIDATE, STREAM: index of the entry; SWITCHING: the same,
 * and below it whether it is a stream's; EPOLL: see reg.c; OTHER: IW_OTHER_*).
 */
extern _Atomic uint32_t iw_fdtab[IW_FD_MAX];

#define IW_OTHER_SEEN	(1u << 4)	/* word of an OTHER fd that is no carrier: iw_adopt need not look again */
#define IW_OTHER_RING	(2u << 4)	/* the same, of an io_uring */

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

/* What a SWITCHING fd is at this moment: the word of a candidate or of a stream. */
static inline uint32_t iw_word_gated(uint32_t w)
{
	return iw_word_make(IW_FD_SWITCHING, iw_word_val(w) << 1 | (iw_word_kind(w) == IW_FD_STREAM));
}

static inline uint32_t iw_word_ungated(uint32_t w)
{
	return iw_word_make(iw_word_val(w) & 1 ? IW_FD_STREAM : IW_FD_CANDIDATE, iw_word_val(w) >> 1);
}

/* Its file may be exchanged for another one by a thread of this process. */
static inline bool iw_word_moves(uint32_t w)
{
	return iw_word_kind(w) - 1u < IW_FD_SWITCHING;
}

/* Returns the word that was there; the counts below are kept right. */
uint32_t iw_word_set(int fd, uint32_t w);
bool iw_word_cas(int fd, uint32_t old, uint32_t w);

/*
 * What an unknown number is, as a look at its file has told. Another thread may have closed that meanwhile, and the number may be a file's that came by
 * SCM_RIGHTS, of which nothing is known: so is() looks once more. false: nothing was noted.
 */
static inline bool iw_word_found(int fd, uint32_t w, bool (*is)(int fd))
{
	if (!iw_word_cas(fd, 0, w))
		return false;
	if (is(fd))
		return true;
	iw_word_cas(fd, w, 0);
	return false;
}

extern struct iw_lock iw_tab_lock;	/* slots, epoll registry; never held over a wait */
extern _Atomic int iw_fd_high, iw_fd_high_app;	/* no word above this fd was ever set; none but of our own fds */
extern _Atomic uint32_t iw_streams;	/* number of STREAM fds: 0 lets poll and friends pass straight through */
extern _Atomic uint32_t iw_movable;	/* number of fds whose file may be exchanged (iw_word_moves) */
extern _Atomic uint32_t iw_gates;	/* number of SWITCHING fds */

/* Until fd is not SWITCHING any more. Not inside a call of one's own on fd. Returns its word. */
uint32_t iw_gate_wait(int fd);

/* A new fd: its meaning is known for certain, whatever the table said about its number is old. */
void iw_fd_born(int fd, uint32_t w);
/* It is closed, or new to this process (came by SCM_RIGHTS): forget what its number meant. */
void iw_fd_forget(int fd);
uint64_t iw_fd_ino(int fd);	/* st_ino, 0 on error */

#pragma GCC visibility pop
#endif
