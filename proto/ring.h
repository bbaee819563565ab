/* SPDX-License-Identifier: MIT */
/*
 * One direction of a pair on one host: a ring in front of the carrier, without I/O. docs/rings.md has the rules, tests/ring.pml the model.
 *
 * The ring is shut, offered or open. The consumer offers it, the producer opens it, either may shut it at any time, and no one waits for the
 * other. Octets are in order because the producer opens it only when everything before was read, and the consumer reads the carrier only while it
 * is shut and empty. Each end has a lock for all calls of its own process.
 */
#ifndef IW_PROTO_RING_H
#define IW_PROTO_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Shared, zero at first. Either side may write anything there: it harms this pair only. */
struct iw_ring_dir {
	_Alignas(64) _Atomic uint64_t head;	/* IW_RING_*, and above them the position of the next octet to be put */
	_Alignas(64) _Atomic uint64_t tail;	/* by the consumer: of the next to be read */
};
static_assert(sizeof(struct iw_ring_dir) == 128, "iw_ring_dir");

#define IW_RING_OPEN	1u	/* octets go into the ring */
#define IW_RING_OFFERED	2u	/* the consumer looks into the ring before it sleeps, and not into the carrier */
#define IW_RING_SHIFT	2

/* What one end knows of it. */
struct iw_ring {
	struct iw_ring_dir *dir;
	uint8_t *mem;
	uint64_t len;		/* octets, a power of two */
	uint64_t pos;		/* its own position, which it does not read back */
	uint64_t seen;		/* by the producer: how far the consumer was, when it was last asked */
};

/* ---- the producer ---- */

/* Octets go into the ring, or, with `open`, would if iw_ring_open() were called. */
static inline bool iw_ring_takes(const struct iw_ring *r, bool open)
{
	return atomic_load_explicit(&r->dir->head, memory_order_relaxed) & (open ? IW_RING_OFFERED : IW_RING_OPEN);
}

/* Only when no octet of this direction is in the carrier, and no call of this process is about to put one there. false: it is not offered. */
bool iw_ring_open(struct iw_ring *r);
/* Puts octets of v[], from skip on. Returns how many of len it took: 0 when it is full, or was shut. */
size_t iw_ring_put(struct iw_ring *r, const struct iovec *v, size_t skip, size_t len);
/* Before octets go into the carrier: the ring takes none any more, else later ones would be before them. */
void iw_ring_leave(struct iw_ring *r);

/* All that was put was read, as the consumer says. */
bool iw_ring_taken(const struct iw_ring *r);

/* ---- the consumer ---- */

/* It begins where the producer is, with the ring shut and nothing in it: whoever had it before has taken all. */
void iw_ring_begin(struct iw_ring *r);

/* The carrier may be read, and slept on, if nothing is in the ring either. */
static inline bool iw_ring_is_shut(const struct iw_ring *r)
{
	return !(atomic_load_explicit(&r->dir->head, memory_order_relaxed) & (IW_RING_OPEN | IW_RING_OFFERED));
}

/* Octets in the ring, or -EPROTO: the other side has written nonsense. */
ssize_t iw_ring_left(const struct iw_ring *r);
/* Copies len of them, of those that are there, to v[] from skip on, without what lies before them (`ahead`); they stay. */
void iw_ring_peek(const struct iw_ring *r, const struct iovec *v, size_t skip, size_t ahead, size_t len);
void iw_ring_consumed(struct iw_ring *r, size_t len);
/* While it is shut and empty: whoever has this stream looks from now on, and nobody of this process sleeps for it. */
void iw_ring_offer(struct iw_ring *r);
/*
 * While it is shut, and nobody of this process sleeps for it, what is free of the ring is the caller's: *len octets of it in one piece, behind those
 * that are there. len that he received there from the carrier are in the ring from then on, as if the producer had put them there.
 */
uint8_t *iw_ring_free(const struct iw_ring *r, size_t *len);
void iw_ring_staged(struct iw_ring *r, size_t len);
/* Before anything is left to the kernel. Returns what iw_ring_left() does, which does not grow any more. */
ssize_t iw_ring_shut(struct iw_ring *r);

#endif
