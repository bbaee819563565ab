// SPDX-License-Identifier: MIT
/* A burst of a mapped stream: its owner gathers without a system call, and the agent looks, when the bell was rung, whether he goes on. */
#include <errno.h>
#include <sys/types.h>
#include <time.h>

#include "daemon/base/fdinfo.h"
#include "agent.h"
#include "life.h"
#include "map_priv.h"
#include "remote.h"

#define LOOK_NS		500000u	/* between two looks at a burst, of which the second finds it over if nothing came. Shorter, and it is the scheduler's pauses */
#define LOOKS		20u	/* at nothing new: the bell is silent again */
#define LOOKS_LOST	10u	/* at nothing new while its owner has not run: something else has its processor, mostly */
#define BURST_MIN_MS	10u	/* as PAUSE_MIN_MS, after a burst's end */

/* ---- a burst ---- */

static void look(struct op *op, int res, bool more);

static void look_later(struct stream *st)
{
	static struct __kernel_timespec soon = { .tv_nsec = LOOK_NS };
	struct io_uring_sqe *sqe = engine_sqe();

	st->bell_op.fn = look;
	io_uring_prep_timeout(sqe, &soon, 0, 0);
	engine_submit(sqe, &st->bell_op);
}

/*
 * Its owner did not use a processor since the last look. So it sleeps, by a call that the library does not see, or it waits for its turn: then
 * there is more to come, and relaying it meanwhile would only cost the others their turns.
 */
static bool owner_waits(struct stream_map *m)
{
	uint64_t was = m->ran;
	struct timespec t;

	if (!m->clock) {
		pid_t pid = (pid_t)fdinfo_number(m->owner, "Pid:");

		if (pid <= 0 || clock_getcpuclockid(pid, &m->clock))
			m->clock = CLOCK_MONOTONIC;	/* as if it ran */
	}
	if (clock_gettime(m->clock, &t))
		return false;
	m->ran = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	return m->ran - was < LOOK_NS / 4;
}

/* Who gathers next has to tell, or is seen here. */
static bool burst_over(struct iw_map *map)
{
	atomic_store(&map->bell, 0);
	if (iw_map_owner(map) != IW_MAP_BURST)
		return true;
	atomic_store(&map->bell, 1);
	return false;
}

/* What lies there since the last look goes now, as if it had been read from the carrier. A carrier that hung up says more: see closed(). */
static void look(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, bell_op);
	struct stream_map *m = st->map;
	bool waits;
	uint64_t w;

	if (st->state == STREAM_DEAD) {
		stream_ended_op(st);
		return;
	}
	if (!map_taken(st) || st->app_closed)
		return;
	w = atomic_load(&map_of(st)->owner);
	waits = owner_waits(m);
	if (w != m->word)
		m->same = 0;
	else if ((w & IW_MAP_OWNER) != IW_MAP_BURST || (waits && m->same < LOOKS_LOST))
		m->same++;
	else if (atomic_compare_exchange_strong(&map_of(st)->owner, &w, w & ~(uint64_t)IW_MAP_OWNER)) {
		agent_take(st, false, &st->remote->burst_pause, BURST_MIN_MS);
		return;
	}
	m->word = w;
	if (m->same < LOOKS || !burst_over(map_of(st)))
		look_later(st);
}

void stream_bell(struct stream *st)
{
	if (!map_taken(st) || st->bell_op.busy)
		return;
	st->map->word = 0;
	st->map->same = 0;
	look_later(st);
}
