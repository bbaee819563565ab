// SPDX-License-Identifier: MIT
/* The soft endpoint: from TCP to the queue pair. */
#include "soft_rx.h"

#include <errno.h>

#include "soft_idle.h"
#include "soft_priv.h"
#include "soft_mpa.h"

void soft_rx_fpdus(struct soft *c)
{
	struct iw_soft *s = c->s;

	if (c->detached)	/* the ULP's memory for what comes may be gone */
		s->rx_off = s->rx_len;
	s->rx_off += (uint32_t)rnic_qp_rx(c->qp, s->rx + s->rx_off, s->rx_len - s->rx_off);
	soft_kick(c);
}

void soft_rx_eof(struct soft *c)
{
	struct iw_soft *s = c->s;

	s->peer_eof = 1;
	if (c->state != SOFT_OPEN) {
		soft_lost(c, ECONNRESET);
		return;
	}
	rnic_qp_rx_eof(c->qp, s->rx_len - s->rx_off);
	if (c->state == SOFT_DEAD)
		return;
	if (s->shut) {
		soft_fail(c, 0);
		soft_finish(c, false);
	} else if (s->qp.state == IW_QP_TERMINATE || s->qp.state == IW_QP_CLOSING) {
		soft_kick(c);	/* the Terminate goes out first */
	} else if (!s->closing) {
		/* a FIN that nobody announced is what a dead daemon leaves behind; or a RST that the send has taken note of */
		soft_lost(c, ECONNRESET);
	}
}

/* False: not now, it comes back to it. */
static bool octets(struct soft *c, uint32_t n)
{
	c->s->rx_len += n;
	soft_rx_note(c);
	if (c->state == SOFT_OPEN && engine_contended()) {
		c->rx_wanted = true;	/* in its user's turn; only then the next recv */
		soft_queue(c);
		return false;
	}
	if (c->state == SOFT_OPEN)
		soft_rx_fpdus(c);
	else
		soft_startup_rx(c);
	return true;
}

static void received(struct op *op, int res, bool more)
{
	struct soft *c = container_of(op, struct soft, recv_op);

	if (c->state == SOFT_DEAD || c->still)
		soft_queue(c);
	if (c->state == SOFT_DEAD)
		return;
	if (res == -ECANCELED) {
		soft_rx_trim(c);
		soft_rx_arm(c);
		return;
	}
	if (res < 0 && !engine_file_again(c->fd, res, &c->spun))
		soft_lost(c, c->tx_err ? c->tx_err : res == -EAGAIN ? ECONNRESET : -res);
	else if (!res && c->tx_err)
		soft_lost(c, c->tx_err);
	else if (!res)
		soft_rx_eof(c);
	else if (res < 0 || octets(c, (uint32_t)res))
		soft_rx_arm(c);
}

void soft_rx_arm(struct soft *c)
{
	struct iw_soft *s = c->s;
	struct io_uring_sqe *sqe;

	if (c->recv_op.busy || s->peer_eof || c->rests || c->state == SOFT_DEAD)
		return;
	/* the rest of a partial FPDU may not fit any more behind what there is */
	if (s->rx_off == s->rx_len || IW_SOFT_RX - s->rx_len < IW_FPDU_MAX_MARKERS)
		iw_soft_rx_front(s);
	c->recv_op.fn = received;
	sqe = engine_sqe();
	io_uring_prep_recv(sqe, c->fd, s->rx + s->rx_len, IW_SOFT_RX - s->rx_len, 0);
	engine_submit(sqe, &c->recv_op);
}
