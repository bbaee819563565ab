/* SPDX-License-Identifier: MIT */
/*
 * Connections to other hosts that gain by losing TCP's pacing, and by nothing else: as many are on their way to a stream, or have one, as can lose it; and those
 * that gain by nothing, of which none is (docs/upgrade.md 6).
 */
#ifndef IWARPD_PACE_H
#define IWARPD_PACE_H

#include "proposal.h"

#define PACE_MS		10000u	/* so long, and at most twice that, others wait for one with a promise that does not get a stream */

/*
 * p may go: it is of another kind, or was promised that it will lose its pacing, which it is until pace_leave(). Else it waits, behind those that have waited
 * longer, or for good; match_promised() says when it may, and match_lapsed() that a promise was of no use for too long: somebody else's turn.
 */
bool pace_take(struct proposal *p);
/* It neither has a promise nor waits. */
void pace_leave(struct proposal *p);
/* There may be room. */
void pace_look(void);

#endif
