// SPDX-License-Identifier: MIT
/*
 * The verbs end of peer.c's errors, for the guest: causes one (client) or is the place where it happens (server). Prints completions,
 * asynchronous events and events of the connection, a line each.
 */
#include <endian.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define REGION	256
#define WAIT_MS	15000

struct desc {
	uint64_t addr;
	uint32_t stag, len;
};

static char region[8192], small[16];
static const char *mode;
static struct rdma_event_channel *channel;
static struct ibv_mr *mr, *remote_mr, *small_mr;
static struct ibv_cq *cq;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int is(const char *m)
{
	return !strcmp(mode, m);
}

/* The next event within WAIT_MS; completions and asynchronous events on the way are printed. NULL: none came. */
static struct rdma_cm_event *next_event(struct ibv_context *verbs)
{
	struct pollfd p[2] = { { channel->fd, POLLIN, 0 }, { verbs ? verbs->async_fd : -1, POLLIN, 0 } };
	struct ibv_async_event ae;
	struct rdma_cm_event *ev;
	struct ibv_wc wc;

	for (int ms = 0; ms < WAIT_MS; ms += 10) {
		while (cq && ibv_poll_cq(cq, 1, &wc) > 0)
			printf("completion %s opcode %d len %u\n", ibv_wc_status_str(wc.status), wc.opcode, wc.byte_len);
		if (poll(p, 2, 10) <= 0)
			continue;
		if (p[1].revents & POLLIN && !ibv_get_async_event(verbs, &ae)) {
			printf("async %s\n", ibv_event_type_str(ae.event_type));
			ibv_ack_async_event(&ae);
		}
		if (p[0].revents & POLLIN && !rdma_get_cm_event(channel, &ev))
			return ev;
	}
	return NULL;
}

static void expect(struct ibv_context *verbs, enum rdma_cm_event_type type, struct rdma_cm_event **keep)
{
	struct rdma_cm_event *ev = next_event(verbs);

	if (!ev || ev->event != type) {
		printf("error wanted %s, got %s\n", rdma_event_str(type), ev ? rdma_event_str(ev->event) : "nothing");
		exit(1);
	}
	printf("event %s\n", rdma_event_str(type));
	if (keep)
		*keep = ev;
	else
		rdma_ack_cm_event(ev);
}

static void make_qp(struct rdma_cm_id *id, int server)
{
	struct ibv_qp_init_attr qa = { .cap = { 8, 8, 2, 2, 64 }, .qp_type = IBV_QPT_RC, .sq_sig_all = 1 };
	int access = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_pd *pd = ibv_alloc_pd(id->verbs);

	cq = ibv_create_cq(id->verbs, 32, NULL, NULL, 0);
	qa.send_cq = qa.recv_cq = cq;
	if (!pd || !cq || rdma_create_qp(id, pd, &qa))
		die("queue pair");
	if (!is("wright"))
		access |= IBV_ACCESS_REMOTE_WRITE;
	if (!is("rright"))
		access |= IBV_ACCESS_REMOTE_READ;
	/* a Read Response needs remote write in iWARP */
	mr = ibv_reg_mr(pd, region, sizeof(region), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	remote_mr = ibv_reg_mr(pd, region, REGION, access);
	small_mr = ibv_reg_mr(pd, small, sizeof(small), IBV_ACCESS_LOCAL_WRITE);
	if (!mr || !remote_mr || !small_mr)
		die("registration");
	fcntl(id->verbs->async_fd, F_SETFL, O_NONBLOCK);
	if (server && rdma_post_recv(id, small, small, sizeof(small), small_mr))
		die("receive");
}

static void cause(struct rdma_cm_id *id, const struct desc *d)
{
	uint64_t addr = be64toh(d->addr);
	uint32_t stag = be32toh(d->stag);
	int ret;

	if (!strcmp(mode + 1, "stag"))
		stag ^= 0x00100000;
	if (!strcmp(mode + 1, "key"))
		stag ^= 1;
	if (!strcmp(mode + 1, "oob"))
		addr += REGION - 32;
	if (is("toolong"))
		ret = rdma_post_send(id, NULL, region, 64, mr, 0);
	else if (is("norecv"))
		ret = rdma_post_send(id, NULL, region, 16, mr, 0) || rdma_post_send(id, NULL, region, 16, mr, 0);
	else if (mode[0] == 'w')
		ret = rdma_post_write(id, NULL, region, 64, mr, 0, addr, stag);
	else
		ret = rdma_post_read(id, NULL, region, 64, mr, 0, addr, stag);
	if (ret)
		die("post");
}

static struct rdma_cm_id *client_id(const char *addr, const char *port)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *ai;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(addr, port, &hints, &ai) || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, ai->ai_dst_addr, 5000))
		die("address");
	expect(NULL, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	if (rdma_resolve_route(id, 5000))
		die("route");
	expect(NULL, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	return id;
}

static struct rdma_cm_id *server_id(const char *addr, const char *port)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = RAI_PASSIVE }, *ai;
	struct rdma_cm_event *ev;
	struct rdma_cm_id *lid, *id;

	if (rdma_getaddrinfo(addr, port, &hints, &ai) || rdma_create_id(channel, &lid, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(lid, ai->ai_src_addr) || rdma_listen(lid, 1))
		die("listen");
	printf("listening\n");
	expect(NULL, RDMA_CM_EVENT_CONNECT_REQUEST, &ev);
	id = ev->id;
	rdma_ack_cm_event(ev);
	return id;
}

static int run(struct rdma_cm_id *id, int server)
{
	struct rdma_conn_param cp = { .responder_resources = 4, .initiator_depth = 4 };
	struct desc d = { htobe64((uintptr_t)region), htobe32(remote_mr->rkey), htobe32(REGION) };
	struct rdma_cm_event *ev;

	if (server) {
		cp.private_data = &d;
		cp.private_data_len = sizeof(d);
	}
	if (server ? rdma_accept(id, &cp) : rdma_connect(id, &cp))
		die("connect");
	expect(id->verbs, RDMA_CM_EVENT_ESTABLISHED, &ev);
	if (!server)
		memcpy(&d, ev->param.conn.private_data, sizeof(d));
	rdma_ack_cm_event(ev);
	if (!server)
		cause(id, &d);
	ev = NULL;
	if (server || !(is("write") || is("read"))) {
		expect(id->verbs, RDMA_CM_EVENT_DISCONNECTED, NULL);
		rdma_disconnect(id);
	} else {
		struct ibv_wc wc;
		struct timespec ts = { 0, 10000000 };
		int n = 0;

		while (ibv_poll_cq(cq, 1, &wc) < 1 && n++ < WAIT_MS / 10)
			nanosleep(&ts, NULL);
		printf("completion %s\n", ibv_wc_status_str(wc.status));
		rdma_disconnect(id);
		expect(id->verbs, RDMA_CM_EVENT_DISCONNECTED, NULL);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct rdma_cm_id *id;
	int server, source;

	if (argc != 5) {
		fprintf(stderr, "usage: iwerr server|client ADDRESS PORT MODE\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	server = !strcmp(argv[1], "server");
	mode = argv[4];
	channel = rdma_create_event_channel();
	if (!channel)
		die("event channel");
	source = server != (mode[0] == 'w');	/* Writes carry it from the client, Reads from the server */
	memcpy(region, source ? "GOOD" : "....", 4);
	id = server ? server_id(argv[2], argv[3]) : client_id(argv[2], argv[3]);
	make_qp(id, server);
	run(id, server);
	if (!source && !memcmp(region, "GOOD", 4))
		printf("placed\n");
	return 0;
}
