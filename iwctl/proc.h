/* SPDX-License-Identifier: MIT */
/* What /proc says of a process that has no connection of ours. */
#ifndef IWCTL_PROC_H
#define IWCTL_PROC_H

#include <jansson.h>
#include <stdint.h>

/* Sentences why pid (fd >= 0: and that fd) cannot be accelerated or has nothing to show to a daemon that is up for so long; an array of strings. */
json_t *iwctl_proc_why(unsigned int pid, int fd, uint64_t uptime_ms);
/* A sentence for each connection of pid that no daemon has heard of yet, as far as its memory may be read. */
void iwctl_proc_young(json_t *why, unsigned int pid);

#endif
