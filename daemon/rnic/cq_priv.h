/* SPDX-License-Identifier: MIT */
/* Completion queues, as queue pairs see them. */
#ifndef IWARPD_CQ_PRIV_H
#define IWARPD_CQ_PRIV_H

#include "rnic.h"

struct rnic_cq_use {			/* one queue pair at one CQ */
	struct rnic_qp *qp;
	struct rnic_cq_use *next, **pprev;
};

int cq_join(struct rnic_cq *cq, struct rnic_cq_use *use, struct rnic_qp *qp, unsigned int entries);
void cq_leave(struct rnic_cq *cq, struct rnic_cq_use *use, unsigned int entries);
void cq_push(struct rnic_cq *cq, struct rnic_qp *qp, const struct iw_cqe *cqe);
bool cq_dead(const struct rnic_cq *cq);

#endif
