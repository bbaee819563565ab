/* SPDX-License-Identifier: MIT */
/*
 * What 'iwctl why' finds in the memory of a process with the library: where it counts the connections that no daemon has heard of. The
 * library only has it lie there, in its writable data, at a multiple of 8; whoever may read the process looks for the magic.
 */
#ifndef IW_PROTO_VIEW_H
#define IW_PROTO_VIEW_H

#include <stdint.h>

#define IW_VIEW_MAGIC	{ 'i', 'w', 's', 'o', 'c', 'k', ' ', 'v', 'i', 'e', 'w', 0x1a, 0x9d, 0x4c, 0xe2, 0x07 }
#define IW_VIEW_VERSION	(2u | (uint32_t)sizeof(void *) << 16)

/* A word of the table of fds: kind in the low 4 bits, above it the index of the entry. */
#define IW_VIEW_CANDIDATE	1u
#define IW_VIEW_YOUNG		0
#define IW_VIEW_PROPOSED	1
#define IW_VIEW_PLAIN		2

struct iw_view {
	uint8_t magic[16];
	uint32_t version;
	uint32_t fds;			/* words of the table */
	const void *fdtab;		/* uint32_t each */
	const void *candidates;		/* where the pointer to the entries is; that is NULL before the first one */
	uint32_t stride;		/* octets of an entry, and where in it: */
	uint32_t octets, calls;		/* uint64_t, uint32_t: what it has */
	uint32_t at_octets, at_calls;	/* the same: one of these makes it worth it; all bits set: never */
	uint32_t state;			/* uint8_t, IW_VIEW_YOUNG ... */
	uint32_t why;			/* uint16_t: the reason that it stays plain for */
	const void *on;			/* uint32_t: not 0 once the library has begun its work; switched off, it stays 0 */
};

#endif
