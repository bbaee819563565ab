/* SPDX-License-Identifier: MIT */
/*
 * Streams: what the daemon has behind a carrier. A connection that is switched becomes a relay of plain octets between carrier and TCP (T, the
 * application's own socket), and from there either one with its other end on this host (a pair of applications that hold both ends of the
 * carrier), or a ring stream over RDMAP when both daemons agree on where it begins; or T goes back to the application.
 */
#ifndef IWARPD_STREAM_H
#define IWARPD_STREAM_H

#include <sys/socket.h>

#include "proto/page.h"
#include "proto/reason.h"
#include "daemon/rnic/endpoint.h"

enum stream_state {
	STREAM_GRANTED,		/* the carrier is given out; T is not touched yet */
	STREAM_RELAY,		/* switched: plain octets between carrier and T */
	STREAM_STARTING,	/* MPA startup, from the octets on that both daemons agreed on */
	STREAM_RUNNING,		/* ring stream */
	STREAM_LOCAL,		/* both ends are applications of this host; the daemon watches for the close only */
	STREAM_CLOSING,		/* one side is gone, or the application has T back; the rest is being delivered */
	STREAM_DEAD,
};

struct stream_info {		/* what iwctl shows */
	uint64_t id;
	enum stream_state state;
	struct iw_tuple tuple;
	bool client;
	pid_t pid;
	uint32_t uid;
	int fd;			/* number in the application, -1 unknown */
	char program[64];
	enum iw_reason reason;	/* ACCELERATED, or why it is plain */
	uint64_t tx_bytes, rx_bytes;	/* application octets since the switch */
	struct endpoint_stat stat;	/* zero unless it has an endpoint */
	const char *path;		/* of its octets: "mapped": the application works the queue pair, and says what is told of it; "carrier"; "device", below that; of LOCAL "rings" or "relayed", too */
	const char *device;		/* that carries it, or NULL */
	uint64_t since_ms;		/* when it was switched (granted, before that) */
	uint64_t upgraded_ms;		/* when MPA was agreed on, or the two ends of this host were joined; 0 not */
	uint64_t upgraded_tx, upgraded_rx;	/* and after how many octets since the connection began; 0 where nobody counted */
	unsigned int attempts;		/* at that, begun here or answered */
	char congestion[16];		/* of T while it carries RDMAP, and what the application believes it to be; "" otherwise */
	char congestion_told[16];
	const char *failed;		/* what the last one failed for that did, or NULL */
	uint64_t active_ms;		/* when the last octet of the application's was taken or given; not known of LOCAL */
};

struct stream;

/* The application end of a stream, to be passed to the library and then closed by the caller. */
struct stream_grant {
	uint64_t stream_id, size;
	int carrier, segment;	/* fds */
	uint32_t end, flags;
	struct iw_tuple tuple;	/* the names of this end */
};

struct stream_owner {		/* for display and quotas */
	pid_t pid;
	uint32_t uid;
	int fd;
	const char *program;
};

/* ---- the switch ---- */

/*
 * A stream for an established connection that its application is about to switch. Takes over tcp on success. client: this end connected.
 * told: so many of the octets unread in it must lie in the carrier after stream_switched(), what is left follows.
 * -EAGAIN: a carrier does not surely hold as many, but g->size; -EDQUOT, -ENOMEM, -EMFILE.
 */
int stream_grant(int tcp, const struct iw_tuple *t, const struct stream_owner *o, bool client, uint32_t told, struct stream_grant *g,
		 struct stream **st);
/*
 * GRANTED to RELAY: the carrier stands in T's place, the application has no T any more. What was unread in T is in the carrier when this returns
 * (what does not fit follows), so that no call finds less than TCP would have given it. 0; -EINVAL: it is not GRANTED.
 */
int stream_switched(struct stream *st, int app_fd);
/*
 * GRANTED to DEAD: the application keeps T, of which it sees no trace; ours is closed on return. False: it has taken the carrier, and
 * stream_switched() is due.
 */
bool stream_abandon(struct stream *st);

/* What was offered to that end was not taken, as its library says itself: in the page the other end of a pair can write, too. */
void stream_not_taken(struct stream *st, unsigned int end);

/* ---- one host ---- */

/*
 * st: RELAY, of the end that switched first. tcp, the socket of the other end of the same connection, was passed to be switched, too, and its
 * application waits: when nothing is on its way any more that application is offered the other end of the carrier, and the relay rests until
 * stream_joined() or stream_join_cancel().
 * done: once, perhaps from inside; ret 0: g is the application's. Else the relay goes on: -EAGAIN not now
 * (octets that the application has not read, or something is on its way after wait_ms); -ENOTCONN half-closed, lost, or not RELAY;
 * -EBUSY another join or an upgrade is under way; -EDQUOT, -EMFILE. A second attempt soon after -EAGAIN finds less on its way.
 */
void stream_join(struct stream *st, int tcp, const struct iw_tuple *t, const struct stream_owner *o, unsigned int wait_ms,
		 void (*done)(void *arg, int ret, const struct stream_grant *g), void *arg);
/* It was taken: st is LOCAL, and tcp st's, whatever the application does from here on. 0; -EINVAL: nothing was offered. */
int stream_joined(struct stream *st);
/* The relay goes on, tcp stays the caller's, and done will not be called. False: it was taken. Without a join: nothing, true. */
bool stream_join_cancel(struct stream *st);

/* ---- T back ---- */

/* The page asks the library for BACK, or no longer. The relay goes on. */
void stream_want_back(struct stream *st, bool want);
/*
 * The application saw its side of the carrier empty and asks for T. done: once, perhaps from inside; ret 0: tcp, which is st's, is to be passed
 * to the application, with the options it had at the switch but for SO_LINGER; the relay rests until stream_backed() or stream_back_cancel().
 * -EAGAIN: octets are on their way, or an upgrade is; -ENOTCONN: it is not RELAY. Then the relay goes on.
 */
void stream_back(struct stream *st, void (*done)(void *arg, int ret, int tcp), void *arg);
/* It was taken: our T is closed on return, and the stream ends when the application closes the carrier. 0; -EINVAL: nothing was offered. */
int stream_backed(struct stream *st);
/* The relay goes on, and done will not be called. False: it was taken. Without one under way: nothing, true. */
bool stream_back_cancel(struct stream *st);

/* ---- the queue pair mapped ---- */

struct stream_mapping {
	int tcp, map;		/* st's, to be passed to the application */
	uint64_t size;		/* of the map (proto/map.h) */
};
/*
 * The application, with the pidfd owner (it is taken), saw its side of the carrier empty and asks for its queue pair. done: once, perhaps from inside; ret 0: m is the application's,
 * and the stream rests until stream_mapped() or stream_map_cancel(). -EAGAIN: octets are on their way; -ENOTCONN: it is not RUNNING, is ending, or
 * cannot be mapped; -EDQUOT, -ENOMEM, -EMFILE. Then the pump goes on.
 */
void stream_map(struct stream *st, int owner, void (*done)(void *arg, int ret, const struct stream_mapping *m), void *arg);
/* It was taken: the application works T until stream_unmap(), until it has let go and closes the carrier, or until it is dead. 0; -EINVAL: nothing was offered. */
int stream_mapped(struct stream *st);
/* The pump goes on, and done will not be called. False: it was taken. Without one under way: nothing, true. */
bool stream_map_cancel(struct stream *st);
/* The application has stopped: the pump goes on with what it left, or the stream is reset where that is unsound. 0; -EINVAL: it is not mapped; -EBUSY: it
 * has not let go. */
int stream_unmap(struct stream *st);
void streams_unmap(void);	/* the same of all that have been let go of */
/* Octets lie gathered in its map: if it is so, they are looked at from now on, and go when the application leaves them there. */
void stream_bell(struct stream *st);

/* ---- two hosts: the upgrade of the wire (docs/upgrade.md) ---- */

/*
 * Connection management carries what two daemons say to each other; nonce, pos and crc are opaque to it. Positions are octets since the
 * connection began; crc is that of the last 64 octets before pos (all, if there are fewer), 0 when this daemon has not relayed all of them.
 */
struct stream_ops {
	/* This end holds at pos: ask the other daemon. Its answer by stream_held(), or no when there is no way to ask; not from inside. */
	void (*hold)(struct stream *st, uint64_t nonce, uint64_t pos, uint32_t crc);
	/* The answer to stream_their_hold(), once for each, perhaps from inside. no: pos and crc are 0. */
	void (*held)(struct stream *st, uint64_t nonce, bool yes, uint64_t pos, uint32_t crc);
	void (*upgraded)(struct stream *st);	/* it is RUNNING */
	bool (*promised)(struct stream *st);	/* it is about to be: was it promised to lose its pacing? */
	void (*room)(void);			/* stream_unpaced_room() may be true again */
	void (*gone)(struct stream *st);	/* last call of it; st is freed afterwards */
	void (*forgotten)(uint64_t id);		/* and nobody answers for it any more */
};
extern const struct stream_ops *stream_ops;

/*
 * The other end is relayed by its daemon, too: from now on attempts are begun, when one fits and with pauses in between, until one succeeds.
 * Either end may begin, so this is called at both, in any state and as often as one likes.
 */
void stream_upgrade(struct stream *st);
/* The other daemon holds at pos. */
void stream_their_hold(struct stream *st, uint64_t nonce, uint64_t pos, uint32_t crc);
/* The answer to ops->hold with this nonce. One that comes late, or never, costs the attempt. */
void stream_held(struct stream *st, uint64_t nonce, bool yes, uint64_t pos, uint32_t crc);

/*
 * Few of them at a time lose the pacing of TCP (tcp_unpace()). One more can, beside those that have lost it and those that it was promised to, which connection
 * management says one by one: a promise ends when it says so, and not before ops->upgraded, where it was kept.
 */
bool stream_unpaced_room(void);
void stream_promise_unpaced(bool more);

/* ---- all of them ---- */

/* By SO_COOKIE of an application's carrier: a grant without carrier (-1) for OPEN. -ENOENT. */
int stream_open(int carrier, struct stream_grant *g);
/* The stream of that carrier, and which end it is of; or NULL. */
struct stream *stream_of_carrier(int carrier, unsigned int *end);
/* The same with another carrier in the place of that one, for one whose ring has octets left: what is sent and received is relayed. Keeps carrier. */
int stream_rest(int carrier, uint32_t uid, struct stream_grant *g);
/*
 * Such an end again by the carrier that it had: done is told a grant with it, or -errno: something is on its way. Not from inside. NULL: it is not relayed,
 * or not now, and done will not be called. Until stream_direct_end(), which finds out whether it was taken, done's answer or not. Keeps no descriptor.
 */
struct stream_direct;
struct stream_direct *stream_direct(int carrier, void (*done)(void *arg, int ret, const struct stream_grant *g), void *arg);
uint64_t stream_direct_id(const struct stream_direct *d);	/* of the stream */
void stream_direct_end(struct stream_direct *d);
/* A program has ended, or closed something: in a while all pairs are looked at once. */
void stream_stir(void);
struct stream *stream_find(uint64_t id);
uint64_t stream_id(const struct stream *st);
enum stream_state stream_state(const struct stream *st);
const struct iw_tuple *stream_tuple(const struct stream *st);
void *stream_cm_data(struct stream *st);		/* one pointer for connection management */
void stream_set_cm_data(struct stream *st, void *p);
/*
 * As setsockopt and getsockopt on the TCP socket of this end (of a LOCAL pair: 0 the one that switched first), also when the stream is over and its
 * application still has the end: what a relay or a ring stream needs otherwise there is remembered and answered as the application would have it.
 * 0 or -errno; -ENOTCONN: there is none (any more). After a get the page's tx_acked is as of now.
 */
bool stream_answers(uint64_t id, unsigned int end);
int stream_setsockopt(uint64_t id, unsigned int end, int level, int name, const void *val, socklen_t len);
int stream_getsockopt(uint64_t id, unsigned int end, int level, int name, void *val, socklen_t *len);

/* An end by the administrator. -ENOENT; -EBUSY not switched yet, or something is offered; -EOPNOTSUPP local: we are not in its way (close.c). */
int stream_close(uint64_t id);
/*
 * The daemon ends, and its service manager keeps descriptors: streams that it pumps come to rest and are given to it for the next daemon, while others
 * come to their ends. To be called again, after a moment, while it returns how many there are to be waited for.
 */
unsigned int streams_hand_on(void);
/*
 * The daemon ends: connections are reset, within a few rounds of the engine. What the kernel would do by itself, but only when the last of
 * us is gone, and a close that waits can keep a worker, with all our descriptors, for as long as somebody likes. How many; 0: nobody is to be
 * waited for, and those that the next daemon is to have are at rest.
 */
unsigned int streams_leave(void);
/* Those that were mapped when the daemon before us ended, or that it handed on, and that the service manager has kept. */
void streams_revive(void);
/* False: no such stream. */
bool stream_look(uint64_t id, struct stream_info *info);
bool stream_look_end(uint64_t id, unsigned int end, struct stream_info *info);	/* of a pair of this host there are two */
void stream_foreach(void (*fn)(void *arg, const struct stream_info *info), void *arg);
unsigned int stream_count(void);
/* The last that have ended, the latest first; of a pair of this host there are two. */
#define STREAM_ENDED	256u
struct stream_ended {
	struct stream_info info;	/* as it was; state: before the end */
	bool local, remote;		/* by what it was carried, if not relayed */
	const char *how;		/* "closed" in order, "reset", "administrator", "back": the connection went on as plain TCP */
	int error;			/* what the application was told of a reset, or 0 */
	uint64_t ended_ms;
};
/* Called with each, at its end; NULL: nobody wants to know. */
extern void (*stream_ended_watch)(const struct stream_ended *e);
void stream_ended_foreach(void (*fn)(void *arg, const struct stream_ended *e), void *arg);
uint64_t stream_ended_count(void);	/* also of those that are not remembered any more */

struct stream_counts {		/* of application octets, and of what an endpoint counts */
	uint64_t tx_bytes, rx_bytes;
	struct endpoint_stat stat;
};
struct stream_tally {		/* as stream_foreach() tells them */
	unsigned int pending, iwarp, local, relay, closing;	/* pending: GRANTED */
	struct stream_counts counts;	/* since the daemon started, of streams that have ended, too: they never go back */
};
void stream_tally(struct stream_tally *t);

#endif
