/* SPDX-License-Identifier: MIT */
/* The soft endpoint: from the queue pair to TCP. */
#ifndef IWARPD_SOFT_TX_H
#define IWARPD_SOFT_TX_H

#include <stdbool.h>
#include <stdint.h>

struct soft;
struct op;
struct endpoint;

void soft_tx_send(struct soft *c);	/* what is framed, unless that is under way */
void soft_tx(struct soft *c);		/* frame and send what there is; FIN when it was the last and the end is due */
void soft_sent(struct op *op, int res, bool more);	/* of send_op, in the startup too */
/* MULPDU as TCP's EMSS is now (MPA-4.5-02). */
uint16_t soft_mulpdu(const struct soft *c, bool markers);
void soft_large(struct endpoint *ep, bool on);

#endif
