/* SPDX-License-Identifier: MIT */
/* Marks on a few of many: set, taken back and looked for by any thread, without a lock. */
#ifndef IW_PRELOAD_MARKS_H
#define IW_PRELOAD_MARKS_H

#include <stdatomic.h>
#include <stdint.h>

#define IW_MARKS	(64u * 4096u)

struct iw_marks {
	_Atomic uint64_t low[4096], mid[64], top;	/* the marks, and which words have any */
};

static inline void iw_mark(struct iw_marks *m, uint32_t i)
{
	uint64_t bit = 1ull << i % 64;

	if (atomic_load(&m->low[i / 64]) & bit)
		return;
	atomic_fetch_or(&m->low[i / 64], bit);
	atomic_fetch_or(&m->mid[i / 4096], 1ull << i / 64 % 64);
	atomic_fetch_or(&m->top, 1ull << i / 4096);
}

static inline void iw_unmark(struct iw_marks *m, uint32_t i)
{
	atomic_fetch_and(&m->low[i / 64], ~(1ull << i % 64));
	if (atomic_load(&m->low[i / 64]))
		return;
	atomic_fetch_and(&m->mid[i / 4096], ~(1ull << i / 64 % 64));
	if (atomic_load(&m->low[i / 64]))
		atomic_fetch_or(&m->mid[i / 4096], 1ull << i / 64 % 64);
	if (atomic_load(&m->mid[i / 4096]))
		return;
	atomic_fetch_and(&m->top, ~(1ull << i / 4096));
	if (atomic_load(&m->mid[i / 4096]))
		atomic_fetch_or(&m->top, 1ull << i / 4096);
}

/* The first one from i on, or UINT32_MAX. */
static inline uint32_t iw_marked(struct iw_marks *m, uint32_t i)
{
	for (; i < IW_MARKS; i = (i | 63) + 1) {
		uint64_t w;

		if (!(atomic_load(&m->top) >> i / 4096))
			return UINT32_MAX;
		if (!(atomic_load(&m->mid[i / 4096]) >> i / 64 % 64)) {
			i |= 4095;
			continue;
		}
		w = atomic_load(&m->low[i / 64]) >> i % 64;
		if (w)
			return i + (uint32_t)__builtin_ctzll(w);
	}
	return UINT32_MAX;
}

#endif
