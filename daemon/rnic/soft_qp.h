/* SPDX-License-Identifier: MIT */
/* The soft endpoint: its queue pair. */
#ifndef IWARPD_SOFT_QP_H
#define IWARPD_SOFT_QP_H

struct soft;
struct soft_queues;
struct endpoint_attr;

/* Its queue pair on c->s, with completion queues of q's, or of its own. 0 or -errno. */
int soft_qp_make(struct soft *c, const struct endpoint_attr *a, const struct soft_queues *q);

#endif
