// SPDX-License-Identifier: MIT
/*
 * Calls that sleep for mapped streams, thread by thread. What is kept is no pointer to a stack, which may be gone; and a call that was undone and
 * goes on all the same finds out.
 */
#include <stddef.h>

#include "kick.h"
#include "map.h"
#include "ready.h"
#include "sleeps.h"
#include "sys.h"

#define DEPTH	4	/* a call, and those of handlers inside it */

static __thread struct iw_sleep of_thread[DEPTH] __attribute__((tls_model("initial-exec")));
__thread uint32_t iw_sleeps __attribute__((tls_model("initial-exec")));	/* the last number */

void iw_sleep_begin(struct iw_slept *h, int fd, int watch, struct iw_stream *const *s, uint32_t n)
{
	struct iw_sleep *z = of_thread;

	while (z < of_thread + DEPTH && z->nr)
		z++;
	h->z = z < of_thread + DEPTH && n <= IW_SLEEP_STREAMS ? z : NULL;
	if (!h->z)
		return;
	z->fd = fd;
	z->watch = watch;
	z->signals = -1;
	z->sends = false;
	z->n = n;
	for (uint32_t i = 0; i < n; i++)
		z->s[i] = s[i];
	h->nr = ++iw_sleeps ? iw_sleeps : ++iw_sleeps;
	atomic_signal_fence(memory_order_seq_cst);
	z->nr = h->nr;
}

bool iw_sleep_end(struct iw_slept *h)
{
	bool still = iw_sleeps_still(h);

	if (h->z && still)
		h->z->nr = 0;
	h->z = NULL;
	return still;
}

static void left(struct iw_sleep *z)
{
	struct iw_stream *s = z->s[0];

	z->nr = 0;
	if (z->watch >= 0)
		iw_kick_done(z->watch);
	if (z->signals >= 0)
		IW_SYS(close, z->signals);
	if (z->fd < 0) {
		for (uint32_t i = 0; i < z->n; i++)
			if (z->s[i])
				iw_ready_polled(z->s[i]);
		return;
	}
	atomic_fetch_sub(&s->map_senders, z->sends);
	if (z->sends && iw_stream_of(z->fd) == s)
		iw_map_give(z->fd, s);
	iw_map_outside(s);
}

void iw_sleeps_left(void)
{
	for (int i = 0; i < DEPTH; i++)
		if (of_thread[i].nr)
			left(&of_thread[i]);
}
