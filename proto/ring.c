// SPDX-License-Identifier: MIT
/* One direction of a pair on one host: a ring in front of the carrier. */
#include "ring.h"

#include <errno.h>
#include <string.h>

#define FLAGS	(uint64_t)(IW_RING_OPEN | IW_RING_OFFERED)
#define ALL	(((uint64_t)1 << IW_RING_SHIFT) - 1)

/* Copies between the ring, from pos on, and v[], from skip on. */
static void copy(const struct iw_ring *r, uint64_t pos, const struct iovec *v, size_t skip, size_t len, bool in)
{
	while (len) {
		size_t off = pos & (r->len - 1), n;
		uint8_t *p;

		for (; skip >= v->iov_len; v++)
			skip -= v->iov_len;
		n = v->iov_len - skip;
		p = (uint8_t *)v->iov_base + skip;
		if (n > len)
			n = len;
		if (n > r->len - off)
			n = r->len - off;
		if (in)
			memcpy(r->mem + off, p, n);
		else
			memcpy(p, r->mem + off, n);
		pos += n;
		len -= n;
		skip += n;
	}
}

bool iw_ring_open(struct iw_ring *r)
{
	uint64_t w = atomic_load(&r->dir->head);

	if (w & IW_RING_OPEN)
		return true;
	if (!(w & IW_RING_OFFERED) || atomic_load(&r->dir->tail) != w >> IW_RING_SHIFT)
		return false;
	r->pos = r->seen = w >> IW_RING_SHIFT;
	return atomic_compare_exchange_strong(&r->dir->head, &w, w | IW_RING_OPEN);
}

/* It moved, looked, and was armed since; or it had moved before, and then nothing was read. */
bool iw_ring_woken(const struct iw_ring *r, uint64_t before, uint64_t after, bool first)
{
	return (after & ALL) == IW_RING_ARMED && atomic_load(&r->dir->tail) == after >> IW_RING_SHIFT &&
	       (first || before >> IW_RING_SHIFT != after >> IW_RING_SHIFT);
}

bool iw_ring_follow(struct iw_ring *r, uint64_t after, uint32_t len)
{
	uint64_t pos = after >> IW_RING_SHIFT;

	if (!len || len >= r->len)
		return false;
	atomic_store_explicit(&r->dir->behind, len, memory_order_relaxed);
	if (!atomic_compare_exchange_strong(&r->dir->head, &after, (pos + len) << IW_RING_SHIFT | IW_RING_OPEN | IW_RING_BEHIND))
		return false;
	r->seen = pos;
	r->pos = pos + len;
	return true;
}

/* Free octets, of so many that are wanted; of a tail that makes no sense, none. */
static uint64_t room(struct iw_ring *r, size_t wanted)
{
	uint64_t used = r->pos - r->seen, seen;

	if (used <= r->len && r->len - used >= wanted)
		return wanted;
	seen = atomic_load_explicit(&r->dir->tail, memory_order_acquire);
	used = r->pos - seen;
	if (used > r->len)
		return 0;
	r->seen = seen;
	return r->len - used;
}

size_t iw_ring_put(struct iw_ring *r, const struct iovec *v, size_t skip, size_t len)
{
	uint64_t w = atomic_load_explicit(&r->dir->head, memory_order_relaxed), n = room(r, len);

	if (!(w & IW_RING_OPEN))
		return 0;
	if (n > len)
		n = len;
	if (!n)
		return 0;
	copy(r, r->pos, v, skip, n, true);
	if (!atomic_compare_exchange_strong(&r->dir->head, &w, w + (n << IW_RING_SHIFT)))
		return 0;	/* shut meanwhile */
	r->pos += n;
	return n;
}

void iw_ring_leave(struct iw_ring *r)
{
	if (iw_ring_takes(r, false))
		atomic_fetch_and(&r->dir->head, ~(uint64_t)IW_RING_OPEN);
}

bool iw_ring_taken(const struct iw_ring *r)
{
	return atomic_load(&r->dir->head) >> IW_RING_SHIFT == atomic_load(&r->dir->tail);
}

void iw_ring_begin(struct iw_ring *r)
{
	r->pos = atomic_fetch_and(&r->dir->head, ~ALL) >> IW_RING_SHIFT;
	atomic_store(&r->dir->tail, r->pos);
}

static ssize_t left(const struct iw_ring *r, uint64_t w)
{
	uint64_t n = ((w >> IW_RING_SHIFT) - r->pos) & (UINT64_MAX >> IW_RING_SHIFT);

	return n > r->len ? -EPROTO : (ssize_t)n;
}

bool iw_ring_waits(const struct iw_ring *r, uint64_t word)
{
	return (word & FLAGS) == IW_RING_OFFERED && !left(r, word);
}

ssize_t iw_ring_left(const struct iw_ring *r)
{
	return left(r, atomic_load_explicit(&r->dir->head, memory_order_acquire));
}

void iw_ring_peek(const struct iw_ring *r, const struct iovec *v, size_t skip, size_t ahead, size_t len)
{
	copy(r, r->pos + ahead, v, skip, len, false);
}

void iw_ring_consumed(struct iw_ring *r, size_t len)
{
	r->pos += len;
	atomic_store_explicit(&r->dir->tail, r->pos, memory_order_release);
}

/* It is shut and empty, so both words are the consumer's: it begins anew, on its first page, at position `at`. false: the other side wrote there. */
static bool anew(struct iw_ring *r, uint64_t at, uint64_t head)
{
	uint64_t w = atomic_load(&r->dir->head);

	if ((w & FLAGS) || w >> IW_RING_SHIFT != r->pos)
		return false;
	atomic_store(&r->dir->tail, at);
	if (atomic_compare_exchange_strong(&r->dir->head, &w, head)) {
		r->pos = at;
		return true;
	}
	atomic_store(&r->dir->tail, r->pos);
	return false;
}

void iw_ring_offer(struct iw_ring *r)
{
	anew(r, 0, IW_RING_OFFERED);
}

bool iw_ring_move(struct iw_ring *r, uint64_t at)
{
	at &= (UINT64_MAX >> IW_RING_SHIFT) & ~(r->len - 1);
	return anew(r, at, at << IW_RING_SHIFT);
}

bool iw_ring_arm(struct iw_ring *r)
{
	uint64_t w = r->pos << IW_RING_SHIFT;

	return atomic_compare_exchange_strong(&r->dir->head, &w, w | IW_RING_ARMED);
}

size_t iw_ring_disarm(struct iw_ring *r, uint8_t **mem)
{
	uint64_t w = atomic_load(&r->dir->head);
	size_t n;
	ssize_t have;

	if (!(w & IW_RING_BEHIND))
		w = atomic_fetch_and(&r->dir->head, ~(uint64_t)IW_RING_ARMED);
	if (!(w & IW_RING_BEHIND))
		return 0;
	n = atomic_load_explicit(&r->dir->behind, memory_order_relaxed);
	have = left(r, w);
	*mem = r->mem;
	return have > 0 && n <= (size_t)have && n < r->len ? n : 0;
}

void iw_ring_filled(struct iw_ring *r, size_t behind, size_t len)
{
	if (len < behind) {
		memmove(r->mem + (behind - len), r->mem, len);
		iw_ring_consumed(r, behind - len);
	}
}

uint8_t *iw_ring_free(const struct iw_ring *r, size_t *len)
{
	ssize_t n = iw_ring_left(r);
	size_t off = n > 0 ? (r->pos + (size_t)n) & (r->len - 1) : 0;

	*len = n < 0 ? 0 : r->len - (size_t)n < r->len - off ? r->len - (size_t)n : r->len - off;
	return r->mem + off;
}

void iw_ring_staged(struct iw_ring *r, size_t len)
{
	uint64_t w = atomic_load(&r->dir->head);

	if (w >> IW_RING_SHIFT != r->pos || !anew(r, 0, (uint64_t)len << IW_RING_SHIFT))
		atomic_compare_exchange_strong(&r->dir->head, &w, w + ((uint64_t)len << IW_RING_SHIFT));
}

ssize_t iw_ring_shut(struct iw_ring *r)
{
	return left(r, atomic_fetch_and(&r->dir->head, ~FLAGS));
}
