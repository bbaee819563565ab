/* SPDX-License-Identifier: MIT */
/* Handlers of signals: which there are, and steps of the library in which none comes. */
#ifndef IW_PRELOAD_HANDLERS_H
#define IW_PRELOAD_HANDLERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/single_threaded.h>

#pragma GCC visibility push(hidden)

extern _Atomic uint32_t iw_handlers;		/* there is one, or was */
extern _Atomic uint32_t iw_handlers_unseen;	/* one was set by a system call, or by libc itself: it is not put off */
/* Signals, n by bit n - 1, whose handler has SA_RESTART; and whose handler has not. */
extern _Atomic uint64_t iw_handlers_restart, iw_handlers_interrupt;

/* In a process of one thread without handlers nobody comes in between. */
static inline bool iw_handlers_alone(void)
{
	return __libc_single_threaded && !atomic_load_explicit(&iw_handlers, memory_order_relaxed);
}

/* Are there any that were not seen? And that of faults stands (fault.h) from now on. Some system calls: when the first step of something is near. */
void iw_handlers_look(void);

/* Of a thread. */
struct iw_handlers_step {
	volatile uint32_t n;		/* steps it is in */
	volatile bool came;		/* a signal, which waits: all are blocked, */
	volatile int first;		/* which */
	volatile uint64_t mask;		/* and these were before */
};
extern __thread struct iw_handlers_step iw_handlers_step __attribute__((tls_model("initial-exec")));

void iw_handlers_late(void);
void iw_handlers_left(void);		/* the thread leaves the steps it is in, by a jump */

/* Steps do not wait. A handler that is seen comes behind the end. */
static inline void iw_handlers_hold(void)
{
	iw_handlers_step.n++;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void iw_handlers_release(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	if (!--iw_handlers_step.n && __builtin_expect(iw_handlers_step.came, 0))
		iw_handlers_late();
}

#pragma GCC visibility pop
#endif
