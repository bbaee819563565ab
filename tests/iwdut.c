// SPDX-License-Identifier: MIT
/*
 * The device under test: a TCP responder whose RNIC stands in exactly the receiver state of section 7 of vectors.txt, so
 * that any scripted peer can play frames at it. Prints completions and asynchronous events, a line each.
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
#include "proto/crc32c.h"

#define GUARD	4096u
#define CANARY	0xc5
#define NREG	6u
#define NRECV	2u

struct region {
	uint32_t stag;
	uint64_t to;
	uint32_t len;
	unsigned int access;
	enum { ONLY_S1, ONLY_S2, SHARED, DOMAIN_2 } scope;
};

#define RD IW_ACCESS_REMOTE_READ
#define WR IW_ACCESS_REMOTE_WRITE
#define AT IW_ACCESS_REMOTE_ATOMIC
static const struct region regions[NREG] = {
	{ 0x5a17c301, 0x1000, 0x1000, RD | WR | AT, ONLY_S1 },
	{ 0x77e0b902, 0, 0x1000, RD, ONLY_S1 },
	{ 0x1d40aa03, 0, 0x1000, WR, ONLY_S1 },
	{ 0x2b9c6e04, 0, 0x1000, RD | WR, DOMAIN_2 },
	{ 0x4e33d505, 0, 0x1000, RD | WR, ONLY_S2 },
	{ 0x6612f806, 0, 0x1000, RD | WR, SHARED },
};
static const uint32_t recv_len[NRECV] = { 64, 4096 };

/* One connection: S1, its neighbours S2 and domain 2, and the memory of all of them. */
struct dut {
	struct endpoint *c;
	struct rnic_pd *pd[2];
	struct rnic_qp *s2;
	struct rnic_cq *s2_cq;
	struct rnic_mr *mr[NREG], *rmr;
	uint8_t *mem[NREG], *recv;
};

static struct dut dut;
static int listener;
static struct op accept_op;
static struct work next_work;
static void accept_next(void);

static void quiet_event(void *ctx, enum iw_qp_event ev)
{
}

/* ---- memory with guards; octet i of a region starts as (i & 0xff), words for Atomics as the vectors want them ---- */

static uint8_t *guarded(size_t len)
{
	uint8_t *p = malloc(len + 2 * GUARD);

	if (!p)
		exit(1);
	memset(p, CANARY, len + 2 * GUARD);
	return p + GUARD;
}

static void fill(uint8_t *p, uint32_t len)
{
	const uint64_t ten = 10;

	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)i;
	memcpy(p + 8, &ten, sizeof(ten));
}

static bool intact(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < GUARD; i++)
		if (p[-1 - (ptrdiff_t)i] != CANARY || p[len + i] != CANARY)
			return false;
	return true;
}

static void memory_report(struct dut *d)
{
	for (unsigned int i = 0; i < NREG; i++) {
		uint8_t *was = malloc(regions[i].len);

		fill(was, regions[i].len);
		printf("memory %08x %s crc %08x%s\n", regions[i].stag,
		       memcmp(was, d->mem[i], regions[i].len) ? "changed" : "unchanged",
		       iw_crc32c(0, d->mem[i], regions[i].len), intact(d->mem[i], regions[i].len) ? "" : " CANARY DEAD");
		free(was);
	}
	if (!intact(d->recv, recv_len[0] + recv_len[1]))
		printf("memory receive CANARY DEAD\n");
}

/* ---- the receiver state ---- */

static int setup_regions(struct dut *d)
{
	struct rnic_cq_attr cq = { .size = IW_QP_SQ + IW_QP_RQ };
	struct rnic_qp_attr attr = { .pd = d->pd[0], .event = quiet_event };
	int ret = rnic_cq_create(d->pd[0], &cq, &d->s2_cq);

	attr.send_cq = attr.recv_cq = d->s2_cq;
	if (!ret)
		ret = rnic_qp_create(&attr, &d->s2);

	for (unsigned int i = 0; !ret && i < NREG; i++) {
		const struct region *r = &regions[i];
		struct rnic_qp *scope = r->scope == ONLY_S1 ? soft_qp(d->c) : r->scope == ONLY_S2 ? d->s2 : NULL;

		d->mem[i] = guarded(r->len);
		fill(d->mem[i], r->len);
		ret = rnic_mr_reg_stag(d->pd[r->scope == DOMAIN_2], scope, d->mem[i], r->len, r->to, r->access, r->stag, &d->mr[i]);
	}
	return ret;
}

static int setup_receives(struct dut *d)
{
	uint64_t to = 0;
	int ret;

	d->recv = guarded(recv_len[0] + recv_len[1]);
	ret = rnic_mr_reg(d->pd[0], soft_qp(d->c), d->recv, recv_len[0] + recv_len[1], 0, IW_ACCESS_LOCAL_WRITE, &d->rmr);
	for (unsigned int i = 0; !ret && i < NRECV; i++) {
		struct iw_sge sge = { .to = to, .stag = rnic_mr_stag(d->rmr), .len = recv_len[i] };

		ret = endpoint_post_recv(d->c, i + 1, &sge);
		to += recv_len[i];
	}
	return ret;
}

/* While the conn still is: what is scoped to its queue pair goes with it. */
static void revoke_all(struct dut *d)
{
	for (unsigned int i = 0; i < NREG; i++)
		rnic_mr_dereg(d->mr[i]);
	rnic_mr_dereg(d->rmr);
}

static void teardown(struct dut *d)
{
	for (unsigned int i = 0; i < NREG; i++)
		if (d->mem[i])
			free(d->mem[i] - GUARD);
	if (d->recv)
		free(d->recv - GUARD);
	rnic_qp_destroy(d->s2);
	rnic_cq_destroy(d->s2_cq);
	rnic_pd_put(d->pd[0]);
	rnic_pd_put(d->pd[1]);
	memset(d, 0, sizeof(*d));
}

/* ---- what is printed ---- */

static const char *op_name(uint8_t op)
{
	static const char *const names[] = { "send", "write", "read", "imm", "fetchadd", "cmpswap", "recv" };

	return op < sizeof(names) / sizeof(names[0]) ? names[op] : "?";
}

static const char *status_name(uint8_t status)
{
	static const char *const names[] = { "ok", "flush", "local-protection", "local-length", "remote-error" };

	return status < sizeof(names) / sizeof(names[0]) ? names[status] : "?";
}

static void hex(const uint8_t *p, size_t n)
{
	while (n--)
		printf("%02x", *p++);
}

static void on_complete(void *ctx, const struct iw_cqe *cqe)
{
	struct dut *d = ctx;

	printf("completion %s %llu %s len %u", op_name(cqe->op), (unsigned long long)cqe->wr_id, status_name(cqe->status), cqe->len);
	if (cqe->se)
		printf(" se");
	if (cqe->has_inv)
		printf(" invalidated %08x", cqe->inv_stag);
	if (cqe->has_imm) {
		printf(" imm ");
		hex(cqe->imm, 8);
	} else if (cqe->op == IW_WR_RECV && cqe->status == IW_WC_OK && cqe->len) {
		printf(" data ");
		hex(d->recv + (cqe->wr_id == 1 ? 0 : recv_len[0]), cqe->len);
	}
	putchar('\n');
}

static void term_print(const char *what, const struct iw_term *t)
{
	printf("event terminate-%s %u/%u/%02x M%u D%u R%u (%s)%s\n", what, t->layer, t->etype, t->code, t->has_len, t->has_ddp,
	       t->has_rdmap, iw_term_text(t->layer, t->etype, t->code), t->cut || t->bad ? " malformed" : "");
}

static void on_event(void *ctx, enum endpoint_event ev)
{
	struct dut *d = ctx;
	const struct iw_term *t = soft_term(d->c);

	switch (ev) {
	case ENDPOINT_EV_FIRST:
		printf("event first-fpdu\n");
		break;
	case ENDPOINT_EV_TERM_SENT:
		term_print("sent", t);
		break;
	case ENDPOINT_EV_TERM_RECEIVED:
		term_print("received", t);
		break;
	case ENDPOINT_EV_EOF:
		printf("event eof\n");
		endpoint_close(d->c);
		break;
	case ENDPOINT_EV_LOST:
		printf("event lost\n");
		break;
	}
}

static void on_invalidated(void *ctx, uint32_t stag)
{
	struct dut *d = ctx;

	for (unsigned int i = 0; i < NREG; i++)
		if (regions[i].stag == stag)
			d->mr[i] = NULL;
	printf("event invalidated %08x\n", stag);
}

static void on_request(void *ctx, const struct endpoint_said *said)
{
	struct dut *d = ctx;
	const struct iw_mpa_frame *f = soft_request(d->c);
	int ret;

	printf("event request rev %u markers %u crc %u enhanced %u p2p %u ird %u ord %u private ", f->rev, f->markers, f->crc,
	       f->enhanced, f->p2p, f->ird, f->ord);
	hex(f->pd, f->pd_len);
	putchar('\n');
	ret = endpoint_accept(d->c, NULL, 0);
	if (ret)
		printf("error accept %s\n", strerror(-ret));
}

static void on_established(void *ctx, const struct endpoint_said *f)
{
	const struct iw_qp_param *p = soft_param(((struct dut *)ctx)->c);

	printf("event established crc %u tx-markers %u rx-markers %u ird %u ord %u\n", p->crc, p->tx_markers, p->rx_markers, p->ird, p->ord);
}

static void next_connection(struct work *w)
{
	teardown(&dut);
	accept_next();
}

static void on_closed(void *ctx, int err, const struct endpoint_said *reject)
{
	struct dut *d = ctx;
	const struct iw_term *t = soft_term(d->c);

	if (err == EPROTO && t->layer == 2 && t->code == 4)
		printf("event startup-failed 2/0/04 (%s)\n", iw_term_text(2, 0, 4));
	printf("event closed %s\n", err ? strerror(err) : "gracefully");
	memory_report(d);
	revoke_all(d);
	work_queue(&next_work, next_connection);
}

static const struct endpoint_ulp ops = {
	.request = on_request, .established = on_established, .complete = on_complete, .event = on_event,
	.invalidated = on_invalidated, .closed = on_closed,
};

/* ---- one connection after another ---- */

static void accepted(struct op *op, int res, bool more)
{
	int ret;

	if (res < 0) {
		fprintf(stderr, "iwdut: accept: %s\n", strerror(-res));
		engine_stop();
		return;
	}
	printf("event connected\n");
	dut.pd[0] = rnic_pd_get(1);
	dut.pd[1] = rnic_pd_get(2);
	ret = soft_create(res, dut.pd[0], &ops, &dut, &dut.c);
	if (!ret)
		ret = setup_regions(&dut);
	if (!ret)
		ret = setup_receives(&dut);
	if (!ret)
		ret = endpoint_respond(dut.c);
	if (ret) {
		fprintf(stderr, "iwdut: receiver state: %s\n", strerror(-ret));
		engine_stop();
	}
}

static void accept_next(void)
{
	struct io_uring_sqe *sqe = engine_sqe();

	accept_op.fn = accepted;
	io_uring_prep_accept(sqe, listener, NULL, NULL, SOCK_CLOEXEC);
	engine_submit(sqe, &accept_op);
}

static int listen_on(unsigned int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int one = 1;

	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(listener, (struct sockaddr *)&a, len) || listen(listener, 64) || getsockname(listener, (struct sockaddr *)&a, &len))
		return -errno;
	printf("listening on %u\n", ntohs(a.sin_port));
	return 0;
}

static void usage(FILE *f)
{
	fprintf(f, "usage: iwdut --port P [--crc on|off] [--markers] [--hide-stag-errors]\n"
		"  --port P      listen on 127.0.0.1 port P; 0: a free one\n"
		"  --crc on|off  what our Reply asks for (default on); off only works when the Request has C=0 too\n"
		"  --markers     ask the peer for Markers\n"
		"  --hide-stag-errors  STags of others are answered like STags that do not exist\n");
}

static bool port_number(const char *s, unsigned int *port)
{
	unsigned long v;
	char *end;

	if (*s < '0' || *s > '9')
		return false;
	v = strtoul(s, &end, 10);
	*port = (unsigned int)v;
	return !*end && v < 65536;
}

static int parse(int argc, char **argv, unsigned int *port)
{
	static const struct option opts[] = {
		{ "port", required_argument, NULL, 'p' }, { "crc", required_argument, NULL, 'c' },
		{ "markers", no_argument, NULL, 'm' }, { "help", no_argument, NULL, 'h' }, { "hide-stag-errors", no_argument, NULL, 's' }, { 0 },
	};
	bool have = false;
	int o;

	while ((o = getopt_long(argc, argv, "", opts, NULL)) != -1) {
		switch (o) {
		case 'p':
			have = port_number(optarg, port);
			if (!have)
				return -EINVAL;
			break;
		case 'c':
			if (strcmp(optarg, "on") && strcmp(optarg, "off"))
				return -EINVAL;
			conf.crc = !strcmp(optarg, "on");
			break;
		case 'm':
			conf.markers = true;
			break;
		case 's':
			conf.hide_stag_errors = true;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			return -EINVAL;
		}
	}
	return have && optind == argc ? 0 : -EINVAL;
}

int main(int argc, char **argv)
{
	unsigned int port;
	int ret;

	conf_default(&conf);
	prm_strict = false;
	conf.max_ird = conf.max_ord = 2;
	if (parse(argc, argv, &port)) {
		usage(stderr);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	log_init(LOG_ERR, 1);
	ret = engine_init();
	if (!ret)
		ret = listen_on(port);
	if (ret) {
		fprintf(stderr, "iwdut: %s\n", strerror(-ret));
		return 1;
	}
	accept_next();
	engine_run();
	return 0;
}
