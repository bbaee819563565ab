/* SPDX-License-Identifier: MIT */
/*
 * The map of a stream between two hosts (proto/map.h) in the library: taken when nobody else can have the stream, given back before anybody
 * else may, and before its direction ends: what comes then the daemon does. Meanwhile the library works the TCP socket itself, under a
 * hidden number (paths/mapped_call.h).
 */
#ifndef IW_PRELOAD_MAP_H
#define IW_PRELOAD_MAP_H

#include "conf.h"
#include "stream.h"

#pragma GCC visibility push(hidden)

/* The daemon would give it: asks when it may be taken, in the call's turn on fd. Keeps errno. */
void iw_map_take(int fd, struct iw_stream *s);
/* A pair of this host may go by rings: the same, and nobody is asked. true: it does. One that is relayed at this end is to be direct first. Keeps errno. */
bool iw_map_rings(int fd, struct iw_stream *s);
/* This end is. */
static inline bool iw_map_relayed(struct iw_stream *s)
{
	return atomic_load_explicit(&iw_stream_end(s)->relay, memory_order_relaxed) == IW_RELAY_ON;
}

/* Nobody relays it but for this end. */
static inline bool iw_map_ringable(struct iw_stream *s)
{
	uint32_t mine = atomic_load_explicit(&iw_stream_end(s)->relay, memory_order_relaxed);

	return mine == IW_RELAY_ON || (mine == IW_RELAY_NONE && atomic_load_explicit(&iw_stream_other(s)->relay, memory_order_relaxed) == IW_RELAY_NONE);
}

/* It is time to ask. */
static inline bool iw_map_wants_rings(struct iw_stream *s)
{
	uint32_t rest = atomic_load_explicit(&s->map_rest, memory_order_relaxed);

	if (!atomic_load_explicit(&iw_conf_rings, memory_order_relaxed) || !iw_stream_local(s) || !iw_map_ringable(s) || atomic_load_explicit(&s->mapped, memory_order_relaxed) ||
	    atomic_load_explicit(&s->ring_over, memory_order_relaxed))
		return false;
	if (rest)
		atomic_store_explicit(&s->map_rest, rest - 1, memory_order_relaxed);
	return !rest;
}
/*
 * Gives it back, if it is mapped: what there is goes by the carrier from now on. Waits for the own daemon. In a turn on fd, or with nobody
 * else using the number; not under iw_tab_lock. Keeps errno.
 */
void iw_map_give(int fd, struct iw_stream *s);
/* The same, to somebody who may not have the library: all that is unread is in the file then. */
void iw_map_hand(int fd, struct iw_stream *s);
/* Another thread is giving it back: until it has. */
void iw_map_held(struct iw_stream *s);
/* Locked: what was left of a ring was read, or nobody has it any more. */
void iw_map_rest_over(struct iw_stream *s);
/* The same, and shut for writing before a set has the carrier: else its room would be an edge of its own. false: it was not mapped, or stays so. */
bool iw_map_shut(int fd, struct iw_stream *s);
/* As much of what it left behind as nobody sleeps on any more is closed. */
void iw_map_sweep(struct iw_stream *s);
/* to is another number of it, a duplicate of from. While that was made, another thread may have put another carrier in the place of its file. */
void iw_map_duplicated(int from, int to, struct iw_stream *s);
/* The last descriptor is about to be closed. */
void iw_map_close(int fd, struct iw_stream *s);
/* The program's time-outs, which are the carrier's, are the TCP socket's too. */
void iw_map_timeouts(int fd, struct iw_stream *s);
/* And its TCP_NODELAY and TCP_CORK were changed. */
void iw_map_gather(struct iw_stream *s);

/* All of this process that others are about to have: but for those that are close-on-exec, if not all. */
void iw_maps_give(bool all);
bool iw_maps_some(void);		/* is there one at all? No lock */
bool iw_maps_any(bool all);		/* Under iw_tab_lock there will be no other */
/* What a child of fork finds mapped is its parent's alone: for the child it is a reset. */
void iw_maps_forked_child(void);
/* The process ends: those whose end nobody else would say. */
void iw_maps_exit(void);
/* fd is the hidden number of one; and has to go elsewhere: see iw_internal_make_way(). */
bool iw_map_owns(int fd);
void iw_map_make_way(int fd);

/* A step that does not wait, under a lock: of a map, or iw_tab_lock. No handler comes in it. */
struct iw_step {
	bool blocked;		/* signals, which were sigs */
	uint64_t sigs;
};
void iw_step_begin(struct iw_lock *l, struct iw_step *st);
void iw_step_end(struct iw_lock *l, const struct iw_step *st);
void iw_step_block(struct iw_step *st);		/* they are, from now on: who will let them in somewhere within */

/* ---- for paths/mapped_*.c ---- */

void iw_map_lock(struct iw_stream *s, struct iw_step *st);
void iw_map_unlock(struct iw_stream *s, const struct iw_step *st);
/* Locked, and nobody is giving it up: what is set of its file is not set of one that is about to be replaced. */
static inline void iw_map_lock_still(struct iw_stream *s, struct iw_step *st)
{
	for (;;) {
		iw_map_lock(s, st);
		if (__builtin_expect(!atomic_load_explicit(&s->held, memory_order_relaxed), 1))
			return;
		iw_map_unlock(s, st);
		iw_map_held(s);
	}
}
/* What n octets take of T's send buffer (map_room), at most: with what its kernel keeps for each segment. */
#define IW_MAP_LAST	4096u
static inline uint32_t iw_map_takes(size_t n)
{
	return (uint32_t)(n + n / 4) + IW_MAP_LAST;
}
/* Under the lock: frames what is due, and gives TCP what it takes. true: nothing is left. */
bool iw_map_flush(struct iw_stream *s);
/* The same of octets that the program has written: TCP gathers them as it would its own; more: MSG_MORE, TCP_CORK. */
bool iw_map_flush_data(struct iw_stream *s, bool more);
/* Somebody's call on it will sleep, before his last look; and is over. */
void iw_map_inside(struct iw_stream *s);
void iw_map_outside(struct iw_stream *s);
/* What such a call goes on with when it is mapped no more: fd, or, if that was closed meanwhile, the carrier by another number. */
int iw_map_fd(struct iw_stream *s, int fd);

#pragma GCC visibility pop
#endif
