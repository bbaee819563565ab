/* SPDX-License-Identifier: MIT */
/* Calls that sleep for mapped streams, thread by thread: what a handler that leaves one by longjmp(), or the end of the thread, has to undo. */
#ifndef IW_PRELOAD_SLEEPS_H
#define IW_PRELOAD_SLEEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "stream.h"

#pragma GCC visibility push(hidden)

#define IW_SLEEP_STREAMS 16u

struct iw_sleep {
	uint32_t nr;		/* 0: no such sleep */
	int fd;			/* of a call on the one stream that it is for; -1: s are polled */
	int watch, signals;	/* descriptors, or -1 */
	bool sends;
	uint32_t n;
	struct iw_stream *s[IW_SLEEP_STREAMS];
};

/* The caller's hold of his. Without one, since there are too many, nobody will undo it. */
struct iw_slept {
	struct iw_sleep *z;
	uint32_t nr;
};

/* After it was counted: fd and streams as above. */
void iw_sleep_begin(struct iw_slept *h, int fd, int watch, struct iw_stream *const *s, uint32_t n);
/* false: it was undone, by a handler that jumped, as it turns out not out of it. */
static inline bool iw_sleeps_still(const struct iw_slept *h)
{
	return !h->z || h->z->nr == h->nr;
}
/* Before it is undone by the caller: the same. */
bool iw_sleep_end(struct iw_slept *h);
/* All of this thread's are left. */
void iw_sleeps_left(void);
/* It may have some. */
extern __thread uint32_t iw_sleeps __attribute__((tls_model("initial-exec")));

#pragma GCC visibility pop
#endif
