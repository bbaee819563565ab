/* SPDX-License-Identifier: MIT */
/* What becomes of proposals: who is told GO and when, and what the daemons of two hosts say to each other about a connection. */
#ifndef IWARPD_MATCH_H
#define IWARPD_MATCH_H

#include "proposal.h"

/* ---- what the agent tells (switch.c) ---- */

/* It is new, or something has changed: can it go on? */
void match_look(struct proposal *p);
void match_never(struct proposal *p, enum iw_reason reason);
/* A connection that was not proposed and stays plain: the other end's daemon is told why, if there is a session with it. */
void match_plain(const struct iw_tuple *t, bool is_client, enum iw_reason reason);
/* Its carrier is in use. */
void match_switched(struct proposal *p);
/* Nothing came of the switch, or the program has its socket again: not so soon again. */
void match_back(struct proposal *p, enum iw_reason reason);
/* The switch was refused, for now. */
void match_not_yet(struct proposal *p, enum iw_reason reason);
/* The program says that it cannot be switched as it is. */
void match_hindered(struct proposal *p, enum iw_reason reason);
/* It has a place now (place.h). */
void match_turn(struct proposal *p);
/* It was promised to lose its pacing (pace.h): it may go on. Or no longer. */
void match_promised(struct proposal *p);
void match_lapsed(struct proposal *p);
/* MATCHED: its program would switch it. False: it has to wait for a place, and is told GO again then. */
bool match_may_switch(struct proposal *p);
/* It is joined with the other end, or the wire is upgraded. */
void match_done(struct proposal *p);
/* The program's user wants it, now: waiting times and downgrades are forgotten. -EALREADY it is; -EOPNOTSUPP it cannot be: reason. */
int match_upgrade(struct proposal *p);
/* He wants plain TCP. -EALREADY it is, for good; -EBUSY not at this moment; -EOPNOTSUPP the wire, or the pair, cannot be undone. */
int match_downgrade(struct proposal *p);
void match_forget(struct proposal *p);
/* The address of its other end turned out to be one of this host's. */
void match_comes_home(struct proposal *p);
/* Of an attempt to upgrade the wire, for the other daemon (proto/session.h). */
void match_hold(struct proposal *p, uint64_t nonce, uint64_t pos, uint32_t crc);
void match_held(struct proposal *p, uint64_t nonce, bool yes, uint64_t pos, uint32_t crc);

#endif
