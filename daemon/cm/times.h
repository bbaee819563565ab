/* SPDX-License-Identifier: MIT */
/* How long ends of connections took from their proposal until they were accelerated. */
#ifndef IWARPD_TIMES_H
#define IWARPD_TIMES_H

#include <stdint.h>

void times_add(uint64_t ms);

#endif
