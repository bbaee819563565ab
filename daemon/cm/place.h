/* SPDX-License-Identifier: MIT */
/* Places: so many connections at a time are on their way to a stream; the others go on as plain TCP, at its price, until it is their turn. */
#ifndef IWARPD_PLACE_H
#define IWARPD_PLACE_H

#include "proposal.h"

#define PLACES		32u
#define PLACES_MOST	128u	/* with those whose other end has gone first */
#define PLACE_MS	250u

/*
 * p may go: it has a place, for at most PLACE_MS. Else it waits: the users take turns, those of one user in order, and match_turn() says when it
 * has one. first: its other end has gone already, and costs both daemons as long as it is alone.
 */
bool place_take(struct proposal *p, bool first);
/* It neither has a place nor waits for one. */
void place_leave(struct proposal *p);

#endif
