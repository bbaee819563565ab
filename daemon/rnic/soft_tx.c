// SPDX-License-Identifier: MIT
/* The soft endpoint: from the queue pair to TCP. */
#include "soft_tx.h"

#include <errno.h>
#include <poll.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "proto/wire.h"
#include "daemon/base/conf.h"
#include "soft_cut.h"
#include "soft_idle.h"
#include "soft_priv.h"
#include "soft_mpa.h"

#define MSS_INTERVAL_MS	50u	/* how often the EMSS is looked up while sending */

uint16_t soft_mulpdu(const struct soft *c, bool markers)
{
	struct tcp_info ti = { 0 };
	socklen_t len = sizeof(ti);

	if (c->s->large)
		return IW_MULPDU_MAX;
	if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &ti, &len) || !ti.tcpi_snd_mss)
		return iw_mpa_mulpdu(1460, markers);
	return iw_mpa_mulpdu(ti.tcpi_snd_mss, markers);
}

static void follow_emss(struct soft *c)
{
	iw_qp_set_mulpdu(&c->s->qp, soft_mulpdu(c, c->s->qp.param.tx_markers));
}

void soft_large(struct endpoint *ep, bool on)
{
	struct soft *c = soft_of(ep);

	c->s->large = on;
	follow_emss(c);
}

void soft_tx_send(struct soft *c)
{
	const struct iw_soft_tx *b = &c->s->tx[0];
	struct io_uring_sqe *sqe;

	if (c->send_op.busy || c->halts || (c->rests && !c->still) || c->state == SOFT_DEAD)
		return;
	c->send_op.fn = soft_sent;
	sqe = engine_sqe();
	io_uring_prep_send(sqe, c->fd, iw_soft_tx_at(c->s, b) + b->off, b->len - b->off, MSG_NOSIGNAL | MSG_WAITALL);
	engine_submit(sqe, &c->send_op);
}

static void frame(struct soft *c)
{
	/* while other users wait, a second buffer would be sent without asking for another turn */
	unsigned int last = engine_contended() ? 0 : 1;
	struct iw_soft *s = c->s;

	while (!s->tx[last].used && iw_qp_tx_pending(&s->qp)) {
		/* an idle endpoint has touched the first buffer only */
		struct iw_soft_tx b = { .pos = s->qp.tx_pos, .buf = s->tx[0].used ? !s->tx[0].buf : 0, .used = 1 };

		b.len = (uint32_t)rnic_qp_tx(c->qp, s->txbuf[b.buf], IW_SOFT_TX);
		if (!b.len)
			return;
		soft_tx_note(c, b.len);
		s->tx[s->tx[0].used ? 1 : 0] = b;
		soft_tx_send(c);
	}
}

static void shut(struct soft *c)
{
	if (c->s->shut)
		return;
	c->s->shut = 1;
	shutdown(c->fd, SHUT_WR);
	if (c->s->peer_eof) {
		soft_fail(c, 0);
		soft_finish(c, false);
	} else {
		timer_start(&c->timer, conf.close_timeout, soft_timeout);
	}
}

void soft_tx(struct soft *c)
{
	struct iw_soft *s = c->s;

	if (c->state != SOFT_OPEN || s->shut || c->tx_err || c->halts || (c->rests && !c->still))
		return;
	if (!s->large && engine_now_ms() - c->mss_ms >= MSS_INTERVAL_MS) {
		c->mss_ms = engine_now_ms();
		follow_emss(c);
	}
	frame(c);
	if (c->state != SOFT_OPEN || c->rests || s->tx[0].used || iw_qp_tx_pending(&s->qp))
		return;
	/* what waits for the Response of a Read is still to be sent, unless the peer has said its last (DDP-6.2.1-01) */
	if (s->qp.state == IW_QP_CLOSING || (s->closing && (s->peer_eof || iw_qp_sq_framed(&s->qp))))
		shut(c);
}

static void fpdus_sent(struct soft *c, uint32_t n)
{
	struct iw_soft *s = c->s;

	if (n) {
		s->tx[0].off += n;
		rnic_qp_tx_done(c->qp, n);
	}
	if (s->cut)
		iw_soft_cut(s);
	if (s->tx[0].off == s->tx[0].len) {
		s->tx[0] = s->tx[1];
		s->tx[1].used = 0;
	}
	if (s->tx[0].used)
		soft_tx_send(c);
	soft_kick(c);
}

/* Whoever reads comes to the end, after what came ahead of it. */
static bool ends_for_reader(const struct soft *c)
{
	struct pollfd p = { .fd = c->fd };

	return c->state == SOFT_OPEN && !c->rests && (c->recv_op.busy || c->rx_wanted) && poll(&p, 1, 0) == 1 && p.revents & POLLHUP;
}

void soft_sent(struct op *op, int res, bool more)
{
	struct soft *c = container_of(op, struct soft, send_op);

	if (c->state == SOFT_DEAD) {
		soft_queue(c);
		return;
	}
	if (res < 0 && !((c->s->cut || c->halts) && res == -ECANCELED) && !engine_file_again(c->fd, res, &c->spun)) {
		res = res == -EAGAIN ? ECONNRESET : -res;
		if (ends_for_reader(c))
			c->tx_err = res;
		else
			soft_lost(c, res);
		return;
	}
	if (c->up && c->up->frame_off < c->up->frame_len) {
		c->up->frame_off += res > 0 ? (size_t)res : 0;
		soft_startup_sent(c);
		return;
	}
	fpdus_sent(c, res > 0 ? (uint32_t)res : 0);
}
