// SPDX-License-Identifier: MIT
/* The soft endpoint: ends what is being sent when the peer has said Terminate. */
#include "soft_cut.h"

#include "soft_priv.h"

/* RDMAP-5.4-06: what is with TCP goes out, and the rest of an FPDU of which TCP has octets; nothing else. */
void soft_cut(struct soft *c)
{
	struct io_uring_sqe *sqe = engine_unsubmitted(&c->send_op);
	struct iw_soft_tx *b = c->s->tx;

	if (!b->used)
		return;
	c->s->cut = 1;
	b[1].used = 0;
	if (!sqe) {
		engine_cancel(&c->send_op);	/* and says how far it came */
		return;
	}
	iw_soft_cut(c->s);
	sqe->len = b->len - b->off;
}
