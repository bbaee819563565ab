/* SPDX-License-Identifier: MIT */
/*
 * One direction of a pair on one host: a ring in front of the carrier, without I/O. docs/rings.md has the rules, tests/ring.pml the model.
 *
 * The ring is shut, offered, armed or open. The consumer offers or arms it, the producer opens it, either may shut it at any time, and no one waits
 * for the other. Octets are in order because the producer opens it only when everything before was read, or, if the consumer has said that it sleeps
 * with nothing unread, behind the octets that wake it; and the consumer reads the carrier only while it is shut and empty, or to put these octets where
 * they belong. Each end has a lock for all calls of its own process.
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
	_Atomic uint32_t behind;		/* by the producer: octets that are in the carrier, and in the ring would be the first */
	_Atomic uint64_t since;			/* by the producer: when it sent the first of what is unread, about; CLOCK_MONOTONIC ns */
	_Alignas(64) _Atomic uint64_t tail;	/* by the consumer: of the next to be read */
};
static_assert(sizeof(struct iw_ring_dir) == 128, "iw_ring_dir");

#define IW_RING_OPEN	1u	/* octets go into the ring */
#define IW_RING_OFFERED	2u	/* the consumer looks into the ring before it sleeps, and not into the carrier */
#define IW_RING_ARMED	4u	/* shut; the consumer sleeps, or is about to, and has read everything */
#define IW_RING_BEHIND	8u	/* it was armed, and opened: dir.behind holds */
#define IW_RING_SHIFT	4

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
/*
 * Octets that go into the carrier wake the consumer, if it is armed, and others may follow them in the ring. before and after: the words as they were
 * before such a call, and as they are behind it; no other call was in the carrier meanwhile. first: the carrier was empty before.
 */
static inline uint64_t iw_ring_word(const struct iw_ring *r)
{
	return atomic_load(&r->dir->head);
}
/* Are these octets all that the carrier has, if it has any? No: false. */
bool iw_ring_woken(const struct iw_ring *r, uint64_t before, uint64_t after, bool first);
/* They are len octets, and still there: what follows goes into the ring. */
bool iw_ring_follow(struct iw_ring *r, uint64_t after, uint32_t len);
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

/*
 * It is offered and empty, by that word of it (iw_ring_word): so is what the carrier has now, if the word is still the same behind a look at it. So many octets, and no
 * more, may be read there without shutting it: they come before all that it will have.
 */
bool iw_ring_waits(const struct iw_ring *r, uint64_t word);
/* Octets in the ring, or -EPROTO: the other side has written nonsense. */
ssize_t iw_ring_left(const struct iw_ring *r);
/* Copies len of them, of those that are there, to v[] from skip on, without what lies before them (`ahead`); they stay. */
void iw_ring_peek(const struct iw_ring *r, const struct iovec *v, size_t skip, size_t ahead, size_t len);
void iw_ring_consumed(struct iw_ring *r, size_t len);
/* While it is shut and empty: whoever has this stream looks from now on, and nobody of this process sleeps for it. */
void iw_ring_offer(struct iw_ring *r);
/*
 * While it is shut and empty, before a sleep: what wakes may be followed by octets in the ring. First its position becomes one that it never had (at); then,
 * if the carrier is empty behind that, it is armed: nothing is read from then on, of ring and carrier, before iw_ring_disarm().
 */
bool iw_ring_move(struct iw_ring *r, uint64_t at);
bool iw_ring_arm(struct iw_ring *r);
/* Returns how many octets the carrier has, of those in the ring the first ones: they are received to *mem, and iw_ring_filled() is told how many came. */
size_t iw_ring_disarm(struct iw_ring *r, uint8_t **mem);
/* What is missing of them somebody has read behind the library's back. */
void iw_ring_filled(struct iw_ring *r, size_t behind, size_t len);
/*
 * While it is shut, and nobody of this process sleeps for it, what is free of the ring is the caller's: *len octets of it in one piece, behind those
 * that are there. len that he received there from the carrier are in the ring from then on, as if the producer had put them there.
 */
uint8_t *iw_ring_free(const struct iw_ring *r, size_t *len);
void iw_ring_staged(struct iw_ring *r, size_t len);
/* Before anything is left to the kernel. Returns what iw_ring_left() does, which does not grow any more. */
ssize_t iw_ring_shut(struct iw_ring *r);

#endif
