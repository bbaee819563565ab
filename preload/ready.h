/* SPDX-License-Identifier: MIT */
/*
 * Readiness of mapped streams. The kernel wakes by the mapped socket; what it means for the program is known once it was parsed, and is known
 * to nobody but us from then on. So whoever takes octets from the socket tells the others, and who waits looks here before he sleeps.
 */
#ifndef IW_PRELOAD_READY_H
#define IW_PRELOAD_READY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "map.h"
#include "stream.h"

#pragma GCC visibility push(hidden)

struct iw_reg;

/*
 * For paths, at the end of a call that took something from the mapped socket of s, or left it something: what came (as iw_path_ops.step
 * says it), also when the call has read all of that; 0: only wait_events() may be others now. Not under a lock that step() or wait_events()
 * take. No system call, unless somebody sleeps who has something to learn.
 */
void iw_ready(struct iw_stream *s, int fd, short what);

/* ---- poll and select ---- */

/* Before the look of somebody who will sleep for s, and after his sleep. */
static inline void iw_ready_polls(struct iw_stream *s)
{
	atomic_fetch_add(&s->polled, 1);
}

static inline void iw_ready_polled(struct iw_stream *s)
{
	atomic_fetch_sub(&s->polled, 1);
	if (atomic_load(&s->map_stale))
		iw_map_sweep(s);
}

#define IW_LATE_LOOKS	64u	/* when the time is over */

/* ---- epoll ---- */

#define IW_LOOK_KNOWN	64	/* the most events that are said without the kernel */

/* One look of somebody who waits for a set. */
struct iw_look {
	int epfd;
	uint32_t set;
	uint32_t nr;		/* no other has it */
	struct epoll_event *ev;	/* what it knew without the kernel */
	struct iw_reg *level;	/* it has reported this one, which is level-triggered */
	uint64_t since[2 * IW_LOOK_KNOWN];	/* of those that it has reported, in their order: iw_ring_dir.since, or 0 */
	int reported;
};

void iw_look_begin(struct iw_look *l, int epfd);
/* It may sleep from here until there: what comes meanwhile ends its wait in the kernel. */
void iw_look_sleeps(const struct iw_look *l);
void iw_look_woke(const struct iw_look *l);
/* What is known without the kernel, at most max events; may there be some? */
bool iw_look_any(void);
bool iw_look_wants(const struct iw_look *l);
int iw_look_known(struct iw_look *l, struct epoll_event *ev, int max);
/* What the kernel said: the events of mapped streams become those of the program, and stand first. Returns how many; *rest: how many follow that
 * are not such. */
int iw_look_at(struct iw_look *l, struct epoll_event *ev, int n, int *rest);
/* Of n events, of which those that this look has reported are the first: in the order in which they came; others are taken to be older. */
void iw_look_order(const struct iw_look *l, struct epoll_event *ev, int n);
void iw_look_end(struct iw_look *l);

/* Somebody sleeps, or may, in a set that it is in. No lock */
bool iw_ready_slept(const struct iw_stream *s);
/* It is in this set, or may be. */
bool iw_ready_in(const struct iw_stream *s, uint32_t set);

/* ---- sets that are waited for themselves, in other sets or by poll ---- */

void iw_ready_watched(uint32_t set);	/* this one is, now or at any time */
/* Before such a wait: the kernel has those ready that have something to report. */
void iw_ready_sets(void);
/* The kernel says that it is ready: would a wait for it have something to report? Otherwise it is not ready any more. */
bool iw_ready_set(int epfd);

/* ---- for reg.c, under iw_tab_lock ---- */

uint32_t iw_ready_asks(const struct iw_reg *r);	/* events to ask the kernel for */
void iw_ready_armed(struct iw_reg *r);		/* it was added, changed or moved: whatever is ready is to be reported */
void iw_ready_gone(struct iw_reg *r);
bool iw_ready_counted(uint32_t set);		/* all who wait for it say so */
void iw_ready_strangers(uint32_t set);		/* threads sleep in it that have not said so */

#pragma GCC visibility pop
#endif
