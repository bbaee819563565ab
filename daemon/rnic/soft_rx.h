/* SPDX-License-Identifier: MIT */
/* The soft endpoint: from TCP to the queue pair. */
#ifndef IWARPD_SOFT_RX_H
#define IWARPD_SOFT_RX_H

struct soft;

void soft_rx_arm(struct soft *c);	/* receive, unless that is under way or has ended */
void soft_rx_fpdus(struct soft *c);	/* what has come goes to the queue pair */
void soft_rx_eof(struct soft *c);	/* the peer's FIN */

#endif
