/* SPDX-License-Identifier: MIT */
/* A queue pair on a TCP socket: moves octets between the protocol engine and io_uring, and ends connections properly. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "closing.h"
#include "conn_priv.h"
#include "log.h"

#define MSS_INTERVAL_MS	50u	/* how often the EMSS is looked up while sending */
#define TX_POOL_MAX	16u	/* idle transmit buffers kept */

static struct {
	struct conn_txbuf *free;
	unsigned int nfree;
} pool;
static unsigned int nconns;

static void conn_work(struct work *w);
static void conn_send(struct conn *c);

static struct conn_txbuf *txbuf_get(void)
{
	struct conn_txbuf *b = pool.free;

	if (b) {
		pool.free = b->next;
		pool.nfree--;
		return b;
	}
	b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return b == MAP_FAILED ? NULL : b;
}

void conn_txbuf_put(struct conn_txbuf *b)
{
	if (!b)
		return;
	if (pool.nfree >= TX_POOL_MAX) {
		munmap(b, sizeof(*b));
		return;
	}
	b->next = pool.free;
	pool.free = b;
	pool.nfree++;
}

/* ---- the end ---- */

static void conn_free(struct conn *c)
{
	/* an application's SO_LINGER must not make our close wait */
	struct linger l = { .l_onoff = c->reset, .l_linger = 0 };

	if (c->fd >= 0) {
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
		close_socket(c->fd);	/* and who shares it must not set it again in between */
	}
	timer_stop(&c->timer);
	timer_stop(&c->rx_timer);
	work_cancel(&c->work);
	conn_txbuf_put(c->tx[0]);
	conn_txbuf_put(c->tx[1]);
	rnic_qp_destroy(c->qp);
	rnic_cq_destroy(c->cq);
	munmap(c->rx, CONN_RX_LEN);
	if (c->counter)
		--*c->counter;
	free(c);
	nconns--;
}

void conn_fail(struct conn *c, int err)
{
	if (c->over)
		return;
	c->over = true;
	c->over_err = err;
	work_queue(&c->work, conn_work);
}

void conn_finish(struct conn *c, bool reset)
{
	if (c->state == CONN_DEAD)
		return;
	c->state = CONN_DEAD;
	c->reset = reset;
	timer_stop(&c->timer);
	timer_stop(&c->rx_timer);
	engine_cancel(&c->recv_op);
	engine_cancel(&c->send_op);
	work_queue(&c->work, conn_work);
}

static void conn_timeout(struct timer *t)
{
	struct conn *c = container_of(t, struct conn, timer);

	/* after our FIN the peer is only late with its own: the end stays graceful */
	conn_fail(c, c->closing && c->shut ? 0 : ETIMEDOUT);
	if (c->state == CONN_OPEN && !c->shut) {
		iw_qp_lost(c->q, &rnic_qp_ops, c->qp, ETIMEDOUT);
		conn_poll(c);
	}
	conn_finish(c, !c->shut);
}

static void conn_shut(struct conn *c)
{
	if (c->shut)
		return;
	c->shut = true;
	shutdown(c->fd, SHUT_WR);
	if (c->peer_eof) {
		conn_fail(c, 0);
		conn_finish(c, false);
	} else {
		timer_start(&c->timer, conf.close_timeout, conn_timeout);
	}
}

/* The TCP connection itself is lost, or ended in a way that leaves nothing to say. */
static void conn_lost(struct conn *c, int err)
{
	if (err == EPIPE)
		err = ECONNRESET;
	if (c->closing && c->shut)
		err = 0;	/* everything was sent and the ULP had said good-bye */
	conn_fail(c, err);
	if (c->state == CONN_OPEN) {
		iw_qp_lost(c->q, &rnic_qp_ops, c->qp, err ? err : ECONNRESET);
		conn_poll(c);
	}
	conn_finish(c, true);
}

void conn_abort(struct conn *c)
{
	c->detached = true;
	conn_finish(c, true);
}

void conn_detach(struct conn *c)
{
	c->detached = true;
	if (!c->over)
		conn_close(c);
}

void conn_terminate(struct conn *c, uint8_t layer, uint8_t etype, uint8_t code)
{
	if (c->state != CONN_OPEN) {
		conn_abort(c);
		return;
	}
	c->detached = true;
	iw_qp_terminate(c->q, &rnic_qp_ops, c->qp, layer, etype, code);
	conn_poll(c);
}

void conn_close(struct conn *c)
{
	if (c->closing || c->over || c->state == CONN_DEAD)
		return;
	c->closing = true;
	if (c->state != CONN_OPEN) {
		conn_fail(c, 0);
		conn_finish(c, true);
		return;
	}
	iw_qp_sq_shut(c->q);
	timer_start(&c->timer, conf.close_timeout, conn_timeout);
	conn_kick(c);
}

/* ---- transmit ---- */

uint16_t conn_mulpdu(const struct conn *c)
{
	struct tcp_info ti = { 0 };
	socklen_t len = sizeof(ti);

	if (c->large)
		return 64768;
	if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &ti, &len) || !ti.tcpi_snd_mss)
		return iw_mpa_mulpdu(1460, c->tx_markers);
	return iw_mpa_mulpdu(ti.tcpi_snd_mss, c->tx_markers);
}

void conn_large_fpdu(struct conn *c, bool on)
{
	c->large = on;
	iw_qp_set_mulpdu(c->q, conn_mulpdu(c));
}

static void conn_frame(struct conn *c)
{
	/* while other users wait, a second buffer would be sent without asking for another turn */
	unsigned int last = engine_contended() ? 0 : 1;

	while (!c->tx[last] && iw_qp_tx_pending(c->q)) {
		struct conn_txbuf *b = txbuf_get();

		if (!b) {
			conn_lost(c, ENOBUFS);
			return;
		}
		b->off = 0;
		b->pos = c->q->tx_pos;
		b->len = iw_qp_tx(c->q, &rnic_qp_ops, c->qp, b->data, sizeof(b->data), 0);
		conn_poll(c);
		if (!b->len) {
			conn_txbuf_put(b);
			return;
		}
		if (!c->tx[0])
			c->tx[0] = b;
		else
			c->tx[1] = b;
		conn_send(c);
	}
}

static void conn_tx(struct conn *c)
{
	if (c->state != CONN_OPEN || c->shut)
		return;
	if (!c->large && engine_now_ms() - c->mss_ms >= MSS_INTERVAL_MS) {
		c->mss_ms = engine_now_ms();
		iw_qp_set_mulpdu(c->q, conn_mulpdu(c));
	}
	conn_frame(c);
	if (c->state != CONN_OPEN || c->tx[0] || iw_qp_tx_pending(c->q))
		return;
	/* what waits for the Response of a Read is still to be sent, unless the peer has said its last (DDP-6.2.1-01) */
	if (c->q->state == IW_QP_CLOSING || (c->closing && (c->peer_eof || iw_qp_sq_framed(c->q))))
		conn_shut(c);
}

void conn_kick(struct conn *c)
{
	c->tx_wanted = true;
	work_queue(&c->work, conn_work);
}

/* closed(), after the last completion: every work request has exactly one, whichever way it ends (LLP-3-03). */
static void conn_tell(struct conn *c)
{
	c->told = true;
	iw_qp_end(c->q, &rnic_qp_ops, c->qp);
	conn_poll(c);
	if (c->detached)
		return;
	c->detached = true;
	c->ops->closed(c->ctx, c->over_err, c->over_err == ECONNREFUSED && c->initiator ? &c->rep : NULL);
}

/* Everything that must not happen inside a callback of the protocol engine or of the ULP. */
static void conn_work(struct work *w)
{
	struct conn *c = container_of(w, struct conn, work);

	if (c->rx_wanted) {
		c->rx_wanted = false;
		if (c->state == CONN_OPEN) {
			conn_rx_fpdus(c);
			conn_arm_recv(c);
		}
	}
	conn_poll(c);
	if (c->tx_wanted) {
		c->tx_wanted = false;
		conn_tx(c);
	}
	if (c->over && !c->told)
		conn_tell(c);
	if (c->state == CONN_DEAD && !c->recv_op.busy && !c->send_op.busy)
		conn_free(c);
}

void conn_sent(struct op *op, int res, bool more)
{
	struct conn *c = container_of(op, struct conn, send_op);
	struct conn_txbuf *b = c->tx[0];

	if (c->state == CONN_DEAD) {
		work_queue(&c->work, conn_work);
		return;
	}
	if (res < 0 && res != -EINTR && res != -EAGAIN && !(c->cut && res == -ECANCELED)) {
		conn_lost(c, -res);
		return;
	}
	if (c->frame_off < c->frame_len) {
		c->frame_off += res > 0 ? (size_t)res : 0;
		conn_mpa_sent(c);
		return;
	}
	if (res > 0) {
		b->off += (size_t)res;
		iw_qp_tx_done(c->q, &rnic_qp_ops, c->qp, (size_t)res);
		conn_poll(c);
	}
	if (c->cut)
		conn_cut_buf(c);
	if (b->off == b->len) {
		conn_txbuf_put(b);
		c->tx[0] = c->tx[1];
		c->tx[1] = NULL;
	}
	if (c->tx[0])
		conn_send(c);
	conn_kick(c);
}

static void conn_send(struct conn *c)
{
	struct io_uring_sqe *sqe;

	if (c->send_op.busy || c->state == CONN_DEAD)
		return;
	c->send_op.fn = conn_sent;
	sqe = engine_sqe();
	io_uring_prep_send(sqe, c->fd, c->tx[0]->data + c->tx[0]->off, c->tx[0]->len - c->tx[0]->off,
			   MSG_NOSIGNAL | MSG_WAITALL);
	engine_submit(sqe, &c->send_op);
}

/* ---- receive ---- */

void conn_rx_fpdus(struct conn *c)
{
	if (c->detached)	/* the ULP's memory for what comes may be gone */
		c->rx_off = c->rx_len;
	c->rx_off += iw_qp_rx(c->q, &rnic_qp_ops, c->qp, c->rx + c->rx_off, c->rx_len - c->rx_off);
	conn_poll(c);
	conn_kick(c);
}

static void conn_eof(struct conn *c)
{
	c->peer_eof = true;
	if (c->state != CONN_OPEN) {
		conn_lost(c, ECONNRESET);
		return;
	}
	iw_qp_rx_eof(c->q, &rnic_qp_ops, c->qp, c->rx_len - c->rx_off);
	conn_poll(c);
	if (c->state == CONN_DEAD)
		return;
	if (c->shut) {
		conn_fail(c, 0);
		conn_finish(c, false);
	} else if (c->q->state == IW_QP_TERMINATE || c->q->state == IW_QP_CLOSING) {
		conn_kick(c);	/* the Terminate goes out first */
	} else if (!c->closing) {
		/* a FIN that nobody announced is what a dead daemon leaves behind; or a RST that the send has taken note of */
		conn_lost(c, ECONNRESET);
	}
}

static void conn_received(struct op *op, int res, bool more)
{
	struct conn *c = container_of(op, struct conn, recv_op);

	if (c->state == CONN_DEAD) {
		work_queue(&c->work, conn_work);
		return;
	}
	if (res == -ECANCELED) {
		conn_rx_trim(c);
		conn_arm_recv(c);
		return;
	}
	if (res < 0 && res != -EINTR && res != -EAGAIN) {
		conn_lost(c, -res);
		return;
	}
	if (!res) {
		conn_eof(c);
		return;
	}
	if (res > 0) {
		c->rx_len += (size_t)res;
		conn_rx_note(c);
		if (c->state == CONN_OPEN && engine_contended()) {
			c->rx_wanted = true;	/* in its user's turn; only then the next recv */
			work_queue(&c->work, conn_work);
			return;
		}
		if (c->state == CONN_OPEN)
			conn_rx_fpdus(c);
		else
			conn_mpa_rx(c);
	}
	conn_arm_recv(c);
}

void conn_rx_front(struct conn *c)
{
	if (c->rx_off)
		memmove(c->rx, c->rx + c->rx_off, c->rx_len - c->rx_off);
	c->rx_len -= c->rx_off;
	c->rx_off = 0;
}

void conn_arm_recv(struct conn *c)
{
	struct io_uring_sqe *sqe;

	if (c->recv_op.busy || c->peer_eof || c->state == CONN_DEAD)
		return;
	/* the rest of a partial FPDU may not fit any more behind what there is */
	if (c->rx_off == c->rx_len || CONN_RX_LEN - c->rx_len < IW_FPDU_MAX_MARKERS)
		conn_rx_front(c);
	c->recv_op.fn = conn_received;
	sqe = engine_sqe();
	io_uring_prep_recv(sqe, c->fd, c->rx + c->rx_len, CONN_RX_LEN - c->rx_len, 0);
	engine_submit(sqe, &c->recv_op);
}

/* ---- the queue pair speaks ---- */

void conn_poll(struct conn *c)
{
	struct rnic_wc wc[16];
	int n;

	if (!c->cq || c->polling)
		return;
	c->polling = true;
	while ((n = rnic_cq_poll(c->cq, wc, 16)) > 0) {
		for (int i = 0; i < n && !c->detached; i++)
			c->ops->complete(c->ctx, &wc[i].cqe);
	}
	c->polling = false;
}

/* What comes from inside the protocol engine is told in its place among the completions. */
static void on_invalidated(void *ctx, uint32_t stag)
{
	struct conn *c = ctx;

	conn_poll(c);
	if (!c->detached && c->ops->invalidated)
		c->ops->invalidated(c->ctx, stag);
}

static void terminate_log(const struct conn *c, const char *what)
{
	const struct iw_term *t = &c->q->term;

	log_warn("Terminate %s: layer %u, type %u, code 0x%02x (%s)%s", what, t->layer, t->etype, t->code,
		 iw_term_text(t->layer, t->etype, t->code), t->cut || t->bad ? ", malformed" : "");
}

static void on_event(void *ctx, enum iw_qp_event ev)
{
	struct conn *c = ctx;

	conn_poll(c);
	if (!c->detached && c->ops->event)
		c->ops->event(c->ctx, ev);
	switch (ev) {
	case IW_QP_EV_FIRST_FPDU:
		if (!c->closing)
			timer_stop(&c->timer);
		break;
	case IW_QP_EV_TERM_SENT:
	case IW_QP_EV_TERM_RECEIVED:
		terminate_log(c, ev == IW_QP_EV_TERM_SENT ? "sent" : "received");
		conn_fail(c, EPROTO);
		timer_start(&c->timer, conf.close_timeout, conn_timeout);
		if (ev == IW_QP_EV_TERM_RECEIVED)
			conn_cut(c);
		conn_kick(c);
		break;
	case IW_QP_EV_LOST:
		conn_fail(c, c->q->err && c->q->err != EPROTO ? c->q->err : ECONNRESET);
		conn_finish(c, true);
		break;
	case IW_QP_EV_EOF:
		break;	/* conn_eof() decides */
	}
}

int conn_open(struct conn *c, const struct iw_qp_param *p)
{
	int ret = rnic_qp_start(c->qp, p);

	if (!ret)
		c->state = CONN_OPEN;
	return ret;
}

/* ---- making one ---- */

/* Options that the application may have set for itself and that would hold up or split FPDUs. */
void conn_prepare(struct conn *c)
{
	int fd = c->fd, one = 1, zero = 0, fl = fcntl(fd, F_GETFL);

	/* io_uring waits by itself only on sockets without O_NONBLOCK */
	fcntl(fd, F_SETFL, fl & ~O_NONBLOCK);
	setsockopt(fd, IPPROTO_TCP, TCP_CORK, &zero, sizeof(zero));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
}

static void on_posted(void *ctx)
{
	conn_kick(ctx);
}

/*
 * The conn's own completion queue has twice the room that its work requests need: its callbacks post anew what they have just been given,
 * while the rest of a batch, and what a flush brings, is still in it.
 */
static int make_qp(struct conn *c, struct rnic_pd *pd, const struct conn_queues *q)
{
	const struct rnic_cq_attr cq = { .size = CONN_CQES, .flags = q->flags };
	struct rnic_qp_attr attr = {
		.pd = pd, .send_cq = q->send_cq, .recv_cq = q->recv_cq, .max_send = q->max_send, .max_recv = q->max_recv,
		.max_reads = CONN_READS, .flags = q->flags, .event = on_event, .invalidated = on_invalidated, .posted = on_posted, .ctx = c,
	};
	int ret;

	if (!q->send_cq) {
		ret = rnic_cq_create(pd, &cq, &c->cq);
		if (ret)
			return ret;
		attr.send_cq = attr.recv_cq = c->cq;
	}
	ret = rnic_qp_create(&attr, &c->qp);
	if (ret)
		rnic_cq_destroy(c->cq);
	return ret;
}

int conn_create_queues(int fd, struct rnic_pd *pd, const struct conn_queues *q, const struct conn_ops *ops, void *ctx, struct conn **out)
{
	struct conn *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	c->rx = mmap(NULL, CONN_RX_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c->rx == MAP_FAILED) {
		ret = -ENOMEM;
		goto err_conn;
	}
	ret = make_qp(c, pd, q);
	if (ret)
		goto err_rx;
	c->q = rnic_qp_state(c->qp);
	c->fd = fd;
	c->ops = ops;
	c->ctx = ctx;
	c->work.turn = &rnic_pd_user(pd)->turn;
	nconns++;
	*out = c;
	return 0;
err_rx:
	munmap(c->rx, CONN_RX_LEN);
err_conn:
	free(c);
	return ret;
}

int conn_create(int fd, struct rnic_pd *pd, const struct conn_ops *ops, void *ctx, struct conn **conn)
{
	return conn_create_queues(fd, pd, &(struct conn_queues){ 0 }, ops, ctx, conn);
}

void conn_unwrap(struct conn *c)
{
	c->fd = -1;
	conn_abort(c);
}

struct rnic_qp *conn_qp(struct conn *c)
{
	return c->qp;
}

int conn_fd(const struct conn *c)
{
	return c->fd;
}

void conn_depths(const struct conn *c, unsigned int *ird, unsigned int *ord)
{
	*ird = c->q->param.ird;
	*ord = c->q->param.ord;
}

void conn_counted(struct conn *c, unsigned int *n)
{
	c->counter = n;
	++*n;
}

unsigned int conn_count(void)
{
	return nconns;
}

const struct iw_qp_stat *conn_stat(struct conn *c)
{
	return &c->q->stat;
}
