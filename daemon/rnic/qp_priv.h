/* SPDX-License-Identifier: MIT */
/* Queue pairs, as the rest of the RNIC sees them. */
#ifndef IWARPD_QP_PRIV_H
#define IWARPD_QP_PRIV_H

#include "cq_priv.h"
#include "rnic.h"

struct rnic_qp {
	struct rnic_qp_attr attr;
	struct rnic_mr *mrs;		/* scoped to it */
	struct rnic_cq_use use[2];	/* of send_cq, of recv_cq */
	struct iw_qp *state;		/* attr.state, or of its own */
};

#endif
