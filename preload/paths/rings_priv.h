/* SPDX-License-Identifier: MIT */
/* A call of the application on the rings of a joined pair, as the files of that path share it. The state of a stream is iw_stream.ring. */
#ifndef IW_PRELOAD_PATHS_RINGS_PRIV_H
#define IW_PRELOAD_PATHS_RINGS_PRIV_H

#include <sys/socket.h>

#include "preload/paths/mapped_call.h"
#include "preload/paths/rings.h"

#pragma GCC visibility push(hidden)

#define IW_RINGS_SMALL	4096u	/* octets at a time */
#define IW_RINGS_PIECE	16384u	/* copied at a time, so that the other end can go on with it */

/* While it is given up nothing is taken from it, nor from the carrier: that is waited for. */
void iw_rings_lock(struct iw_mapped_call *c);
/* The begin of a call, locked. false: it is on this path no more, and not locked. */
bool iw_rings_enter(struct iw_mapped_call *c);
/* Once more, after it was left: also false when the stream is another one by now, or has been on another path meanwhile. */
bool iw_rings_again(struct iw_mapped_call *c);
/* Where this end runs, and where the other one was last seen: before octets are sent or waited for. */
void iw_rings_met(struct iw_stream *s);
/* Tells those who wait of what is new. */
void iw_rings_leave(struct iw_mapped_call *c);

/* Locked: octets in the ring that can be read; 0 where the other side wrote nonsense: what is in the carrier is all there is then. */
size_t iw_rings_left(struct iw_stream *s);
/* The same, and the ring takes no more: what comes then comes by the carrier, and the kernel tells of it. */
size_t iw_rings_close(struct iw_stream *s);
/* They may come by the ring from now on, if nothing is against it. */
void iw_rings_offer(struct iw_stream *s);
/*
 * Before a sleep, the ring being shut and empty: what wakes may be followed by octets in the ring, where it is worth it and nothing is against it. calls: in
 * a call that receives, else in one that can be told of what comes. false: no.
 */
bool iw_rings_arm(struct iw_stream *s, bool calls);
/* The ring is shut: what the carrier has comes into it. Octets, 0: its end, or nothing would fit, or -errno. */
long iw_rings_pull(struct iw_stream *s);
/*
 * Locked, between two calls: is it worth it? Where nearly all that comes comes by the carrier, since who receives sleeps by then, rings are nothing but calls
 * beside those of the carrier. true: not for now, and it is to be given up (iw_map_give()); tried again after some calls.
 */
bool iw_rings_wasted(struct iw_stream *s);
/* So many octets, or -errno, came by the carrier. Of many at a time that says nothing: they fill whatever takes them. */
static inline void iw_rings_missed(struct iw_stream *s, ssize_t n)
{
	s->ring.missed += n > 0 && n < (ssize_t)IW_RINGS_SMALL;
}
/* The carrier has come to its end. */
void iw_rings_ended(struct iw_stream *s);

/* have octets of the ring, or as many as are wanted. 0, EFAULT. */
int iw_rings_take(struct iw_mapped_call *c, size_t have);

ssize_t iw_rings_tx(struct iw_stream *s, int fd, struct iw_io *io, int flags);
ssize_t iw_rings_tx_from(struct iw_stream *s, const struct iw_move *v);
ssize_t iw_rings_rx(struct iw_stream *s, int fd, struct iw_io *io, int flags);

#pragma GCC visibility pop

#endif
