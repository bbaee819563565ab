/* SPDX-License-Identifier: MIT */
/* MPA startup of an endpoint against a peer of golden vectors: what is answered, what is settled, who speaks first. */
#include "conn_peer.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

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
		if (!strcmp(c[i].reply, "mpa.rep.r2.p2p"))
			assert_memory_equal(hear(24), p2p_reply(), 24);
		else
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

/* Our Revision 1 has room for 512 octets of private data, Revision 2 for 508. */
static void private_data_limits(void **state)
{
	static uint8_t pd512[512];

	for (unsigned int rev = 1; rev < 3; rev++) {
		const size_t max = rev == 1 ? 512 : 508;
		struct soft_mpa a;

		soft_mpa_default(&a);
		a.rev = (uint8_t)rev;
		a.p2p = rev == 2;
		create();
		soft_set_mpa(z.c, &a);
		assert_int_equal(endpoint_initiate(z.c, pd512, max + 1), -EINVAL);
		assert_int_equal(endpoint_initiate(z.c, pd512, max), 0);
		assert_int_equal(iw_get16(hear(532) + 18), 512);
		again();
	}
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
		assert_memory_equal(p, p2p_reply(), req->n);
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

/* ---- Responder: what the Request asks for ---- */

/*
 * EMPA-9.2-01: all of the RTRs offered that we have are taken, a Send never; when nothing else is offered, ours are named
 * (docs/rnic.md). For a Read our depth is 1 at least (EMPA-9.1-02).
 */
static void rtr_taken(void **state)
{
	static const struct { uint8_t write, read, send; unsigned int max_ird, ird; } c[] = {
		{ 1, 1, 1, 16, 16 }, { 1, 1, 0, 16, 16 }, { 1, 0, 0, 16, 16 }, { 1, 0, 1, 16, 16 }, { 0, 1, 0, 16, 16 }, { 0, 1, 1, 16, 16 },
		{ 0, 1, 0, 0, 1 }, { 1, 0, 0, 0, 0 }, { 1, 1, 0, 0, 1 }, { 0, 0, 1, 16, 16 }, { 0, 0, 0, 0, 1 },
	};
	struct iw_mpa_frame f;

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct iw_mpa_frame q = { .rev = 2, .crc = 1, .enhanced = 1, .p2p = 1, .rtr_write = c[i].write,
					  .rtr_read = c[i].read, .rtr_send = c[i].send, .ird = 16, .ord = 16 };
		uint8_t out[IW_MPA_FRAME_MAX];

		conf.max_ird = c[i].max_ird;
		respond();
		say(out, (size_t)iw_mpa_encode(&q, out));
		f = hear_frame(24);
		assert_true(f.p2p && !f.reject && !f.rtr_send);
		assert_int_equal(f.rtr_write, c[i].write || !c[i].read);
		assert_int_equal(f.rtr_read, c[i].read || !c[i].write);
		assert_int_equal(f.ird, c[i].ird);
		run_until(is_true, &z.established);
		assert_int_equal(param()->ird, c[i].ird);
		if (f.rtr_read) {
			say_vec("fpdu.rreq.zero");
			hear_vec("fpdu.rresp.zero");
		}
		again();
	}
}

static int option(int fd, int level, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	assert_int_equal(getsockopt(fd, level, name, &v, &len), 0);
	return v;
}

/* What the application set for itself must not hold up FPDUs, whoever begins. */
static void options_of_the_application(void **state)
{
	const int one = 1, zero = 0, many = 1000;

	for (int initiator = 0; initiator < 2; initiator++) {
		int fd = dup(tcp[1]);

		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &zero, sizeof(zero));
		setsockopt(fd, IPPROTO_TCP, TCP_CORK, &one, sizeof(one));
		setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &many, sizeof(many));
		if (initiator)
			initiate("");
		else
			respond();
		assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
		assert_int_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
		assert_int_equal(option(fd, IPPROTO_TCP, TCP_CORK), 0);
		assert_int_equal(option(fd, SOL_SOCKET, SO_RCVLOWAT), 1);
		close(fd);
		again();
	}
}

/* MPA-7.1-01: Full Operation of the Initiator begins behind the Reply; what comes before it is an error. */
static void before_the_decision(void **state)
{
	static const char *const too_early[] = { "fpdu.write.zero", "mpa.req.r1.c" };	/* a second Request is no better */

	for (unsigned int i = 0; i < 2; i++) {
		z.late = true;
		respond();
		say_vec("mpa.req.r1.c");
		run_until(is_true, &z.requested);
		z.requested = false;
		say_vec(too_early[i]);
		run_until(is_true, &z.closed);
		assert_true(z.err == EPROTO && !z.established && !z.requested);
		hear_end();
		assert_int_equal(heard.n, 0);
		again();
	}
}

static void respond_late(bool refused)
{
	z.late = true;
	z.reject = refused;
	respond();
	say_vec("mpa.req.r1.c");
	run_until(is_true, &z.requested);
	decide();
}

/* An FPDU that is here before we hear that our Reply left is delivered after established(); that of a refused peer is not. */
static void while_the_reply_leaves(void **state)
{
	for (int refused = 0; refused < 2; refused++) {
		respond_late(refused);
		say_vec("fpdu.send.5");
		if (refused) {
			run_until(is_true, &z.closed);
			assert_true(z.err == ECONNREFUSED && !z.established && z.ok == 0);
		} else {
			run_until(got_one, NULL);
			assert_true(z.established);
			assert_memory_equal(mem, "hello", 5);
		}
		again();
	}
}

/* The send buffer is full, and the peer takes no more. */
static bool stuck(void *arg)
{
	static const uint8_t junk[65536];
	int all = 0, unsent = 0;
	ssize_t n;

	while ((n = send(tcp[1], junk, sizeof(junk), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
		*(size_t *)arg += (size_t)n;
	return !ioctl(tcp[1], SIOCOUTQ, &all) && !ioctl(tcp[1], SIOCOUTQNSD, &unsent) && unsent && all == unsent;
}

/* The same when the Reply has to wait: what came meanwhile is delivered then, with no octet more from the peer; or dropped. */
static void before_the_reply_leaves(void **state)
{
	for (int refused = 0; refused < 2; refused++) {
		size_t before = 0;

		run_until(stuck, &before);
		respond_late(refused);
		run_rounds(3);
		say_vec("fpdu.send.5");
		run_rounds(5);
		assert_true(!z.established && !z.closed && z.ok == 0);
		hear(before + 20);
		run_until(refused ? is_true : got_one, &z.closed);
		assert_true(refused ? z.err == ECONNREFUSED && !z.established && z.ok == 0 : z.established && !z.closed);
		assert_memory_equal(mem, refused ? "\0\0\0\0" : "hello", 5);
		memset(mem, 0, 5);
		again();
	}
}

static void wrong_moments(void **state)
{
	static const uint8_t octets[IW_MPA_PD_MAX + 1];

	z.late = true;
	create();
	assert_int_equal(endpoint_accept(z.c, NULL, 0), -ENOTCONN);
	assert_int_equal(endpoint_reject(z.c, NULL, 0), -ENOTCONN);
	assert_int_equal(endpoint_initiate(z.c, octets, IW_MPA_PD_MAX - 3), -EINVAL);
	assert_int_equal(endpoint_respond(z.c), 0);
	assert_int_equal(endpoint_respond(z.c), -EINVAL);
	assert_int_equal(endpoint_initiate(z.c, NULL, 0), -EINVAL);
	assert_int_equal(endpoint_accept(z.c, NULL, 0), -ENOTCONN);
	say_vec("mpa.req.r1.c");
	run_until(is_true, &z.requested);
	assert_int_equal(endpoint_reject(z.c, octets, IW_MPA_PD_MAX + 1), -EINVAL);
	assert_int_equal(endpoint_reject(z.c, octets, IW_MPA_PD_MAX), 0);
	assert_int_equal(endpoint_reject(z.c, NULL, 0), -ENOTCONN);
	assert_int_equal(hear_frame(20 + IW_MPA_PD_MAX).pd_len, IW_MPA_PD_MAX);
	run_until(is_true, &z.closed);
}

/* ---- Initiator ---- */
static void initiate_with(uint8_t rev, bool p2p, bool crc)
{
	struct soft_mpa a;

	soft_mpa_default(&a);
	a.rev = rev;
	a.p2p = p2p;
	a.crc = crc;
	create();
	soft_set_mpa(z.c, &a);
	assert_int_equal(endpoint_initiate(z.c, NULL, 0), 0);
}

/* EMPA-10-01: one that wants nothing of the enhanced setup does not use it. No RTR: it sends its own message first. */
static void initiate_rev1(void **state)
{
	for (int crc = 0; crc < 2; crc++) {
		const uint8_t *p;

		z.eager = true;
		initiate_with(1, true, crc);
		hear_vec(crc ? "mpa.req.r1.c" : "mpa.req.r1");
		say_vec("mpa.rep.r1");
		p = hear(28);
		assert_true(z.established && param()->crc == crc && param()->rtr == 0);
		assert_true(p[3] == 0x43 && !memcmp(p + 20, "ping", 4));
		again();
	}
}

/* EMPA-6-03, MPA-7.1.1-06: the Reply is of the Request's revision and format, or startup ends. */
static void reply_of_another_kind(void **state)
{
	static const struct { uint8_t req, rep, enhanced; } c[] = { { 2, 2, 0 }, { 1, 2, 0 }, { 1, 2, 1 }, { 2, 1, 0 } };

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct iw_mpa_frame r = { .reply = 1, .rev = c[i].rep, .crc = 1, .enhanced = c[i].enhanced, .p2p = c[i].enhanced,
					  .rtr_write = c[i].enhanced, .ird = 8 * c[i].enhanced, .ord = 8 * c[i].enhanced };
		uint8_t out[IW_MPA_FRAME_MAX];

		z.eager = true;
		initiate_with(c[i].req, true, true);
		hear(c[i].req == 2 ? 24 : 20);
		say(out, (size_t)iw_mpa_encode(&r, out));
		run_until(is_true, &z.closed);
		assert_true(z.err == EPROTO && !z.established);
		hear_end();
		assert_int_equal(heard.n, 0);
		again();
	}
}

/* Only an Initiator that promised an RTR has to send it in time; any other may be silent as long as it likes. */
static bool later(void *arg)
{
	return z.closed || engine_now_ms() > *(uint64_t *)arg;
}

static void silent_initiator(void **state)
{
	uint64_t until;

	conf.startup_timeout = 2000;	/* a busy machine answers within it */
	respond();
	say_vec("mpa.req.r1.c");
	hear_vec("mpa.rep.r1.c");
	until = engine_now_ms() + 2300;
	run_until(later, &until);
	assert_true(z.established && !z.closed);
	say_vec("fpdu.send.5");
	run_until(got_one, NULL);
}

/* Nor is there a limit to the silence of a Responder once its Reply is here. */
static void silent_responder(void **state)
{
	uint64_t until = engine_now_ms() + 2300;

	conf.startup_timeout = 2000;	/* a busy machine answers within it */
	initiate_with(1, false, true);
	hear_vec("mpa.req.r1.c");
	say_vec("mpa.rep.r1.c");
	run_until(later, &until);
	assert_true(z.established && !z.closed);
	say_vec("fpdu.send.5");
	run_until(got_one, NULL);
}

/* Client-server model (A=0): depths are settled, an RTR is not sent. */
static void initiate_client_server(void **state)
{
	struct iw_mpa_frame r = { .reply = 1, .rev = 2, .crc = 1, .enhanced = 1, .ird = 3, .ord = 5 }, q;
	uint8_t out[IW_MPA_FRAME_MAX];
	const uint8_t *p;

	z.eager = true;
	initiate_with(2, false, true);
	assert_int_equal(iw_mpa_decode(&q, hear(24), 24, false), 24);
	assert_true(q.enhanced && !q.p2p && !q.rtr_send && !q.rtr_write && !q.rtr_read && q.ird == 16 && q.ord == 16);
	say(out, (size_t)iw_mpa_encode(&r, out));
	p = hear(28);
	assert_true(p[3] == 0x43 && !memcmp(p + 20, "ping", 4));
	assert_true(param()->ord == 3 && param()->ird == 16);		/* EMPA-9.1-03: 16 >= 5 */
}

/* EMPA-9.1-04: all ones leave the depths alone. */
static void depths_left_alone(void **state)
{
	struct iw_mpa_frame r = { .reply = 1, .rev = 2, .crc = 1, .enhanced = 1, .p2p = 1, .rtr_write = 1,
				  .ird = IW_MPA_NONEG, .ord = IW_MPA_NONEG };
	uint8_t out[IW_MPA_FRAME_MAX];

	initiate("");
	hear(24);
	say(out, (size_t)iw_mpa_encode(&r, out));
	run_until(is_true, &z.established);
	assert_true(param()->ord == 16 && param()->ird == 16);
}

/* EMPA-9.2-02: a Reply without A, without an option, or with a Read that its IRD of 0 forbids. Too many Reads are told first. */
static void no_rtr_left(void **state)
{
	static const struct { uint8_t p2p, send, read; uint16_t ird, ord; const char *term; } c[] = {
		{ 0, 0, 0, 16, 16, "term.llp.rtr" }, { 1, 0, 0, 16, 16, "term.llp.rtr" }, { 1, 1, 0, 16, 16, "term.llp.rtr" },
		{ 1, 0, 1, 0, 16, "term.llp.rtr" }, { 0, 0, 0, 16, 0x1000, "term.llp.ird" }, { 1, 0, 0, 16, 0x1000, "term.llp.ird" },
		{ 0, 0, 0, 16, IW_QP_IRD + 1, "term.llp.ird" }, { 0, 0, 0, 16, IW_QP_IRD, "term.llp.rtr" },
	};

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct iw_mpa_frame r = { .reply = 1, .rev = 2, .crc = 1, .enhanced = 1, .p2p = c[i].p2p, .rtr_send = c[i].send,
					  .rtr_read = c[i].read, .ird = c[i].ird, .ord = c[i].ord };
		uint8_t out[IW_MPA_FRAME_MAX];

		z.eager = true;
		initiate("");
		hear(24);
		say(out, (size_t)iw_mpa_encode(&r, out));
		hear_vec(c[i].term);
		hear_end();
		assert_true(heard.eof && !heard.n && !z.established);
		run_until(is_true, &z.closed);
		assert_int_equal(z.err, EPROTO);
		again();
	}
}

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
	r.ord = 20;
	initiate("");
	hear_request();
	say(out, (size_t)iw_mpa_encode(&r, out));
	run_until(is_true, &z.established);
	assert_int_equal(param()->ird, 20);		/* RDMAP-6.1-04: what was named, no more */
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

static void other_closed(void *ctx, int err, const struct endpoint_said *reject)
{
	failed_too = err == EPROTO || err == ECONNRESET;
}

static bool both_failed(void *arg)
{
	return z.closed && failed_too;
}

static void two_initiators(void **state)
{
	struct endpoint_ulp other = ops;
	struct endpoint *c;

	failed_too = false;
	other.closed = other_closed;
	assert_int_equal(soft_create(tcp[0], pd, &other, NULL, &c), 0);
	tcp[0] = -1;
	assert_int_equal(endpoint_initiate(c, NULL, 0), 0);
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
		T(replies), T(private_data_limits), T(plain_rev2), T(negotiated_depths), T(absurd_depths), T(ignored_bits), T(late_decision), T(rejects),
		T(responder_waits), T(conversation_cut), T(rtr_first), T(rtr_read), T(depths_reach_the_ulp), T(rejected_by_rev1),
		T(too_many_reads), T(cannot_go_on), T(two_initiators), T(markers_as_asked), T(rtr_taken),
		T(options_of_the_application), T(before_the_decision), T(while_the_reply_leaves), T(before_the_reply_leaves), T(wrong_moments), T(initiate_rev1), T(initiate_client_server),
		T(depths_left_alone), T(no_rtr_left), T(reply_of_another_kind), T(silent_initiator), T(silent_responder),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
