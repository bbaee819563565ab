/* SPDX-License-Identifier: MIT */
/* Connections that gain by losing TCP's pacing, and by nothing else: as many are on their way to a stream, or have one, as can lose it (docs/upgrade.md 6). */
#ifndef IWARPD_PACE_H
#define IWARPD_PACE_H

#include "proposal.h"

#define PACE_MS		10000u	/* so long, and at most twice that, others wait for one with a promise that does not get a stream */

/*
 * p may go: it is of another kind, or was promised that it will lose its pacing, which it is until pace_leave(). Else it waits, behind those that have waited
 * longer; match_promised() says when it may, and match_lapsed() that a promise was of no use for too long: somebody else's turn.
 */
bool pace_take(struct proposal *p);
/* It neither has a promise nor waits for one. */
void pace_leave(struct proposal *p);
/* There may be room. */
void pace_look(void);

#endif
