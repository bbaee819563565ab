// SPDX-License-Identifier: MIT
/*
 * Places. An upgrade is dear for the daemon, and while it lasts each octet goes through it: with more at a time than it can deal with soon, all of
 * them are slow, and time out. No place is kept for longer than PLACE_MS, whatever becomes of who has it, so nobody waits for one for good.
 */
#include "place.h"

#include "daemon/base/conf.h"
#include "daemon/rnic/prm.h"
#include "match.h"

static struct list held, users;		/* who has one, the oldest first; users with proposals that wait */
static unsigned int nheld;
static struct timer oldest;
static struct work work;

/* ---- who has one ---- */

static void hand_out(struct work *w);

static void drop(struct proposal *p)
{
	list_del(&p->place);
	p->placed = PLACE_NONE;
	nheld--;
	if (!list_empty(list_bucket(&users)))
		work_queue(&work, hand_out);
}

static void overdue(struct timer *t)
{
	while (!list_empty(&held)) {
		struct proposal *p = list_entry(held.next, struct proposal, place);

		if (p->place_until > engine_now_ms()) {
			timer_start(t, (unsigned int)(p->place_until - engine_now_ms()), overdue);
			return;
		}
		drop(p);
	}
}

static void hold(struct proposal *p)
{
	list_add_tail(list_bucket(&held), &p->place);
	p->placed = PLACE_HELD;
	p->place_until = engine_now_ms() + PLACE_MS;
	nheld++;
	if (!oldest.node)
		timer_start(&oldest, PLACE_MS, overdue);
}

/* ---- who waits ---- */

static void unwait(struct proposal *p)
{
	struct prm_user *u = prm_user_get(p->uid);

	list_del(&p->place);
	p->placed = PLACE_NONE;
	if (list_empty(&u->waiting))
		list_del(&u->turns);
}

static void wait(struct prm_user *u, struct proposal *p, bool first)
{
	if (list_empty(list_bucket(&u->waiting)))
		list_add_tail(list_bucket(&users), list_bucket(&u->turns));
	list_add_tail(first ? u->waiting.next : &u->waiting, &p->place);
	p->placed = PLACE_WAITS;
}

static void hand_out(struct work *w)
{
	while (nheld < PLACES && !list_empty(&users)) {
		struct prm_user *u = list_entry(users.next, struct prm_user, turns);
		struct proposal *p = list_entry(u->waiting.next, struct proposal, place);

		list_del(&u->turns);
		list_add_tail(&users, &u->turns);
		unwait(p);
		hold(p);
		match_turn(p);
	}
}

bool place_take(struct proposal *p, bool first)
{
	bool room = first ? nheld < PLACES_MOST : nheld < PLACES && list_empty(list_bucket(&users));
	struct prm_user *u = prm_user_get(p->uid);

	if (p->placed == PLACE_HELD || !u || conf.go_at_once)
		return true;
	if (p->placed == PLACE_WAITS && !first)
		return false;
	if (p->placed == PLACE_WAITS)
		unwait(p);
	if (room)
		hold(p);
	else
		wait(u, p, first);
	return room;
}

void place_leave(struct proposal *p)
{
	if (p->placed == PLACE_HELD)
		drop(p);
	else if (p->placed == PLACE_WAITS)
		unwait(p);
}
