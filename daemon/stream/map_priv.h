/* SPDX-License-Identifier: MIT */
/* The map of a stream, as those see it who give it (map.c), take over what it becomes (agent.c) and look at its bursts (burst.c). */
#ifndef IWARPD_STREAM_MAP_PRIV_H
#define IWARPD_STREAM_MAP_PRIV_H

#include <time.h>

#include "proto/map.h"
#include "daemon/base/engine.h"
#include "daemon/rnic/area.h"
#include "map.h"
#include "stream_priv.h"

#define MAP_PAUSE_MIN_MS	1000u	/* before it may be asked for again */

enum map_stage {
	MAP_KEEPS,	/* an attempt failed: see KEEP_MS */
	MAP_DRIES,	/* nothing is given; what is in the carrier is taken */
	MAP_RESTS,	/* nor that; the endpoint comes to rest */
	MAP_LEAVES,	/* this daemon ends: as RESTS, whatever is under way; see leave.c */
	MAP_LEFT,	/* it is the next one's */
	MAP_OFFERED,
	MAP_TAKEN,
};

struct stream_map {
	struct stream *st;
	enum map_stage stage;
	uint64_t until;
	struct timer tick, lean;
	struct area *area;		/* the map, from OFFERED on */
	int owner;			/* pidfd of who asked for it, from OFFERED on the owner; -1: none */
	uint64_t since;			/* ms, when it was taken */
	uint64_t tx_pos, rx_pos;	/* of the ring stream then */
	struct stream_counts from, told;	/* of the application: where its counts began, and what was counted since (count.c) */
	uint64_t wire_from, wire;	/* octets on T by then; the most that can have been carried since */
	bool counts;			/* from and told hold */
	uint64_t word;			/* of the map, as the last look at a burst found it */
	unsigned int same;		/* looks that found the same */
	bool halted;			/* LEAVES: nothing is under way at the endpoint */
	clockid_t clock;		/* processor time of the owner; 0: not asked for yet */
	uint64_t ran;			/* what it said at the last look */
	uint64_t seen, seen_ms;		/* octets, when somebody looked last; when they had changed */
	void (*done)(void *arg, int ret, const struct stream_mapping *m);
	void *arg;
};

static inline struct iw_map *map_of(const struct stream *st)
{
	return (struct iw_map *)st->map->area->mem;
}

/* The state that an import writes. */
struct iw_map_priv map_priv_of(const struct stream *st);
/* It may be asked for after *pause ms, or min: each time later, if it was soon over. */
void map_want_after(struct stream *st, unsigned int *pause, unsigned int min);
void map_want_not(struct stream *st);
/* The map is no more: the pump and the endpoint go on. */
void map_go_on(struct stream *st);
/* map = restless: how long it lasts. Each run the same. */
unsigned int map_chance_ms(void);

#endif
