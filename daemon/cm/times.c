// SPDX-License-Identifier: MIT
/* How long ends of connections took from their proposal until they were accelerated. */
#include "times.h"

#include "cm.h"

static struct upgrade_times times;

void times_add(uint64_t ms)
{
	unsigned int b = 0;

	while (b < UPGRADE_TIMES - 1 && ms > UINT64_C(1) << b)
		b++;
	times.n[b]++;
	times.sum_ms += ms;
}

const struct upgrade_times *upgrade_times(void)
{
	return &times;
}
