/* SPDX-License-Identifier: MIT */
/* Bursts: small sends, at once and without an answer between them, are gathered in the map of their stream, and framed together. */
#ifndef IW_PRELOAD_PATHS_BURST_H
#define IW_PRELOAD_PATHS_BURST_H

#include <stdatomic.h>

#include "preload/lib.h"
#include "preload/path.h"

#pragma GCC visibility push(hidden)

#define IW_BURST_MOST	16384u	/* octets of a send that is gathered */

/* A send of a stream in a burst (iw_stream.burst). true: all of it is gathered; false: nothing, and it is to be sent otherwise. */
bool iw_burst_tx(struct iw_stream *s, int fd, struct iw_io *io, int flags);
/* A small send was sent. Under the lock of its map, as the next two. */
void iw_burst_count(struct iw_stream *s);
/* Something else was done. */
void iw_burst_end(struct iw_stream *s);
/* The daemon has taken it. */
void iw_burst_lost(struct iw_stream *s);

extern _Atomic uint64_t iw_bursts;	/* streams that may have gathered something: their places */
void iw_bursts_send(const struct iw_stream *but);

/* This call may wait, or somebody else is to see what was sent: nothing stays gathered. Keeps errno. */
static inline __attribute__((always_inline)) void iw_burst_wait(void)
{
	if (iw_unlikely(atomic_load_explicit(&iw_bursts, memory_order_relaxed)))
		iw_bursts_send(NULL);
}

/* The same of a call that sends on fd, which goes on gathering there if it did. */
static inline __attribute__((always_inline)) void iw_burst_wait_tx(int fd)
{
	struct iw_stream *s;

	if (iw_likely(!atomic_load_explicit(&iw_bursts, memory_order_relaxed)))
		return;
	s = iw_stream_of(fd);
	if (!s || !s->burst)
		iw_bursts_send(NULL);
}

#pragma GCC visibility pop
#endif
