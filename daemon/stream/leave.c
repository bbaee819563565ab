// SPDX-License-Identifier: MIT
/*
 * The daemon ends in order: streams between hosts that it pumps are the next one's. Each comes to rest, whatever is under way, with all of its state in its
 * area and its segment, which lie in the service manager's store with T and the carrier then (keep.c). So do those that it relays.
 */
#include "leave.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/notify.h"
#include "carrier_pump.h"
#include "keep.h"
#include "map_priv.h"
#include "relay.h"
#include "remote.h"
#include "remote_mem.h"
#include "table.h"
#include "upgrade.h"

static void halted(void *ctx)
{
	struct stream *st = ctx;

	if (st->map && st->map->stage == MAP_LEAVES)
		st->map->halted = true;
}

/* What the relay had in hand at the upgrade goes first. */
static bool can(const struct stream *st)
{
	const struct iw_remote *f;

	if (st->state != STREAM_RUNNING || !st->remote || !st->remote->ep || st->relay || st->app_closed || st->d_drop)
		return false;
	f = st->remote->f;
	return !f->aborted && !f->reset_err && !f->ev_abort && !f->ev_done && !f->rs.dead;
}

static void begin(struct stream *st)
{
	if (!stream_map_cancel(st))
		return;
	if (st->map)
		map_go_on(st);
	if (!can(st) || endpoint_halt(st->remote->ep, halted))
		return;
	st->map = calloc(1, sizeof(*st->map));
	if (!st->map) {
		endpoint_resume(st->remote->ep);
		return;
	}
	*st->map = (struct stream_map){ .st = st, .stage = MAP_LEAVES, .owner = -1 };
	map_stop(st);
	timer_stop(&st->remote->ack);
	st->on_hup = NULL;	/* the next one hears of it */
	engine_cancel(&st->d_rx);
	engine_cancel(&st->d_tx);
}

static void look(struct stream *st)
{
	if (!can(st)) {
		map_go_on(st);
		map_start(st);
	} else if (st->map->halted && !st->d_rx.busy && !st->d_tx.busy && !keep_pumped(st)) {
		st->map->stage = MAP_LEFT;
	}
}

/* One that is being upgraded, joined or given back is over with that soon. */
static bool can_relayed(const struct stream *st)
{
	const struct stream_relay *r = st->relay;

	return st->state == STREAM_RELAY && !st->app_closed && !st->join && !st->back && !upgrade_open(st) && !r->lost && !r->resets && !r->over;
}

static void relayed(struct stream *st)
{
	if (st->relay->halts && !can_relayed(st)) {
		relay_resume(st, 0);
	} else if (can_relayed(st) && !st->relay->halts) {
		upgrade_over(st);
		relay_halt(st);
	} else if (st->relay->halts && relay_halted(st)) {
		st->relay->left_on = !keep_relayed(st);
	}
}

void leave_not(struct stream *st)
{
	if (st->map && st->map->stage == MAP_LEAVES) {
		map_go_on(st);
		map_start(st);
	} else if (st->relay && st->relay->halts) {
		relay_resume(st, 0);
	}
}

bool leave_left(const struct stream *st)
{
	return (st->map && st->map->stage == MAP_LEFT) || (st->relay && st->relay->left_on);
}

unsigned int streams_hand_on(void)
{
	unsigned int wait = 0;

	for (struct stream *st = table_next(NULL), *next; st; st = next) {
		next = table_next(st);
		if (st->keep_slot || map_taken(st) || leave_left(st) || !notify_keeps())
			continue;
		if (st->map && st->map->stage == MAP_LEAVES)
			look(st);
		else if (st->state == STREAM_RUNNING)
			begin(st);
		else if (st->state == STREAM_RELAY)
			relayed(st);
		wait += !leave_left(st) && (st->state == STREAM_STARTING || st->state == STREAM_RUNNING || st->state == STREAM_RELAY || st->state == STREAM_CLOSING);
	}
	return wait;
}

/* ---- the next daemon ---- */

int leave_revive(struct stream *st, const uint64_t exposed[IW_RS_SA])
{
	int ret = remote_expose_again(st, exposed);

	if (ret)
		return ret;
	st->map = calloc(1, sizeof(*st->map));
	if (!st->map)
		return -ENOMEM;
	*st->map = (struct stream_map){ .st = st, .stage = MAP_LEFT, .owner = -1 };
	return 0;
}

void leave_revived(struct stream *st)
{
	map_go_on(st);
	map_start(st);
}
