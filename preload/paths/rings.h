/* SPDX-License-Identifier: MIT */
/*
 * The path of a joined pair that nobody else has: octets go through rings in the segment (proto/ring.h, docs/rings.md) while both ends are awake,
 * and through the carrier else. Its stream is mapped (map.h), a duplicate of the carrier being the socket.
 */
#ifndef IW_PRELOAD_PATHS_RINGS_H
#define IW_PRELOAD_PATHS_RINGS_H

#include "preload/marks.h"
#include "preload/path.h"

#pragma GCC visibility push(hidden)

extern const struct iw_path_ops iw_rings;
/* What was left in a ring, and behind it the carrier, which can be read until then: readiness is the kernel's (rings_rest.c). */
extern const struct iw_path_ops iw_rest;

static inline bool iw_ringed(struct iw_stream *s)
{
	return iw_path(s) == &iw_rings;
}

/* Before it is put on this path; full: the carrier has no room. false: there is no memory for it. */
bool iw_rings_begin(struct iw_stream *s, int fd, bool full);
/* Locked: the rings are shut for good. Returns the octets that are left to be read. */
size_t iw_rings_end(struct iw_stream *s);
/*
 * It is to be given up, by the caller alone, whoever else wants to; away: to somebody who may not have the library. false: it is not on this path. Until it was
 * nobody takes any of what is left (iw_stream.held); rest: nobody would know of that.
 */
bool iw_rings_hold(struct iw_stream *s, bool away, uint32_t *epoch, bool *rest);
bool iw_rings_hold_rest(struct iw_stream *s);	/* the same of what is left already */
/* The carrier can be read until what is left was. */
bool iw_rings_behind(int carrier);
/* Locked: and out of memory. */
void iw_rings_unmap(struct iw_stream *s);
/* Nobody has the stream any more. */
void iw_rings_gone(struct iw_stream *s);

/* Those that are not shut, by slot. */
extern struct iw_marks iw_rings_open;

static inline bool iw_rings_any(void)
{
	return atomic_load_explicit(&iw_rings_open.top, memory_order_relaxed);
}

/* What is in the rings of those in a set is known from now on; sleeps: and the kernel tells of what comes. true: there is something in one. */
bool iw_rings_look(uint32_t set, bool sleeps);
/* The same of one. */
void iw_rings_look_at(struct iw_stream *s, bool sleeps);
/* It was put into a set in which others may sleep: from now on the kernel tells of it. Under iw_tab_lock. */
void iw_rings_shut(struct iw_stream *s);
/* It receives by the carrier from now on, behind what is in the ring, since the kernel is to tell of all. false: it is not on this path. */
bool iw_rings_still(struct iw_stream *s);

#pragma GCC visibility pop

#endif
