/* SPDX-License-Identifier: MIT */
/* What the files of the soft RNIC share: rnic.c (domains, STags), rnic_qp.c (queue pairs), rnic_cq.c (completion queues). */
#ifndef IWARPD_RNIC_PRIV_H
#define IWARPD_RNIC_PRIV_H

#include "rnic.h"

struct rnic_pd {
	struct prm_user *user;
	unsigned int refs;
	struct prm_bill bill;		/* given back with the last of them */
	struct rnic_pd *next, **pprev;	/* common ones */
};

struct rnic_cq_use {			/* one queue pair at one CQ */
	struct rnic_qp *qp;
	struct rnic_cq_use *next, **pprev;
};

struct rnic_qp {
	struct rnic_qp_attr attr;
	struct rnic_mr *mrs;		/* scoped to it */
	uint64_t stream_id;
	struct rnic_cq_use use[2];	/* of send_cq, of recv_cq */
	struct iw_qp state;
};

/* rnic.c */
enum iw_access_err mr_access(struct rnic_qp *qp, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr);
enum iw_access_err mr_invalidate(struct rnic_qp *qp, uint32_t stag);

/* rnic_cq.c */
int cq_join(struct rnic_cq *cq, struct rnic_cq_use *use, struct rnic_qp *qp, unsigned int entries);
void cq_leave(struct rnic_cq *cq, struct rnic_cq_use *use, unsigned int entries);
void cq_push(struct rnic_cq *cq, struct rnic_qp *qp, const struct iw_cqe *cqe);
bool cq_dead(const struct rnic_cq *cq);

#endif
