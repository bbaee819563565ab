// SPDX-License-Identifier: MIT
/* The project's own RNIC under the measurements. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/conf.h"
#include "daemon/rnic/soft.h"
#include "daemon/base/log.h"
#include "rdma.h"

#define RECVS	2u

static struct {
	struct ask ask;
	struct there there;
	int listener;
	struct endpoint *ep;
	struct endpoint_mr mr, recv_mr;
	uint32_t recv_len;
	int err;
} s;

static int soft_post(enum rdma_op op, uint32_t len)
{
	static const uint8_t ops[] = { [OP_WRITE] = IW_WR_WRITE, [OP_READ] = IW_WR_READ, [OP_SEND] = IW_WR_SEND };
	struct iw_wr wr = { .op = ops[op], .nsge = len != 0, .rstag = s.there.stag, .rto = s.there.to,
			    .sge[0] = { .stag = s.mr.stag, .len = len } };

	return endpoint_post_send(s.ep, &wr);
}

static int post_recv(uint64_t i)
{
	struct iw_sge sge = { .to = i * s.recv_len, .stag = s.recv_mr.stag, .len = s.recv_len };

	return endpoint_post_recv(s.ep, i, &sge);
}

static void *memory(size_t len)
{
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	memset(p, 'x', len);
	return p;
}

static int setup(const struct ask *ask)
{
	unsigned int rights = IW_ACCESS_LOCAL_READ | IW_ACCESS_READ_SINK | IW_ACCESS_REMOTE_READ | IW_ACCESS_REMOTE_WRITE;
	uint32_t len = ask->size > SMALL ? ask->size : SMALL;
	void *buf = memory(len), *recv = memory(RECVS * (size_t)len);
	int ret;

	if (!buf || !recv)
		return -ENOMEM;
	s.ask = *ask;
	s.recv_len = len;
	ret = endpoint_register(s.ep, buf, len, 0, rights, &s.mr);
	if (!ret)
		ret = endpoint_register(s.ep, recv, RECVS * (size_t)len, 0, IW_ACCESS_LOCAL_WRITE, &s.recv_mr);
	for (unsigned int i = 0; !ret && i < RECVS; i++)
		ret = post_recv(i);
	return ret;
}

/* ---- what the connection tells ---- */

/* Writes of a latency test go both ways: the client says where its buffer is, too. */
struct hello {
	struct ask ask;
	struct there there;
};

static struct there here(void)
{
	return (struct there){ .to = s.mr.to, .stag = s.mr.stag };
}

static void fail(int err)
{
	s.err = err;
	endpoint_close(s.ep);
}

static void on_request(void *ctx, const struct endpoint_said *f)
{
	struct hello h;
	struct there t;

	if (f->pd_len != sizeof(h)) {
		fail(EPROTO);
		return;
	}
	memcpy(&h, f->pd, sizeof(h));
	s.there = h.there;
	s.err = -setup(&h.ask);
	bench_asked(&h.ask);
	if (s.err)
		return endpoint_close(s.ep);
	t = here();
	s.err = -endpoint_accept(s.ep, (uint8_t *)&t, sizeof(t));
}

static void on_established(void *ctx, const struct endpoint_said *f)
{
	const struct iw_qp_param *p = soft_param(s.ep);

	if (s.ask.large)
		endpoint_large(s.ep, true);
	if (p->crc != s.ask.crc || p->ord < s.ask.depth) {
		fail(EPROTO);
		return;
	}
	if (p->initiator)
		memcpy(&s.there, f->pd, sizeof(s.there));
	bench_established();
}

static void on_complete(void *ctx, const struct iw_cqe *cqe)
{
	if (cqe->status != IW_WC_OK)
		return;
	if (cqe->op == IW_WR_RECV) {
		if (post_recv(cqe->wr_id))
			fail(EIO);
		bench_received();
	} else {
		bench_done(cqe->op == IW_WR_READ ? OP_READ : cqe->op == IW_WR_WRITE ? OP_WRITE : OP_SEND);
	}
	if (bench_over())
		endpoint_close(s.ep);
}

static void on_event(void *ctx, enum endpoint_event ev)
{
	if (ev == ENDPOINT_EV_EOF)
		endpoint_close(s.ep);
}

static void on_closed(void *ctx, int err, const struct endpoint_said *reject)
{
	if (!s.err)
		s.err = err;
	engine_stop();
}

static const struct endpoint_ulp ulp = {
	.request = on_request, .established = on_established, .complete = on_complete, .event = on_event, .closed = on_closed,
};

/* ---- set-up ---- */

static int start(int fd)
{
	int ret;

	conf_default(&conf);
	prm_strict = false;
	log_init(LOG_WARNING, 1);
	ret = engine_init();
	return ret ? ret : soft_create(fd, rnic_pd_get(1), &ulp, NULL, &s.ep);
}

static int go(int ret)
{
	if (ret)
		return ret;
	engine_run();
	return -s.err;
}

static int soft_listen(struct sockaddr_in *a)
{
	s.listener = bench_listen(a);
	return s.listener < 0 ? s.listener : 0;
}

static int soft_serve(void)
{
	/* the Initiator's wish decides about CRCs */
	const struct soft_mpa mpa = { .rev = 2, .p2p = true, .ird = IW_QP_IRD, .ord = IW_QP_ORD };
	int fd = accept(s.listener, NULL, NULL), ret;

	if (fd < 0)
		return -errno;
	ret = start(fd);
	if (ret)
		return ret;
	soft_set_mpa(s.ep, &mpa);
	return go(endpoint_respond(s.ep));
}

static int soft_client(const struct sockaddr_in *a, const struct ask *ask)
{
	const struct soft_mpa mpa = { .rev = 2, .p2p = true, .crc = ask->crc, .ird = IW_QP_IRD, .ord = IW_QP_ORD };
	struct hello h = { .ask = *ask };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0 || connect(fd, (const struct sockaddr *)a, sizeof(*a)))
		return -errno;
	ret = start(fd);
	if (!ret)
		ret = setup(ask);
	if (ret)
		return ret;
	soft_set_mpa(s.ep, &mpa);
	h.there = here();
	return go(endpoint_initiate(s.ep, (uint8_t *)&h, sizeof(h)));
}

const struct provider soft_provider = {
	.name = "soft", .text = "the soft RNIC of iwarpd", .listen = soft_listen, .serve = soft_serve, .client = soft_client, .post = soft_post,
};
