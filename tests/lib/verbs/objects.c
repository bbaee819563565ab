// SPDX-License-Identifier: MIT
/* The verbs of a device made up: contexts, domains, memory, completion queues and queue pairs. */
#include "made_up.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VENDOR_SIW	0x626d74

static TAILQ_HEAD(, context) contexts = TAILQ_HEAD_INITIALIZER(contexts);
static TAILQ_HEAD(, mr) mrs = TAILQ_HEAD_INITIALIZER(mrs);
static uint32_t numbers = 0x1000;	/* keys and queue pairs: none comes twice */

static int poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc);
static int req_notify_cq(struct ibv_cq *ibv, int solicited_only);
static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

static void *zalloc(size_t len)
{
	void *p = calloc(1, len);

	if (!p)
		abort();
	return p;
}

/* 0, or what a call that is not to be returns */
static int may(const char *call, const struct ibv_context *ctx)
{
	if (told_fail(call))
		return errno;
	if (ctx && context_is_gone(ctx))
		errno = EIO;
	return ctx && context_is_gone(ctx) ? EIO : 0;
}

static int busy(const char *call, unsigned int users)
{
	if (users)
		note("misuse: %s: in use by %u", call, users);
	return users ? EBUSY : 0;
}

/* ---- devices ---- */

struct context *context_get(void)
{
	char name[IBV_SYSFS_NAME_MAX];
	struct context *c;

	if (!told_device(name))
		return NULL;
	TAILQ_FOREACH (c, &contexts, node)
		if (!c->gone)
			return c;
	c = zalloc(sizeof(*c));
	strcpy(c->dev.name, name);
	c->dev.node_type = IBV_NODE_RNIC;
	c->dev.transport_type = IBV_TRANSPORT_IWARP;
	c->ibv.device = &c->dev;
	c->ibv.cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	c->ibv.num_comp_vectors = 1;
	c->ibv.ops.poll_cq = poll_cq;
	c->ibv.ops.req_notify_cq = req_notify_cq;
	c->ibv.ops.post_send = post_send;
	c->ibv.ops.post_recv = post_recv;
	if (events_init(&c->async))
		abort();
	c->ibv.async_fd = c->async.fd;
	TAILQ_INSERT_TAIL(&contexts, c, node);
	hold(CONTEXT, 1);
	return c;
}

bool context_is_gone(const struct ibv_context *ctx)
{
	return ((const struct context *)ctx)->gone;
}

void context_gone(void)
{
	struct context *c;

	TAILQ_FOREACH (c, &contexts, node) {
		if (c->gone)
			continue;
		c->gone = true;
		note("gone");
		async(&c->ibv, IBV_EVENT_DEVICE_FATAL, NULL);
		ids_gone(&c->ibv);
	}
}

static void context_free(struct context *c)
{
	TAILQ_REMOVE(&contexts, c, node);
	events_fini(&c->async);
	close(c->ibv.cmd_fd);
	free(c);
	hold(CONTEXT, -1);
}

void contexts_fini(void)
{
	while (!TAILQ_EMPTY(&contexts))
		context_free(TAILQ_FIRST(&contexts));
}

int ibv_close_device(struct ibv_context *ctx)
{
	pthread_mutex_lock(&lock);
	context_free((struct context *)ctx);
	pthread_mutex_unlock(&lock);
	return 0;
}

const char *ibv_get_device_name(struct ibv_device *dev)
{
	return dev->name;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	int ret = may("ibv_query_device", ctx);

	*attr = (struct ibv_device_attr){ .vendor_id = told_card() ? 0x1425 : VENDOR_SIW, .max_sge = MOST_SGE, .max_qp = 1024, .max_qp_wr = 32768, .max_cqe = 1 << 18 };
	return ret;
}

void async(struct ibv_context *ctx, enum ibv_event_type type, struct ibv_qp *qp)
{
	struct event *e = zalloc(sizeof(*e));

	e->async.event_type = type;
	if (qp)
		e->async.element.qp = qp;
	else
		e->async.element.port_num = 1;
	events_put(&((struct context *)ctx)->async, e);
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *ev)
{
	struct event *e = events_get(&((struct context *)ctx)->async);

	if (!e)
		return -1;
	*ev = e->async;
	free(e);
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *ev)
{
}

/* ---- domains and memory ---- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct pd *pd;

	if (may("ibv_alloc_pd", ctx))
		return NULL;
	pd = zalloc(sizeof(*pd));
	pd->ibv.context = ctx;
	hold(PD, 1);
	return &pd->ibv;
}

int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	struct pd *pd = (struct pd *)ibv;
	int ret = busy("ibv_dealloc_pd", pd->users);

	if (ret)
		return ret;
	free(pd);
	hold(PD, -1);
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	struct mr *mr;

	if (may("ibv_reg_mr", pd->context))
		return NULL;
	mr = zalloc(sizeof(*mr));
	mr->ibv = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr, .length = len };
	mr->access = access;
	pthread_mutex_lock(&lock);
	mr->ibv.lkey = mr->ibv.rkey = numbers++;
	TAILQ_INSERT_TAIL(&mrs, mr, node);
	pthread_mutex_unlock(&lock);
	((struct pd *)pd)->users++;
	hold(MR, 1);
	return &mr->ibv;
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct mr *mr = (struct mr *)ibv;

	pthread_mutex_lock(&lock);
	TAILQ_REMOVE(&mrs, mr, node);
	pthread_mutex_unlock(&lock);
	((struct pd *)ibv->pd)->users--;
	free(mr);
	hold(MR, -1);
	return 0;
}

struct mr *mr_of(const struct ibv_pd *pd, uint32_t key, uint64_t addr, uint64_t len, int access)
{
	struct mr *mr;

	TAILQ_FOREACH (mr, &mrs, node) {
		uint64_t from = (uintptr_t)mr->ibv.addr;

		if (mr->ibv.lkey == key)
			return mr->ibv.pd == pd && (mr->access & access) == access && addr >= from && len <= mr->ibv.length && addr - from <= mr->ibv.length - len ?
				       mr : NULL;
	}
	return NULL;
}

/* ---- completions ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct channel *ch;

	if (may("ibv_create_comp_channel", ctx))
		return NULL;
	ch = zalloc(sizeof(*ch));
	if (events_init(&ch->events))
		abort();
	ch->ibv.context = ctx;
	ch->ibv.fd = ch->events.fd;
	hold(CHANNEL, 1);
	return &ch->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	struct channel *ch = (struct channel *)ibv;
	int ret = busy("ibv_destroy_comp_channel", (unsigned int)ibv->refcnt);

	if (ret)
		return ret;
	events_fini(&ch->events);
	free(ch);
	hold(CHANNEL, -1);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *context, struct ibv_comp_channel *channel, int vector)
{
	struct cq *cq;

	if (may("ibv_create_cq", ctx))
		return NULL;
	cq = zalloc(sizeof(*cq));
	cq->wc = zalloc((size_t)cqe * sizeof(*cq->wc));
	cq->ibv.context = ctx;
	cq->ibv.channel = channel;
	cq->ibv.cq_context = context;
	cq->ibv.cqe = cqe;
	channel->refcnt++;
	hold(CQ, 1);
	return &cq->ibv;
}

static bool of_cq(const struct event *e, const void *cq)
{
	return e->cq == cq;
}

int ibv_destroy_cq(struct ibv_cq *ibv)
{
	struct cq *cq = (struct cq *)ibv;
	int ret = busy("ibv_destroy_cq", cq->users);

	if (ret)
		return ret;
	if (cq->unacked)
		note("misuse: ibv_destroy_cq waits for ever: %u events are not acknowledged", cq->unacked);
	pthread_mutex_lock(&lock);
	events_drop(&((struct channel *)ibv->channel)->events, of_cq, ibv);
	pthread_mutex_unlock(&lock);
	ibv->channel->refcnt--;
	free(cq->wc);
	free(cq);
	hold(CQ, -1);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	struct event *e = events_get(&((struct channel *)channel)->events);

	if (!e)
		return -1;
	*cq = e->cq;
	*context = e->cq->cq_context;
	((struct cq *)e->cq)->unacked++;
	free(e);
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	((struct cq *)cq)->unacked -= n;
}

static void add(struct cq *cq, const struct ibv_wc *wc)
{
	struct event *e;

	if (cq->head - cq->tail == (unsigned int)cq->ibv.cqe) {
		note("misuse: more completions than their queue has room for");
		return;
	}
	cq->wc[cq->head++ % (unsigned int)cq->ibv.cqe] = *wc;
	if (!cq->armed)
		return;
	cq->armed = false;
	e = zalloc(sizeof(*e));
	e->cq = &cq->ibv;
	events_put(&((struct channel *)cq->ibv.channel)->events, e);
}

/* What an error has besides wr_id, status and qp_num is undefined. */
void complete(struct qp *qp, struct queue *q, enum ibv_wc_status status, uint32_t len)
{
	struct wqe *w = &q->wqe[q->tail++ % q->size];
	bool fails = status == IBV_WC_SUCCESS && told_status(&status);
	struct ibv_wc wc = { .wr_id = w->wr_id, .status = status, .qp_num = qp->ibv.qp_num, .opcode = 0x7f, .byte_len = 0xdeadbeef };

	if (status == IBV_WC_SUCCESS) {
		wc.opcode = q == &qp->rq ? IBV_WC_RECV : w->op == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
		wc.byte_len = q == &qp->rq ? len : 0xdeadbeef;
	}
	add((struct cq *)(q == &qp->rq ? qp->ibv.recv_cq : qp->ibv.send_cq), &wc);
	if (fails)
		wire_lost(qp->id, EIO);
}

static int poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct cq *cq = (struct cq *)ibv;
	int i = 0;

	pthread_mutex_lock(&lock);
	if (told_fail("ibv_poll_cq"))
		i = -1;
	while (i >= 0 && i < n && cq->head != cq->tail)
		wc[i++] = cq->wc[cq->tail++ % (unsigned int)ibv->cqe];
	pthread_mutex_unlock(&lock);
	return i;
}

static struct id *to_sever(const struct ibv_cq *cq)
{
	struct id *id;

	TAILQ_FOREACH (id, &ids, node)
		if (id->ibv.qp && id->ibv.qp->recv_cq == cq && id->heard && id->state == UP && told_once("sever"))
			return id;
	return NULL;
}

static int req_notify_cq(struct ibv_cq *ibv, int solicited_only)
{
	struct cq *cq = (struct cq *)ibv;
	struct id *id;
	int ret = 0;

	pthread_mutex_lock(&lock);
	if (told_fail("ibv_req_notify_cq"))
		ret = errno;
	else
		cq->armed = true;
	id = cq->head == cq->tail ? to_sever(ibv) : NULL;
	if (id) {
		id->severed = true;
		wire_lost(id, ECONNRESET);
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

/* ---- queue pairs ---- */

int qp_new(struct id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct qp *qp;

	if (attr->cap.max_send_sge > MOST_SGE || attr->cap.max_recv_sge != 1 || attr->qp_type != IBV_QPT_RC || !attr->sq_sig_all || attr->cap.max_inline_data) {
		errno = EINVAL;
		return -1;
	}
	qp = zalloc(sizeof(*qp));
	qp->sq.size = attr->cap.max_send_wr;
	qp->rq.size = attr->cap.max_recv_wr;
	qp->sq.wqe = zalloc(qp->sq.size * sizeof(struct wqe));
	qp->rq.wqe = zalloc(qp->rq.size * sizeof(struct wqe));
	qp->max_sge = attr->cap.max_send_sge;
	qp->id = id;
	qp->ibv.context = pd->context;
	qp->ibv.qp_context = attr->qp_context;
	qp->ibv.pd = pd;
	qp->ibv.send_cq = attr->send_cq;
	qp->ibv.recv_cq = attr->recv_cq;
	qp->ibv.qp_num = numbers++;
	qp->ibv.state = IBV_QPS_INIT;
	qp->ibv.qp_type = attr->qp_type;
	((struct cq *)attr->send_cq)->users++;
	((struct cq *)attr->recv_cq)->users++;
	((struct pd *)pd)->users++;
	id->ibv.qp = &qp->ibv;
	hold(QP, 1);
	return 0;
}

static bool of_qp(const struct event *e, const void *qp)
{
	return e->async.event_type != IBV_EVENT_DEVICE_FATAL && e->async.element.qp == qp;
}

void qp_free(struct qp *qp)
{
	events_drop(&((struct context *)qp->ibv.context)->async, of_qp, qp);
	((struct cq *)qp->ibv.send_cq)->users--;
	((struct cq *)qp->ibv.recv_cq)->users--;
	((struct pd *)qp->ibv.pd)->users--;
	free(qp->sq.wqe);
	free(qp->rq.wqe);
	free(qp);
	hold(QP, -1);
}

void qp_error(struct qp *qp)
{
	qp->ibv.state = IBV_QPS_ERR;
	while (qp->sq.head != qp->sq.tail)
		complete(qp, &qp->sq, IBV_WC_WR_FLUSH_ERR, 0);
	while (qp->rq.head != qp->rq.tail)
		complete(qp, &qp->rq, IBV_WC_WR_FLUSH_ERR, 0);
}

static int post(struct qp *qp, struct queue *q, const struct wqe *w)
{
	if (q->head - q->tail == q->size)
		return ENOMEM;
	q->wqe[q->head++ % q->size] = *w;
	if (qp->ibv.state == IBV_QPS_ERR)
		complete(qp, q, IBV_WC_WR_FLUSH_ERR, 0);
	return 0;
}

/* No Immediate Data, nothing inline, no Reads: of this device nobody is to want any. An iWARP responder sends when it was sent something. */
static int send_one(struct qp *qp, const struct ibv_send_wr *wr)
{
	struct wqe w = { .wr_id = wr->wr_id, .op = wr->opcode, .nsge = wr->num_sge, .solicited = wr->send_flags & IBV_SEND_SOLICITED };

	if (qp->ibv.state != IBV_QPS_RTS && qp->ibv.state != IBV_QPS_ERR)
		return EINVAL;
	if ((wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_RDMA_WRITE) || wr->send_flags & ~(unsigned int)(IBV_SEND_SOLICITED | IBV_SEND_SIGNALED) ||
	    wr->num_sge > (int)qp->max_sge) {
		note("misuse: ibv_post_send: opcode %d, flags %#x, %d parts", wr->opcode, wr->send_flags, wr->num_sge);
		return EINVAL;
	}
	if (qp->id->passive && !qp->id->heard && qp->ibv.state == IBV_QPS_RTS)
		note("misuse: who was dialled sends first");
	memcpy(w.sge, wr->sg_list, (size_t)wr->num_sge * sizeof(w.sge[0]));
	if (wr->opcode == IBV_WR_RDMA_WRITE) {
		w.raddr = wr->wr.rdma.remote_addr;
		w.rkey = wr->wr.rdma.rkey;
	}
	return post(qp, &qp->sq, &w);
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int ret = 0;

	pthread_mutex_lock(&lock);
	if (told_fail("ibv_post_send"))
		ret = errno;
	for (; wr && !ret; wr = ret ? wr : wr->next)
		ret = send_one((struct qp *)ibv, wr);
	*bad = wr;
	wire_kick();
	pthread_mutex_unlock(&lock);
	return ret;
}

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int ret = 0;

	pthread_mutex_lock(&lock);
	if (told_fail("ibv_post_recv"))
		ret = errno;
	for (; wr && !ret; wr = ret ? wr : wr->next) {
		struct wqe w = { .wr_id = wr->wr_id, .nsge = 1, .sge[0] = wr->sg_list[0] };

		ret = wr->num_sge == 1 ? post((struct qp *)ibv, &((struct qp *)ibv)->rq, &w) : EINVAL;
	}
	*bad = wr;
	pthread_mutex_unlock(&lock);
	return ret;
}

/* ---- names ---- */

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	static char text[32];

	snprintf(text, sizeof(text), "status %d", status);
	return text;
}

const char *ibv_event_type_str(enum ibv_event_type type)
{
	static char text[32];

	snprintf(text, sizeof(text), "event %d", type);
	return text;
}
