/* SPDX-License-Identifier: MIT */
/*
 * Streams: what the daemon has behind a carrier. A stream starts as an offer (octets are held), and becomes a remote
 * stream (ring stream over a conn), a local pair (handed on to the other application), or a relay (plain TCP octets).
 */
#ifndef IWARPD_STREAM_H
#define IWARPD_STREAM_H

#include "proto/page.h"
#include "proto/reason.h"
#include "daemon/rnic/endpoint.h"

enum stream_state {
	STREAM_OFFERED,		/* client end: carrier made, not yet committed */
	STREAM_HELD,		/* committed: the application may write, octets wait for the claim */
	STREAM_STARTING,	/* claimed: MPA startup under way */
	STREAM_RUNNING,		/* ring stream */
	STREAM_LOCAL,		/* both ends are applications of this host; the daemon watches for the close only */
	STREAM_RELAY,		/* withdrawn: plain octets between carrier and TCP, reason says why */
	STREAM_CLOSING,		/* the application is gone; the rest is being delivered */
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
	uint64_t tx_bytes, rx_bytes;	/* application octets */
	struct endpoint_stat stat;	/* zero unless it has an endpoint */
	uint64_t since_ms;
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

/* Client side: make a stream for a connection that is (about to be) established. Takes over tcp on success. -EDQUOT, -ENOMEM, -EMFILE. */
int stream_offer(int tcp, const struct iw_tuple *t, const struct stream_owner *o, struct stream_grant *g, struct stream **st);
void stream_commit(struct stream *st, int app_fd);	/* OFFERED to HELD */
void stream_abandon(struct stream *st);			/* OFFERED to DEAD: the application keeps its TCP socket; ours is closed without a trace */
/* HELD to STARTING: the other daemon claims it for its application: start MPA as Initiator. */
void stream_claimed(struct stream *st);
/* HELD to RELAY: lossless fall back to plain octets. */
void stream_withdraw(struct stream *st, enum iw_reason reason);
/* Called by the stream when it must end HELD by itself (octets from the server before the claim: NOT_MPA; TCP died).
 * Connection management gives the callback and takes the tuple out of its tables. Also called when a stream reaches DEAD. */
struct stream_cm_ops {
	void (*withdrawn)(struct stream *st, enum iw_reason reason);
	void (*held_octets)(struct stream *st);	/* first octet is being held: start the claim timer */
	void (*gone)(struct stream *st);	/* last call; st is freed afterwards */
};
extern const struct stream_cm_ops *stream_cm;

/* Server side: the claim was confirmed by the other daemon: a stream in STARTING as Responder. Takes over tcp on success. */
int stream_claim(int tcp, const struct iw_tuple *t, const struct stream_owner *o, struct stream_grant *g, struct stream **st);
/* Claimed, but the client's daemon cannot be told to start MPA: a reset for both ends, now. */
void stream_unconfirmed(struct stream *st);
/* Server side, same host: st is the client's HELD stream; gives the other end of its carrier. Takes over tcp on success. */
int stream_claim_local(struct stream *st, int tcp, const struct iw_tuple *t, const struct stream_owner *o, struct stream_grant *g);

/* By SO_COOKIE of an application's carrier: a grant without carrier (-1) for OPEN. -ENOENT. */
int stream_open(int carrier, struct stream_grant *g);
struct stream *stream_find(uint64_t id);
uint64_t stream_id(const struct stream *st);
enum stream_state stream_state(const struct stream *st);
const struct iw_tuple *stream_tuple(const struct stream *st);
/* The TCP socket for get/setsockopt of this end (0 client, 1 server for LOCAL), or -1. */
int stream_tcp(const struct stream *st, unsigned int end);
void *stream_cm_data(struct stream *st);		/* one pointer for connection management */
void stream_set_cm_data(struct stream *st, void *p);
/* The stream's TCP options changed (SO_LINGER, ...). */
void stream_option(struct stream *st, unsigned int end, int level, int optname);

/* An end by the administrator. -ENOENT; -EBUSY not committed yet; -EOPNOTSUPP local: we are not in its way (close.c). */
int stream_close(uint64_t id);
/*
 * The daemon ends: connections are reset, within a few rounds of the engine. What the kernel would do by itself, but only when the last of
 * us is gone, and a close that waits can keep a worker, with all our descriptors, for as long as somebody likes.
 */
void streams_leave(void);
/* False: no such stream. */
bool stream_look(uint64_t id, struct stream_info *info);
void stream_foreach(void (*fn)(void *arg, const struct stream_info *info), void *arg);
unsigned int stream_count(void);
struct stream_tally {		/* as stream_foreach() tells them */
	unsigned int pending, iwarp, local, relay, closing;
	uint64_t tx_bytes, rx_bytes;	/* since the daemon started, of streams that have ended, too */
};
void stream_tally(struct stream_tally *t);

#endif
