/* SPDX-License-Identifier: MIT */
/* The STag table, as queue pairs ask it. */
#ifndef IWARPD_MR_PRIV_H
#define IWARPD_MR_PRIV_H

#include "proto/qp.h"

struct rnic_qp;

enum iw_access_err mr_access(struct rnic_qp *qp, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr);
enum iw_access_err mr_invalidate(struct rnic_qp *qp, uint32_t stag);

#endif
