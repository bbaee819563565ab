// SPDX-License-Identifier: MIT
/* The soft endpoint: its making, its ends, and what becomes due in between. */
#include "proto/addr.h"
#include "soft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/wire.h"
#include "daemon/base/closing.h"
#include "daemon/base/conf.h"
#include "soft_idle.h"
#include "soft_priv.h"
#include "soft_mpa.h"
#include "soft_qp.h"
#include "soft_rest.h"
#include "soft_rx.h"
#include "soft_tx.h"

static void soft_work(struct work *w);

/* ---- the end ---- */

static void soft_free(struct soft *c)
{
	/* an application's SO_LINGER must not make our close wait */
	struct linger l = { .l_onoff = c->reset, .l_linger = 0 };

	if (c->fd >= 0) {
		if (c->reset && c->shared)
			soft_rest_reset(c);
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
		close_socket(c->fd);	/* and who shares it must not set it again in between */
	}
	timer_stop(&c->timer);
	timer_stop(&c->idle_timer);
	work_cancel(&c->work);
	rnic_qp_destroy(c->qp);
	rnic_cq_destroy(c->cq);
	area_put(c->area);
	endpoint_freed(&c->ep);
	free(c->up);
	free(c);
}

void soft_queue(struct soft *c)
{
	work_queue(&c->work, soft_work);
}

void soft_kick(struct soft *c)
{
	c->tx_wanted = true;
	soft_queue(c);
}

const char *soft_peer(const struct soft *c)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof(ss);
	struct iw_addr a;

	if (c->fd < 0 || getpeername(c->fd, (void *)&ss, &len))
		return "a connection that is gone";
	iw_addr_from_sockaddr(&a, (void *)&ss, len);
	return iw_addr_text(&a);
}

void soft_fail(struct soft *c, int err)
{
	if (c->over)
		return;
	c->over = true;
	c->over_err = err;
	soft_queue(c);
}

void soft_finish(struct soft *c, bool reset)
{
	if (c->state == SOFT_DEAD)
		return;
	c->state = SOFT_DEAD;
	c->reset = reset;
	timer_stop(&c->timer);
	timer_stop(&c->idle_timer);
	engine_cancel(&c->recv_op);
	engine_cancel(&c->send_op);
	soft_queue(c);
}

/* The peer takes nothing, after a Terminate: the kernel would go on trying for minutes. */
static bool stuck(const struct soft *c)
{
	int n = 0;

	return c->s->qp.state == IW_QP_CLOSING && !ioctl(c->fd, SIOCOUTQ, &n) && n;
}

void soft_timeout(struct timer *t)
{
	struct soft *c = container_of(t, struct soft, timer);

	/* after our FIN the peer is only late with its own: the end stays graceful */
	soft_fail(c, c->s->closing && c->s->shut ? 0 : ETIMEDOUT);
	if (c->state == SOFT_OPEN && !c->s->shut)
		rnic_qp_lost(c->qp, ETIMEDOUT);
	soft_finish(c, !c->s->shut || stuck(c));
}

void soft_lost(struct soft *c, int err)
{
	if (err == EPIPE)
		err = ECONNRESET;
	if (c->s->closing && c->s->shut)
		err = 0;	/* everything was sent and the ULP had said good-bye */
	soft_fail(c, err);
	if (c->state == SOFT_OPEN)
		rnic_qp_lost(c->qp, err ? err : ECONNRESET);
	soft_finish(c, true);
}

static void soft_abort(struct endpoint *ep)
{
	struct soft *c = soft_of(ep);

	c->detached = true;
	soft_finish(c, true);
}

static void soft_close(struct endpoint *ep)
{
	struct soft *c = soft_of(ep);

	if (c->s->closing || c->over || c->state == SOFT_DEAD)
		return;
	c->s->closing = 1;
	if (c->state != SOFT_OPEN) {
		soft_fail(c, 0);
		soft_finish(c, true);
		return;
	}
	iw_qp_sq_shut(&c->s->qp);
	timer_start(&c->timer, conf.close_timeout, soft_timeout);
	soft_kick(c);
}

static void soft_detach(struct endpoint *ep)
{
	struct soft *c = soft_of(ep);

	c->detached = true;
	if (!c->over)
		soft_close(ep);
}

static void soft_terminate(struct endpoint *ep)
{
	struct soft *c = soft_of(ep);

	if (c->state != SOFT_OPEN) {
		soft_abort(ep);
		return;
	}
	c->detached = true;
	rnic_qp_terminate(c->qp, IW_TERM_LLP, IW_TERM_LLP_MPA, IW_TERM_MPA_LOCAL);
}

static void soft_unmake(struct endpoint *ep)
{
	soft_of(ep)->fd = -1;
	soft_abort(ep);
}

/* closed(), after the last completion: every work request has exactly one, whichever way it ends (LLP-3-03). */
static void soft_tell(struct soft *c)
{
	bool rejected = c->over_err == ECONNREFUSED && c->initiator && c->up;
	struct endpoint_said said = rejected ? soft_said(&c->up->rep) : (struct endpoint_said){ 0 };

	c->told = true;
	rnic_qp_end(c->qp);
	if (c->detached)
		return;
	c->detached = true;
	c->ep.ulp->closed(c->ep.ctx, c->over_err, rejected ? &said : NULL);
}

static int soft_socket(struct endpoint *ep)
{
	struct soft *c = soft_of(ep);
	int fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);

	c->shared |= fd >= 0;
	return fd;
}

/* Everything that must not happen inside a callback of the protocol engine or of the ULP. */
static void soft_work(struct work *w)
{
	struct soft *c = container_of(w, struct soft, work);

	if (c->rx_wanted) {
		c->rx_wanted = false;
		if (c->state == SOFT_OPEN)
			soft_rx_fpdus(c);
		else if (c->state != SOFT_DEAD)
			soft_startup_rx(c);
		soft_rx_arm(c);
	}
	if (c->tx_wanted) {
		c->tx_wanted = false;
		soft_tx(c);
	}
	if (c->over && !c->told)
		soft_tell(c);
	if (c->still)
		soft_rest_look(c);
	if (c->state == SOFT_DEAD && !c->recv_op.busy && !c->send_op.busy)
		soft_free(c);
}

/* ---- the seam ---- */

static void soft_needs(struct endpoint_needs *n)
{
	*n = (struct endpoint_needs){ .area = sizeof(struct iw_soft) };
	n->bill.n[PRM_READS] = SOFT_READS;
	n->bill.n[PRM_CQES] = SOFT_CQES;
}

static void soft_depths(const struct endpoint *ep, unsigned int *ird, unsigned int *ord)
{
	const struct iw_qp_param *p = soft_param(ep);

	*ird = p->ird;
	*ord = p->ord;
}

static int soft_reg(struct endpoint *ep, void *addr, size_t len, uint64_t to, unsigned int access, struct endpoint_mr *out)
{
	struct soft *c = soft_of(ep);
	struct rnic_mr *mr;
	int ret = out->stag ? rnic_mr_reg_stag(rnic_qp_pd(c->qp), c->qp, addr, len, to, access, out->stag, &mr) :
			      rnic_mr_reg(rnic_qp_pd(c->qp), c->qp, addr, len, to, access, &mr);

	if (!ret)
		*out = (struct endpoint_mr){ .stag = rnic_mr_stag(mr), .to = rnic_mr_to(mr), .handle = mr };
	return ret;
}

static void soft_dereg(struct endpoint *ep, struct endpoint_mr *mr)
{
	rnic_mr_dereg(mr->handle);
}

static int soft_post_send(struct endpoint *ep, const struct iw_wr *wr)
{
	return rnic_post_send(soft_of(ep)->qp, wr);
}

static int soft_post_recv(struct endpoint *ep, uint64_t wr_id, const struct iw_sge *sge)
{
	return rnic_post_recv(soft_of(ep)->qp, wr_id, sge);
}

static unsigned int soft_send_room(const struct endpoint *ep)
{
	return rnic_send_room(soft_of(ep)->qp);
}

void soft_stat_of(const struct iw_qp_stat *q, struct endpoint_stat *s)
{
	*s = (struct endpoint_stat){
		.tx_send = q->tx_send, .rx_send = q->rx_send, .tx_write = q->tx_write, .rx_write = q->rx_write,
		.tx_imm = q->tx_imm, .rx_imm = q->rx_imm, .tx_read = q->tx_read, .rx_read = q->rx_read,
		.tx_rresp = q->tx_rresp, .rx_rresp = q->rx_rresp, .tx_atomic = q->tx_atomic, .rx_atomic = q->rx_atomic,
		.tx_write_octets = q->tx_write_octets, .rx_write_octets = q->rx_write_octets,
		.tx_read_octets = q->tx_read_octets, .rx_read_octets = q->rx_read_octets,
		.tx_fpdu = q->tx_fpdu, .rx_fpdu = q->rx_fpdu, .tx_octets = q->tx_octets, .rx_octets = q->rx_octets,
		.rx_zero_tagged = q->rx_zero_tagged, .rx_tiny = q->rx_tiny,
	};
	static_assert(sizeof(s->tx_size) == sizeof(q->tx_size), "the same sizes");
	memcpy(s->tx_size, q->tx_size, sizeof(s->tx_size));
}

static void soft_stat(const struct endpoint *ep, struct endpoint_stat *s)
{
	soft_stat_of(&soft_of(ep)->s->qp.stat, s);
}

const struct endpoint_ops soft_endpoint = {
	.name = "soft", .caps = ENDPOINT_IMM | ENDPOINT_SENDINV | ENDPOINT_EXPOSE | ENDPOINT_LARGE | ENDPOINT_REST,
	.needs = soft_needs,
	.initiate = soft_initiate, .respond = soft_respond, .accept = soft_accept, .reject = soft_reject,
	.request = soft_request_out, .frame = soft_frame, .go_on = soft_go_on, .large = soft_large,
	.depths = soft_depths, .rest = soft_rest, .resume = soft_resume, .socket = soft_socket, .close = soft_close, .abort = soft_abort, .detach = soft_detach, .terminate = soft_terminate,
	.unmake = soft_unmake, .reg = soft_reg, .dereg = soft_dereg, .post_send = soft_post_send, .post_recv = soft_post_recv,
	.send_room = soft_send_room, .stat = soft_stat,
};

const struct iw_mpa_frame *soft_request(const struct endpoint *ep)
{
	return &soft_of(ep)->up->req;
}

const struct iw_mpa_frame *soft_reply(const struct endpoint *ep)
{
	return &soft_of(ep)->up->rep;
}

const struct iw_qp_param *soft_param(const struct endpoint *ep)
{
	return &soft_of(ep)->s->qp.param;
}

const struct iw_term *soft_term(const struct endpoint *ep)
{
	return &soft_of(ep)->s->qp.term;
}

struct rnic_qp *soft_qp(struct endpoint *ep)
{
	return soft_of(ep)->qp;
}

int soft_fd(const struct endpoint *ep)
{
	return soft_of(ep)->fd;
}

/* ---- making one ---- */

/* The head of the area is ours until we are freed. */
static int take_area(struct soft *c, const struct endpoint_attr *a)
{
	size_t off = a->area ? a->area_off : 0;
	int ret = 0;

	if (a->area && (off % IW_SOFT_PAGE || off > a->area->len || sizeof(struct iw_soft) > a->area->len - off))
		return -EINVAL;
	if (a->area)
		c->area = area_get(a->area);
	else
		ret = area_new(NULL, sizeof(struct iw_soft), &c->area);
	if (ret)
		return ret;
	c->s = (struct iw_soft *)(c->area->mem + off);
	c->s->magic = IW_SOFT_MAGIC;
	c->s->version = IW_SOFT_VERSION;
	c->s->size = sizeof(struct iw_soft);
	return 0;
}

int soft_create_queues(int fd, const struct endpoint_attr *a, const struct soft_queues *q, struct endpoint **out)
{
	struct soft *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	if (!(a->flags & RNIC_GOES_ON) && !(c->up = calloc(1, sizeof(*c->up)))) {
		free(c);
		return -ENOMEM;
	}
	ret = take_area(c, a);
	if (ret)
		goto err;
	ret = soft_qp_make(c, a, q);
	if (ret)
		goto err;
	c->fd = fd;
	if (a->flags & RNIC_GOES_ON)
		soft_rest_adopt(c);
	c->work.turn = &rnic_pd_user(a->pd)->turn;
	endpoint_init(&c->ep, &soft_endpoint, a);
	*out = &c->ep;
	return 0;
err:
	area_put(c->area);
	free(c->up);
	free(c);
	return ret;
}

int soft_create_attr(int fd, const struct endpoint_attr *a, struct endpoint **ep)
{
	return soft_create_queues(fd, a, &(struct soft_queues){ 0 }, ep);
}

int soft_create(int fd, struct rnic_pd *pd, const struct endpoint_ulp *ulp, void *ctx, struct endpoint **ep)
{
	return soft_create_attr(fd, &(struct endpoint_attr){ .pd = pd, .ulp = ulp, .ctx = ctx }, ep);
}
