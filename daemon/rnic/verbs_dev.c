// SPDX-License-Identifier: MIT
/* Devices under verbs endpoints: the two libraries, what a device tells of itself, queue pairs, and memory that is registered there. */
#include "verbs_priv.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct verbs_lib verbs_lib;

#define VENDOR_SIW	0x626d74u

static struct list devs = { &devs, &devs };

static struct {
	int state;		/* 0 not loaded, 1 loaded, else -errno */
	void *ibv, *cm;
} lib;

/* They are there where it was built, and may not be where it runs. */
static int load(void)
{
	lib.ibv = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	lib.cm = lib.ibv ? dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL) : NULL;
	if (!lib.cm) {
		log_warn("provider: %s; connections are carried without a device", dlerror());
		return -ENOSYS;
	}
#define X(f) \
	verbs_lib.f = (typeof(verbs_lib.f))dlsym(strncmp(#f, "rdma", 4) ? lib.ibv : lib.cm, #f); \
	if (!verbs_lib.f) { \
		log_warn("provider: librdmacm and libibverbs have no " #f "; connections are carried without a device"); \
		return -ENOSYS; \
	}
	VERBS_CALLS(X)
#undef X
	return 1;
}

int verbs_load(void)
{
	if (!lib.state)
		lib.state = load();
	return lib.state < 0 ? lib.state : 0;
}

/* librdmacm opens each device once, and some versions leave it so. */
#define OPENED	64u
static struct ibv_context *opened[OPENED];

static void note_opened(struct ibv_context *ctx)
{
	unsigned int i = 0;

	while (i < OPENED - 1 && opened[i] && opened[i] != ctx)
		i++;
	opened[i] = ctx;
}

static bool is_open(int fd)
{
	char path[64], to[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, to, sizeof(to) - 1) > 0 && !strncmp(to, "/dev/infiniband/uverbs", 22);
}

void verbs_unload(void)
{
	int fd[OPENED];

	for (unsigned int i = 0; i < OPENED && opened[i]; i++)
		fd[i] = opened[i]->cmd_fd;
	dlclose(lib.cm);
	for (unsigned int i = 0; i < OPENED && opened[i]; i++) {
		if (is_open(fd[i]))
			verbs_lib.ibv_close_device(opened[i]);
		opened[i] = NULL;
	}
	dlclose(lib.ibv);
	lib.state = 0;
}

/* ---- devices in use ---- */

static void dev_free(struct verbs_dev *d)
{
	if (d->dead && !d->comp_op.busy && !d->async_op.busy)
		free(d);
}

static void watch(struct op *op, int fd, op_fn fn)
{
	struct io_uring_sqe *sqe = engine_sqe();

	op->fn = fn;
	io_uring_prep_poll_add(sqe, fd, POLLIN);
	engine_submit(sqe, op);
}

static void completed(struct op *op, int res, bool more)
{
	struct verbs_dev *d = container_of(op, struct verbs_dev, comp_op);
	struct ibv_cq *cq;
	void *ctx;

	if (d->dead) {
		dev_free(d);
		return;
	}
	while (!verbs_lib.ibv_get_cq_event(d->channel, &cq, &ctx)) {
		struct verbs *v = ctx;

		verbs_lib.ibv_ack_cq_events(cq, 1);
		v->poll = true;
		verbs_kick(v);
	}
	watch(op, d->channel->fd, completed);
}

/* What concerns a connection is told by its completions and by rdma_cm, the loss of the device, too. */
static void happened(struct op *op, int res, bool more)
{
	struct verbs_dev *d = container_of(op, struct verbs_dev, async_op);
	struct ibv_async_event ev;

	if (d->dead) {
		dev_free(d);
		return;
	}
	while (!verbs_lib.ibv_get_async_event(d->ctx, &ev)) {
		bool quiet = ev.event_type == IBV_EVENT_COMM_EST || ev.event_type == IBV_EVENT_QP_LAST_WQE_REACHED || ev.event_type == IBV_EVENT_SQ_DRAINED;

		log_write(quiet ? LOG_DEBUG : LOG_INFO, __FILE__, __LINE__, "device %s: %s", verbs_lib.ibv_get_device_name(d->ctx->device),
			  verbs_lib.ibv_event_type_str(ev.event_type));
		verbs_lib.ibv_ack_async_event(&ev);
	}
	watch(op, d->ctx->async_fd, happened);
}

static int no_wait(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) ? -errno : 0;
}

int verbs_take_dev(struct ibv_context *ctx, struct verbs_dev **dev)
{
	struct ibv_device_attr attr;
	struct verbs_dev *d;

	if (!device_may(verbs_lib.ibv_get_device_name(ctx->device)))
		return -ENODEV;
	list_each (pos, nxt, &devs) {
		d = list_entry(pos, struct verbs_dev, node);
		if (d->ctx == ctx) {
			d->refs++;
			*dev = d;
			return 0;
		}
	}
	if (verbs_lib.ibv_query_device(ctx, &attr))
		return -EIO;
	note_opened(ctx);
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->ctx = ctx;
	d->refs = 1;
	d->max_sge = (unsigned int)attr.max_sge;
	d->waits = attr.vendor_id == VENDOR_SIW;
	d->channel = verbs_lib.ibv_create_comp_channel(ctx);
	if (!d->channel || no_wait(d->channel->fd) || no_wait(ctx->async_fd)) {
		if (d->channel)
			verbs_lib.ibv_destroy_comp_channel(d->channel);
		free(d);
		return -EIO;
	}
	list_add_tail(&devs, &d->node);
	watch(&d->comp_op, d->channel->fd, completed);
	watch(&d->async_op, ctx->async_fd, happened);
	device_named(verbs_lib.ibv_get_device_name(ctx->device));
	log_info("device %s is used", verbs_lib.ibv_get_device_name(ctx->device));
	*dev = d;
	return 0;
}

/* A device that is to go waits for whoever has its files open. */
void verbs_put_dev(struct verbs_dev *d)
{
	if (!d || --d->refs)
		return;
	log_info("device %s is not used any more", verbs_lib.ibv_get_device_name(d->ctx->device));
	list_del(&d->node);
	d->dead = true;
	engine_cancel(&d->comp_op);
	engine_cancel(&d->async_op);
	verbs_lib.ibv_destroy_comp_channel(d->channel);
	dev_free(d);
}

/* ---- memory ---- */

static void no_memory(const char *what, size_t len, int err)
{
	static uint64_t next;

	if (engine_now_ms() < next)
		return;
	next = engine_now_ms() + 60000;
	if (err == ENOMEM || err == EAGAIN || err == EPERM)
		log_warn("device: %s of %zu octets cannot be locked (%s): raise LimitMEMLOCK= of iwarpd.service (ulimit -l), see iwarpd.conf(5), provider; "
			 "such connections are carried without the device", what, len, strerror(err));
	else
		log_warn("device: %s of %zu octets cannot be registered: %s", what, len, strerror(err));
}

static int register_range(struct verbs *v, struct verbs_range *r)
{
	int access = IBV_ACCESS_LOCAL_WRITE;

	if (r->access & IW_ACCESS_REMOTE_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	r->mr = verbs_lib.ibv_reg_mr(v->pd, r->addr, r->len, access);
	if (r->mr)
		return 0;
	no_memory("memory of a stream", r->len, errno);
	return -ENOMEM;
}

static int register_all(struct verbs *v)
{
	for (unsigned int i = 0; i < VERBS_RANGES; i++) {
		struct verbs_range *r = &v->range[i];

		if (r->len && !(r->access & IW_ACCESS_READ_SINK) && register_range(v, r))
			return -ENOMEM;
	}
	v->inl = aligned_alloc(4096, VERBS_INL_LEN);
	if (!v->inl)
		return -ENOMEM;
	v->inl_mr = verbs_lib.ibv_reg_mr(v->pd, v->inl, VERBS_INL_LEN, IBV_ACCESS_LOCAL_WRITE);
	if (v->inl_mr)
		return 0;
	no_memory("memory for small messages", VERBS_INL_LEN, errno);
	return -ENOMEM;
}

/* ---- queue pairs ---- */

/* A domain of its own, so that no two streams need trust each other (SEC-P03). */
static int make(struct verbs *v)
{
	struct ibv_qp_init_attr qa = {
		.cap = { .max_send_wr = VERBS_SEND + 1, .max_recv_wr = VERBS_RECV + 1, .max_send_sge = IW_QP_SGE + 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC, .sq_sig_all = 1,
	};
	int ret = verbs_take_dev(v->id->verbs, &v->dev);

	if (ret)
		return ret;
	v->device = device_named(verbs_lib.ibv_get_device_name(v->dev->ctx->device));
	if (qa.cap.max_send_sge > v->dev->max_sge)
		return -EOPNOTSUPP;
	v->pd = verbs_lib.ibv_alloc_pd(v->id->verbs);
	if (!v->pd)
		return -errno;
	v->cq = verbs_lib.ibv_create_cq(v->id->verbs, VERBS_SEND + VERBS_RECV + 2, v, v->dev->channel, 0);
	if (!v->cq)
		return -errno;
	qa.send_cq = qa.recv_cq = v->cq;
	if (verbs_lib.rdma_create_qp(v->id, v->pd, &qa))
		return -errno;
	return register_all(v);
}

int verbs_make(struct verbs *v)
{
	int ret = make(v);

	v->head = v->tail = 0;
	if (!ret && !v->sent)
		v->sent = calloc(VERBS_LOG, sizeof(*v->sent));
	if (!ret)
		ret = v->sent ? verbs_hello_recv(v) : -ENOMEM;
	for (unsigned int i = 0; !ret && i < v->nrecv; i++)
		ret = verbs_post_recv(v, v->recv[i].wr_id, &v->recv[i].sge);
	if (!ret && ibv_req_notify_cq(v->cq, 0))
		ret = -EIO;
	if (ret)
		log_debug("device: no queue pair: %s", strerror(-ret));
	return ret;
}

void verbs_undo(struct verbs *v)
{
	if (v->id && v->id->qp)
		verbs_lib.rdma_destroy_qp(v->id);
	if (v->cq)
		verbs_lib.ibv_destroy_cq(v->cq);
	v->cq = NULL;
	for (unsigned int i = 0; i < VERBS_RANGES; i++) {
		if (v->range[i].mr)
			verbs_lib.ibv_dereg_mr(v->range[i].mr);
		v->range[i].mr = NULL;
	}
	if (v->inl_mr)
		verbs_lib.ibv_dereg_mr(v->inl_mr);
	v->inl_mr = NULL;
	free(v->inl);
	v->inl = NULL;
	if (v->pd)
		verbs_lib.ibv_dealloc_pd(v->pd);
	v->pd = NULL;
	verbs_put_dev(v->dev);
	v->dev = NULL;
	if (v->id)
		verbs_id_end(v->id);
	v->id = NULL;
}
