// SPDX-License-Identifier: MIT
/*
 * One connection of rdma-core's rping protocol, either role. A ping: the client tells where its text is (STag, TO, length, in a Send),
 * the server fetches it by RDMA Read and says go on, the client tells where it wants it back, the server puts it there by RDMA Write
 * and says done.
 */
#include "rping_peer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/conf.h"
#include "daemon/base/list.h"
#include "daemon/rnic/soft.h"
#include "iwctl.h"
#include "out.h"
#include "proto/wire.h"

#define ALPHABET_FIRST	'A'
#define ALPHABET_LAST	'z'
#define NRECV		2u
#define NUDGE_MS	250u	/* see on_nudge() */

/* The message: where a buffer is. The server's two messages carry one too, which nobody looks at. */
struct rping_info {
	uint64_t to;
	uint32_t stag, size;
} __attribute__((packed));
static_assert(sizeof(struct rping_info) == 16, "rping_info");

enum state {
	STARTUP,
	WAIT_READ,		/* client: the source is advertised, the server reads */
	WAIT_WRITE,		/* client: the sink is advertised, the server writes */
	WAIT_SOURCE,		/* server: between two pings */
	READING,		/* server: our RDMA Read is on its way */
	WAIT_SINK,		/* server: told the client to go on */
	ENDING,
};
static const char *const state_names[] = {
	"the MPA startup", "the server's RDMA Read in", "the server's RDMA Write in", "the start of", "the response to our RDMA Read in",
	"the client's sink in", "the end after",
};

enum wr { WR_SEND = 1, WR_READ, WR_WRITE, WR_RECV };

struct rping_peer {
	struct list node;		/* in peers */
	const struct rping_opts *o;
	void (*done)(const struct rping_result *res);
	struct endpoint *ep;
	struct rnic_pd *pd;
	struct timer timer, nudge;
	enum state state;
	bool failed;
	uint32_t ping;			/* number of the current one */
	uint64_t start_us;
	struct rping_result res;

	uint8_t *mem;			/* text | back | receive buffers */
	size_t mem_len;
	uint8_t *text, *back, *recv;
	struct endpoint_mr text_mr, back_mr, recv_mr;
};

static struct list peers = { &peers, &peers };
static bool stopping;			/* the user wants no more pings */

void rping_pattern(uint8_t *p, uint32_t size, uint32_t n)
{
	const unsigned int letters = ALPHABET_LAST - ALPHABET_FIRST + 1;
	uint32_t i = (uint32_t)snprintf((char *)p, size, "rdma-ping-%u: ", n);
	uint32_t c = n % letters;

	for (; i < size; i++, c = (c + 1) % letters)
		p[i] = (uint8_t)(ALPHABET_FIRST + c);
	p[size - 1] = 0;
}

/* ---- the end ---- */

static void peer_free(struct rping_peer *r)
{
	list_del(&r->node);
	timer_stop(&r->timer);
	timer_stop(&r->nudge);
	/* the endpoint lingers on, its memory does not */
	endpoint_deregister(r->ep, &r->text_mr);
	endpoint_deregister(r->ep, &r->back_mr);
	endpoint_deregister(r->ep, &r->recv_mr);
	rnic_pd_put(r->pd);
	if (r->mem)
		munmap(r->mem, r->mem_len);
	free(r);
}

static void __attribute__((format(printf, 2, 3))) peer_fail(struct rping_peer *r, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (!r->failed) {
		va_start(ap, fmt);
		vsnprintf(text, sizeof(text), fmt, ap);
		va_end(ap);
		iwctl_error("rping: %s", text);
	}
	r->failed = true;
	r->state = ENDING;
	endpoint_close(r->ep);
}

static void on_closed(void *ctx, int err, const struct endpoint_said *reject)
{
	struct rping_peer *r = ctx;
	const struct iw_term *t = soft_term(r->ep);
	void (*done)(const struct rping_result *res) = r->done;
	struct rping_result res;

	if (err == ECONNREFUSED)
		peer_fail(r, "the other side rejected the connection (MPA Reply with R)");
	else if (err && r->state == STARTUP)
		peer_fail(r, "the MPA startup failed: %s", strerror(err));
	else if (err == EPROTO)
		peer_fail(r, "a Terminate while waiting for %s ping %u: %s", state_names[r->state], r->ping,
			  iw_term_text(t->layer, t->etype, t->code));
	else if (err && r->state != ENDING)
		peer_fail(r, "%s while waiting for %s ping %u", strerror(err), state_names[r->state], r->ping);
	r->res.ok = !r->failed;
	res = r->res;
	peer_free(r);
	done(&res);
}

static void on_timeout(struct timer *t)
{
	struct rping_peer *r = container_of(t, struct rping_peer, timer);

	peer_fail(r, "no answer within %u s while waiting for %s ping %u", r->o->timeout, state_names[r->state], r->ping);
}

/* ---- posting ---- */

static void post(struct rping_peer *r, const struct iw_wr *wr)
{
	int ret = endpoint_post_send(r->ep, wr);

	if (ret)
		peer_fail(r, "cannot post: %s", strerror(-ret));
}

static void post_info(struct rping_peer *r, const struct endpoint_mr *mr, uint32_t size)
{
	struct rping_info info = { htobe64(mr->to), htobe32(mr->stag), htobe32(size) };
	struct iw_wr wr = { .wr_id = WR_SEND, .op = IW_WR_SEND, .flags = IW_WR_INLINE | IW_WR_QUIET, .inl_len = sizeof(info) };

	memcpy(wr.inl, &info, sizeof(info));
	post(r, &wr);
}

static void post_rdma(struct rping_peer *r, uint8_t op, uint64_t wr_id, const struct rping_info *at, uint32_t len)
{
	struct iw_wr wr = {
		.wr_id = wr_id, .op = op, .flags = op == IW_WR_WRITE ? IW_WR_QUIET : 0, .nsge = 1, .rstag = be32toh(at->stag),
		.rto = be64toh(at->to), .sge[0] = { .to = r->text_mr.to, .stag = r->text_mr.stag, .len = len },
	};

	post(r, &wr);
}

static int post_recv(struct rping_peer *r, uint64_t i)
{
	struct iw_sge sge = { .to = r->recv_mr.to + i * sizeof(struct rping_info), .stag = r->recv_mr.stag,
			      .len = sizeof(struct rping_info) };

	return endpoint_post_recv(r->ep, WR_RECV + i, &sge);
}

/*
 * Linux siw as Responder overlooks what comes between its Reply and the moment its queue pair listens to the socket, until something
 * else comes. A Write of no octets is that, and nothing to everybody else (RFC 5041 5.2).
 */
static void on_nudge(struct timer *t)
{
	struct rping_peer *r = container_of(t, struct rping_peer, nudge);
	struct iw_wr wr = { .wr_id = WR_WRITE, .op = IW_WR_WRITE, .flags = IW_WR_QUIET };

	if (r->ping || r->state != WAIT_READ)
		return;
	post(r, &wr);
	timer_start(t, NUDGE_MS, on_nudge);
}

/* ---- client ---- */

static void wait_for(struct rping_peer *r, enum state st)
{
	if (r->failed)
		return;
	r->state = st;
	timer_start(&r->timer, r->o->timeout * 1000, on_timeout);
}

static void ping_begin(struct rping_peer *r)
{
	if (stopping || (r->o->count && r->ping == r->o->count)) {
		timer_stop(&r->timer);
		r->state = ENDING;
		endpoint_close(r->ep);
		return;
	}
	rping_pattern(r->text, r->o->size, r->ping);
	memset(r->back, 0, r->o->size);
	post_info(r, &r->text_mr, r->o->size);
	wait_for(r, WAIT_READ);
	if (!r->ping)
		timer_start(&r->nudge, NUDGE_MS, on_nudge);
}

/* A string, as the peer sent it: what a terminal might obey is not shown. */
static void show(const struct rping_peer *r, const char *who, const uint8_t *text, uint32_t size)
{
	if (!r->o->verbose || iwctl.json)
		return;
	printf("%sping data: ", who);
	for (uint32_t i = 0; i < size && text[i]; i++)
		putchar(text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
	putchar('\n');
}

/* A ping is over. The time is that of the pings, without what comes behind the last one. */
static void ping_count(struct rping_peer *r)
{
	r->res.pings = ++r->ping;
	r->res.us = engine_clock_us() - r->start_us;
}

static void ping_end(struct rping_peer *r)
{
	uint32_t i;

	if (r->o->validate && memcmp(r->text, r->back, r->o->size)) {
		for (i = 0; r->text[i] == r->back[i]; i++)
			;
		peer_fail(r, "ping %u came back changed: octet %u is 0x%02x, was 0x%02x", r->ping, i, r->back[i], r->text[i]);
		return;
	}
	show(r, "", r->back, r->o->size);
	r->res.octets += r->o->size;
	ping_count(r);
	ping_begin(r);
}

static void client_message(struct rping_peer *r)
{
	switch (r->state) {
	case WAIT_READ:
		post_info(r, &r->back_mr, r->o->size);
		wait_for(r, WAIT_WRITE);
		break;
	case WAIT_WRITE:
		ping_end(r);
		break;
	case ENDING:
		break;
	default:
		peer_fail(r, "a message came that nobody waited for");
	}
}

/* ---- server ---- */

static void server_message(struct rping_peer *r, const struct rping_info *info)
{
	uint32_t size = be32toh(info->size);

	if (r->state == WAIT_SOURCE && size && size <= r->o->size) {
		r->res.octets += size;
		r->state = READING;
		post_rdma(r, IW_WR_READ, WR_READ, info, size);
	} else if (r->state == WAIT_SOURCE) {
		peer_fail(r, "the client has %u octets, this server room for %u: see --size", size, r->o->size);
	} else if (r->state == WAIT_SINK) {
		uint32_t len = (uint32_t)strnlen((char *)r->text, r->o->size) + 1;	/* the text with its NUL */

		post_rdma(r, IW_WR_WRITE, WR_WRITE, info, len < size ? len : size);
		post_info(r, &r->text_mr, size);
		ping_count(r);
		if (r->failed)
			return;
		r->state = WAIT_SOURCE;
		if (r->o->count && r->ping == r->o->count) {
			r->state = ENDING;
			endpoint_close(r->ep);
		}
	} else if (r->state != ENDING) {
		peer_fail(r, "the client sent a message out of turn");
	}
}

static bool text_good(struct rping_peer *r, uint32_t size)
{
	rping_pattern(r->back, size, r->ping);
	return !memcmp(r->back, r->text, size);
}

static void server_read(struct rping_peer *r, uint32_t len)
{
	if (r->o->validate && !text_good(r, len)) {
		peer_fail(r, "what was read from the client is not the text of ping %u", r->ping);
		return;
	}
	/* the text is printed and sent back as a string */
	r->text[len - 1] = 0;
	show(r, "server ", r->text, len);
	r->state = WAIT_SINK;
	post_info(r, &r->text_mr, len);
}

/* ---- what the connection tells ---- */

static void on_recv(struct rping_peer *r, const struct iw_cqe *cqe)
{
	struct rping_info info;

	if (cqe->has_imm || cqe->len != sizeof(info)) {
		peer_fail(r, "a message of %u octets came; rping's have %zu", cqe->len, sizeof(info));
		return;
	}
	memcpy(&info, r->recv + (cqe->wr_id - WR_RECV) * sizeof(info), sizeof(info));
	if (post_recv(r, cqe->wr_id - WR_RECV)) {
		peer_fail(r, "cannot post a receive");
		return;
	}
	if (r->o->server)
		server_message(r, &info);
	else
		client_message(r);
}

static void on_complete(void *ctx, const struct iw_cqe *cqe)
{
	struct rping_peer *r = ctx;

	if (cqe->status != IW_WC_OK || r->failed)
		return;		/* why is told by event() and closed() */
	if (cqe->op == IW_WR_RECV)
		on_recv(r, cqe);
	else if (cqe->op == IW_WR_READ)
		server_read(r, cqe->len);
}

static void on_event(void *ctx, enum endpoint_event ev)
{
	struct rping_peer *r = ctx;

	if (ev != ENDPOINT_EV_EOF)
		return;
	/* a client without a count always finds out in the middle of a ping */
	if (r->state != ENDING && r->state != WAIT_SOURCE && !(r->state == WAIT_READ && !r->o->count))
		peer_fail(r, "the other side closed the connection while we waited for %s ping %u", state_names[r->state], r->ping);
	r->state = ENDING;
	endpoint_close(r->ep);
}

static void on_request(void *ctx, const struct endpoint_said *said)
{
	struct rping_peer *r = ctx;
	int ret = endpoint_accept(r->ep, NULL, 0);

	if (ret)
		peer_fail(r, "cannot accept: %s", strerror(-ret));
}

static void on_established(void *ctx, const struct endpoint_said *said)
{
	struct rping_peer *r = ctx;

	r->res.up = true;
	r->res.crc = soft_param(r->ep)->crc;
	r->res.p2p = said->p2p;
	r->start_us = engine_clock_us();
	if (r->o->server)
		r->state = WAIT_SOURCE;
	else
		ping_begin(r);
}

static const struct endpoint_ulp peer_ulp = {
	.request = on_request, .established = on_established, .complete = on_complete, .event = on_event, .closed = on_closed,
};

/* ---- start ---- */

/* Text: what is read from remote (client), or where a Read puts it and a Write takes it (server). Back: the client's sink. */
static int peer_memory(struct rping_peer *r)
{
	unsigned int text = r->o->server ? IW_ACCESS_READ_SINK | IW_ACCESS_LOCAL_READ : IW_ACCESS_REMOTE_READ;
	size_t size = r->o->size;
	int ret;

	r->mem_len = 2 * size + NRECV * sizeof(struct rping_info);
	r->mem = mmap(NULL, r->mem_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->mem == MAP_FAILED) {
		r->mem = NULL;
		return -ENOMEM;
	}
	r->text = r->mem;
	r->back = r->mem + size;
	r->recv = r->mem + 2 * size;
	ret = endpoint_register(r->ep, r->text, size, 0, text, &r->text_mr);
	if (!ret && !r->o->server)
		ret = endpoint_register(r->ep, r->back, size, 0, IW_ACCESS_REMOTE_WRITE, &r->back_mr);
	if (!ret)
		ret = endpoint_register(r->ep, r->recv, NRECV * sizeof(struct rping_info), 0, IW_ACCESS_LOCAL_WRITE, &r->recv_mr);
	for (unsigned int i = 0; !ret && i < NRECV; i++)
		ret = post_recv(r, i);
	return ret;
}

int rping_peer_start(int fd, const struct rping_opts *o, void (*done)(const struct rping_result *res))
{
	struct rping_peer *r = calloc(1, sizeof(*r));
	struct soft_mpa mpa;
	int ret = -ENOMEM;

	if (!r) {
		close(fd);
		return ret;
	}
	list_add_tail(&peers, &r->node);
	r->pd = rnic_pd_get(getuid());
	if (!r->pd)
		goto err;
	r->o = o;
	r->done = done;
	r->start_us = engine_clock_us();
	ret = soft_create(fd, r->pd, &peer_ulp, r, &r->ep);
	if (ret)
		goto err;
	ret = peer_memory(r);
	if (ret)
		goto err_conn;
	mpa = (struct soft_mpa){ .rev = (uint8_t)o->rev, .p2p = o->p2p, .crc = o->crc, .markers = o->markers, .ird = 1, .ord = 1 };
	soft_set_mpa(r->ep, &mpa);
	ret = o->server ? endpoint_respond(r->ep) : endpoint_initiate(r->ep, NULL, 0);
	if (!ret)
		return 0;
err_conn:
	endpoint_abort(r->ep);
	peer_free(r);
	return ret;
err:
	close(fd);
	peer_free(r);
	return ret;
}

/* A client finishes the ping it is at; whom a server answers is not known to go on. */
void rping_stop(void)
{
	stopping = true;
	list_each(n, nxt, &peers) {
		struct rping_peer *r = list_entry(n, struct rping_peer, node);

		if (r->state == STARTUP) {
			peer_fail(r, "interrupted in the MPA startup");
		} else if (r->state != WAIT_READ && r->state != WAIT_WRITE) {
			r->state = ENDING;
			endpoint_close(r->ep);
		}
	}
}
