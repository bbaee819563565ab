/* SPDX-License-Identifier: MIT */
/* Time: the clock, and deadlines of a wait that is taken up again. */
#ifndef IW_PRELOAD_DEADLINE_H
#define IW_PRELOAD_DEADLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct iw_deadline {
	int64_t end;	/* CLOCK_MONOTONIC ns; < 0: none */
};

static inline int64_t iw_mono_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static inline uint64_t iw_now_ms(void)
{
	return (uint64_t)iw_mono_ns() / 1000000;
}

static inline void iw_deadline_ns(struct iw_deadline *d, int64_t ns)
{
	int64_t now = ns > 0 ? iw_mono_ns() : 0;

	d->end = ns > INT64_MAX - now ? INT64_MAX : now + ns;
}

static inline void iw_deadline_ms(struct iw_deadline *d, int ms)
{
	if (ms < 0)
		d->end = -1;
	else
		iw_deadline_ns(d, ms * 1000000LL);
}

/* false: not a valid time, the original shall say so. */
static inline bool iw_deadline_ts(struct iw_deadline *d, const struct timespec *t)
{
	if (!t) {
		d->end = -1;
		return true;
	}
	if (t->tv_sec < 0 || t->tv_nsec < 0 || t->tv_nsec >= 1000000000L)
		return false;
	iw_deadline_ns(d, t->tv_sec > INT64_MAX / 2000000000LL ? INT64_MAX : t->tv_sec * 1000000000LL + t->tv_nsec);
	return true;
}

/* What is left, NULL: for ever. */
static inline struct timespec *iw_deadline_left(const struct iw_deadline *d, struct timespec *t)
{
	int64_t left;

	if (d->end < 0)
		return NULL;
	left = d->end ? d->end - iw_mono_ns() : 0;
	if (left < 0)
		left = 0;
	t->tv_sec = left / 1000000000LL;
	t->tv_nsec = left % 1000000000LL;
	return t;
}

#endif
