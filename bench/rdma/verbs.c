// SPDX-License-Identifier: MIT
/* A verbs device under the measurements: Linux siw in the guest of tests/interop, or an RDMA adapter. Waits for events, as the soft RNIC does. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "rdma.h"

#define RECVS	2u
#define CHAIN	(DEPTH_MAX + 4)

struct hello {
	struct ask ask;
	struct there there;
};

static struct {
	struct ask ask;
	struct there there;
	bool server;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *id;
	struct ibv_comp_channel *events;
	struct ibv_cq *cq;
	struct ibv_mr *mr, *recv_mr;
	uint32_t recv_len;
	struct ibv_send_wr wr[CHAIN];	/* posted together, as one work request after another costs a system call each */
	struct ibv_sge sge[CHAIN];
	unsigned int n;
} v;

static int verbs_post(enum rdma_op op, uint32_t len)
{
	static const enum ibv_wr_opcode ops[] = { [OP_WRITE] = IBV_WR_RDMA_WRITE, [OP_READ] = IBV_WR_RDMA_READ, [OP_SEND] = IBV_WR_SEND };
	unsigned int i = v.n;

	if (i == CHAIN)
		return -EAGAIN;
	v.sge[i] = (struct ibv_sge){ .addr = (uintptr_t)v.mr->addr, .length = len, .lkey = v.mr->lkey };
	v.wr[i] = (struct ibv_send_wr){ .wr_id = op, .opcode = ops[op], .sg_list = &v.sge[i], .num_sge = len != 0, .send_flags = IBV_SEND_SIGNALED };
	v.wr[i].wr.rdma.remote_addr = v.there.to;
	v.wr[i].wr.rdma.rkey = v.there.stag;
	if (i)
		v.wr[i - 1].next = &v.wr[i];
	v.n++;
	return 0;
}

static int flush(void)
{
	struct ibv_send_wr *bad;
	int ret = v.n ? ibv_post_send(v.id->qp, v.wr, &bad) : 0;

	v.n = 0;
	return -ret;
}

static int post_recv(uint64_t i)
{
	struct ibv_sge sge = { .addr = (uintptr_t)v.recv_mr->addr + i * v.recv_len, .length = v.recv_len, .lkey = v.recv_mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	return -ibv_post_recv(v.id->qp, &wr, &bad);
}

static int setup(const struct ask *ask)
{
	struct ibv_qp_init_attr qa = { .cap = { CHAIN, RECVS, 1, 1, 0 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	uint32_t len = ask->size > SMALL ? ask->size : SMALL;
	void *buf = aligned_alloc(4096, (len + 4095) & ~4095u), *recv = aligned_alloc(4096, (RECVS * (size_t)len + 4095) & ~4095ul);
	struct ibv_pd *pd = ibv_alloc_pd(v.id->verbs);
	int ret = 0;

	if (!buf || !recv || !pd)
		return -ENOMEM;
	v.ask = *ask;
	v.recv_len = len;
	memset(buf, 'x', len);
	memset(recv, 'x', RECVS * (size_t)len);
	v.events = ibv_create_comp_channel(v.id->verbs);
	v.cq = v.events ? ibv_create_cq(v.id->verbs, 2 * CHAIN, NULL, v.events, 0) : NULL;
	qa.send_cq = qa.recv_cq = v.cq;
	if (!v.cq || rdma_create_qp(v.id, pd, &qa))
		return -errno;
	v.mr = ibv_reg_mr(pd, buf, len, all);
	v.recv_mr = ibv_reg_mr(pd, recv, RECVS * (size_t)len, IBV_ACCESS_LOCAL_WRITE);
	if (!v.mr || !v.recv_mr)
		return -errno;
	for (unsigned int i = 0; !ret && i < RECVS; i++)
		ret = post_recv(i);
	return ret;
}

/* ---- completions ---- */

static int completion(const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return bench_over() || v.server ? 0 : -ECONNRESET;
	if (wc->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "rdma: completion: %s\n", ibv_wc_status_str(wc->status));
		return -EPROTO;
	}
	if (!(wc->opcode & IBV_WC_RECV)) {
		bench_done((enum rdma_op)wc->wr_id);
		return 0;
	}
	bench_received();
	return post_recv(wc->wr_id);
}

static int drain(void)
{
	struct ibv_wc wc[16];
	int n, ret = 0;

	while (!ret && !bench_over() && (n = ibv_poll_cq(v.cq, 16, wc)) > 0) {
		for (int i = 0; !ret && i < n; i++)
			ret = completion(&wc[i]);
		if (!ret)
			ret = flush();
	}
	return ret;
}

static int completions(void)
{
	unsigned int acks = 0;
	struct ibv_cq *cq;
	void *ctx;
	int ret = 0;

	while (!ret && !bench_over()) {
		if (ibv_req_notify_cq(v.cq, 0))
			return -EIO;
		ret = drain();		/* what came before it was armed */
		if (ret || bench_over())
			break;
		if (ibv_get_cq_event(v.events, &cq, &ctx))
			return -errno;
		if (++acks == 64) {
			ibv_ack_cq_events(v.cq, acks);
			acks = 0;
		}
		ret = drain();
	}
	return ret;
}

/* ---- connection ---- */

static int expect(enum rdma_cm_event_type type, struct rdma_cm_event **keep)
{
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(v.channel, &ev))
		return -errno;
	if (ev->event != type) {
		fprintf(stderr, "rdma: wanted %s, got %s\n", rdma_event_str(type), rdma_event_str(ev->event));
		return -EPROTO;
	}
	if (keep)
		*keep = ev;
	else
		rdma_ack_cm_event(ev);
	return 0;
}

static int verbs_listen(struct sockaddr_in *a)
{
	v.server = true;
	v.channel = rdma_create_event_channel();
	if (!v.channel || rdma_create_id(v.channel, &v.listener, NULL, RDMA_PS_TCP) || rdma_bind_addr(v.listener, (struct sockaddr *)a) ||
	    rdma_listen(v.listener, 1))
		return -errno;
	a->sin_port = rdma_get_src_port(v.listener);
	return 0;
}

static void *server_thread(void *arg)
{
	int ret = completions();

	if (ret) {
		fprintf(stderr, "rdma: server: %s\n", strerror(-ret));
		_exit(1);
	}
	return NULL;
}

static struct there here(void)
{
	return (struct there){ .to = (uintptr_t)v.mr->addr, .stag = v.mr->rkey };
}

static int verbs_serve(void)
{
	struct rdma_conn_param cp = { .responder_resources = DEPTH_MAX, .initiator_depth = DEPTH_MAX, .private_data_len = sizeof(struct there) };
	struct rdma_cm_event *ev;
	pthread_t thread;
	struct hello h;
	struct there t;
	int ret = expect(RDMA_CM_EVENT_CONNECT_REQUEST, &ev);

	if (ret)
		return ret;
	v.id = ev->id;
	memcpy(&h, ev->param.conn.private_data, sizeof(h));
	rdma_ack_cm_event(ev);
	v.there = h.there;
	bench_asked(&h.ask);
	ret = setup(&h.ask);
	if (ret)
		return ret;
	t = here();
	cp.private_data = &t;
	if (pthread_create(&thread, NULL, server_thread, NULL))
		return -EAGAIN;
	if (rdma_accept(v.id, &cp))
		return -errno;
	ret = expect(RDMA_CM_EVENT_ESTABLISHED, NULL);
	return ret ? ret : expect(RDMA_CM_EVENT_DISCONNECTED, NULL);	/* the thread ends with the process */
}

static int verbs_client(const struct sockaddr_in *a, const struct ask *ask)
{
	struct rdma_conn_param cp = { .responder_resources = DEPTH_MAX, .initiator_depth = DEPTH_MAX, .private_data_len = sizeof(struct hello) };
	struct hello h = { .ask = *ask };
	struct rdma_cm_event *ev;
	int ret;

	v.channel = rdma_create_event_channel();
	if (!v.channel || rdma_create_id(v.channel, &v.id, NULL, RDMA_PS_TCP) || rdma_resolve_addr(v.id, NULL, (struct sockaddr *)a, 5000))
		return -errno;
	ret = expect(RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	if (!ret && rdma_resolve_route(v.id, 5000))
		ret = -errno;
	if (!ret)
		ret = expect(RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	if (!ret)
		ret = setup(ask);
	if (ret)
		return ret;
	h.there = here();
	cp.private_data = &h;
	if (rdma_connect(v.id, &cp))
		return -errno;
	ret = expect(RDMA_CM_EVENT_ESTABLISHED, &ev);
	if (ret)
		return ret;
	memcpy(&v.there, ev->param.conn.private_data, sizeof(v.there));
	rdma_ack_cm_event(ev);
	bench_established();
	ret = flush();
	if (!ret)
		ret = completions();
	rdma_disconnect(v.id);
	return ret;
}

const struct provider verbs_provider = {
	.name = "verbs", .text = "an RDMA device by libibverbs and librdmacm", .listen = verbs_listen, .serve = verbs_serve,
	.client = verbs_client, .post = verbs_post,
};
