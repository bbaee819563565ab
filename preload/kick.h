/* SPDX-License-Identifier: MIT */
/*
 * Wakes those who wait by poll or select, or in a call on a mapped stream, for what the kernel does not tell of: room in a stream that is
 * shut for writing, where TCP is writable and the carrier may be full; octets of a mapped stream that another thread took from its socket
 * (ready.h), or that it is mapped no more.
 * Reaches every thread of this process, and of those that were forked from it, or it from them, since the first wait of this kind.
 */
#ifndef IW_PRELOAD_KICK_H
#define IW_PRELOAD_KICK_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* Is there anybody who could kick? */
bool iw_kick_may(void);
/* A descriptor that becomes readable with the next iw_kick(); it may be already. -1: no room. */
int iw_kick_watch(void);
int iw_kick_watch_kept(void);		/* without a lock: -1, too, if none is left over */
/* It was readable. */
void iw_kick_seen(int watch);
void iw_kick_done(int watch);
/* Who kicks has changed what the others will look at. */
void iw_kick(void);

bool iw_kick_owns(int fd);		/* fd is one of its hidden descriptors */
void iw_kick_make_way(int fd);		/* see iw_internal_make_way() */

#pragma GCC visibility pop
#endif
