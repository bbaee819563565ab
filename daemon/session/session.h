/* SPDX-License-Identifier: MIT */
/*
 * Control sessions with other daemons, as others see them: starting, questions to the daemon of an address, what we tell those that dialled
 * us, and what is asked of who stands above. Everything else of this folder is its own.
 */
#ifndef IWARPD_SESSION_H
#define IWARPD_SESSION_H

#include "daemon/base/engine.h"
#include "daemon/base/list.h"
#include "proto/addr.h"
#include "proto/page.h"
#include "proto/reason.h"
#include "proto/session.h"

struct sess;

/* Listening on the control port, dialling on demand. 0 or -errno (logged). */
int session_start(void);
void session_stop(void);

/* ---- asking ---- */

#define SESS_DIAL_MS	4000u	/* the longest that dialling takes */

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

/* ---- telling ---- */

/*
 * Tell the client's daemon of a connection (t as we, the server, see it) on the session it dialled: start MPA, or not. A session on which
 * that cannot be said is ended, so that it gives its offers up. -ENOTCONN: nobody was told.
 */
int sess_confirm(const struct iw_tuple *t, bool yes, enum iw_reason reason);
/* Before anything that cannot be taken back: somebody can be told, and memory for it is there. */
bool sess_can_confirm(const struct iw_tuple *t);
/* A listener came or went: notices to those daemons that asked for its port. */
void sess_listener_changed(uint16_t port);

/* ---- what other daemons ask and say: handed on to who stands above ---- */

/* A CLAIM of another daemon's that waits for its answer. Lives in the object that works on it. */
struct sess_claim {
	struct list node;		/* of its session */
	struct sess *sess;
	uint32_t seq;
};
void sess_claim_answer(struct sess_claim *q, bool yes, enum iw_reason reason);	/* q is done with */

struct session_ops {
	/* Has a program of this host a registered listener there? */
	bool (*listens)(const struct iw_addr *a);
	/*
	 * Is the connection t, as the client, here, sees it, offered? q is filled in and comes to an end by sess_claim_answer(), perhaps before
	 * this returns and at the latest after wait_ms, or by claim_gone(). NULL: no memory.
	 */
	struct sess_claim *(*claim_new)(void);
	void (*claim)(struct sess_claim *q, const struct iw_tuple *t, unsigned int wait_ms);
	/* The session is over: nobody waits for the answer any more. */
	void (*claim_gone)(struct sess_claim *q);
	/* The server's daemon has its end of t ready for MPA, or gives it up. Perhaps no such claim was answered yes. */
	void (*confirmed)(const struct iw_tuple *t, bool yes, enum iw_reason reason);
	/* A listener of the other host came up. */
	void (*listener_up)(const struct iw_addr *a);
	/* Listeners of that address went away (port 0: all of them), for connections from local. */
	void (*listeners_gone)(const uint8_t ip[16], uint16_t port, const uint8_t local[16], enum iw_reason reason);
};
/* Set before session_start(); without it nobody listens and nothing is offered. */
extern const struct session_ops *session_ops;

/* ---- what is shown of them ---- */

struct peer_info {
	uint8_t ip[16];
	enum iw_peer_state state;
	enum iw_reason reason;
	bool in, out;			/* sessions: dialled by them, by us */
	uint64_t expires_ms;
	unsigned int streams;
};
void peers_foreach(void (*fn)(void *arg, const struct peer_info *info), void *arg);

struct sess_info {			/* of the session that is asked when an address is */
	uint8_t local[16];		/* our address */
	unsigned int took_ms;		/* to dial it */
	bool reached_us;		/* its daemon has dialled us, too */
};
/* false: none is up. */
bool sess_look(const uint8_t ip[16], struct sess_info *info);

#endif
