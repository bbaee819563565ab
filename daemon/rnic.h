/* SPDX-License-Identifier: MIT */
/* The soft RNIC's tables and its verbs-like interface: protection domains, registrations (STags), queue pairs, completions. */
#ifndef IWARPD_RNIC_H
#define IWARPD_RNIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../proto/qp.h"

struct rnic_pd;		/* one per user id (PRM), or per test */
struct rnic_mr;
struct rnic_qp;

struct rnic_pd *rnic_pd_get(uint32_t uid);	/* finds or makes; counted */
void rnic_pd_put(struct rnic_pd *pd);

/*
 * Quota: set octets aside for registrations to come, so that a connection is refused before it is agreed upon and not
 * after. -EDQUOT. Registrations with RNIC_PREPAID in access come out of it and are not counted again.
 */
#define RNIC_PREPAID	0x10000u
int rnic_pd_reserve(struct rnic_pd *pd, uint64_t octets);
void rnic_pd_unreserve(struct rnic_pd *pd, uint64_t octets);

/*
 * Register [addr, addr + len) as TOs [to, to + len). access: IW_ACCESS_*. scope: only this QP may use it from remote
 * (NULL: every QP of the domain). The STag is random over 32 bits and not reused soon.
 * 0, -EINVAL (len 0, to + len passes 2^64 - 1), -EDQUOT, -ENOMEM.
 */
int rnic_mr_reg(struct rnic_pd *pd, struct rnic_qp *scope, void *addr, size_t len, uint64_t to, unsigned int access,
		struct rnic_mr **mr);
/* The same under a chosen STag (tests). -EEXIST. */
int rnic_mr_reg_stag(struct rnic_pd *pd, struct rnic_qp *scope, void *addr, size_t len, uint64_t to, unsigned int access,
		     uint32_t stag, struct rnic_mr **mr);
uint32_t rnic_mr_stag(const struct rnic_mr *mr);
uint64_t rnic_mr_to(const struct rnic_mr *mr);
/* Final when it returns: nothing the network does can touch the memory any more. */
void rnic_mr_dereg(struct rnic_mr *mr);
struct rnic_mr *rnic_mr_find(uint32_t stag);

struct rnic_qp_attr {
	struct rnic_pd *pd;
	void (*complete)(void *ctx, const struct iw_cqe *cqe);
	void (*event)(void *ctx, enum iw_qp_event ev);
	void (*invalidated)(void *ctx, uint32_t stag);	/* the peer invalidated it (may be NULL); the mr is gone */
	void *ctx;
};
int rnic_qp_create(const struct rnic_qp_attr *attr, struct rnic_qp **qp);
void rnic_qp_destroy(struct rnic_qp *qp);		/* deregisters every STag scoped to it */
struct iw_qp *rnic_qp_state(struct rnic_qp *qp);	/* the protocol state, for iw_qp_* */
extern const struct iw_qp_ops rnic_qp_ops;		/* pass with ctx = the struct rnic_qp */
void *rnic_qp_mem(struct rnic_qp *qp, uint32_t stag, uint64_t to, size_t len);	/* own memory by local STag, NULL if not */

/* For `iwctl stags` and `status`. */
struct rnic_mr_info { uint32_t stag; uint64_t to, len; unsigned int access; uint32_t uid; uint64_t stream_id; };
void rnic_mr_foreach(void (*fn)(void *arg, const struct rnic_mr_info *info), void *arg);
void rnic_qp_set_stream_id(struct rnic_qp *qp, uint64_t id);
unsigned int rnic_mr_count(void);

#endif
