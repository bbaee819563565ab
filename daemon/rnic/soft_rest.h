/* SPDX-License-Identifier: MIT */
/* The soft endpoint: rests while somebody else works its connection. */
#ifndef IWARPD_SOFT_REST_H
#define IWARPD_SOFT_REST_H

#include <stdbool.h>

struct soft;
struct endpoint;

int soft_rest(struct endpoint *ep, bool halt, void (*still)(void *ctx));
void soft_resume(struct endpoint *ep);
void soft_rest_adopt(struct soft *c);	/* another process has set it to rest */
void soft_rest_look(struct soft *c);	/* with c->still: is it? */
void soft_rest_reset(struct soft *c);	/* the peer hears a reset, whoever holds the connection besides */

#endif
