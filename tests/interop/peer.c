// SPDX-License-Identifier: MIT
/*
 * Our end of conversations with rdma_cm programs on another RDMAP implementation: rdma_client/rdma_server, ucmatose, and iwerr.c,
 * which gets or causes every kind of remote error. Prints what happens, a line each; exit code 0 when it went as the mode says.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/conf.h"
#include "daemon/rnic/soft.h"
#include "daemon/base/log.h"
#include "proto/wire.h"

#define REGION	256u
#define DEEP	32u	/* receive buffers at most */
#define LEN_MAX	4096u
#define NUDGE_MS 250u
#define WR_KNOCK 100u

/* In the private data of the server's Reply: where its region is. */
struct desc {
	uint64_t to;
	uint32_t stag, len;
} __attribute__((packed));

enum kind { TALK, GOOD, ERROR };
static const struct mode {
	const char *name;
	enum kind kind;
	uint32_t count, len;	/* TALK: messages each way; else receive buffers of the server */
	bool server_first;
} modes[] = {
	{ "rdma_client", TALK, 1, 16, false },
	{ "ucmatose", TALK, 10, 100, true },
	{ "write", GOOD, 1, 16, false },
	{ "read", GOOD, 1, 16, false },
	{ "wstag", ERROR, 1, 16, false }, { "wkey", ERROR, 1, 16, false }, { "woob", ERROR, 1, 16, false },
	{ "wright", ERROR, 1, 16, false }, { "rstag", ERROR, 1, 16, false }, { "rkey", ERROR, 1, 16, false },
	{ "roob", ERROR, 1, 16, false }, { "rright", ERROR, 1, 16, false },
	{ "toolong", ERROR, 1, 16, false }, { "norecv", ERROR, 1, 16, false },
};

static struct peer {
	const struct mode *mode;
	bool server, finished, terminated;
	struct soft_mpa attr;
	struct endpoint *c;
	struct rnic_pd *pd;
	struct rnic_mr *region_mr, *recv_mr;
	struct timer timer, nudge;
	uint32_t sent, received;
	struct desc there;
	bool knocked;
	uint8_t region[REGION], recv[DEEP * LEN_MAX];
} me;

static bool is(const char *mode)
{
	return !strcmp(me.mode->name, mode);
}

/* Writes carry it from the client, Reads from the server. */
static bool source(void)
{
	return me.server != (me.mode->name[0] == 'w');
}

static void finish(void)
{
	me.finished = true;
	endpoint_close(me.c);
}

static void post(const struct iw_wr *wr)
{
	int ret = endpoint_post_send(me.c, wr);

	if (ret)
		printf("error post %s\n", strerror(-ret));
}

static void post_op(uint8_t op, uint32_t len, uint32_t rstag, uint64_t rto)
{
	struct iw_wr wr = { .wr_id = op, .op = op, .nsge = 1, .rstag = rstag, .rto = rto,
			    .sge[0] = { .stag = rnic_mr_stag(me.region_mr), .to = rnic_mr_to(me.region_mr), .len = len } };

	post(&wr);
}

/* ---- conversations ---- */

static void send_all(void)
{
	for (; me.sent < me.mode->count; me.sent++)
		post_op(IW_WR_SEND, me.mode->len, 0, 0);
}

static void message(uint32_t len)
{
	if (me.mode->kind != TALK || len != me.mode->len) {
		printf("error message of %u octets\n", len);
		return;
	}
	if (++me.received < me.mode->count)
		return;
	send_all();	/* unless they came first */
	if (me.server == me.mode->server_first)
		finish();	/* who got the last message says good-bye */
}

/*
 * A Read of no octets: when it is answered, the peer is in Full Operation. An error that comes together with the RTR hangs siw's
 * connection manager.
 */
static void knock(void)
{
	const struct iw_wr wr = { .wr_id = WR_KNOCK, .op = IW_WR_READ };

	post(&wr);
}

static void fault(void)
{
	uint32_t stag = be32toh(me.there.stag);
	uint64_t to = be64toh(me.there.to);
	const char *m = me.mode->name;

	if (is("toolong") || is("norecv")) {
		post_op(IW_WR_SEND, is("toolong") ? 64 : 16, 0, 0);
		if (is("norecv"))
			post_op(IW_WR_SEND, 16, 0, 0);
		return;
	}
	if (!strcmp(m + 1, "stag"))
		stag ^= 0x00100000;
	else if (!strcmp(m + 1, "key"))
		stag ^= 1;
	else if (!strcmp(m + 1, "oob"))
		to += be32toh(me.there.len) - 32;
	post_op(m[0] == 'w' ? IW_WR_WRITE : IW_WR_READ, 64, stag, to);
	if (is("write"))	/* it has arrived when a Read behind it is answered */
		post_op(IW_WR_READ, 64, stag, to);
}

/* Linux siw as Responder overlooks what comes before its queue pair listens to the socket, until something else comes. */
static void on_nudge(struct timer *t)
{
	const struct iw_wr wr = { .op = IW_WR_WRITE, .flags = IW_WR_QUIET };

	if (me.received || me.knocked || me.finished || me.terminated)
		return;
	post(&wr);
	timer_start(t, NUDGE_MS, on_nudge);
}

/* ---- what the connection tells ---- */

static void on_request(void *ctx, const struct endpoint_said *f)
{
	struct desc d = { htobe64(rnic_mr_to(me.region_mr)), htobe32(rnic_mr_stag(me.region_mr)), htobe32(REGION) };

	if (endpoint_accept(me.c, me.mode->kind == TALK ? NULL : (uint8_t *)&d, me.mode->kind == TALK ? 0 : sizeof(d)))
		printf("error accept\n");
}

static void on_established(void *ctx, const struct endpoint_said *f)
{
	printf("established crc %u p2p %u\n", soft_param(me.c)->crc, f->p2p);
	if (!me.server)
		timer_start(&me.nudge, NUDGE_MS, on_nudge);
	if (me.mode->kind == TALK && me.server == me.mode->server_first) {
		/* a server may send only once it heard something: with peer-to-peer that is the RTR */
		if (!me.server)
			send_all();
	} else if (me.mode->kind != TALK && !me.server) {
		if (f->pd_len < sizeof(me.there)) {
			printf("error no description in the private data\n");
			finish();
			return;
		}
		memcpy(&me.there, f->pd, sizeof(me.there));
		knock();
	}
}

static void on_complete(void *ctx, const struct iw_cqe *cqe)
{
	static const char *const ops[] = { "send", "write", "read", "imm", "fetchadd", "cmpswap", "recv" };
	static const char *const st[] = { "ok", "flush", "local-protection", "local-length", "remote-error" };

	printf("completion %s %s len %u\n", ops[cqe->op], st[cqe->status], cqe->len);
	if (cqe->status != IW_WC_OK)
		return;
	if (cqe->wr_id == WR_KNOCK) {
		me.knocked = true;
		fault();
	} else if (cqe->op == IW_WR_RECV) {
		message(cqe->len);
	} else if (me.mode->kind != TALK && cqe->op == IW_WR_READ) {
		finish();	/* of what was allowed, or let through by a peer that should not */
	}
}

static void on_event(void *ctx, enum endpoint_event ev)
{
	const struct iw_term *t = soft_term(me.c);

	switch (ev) {
	case ENDPOINT_EV_FIRST:
		if (me.server && me.mode->server_first)
			send_all();
		break;
	case ENDPOINT_EV_TERM_SENT:
	case ENDPOINT_EV_TERM_RECEIVED:
		me.terminated = true;
		printf("terminate-%s %u/%u/%02x %s%s\n", ev == ENDPOINT_EV_TERM_SENT ? "sent" : "received", t->layer, t->etype, t->code,
		       iw_term_text(t->layer, t->etype, t->code), t->siw_swapped ? " (swapped)" : "");
		break;
	case ENDPOINT_EV_EOF:
		printf("eof\n");
		finish();
		break;
	case ENDPOINT_EV_LOST:
		printf("lost\n");
	}
}

static bool as_wanted(int err)
{
	switch (me.mode->kind) {
	case TALK:
		return !err && me.received == me.mode->count;
	case GOOD:
		/* in the end it is on both sides; when we are not where it goes, the peer's program looks */
		return !err && !me.terminated && memcmp(me.region, "GOOD", 4) == 0;
	default:
		return me.terminated;
	}
}

static void on_closed(void *ctx, int err, const struct endpoint_said *reject)
{
	bool good = as_wanted(err);

	printf("closed %s\n", err ? strerror(err) : "gracefully");
	if (!source() && !memcmp(me.region, "GOOD", 4))
		printf("placed\n");
	printf("result %s\n", good ? "ok" : "failed");
	rnic_mr_dereg(me.region_mr);
	rnic_mr_dereg(me.recv_mr);
	timer_stop(&me.nudge);
	me.finished = good;
	engine_stop();
}

static const struct endpoint_ulp ops = {
	.request = on_request, .established = on_established, .complete = on_complete, .event = on_event, .closed = on_closed,
};

/* ---- set-up ---- */

static unsigned int rights(void)
{
	unsigned int all = IW_ACCESS_LOCAL_READ | IW_ACCESS_LOCAL_WRITE | IW_ACCESS_READ_SINK;

	if (!is("wright") && me.server)
		all |= IW_ACCESS_REMOTE_WRITE;
	if (!is("rright") && me.server)
		all |= IW_ACCESS_REMOTE_READ;
	return all;
}

static int setup(int fd)
{
	uint32_t n = me.mode->kind == TALK ? me.mode->count : 1;
	int ret;

	me.pd = rnic_pd_get(1);
	ret = soft_create(fd, me.pd, &ops, NULL, &me.c);
	if (ret)
		return ret;
	memcpy(me.region, source() ? "GOOD" : "....", 4);
	ret = rnic_mr_reg(me.pd, soft_qp(me.c), me.region, REGION, 0x7fff00000000, rights(), &me.region_mr);
	if (!ret)
		ret = rnic_mr_reg(me.pd, soft_qp(me.c), me.recv, sizeof(me.recv), 0, IW_ACCESS_LOCAL_WRITE, &me.recv_mr);
	for (uint32_t i = 0; !ret && i < n; i++) {
		struct iw_sge sge = { .to = i * LEN_MAX, .stag = rnic_mr_stag(me.recv_mr), .len = me.mode->len };

		ret = endpoint_post_recv(me.c, i, &sge);
	}
	soft_set_mpa(me.c, &me.attr);
	return ret ? ret : me.server ? endpoint_respond(me.c) : endpoint_initiate(me.c, NULL, 0);
}

static int connection(const struct sockaddr_in *a)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, c;

	if (!me.server)
		return connect(fd, (const struct sockaddr *)a, sizeof(*a)) ? -errno : fd;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) || bind(fd, (const struct sockaddr *)a, sizeof(*a)) || listen(fd, 1))
		return -errno;
	printf("listening\n");
	c = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	close(fd);
	return c < 0 ? -errno : c;
}

static void on_timeout(struct timer *t)
{
	printf("error timeout\n");
	_exit(1);
}

static void drain_tick(struct timer *t)
{
	engine_stop();
}

static int usage(void)
{
	fprintf(stderr, "usage: peer [--crc on|off] [--p2p] server|client ADDRESS PORT MODE\n  modes:");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		fprintf(stderr, " %s", modes[i].name);
	fputc('\n', stderr);
	return 2;
}

static int parse(int argc, char **argv, struct sockaddr_in *a)
{
	static const struct option options[] = { { "crc", required_argument, NULL, 'c' }, { "p2p", no_argument, NULL, 'p' }, { 0 } };
	int o;

	me.attr = (struct soft_mpa){ .rev = 2, .crc = true, .ird = 4, .ord = 4 };
	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (o == 'c')
			me.attr.crc = !strcmp(optarg, "on");
		else if (o == 'p')
			me.attr.p2p = true;
		else
			return -EINVAL;
	}
	if (argc - optind != 4)
		return -EINVAL;
	me.server = !strcmp(argv[optind], "server");
	*a = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[optind + 2])) };
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[optind + 3], modes[i].name))
			me.mode = &modes[i];
	return me.mode && inet_pton(AF_INET, argv[optind + 1], &a->sin_addr) == 1 ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
	struct sockaddr_in a;
	int fd, ret;

	conf_default(&conf);
	prm_strict = false;
	if (parse(argc, argv, &a))
		return usage();
	setvbuf(stdout, NULL, _IOLBF, 0);
	log_init(LOG_WARNING, 1);
	log_name("peer");
	fd = connection(&a);
	ret = fd < 0 ? fd : engine_init();
	if (!ret)
		ret = setup(fd);
	if (ret) {
		fprintf(stderr, "peer: %s\n", strerror(-ret));
		return 1;
	}
	timer_start(&me.timer, 30000, on_timeout);
	engine_run();
	while (endpoint_count()) {		/* a Terminate on its way */
		timer_start(&me.nudge, 2, drain_tick);
		engine_run();
	}
	return !me.finished;
}
