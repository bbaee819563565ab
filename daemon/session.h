/* SPDX-License-Identifier: MIT */
/* Control sessions with other daemons: who is asked what, which address has a daemon, what is known of its listeners. */
#ifndef IWARPD_SESSION_H
#define IWARPD_SESSION_H

#include "../proto/session.h"
#include "cm_list.h"
#include "conn.h"
#include "stream.h"

/* ---- peers (peers.c): one per address that was ever of interest ---- */
struct peer {
	struct list hash, lru;
	uint8_t ip[16];
	uint32_t scope_id;
	enum iw_peer_state state;
	enum iw_reason reason;		/* with NEGATIVE */
	uint64_t expires;		/* of NEGATIVE, CLOCK_MONOTONIC ms */
	struct list out;		/* struct sess that we dialled */
	struct list in;			/* struct sess that they dialled */
	unsigned int in_conns;		/* their endpoints; some linger when the session is over */
	struct timer redial;
	unsigned int redials;		/* attempts left after the loss of a session */
	unsigned int redial_ms;
	unsigned int streams;		/* while they are counted */
};
struct peer *peer_find(const uint8_t ip[16]);
struct peer *peer_get(const uint8_t ip[16], uint32_t scope_id);	/* NULL: table full of busy ones, or no memory */
void peer_set(struct peer *p, enum iw_peer_state state, enum iw_reason reason, unsigned int ttl_ms);
bool peer_negative(const struct peer *p);			/* NEGATIVE and not expired */
void peers_each(void (*fn)(struct peer *p, void *arg), void *arg);
bool addr_is_local(const uint8_t ip[16]);			/* publishes it as LOCAL when it is */
void peers_stop(void);
uint64_t daemon_generation(void);

/* ---- asking (session_ask.c) ---- */
struct sess;
/* A question of ours to the daemon of an address. Lives in the object that asks. */
struct sess_ask {
	struct list node;		/* waiting for the session, or for room in its window */
	struct peer *peer;
	struct sess *sess;
	uint8_t type;			/* IW_SM_LOOKUP or IW_SM_CLAIM */
	bool active, sent;
	bool fresh;			/* a LOOKUP: ask, whatever is remembered */
	struct iw_addr a, b;
	uint8_t src[16];		/* our address to dial from; all zero: any */
	int slot;
	struct timer timer;
	void (*fn)(struct sess_ask *q, bool yes, enum iw_reason reason);
};
/*
 * q->type, q->fresh, q->a (and q->b), q->src and q->fn are set. Asks the daemon of dst, dialling when there is no session; fn comes exactly once,
 * perhaps before this returns, at the latest after wait_ms (plus the round-trip time of the session for a CLAIM).
 */
void sess_ask(struct sess_ask *q, const struct iw_addr *dst, unsigned int wait_ms);
void sess_ask_cancel(struct sess_ask *q);
/*
 * Tell the client's daemon of a connection (t as we, the server, see it) on the session it dialled: start MPA, or not. A session on which
 * that cannot be said is ended, so that it gives its offers up. -ENOTCONN: nobody was told.
 */
int sess_confirm(const struct tuple *t, bool yes, enum iw_reason reason);
/* Before anything that cannot be taken back: somebody can be told, and memory for it is there. */
bool sess_can_confirm(const struct tuple *t);
/* A listener came or went: notices to those who asked for its port. */
void sess_listeners_changed(void);

#endif
