/* SPDX-License-Identifier: MIT */
/*
 * Which threads are inside a call of the kernel's on which fd, so that a socket can be taken from under its number when nobody is.
 *
 * An entry point says iw_call_begin(fd), then loads the fd's word and, if that is not gated, makes its call; iw_call_end() comes after it.
 * Who wants the number for himself gates the word first and asks iw_quiet() then: either the caller sees the gate, or he is seen. The
 * caller pays some plain stores for that; the barrier between his store and his load is the other's membarrier.
 */
#ifndef IW_PRELOAD_QUIET_H
#define IW_PRELOAD_QUIET_H

#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/select.h>

#include "lib.h"

#pragma GCC visibility push(hidden)

#define IW_CALL_DEPTH	4	/* a call, and those that signal handlers make inside it; one more deep is "any fd" */
#define IW_CALL_POLL	(-2)
#define IW_CALL_SELECT	(-3)

/* A call under way. Written by its thread alone. */
struct iw_call {
	_Atomic uintptr_t sp;		/* of the caller's stack; 0: there is no such call. Stored first */
	_Atomic int fd;			/* or one of IW_CALL_* */
	_Atomic uint32_t n;		/* of the array, or select's first argument */
	_Atomic uintptr_t v[3];		/* the array, or select's sets */
};

struct iw_slot {
	struct iw_call call[IW_CALL_DEPTH];	/* in use from the first on */
	_Atomic uint32_t over;		/* calls deeper than that */
};

/* This thread's; before its first call one for all, in which every call seems to be nested. */
extern __thread struct iw_slot *iw_slot __attribute__((tls_model("initial-exec")));

/* Not the first one of the slot, or there is no slot yet. */
void iw_call_begin_nested(int fd, uint32_t n, const void *a, const void *b, const void *c, uintptr_t sp);
void iw_call_end_nested(uintptr_t sp);

static inline __attribute__((always_inline)) uintptr_t iw_sp(void)
{
	uintptr_t sp;

#if defined(__x86_64__)
	__asm__ volatile("movq %%rsp, %0" : "=r"(sp));
#else
	__asm__ volatile("mov %0, sp" : "=r"(sp));
#endif
	return sp;
}

#define IW_SLOT_GET(x)		atomic_load_explicit(&(x), memory_order_relaxed)
#define IW_SLOT_SET(x, v)	atomic_store_explicit(&(x), v, memory_order_relaxed)

/* Calls may nest: those of a signal handler. A call that was left by longjmp or cancellation needs no end. */
static inline __attribute__((always_inline)) void iw_call_begin(int fd)
{
	struct iw_slot *s = iw_slot;

	if (iw_likely(!IW_SLOT_GET(s->call[0].sp))) {
		IW_SLOT_SET(s->call[0].sp, iw_sp());
		atomic_signal_fence(memory_order_seq_cst);
		IW_SLOT_SET(s->call[0].fd, fd);
	} else {
		iw_call_begin_nested(fd, 0, NULL, NULL, NULL, iw_sp());
	}
	atomic_signal_fence(memory_order_seq_cst);
}

static inline __attribute__((always_inline)) void iw_call_begin_array(int fd, uint32_t n, const void *a, const void *b, const void *c)
{
	struct iw_slot *s = iw_slot;

	if (iw_likely(!IW_SLOT_GET(s->call[0].sp))) {
		IW_SLOT_SET(s->call[0].sp, iw_sp());
		atomic_signal_fence(memory_order_seq_cst);
		IW_SLOT_SET(s->call[0].fd, fd);
		IW_SLOT_SET(s->call[0].n, n);
		IW_SLOT_SET(s->call[0].v[0], (uintptr_t)a);
		IW_SLOT_SET(s->call[0].v[1], (uintptr_t)b);
		IW_SLOT_SET(s->call[0].v[2], (uintptr_t)c);
	} else {
		iw_call_begin_nested(fd, n, a, b, c, iw_sp());
	}
	atomic_signal_fence(memory_order_seq_cst);
}

/* For all fds of the array, which stays as it is until the end. */
static inline void iw_call_begin_poll(const struct pollfd *v, nfds_t n)
{
	iw_call_begin_array(IW_CALL_POLL, n < UINT32_MAX ? (uint32_t)n : UINT32_MAX, v, NULL, NULL);
}

/* For all fds of the sets. select() writes its answer into them: that is when the call is over. */
static inline void iw_call_begin_select(int n, const fd_set *r, const fd_set *w, const fd_set *e)
{
	iw_call_begin_array(IW_CALL_SELECT, n > 0 ? (uint32_t)n : 0, r, w, e);
}

static inline __attribute__((always_inline)) void iw_call_end(void)
{
	struct iw_slot *s = iw_slot;

	atomic_signal_fence(memory_order_seq_cst);
	if (iw_likely(!IW_SLOT_GET(s->call[1].sp)))
		atomic_store_explicit(&s->call[0].sp, 0, memory_order_release);
	else
		iw_call_end_nested(iw_sp());
}

/*
 * Inside a call of one's own on fd (iw_call_begin() or an array), with the word of fd gated before: is no other thread, and no call that
 * this one interrupted, inside a call on fd? Waits for calls that are about to return, not for those that sleep. What the kernel says of
 * the threads confirms, so that raw system calls and those of stdio count when they sleep (not while they run), and what a thread left
 * by longjmp or cancellation does not. Without /proc or membarrier, or with more threads than IW_QUIET_THREADS: false if there are others.
 * Only the number fd is looked at, not its duplicates. 0.1 ms and 0.03 ms per thread; nothing in a process that has one thread. Keeps errno.
 */
#define IW_QUIET_THREADS 128

/* way, if not NULL: who was found inside, when false; 0: nobody knows. */
bool iw_quiet(int fd, uint64_t *way);
/* Is he still? No system call; a hint only: it may be his next call. */
bool iw_quiet_in_way(uint64_t way);

/* The threads of this process, by the directory of its tasks: how many; -1: too many, or they come and go. */
int iw_threads(int dir, int tids[IW_QUIET_THREADS]);

void iw_quiet_init(void);
void iw_quiet_forked_child(void);

#pragma GCC visibility pop
#endif
