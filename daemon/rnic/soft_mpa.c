/* SPDX-License-Identifier: MIT */
/* The soft endpoint: MPA startup: Request, Reply, IRD/ORD and RTR (RFC 5044 7.1, RFC 6581). */
#include "soft_mpa.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/wire.h"
#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "soft_priv.h"
#include "soft_rx.h"
#include "soft_tx.h"

static void startup_timeout(struct timer *t)
{
	struct soft *c = container_of(t, struct soft, timer);

	soft_log(c, LOG_INFO, "MPA startup timed out");
	soft_fail(c, ETIMEDOUT);
	soft_finish(c, true);
}

static void mpa_bad(struct soft *c, const char *why)
{
	soft_log(c, LOG_WARNING, "MPA startup: %s", why);
	c->s->qp.term = (struct iw_term){ .layer = IW_TERM_LLP, .code = IW_TERM_MPA_STARTUP };	/* MPA-8-01; never sent */
	soft_fail(c, EPROTO);
	soft_finish(c, true);
}

static void frame_send(struct soft *c)
{
	struct io_uring_sqe *sqe = engine_sqe();

	io_uring_prep_send(sqe, c->fd, c->up->frame + c->up->frame_off, c->up->frame_len - c->up->frame_off, MSG_NOSIGNAL | MSG_WAITALL);
	engine_submit(sqe, &c->send_op);
}

static int frame_put(struct soft *c, const struct iw_mpa_frame *f)
{
	int len = iw_mpa_encode(f, c->up->frame);

	if (len < 0)
		return len;
	c->up->frame_len = (size_t)len;
	c->up->frame_off = 0;
	c->send_op.fn = soft_sent;
	frame_send(c);
	return 0;
}

static unsigned int min_u(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

void soft_mpa_default(struct soft_mpa *a)
{
	*a = (struct soft_mpa){
		.rev = 2, .p2p = true, .crc = conf.crc, .markers = conf.markers,
		.ird = (uint16_t)min_u(conf.max_ird, IW_QP_IRD), .ord = (uint16_t)min_u(conf.max_ord, IW_QP_ORD),
	};
}

void soft_set_mpa(struct endpoint *ep, const struct soft_mpa *a)
{
	struct soft *c = soft_of(ep);

	c->has_mpa = true;
	c->mpa = *a;
}

static struct soft_mpa mpa_of(const struct soft *c)
{
	struct soft_mpa a = c->mpa;

	if (!c->has_mpa)
		soft_mpa_default(&a);
	return a;
}

/* What both frames together settle. Every FPDU of either direction follows from this. */
static void param_common(const struct soft *c, struct iw_qp_param *p)
{
	const struct iw_mpa_frame *mine = c->initiator ? &c->up->req : &c->up->rep, *theirs = c->initiator ? &c->up->rep : &c->up->req;
	const struct soft_mpa a = mpa_of(c);

	*p = (struct iw_qp_param){
		.initiator = c->initiator, .crc = mine->crc || theirs->crc, .tx_markers = theirs->markers,
		.rx_markers = mine->markers, .ird = a.ird, .ord = a.ord, .recv_min = 8,
	};
}

/* Options that the application may have set for itself and that would hold up or split FPDUs. */
static void prepare(struct soft *c)
{
	int fd = c->fd, one = 1, zero = 0;

	engine_file_waits(fd);
	setsockopt(fd, IPPROTO_TCP, TCP_CORK, &zero, sizeof(zero));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
}

struct endpoint_said soft_said(const struct iw_mpa_frame *f)
{
	return (struct endpoint_said){
		.pd = f->pd, .pd_len = f->pd_len, .ranges = f->enhanced, .ird = f->ird, .ord = f->ord, .p2p = f->enhanced && f->p2p,
	};
}

static void established(struct soft *c, const struct iw_mpa_frame *f)
{
	struct endpoint_said said = soft_said(f);

	if (!c->detached)
		c->ep.ulp->established(c->ep.ctx, &said);
}

/* ---- Initiator ---- */

static int request_make(struct soft *c, const void *pd, size_t pd_len)
{
	const struct soft_mpa a = mpa_of(c);

	if (c->state != SOFT_IDLE || pd_len > IW_MPA_PD_MAX - (a.rev >= 2 ? 4 : 0))
		return -EINVAL;
	c->initiator = true;
	c->up->req = (struct iw_mpa_frame){
		.rev = a.rev, .markers = a.markers, .crc = a.crc, .enhanced = a.rev >= 2, .p2p = a.p2p, .rtr_write = a.p2p,
		.rtr_read = a.p2p, .ird = a.ird, .ord = a.ord, .pd_len = (uint16_t)pd_len,
	};
	if (pd_len)
		memcpy(c->up->req.pd, pd, pd_len);
	return 0;
}

int soft_initiate(struct endpoint *ep, const void *pd, size_t pd_len)
{
	struct soft *c = soft_of(ep);
	int ret = request_make(c, pd, pd_len);

	if (ret)
		return ret;
	prepare(c);
	ret = frame_put(c, &c->up->req);
	if (ret)
		return ret;
	c->state = SOFT_WAIT_REPLY;
	timer_start(&c->timer, conf.startup_timeout, startup_timeout);
	soft_rx_arm(c);
	return 0;
}

/* The code of the Terminate when an accepting Reply cannot be lived with, else 0: it is then our first FPDU. */
static uint8_t reply_settle(struct soft *c, struct iw_qp_param *p)
{
	const struct iw_mpa_frame *r = &c->up->rep;
	uint8_t code = 0;

	if (!r->enhanced)
		return 0;
	if (r->ird != IW_MPA_NONEG)
		p->ord = (uint16_t)min_u(p->ord, r->ird);
	if (r->ord != IW_MPA_NONEG && r->ord > p->ird) {
		/* more Reads than we offered to answer: those it named and no others, if the queue pair can */
		if (r->ord > IW_QP_IRD)
			code = IW_TERM_MPA_IRD;
		else
			p->ird = r->ord;
	}
	if (!c->up->req.p2p)
		return code;
	if (!r->p2p)
		return code ? code : IW_TERM_MPA_RTR;
	if (r->rtr_write)
		p->rtr = IW_RTR_WRITE;
	else if (r->rtr_read && p->ord)
		p->rtr = IW_RTR_READ;
	else if (!code)
		code = IW_TERM_MPA_RTR;
	return code;
}

static void reply_received(struct soft *c)
{
	struct iw_qp_param p;
	uint8_t code;

	if (c->up->rep.reject) {
		soft_fail(c, ECONNREFUSED);
		soft_finish(c, false);
		return;
	}
	if (c->up->rep.rev != c->up->req.rev || c->up->rep.enhanced != c->up->req.enhanced) {
		mpa_bad(c, "the Reply is of another revision than the Request");
		return;
	}
	param_common(c, &p);
	code = reply_settle(c, &p);
	p.mulpdu = soft_mulpdu(c, p.tx_markers);
	c->mss_ms = engine_now_ms();
	if (code)
		p.rtr = IW_RTR_NONE;
	if (rnic_qp_start(c->qp, &p)) {
		mpa_bad(c, "the queue pair refuses the parameters");
		return;
	}
	c->state = SOFT_OPEN;
	timer_stop(&c->timer);
	if (code)
		rnic_qp_terminate(c->qp, IW_TERM_LLP, IW_TERM_LLP_MPA, code);
	else
		established(c, &c->up->rep);
	soft_kick(c);
}

/* ---- Responder ---- */

int soft_respond(struct endpoint *ep)
{
	struct soft *c = soft_of(ep);

	if (c->state != SOFT_IDLE)
		return -EINVAL;
	prepare(c);
	c->state = SOFT_WAIT_REQUEST;
	timer_start(&c->timer, conf.startup_timeout, startup_timeout);
	soft_rx_arm(c);
	return 0;
}

/*
 * Which RTR we take: all of those offered that we support; when none of them fits, ours, and the Initiator ends it with 2/0/07
 * (EMPA-9.2-01). Never a Send: it would eat a buffer that the ULP counts.
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
static void reply_make(struct soft *c, struct iw_qp_param *p)
{
	const struct iw_mpa_frame *q = &c->up->req;
	struct iw_mpa_frame *r = &c->up->rep;
	const struct soft_mpa a = mpa_of(c);

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

static int reply_send(struct soft *c, const void *pd, size_t pd_len)
{
	if (pd_len > IW_MPA_PD_MAX - (c->up->rep.enhanced ? 4 : 0))
		return -EINVAL;
	c->up->rep.pd_len = (uint16_t)pd_len;
	if (pd_len)
		memcpy(c->up->rep.pd, pd, pd_len);
	return frame_put(c, &c->up->rep);
}

int soft_accept(struct endpoint *ep, const void *pd, size_t pd_len)
{
	struct soft *c = soft_of(ep);
	struct iw_qp_param p;
	int ret;

	if (c->state != SOFT_DECIDE)
		return -ENOTCONN;
	reply_make(c, &p);
	p.mulpdu = soft_mulpdu(c, p.tx_markers);
	c->mss_ms = engine_now_ms();
	ret = rnic_qp_start(c->qp, &p);
	if (!ret)
		ret = reply_send(c, pd, pd_len);
	if (ret)
		return ret;
	c->state = SOFT_REPLY;
	if (!c->midway)
		timer_start(&c->timer, conf.startup_timeout, startup_timeout);
	return 0;
}

int soft_reject(struct endpoint *ep, const void *pd, size_t pd_len)
{
	struct soft *c = soft_of(ep);
	struct iw_qp_param p;
	int ret;

	if (c->state != SOFT_DECIDE)
		return -ENOTCONN;
	reply_make(c, &p);
	c->up->rep.reject = 1;
	ret = reply_send(c, pd, pd_len);
	if (!ret)
		c->state = SOFT_REPLY;
	return ret;
}

static void request_received(struct soft *c)
{
	struct endpoint_said said;

	timer_stop(&c->timer);
	c->state = SOFT_DECIDE;
	if (c->detached)
		return;
	said = soft_said(&c->up->req);
	c->ep.ulp->request(c->ep.ctx, &said);
}

static void reply_sent(struct soft *c)
{
	if (c->up->rep.reject) {
		soft_fail(c, ECONNREFUSED);
		soft_finish(c, false);
		return;
	}
	c->state = SOFT_OPEN;
	if (!c->up->req.p2p)
		timer_stop(&c->timer);	/* the Initiator may be silent as long as it likes; with RTR it may not */
	established(c, &c->up->req);
	if (c->state == SOFT_OPEN && c->s->rx_off < c->s->rx_len)
		soft_rx_fpdus(c);
	soft_kick(c);
}

/* ---- both ---- */

void soft_startup_sent(struct soft *c)
{
	if (c->up->frame_off < c->up->frame_len)
		frame_send(c);
	else if (c->state == SOFT_REPLY)
		reply_sent(c);
	else
		soft_kick(c);
}

void soft_startup_rx(struct soft *c)
{
	struct iw_soft *s = c->s;
	bool reply = c->state == SOFT_WAIT_REPLY;
	int used;

	if (c->state == SOFT_REPLY) {
		if (c->up->rep.reject)
			s->rx_off = s->rx_len;
		return;		/* FPDUs already: they wait until the Reply is known to be sent */
	}
	if (c->state != SOFT_WAIT_REPLY && c->state != SOFT_WAIT_REQUEST) {
		mpa_bad(c, "octets before the Reply");
		return;
	}
	used = iw_mpa_decode(reply ? &c->up->rep : &c->up->req, s->rx + s->rx_off, s->rx_len - s->rx_off, reply);
	if (used < 0) {
		mpa_bad(c, reply ? "what came is no Reply" : "what came is no Request");
		return;
	}
	if (!used)
		return;
	s->rx_off += (uint32_t)used;
	/* before the Reply nothing but the Request, and before our first FPDU nothing but the Reply (RFC 5044 7.1.3) */
	if (s->rx_off != s->rx_len) {
		mpa_bad(c, reply ? "octets behind the Reply" : "octets behind the Request");
		return;
	}
	if (reply)
		reply_received(c);
	else
		request_received(c);
}

/* ---- in the middle of a connection: its maker has read and written it so far ---- */

static_assert(ENDPOINT_FRAME_MAX >= IW_MPA_FRAME_MAX, "a frame fits");

int soft_request_out(struct endpoint *ep, const void *pd, size_t pd_len, uint8_t out[ENDPOINT_FRAME_MAX])
{
	struct soft *c = soft_of(ep);
	int ret = request_make(c, pd, pd_len);

	if (!ret)
		ret = iw_mpa_encode(&c->up->req, out);
	if (ret < 0)
		return ret;
	c->midway = true;
	c->state = SOFT_WAIT_REPLY;
	return ret;
}

int soft_frame(const struct endpoint *ep, const uint8_t *in, size_t len, bool answer, struct endpoint_frame *out)
{
	struct iw_mpa_frame f;
	int used = iw_mpa_decode(&f, in, len, answer);

	if (used <= 0)
		return used;
	out->pd_len = f.pd_len;
	out->reject = f.reject;
	memcpy(out->pd, f.pd, f.pd_len);
	return used;
}

int soft_go_on(struct endpoint *ep, const uint8_t *frame, size_t len)
{
	struct soft *c = soft_of(ep);

	if (len > IW_SOFT_RX || c->state != (c->midway ? SOFT_WAIT_REPLY : SOFT_IDLE))
		return -EINVAL;
	if (!c->midway)
		c->state = SOFT_WAIT_REQUEST;
	c->midway = true;
	prepare(c);
	memcpy(c->s->rx, frame, len);
	c->s->rx_off = 0;
	c->s->rx_len = (uint32_t)len;
	c->rx_wanted = true;
	soft_queue(c);
	return 0;
}
