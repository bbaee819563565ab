/* SPDX-License-Identifier: MIT */
/* An endpoint of the daemon and a peer that is this test: it says golden vectors and hears what the endpoint says. */
#ifndef TESTS_CONN_PEER_H
#define TESTS_CONN_PEER_H

#include "util.h"

#include <netinet/tcp.h>

#include "daemon/rnic/soft.h"
#include "proto/crc32c.h"
#include "proto/wire.h"
#include "tests/unit/vec_util.h"

static struct {
	struct endpoint *c;
	struct iw_mpa_frame request, frame;	/* frame: as established() or closed() had it */
	const uint8_t *pd;
	size_t pd_len;
	bool requested, established, closed, rejected, late, reject;
	bool eager;				/* post a Send as soon as it is up */
	bool unusable;				/* what the peer says is of no use */
	bool close_on_eof;
	int err;
	void (*first)(void);			/* the first FPDU came */
	unsigned int ok, flushed, terms, recvs;
	struct iw_term term;
} z;
static struct rnic_pd *pd;
static int tcp[2];		/* of the test; -1 where the endpoint took over. tcp[0] is the peer */
static uint8_t mem[1 << 20];
static struct rnic_mr *mr;

static void decide(void)
{
	if (z.reject)
		assert_int_equal(endpoint_reject(z.c, z.pd, z.pd_len), 0);
	else
		assert_int_equal(endpoint_accept(z.c, z.pd, z.pd_len), 0);
}

static void on_request(void *ctx, const struct endpoint_said *said)
{
	z.requested = true;
	z.request = *soft_request(z.c);
	if (!z.late)
		decide();
}

static inline void post_send(const char *s)
{
	struct iw_wr wr = { .op = IW_WR_SEND, .flags = IW_WR_INLINE, .inl_len = (uint8_t)strlen(s) };

	memcpy(wr.inl, s, strlen(s));
	assert_int_equal(endpoint_post_send(z.c, &wr), 0);
}

static void on_established(void *ctx, const struct endpoint_said *said)
{
	z.established = true;
	z.frame = *(soft_param(z.c)->initiator ? soft_reply(z.c) : soft_request(z.c));
	if (z.unusable) {
		rnic_mr_dereg(mr);
		mr = NULL;
		endpoint_terminate(z.c);
		z.c = NULL;
		return;
	}
	if (z.eager)
		post_send("ping");
}

static void on_complete(void *ctx, const struct iw_cqe *c)
{
	z.recvs += c->op == IW_WR_RECV && c->status == IW_WC_OK;
	if (c->status == IW_WC_OK)
		z.ok++;
	else
		z.flushed++;
}

static void on_event(void *ctx, enum endpoint_event ev)
{
	if (ev == ENDPOINT_EV_EOF && z.close_on_eof)
		endpoint_close(z.c);
	if (ev == ENDPOINT_EV_FIRST && z.first)
		z.first();
	if (ev != ENDPOINT_EV_TERM_SENT && ev != ENDPOINT_EV_TERM_RECEIVED)
		return;
	z.terms++;
	z.term = *soft_term(z.c);
}

static void on_closed(void *ctx, int err, const struct endpoint_said *reject)
{
	z.closed = true;
	z.err = err;
	z.rejected = reject;
	if (!z.terms)
		z.term = *soft_term(z.c);
	if (reject)
		z.frame = *soft_reply(z.c);
	rnic_mr_dereg(mr);
	mr = NULL;
	z.c = NULL;
}

static const struct endpoint_ulp ops = {
	.request = on_request, .established = on_established, .complete = on_complete, .event = on_event, .closed = on_closed,
};

static int setup(void **state)
{
	conf_default(&conf);
	prm_strict = false;
	conf.log_level = 0;
	conf.startup_timeout = 60000;	/* a busy machine is not what is tested */
	pd = rnic_pd_get(1);
	memset(&z, 0, sizeof(z));
	tcp_pair(tcp);
	return 0;
}

static bool quiet(void *arg)
{
	return !rnic_mr_count();
}

static int teardown(void **state)
{
	if (z.c) {
		rnic_mr_dereg(mr);
		endpoint_abort(z.c);
	}
	mr = NULL;
	for (int i = 0; i < 2; i++)
		if (tcp[i] >= 0)
			close(tcp[i]);
	run_until(quiet, NULL);
	run_rounds(5);
	rnic_pd_put(pd);
	return 0;
}

static inline void again(void)
{
	void *none = NULL;

	teardown(&none);
	pd = rnic_pd_get(1);
	memset(&z, 0, sizeof(z));
	tcp_pair(tcp);
}

static void create(void)
{
	assert_int_equal(soft_create(tcp[1], pd, &ops, NULL, &z.c), 0);
	tcp[1] = -1;
	assert_int_equal(rnic_mr_reg(pd, soft_qp(z.c), mem, sizeof(mem), 0, 63, &mr), 0);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(endpoint_post_recv(z.c, i, &(struct iw_sge){ .stag = rnic_mr_stag(mr), .to = i * 64, .len = 64 }), 0);
}

static inline void respond(void)
{
	create();
	assert_int_equal(endpoint_respond(z.c), 0);
}

static inline void initiate(const char *s)
{
	create();
	assert_int_equal(endpoint_initiate(z.c, (const uint8_t *)s, strlen(s)), 0);
}

static void say(const void *p, size_t n)
{
	assert_int_equal(send(tcp[0], p, n, MSG_NOSIGNAL), n);
}

static inline void say_vec(const char *name)
{
	const struct vec *v = vec_get(name);

	say(v->p, v->n);
}

static struct { uint8_t p[8 << 20]; size_t n; bool eof; int err; } heard;

static bool hear_until(void *arg)
{
	size_t want = *(size_t *)arg;
	ssize_t n;

	while ((n = recv(tcp[0], heard.p + heard.n, sizeof(heard.p) - heard.n, MSG_DONTWAIT)) > 0)
		heard.n += (size_t)n;
	heard.eof |= !n;
	if (n < 0 && errno != EAGAIN)
		heard.err = errno;
	return heard.n >= want || heard.eof || heard.err;
}

/* Wait for n octets more of the endpoint (or its end). */
static const uint8_t *hear(size_t n)
{
	heard.n = 0;
	heard.eof = false;
	heard.err = 0;
	run_until(hear_until, &n);
	assert_int_equal(heard.n, n);
	return heard.p;
}

static inline void hear_vec(const char *name)
{
	const struct vec *v = vec_get(name);

	assert_memory_equal(hear(v->n), v->p, v->n);
}

/* The Responder of the vectors takes only Writes as RTR. Ours takes all that mpa.req.r2.p2p offers. */
static inline const uint8_t *p2p_reply(void)
{
	static uint8_t out[24];

	memcpy(out, vec_get("mpa.rep.r2.p2p")->p, sizeof(out));
	out[22] |= 0x40;
	return out;
}

/* Everything that is still to come. */
static inline void hear_end(void)
{
	size_t all = SIZE_MAX;

	heard.n = 0;
	heard.eof = false;
	heard.err = 0;
	run_until(hear_until, &all);
}

static inline struct iw_mpa_frame hear_frame(size_t len)
{
	struct iw_mpa_frame f;

	assert_int_equal(iw_mpa_decode(&f, hear(len), len, true), len);
	return f;
}

static inline bool got_one(void *arg)
{
	return z.ok;
}

static inline const struct iw_qp_param *param(void)
{
	return soft_param(z.c);
}

static int group_setup(void **state)
{
	log_init(0, 1);
	vec_load();
	return engine_init();
}

static int group_teardown(void **state)
{
	engine_fini();
	vec_unload();
	return 0;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
