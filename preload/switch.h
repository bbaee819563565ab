/* SPDX-License-Identifier: MIT */
/* The exchange of an application's TCP socket for the carrier of a stream, and back. */
#ifndef IW_PRELOAD_SWITCH_H
#define IW_PRELOAD_SWITCH_H

#include "proto/reason.h"
#include "candidate.h"
#include "stream.h"

#pragma GCC visibility push(hidden)

enum iw_switched {
	IW_SWITCH_DONE,
	IW_SWITCH_NOT_NOW,	/* it may be possible later */
	IW_SWITCH_REFUSED,	/* by the daemon, for now: because of octets unread, if there are any */
	IW_SWITCH_NEVER,
};

/*
 * The daemon has said GO of a candidate that the caller has TAKEN, with signals blocked and inside a call on fd. Judged from what is true
 * now; until the socket is in the daemon's hands, nothing has happened. *why: what to tell the daemon, 0 nothing. DONE: the entry is gone.
 * REFUSED: up to the position in way octets have to be taken first; 0: one end of a pair cannot be joined to the other while any are unread.
 */
enum iw_switched iw_switch(int fd, struct iw_candidate *c, enum iw_reason *why);

/* The program has taken the octets before that position, or will not. */
bool iw_switch_taken(int fd, uint64_t position);

/* The daemon wants to give the socket of a stream back (IW_WANT_BACK): it is a candidate afterwards, or not now. Inside a call on fd. Keeps errno. */
void iw_switch_back(int fd, struct iw_stream *s);
/* The same of a stream whose program begins to use what only TCP has, urgent data. true: it is a candidate. */
bool iw_switch_urgent(int fd, struct iw_stream *s);

#pragma GCC visibility pop
#endif
