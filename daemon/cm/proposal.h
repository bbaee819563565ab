/* SPDX-License-Identifier: MIT */
/* Proposals: the connections that programs of this host think worth it, and how far each of them is. */
#ifndef IWARPD_PROPOSAL_H
#define IWARPD_PROPOSAL_H

#include "ctl.h"
#include "daemon/base/engine.h"

/* What becomes of it is match.c's, its socket and stream switch.c's. Refused ones stay, with the reason, until they are closed. */
enum proposal_state {
	PROPOSAL_OPEN,		/* waits for the other end, or for its time */
	PROPOSAL_MATCHED,	/* GO was said, or a stream granted: the program may switch */
	PROPOSAL_SWITCHED,	/* relayed */
	PROPOSAL_DONE,		/* joined with the other end, or a ring stream to the other host */
};

/* What is known of the other end, on another host. */
enum proposal_there { THERE_NOTHING, THERE_PROPOSED, THERE_SWITCHED };

/* See place.h. */
enum proposal_placed { PLACE_NONE, PLACE_WAITS, PLACE_HELD };
/* See pace.h. */
enum proposal_pacing { PACE_NONE, PACE_WAITS, PACE_PROMISED };

struct proposal {
	struct list tuple, id, mine, peer, numbers;	/* by connection; by client and conn_id; of its client; by the other host; by number */
	uint64_t number;		/* for people */
	struct client *client;		/* NULL: gone, its stream lives on */
	uint32_t uid;
	uint64_t conn_id, cookie;
	uint64_t netns;			/* of its socket, as it says: see socket_check() */
	bool claims;			/* not ours, and its address is counted there (local_claim()) */
	struct iw_tuple t;
	uint32_t slot;			/* iw_proc.go */
	int fd;
	bool is_client, local;		/* the end that connected; the other end is of this host */
	enum proposal_state state;
	bool never;			/* it cannot be switched, whatever happens: reason */
	bool here;			/* reason is what hindered the switch when it was tried last */
	enum iw_reason reason, theirs;	/* why it is not accelerated; with OTHER_END, why they cannot */
	enum iw_reason told, told_theirs;	/* what plain_tell() told last */
	uint64_t octets;		/* as it was proposed */
	uint32_t calls;
	uint64_t proposed_ms, switched_ms;

	/* match.c */
	struct timer timer;		/* OPEN: not before; SWITCHED: until the other end is */
	uint64_t not_before;		/* OPEN */
	unsigned int backs, refused;	/* times that it was switched in vain, or refused since */
	unsigned int busy, tick_ms;	/* SWITCHED: how long it has been used without the other end */
	uint64_t relayed, relayed_then;
	enum proposal_there there;
	bool asked;			/* the other daemon knows of it as it is, and has answered */
	bool again;			/* it has changed since it was asked about */
	bool said;			/* the other daemon has asked since: a no may be older than that */
	struct question *ask, *hold;	/* PROPOSE, HOLD */
	struct sess_question *their_hold;

	/* place.c */
	struct list place;		/* among those that have one, or of its user's that wait */
	enum proposal_placed placed;
	uint64_t place_until;

	/* pace.c */
	enum iw_gain gain;		/* of account where it is not local */
	struct list pace;		/* among those that were promised to lose it, or wait for that */
	enum proposal_pacing pacing;
	uint64_t pace_until;

	/* switch.c */
	struct stream *st;
	unsigned int end;		/* of it */
	struct joining *joining;	/* it is waited for the join, or for its program to take what that offers */
	struct backing *backing;	/* the same of T back */
	struct mapping *mapping;	/* the same of its queue pair; mapping.c */
};

void cm_propose(struct client *c, const struct iw_ctl_propose *m);
/* The client has the carrier of st, which nobody has proposed here: as one that is DONE. */
void proposal_revive(struct client *c, struct stream *st, uint64_t conn_id, int fd);
/* Of that client, by its name for it. */
struct proposal *proposal_find(struct client *c, uint64_t conn_id);
struct proposal *proposal_numbered(uint64_t number);
void proposal_free(struct proposal *p);
/* The program is done with it (CLOSED). */
void proposal_closed(struct client *c, uint64_t conn_id);
void proposals_client_gone(struct client *c);
/* It goes on without its client. */
void proposal_orphan(struct proposal *p);

/* In a table of TUPLE_HASH lists of connections; nobody can choose them to be in one. */
#define TUPLE_HASH (1u << 16)
struct list *tuple_bucket(struct list *table, const struct iw_tuple *t);

/* All of a connection, as the end that proposed it sees it: several clients may say that they have it. prev NULL: the first. */
struct proposal *proposal_next(const struct iw_tuple *t, struct proposal *prev);
/* Those of other namespaces of this host count, where the administrator says so: can these be two ends of one connection? */
bool proposals_meet(const struct proposal *p, const struct proposal *o);
/* All whose other end is at that address. fn may free nothing. */
void proposals_of_peer(const uint8_t ip[16], void (*fn)(struct proposal *p));

#endif
