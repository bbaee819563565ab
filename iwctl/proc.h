/* SPDX-License-Identifier: MIT */
/* What /proc says of a process that has no connection of ours. */
#ifndef IWCTL_PROC_H
#define IWCTL_PROC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define IWCTL_LIBRARY "libiwsock.so"

enum iwctl_loaded {
	LOADED_NO,
	LOADED_BROKEN,		/* its file is mapped, but nothing of it to execute: the loader had to give it up */
	LOADED_OFF,		/* switched off, or not initialised yet */
	LOADED_ON,
	LOADED_OTHER,		/* that of another release */
	LOADED_UNKNOWN,		/* it is mapped, and the memory of the process must not be read */
};

struct iwctl_image {
	bool readable;		/* its map; otherwise nothing is known */
	bool dynamic;		/* the loader loads libraries into it */
	bool secure;		/* the loader ignores LD_PRELOAD: real and effective user or group differ */
	bool deleted;		/* the file of its library is not there any more */
	enum iwctl_loaded loaded;
};

/* What pid runs of the library; a process that is not there is one that is not readable. */
struct iwctl_image iwctl_proc_image(unsigned int pid);

/* The soft limit of that name in /proc/PID/limits. false: not known, or unlimited. */
bool iwctl_proc_limit(unsigned int pid, const char *name, unsigned long *soft);
/* Sentences why pid (fd >= 0: and that fd) cannot be accelerated or has nothing to show to a daemon that is up for so long; an array of strings. */
json_t *iwctl_proc_why(unsigned int pid, int fd, uint64_t uptime_ms);
/* A sentence for each connection of pid that no daemon has heard of yet, as far as its memory may be read. */
void iwctl_proc_young(json_t *why, unsigned int pid);

#endif
