/* SPDX-License-Identifier: MIT */
/* The table of peers: what is known of each address. */
#ifndef IWARPD_PEERS_H
#define IWARPD_PEERS_H

#include "daemon/base/engine.h"
#include "daemon/base/list.h"
#include "proto/page.h"
#include "proto/reason.h"

/* Its page, too, and watching this host's addresses. 0 or -errno (logged). */
int peers_start(void);
void peers_stop(void);			/* says dead to the libraries */

struct peer {				/* one per address that was ever of interest */
	struct list hash, lru;
	uint8_t ip[16];
	uint32_t scope_id;
	enum iw_peer_state state;
	enum iw_reason reason;		/* with NEGATIVE */
	uint64_t expires;		/* of NEGATIVE, CLOCK_MONOTONIC ms */
	/* kept by sessions; who has any of it is not forgotten */
	struct list out;		/* sessions that we dialled */
	struct list in;			/* sessions that they dialled */
	unsigned int in_conns;		/* their endpoints; some linger when the session is over */
	struct timer redial;
	int dial_err;			/* errno of the last dial that failed */
	unsigned int redials;		/* attempts left after the loss of a session */
	unsigned int redial_ms;
	unsigned int streams;		/* while they are counted */
};
struct peer *peer_find(const uint8_t ip[16]);
struct peer *peer_get(const uint8_t ip[16], uint32_t scope_id);	/* NULL: table full of busy ones, or no memory */
void peer_set(struct peer *p, enum iw_peer_state state, enum iw_reason reason, unsigned int ttl_ms);
bool peer_negative(const struct peer *p);			/* NEGATIVE and not expired */
/* Called when what is known of one has changed, from that state; NULL: nobody wants to know. */
extern void (*peers_watch)(const struct peer *p, enum iw_peer_state from);
void peers_each(void (*fn)(struct peer *p, void *arg), void *arg);

#endif
