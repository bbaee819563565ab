/* SPDX-License-Identifier: MIT */
/* The soft endpoint: the end of sending after a Terminate. */
#ifndef IWARPD_SOFT_CUT_H
#define IWARPD_SOFT_CUT_H

struct soft;

void soft_cut(struct soft *c);		/* the peer has said Terminate: send to the end of the FPDU that was begun, no more */

#endif
