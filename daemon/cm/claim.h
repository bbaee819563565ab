/* SPDX-License-Identifier: MIT */
/* Claims: the question "is this connection offered?" at the client's side, and CLAIM of a server of this host. */
#ifndef IWARPD_CLAIM_H
#define IWARPD_CLAIM_H

#include "offer.h"

/* One question "is this connection offered?" at the client's side, from a local server or another daemon. */
struct claim {
	struct list node;		/* in offer.claims or those of an intent */
	struct list hash;		/* by tuple, while it waits for intents */
	struct iw_tuple t;			/* as the client sees it */
	struct timer timer;
	void (*fn)(struct claim *cl, struct offer *o, enum iw_reason reason);	/* o: HELD; NULL: no, with reason */
	pid_t pid;			/* the process that claims, 0: on another host */
	bool waiting;
};
/* Answer if it can be answered, else wait at the right place. */
void claim_look(struct claim *cl);
/* fn may be called before this returns. wait_ms bounds the wait. */
void claim_ask(struct claim *cl, unsigned int wait_ms);
void claim_cancel(struct claim *cl);
/* An offer changed: its claims look again. */
void claims_settle(struct offer *o, enum iw_reason reason);
/* An offer came: claims of its connection that wait for intents look again. */
void claims_offered(const struct iw_tuple *t);
int cm_claim(struct client *c, const struct iw_ctl_conn *m, int fd);	/* takes fd */

#endif
