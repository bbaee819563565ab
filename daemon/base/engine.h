/* SPDX-License-Identifier: MIT */
/*
 * The event loop on io_uring. One thread; everything of the daemon runs in its callbacks.
 * An op is one request in flight. Its owner must stay allocated until fn was called for the last time
 * (a cancelled op completes with -ECANCELED): owners count their ops in flight and free themselves at zero.
 */
#ifndef IWARPD_ENGINE_H
#define IWARPD_ENGINE_H

#include <errno.h>
#include <liburing.h>
#include <stdbool.h>
#include <stdint.h>

#include "list.h"

struct op;
/* res: as the CQE has it (>= 0 or -errno). more: a multishot op goes on. */
typedef void (*op_fn)(struct op *op, int res, bool more);
struct op {
	op_fn fn;
	bool busy;		/* submitted and not yet completed for the last time */
};

/* A result that says nothing: ask again. */
static inline bool op_again(int res)
{
	return res == -EINTR || res == -EAGAIN;
}

/*
 * io_uring waits by itself on files without O_NONBLOCK only: taken off. Who shares the file may set it again, and gets -EAGAIN at once,
 * again and again: then it is taken off anew. spun counts these; false: too often for somebody who means well.
 */
void engine_file_waits(int fd);
bool engine_file_again(int fd, int res, unsigned int *spun);

/* 0 or -errno; -ENOSYS and -EPERM say that io_uring is missing or forbidden (the caller explains and exits). */
int engine_init(void);
void engine_fini(void);
/* Run until engine_stop(). */
void engine_run(void);
void engine_stop(void);

/* A fresh SQE tied to op (op->busy is set); never NULL: submits when the queue is full. Fill it with io_uring_prep_*
 * right away: the op is attached for you with io_uring_sqe_set_data after prep, so call engine_submit(sqe, op) last. */
struct io_uring_sqe *engine_sqe(void);
void engine_submit(struct io_uring_sqe *sqe, struct op *op);
/* Ask for the end of an op in flight; its fn still comes. */
void engine_cancel(struct op *op);
/* The SQE of an op that the kernel has not been given yet, or NULL. It may still be changed, until the callback that asked returns. */
struct io_uring_sqe *engine_unsubmitted(const struct op *op);

/* Timers: one-shot, monotonic, milliseconds; restartable; cancel is immediate (fn will not be called). */
struct timer {
	void (*fn)(struct timer *t);
	uint64_t due;		/* CLOCK_MONOTONIC ms; 0 = off */
	uint64_t turn;		/* of those due at the same time the one started first comes first */
	void *node;
};
void timer_start(struct timer *t, unsigned int ms, void (*fn)(struct timer *));
void timer_stop(struct timer *t);

/*
 * Whose work it is. Items of one class run in the order queued; classes that have something to do take turns by time, so that one
 * user's flood of streams does not starve another's (SEC-P06). Work without a class, the daemon's own, comes first.
 */
struct work;
struct work_class {
	struct work *first, **tail;
	struct work_class *next, **pprev;	/* classes with work */
	bool waiting;
};
void work_class_init(struct work_class *c);	/* it must stay for good */
/* Several classes had work within the last milliseconds: what costs time is then queued, not done at once. */
bool engine_contended(void);

/* Call fn once after the current batch of completions (deduplicated by the work item). */
struct work {
	void (*fn)(struct work *w);
	bool queued;
	uint32_t round;
	struct work_class *turn;	/* set before it is queued; NULL: none */
	struct work *next, **pprev;
};
void work_queue(struct work *w, void (*fn)(struct work *));
void work_cancel(struct work *w);

uint64_t engine_now_ms(void);	/* CLOCK_MONOTONIC, cached per batch */
uint64_t engine_clock_us(void);	/* looked at now */

#endif
