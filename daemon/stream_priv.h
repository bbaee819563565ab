/* SPDX-License-Identifier: MIT */
/* What the parts of a stream share: stream.c (life, grants, tables), _hold, _remote, _local, _relay. */
#ifndef IWARPD_STREAM_PRIV_H
#define IWARPD_STREAM_PRIV_H

#include <sys/socket.h>

#include "../proto/rs.h"
#include "closing.h"
#include "stream.h"

#define STREAM_PROGRAM	64u

struct stream_end {		/* an application's end: [0] the one we made it for, [1] the server's of a local pair */
	struct tuple tuple;
	pid_t pid;
	uint32_t uid;
	int fd;
	char program[STREAM_PROGRAM];
	uint64_t cookie;	/* SO_COOKIE of its carrier */
	int tcp;		/* its TCP socket (remote: owned by conn) */
	bool counted;		/* in its user's quota */
	struct stream *hnext;	/* by cookie */
};

struct stream_relay;
struct stream_remote;

struct stream {
	uint64_t id;
	struct stream *hnext;		/* by id */
	struct stream *next, **pprev;	/* all */
	enum stream_state state;
	enum iw_reason reason;
	bool client;
	bool octets_told;		/* stream_cm->held_octets was called */
	uint64_t since_ms, active_ms;
	uint64_t tx_bytes, rx_bytes;
	struct stream_end end[2];
	void *cm_data;

	/* the carrier's end that we hold, and the segment */
	int d;
	int segment;
	size_t size;
	struct iw_page *page;

	struct op d_rx, d_tx, d_poll;	/* requests on d */
	struct msghdr d_msg;		/* of d_rx, with room for all the descriptors a message can have */
	struct iovec d_iov;
	union {
		struct cmsghdr h;
		uint8_t room[CMSG_SPACE(IW_SCM_MAX * sizeof(int))];
	} d_control;
	struct op t_rx, t_tx;		/* requests on the TCP socket (held, relay) */
	bool d_drop;			/* d is closed once nothing is in flight on it */
	bool app_closed;		/* the application's last holder closed (or shut both halves) */
	void (*on_hup)(struct stream *st, bool error);
	void (*hold_then)(struct stream *st);
	struct work work, end_work;

	int watch;			/* epoll set with both ends of the pair: see stream_local.c */
	struct op watch_op;
	bool local_half;		/* one end of the pair is left */

	struct rnic_pd *pd;		/* with `reserved` set aside for what may become of the stream */
	struct prm_bill reserved;
	struct stream_remote *remote;
	struct stream_relay *relay;
	struct iw_qp_stat qp_last;
};

/* stream.c */
void stream_kill(struct stream *st);		/* to DEAD; freed when nothing is in flight */
bool stream_busy(const struct stream *st);
void stream_ended_op(struct stream *st);	/* an op of a dead or dropped part completed: see whether that was the last */
int stream_new(int tcp, const struct tuple *t, const struct stream_owner *o, bool client, struct stream_grant *g, struct stream **st);
void stream_unreserve(struct stream *st);	/* it will not need registered memory */
int stream_count_user(uint32_t uid, int delta);	/* -EDQUOT */
void stream_hash_end(struct stream *st, unsigned int end);
struct stream *stream_next(const struct stream *st);	/* all streams, NULL starts */
struct iw_page_end *stream_page_end(struct stream *st);

/* the carrier (stream_hold.c) */
void carrier_fin(struct stream *st);		/* the peer's FIN: every octet is in the carrier */
void carrier_record_reset(struct stream *st, int err);	/* in the page only; after a FIN it becomes EPIPE */
void carrier_reset(struct stream *st, int err);	/* the page says RESET; then the carrier goes */
void carrier_drop(struct stream *st);		/* close d */
void carrier_recv(struct stream *st, void *buf, size_t len, op_fn fn);	/* by d_rx */
void carrier_received(struct stream *st, int res);	/* first thing in fn: descriptors that came along are closed */
void carrier_poll(struct stream *st, void (*hup)(struct stream *st, bool error));	/* tell when the application closed */
bool carrier_hup(const struct stream *st);	/* look now */
bool tcp_linger0(int tcp);
void tcp_reset_on_close(int tcp);

void hold_start(struct stream *st);
/* The requests of hold_start() end some time later; `then` is called when they have (not when the stream died meanwhile). */
void hold_stop(struct stream *st, void (*then)(struct stream *st));
void hold_stopped(struct stream *st);
void remote_needs(struct prm_bill *b);		/* what a stream takes from its user's quotas */
int remote_start(struct stream *st, bool initiator);
void remote_free(struct stream *st);
const struct iw_qp_stat *remote_stat(const struct stream *st);
int relay_start(struct stream *st);
void relay_free(struct stream *st);
int local_prepare(struct stream *st, int a);	/* registers both ends while we have them */
void local_forget(struct stream *st);
int local_start(struct stream *st);		/* the other end is about to be handed out */

#endif
