/* SPDX-License-Identifier: MIT */
/* A stream, as its parts see it. */
#ifndef IWARPD_STREAM_PRIV_H
#define IWARPD_STREAM_PRIV_H

#include <sys/socket.h>

#include "daemon/base/closing.h"
#include "daemon/base/list.h"
#include "stream.h"
#include "tcp.h"

#define STREAM_PROGRAM	64u

struct stream_end {		/* an application's end: [0] the one we made it for, [1] the server's of a local pair */
	struct iw_tuple tuple;
	pid_t pid;
	uint32_t uid;
	int fd;
	char program[STREAM_PROGRAM];
	uint64_t cookie;	/* SO_COOKIE of its carrier */
	int tcp;		/* its TCP socket (remote: owned by the endpoint) */
	bool counted;		/* in its user's quota */
	struct stream *hnext;	/* by cookie */
};

struct stream_relay;
struct stream_remote;
struct stream_upgrade;
struct stream_join;
struct stream_back;
struct stream_map;

struct stream {
	uint64_t id;
	struct stream *hnext;		/* by id */
	struct stream *next, **pprev;	/* all */
	enum stream_state state;
	enum iw_reason reason;
	bool client;
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
	struct msghdr d_msg;		/* of d_rx, and while there is one, room for all the descriptors a message can have */
	struct iovec d_iov[2];
	struct msghdr d_out;		/* of d_tx, of a remote stream */
	struct iovec d_out_iov[2];
	void *d_control;
	struct op t_rx, t_tx;		/* requests on the TCP socket (relay) */
	struct op owner_op;		/* the death of who has the map */
	struct op raw_op;		/* octets in the carrier meanwhile */
	struct op bell_op;		/* and, at a burst, the next look at the map */
	bool d_drop;			/* d is closed once nothing is in flight on it */
	bool app_closed, app_error;	/* the application's last holder closed (or shut both halves); with octets unread */
	void (*on_hup)(struct stream *st, bool error);
	void (*on_unpolled)(struct stream *st);
	struct tcp_kept kept;		/* of end[0].tcp */
	bool tcp_reset;			/* closing it is a reset */
	bool tcp_lent;			/* it is a duplicate of the endpoint's, which may still send by it */
	bool administrator;		/* had it ended */
	int lost;			/* what the application was told first that it ended with */
	enum stream_state was;		/* before it was DEAD */
	bool given_back;		/* the application has it; the carrier is still to be closed */
	struct work work, end_work;

	int watch;			/* epoll set with both ends of the pair: see local.c */
	int watched[2];			/* the numbers that the ends had then */
	struct op watch_op;
	struct list local_half;		/* of a pair with one end left: in local.c's list of those */
	struct list unkept;		/* in local.c's list of pairs that are still to be kept */
	uint32_t keep_slot;		/* 0: it is not kept for the next daemon, see keep_pair.h */
	struct rnic_mr *ring[2];	/* of the pair: what ends 0 and 1 send by */
	struct rest *rest[2];		/* what an end sends and receives is relayed; NULL: it is not */

	struct rnic_pd *pd;		/* with `reserved` set aside for what may become of the stream */
	struct prm_bill reserved;
	struct stream_remote *remote;
	struct stream_relay *relay;
	struct stream_upgrade *upgrade;
	struct stream_join *join;
	struct stream_back *back;
	struct stream_map *map;
	struct endpoint_stat stat_last;
	struct stream_counts off;	/* what is told, less what the endpoint counts: its counts are as an application left them */
	struct stream_counts before;	/* of the time of a daemon before us */
};

/* What the library of that end was offered is ours again. False: it has taken it. */
static inline bool stream_withdraw(struct stream *st, unsigned int end)
{
	uint32_t offered = IW_HAND_OFFERED;

	return atomic_compare_exchange_strong(&st->page->end[end].hand, &offered, IW_HAND_VOID);
}

static inline struct iw_page_end *stream_page_end(struct stream *st)
{
	return &st->page->end[0];
}

/* Its application, which has not been heard of in time perhaps, wants a reset when it closes. */
static inline bool stream_linger0(struct stream *st)
{
	return tcp_linger0(&st->kept) || (atomic_load(&stream_page_end(st)->opts) & IW_SOPT_LINGER0);
}

#endif
