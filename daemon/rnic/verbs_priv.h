/* SPDX-License-Identifier: MIT */
/* The verbs endpoint, as its parts share it: verbs.c (the seam), verbs_cm.c (connections), verbs_dev.c (devices and memory), verbs_wr.c (work requests), verbs_lost.c (going on without). */
#ifndef IWARPD_VERBS_PRIV_H
#define IWARPD_VERBS_PRIV_H

#include <rdma/rdma_cma.h>

#include "proto/addr.h"
#include "proto/beside.h"
#include "daemon/base/engine.h"
#include "daemon/base/log.h"
#include "devices.h"
#include "endpoint.h"

#undef ibv_reg_mr	/* a macro by which constant rights are checked */

/* What is called of the two libraries. */
#define VERBS_CALLS(X) \
	X(ibv_alloc_pd) X(ibv_dealloc_pd) X(ibv_reg_mr) X(ibv_dereg_mr) X(ibv_create_comp_channel) X(ibv_destroy_comp_channel) X(ibv_create_cq) \
	X(ibv_destroy_cq) X(ibv_get_cq_event) X(ibv_ack_cq_events) X(ibv_get_async_event) X(ibv_ack_async_event) X(ibv_query_device) X(ibv_close_device) \
	X(ibv_get_device_name) X(ibv_wc_status_str) X(ibv_event_type_str) \
	X(rdma_create_event_channel) X(rdma_destroy_event_channel) X(rdma_create_id) X(rdma_destroy_id) X(rdma_bind_addr) X(rdma_listen) \
	X(rdma_resolve_addr) X(rdma_resolve_route) X(rdma_create_qp) X(rdma_destroy_qp) X(rdma_connect) X(rdma_accept) X(rdma_reject) X(rdma_disconnect) \
	X(rdma_get_cm_event) X(rdma_ack_cm_event) X(rdma_event_str)
struct verbs_lib {
#define X(f) typeof(f) *f;
	VERBS_CALLS(X)
#undef X
};
extern struct verbs_lib verbs_lib;
int verbs_load(void);			/* 0, or -errno, logged once */
void verbs_unload(void);		/* with what they have open: nothing of theirs is in use */

#define VERBS_RANGES	4u
#define VERBS_SEND	256u		/* work requests of the ring stream */
#define VERBS_RECV	256u
#define VERBS_LOG	1024u		/* work requests that are remembered; as many Sends as the other end has receives are unanswered at most, each with its Writes */
#define VERBS_INL	128u		/* octets of a slot: what a Send begins with */
#define VERBS_INL_LEN	(VERBS_SEND * VERBS_INL + 4096)	/* the slots, and the first messages */

struct verbs_range {			/* a registration of the stream's: as that names it, and the device's */
	uint32_t stag;
	uint64_t to, len;
	uint8_t *addr;
	unsigned int access;
	struct ibv_mr *mr;
};

struct verbs_sent {			/* a work request, in the order posted: what it takes to post it again */
	uint64_t wr_id, rto;
	uint32_t rstag;
	uint32_t before;		/* Sends posted before it */
	uint8_t op, flags, nsge, inl_len;
	struct iw_sge sge[2];
	uint8_t inl[16];
};

struct verbs_dev {			/* a device in use: its completion channel and its asynchronous events */
	struct list node;
	struct ibv_context *ctx;
	struct ibv_comp_channel *channel;
	struct op comp_op, async_op;
	unsigned int refs;
	unsigned int max_sge;
	bool waits;			/* dialling by it waits in the call: Linux siw */
	bool dead;			/* let go of; freed when nothing is in flight */
};

enum verbs_state {
	VERBS_NONE,			/* who dials has not begun, who is dialled waits */
	VERBS_DIALS,
	VERBS_MADE,			/* a queue pair; it is not certain that both ends have it */
	VERBS_UP,
	VERBS_GONE,			/* there is none, or no more */
};

struct verbs {
	struct endpoint ep;
	struct endpoint *soft;		/* on T; NULL once it is over */
	struct endpoint_ulp ulp;	/* of that one, for us */
	int dup;			/* of T, after that */
	struct iw_tuple t;
	bool dials;
	bool alone;			/* who dials does not, it seems */
	uint32_t uid;

	enum verbs_state state;
	uint64_t key;
	struct rdma_cm_id *id;
	struct verbs_dev *dev;
	struct device *device;		/* as it is known, when it is gone, too; NULL: no queue pair was made */
	struct device_user user;	/* of it, while it carries the stream */
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *inl_mr;
	uint8_t *inl;			/* VERBS_INL_LEN octets */
	unsigned int tries;
	bool refused;			/* by the daemon there, which may have another one welcome */
	struct timer timer;		/* of the set-up; of the end */
	struct list node;		/* those that wait to be dialled */
	void (*again)(void *ctx);	/* who asked whether it is ready */
	void (*still)(void *ctx);	/* of endpoint_rest() */
	struct op probe_op;		/* see verbs_cm.c */
	int probe;
	struct sockaddr_storage probed;
	struct work work, again_work;

	struct verbs_range range[VERBS_RANGES];
	unsigned int nrecv;		/* posted before there was a queue pair: */
	struct { uint64_t wr_id; struct iw_sge sge; } recv[VERBS_RECV];
	struct iw_beside peer;

	bool initiator;			/* its Request stands on T */
	bool chosen;			/* the two ends have agreed on it */
	bool open;			/* established() was told: completions are delivered */
	bool closing;			/* endpoint_close() */
	bool soft_closing;
	bool poll;			/* completions may be there */
	bool broken;			/* a receive was not posted again */
	bool over;			/* closed() was told, or nobody wants to be */
	bool soft_gone;			/* by itself: with all that was registered there */
	int soft_err;			/* when soft is NULL: how it ended */
	bool judged;			/* nothing more is waited for */

	struct verbs_sent *sent;	/* VERBS_LOG */
	uint64_t head, tail;		/* of sent: posted, completed */
	uint32_t sends, came;		/* Sends posted, received */
	bool told, heard;		/* after its loss: how many have come, there and here */
	uint32_t theirs;
	bool on_t;			/* it goes on there, */
	uint64_t next;			/* when all before that was posted again */
	bool eof;			/* T was ended by the other end */
	struct endpoint_stat stat;
};

static inline struct verbs *verbs_of(const struct endpoint *ep)
{
	return container_of(ep, struct verbs, ep);
}

/* verbs.c */
void verbs_kick(struct verbs *v);		/* look at it after this batch */
void verbs_dialled(struct verbs *v);		/* it is being made */
void verbs_up(struct verbs *v);			/* both ends have it */
void verbs_failed(struct verbs *v);		/* it came to nothing, or was lost: all of it is undone on return */
bool verbs_waits(const struct verbs *v);	/* it may be dialled now */
/* verbs_cm.c */
int verbs_listen(const struct iw_addr *local);	/* somebody can dial this address. 0 or -errno */
bool verbs_peer_soft(const uint8_t ip[16]);	/* it was found to have none */
void verbs_peer_mark(const uint8_t ip[16]);
void verbs_peer_unmark(const uint8_t ip[16]);
void verbs_dial(struct verbs *v);
void verbs_dial_end(struct verbs *v);	/* not any more */
struct list *verbs_waiting(void);
void verbs_id_end(struct rdma_cm_id *id);
/* verbs_dev.c */
int verbs_make(struct verbs *v);		/* queue pair and memory on v->id. 0 or -errno, undone then by verbs_undo() */
void verbs_undo(struct verbs *v);		/* what is there of the connection: nothing of the device touches memory any more */
int verbs_take_dev(struct ibv_context *ctx, struct verbs_dev **dev);
void verbs_put_dev(struct verbs_dev *dev);
/* verbs_wr.c */
int verbs_post_send(struct verbs *v, const struct iw_wr *wr);
int verbs_post_recv(struct verbs *v, uint64_t wr_id, const struct iw_sge *sge);
int verbs_hello(struct verbs *v);		/* who dialled sends first: what iWARP wants */
int verbs_hello_recv(struct verbs *v);
void verbs_poll(struct verbs *v);		/* completions, as far as they may be delivered */
void verbs_drain(struct verbs *v);		/* what has come before the end */
void verbs_was_sent(struct verbs *v);		/* the next one in order */
void verbs_deliver(struct verbs *v, const struct iw_cqe *c);
/* verbs_lost.c */
bool verbs_lost(const struct verbs *v);		/* the device is gone from under the stream, and T is there to go on by */
void verbs_turn_to_t(struct verbs *v);		/* as far as it goes now */
void verbs_complete_on_t(struct verbs *v, const struct iw_cqe *c);

#endif
