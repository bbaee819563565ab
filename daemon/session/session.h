/* SPDX-License-Identifier: MIT */
/*
 * Control sessions with other daemons, as others see them: starting, questions to the daemon of an address, and what is asked of who stands
 * above. Everything else of this folder is its own.
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
void session_renew(void);	/* who may use the control port may have changed */

/* ---- asking ---- */

#define SESS_DIAL_MS	4000u	/* the longest that dialling takes */

/* A question of ours to the daemon of an address. Lives in the object that asks. */
struct sess_ask {
	struct list node;		/* waiting for the session, or for room in its window */
	struct sess *sess;
	struct iw_sm m;			/* type, a, b, flags, nonce, pos, crc: whatever the type has */
	int slot;
	bool active, sent;
	/* m: as it came. NULL: it did not, reason says why. Nobody waits any more then, and what the other daemon did is not known. */
	void (*fn)(struct sess_ask *q, const struct iw_sm *m, enum iw_reason reason);
};
/*
 * q->m and q->fn are set. Asks the daemon of q->m.b, over the session from q->m.a; fn comes exactly once, perhaps before this returns, and
 * at the latest when the session is over. uid: who wants it dialled if there is none; SESS_NO_DIAL: nobody, then there is no answer.
 */
#define SESS_NO_DIAL	UINT64_MAX
void sess_ask(struct sess_ask *q, uint64_t uid);
void sess_ask_cancel(struct sess_ask *q);

/* ---- what other daemons ask: handed on to who stands above ---- */

/* Of a daemon, known to be the one of its address; about a connection between that address and this one. */
struct sess_question {
	struct list node;		/* of its session */
	struct sess *sess;
	struct iw_sm m;
	void *data;			/* of who answers */
};
/* The answer to m: yes, flags, pos, crc, or reason. q is done with. */
void sess_answer(struct sess_question *q, const struct iw_sm *answer);

/* t: the connection as this host sees it. */
struct session_ops {
	/* It is proposed there, or stays plain for that reason; here, too? Fills in yes, flags, or reason. */
	void (*propose)(const struct iw_tuple *t, const struct iw_sm *m, struct iw_sm *answer);
	/* They hold it: q comes to its end by sess_answer(), perhaps before this returns, or by hold_gone(): nobody waits for the answer any more. */
	void (*hold)(struct sess_question *q, const struct iw_tuple *t);
	void (*hold_gone)(struct sess_question *q);
	/* Sessions with the daemon of an address: each of us can ask and believes the other, from now on. Comes again when one more is up. */
	void (*peer_up)(const uint8_t ip[16]);
	/* One that we dialled is over. */
	void (*peer_gone)(const uint8_t ip[16]);
};
/* Set before session_start(); without it nothing is proposed. */
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
	bool reached_us;		/* its daemon has dialled us, too, and is known to be the same */
};
/* false: none is up. */
bool sess_look(const uint8_t ip[16], struct sess_info *info);

#endif
