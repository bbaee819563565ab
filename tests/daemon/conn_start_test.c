/* SPDX-License-Identifier: MIT */
/* MPA startup of an endpoint against a peer of golden vectors: what is answered, what is settled, who speaks first, how errors end. */
#include "util.h"

#include <netinet/tcp.h>

#include "../../daemon/conn.h"
#include "../../proto/crc32c.h"
#include "../../proto/wire.h"
#include "../unit/vec_util.h"

static struct {
	struct conn *c;
	struct iw_mpa_frame request, frame;	/* frame: as established() or closed() had it */
	const uint8_t *pd;
	size_t pd_len;
	bool requested, established, closed, rejected, late, reject;
	bool eager;				/* post a Send as soon as it is up */
	int err;
	unsigned int ok, flushed, terms;
	struct iw_term term;
} z;
static struct rnic_pd *pd;
static int tcp[2];		/* of the test; -1 where the endpoint took over. tcp[0] is the peer */
static uint8_t mem[1 << 20];
static struct rnic_mr *mr;

static void decide(void)
{
	if (z.reject)
		assert_int_equal(conn_reject(z.c, z.pd, z.pd_len), 0);
	else
		assert_int_equal(conn_accept(z.c, z.pd, z.pd_len), 0);
}

static void on_request(void *ctx, const struct iw_mpa_frame *f)
{
	z.requested = true;
	z.request = *f;
	if (!z.late)
		decide();
}

static void post_send(const char *s)
{
	struct iw_wr wr = { .op = IW_WR_SEND, .flags = IW_WR_INLINE, .inl_len = (uint8_t)strlen(s) };

	memcpy(wr.inl, s, strlen(s));
	assert_int_equal(rnic_post_send(conn_qp(z.c), &wr), 0);
	conn_kick(z.c);
}

static void on_established(void *ctx, const struct iw_mpa_frame *f)
{
	z.established = true;
	z.frame = *f;
	if (z.eager)
		post_send("ping");
}

static void on_complete(void *ctx, const struct iw_cqe *c)
{
	if (c->status == IW_WC_OK)
		z.ok++;
	else
		z.flushed++;
}

static void on_event(void *ctx, enum iw_qp_event ev)
{
	if (ev != IW_QP_EV_TERM_SENT && ev != IW_QP_EV_TERM_RECEIVED)
		return;
	z.terms++;
	z.term = rnic_qp_state(conn_qp(z.c))->term;
}

static void on_closed(void *ctx, int err, const struct iw_mpa_frame *reject)
{
	z.closed = true;
	z.err = err;
	z.rejected = reject;
	if (reject)
		z.frame = *reject;
	rnic_mr_dereg(mr);
	mr = NULL;
	z.c = NULL;
}

static const struct conn_ops ops = {
	.request = on_request, .established = on_established, .complete = on_complete, .event = on_event, .closed = on_closed,
};

static int setup(void **state)
{
	conf_default(&conf);
	conf.log_level = 0;
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
		conn_abort(z.c);
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

static void again(void)
{
	void *none = NULL;

	teardown(&none);
	pd = rnic_pd_get(1);
	memset(&z, 0, sizeof(z));
	tcp_pair(tcp);
}

static void create(void)
{
	assert_int_equal(conn_create(tcp[1], pd, &ops, NULL, &z.c), 0);
	tcp[1] = -1;
	assert_int_equal(rnic_mr_reg(pd, conn_qp(z.c), mem, sizeof(mem), 0, 63, &mr), 0);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(rnic_post_recv(conn_qp(z.c), i, &(struct iw_sge){ .stag = rnic_mr_stag(mr), .to = i * 64, .len = 64 }), 0);
}

static void respond(void)
{
	create();
	assert_int_equal(conn_respond(z.c), 0);
}

static void initiate(const char *s)
{
	create();
	assert_int_equal(conn_initiate(z.c, (const uint8_t *)s, strlen(s)), 0);
}

static void say(const void *p, size_t n)
{
	assert_int_equal(send(tcp[0], p, n, MSG_NOSIGNAL), n);
}

static void say_vec(const char *name)
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

static void hear_vec(const char *name)
{
	const struct vec *v = vec_get(name);

	assert_memory_equal(hear(v->n), v->p, v->n);
}

/* Everything that is still to come. */
static void hear_end(void)
{
	size_t all = SIZE_MAX;

	heard.n = 0;
	heard.eof = false;
	heard.err = 0;
	run_until(hear_until, &all);
}

static struct iw_mpa_frame hear_frame(size_t len)
{
	struct iw_mpa_frame f;

	assert_int_equal(iw_mpa_decode(&f, hear(len), len, true), len);
	return f;
}

static bool got_one(void *arg)
{
	return z.ok;
}

static const struct iw_qp_param *param(void)
{
	return &rnic_qp_state(conn_qp(z.c))->param;
}

/* ---- Responder: the exact Reply ---- */
static void replies(void **state)
{
	static const struct {
		const char *request, *reply;
		unsigned int ird, ord, qird, qord;	/* our maxima; what holds then */
		bool crc;
	} c[] = {
		{ "mpa.req.r1.c", "mpa.rep.r1.c", 16, 16, 16, 16, true },
		{ "mpa.req.r1", "mpa.rep.r1.c", 16, 16, 16, 16, true },		/* off only when both say so (MPA-4.4-02) */
		{ "mpa.req.r1", "mpa.rep.r1", 16, 16, 16, 16, false },
		{ "mpa.req.r1.c", "mpa.rep.r1.c", 16, 16, 16, 16, false },
		{ "mpa.ign.res", "mpa.rep.r1.c", 16, 16, 16, 16, true },
		{ "mpa.ign.r", "mpa.rep.r1.c", 16, 16, 16, 16, true },
		{ "mpa.req.r1.pd512", "mpa.rep.r1.c", 16, 16, 16, 16, true },
		{ "mpa.req.r2.p2p", "mpa.rep.r2.p2p", 16, 16, 16, 16, true },
		{ "mpa.req.r2.cs", "mpa.rep.r2.cs", 32, 32, 8, 32, true },
		{ "mpa.req.r2.noneg", "mpa.rep.r2.noneg", 7, 5, 7, 5, true },
	};

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		conf_default(&conf);
		conf.max_ird = c[i].ird;
		conf.max_ord = c[i].ord;
		conf.crc = c[i].crc;
		respond();
		say_vec(c[i].request);
		hear_vec(c[i].reply);
		run_until(is_true, &z.established);
		assert_int_equal(param()->ird, c[i].qird);
		assert_int_equal(param()->ord, c[i].qord);
		assert_int_equal(param()->crc, strcmp(c[i].reply, "mpa.rep.r1") != 0);
		assert_int_equal(z.request.pd_len, strstr(c[i].request, "pd512") ? 512 : 0);
		again();
	}
}

/* EMPA-6-02: Rev 2 without S: plain private data, answered without S. */
static void plain_rev2(void **state)
{
	struct iw_mpa_frame f;

	respond();
	say_vec("mpa.req.r2.s0");
	f = hear_frame(20);
	assert_true(f.rev == 2 && !f.enhanced && !f.reject && f.crc);
	assert_int_equal(z.request.pd_len, 5);
	assert_memory_equal(z.request.pd, "plain", 5);
}

static void negotiated_depths(void **state)
{
	static const struct { unsigned int ird, ord, want_ird, want_ord; } c[] = { { 32, 4, 16, 4 }, { 4, 4, 4, 4 }, { 16, 32, 16, 16 } };
	struct iw_mpa_frame f;

	for (unsigned int i = 0; i < 3; i++) {
		conf.max_ird = c[i].ird;
		conf.max_ord = c[i].ord;
		respond();
		say_vec("mpa.req.r2.p2p");
		f = hear_frame(24);
		assert_true(f.ird == c[i].want_ird && f.ord == c[i].want_ord && f.p2p && (f.rtr_write || f.rtr_read) && !f.rtr_send);
		run_until(is_true, &z.established);
		assert_true(z.frame.ird == 16 && z.frame.ord == 16);	/* the ULP sees what the peer said */
		assert_true(param()->ird == c[i].want_ird && param()->ord == c[i].want_ord);
		again();
	}
}

/* EMPA-12-01: absurd depths are clamped. */
static void absurd_depths(void **state)
{
	struct iw_mpa_frame q = { .rev = 2, .crc = 1, .enhanced = 1, .p2p = 1, .rtr_write = 1, .ird = 0x3ffe, .ord = 0x3ffe }, f;
	uint8_t out[IW_MPA_FRAME_MAX];

	respond();
	say(out, (size_t)iw_mpa_encode(&q, out));
	f = hear_frame(24);
	assert_true(f.ird == 16 && f.ord == 16);
	run_until(is_true, &z.established);
	assert_true(param()->ird == 16 && param()->ord == 16);
}

/* EMPA-9.2-01: A=0 makes B, C and D meaningless; the client-server model holds: no RTR, and the Responder waits all the same. */
static void ignored_bits(void **state)
{
	struct iw_mpa_frame f;

	respond();
	say_vec("mpa.ign.bcd");
	f = hear_frame(24);
	assert_true(f.enhanced && !f.p2p && !f.rtr_send && !f.rtr_write && !f.rtr_read);
}

/* MPA-7.1-02: no Reply before the ULP has decided, and then both ends are in Full Operation. */
static void late_decision(void **state)
{
	char c;

	z.late = true;
	respond();
	say_vec("mpa.req.r1.c");
	run_until(is_true, &z.requested);
	run_rounds(20);
	assert_true(recv(tcp[0], &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	decide();
	hear_vec("mpa.rep.r1.c");
	say_vec("fpdu.send.5");
	run_until(got_one, NULL);
	assert_memory_equal(mem, "hello", 5);
}

/* MPA-7.1.2-03: a Reply with R=1 and the ULP's octets. */
static void rejects(void **state)
{
	z.reject = true;
	z.pd = (const uint8_t *)"no";
	z.pd_len = 2;
	respond();
	say_vec("mpa.req.r1.c");
	hear_vec("mpa.rep.r1.reject");
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, ECONNREFUSED);
}

/* MPA-7.1.2-05: a Responder that has Sends to send is silent until an FPDU has come and was good. */
static void responder_waits(void **state)
{
	for (int bad = 0; bad < 2; bad++) {
		char c;

		z.eager = true;
		respond();
		say_vec("mpa.req.r1.c");
		hear_vec("mpa.rep.r1.c");
		run_until(is_true, &z.established);
		run_rounds(200);
		assert_true(recv(tcp[0], &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
		if (bad) {
			say_vec("neg.crc");
			hear_vec("want.crc");
			hear_end();
			assert_true(heard.eof && heard.n == 0);
			run_until(is_true, &z.closed);
			assert_int_equal(z.flushed, 5);
		} else {
			const uint8_t *p;

			say_vec("fpdu.write.zero");
			p = hear(28);
			assert_true(p[3] == 0x43 && !memcmp(p + 20, "ping", 4));
		}
		again();
	}
}

/* Whole half connections, cut at each octet: MPA-7.1-01. */
static void conversation_cut(void **state)
{
	const struct vec *in = vec_get("conv.p2p.i2r"), *out = vec_get("conv.p2p.r2i"), *req = vec_get("mpa.req.r2.p2p");

	for (size_t cut = 0; cut < in->n; cut++) {
		const uint8_t *p;

		respond();
		if (cut && cut < req->n) {
			say(in->p, cut);
			run_rounds(2);
		}
		say(in->p + (cut < req->n ? cut : 0), req->n - (cut < req->n ? cut : 0));
		p = hear(req->n);
		assert_memory_equal(p, out->p, req->n);
		if (cut > req->n) {
			say(in->p + req->n, cut - req->n);
			run_rounds(2);
		}
		post_send("pong");
		say(in->p + (cut > req->n ? cut : req->n), in->n - (cut > req->n ? cut : req->n));
		p = hear(out->n - req->n);
		assert_memory_equal(p, out->p + req->n, out->n - req->n);
		run_until(got_one, NULL);
		assert_memory_equal(mem, "ping", 4);
		again();
	}
}

/* ---- Initiator ---- */
static void hear_request(void)
{
	hear_vec("mpa.req.r2.p2p");
}

/* The first FPDU is the RTR, whatever was posted before: EMPA-5-01, conv.p2p.i2r octet for octet. */
static void rtr_first(void **state)
{
	const struct vec *v = vec_get("conv.p2p.i2r");

	z.eager = true;
	initiate("");
	hear_request();
	say_vec("mpa.rep.r2.p2p");
	assert_memory_equal(hear(v->n - 24), v->p + 24, v->n - 24);
}

/* The Responder wants a Read as RTR. Its answer completes nothing of ours. */
static void rtr_read(void **state)
{
	initiate("");
	hear_request();
	say_vec("mpa.rep.r2.p2p.read");
	hear_vec("fpdu.rreq.zero");
	assert_true(z.established && z.frame.ird == 4 && z.frame.ord == 8 && z.frame.pd_len == 4);
	assert_true(param()->ord == 4);
	say_vec("fpdu.rresp.zero");
	say_vec("fpdu.send.5");
	run_until(got_one, NULL);
	assert_int_equal(z.ok, 1);
}

/* EMPA-9.1-05: what the Responder says of its depths reaches the ULP, accepted or not. */
static void depths_reach_the_ulp(void **state)
{
	struct iw_mpa_frame r = { .reply = 1, .rev = 2, .crc = 1, .enhanced = 1, .p2p = 1, .rtr_write = 1, .ird = 8, .ord = 32 };
	uint8_t out[IW_MPA_FRAME_MAX];

	initiate("");
	hear_request();
	say(out, (size_t)iw_mpa_encode(&r, out));
	run_until(is_true, &z.established);
	assert_true(z.frame.ird == 8 && z.frame.ord == 32);
	assert_true(param()->ord == 8 && param()->ird == 32);		/* EMPA-9.1-03: IRD >= its ORD, ORD <= its IRD */
	again();
	initiate("");
	hear_request();
	say_vec("mpa.rep.r2.reject.ird");
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, ECONNREFUSED);
	assert_true(z.rejected && z.frame.ird == 8 && z.frame.ord == 32 && !z.established);
	hear_end();
	assert_int_equal(heard.n, 0);			/* no FPDU */
}

/* A Reply of Revision 1 that rejects is understood (MPA-7.1.2-04). */
static void rejected_by_rev1(void **state)
{
	initiate("");
	hear_request();
	say_vec("mpa.rep.r1.reject");
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, ECONNREFUSED);
	assert_true(z.rejected && z.frame.pd_len == 2 && !memcmp(z.frame.pd, "no", 2));
}

/* EMPA-9.1-03: more Reads than we can answer: the Terminate 2/0/06 is our first FPDU. */
static void too_many_reads(void **state)
{
	struct iw_mpa_frame r = { .reply = 1, .rev = 2, .crc = 1, .enhanced = 1, .p2p = 1, .rtr_write = 1, .ird = 16, .ord = 0x1000 };
	uint8_t out[IW_MPA_FRAME_MAX];

	initiate("");
	hear_request();
	say(out, (size_t)iw_mpa_encode(&r, out));
	hear_vec("term.llp.ird");
	hear_end();
	assert_true(heard.eof && !heard.n && !z.established);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, EPROTO);
	assert_true(z.term.layer == 2 && z.term.code == 6);
}

/* MPA-7.1.2-06: both ends begin. */
static bool failed_too;

static void other_closed(void *ctx, int err, const struct iw_mpa_frame *reject)
{
	failed_too = err == EPROTO || err == ECONNRESET;
}

static bool both_failed(void *arg)
{
	return z.closed && failed_too;
}

static void two_initiators(void **state)
{
	struct conn_ops other = ops;
	struct conn *c;

	failed_too = false;
	other.closed = other_closed;
	assert_int_equal(conn_create(tcp[0], pd, &other, NULL, &c), 0);
	tcp[0] = -1;
	assert_int_equal(conn_initiate(c, NULL, 0), 0);
	initiate("");
	run_until(both_failed, NULL);
	assert_true(z.err == EPROTO || z.err == ECONNRESET);
	assert_false(z.established);
}

/* MPA-7.1.1-02: Markers go where they were asked for, and only there. */
static void markers_as_asked(void **state)
{
	for (int k = 0; k < 4; k++) {
		struct iw_mpa_frame f, q = { .rev = 1, .crc = 1, .markers = k & 1 };
		static uint8_t out[IW_MPA_FRAME_MAX];
		const uint8_t *p;
		uint8_t first[28];

		conf.markers = k & 2;
		z.eager = true;
		respond();
		say(out, (size_t)iw_mpa_encode(&q, out));
		f = hear_frame(20);
		assert_int_equal(f.markers, k / 2);
		if (k & 2) {
			say_vec("stream.m.fig5");
		} else {
			memcpy(first, vec_get("fpdu.write.zero")->p, 20);
			say(first, 20);
		}
		p = hear(k & 1 ? 32 : 28);
		if (k & 1)
			assert_int_equal(iw_get32(p), 0);
		assert_int_equal(iw_get16(p + (k & 1) * 4), 22);
		again();
	}
}

/* ---- sizes follow the EMSS ---- */
static unsigned int emss(void)
{
	struct tcp_info ti;
	socklen_t len = sizeof(ti);

	assert_int_equal(getsockopt(conn_fd(z.c), IPPROTO_TCP, TCP_INFO, &ti, &len), 0);
	return ti.tcpi_snd_mss;
}

static void pair_with_maxseg(int maxseg)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	close(tcp[0]);
	close(tcp[1]);
	assert_int_equal(setsockopt(l, IPPROTO_TCP, TCP_MAXSEG, &maxseg, sizeof(maxseg)), 0);
	assert_int_equal(bind(l, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
	tcp[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(tcp[0], (struct sockaddr *)&a, len), 0);
	tcp[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	close(l);
}

/* LLP-3-01, MPA-5.1-01, MPA-4.5-03, DDP-5.2-01: every ULPDU but the last is exactly MULPDU long. */
static void ulpdus_fill_the_emss(void **state)
{
	static const int maxseg[] = { 536, 1000, 1448, 9000, 0 };

	for (unsigned int i = 0; i < 5; i++) {
		struct iw_wr wr = { .op = IW_WR_WRITE, .nsge = 1, .rstag = 1, .sge = { { .len = 1 << 20 } } };
		unsigned int mulpdu, n = 0;
		size_t p = 0, total;

		if (maxseg[i])
			pair_with_maxseg(maxseg[i]);
		conf.crc = false;
		respond();
		say_vec("mpa.req.r1");
		hear_vec("mpa.rep.r1");
		say_vec("fpdu.write.zero");
		run_until(is_true, &z.established);
		mulpdu = iw_mpa_mulpdu(emss(), false);
		wr.sge[0].stag = rnic_mr_stag(mr);
		assert_int_equal(rnic_post_send(conn_qp(z.c), &wr), 0);
		conn_kick(z.c);
		n = ((1 << 20) + mulpdu - 15) / (mulpdu - 14);
		total = (size_t)(n - 1) * iw_mpa_fpdu_len((uint16_t)mulpdu) +
			iw_mpa_fpdu_len((uint16_t)(14 + (1 << 20) - (n - 1) * (mulpdu - 14)));
		hear(total);
		for (unsigned int k = 0; k < n; k++) {
			assert_true(k + 1 == n || iw_get16(heard.p + p) == mulpdu);
			p += iw_mpa_fpdu_len(iw_get16(heard.p + p));
		}
		assert_int_equal(p, total);
		again();
	}
}

/* ---- ends ---- */
static void up(const char *first)
{
	respond();
	say_vec("mpa.req.r1.c");
	hear_vec("mpa.rep.r1.c");
	say_vec(first);
	run_until(is_true, &z.established);
	run_rounds(3);
}

/* RDMAP-6.2.1-03: however much the peer still sends, it gets the whole Terminate and then the end of the stream, never a reset. */
static void terminate_survives_input(void **state)
{
	static uint8_t junk[1 << 20];
	size_t sent = 0;

	up("fpdu.write.zero");
	say_vec("neg.qn4");
	while (sent < sizeof(junk)) {
		ssize_t n = send(tcp[0], junk + sent, sizeof(junk) - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		assert_true(n > 0 || errno == EAGAIN);
		sent += n > 0 ? (size_t)n : 0;
		run_rounds(2);
	}
	hear_vec("want.qn4");
	hear_end();
	assert_true(heard.eof && !heard.err && !heard.n);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, EPROTO);
	assert_int_equal(z.terms, 1);
}

/* RDMAP-5.4-04, -06: a Terminate comes while a hundred posts wait behind a peer that does not read. */
static void terminate_while_stalled(void **state)
{
	struct iw_wr wr = { .op = IW_WR_SEND, .nsge = 1, .sge = { { .len = 1 << 18 } } };
	size_t p = 0;

	up("fpdu.write.zero");
	wr.sge[0].stag = rnic_mr_stag(mr);
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(rnic_post_send(conn_qp(z.c), &wr), 0);
	conn_kick(z.c);
	run_rounds(50);
	say_vec("term.llp.crc");
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, EPROTO);
	assert_int_equal(z.ok + z.flushed, 104);		/* each exactly once, the four receives too */
	assert_true(z.flushed >= 80);
	hear_end();
	assert_true(heard.eof || heard.err == ECONNRESET);
	if (heard.n < sizeof(heard.p)) {	/* at most the FPDUs that were with TCP already: whole ones, and nothing like 25 MiB */
		while (p + 2 <= heard.n)
			p += iw_mpa_fpdu_len(iw_get16(heard.p + p));
		assert_true(heard.err || p == heard.n);
	}
}

/* A peer that never reads cannot hold a Terminate, and us, for ever (R31). */
static void terminate_never_leaves(void **state)
{
	struct iw_wr wr = { .op = IW_WR_SEND, .nsge = 1, .sge = { { .len = 1 << 20 } } };

	conf.close_timeout = 100;
	up("fpdu.write.zero");
	wr.sge[0].stag = rnic_mr_stag(mr);
	for (unsigned int i = 0; i < 20; i++)
		assert_int_equal(rnic_post_send(conn_qp(z.c), &wr), 0);
	conn_kick(z.c);
	run_rounds(50);
	say_vec("neg.qn4");
	run_until(is_true, &z.closed);
	run_until(quiet, NULL);
}

/* LLP-3-03: the peer stops reading, then resets: each accepted request completes once. */
static void reset_while_stalled(void **state)
{
	struct iw_wr wr = { .op = IW_WR_SEND, .nsge = 1, .sge = { { .len = 1 << 20 } } };
	struct linger l = { .l_onoff = 1 };

	up("fpdu.write.zero");
	wr.sge[0].stag = rnic_mr_stag(mr);
	for (unsigned int i = 0; i < 20; i++)
		assert_int_equal(rnic_post_send(conn_qp(z.c), &wr), 0);
	conn_kick(z.c);
	run_rounds(50);
	setsockopt(tcp[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(tcp[0]);
	tcp[0] = -1;
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, ECONNRESET);
	assert_int_equal(z.ok + z.flushed, 24);		/* the four receives too */
}

/* The same when it is we who close and the peer never takes the rest. */
static void close_while_stalled(void **state)
{
	struct iw_wr wr = { .op = IW_WR_SEND, .nsge = 1, .sge = { { .len = 1 << 20 } } };

	conf.close_timeout = 100;
	up("fpdu.write.zero");
	wr.sge[0].stag = rnic_mr_stag(mr);
	for (unsigned int i = 0; i < 20; i++)
		assert_int_equal(rnic_post_send(conn_qp(z.c), &wr), 0);
	conn_close(z.c);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, ETIMEDOUT);
	assert_int_equal(z.ok + z.flushed, 24);
}

/* DDP-6.2.1-01: everything accepted arrives, then FIN; what is posted after the close is refused. */
static void close_sends_the_rest(void **state)
{
	struct iw_wr wr = { .op = IW_WR_WRITE, .nsge = 1, .rstag = 1, .sge = { { .len = 1 << 18 } } };
	size_t p = 0;

	up("fpdu.write.zero");
	wr.sge[0].stag = rnic_mr_stag(mr);
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(rnic_post_send(conn_qp(z.c), &wr), 0);
	conn_close(z.c);
	assert_int_equal(rnic_post_send(conn_qp(z.c), &wr), -ENOTCONN);
	hear_end();
	assert_true(heard.eof && !heard.err);
	for (unsigned int last = 0; p < heard.n || last != 10; p += iw_mpa_fpdu_len(iw_get16(heard.p + p)))
		last += !!(heard.p[p + 2] & 0x40);
	assert_int_equal(p, heard.n);
	shutdown(tcp[0], SHUT_WR);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, 0);
	assert_int_equal(z.ok, 10);
}

/* DDP-6.2.1-04: our half is closed, messages of the peer are delivered all the same. */
static void half_closed_by_us(void **state)
{
	up("fpdu.write.zero");
	conn_close(z.c);
	hear_end();
	assert_true(heard.eof && !heard.n);
	say_vec("fpdu.send.5");
	run_until(got_one, NULL);
	assert_memory_equal(mem, "hello", 5);
	shutdown(tcp[0], SHUT_WR);
	run_until(is_true, &z.closed);
	assert_int_equal(z.err, 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(replies), T(plain_rev2), T(negotiated_depths), T(absurd_depths), T(ignored_bits), T(late_decision), T(rejects),
		T(responder_waits), T(conversation_cut), T(rtr_first), T(rtr_read), T(depths_reach_the_ulp), T(rejected_by_rev1),
		T(too_many_reads), T(two_initiators), T(markers_as_asked), T(ulpdus_fill_the_emss), T(terminate_survives_input),
		T(terminate_while_stalled), T(terminate_never_leaves), T(reset_while_stalled), T(close_while_stalled),
		T(close_sends_the_rest), T(half_closed_by_us),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
