/* SPDX-License-Identifier: MIT */
/*
 * First of what is compiled by make DELAY=SEED, with -finstrument-functions: where its functions begin and end, inlined ones too, it takes a
 * moment longer by chance.
 */
#ifndef TESTS_DELAYS_H
#define TESTS_DELAYS_H

#include <stdatomic.h>
#include <time.h>

#include "preload/sys.h"

#define MAYBE_LATE __attribute__((weak, visibility("hidden"), no_instrument_function))

__attribute__((weak, visibility("hidden"))) _Atomic uint32_t maybe_late = DELAY;

MAYBE_LATE void __cyg_profile_func_exit(void *fn, void *from)
{
	uint32_t x = atomic_fetch_add_explicit(&maybe_late, 1, memory_order_relaxed) * 2654435761u;
	struct timespec t = { 0 };

	x = (x ^ x >> 15) * 2246822519u;
	x ^= x >> 13;
	if (x >> 27)
		return;
	t.tv_nsec = x >> 24 ? 0 : x >> 4 & 0xfffff;	/* another thread's turn, or up to a ms */
	IW_SYS(nanosleep, &t, 0);
}

MAYBE_LATE void __cyg_profile_func_enter(void *fn, void *from)
{
	__cyg_profile_func_exit(fn, from);
}

#endif
