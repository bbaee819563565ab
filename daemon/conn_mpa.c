/* SPDX-License-Identifier: MIT */
/* MPA startup of an endpoint: Request, Reply, IRD/ORD and RTR (RFC 5044 7.1, RFC 6581). */
#include <errno.h>
#include <string.h>

#include "conn_priv.h"
#include "log.h"

static void startup_timeout(struct timer *t)
{
	struct conn *c = container_of(t, struct conn, timer);

	log_info("MPA startup timed out");
	conn_fail(c, ETIMEDOUT);
	conn_finish(c, true);
}

static void mpa_bad(struct conn *c, const char *why)
{
	log_warn("MPA startup: %s", why);
	c->q->term = (struct iw_term){ .layer = 2, .code = 4 };		/* MPA-8-01; never sent */
	conn_fail(c, EPROTO);
	conn_finish(c, true);
}

static void frame_send(struct conn *c)
{
	struct io_uring_sqe *sqe = engine_sqe();

	io_uring_prep_send(sqe, c->fd, c->frame + c->frame_off, c->frame_len - c->frame_off, MSG_NOSIGNAL | MSG_WAITALL);
	engine_submit(sqe, &c->send_op);
}

static int frame_put(struct conn *c, const struct iw_mpa_frame *f)
{
	int len = iw_mpa_encode(f, c->frame);

	if (len < 0)
		return len;
	c->frame_len = (size_t)len;
	c->frame_off = 0;
	c->send_op.fn = conn_sent;
	frame_send(c);
	return 0;
}

static unsigned int min_u(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

void conn_attr_default(struct conn_attr *a)
{
	*a = (struct conn_attr){
		.rev = 2, .p2p = true, .crc = conf.crc, .markers = conf.markers,
		.ird = (uint16_t)min_u(conf.max_ird, IW_QP_IRD), .ord = (uint16_t)min_u(conf.max_ord, IW_QP_ORD),
	};
}

void conn_set_attr(struct conn *c, const struct conn_attr *a)
{
	c->has_attr = true;
	c->attr = *a;
}

static struct conn_attr attr_of(const struct conn *c)
{
	struct conn_attr a = c->attr;

	if (!c->has_attr)
		conn_attr_default(&a);
	return a;
}

/* What both frames together settle. Every FPDU of either direction follows from this. */
static void param_common(const struct conn *c, struct iw_qp_param *p)
{
	const struct iw_mpa_frame *mine = c->initiator ? &c->req : &c->rep, *theirs = c->initiator ? &c->rep : &c->req;
	const struct conn_attr a = attr_of(c);

	*p = (struct iw_qp_param){
		.initiator = c->initiator, .crc = mine->crc || theirs->crc, .tx_markers = theirs->markers,
		.rx_markers = mine->markers, .ird = a.ird, .ord = a.ord, .recv_min = 8,
	};
}

/* ---- Initiator ---- */

int conn_initiate(struct conn *c, const uint8_t *pd, size_t pd_len)
{
	const struct conn_attr a = attr_of(c);
	int ret;

	if (c->state != CONN_IDLE || pd_len > IW_MPA_PD_MAX - (a.rev >= 2 ? 4 : 0))
		return -EINVAL;
	conn_prepare(c);
	c->initiator = true;
	c->req = (struct iw_mpa_frame){
		.rev = a.rev, .markers = a.markers, .crc = a.crc, .enhanced = a.rev >= 2, .p2p = a.p2p, .rtr_write = a.p2p,
		.rtr_read = a.p2p, .ird = a.ird, .ord = a.ord, .pd_len = (uint16_t)pd_len,
	};
	if (pd_len)
		memcpy(c->req.pd, pd, pd_len);
	ret = frame_put(c, &c->req);
	if (ret)
		return ret;
	c->state = CONN_WAIT_REPLY;
	timer_start(&c->timer, conf.startup_timeout, startup_timeout);
	conn_arm_recv(c);
	return 0;
}

/* The code of the Terminate when an accepting Reply cannot be lived with, else 0 (wire.md 1: it is then our first FPDU). */
static uint8_t reply_settle(struct conn *c, struct iw_qp_param *p)
{
	const struct iw_mpa_frame *r = &c->rep;
	uint8_t code = 0;

	if (!r->enhanced)
		return 0;
	if (r->ird != IW_MPA_NONEG)
		p->ord = (uint16_t)min_u(p->ord, r->ird);
	if (r->ord != IW_MPA_NONEG && r->ord > p->ird) {
		/* more Reads than we offered to answer: those it named and no others, if the queue pair can */
		if (r->ord > IW_QP_IRD)
			code = 6;
		else
			p->ird = r->ord;
	}
	if (!c->req.p2p)
		return code;
	if (!r->p2p)
		return code ? code : 7;
	if (r->rtr_write)
		p->rtr = 1;
	else if (r->rtr_read && p->ord)
		p->rtr = 2;
	else if (!code)
		code = 7;
	return code;
}

static void reply_received(struct conn *c)
{
	struct iw_qp_param p;
	uint8_t code;

	if (c->rep.reject) {
		conn_fail(c, ECONNREFUSED);
		conn_finish(c, false);
		return;
	}
	if (c->rep.rev != c->req.rev || c->rep.enhanced != c->req.enhanced) {
		mpa_bad(c, "the Reply is of another revision than the Request");
		return;
	}
	param_common(c, &p);
	code = reply_settle(c, &p);
	c->tx_markers = p.tx_markers;
	p.mulpdu = conn_mulpdu(c);
	c->mss_ms = engine_now_ms();
	if (code)
		p.rtr = 0;
	if (conn_open(c, &p)) {
		mpa_bad(c, "the queue pair refuses the parameters");
		return;
	}
	timer_stop(&c->timer);
	if (code)
		iw_qp_terminate(c->q, &rnic_qp_ops, c->qp, 2, 0, code);
	else if (!c->detached)
		c->ops->established(c->ctx, &c->rep);
	conn_poll(c);
	conn_kick(c);
}

/* ---- Responder ---- */

int conn_respond(struct conn *c)
{
	if (c->state != CONN_IDLE)
		return -EINVAL;
	conn_prepare(c);
	c->state = CONN_WAIT_REQUEST;
	timer_start(&c->timer, conf.startup_timeout, startup_timeout);
	conn_arm_recv(c);
	return 0;
}

/*
 * Which RTR we take: all of those offered that we support; when none of them fits, ours, and the Initiator ends it with 2/0/07
 * (requirements 6, row 35). Never a Send: it would eat a buffer that the ULP counts (wire.md 1).
 */
static void reply_rtr(const struct iw_mpa_frame *q, struct iw_mpa_frame *r)
{
	bool none = !q->rtr_write && !q->rtr_read;

	if (!q->p2p)
		return;
	r->p2p = 1;
	r->rtr_write = q->rtr_write || none;
	r->rtr_read = q->rtr_read || none;
}

/* RFC 6581: our ORD answers the Initiator's IRD, our IRD its ORD; all ones is answered by all ones. */
static void reply_make(struct conn *c, struct iw_qp_param *p)
{
	const struct iw_mpa_frame *q = &c->req;
	struct iw_mpa_frame *r = &c->rep;
	const struct conn_attr a = attr_of(c);

	*r = (struct iw_mpa_frame){ .reply = 1, .rev = q->rev, .markers = a.markers, .crc = q->crc || a.crc,
				    .enhanced = q->enhanced };
	param_common(c, p);
	if (!q->enhanced)
		return;
	if (q->ord != IW_MPA_NONEG)
		p->ird = (uint16_t)min_u(p->ird, q->ord);
	if (q->ird != IW_MPA_NONEG)
		p->ord = (uint16_t)min_u(p->ord, q->ird);
	reply_rtr(q, r);
	/* an RTR Read has to be answered even when no other Read is to come */
	if (r->rtr_read && !p->ird)
		p->ird = 1;
	r->ird = q->ord == IW_MPA_NONEG ? IW_MPA_NONEG : p->ird;
	r->ord = q->ird == IW_MPA_NONEG ? IW_MPA_NONEG : p->ord;
}

static int reply_send(struct conn *c, const uint8_t *pd, size_t pd_len)
{
	if (pd_len > IW_MPA_PD_MAX - (c->rep.enhanced ? 4 : 0))
		return -EINVAL;
	c->rep.pd_len = (uint16_t)pd_len;
	if (pd_len)
		memcpy(c->rep.pd, pd, pd_len);
	return frame_put(c, &c->rep);
}

int conn_accept(struct conn *c, const uint8_t *pd, size_t pd_len)
{
	struct iw_qp_param p;
	int ret;

	if (c->state != CONN_DECIDE)
		return -ENOTCONN;
	reply_make(c, &p);
	c->tx_markers = p.tx_markers;
	p.mulpdu = conn_mulpdu(c);
	c->mss_ms = engine_now_ms();
	ret = rnic_qp_start(c->qp, &p);
	if (!ret)
		ret = reply_send(c, pd, pd_len);
	if (ret)
		return ret;
	c->state = CONN_REPLY;
	timer_start(&c->timer, conf.startup_timeout, startup_timeout);
	return 0;
}

int conn_reject(struct conn *c, const uint8_t *pd, size_t pd_len)
{
	struct iw_qp_param p;
	int ret;

	if (c->state != CONN_DECIDE)
		return -ENOTCONN;
	reply_make(c, &p);
	c->rep.reject = 1;
	ret = reply_send(c, pd, pd_len);
	if (!ret)
		c->state = CONN_REPLY;
	return ret;
}

static void request_received(struct conn *c)
{
	timer_stop(&c->timer);
	c->state = CONN_DECIDE;
	if (!c->detached)
		c->ops->request(c->ctx, &c->req);
}

static void reply_sent(struct conn *c)
{
	if (c->rep.reject) {
		conn_fail(c, ECONNREFUSED);
		conn_finish(c, false);
		return;
	}
	c->state = CONN_OPEN;
	if (!c->req.p2p)
		timer_stop(&c->timer);	/* the Initiator may be silent as long as it likes; with RTR it may not */
	if (!c->detached)
		c->ops->established(c->ctx, &c->req);
	if (c->state == CONN_OPEN && c->rx_off < c->rx_len)
		conn_rx_fpdus(c);
	conn_kick(c);
}

/* ---- both ---- */

void conn_mpa_sent(struct conn *c)
{
	if (c->frame_off < c->frame_len)
		frame_send(c);
	else if (c->state == CONN_REPLY)
		reply_sent(c);
	else
		conn_kick(c);
}

void conn_mpa_rx(struct conn *c)
{
	bool reply = c->state == CONN_WAIT_REPLY;
	int used;

	if (c->state == CONN_REPLY) {
		if (c->rep.reject)
			c->rx_off = c->rx_len;
		return;		/* FPDUs already: they wait until the Reply is known to be sent */
	}
	if (c->state != CONN_WAIT_REPLY && c->state != CONN_WAIT_REQUEST) {
		mpa_bad(c, "octets before the Reply");
		return;
	}
	used = iw_mpa_decode(reply ? &c->rep : &c->req, c->rx + c->rx_off, c->rx_len - c->rx_off, reply);
	if (used < 0) {
		mpa_bad(c, reply ? "what came is no Reply" : "what came is no Request");
		return;
	}
	if (!used)
		return;
	c->rx_off += (size_t)used;
	/* before the Reply nothing but the Request, and before our first FPDU nothing but the Reply (RFC 5044 7.1.3) */
	if (c->rx_off != c->rx_len) {
		mpa_bad(c, reply ? "octets behind the Reply" : "octets behind the Request");
		return;
	}
	if (reply)
		reply_received(c);
	else
		request_received(c);
}
