/* SPDX-License-Identifier: MIT */
/* MPA startup of an endpoint against a peer of golden vectors: what is answered, what is settled, who speaks first. */
#include "conn_peer.h"

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

/* EMPA-9.3-01: the ULP cannot go on after the Reply: the Terminate 2/0/05 is our first FPDU, then the end. */
static void cannot_go_on(void **state)
{
	z.unusable = true;
	initiate("");
	hear_request();
	say_vec("mpa.rep.r2.p2p");
	hear_vec("term.llp.local");
	hear_end();
	assert_true(heard.eof && !heard.n && !heard.err);
	assert_false(z.closed);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(replies), T(plain_rev2), T(negotiated_depths), T(absurd_depths), T(ignored_bits), T(late_decision), T(rejects),
		T(responder_waits), T(conversation_cut), T(rtr_first), T(rtr_read), T(depths_reach_the_ulp), T(rejected_by_rev1),
		T(too_many_reads), T(cannot_go_on), T(two_initiators), T(markers_as_asked),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
