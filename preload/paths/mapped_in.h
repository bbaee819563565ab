/* SPDX-License-Identifier: MIT */
/* What the TCP socket of a mapped stream has: octets are read into its map, and parsed there. Under the lock; nothing here waits. */
#ifndef IW_PRELOAD_PATHS_MAPPED_IN_H
#define IW_PRELOAD_PATHS_MAPPED_IN_H

#include <time.h>

#include "preload/paths/mapped_call.h"

#pragma GCC visibility push(hidden)

/* n octets came, or -errno; later: they may be left as they are, until a reader wants them. */
void iw_mapped_came(struct iw_stream *s, long n, bool later);
/* All that there is, so that the kernel says when there is more. false: nothing. */
bool iw_mapped_take_all(struct iw_stream *s);
/* Some, if there are none that are unread. true: there may be more, which need not come into the map before they are wanted. */
bool iw_mapped_take_some(struct iw_stream *s);
/* As much as there is room for. false: nothing now. */
bool iw_mapped_fill(struct iw_stream *s);
/* T's own end, which follows that of the stream, has come: that is to be told whatever is unread. */
bool iw_mapped_tcp_ends(struct iw_stream *s);

/* For a reader that takes it at once: what it wants, *most, so that much of it is in the processor's cache. */
uint8_t *iw_mapped_place(const struct iw_mapped_call *c, size_t *most);
/* As iw_mapped_fill(), into the caller's memory where that is good. */
bool iw_mapped_fill_for(struct iw_mapped_call *c);

/* Of the kernel's: some milliseconds. */
static inline uint32_t iw_mapped_tick(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint32_t)(t.tv_sec + t.tv_nsec);
}

#pragma GCC visibility pop

#endif
