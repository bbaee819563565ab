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

#include "../proto/qp.h"
#include "prm.h"

struct rnic_pd;		/* of a user */
struct rnic_mr;
struct rnic_qp;
struct rnic_cq;

struct rnic_pd *rnic_pd_new(uint32_t uid);	/* one of its own: what streams have, so that no two of them need trust each other */
struct rnic_pd *rnic_pd_get(uint32_t uid);	/* the user's common one: finds or makes; counted */
void rnic_pd_put(struct rnic_pd *pd);
/* What was taken from its user's quotas for something in it: given back when nothing is left in it. */
void rnic_pd_bill(struct rnic_pd *pd, const struct prm_bill *b);
struct prm_user *rnic_pd_user(const struct rnic_pd *pd);	/* whose quotas count */

/*
 * In access, or in the attributes of a CQ or QP: its owner has taken what it needs from the user's quotas already (prm_take()), so
 * that a connection is refused before it is agreed upon and not after. It is not counted again.
 */
#define RNIC_PREPAID	0x10000u

/*
 * Register [addr, addr + len) as TOs [to, to + len). access: IW_ACCESS_*. scope: only this QP may use it from remote
 * (NULL: every QP of the domain). The STag is random over 32 bits and not reused soon.
 * 0, -EINVAL (len 0, to + len passes 2^64 - 1), -EDQUOT, -ENOMEM, -EPERM (not the user's memory, prm_strict), -EBUSY (the network may
 * write there for another domain already: SEC-U05).
 */
int rnic_mr_reg(struct rnic_pd *pd, struct rnic_qp *scope, void *addr, size_t len, uint64_t to, unsigned int access,
		struct rnic_mr **mr);
/* The same under a chosen STag (tests). -EEXIST. */
int rnic_mr_reg_stag(struct rnic_pd *pd, struct rnic_qp *scope, void *addr, size_t len, uint64_t to, unsigned int access,
		     uint32_t stag, struct rnic_mr **mr);
uint32_t rnic_mr_stag(const struct rnic_mr *mr);
uint64_t rnic_mr_to(const struct rnic_mr *mr);
/* Other rights from now on (SEC-R05). -EBUSY as above. */
int rnic_mr_set_access(struct rnic_mr *mr, unsigned int access);
/*
 * Final when it returns: nothing the network does can touch the memory any more. The handle stays until it is given to
 * rnic_mr_dereg(), or its queue pair is destroyed; the same holds when the peer invalidated the STag.
 */
void rnic_mr_revoke(struct rnic_mr *mr);
void rnic_mr_dereg(struct rnic_mr *mr);		/* NULL: nothing */
struct rnic_mr *rnic_mr_find(uint32_t stag);

/* ---- completion queues ---- */

#define RNIC_CQ_MAX	(1u << 20)

struct rnic_wc {
	struct iw_cqe cqe;
	struct rnic_qp *qp;
};
enum rnic_cq_arm { RNIC_CQ_NEXT = 1, RNIC_CQ_SOLICITED };	/* SOLICITED: a Send or Immediate with SE, or what did not succeed */

struct rnic_cq_attr {
	unsigned int size;			/* entries, 1 .. RNIC_CQ_MAX */
	unsigned int flags;			/* RNIC_PREPAID */
	void (*notify)(void *ctx, struct rnic_cq *cq);		/* armed, and one came; after the batch. May be NULL */
	void (*overflow)(void *ctx, struct rnic_cq *cq);	/* asynchronous event: see below. May be NULL */
	void *ctx;
};
/* -EINVAL, -EDQUOT, -ENOMEM. */
int rnic_cq_create(struct rnic_pd *pd, const struct rnic_cq_attr *attr, struct rnic_cq **cq);
int rnic_cq_destroy(struct rnic_cq *cq);	/* -EBUSY: a queue pair still uses it */
/*
 * Takes up to n completions, oldest first; how many there were. A queue that finds no room is in error for good: it
 * gives what it holds, then -EOVERFLOW; its queue pairs end by a Terminate 0/0/00; those of other queues notice nothing (SEC-R10). It
 * cannot happen to an owner who posts no more than it has polled, since a queue has room for all that its queue pairs can hold.
 */
int rnic_cq_poll(struct rnic_cq *cq, struct rnic_wc *wc, int n);
/* Call notify once, for the next completion of that kind. True: there are some already, poll again (then it is armed all the same). */
bool rnic_cq_arm(struct rnic_cq *cq, enum rnic_cq_arm what);

/* ---- queue pairs ---- */

struct rnic_qp_attr {
	struct rnic_pd *pd;
	struct rnic_cq *send_cq, *recv_cq;	/* may be one; of the same user as pd */
	unsigned int max_send, max_recv;	/* entries, 0: IW_QP_SQ, IW_QP_RQ. Both CQs must have room for them (SEC-P05): -ENOSPC */
	unsigned int max_reads;			/* Read slots, in and out together; counted */
	unsigned int flags;			/* RNIC_PREPAID */
	void (*event)(void *ctx, enum iw_qp_event ev);	/* asynchronous events; comes from inside iw_qp_*: see proto/qp.h */
	void (*invalidated)(void *ctx, uint32_t stag);	/* the peer did: as rnic_mr_revoke(). May be NULL */
	void (*posted)(void *ctx);		/* the provider below: there may be something to transmit (may be NULL) */
	void *ctx;
};
/* -EINVAL, -ENOSPC, -EPERM, -EDQUOT, -EOVERFLOW (a CQ is in error), -ENOMEM. */
int rnic_qp_create(const struct rnic_qp_attr *attr, struct rnic_qp **qp);
/* Deregisters every STag scoped to it; what it has in completion queues is gone. */
void rnic_qp_destroy(struct rnic_qp *qp);
void *rnic_qp_ctx(const struct rnic_qp *qp);
/* As iw_qp_post_send() and iw_qp_post_recv(); -EAGAIN: max_send or max_recv are outstanding; -EOVERFLOW: a CQ is in error. */
int rnic_post_send(struct rnic_qp *qp, const struct iw_wr *wr);
int rnic_post_recv(struct rnic_qp *qp, uint64_t wr_id, const struct iw_sge *sge);
struct iw_qp *rnic_qp_state(struct rnic_qp *qp);	/* the protocol state, for the provider */
extern const struct iw_qp_ops rnic_qp_ops;		/* pass with ctx = the struct rnic_qp */
void *rnic_qp_mem(struct rnic_qp *qp, uint32_t stag, uint64_t to, size_t len);	/* own memory by local STag, NULL if not */

/* For `iwctl stags` and `status`. */
struct rnic_mr_info { uint32_t stag; uint64_t to, len; unsigned int access; uint32_t uid; uint64_t stream_id; };
void rnic_mr_foreach(void (*fn)(void *arg, const struct rnic_mr_info *info), void *arg);
void rnic_qp_set_stream_id(struct rnic_qp *qp, uint64_t id);
unsigned int rnic_mr_count(void);

#endif
