/* SPDX-License-Identifier: MIT */
/* Intents: which programs are about to connect where. */
#ifndef IWARPD_INTENT_H
#define IWARPD_INTENT_H

#include "ctl.h"

void intents_client_new(struct client *c);
void intents_client_gone(struct client *c);
void intents_client_moves(struct client *c);		/* it made an offer */
int cm_intent(struct client *c, const struct iw_ctl_id *m);
/*
 * Where a claim waits for the end of an open intent for dst, or NULL: there is none. except: the process that claims; while it waits for our
 * answer it cannot offer.
 */
struct list *intent_claims(const struct iw_addr *dst, pid_t except);
/*
 * A claim waited for them in vain. They count again when one more is raised there or the process offers something, unless that has been so
 * some times for programs of its user: a stopped or hostile process delays an accept now and then, not all.
 */
void intents_set_aside(const struct iw_addr *dst, pid_t except);

#endif
