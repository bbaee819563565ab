/* SPDX-License-Identifier: MIT */
/* A control session: session.c has its life; port.c the port, ask.c the dialler's side, answer.c the acceptor's. */
#ifndef IWARPD_SESS_H
#define IWARPD_SESS_H

#include "daemon/net/peers.h"
#include "daemon/rnic/soft.h"
#include "session.h"

#define SESS_WINDOW	(IW_SM_BUFS / 2)	/* our questions under way, at most */

enum sess_state {
	SESS_CONNECTING,	/* TCP */
	SESS_STARTING,		/* MPA */
	SESS_HELLO,		/* dialler: HELLO is not answered yet; acceptor: has not come yet */
	SESS_UP,
	SESS_DEAD,		/* waits for work to take it apart */
};

struct sess_slot {
	bool used;
	uint32_t seq;
	uint8_t type;
	struct sess_ask *ask;	/* NULL: nobody waits any more */
};

struct sess {
	struct list node;		/* in peer.out or peer.in */
	struct peer *peer;
	enum sess_state state;
	bool dialled, never_up;
	bool fin;			/* the other side closed it in order */
	bool stopped;			/* dialler: its daemon said that it stops */
	enum iw_reason why;		/* DEAD: what to tell those who wait */
	uint8_t local[16];		/* our address */
	struct iw_addr me, them;	/* the two ends of its connection */
	int fd;				/* until the endpoint has it */
	struct op op;
	struct endpoint *ep;
	struct endpoint_mr mr;
	uint8_t *bufs;
	struct timer timer;		/* dialling, startup, idle */
	struct work work;
	struct iw_sm_pd theirs;
	uint32_t seq;
	uint64_t started;
	unsigned int took_ms;		/* from dial to UP */
	uint64_t heard_ms;		/* when the last message came */

	/* dialler */
	struct list dial;		/* in the list of those that are not UP yet */
	uint64_t uid;			/* who wanted it dialled */
	struct list waiting;		/* sess_ask: until UP, or room in the window */
	struct sess_slot slot[SESS_WINDOW];
	unsigned int nslots, window, nholds;

	/* acceptor */
	struct list strangers;		/* in the list of those that nobody vouched for */
	bool vouched;			/* the daemon that we dialled says that it is its own, */
	bool disowned;			/* or that it is not */
	bool gives_way;
	struct sess_ask proof;
	struct list proving, asked;	/* struct sess_question: wait until it is known whose session it is; for who answers them */
	unsigned int nquestions;	/* not yet answered */
	bool goodbye;			/* was said, and not acknowledged */
};

uint64_t daemon_generation(void);		/* random, of this run */
extern unsigned int sess_in;			/* sessions that others dialled */
struct sess *sess_new(struct peer *p, bool dialled);
int sess_conn(struct sess *s);			/* an endpoint on s->fd */
void sess_socket(int fd);			/* what all their sockets have */
/* Dial the daemon of an address, from src (all zero: any), for that user. NULL with *reason. */
struct sess *sess_dial(struct peer *p, const uint8_t src[16], uint64_t uid, enum iw_reason *reason);
void sess_dialled(struct sess *s);		/* it is UP, or over */
/* Best session to ask: from src, or any. NULL: none that lives. */
struct sess *sess_out(struct peer *p, const uint8_t src[16]);
bool sess_any_up(const struct list *sessions);	/* of peer.in or peer.out */
/* Sessions of p came or went, or are known to be its daemon's: what does that make of it? */
void sess_review(struct peer *p);
/* Send m now. The window has been looked at. A failure ends the session. */
void sess_send(struct sess *s, const struct iw_sm *m);
/* A question goes out: from now on the other daemon has to be heard. */
void sess_listen(struct sess *s);
/* End it after the current batch; why is told to those who wait. Logs text when not NULL. */
void sess_fail(struct sess *s, enum iw_reason why, const char *text);

#endif
