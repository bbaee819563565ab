/* SPDX-License-Identifier: MIT */
/* The switch: from the program's TCP socket to a stream, and back. This is the agent: it has the descriptors; match.c says what becomes of whom. */
#ifndef IWARPD_SWITCH_H
#define IWARPD_SWITCH_H

#include "proposal.h"

void switch_start(void);
int cm_switch(struct client *c, const struct iw_ctl_id *m, int fd);	/* takes fd */
int cm_switched(struct client *c, const struct iw_ctl_id *m);
void cm_abandon(struct client *c, const struct iw_ctl_id *m);
int cm_back(struct client *c, const struct iw_ctl_id *m);
/* Whether p's end of that stream is this client's, or of another one of its process. */
bool switch_has(struct client *c, const struct proposal *p, uint64_t id);

/* ---- what control tells (match.c) ---- */

/* It may be switched; or not (any more), as far as the program has not seen that it may. */
void agent_go(struct proposal *p, bool may);
/* SWITCHED: octets relayed so far, both ways together. */
uint64_t agent_relayed(const struct proposal *p);
void agent_want_back(struct proposal *p, bool want);
/* SWITCHED: the other end is, too: the wire can be upgraded. What the other daemon says of that (proto/session.h). */
void agent_upgrade(struct proposal *p);
void agent_hold(struct proposal *p, uint64_t nonce, uint64_t pos, uint32_t crc);
void agent_held(struct proposal *p, uint64_t nonce, bool yes, uint64_t pos, uint32_t crc);
/*
 * Nothing more will be said about p: what its program was offered and has not taken is void, and what it has taken counts as if it had said so.
 * From inside p may become SWITCHED or DONE.
 */
void switch_settle(struct proposal *p);
/* The library of one end knows that its stream is a pair, as that of the other end has taken what it was offered; so it has, whether it has said so yet or not. */
void switch_joins(struct stream *st);
void switch_forget(struct proposal *p);

#endif
