// SPDX-License-Identifier: MIT
/*
 * Promises. Few connections at a time can lose their pacing, and those that would gain by nothing else are slower upgraded than plain where they do not. So
 * one is asked about, and told GO, when it was promised to be among them; the others stay plain TCP, in the order in which they came. A promise of which
 * nothing comes is somebody else's after a while. Those that would not gain by that either wait for nothing but to be proposed as of another kind.
 */
#include "pace.h"

#include "daemon/stream/stream.h"
#include "match.h"

static struct list waiting, promised;	/* who came first is first */
static struct list in_vain;
static struct timer timer;
static struct work work;

static void hand_out(struct work *w);

static void promise(struct proposal *p)
{
	stream_promise_unpaced(true);
	list_add_tail(list_bucket(&promised), &p->pace);
	p->pacing = PACE_PROMISED;
	p->pace_until = engine_now_ms() + PACE_MS;
}

/* With a stream it goes on, or comes back: then it leaves. */
static bool overdue(const struct proposal *p)
{
	return p->pace_until <= engine_now_ms() && !p->st;
}

static void tick(struct timer *t)
{
	unsigned int waits = 0;

	list_each(n, nxt, &waiting)
		waits++;
	list_each(n, nxt, list_bucket(&promised)) {
		struct proposal *p = list_entry(n, struct proposal, pace);

		if (waits && overdue(p)) {
			waits--;
			match_lapsed(p);
		}
	}
	pace_look();
	if (!list_empty(&waiting))
		timer_start(t, PACE_MS, tick);
}

static void hand_out(struct work *w)
{
	while (!list_empty(list_bucket(&waiting)) && stream_unpaced_room()) {
		struct proposal *p = list_entry(waiting.next, struct proposal, pace);

		list_del(&p->pace);
		promise(p);
		match_promised(p);
	}
}

void pace_look(void)
{
	work_queue(&work, hand_out);
}

bool pace_take(struct proposal *p)
{
	if (p->gain == IW_GAIN_YES || p->local || p->pacing == PACE_PROMISED || p->state == PROPOSAL_DONE)
		return true;
	if (p->pacing == PACE_WAITS)
		return false;
	if (p->gain == IW_GAIN_PACED && list_empty(list_bucket(&waiting)) && stream_unpaced_room()) {
		promise(p);
		return true;
	}
	list_add_tail(list_bucket(p->gain == IW_GAIN_PACED ? &waiting : &in_vain), &p->pace);
	p->pacing = PACE_WAITS;
	if (p->gain == IW_GAIN_PACED && !timer.due)
		timer_start(&timer, PACE_MS, tick);
	return false;
}

void pace_leave(struct proposal *p)
{
	if (p->pacing == PACE_NONE)
		return;
	list_del(&p->pace);
	if (p->pacing == PACE_PROMISED) {
		stream_promise_unpaced(false);
		pace_look();
	}
	p->pacing = PACE_NONE;
}
