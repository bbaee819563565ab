/* SPDX-License-Identifier: MIT */
/* A control session: session.c has its life; port.c the port, ask.c the dialler's side, tell.c the acceptor's. */
#ifndef IWARPD_SESS_H
#define IWARPD_SESS_H

#include "daemon/net/peers.h"
#include "daemon/rnic/soft.h"
#include "session.h"

#define SESS_WINDOW	(IW_SM_BUFS / 2)	/* our questions under way, at most */
#define SESS_NOTICES	(IW_SM_BUFS / 4)
#define PORT_BYTES	8192u			/* a bit per port */

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
	struct iw_addr a, b;
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

	/* dialler */
	struct list dial;		/* in the list of those that are not UP yet */
	struct list waiting;		/* sess_ask: until UP, or room in the window */
	struct sess_slot slot[SESS_WINDOW];
	unsigned int nslots, window;
	bool late;			/* a question got no answer in time, and nothing has come since */
	uint64_t late_since;
	uint8_t known[PORT_BYTES], registered[PORT_BYTES];

	/* acceptor */
	struct list strangers;		/* in the list of those that nobody vouched for */
	bool vouched;			/* the daemon that we dialled says that it is its own */
	bool gives_way;
	struct sess_ask proof;
	struct list claims, lookups;	/* struct sess_claim, struct their_lookup */
	unsigned int questions;		/* not yet answered */
	struct list confirms;		/* struct confirm: wait for room */
	unsigned int nconfirms;
	struct confirm *spare;		/* for the one that sess_can_confirm() was asked about */
	unsigned int notices;		/* not yet acknowledged */
	bool dirty;			/* told[] may be out of date */
	uint8_t asked[PORT_BYTES], told[PORT_BYTES];
};

static inline bool port_bit(const uint8_t *bits, uint16_t port)
{
	return bits[port / 8] >> port % 8 & 1;
}

static inline void port_set(uint8_t *bits, uint16_t port, bool on)
{
	bits[port / 8] = (uint8_t)((bits[port / 8] & ~(1u << port % 8)) | (unsigned int)on << port % 8);
}

uint64_t daemon_generation(void);		/* random, of this run */
extern unsigned int sess_in;			/* sessions that others dialled */
struct sess *sess_new(struct peer *p, bool dialled);
int sess_conn(struct sess *s);			/* an endpoint on s->fd */
void sess_socket(int fd);			/* what all their sockets have */
/* Dial the daemon of an address, from src (all zero: any). NULL with *reason. */
struct sess *sess_dial(struct peer *p, const uint8_t src[16], enum iw_reason *reason);
void sess_dialled(struct sess *s);		/* it is UP, or over */
/* Best session to ask: from src, or any. NULL: none that lives. */
struct sess *sess_out(struct peer *p, const uint8_t src[16]);
bool sess_any_up(const struct list *sessions);	/* of peer.in or peer.out */
/* Send m now. The window has been looked at. A failure ends the session. */
void sess_send(struct sess *s, const struct iw_sm *m);
/* End it after the current batch; why is told to those who wait. Logs text when not NULL. */
void sess_fail(struct sess *s, enum iw_reason why, const char *text);

#endif
