/* SPDX-License-Identifier: MIT */
/*
 * The soft RNIC's verbs-like interface: protection domains, registrations (STags), queue pairs, completion queues. The ring stream,
 * the sessions between daemons and the tools all use it, and no other way leads to the network.
 */
#ifndef IWARPD_RNIC_H
#define IWARPD_RNIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/qp.h"
#include "prm.h"
#include "prm_mem.h"

/*
 * How it is used, by the ring stream, the sessions between daemons, iwctl rping and tests/iwdut alike:
 *
 *	rnic_pd_new, rnic_cq_create, rnic_qp_create, rnic_mr_reg, rnic_post_recv
 *	rnic_qp_start, then rnic_post_send, rnic_cq_poll, rnic_cq_arm
 *	rnic_mr_dereg, rnic_qp_destroy, rnic_cq_destroy, rnic_pd_put
 *
 * A provider is what moves the octets of a queue pair: soft.h over TCP and io_uring, or a test from memory to memory. It
 * calls rnic_qp_start() when the connection is up, then rnic_qp_rx(), rnic_qp_tx() and the others below.
 *
 * One thread: that of the engine. Callbacks come from it. Handles are the caller's until the function that ends them; lengths and
 * Tagged Offsets are octets; errors are -errno, and then nothing was taken, made or changed. A registration, a queue and a
 * queue pair count against the quotas of the user of their domain (prm.h) from their making to their end (SEC-P02).
 */

struct rnic_pd;
struct rnic_mr;
struct rnic_qp;
struct rnic_cq;

/* ---- protection domains ---- */

/*
 * What is in different domains cannot reach each other by any STag (SEC-R01, DDP-8.3). uid: as the kernel vouches for it (SO_PEERCRED),
 * or PRM_DAEMON. Both give a reference; NULL: no memory.
 */
/* One of its own: what streams have, so that no two of them need trust each other (SEC-P03). stream_id: for display. */
struct rnic_pd *rnic_pd_new(uint32_t uid, uint64_t stream_id);
struct rnic_pd *rnic_pd_get(uint32_t uid);	/* the user's common one */
/* Gives a reference back; NULL: nothing. The domain goes with the last one; registrations, queues and queue pairs hold one each. */
void rnic_pd_put(struct rnic_pd *pd);
/* What was taken from its user's quotas for something in it, octets and entries as in prm.h: given back when nothing is left in it. */
void rnic_pd_bill(struct rnic_pd *pd, const struct prm_bill *b);
struct prm_user *rnic_pd_user(const struct rnic_pd *pd);	/* whose quotas count; lives for good */

/*
 * In access, or in the attributes of a CQ or QP: its owner has taken what it needs from the user's quotas already (prm_take()) and
 * gives it back himself, so that a connection is refused before it is agreed upon and not after. It is not counted again.
 */
#define RNIC_PREPAID	0x10000u
/* In the attributes of a QP: its state is running, as somebody else has left it. */
#define RNIC_GOES_ON	0x20000u

/* ---- registrations ---- */

/*
 * Registers [addr, addr + len) as Tagged Offsets [to, to + len). access: IW_ACCESS_* (0: for nobody, until rnic_mr_set_access()).
 * scope: from remote only this queue pair may use it, and its peer invalidate it (SEC-R02, SEC-U06); NULL: every queue pair of the domain
 * may use it, and no peer invalidate it (SEC-R07). Locally every queue pair of the domain may. The STag is random over 32 bits and not used
 * again for 65536 others (SEC-R08). The memory stays the caller's, and mapped until rnic_mr_revoke() or rnic_mr_dereg().
 *
 * 0 and *mr; -EINVAL (len 0, addr or to + len pass the end, access unknown, scope of another domain), -EDQUOT, -ENOMEM, -EIO (no random
 * octets), -EPERM (not memory that the PRM made for this user: SEC-P04, prm_strict), -EBUSY (somebody may write there for another
 * domain already: SEC-U05).
 */
int rnic_mr_reg(struct rnic_pd *pd, struct rnic_qp *scope, void *addr, size_t len, uint64_t to, unsigned int access,
		struct rnic_mr **mr);
/* The same under a chosen STag. -EEXIST. */
int rnic_mr_reg_stag(struct rnic_pd *pd, struct rnic_qp *scope, void *addr, size_t len, uint64_t to, unsigned int access,
		     uint32_t stag, struct rnic_mr **mr);
uint32_t rnic_mr_stag(const struct rnic_mr *mr);	/* in host order; keeps its value after revocation, when it may come to name another one */
uint64_t rnic_mr_to(const struct rnic_mr *mr);
/* Other rights from now on, final when it returns (SEC-R05). -EINVAL (revoked, access unknown), -EBUSY as above. */
int rnic_mr_set_access(struct rnic_mr *mr, unsigned int access);
/*
 * Final when it returns: nothing the network does, and no work request, can touch the memory any more (SEC-R06); it counts no more either.
 * The handle stays until it is given to rnic_mr_dereg(), or its queue pair is destroyed; the same holds when the peer invalidated the
 * STag or the memory went (prm_mem_destroy()). May be done twice.
 */
void rnic_mr_revoke(struct rnic_mr *mr);
void rnic_mr_dereg(struct rnic_mr *mr);		/* rnic_mr_revoke(), and the end of the handle. NULL: nothing */
/* Whose STag this is now, or NULL. To look, not to keep: who made a registration keeps its handle and ends it by that. */
struct rnic_mr *rnic_mr_find(uint32_t stag);

/* ---- completion queues ---- */

#define RNIC_CQ_MAX	(1u << 20)

struct rnic_wc {
	struct iw_cqe cqe;		/* proto/qp.h */
	struct rnic_qp *qp;		/* whose; rnic_qp_ctx() */
};
enum rnic_cq_arm { RNIC_CQ_NEXT = 1, RNIC_CQ_SOLICITED };	/* SOLICITED: a Send or Immediate with SE, or what did not succeed */

struct rnic_cq_attr {
	unsigned int size;			/* entries, 1 .. RNIC_CQ_MAX; counted */
	unsigned int flags;			/* RNIC_PREPAID */
	/*
	 * Both come after the batch, from no other call, and may destroy the queue. notify: armed, and one came, or (without overflow()) the
	 * queue overflowed. overflow: asynchronous event, see below. Either may be NULL.
	 */
	void (*notify)(void *ctx, struct rnic_cq *cq);
	void (*overflow)(void *ctx, struct rnic_cq *cq);
	void *ctx;
};
/* 0 and *cq; -EINVAL (size), -EDQUOT, -ENOMEM. */
int rnic_cq_create(struct rnic_pd *pd, const struct rnic_cq_attr *attr, struct rnic_cq **cq);
int rnic_cq_destroy(struct rnic_cq *cq);	/* NULL: nothing. -EBUSY: a queue pair still uses it */
/*
 * Takes up to n completions, oldest first; how many there were. A queue that finds no room is in error for good: it
 * gives what it holds, then -EOVERFLOW; its queue pairs end by a Terminate 0/0/00; those of other queues notice nothing (SEC-R10). It
 * cannot happen to an owner who posts no more than it has polled, since a queue has room for all that its queue pairs can hold (SEC-P05).
 */
int rnic_cq_poll(struct rnic_cq *cq, struct rnic_wc *wc, int n);
void rnic_cq_trim(struct rnic_cq *cq);	/* an empty one takes no memory until it is used again */
/* Call notify once, for the next completion of that kind. True: there are some already, poll again (then it is armed all the same). */
bool rnic_cq_arm(struct rnic_cq *cq, enum rnic_cq_arm what);

/* ---- queue pairs ---- */

struct rnic_qp_attr {
	struct rnic_pd *pd;			/* it holds a reference */
	struct iw_qp *state;			/* where its protocol state lies: zeroed, the caller's until rnic_qp_destroy(); NULL: memory of its own */
	struct rnic_cq *send_cq, *recv_cq;	/* may be one; of the same user as pd (SEC-R09) */
	unsigned int max_send, max_recv;	/* entries, 0: IW_QP_SQ, IW_QP_RQ, which are the most. Both CQs must have room for them (SEC-P05) */
	unsigned int max_reads;			/* Read slots, in and out together (SEC-R11); counted. rnic_qp_start() keeps to it */
	unsigned int flags;			/* RNIC_PREPAID */
	void (*event)(void *ctx, enum iw_qp_event ev);	/* asynchronous events; comes from inside iw_qp_*: see proto/qp.h. May be NULL */
	void (*invalidated)(void *ctx, uint32_t stag);	/* the peer did: as rnic_mr_revoke(). From inside iw_qp_rx(). May be NULL */
	void (*posted)(void *ctx);		/* the provider below: there may be something to transmit. May be NULL */
	void (*completed)(void *ctx);		/* it too: there may be completions. After what caused them, and before event(). May be NULL */
	void *ctx;
};
/*
 * Receives can be posted at once, sends from rnic_qp_start() on. 0 and *qp; -EINVAL (no domain or queue, too many entries), -ENOSPC (a CQ
 * has no room), -EPERM (a CQ of another user), -EDQUOT, -EOVERFLOW (a CQ is in error), -ENOMEM.
 */
int rnic_qp_create(const struct rnic_qp_attr *attr, struct rnic_qp **qp);
/* As iw_qp_start(), to RTS; once. -EINVAL (parameters, or ird + ord exceed max_reads: SEC-P02), -EOVERFLOW (a CQ is in error). */
int rnic_qp_start(struct rnic_qp *qp, const struct iw_qp_param *p);
/*
 * Ends the handles of all registrations scoped to it; what it has in completion queues is gone. It says nothing to the peer: the provider does
 * (iw_qp_terminate(), or a close). Not from inside iw_qp_*, so not in event() and invalidated(). NULL: nothing.
 */
void rnic_qp_destroy(struct rnic_qp *qp);
void *rnic_qp_ctx(const struct rnic_qp *qp);	/* of its attributes */
/*
 * As iw_qp_post_send() and iw_qp_post_recv(), whose errors they give too: the work request is copied, the memory it names is looked at when
 * it goes out or is filled, with the rights that its STag has then. Each completes once (not successful IW_WR_QUIET ones). -EAGAIN: max_send
 * or max_recv are outstanding; -EOVERFLOW: a CQ is in error; -ENOTCONN: not started, or ended.
 */
int rnic_post_send(struct rnic_qp *qp, const struct iw_wr *wr);
int rnic_post_recv(struct rnic_qp *qp, uint64_t wr_id, const struct iw_sge *sge);
unsigned int rnic_send_room(const struct rnic_qp *qp);	/* of max_send */
struct rnic_pd *rnic_qp_pd(const struct rnic_qp *qp);	/* no reference */
struct iw_qp *rnic_qp_state(struct rnic_qp *qp);	/* the protocol state, for the provider; lives as long as qp */
extern const struct iw_qp_ops rnic_qp_ops;		/* goes with it, ctx = the struct rnic_qp */
/* Own memory by local STag, whatever its rights, for who has to look at it; NULL: not [to, to + len) of one registration of its domain. */
void *rnic_qp_mem(struct rnic_qp *qp, uint32_t stag, uint64_t to, size_t len);

/*
 * ---- the octets of a queue pair ----
 *
 * As iw_qp_rx(), iw_qp_tx() and so on (proto/qp.h), with all that a completion has to bring about: providers call these and none of those.
 */
size_t rnic_qp_rx(struct rnic_qp *qp, uint8_t *in, size_t len);
void rnic_qp_rx_eof(struct rnic_qp *qp, size_t left);
size_t rnic_qp_tx(struct rnic_qp *qp, uint8_t *out, size_t cap);
void rnic_qp_tx_done(struct rnic_qp *qp, size_t n);
void rnic_qp_lost(struct rnic_qp *qp, int err);
void rnic_qp_end(struct rnic_qp *qp);
void rnic_qp_terminate(struct rnic_qp *qp, uint8_t layer, uint8_t etype, uint8_t code);

/* ---- for `iwctl stags` and `status` ---- */

struct rnic_mr_info {
	uint32_t stag;
	uint64_t to, len;
	unsigned int access;
	uint32_t uid;
	uint64_t stream_id;	/* of its domain; 0: of none */
	bool scoped;		/* one queue pair alone may use it from remote */
};
/* Each registration that is valid, in no order; fn makes and ends none. */
void rnic_mr_foreach(void (*fn)(void *arg, const struct rnic_mr_info *info), void *arg);
unsigned int rnic_mr_count(void);

#endif
