/* SPDX-License-Identifier: MIT */
/* Protection domains, as the RNIC sees them. */
#ifndef IWARPD_PD_PRIV_H
#define IWARPD_PD_PRIV_H

#include "rnic.h"

struct rnic_pd {
	struct prm_user *user;
	uint64_t stream_id;		/* 0: of none */
	unsigned int refs;
	struct prm_bill bill;		/* given back with the last of them */
	struct rnic_pd *next, **pprev;	/* common ones */
};

#endif
