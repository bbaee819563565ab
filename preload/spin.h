/* SPDX-License-Identifier: MIT */
/*
 * Looking again for a moment before a sleep, where recent sleeps of this thread were short: whoever sends then wakes nobody, and what it sends
 * is found at once. On a processor that has something else to do it costs that, so it stops by itself: docs/mapped.md, 4.15.
 *
 *	struct iw_spin z;
 *
 *	iw_spin_begin(&z);
 *	while (iw_spin_on(&z) && !(found = look()))
 *		;
 *	if (iw_spin_over(&z) && !found)
 *		... interrupted: a sleep would have been
 *	else if (!found)
 *		... sleep
 *	iw_spin_end(&z);
 *
 * Handlers are put off from begin to over, since a look tells of none.
 */
#ifndef IW_PRELOAD_SPIN_H
#define IW_PRELOAD_SPIN_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

struct iw_spin {
	int64_t begin, last;	/* CLOCK_MONOTONIC ns; begin 0: nothing is learned of this wait */
	int64_t most;		/* how long; 0: not at all */
	int64_t apart;		/* looks, ns: for who pays less for one than a system call it may be less, once it has begun */
	uint32_t looks;
	bool held;
	bool parts;		/* it is to part two that run on one processor */
	int signal;		/* which came first, once it is over */
};

static inline void iw_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	__asm__ volatile("" ::: "memory");
#endif
}

/* Looking is no waste of itself: it is not forbidden, and there is another processor. */
bool iw_spin_may(void);
/*
 * This thread runs here, and the other end of the stream that it has just used was last seen there, each the number of a processor and 1. On one
 * processor both can look in vain only; but who does not sleep for some milliseconds is given another one, where one is idle.
 */
void iw_spin_met(uint32_t here, uint32_t there);
void iw_spin_begin(struct iw_spin *z);
bool iw_spin_on(struct iw_spin *z);	/* false: sleep now */
bool iw_spin_over(struct iw_spin *z);	/* no more looks. true: a handler has come meanwhile, and has run now */
/* The loop above, of ppoll(): what it says, 0: nothing in that time. */
long iw_spin_poll(struct iw_spin *z, struct pollfd *p, nfds_t n);
/*
 * The same where something may come that the kernel does not tell of: have() says whether it has, and is asked often, ppoll() between. With begin and
 * over; the wait is over, too, if something was found. true: a handler has come, and nothing else.
 */
bool iw_spin_have(struct iw_spin *z, bool (*have)(const void *arg), const void *arg, struct pollfd *p, nfds_t n);
void iw_spin_end(struct iw_spin *z);	/* the wait is over, by a look or by a sleep */

#endif
