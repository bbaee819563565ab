/* SPDX-License-Identifier: MIT */
/* What a process with the library has counted of connections that no daemon has heard of. */
#ifndef IWCTL_YOUNG_H
#define IWCTL_YOUNG_H

#include <stdbool.h>
#include <stdint.h>

struct iwctl_young {
	uint64_t octets, at_octets;	/* UINT64_MAX: never */
	uint32_t calls, at_calls;	/* UINT32_MAX: never */
	unsigned int state;		/* IW_VIEW_* */
	unsigned int reason;		/* IW_VIEW_PLAIN: why */
};

/* Of descriptor fd of process pid. 0; -EPERM: its memory must not be read; -ENOENT: it is none, or the library another version's. */
int iwctl_young(unsigned int pid, int fd, struct iwctl_young *y);

/* Whether the library in process pid does its work: 1, 0; -EPERM, -ENOENT as above. */
int iwctl_library_on(unsigned int pid);

#endif
