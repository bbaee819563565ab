/* SPDX-License-Identifier: MIT */
/* The soft endpoint: memory that is given back. */
#ifndef IWARPD_SOFT_IDLE_H
#define IWARPD_SOFT_IDLE_H

#include <stddef.h>

struct soft;

void soft_rx_note(struct soft *c);		/* octets came, */
void soft_tx_note(struct soft *c, size_t len);	/* so many were framed */
void soft_idle_note(struct soft *c);		/* it looks when it has been quiet */
void soft_rx_trim(struct soft *c);		/* give pages back; nothing may be in flight on the receive buffer */

#endif
