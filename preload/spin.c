// SPDX-License-Identifier: MIT
/* How long a thread looks before it sleeps: by what its last waits were like. */
#include <sys/resource.h>

#include "conf.h"
#include "deadline.h"
#include "handlers.h"
#include "lib.h"
#include "spin.h"
#include "stream.h"
#include "sys.h"

#define LONGEST_NS	50000		/* a wait that is longer does not pay */
#define SPARE_NS	4000
#define SHORT		3u		/* waits in a row that would have paid, before one is tried */
#define NEAR_NS		300000		/* one of these may be that long only because both ends have to be woken, */
#define NEAR		16u		/* after so many in a row it is tried, */
#define TRIAL		8u		/* and so often, since the other end has to learn of it */
#define HAVES		8u		/* asked so often for one question to the kernel */
#define APART_NS	1000		/* looks: each keeps what sends from the socket for a moment */
#define GAP_NS		20000		/* between two looks: perhaps the processor had something else to do */
#define SAVED_NS	4000		/* what a look that paid has saved both ends, at least: a sleep, and a wake-up */
#define CREDIT_MOST_NS	1000000ll	/* of the time that paid looks took, others may take as much without a pause */
#define PAUSE_NS	200000ll	/* after one that did not pay, and no credit; twice as long each time */
#define PAUSE_MOST_NS	1000000000ll
#define PART_NS		10000000ll	/* so long who shares his processor with the other end does not sleep: until a tick or two have found both there */
#define PART_PAUSE_NS	100000000ll	/* until it is tried again; twice as long each time that it was of no use */
#define PART_MOST_NS	30000000000ll
#define PART_TAKEN	8		/* of so many times that it slept, one that the processor was taken from it: there is no idle one */

/* What the waits of a thread were like. */
static __thread struct habit {
	int64_t after;		/* not before */
	int64_t pause;
	int64_t cpus_at;	/* when it was last asked how many processors there are */
	long taken;		/* times that the processor was taken from it, when that was last asked */
	uint32_t shorts, nears;	/* in a row */
	uint32_t trial;		/* of which so many were looked through */
	uint32_t ns;		/* how long such a wait is, about */
	int64_t credit;		/* ns */
	bool one_cpu;
	bool together;		/* with the other end, on one processor */
	int64_t part_until, part_after, part_pause;
	long slept, preempted;	/* when it was last tried */
} habit __attribute__((tls_model("initial-exec")));

static bool one_cpu(int64_t now)
{
	uint64_t set[16] = { 0 };
	unsigned int n = 0;

	if (now - habit.cpus_at < PAUSE_MOST_NS)
		return habit.one_cpu;
	habit.cpus_at = now;
	IW_SYS(sched_getaffinity, 0, sizeof(set), set);
	for (unsigned int i = 0; i < 16; i++)
		n += (unsigned int)__builtin_popcountll(set[i]);
	return habit.one_cpu = n == 1;
}

void iw_spin_met(uint32_t here, uint32_t there)
{
	bool was = habit.together;

	habit.together = here == there;
	if (was && !habit.together)
		habit.part_pause /= 2;
}

/* There is an idle processor, as far as this one's own tells. */
static bool one_is_idle(void)
{
	struct rusage u = { 0 };
	long woken, away;

	IW_SYS(getrusage, RUSAGE_THREAD, &u);
	woken = u.ru_nvcsw - habit.slept;
	away = u.ru_nivcsw - habit.preempted;
	habit.slept = u.ru_nvcsw;
	habit.preempted = u.ru_nivcsw;
	return away * PART_TAKEN < woken;
}

/*
 * The other end shares this processor: a look finds nothing that a sleep would not, but each of the two wakes the other where it runs itself, so that neither
 * gets another one as long as they sleep in turns.
 */
static int64_t parting(int64_t now)
{
	if (now < habit.part_until)
		return habit.part_until - now;
	if (now < habit.part_after || habit.shorts < SHORT)
		return 0;
	habit.part_pause = habit.part_pause < PART_PAUSE_NS / 2 ? PART_PAUSE_NS : 2 * habit.part_pause;
	if (habit.part_pause > PART_MOST_NS)
		habit.part_pause = PART_MOST_NS;
	habit.part_after = now + habit.part_pause;
	if (!one_is_idle())
		return 0;
	habit.part_until = now + PART_NS;
	return PART_NS;
}

static int64_t how_long(int64_t now)
{
	int64_t ns = 2ll * habit.ns + SPARE_NS;

	if (atomic_load_explicit(&iw_streams_carried, memory_order_relaxed))
		return 0;
	if (atomic_load_explicit(&iw_conf_spin, memory_order_relaxed) == IW_SPIN_ALWAYS)
		return LONGEST_NS;
	if (habit.together && !one_cpu(now))
		return parting(now);
	if (habit.credit > 0 && !one_cpu(now))
		return LONGEST_NS;
	if (now < habit.after || one_cpu(now))
		return 0;
	if (habit.shorts >= SHORT)
		return ns < LONGEST_NS ? ns : LONGEST_NS;
	return habit.nears >= NEAR ? NEAR_NS : 0;
}

bool iw_spin_may(void)
{
	return atomic_load_explicit(&iw_conf_spin, memory_order_relaxed) != IW_SPIN_NO && !one_cpu(iw_mono_ns());
}

void iw_spin_begin(struct iw_spin *z)
{
	*z = (struct iw_spin){ 0 };
	if (atomic_load_explicit(&iw_conf_spin, memory_order_relaxed) == IW_SPIN_NO || atomic_load_explicit(&iw_handlers_unseen, memory_order_relaxed))
		return;
	z->begin = z->last = iw_mono_ns();
	z->most = how_long(z->begin);
	z->parts = z->most && z->begin < habit.part_until;
	z->held = z->most;
	z->apart = APART_NS;
	if (z->held)
		iw_handlers_hold();
}

/* It did not pay, and too few others do. */
static void unpaid(int64_t now)
{
	habit.pause = habit.pause > PAUSE_NS / 2 ? 2 * habit.pause : PAUSE_NS;
	if (habit.pause > PAUSE_MOST_NS)
		habit.pause = PAUSE_MOST_NS;
	habit.after = now + habit.pause;
}

/* An interrupt, or somebody else who wants to run? */
static bool taken_away(void)
{
	struct rusage u = { 0 };
	long before = habit.taken;

	IW_SYS(getrusage, RUSAGE_THREAD, &u);
	habit.taken = u.ru_nivcsw;
	return u.ru_nivcsw != before;
}

bool iw_spin_on(struct iw_spin *z)
{
	int64_t now;

	if (!z->most || iw_handlers_step.came)
		return false;
	if (!z->looks++)
		return true;
	do {
		for (int i = 0; i < 8; i++)
			iw_relax();
		now = iw_mono_ns();
	} while (now - z->last < z->apart);
	if (now - z->begin < z->most && (z->parts || now - z->last < GAP_NS || !taken_away())) {
		z->last = now;
		return true;
	}
	if (z->parts) {
		z->most = 0;
		return false;
	}
	habit.credit -= now - z->begin;
	if (now - z->begin < z->most)	/* taken away */
		habit.credit = 0;
	if (habit.credit <= 0)
		unpaid(now);
	z->most = 0;
	return false;
}

bool iw_spin_over(struct iw_spin *z)
{
	bool came = z->held && iw_handlers_step.came;

	z->signal = came ? iw_handlers_step.first : 0;
	if (z->held)
		iw_handlers_release();
	z->held = false;
	return came;
}

long iw_spin_poll(struct iw_spin *z, struct pollfd *p, nfds_t n)
{
	struct timespec t = { 0, 0 };
	long r = 0;

	while (!r && iw_spin_on(z))
		r = IW_SYS(ppoll, p, n, &t, NULL, 8);
	return r;
}

void iw_spin_end(struct iw_spin *z)
{
	int64_t ns;

	if (!z->begin)
		return;
	ns = iw_mono_ns() - z->begin;
	habit.nears = ns > NEAR_NS ? 0 : habit.nears + (habit.nears < NEAR);
	if (z->parts)
		return;
	if (z->most > LONGEST_NS) {
		if (++habit.trial >= TRIAL) {
			habit.trial = habit.nears = 0;
			unpaid(z->begin + ns);
		}
	} else if (z->most) {		/* found by a look */
		habit.pause /= 2;
		habit.credit = (habit.credit > 0 ? habit.credit : 0) + (ns > SAVED_NS ? ns : SAVED_NS);
		if (habit.credit > CREDIT_MOST_NS)
			habit.credit = CREDIT_MOST_NS;
	}
	if (ns > LONGEST_NS) {
		habit.shorts = 0;
		return;
	}
	if (habit.shorts < SHORT && ++habit.shorts == SHORT)
		habit.trial = 0;
	habit.ns = (uint32_t)((7 * (int64_t)habit.ns + ns) / 8);
}

bool iw_spin_have(struct iw_spin *z, bool (*have)(const void *arg), const void *arg, struct pollfd *p, nfds_t n)
{
	struct timespec t = { 0, 0 };
	bool found = false, came;
	long r = 0;

	iw_spin_begin(z);
	while (!found && r <= 0 && iw_spin_on(z)) {
		for (unsigned int i = 0; i < HAVES && !found; i++)
			found = have(arg);
		if (!found)
			r = IW_SYS(ppoll, p, n, &t, NULL, 8);
	}
	came = iw_spin_over(z);
	if (!found && r <= 0)
		return came;
	iw_spin_end(z);
	z->begin = 0;
	return false;
}
