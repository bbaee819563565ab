/* SPDX-License-Identifier: MIT */
/* RDMAP endpoints over loopback TCP: startup in both roles, messages, Terminate, and every way to end. */
#include "util.h"

#include "daemon/rnic/soft.h"
#include "proto/wire.h"

#define LEN (256u << 10)

struct side {
	struct endpoint *c;
	struct rnic_mr *mr;
	uint8_t *mem;
	bool established, closed, accept, reject, close_on_eof;
	int err;
	unsigned int sends, recvs, reads, writes;
	struct iw_cqe last;
	struct iw_mpa_frame frame;	/* established() or closed() */
	enum endpoint_event event;
	struct iw_term term;
};

static void on_request(void *ctx, const struct endpoint_said *said)
{
	struct side *s = ctx;

	s->frame = *soft_request(s->c);
	if (s->reject)
		assert_int_equal(endpoint_reject(s->c, (const uint8_t *)"no", 2), 0);
	else
		assert_int_equal(endpoint_accept(s->c, (const uint8_t *)"reply", 5), 0);
}

static void on_established(void *ctx, const struct endpoint_said *said)
{
	struct side *s = ctx;

	assert_false(s->established);
	s->established = true;
	s->frame = *(soft_param(s->c)->initiator ? soft_reply(s->c) : soft_request(s->c));
}

static void on_complete(void *ctx, const struct iw_cqe *cqe)
{
	struct side *s = ctx;

	if (cqe->status != IW_WC_OK)
		return;
	s->last = *cqe;
	s->sends += cqe->op == IW_WR_SEND;
	s->recvs += cqe->op == IW_WR_RECV;
	s->reads += cqe->op == IW_WR_READ;
	s->writes += cqe->op == IW_WR_WRITE;
}

static void on_event(void *ctx, enum endpoint_event ev)
{
	struct side *s = ctx;

	s->event = ev;
	s->term = *soft_term(s->c);
	if (ev == ENDPOINT_EV_EOF && s->close_on_eof)
		endpoint_close(s->c);
}

static void on_closed(void *ctx, int err, const struct endpoint_said *rej)
{
	struct side *s = ctx;

	assert_false(s->closed);
	s->closed = true;
	s->err = err;
	if (rej)
		s->frame = *soft_reply(s->c);
	s->c = NULL;
}

static const struct endpoint_ulp ops = {
	.request = on_request, .established = on_established, .complete = on_complete, .event = on_event, .closed = on_closed,
};

static struct rnic_pd *pd;
static unsigned int fds;
static int tcp[2];		/* of the test; -1 where a conn took over */

static int setup(void **state)
{
	conf_default(&conf);
	prm_strict = false;
	conf.log_level = 0;
	conf.startup_timeout = 60000;	/* a busy machine is not what is tested */
	pd = rnic_pd_get(1);
	fds = open_fds();
	tcp_pair(tcp);
	return 0;
}

static bool quiet(void *arg)
{
	return open_fds() == fds && !rnic_mr_count();
}

/* Whatever happened, nothing may be left: descriptors, registrations. */
static int teardown(void **state)
{
	for (int i = 0; i < 2; i++) {
		if (tcp[i] >= 0)
			close(tcp[i]);
	}
	run_until(quiet, NULL);
	rnic_pd_put(pd);
	return 0;
}

static void side_start(struct side *s, int i)
{
	memset(s, 0, sizeof(*s));
	assert_int_equal(soft_create(tcp[i], pd, &ops, s, &s->c), 0);
	tcp[i] = -1;
}

static void give_memory(struct side *s, unsigned int access)
{
	s->mem = calloc(1, LEN);
	assert_int_equal(rnic_mr_reg(pd, soft_qp(s->c), s->mem, LEN, 0x1000, access, &s->mr), 0);
}

static struct iw_sge sge(const struct side *s, uint64_t off, uint32_t len)
{
	return (struct iw_sge){ .stag = rnic_mr_stag(s->mr), .to = 0x1000 + off, .len = len };
}

static void post_recv(struct side *s, uint64_t off, uint32_t len)
{
	struct iw_sge g = sge(s, off, len);

	assert_int_equal(endpoint_post_recv(s->c, 1, &g), 0);
}

static void post(struct side *s, struct iw_wr wr)
{
	assert_int_equal(endpoint_post_send(s->c, &wr), 0);
}

static bool both_up(void *arg)
{
	struct side *s = arg;

	return s[0].established && s[1].established;
}

static bool both_closed(void *arg)
{
	struct side *s = arg;

	return s[0].closed && s[1].closed;
}

#define ALL_RIGHTS (IW_ACCESS_LOCAL_READ | IW_ACCESS_LOCAL_WRITE | IW_ACCESS_REMOTE_READ | IW_ACCESS_REMOTE_WRITE | IW_ACCESS_READ_SINK)

/* Both ends up, each with LEN octets of memory and one receive buffer. */
static void connect_pair(struct side s[2])
{
	for (int i = 0; i < 2; i++) {
		side_start(&s[i], i);
		give_memory(&s[i], ALL_RIGHTS);
		post_recv(&s[i], 0, LEN);
	}
	assert_int_equal(endpoint_respond(s[1].c), 0);
	assert_int_equal(endpoint_initiate(s[0].c, (const uint8_t *)"hello", 5), 0);
	run_until(both_up, s);
	assert_int_equal(s[1].frame.pd_len, 5);
	assert_memory_equal(s[1].frame.pd, "hello", 5);
	assert_int_equal(s[0].frame.pd_len, 5);
	assert_memory_equal(s[0].frame.pd, "reply", 5);
}

static void close_pair(struct side s[2])
{
	endpoint_close(s[0].c);
	endpoint_close(s[1].c);
	run_until(both_closed, s);
	assert_int_equal(s[0].err, 0);
	assert_int_equal(s[1].err, 0);
	free(s[0].mem);
	free(s[1].mem);
}

static bool got_recv(void *arg)
{
	return ((struct side *)arg)->recvs;
}

static bool got_read(void *arg)
{
	return ((struct side *)arg)->reads;
}

/* The Responder speaks first: it may do so as soon as the RTR was there. */
static void send_both_ways(void **state)
{
	struct side s[2];

	connect_pair(s);
	memcpy(s[1].mem + 100, "from the server", 15);
	post(&s[1], (struct iw_wr){ .op = IW_WR_SEND, .nsge = 1, .sge[0] = sge(&s[1], 100, 15) });
	run_until(got_recv, &s[0]);
	assert_int_equal(s[0].last.len, 15);
	assert_memory_equal(s[0].mem, "from the server", 15);
	post(&s[0], (struct iw_wr){ .op = IW_WR_SEND, .flags = IW_WR_SE, .nsge = 1, .sge[0] = sge(&s[0], 0, 15) });
	run_until(got_recv, &s[1]);
	assert_int_equal(s[1].last.len, 15);
	assert_int_equal(s[1].last.se, 1);
	assert_memory_equal(s[1].mem, "from the server", 15);
	assert_int_equal(rnic_qp_state(soft_qp(s[0].c))->stat.rx_send, 1);
	assert_int_equal(rnic_qp_state(soft_qp(s[0].c))->stat.tx_send, 1);
	close_pair(s);
}

static void pattern(uint8_t *p, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)((i * 2654435761u + seed) >> 11);
}

static void write_then_immediate(struct side s[2], bool large)
{
	uint32_t half = LEN / 2;

	endpoint_large(s[0].c, large);
	endpoint_large(s[1].c, large);
	pattern(s[0].mem, half, large);
	post(&s[0], (struct iw_wr){ .op = IW_WR_WRITE, .nsge = 1, .sge[0] = sge(&s[0], 0, half),
				    .rstag = rnic_mr_stag(s[1].mr), .rto = 0x1000 + half });
	post(&s[0], (struct iw_wr){ .op = IW_WR_IMM, .imm = "12345678" });
	run_until(got_recv, &s[1]);
	assert_int_equal(s[1].last.has_imm, 1);
	assert_memory_equal(s[1].last.imm, "12345678", 8);
	assert_memory_equal(s[0].mem, s[1].mem + half, half);
	s[1].recvs = 0;
	post_recv(&s[1], 0, 64);
}

static void writes(void **state)
{
	struct side s[2];

	connect_pair(s);
	write_then_immediate(s, false);
	write_then_immediate(s, true);
	assert_int_equal(rnic_qp_state(soft_qp(s[1].c))->stat.rx_write_octets, LEN);
	close_pair(s);
}

static void reads(void **state)
{
	struct side s[2];

	connect_pair(s);
	pattern(s[1].mem, LEN, 7);
	post(&s[0], (struct iw_wr){ .op = IW_WR_READ, .nsge = 1, .sge[0] = sge(&s[0], 0, LEN),
				    .rstag = rnic_mr_stag(s[1].mr), .rto = 0x1000 });
	run_until(got_read, &s[0]);
	assert_memory_equal(s[0].mem, s[1].mem, LEN);
	close_pair(s);
}

/* Markers asked for by both ends, since the configuration says so. */
static void markers(void **state)
{
	struct side s[2];

	conf.markers = true;
	connect_pair(s);
	write_then_immediate(s, false);
	close_pair(s);
}

static void without_crc(void **state)
{
	struct side s[2];

	conf.crc = false;
	connect_pair(s);
	write_then_immediate(s, true);
	close_pair(s);
}

static void rejected(void **state)
{
	struct side s[2];

	side_start(&s[0], 0);
	side_start(&s[1], 1);
	s[1].reject = true;
	endpoint_respond(s[1].c);
	endpoint_initiate(s[0].c, NULL, 0);
	run_until(both_closed, s);
	assert_int_equal(s[0].err, ECONNREFUSED);
	assert_int_equal(s[0].frame.reject, 1);
	assert_int_equal(s[0].frame.pd_len, 2);
	assert_memory_equal(s[0].frame.pd, "no", 2);
	assert_int_equal(s[1].err, ECONNREFUSED);
}

/* A Terminate ends both with EPROTO, and every descriptor is closed although the peer's ULP did nothing. */
static void bad_stag_terminates(void **state)
{
	struct side s[2];

	connect_pair(s);
	post(&s[0], (struct iw_wr){ .op = IW_WR_WRITE, .nsge = 1, .sge[0] = sge(&s[0], 0, 64),
				    .rstag = rnic_mr_stag(s[1].mr) ^ 0x100, .rto = 0x1000 });
	run_until(both_closed, s);
	assert_int_equal(s[0].err, EPROTO);
	assert_int_equal(s[1].err, EPROTO);
	assert_int_equal(s[0].event, ENDPOINT_EV_TERM_RECEIVED);
	assert_int_equal(s[1].event, ENDPOINT_EV_TERM_SENT);
	free(s[0].mem);
	free(s[1].mem);
}

/* RDMAP-3.2-03: a Write out of bounds: both ULPs hear 1/1/01, and which segment it was. */
static void both_hear_the_cause(void **state)
{
	struct side s[2];
	uint32_t stag;

	connect_pair(s);
	stag = rnic_mr_stag(s[1].mr);
	post(&s[0], (struct iw_wr){ .op = IW_WR_WRITE, .nsge = 1, .sge[0] = sge(&s[0], 0, 64), .rstag = stag, .rto = 0x1000 + LEN - 63 });
	run_until(both_closed, s);
	for (int i = 0; i < 2; i++) {
		assert_true(s[i].term.layer == 1 && s[i].term.etype == 1 && s[i].term.code == 1);
		assert_true(s[i].term.has_ddp && s[i].term.seg_len == 14 + 64 && iw_get32(s[i].term.ddp + 2) == stag);
	}
	free(s[0].mem);
	free(s[1].mem);
}

/* ---- against a peer that the test plays itself ---- */

static void respond_to(struct side *s, const void *octets, size_t len)
{
	side_start(s, 1);
	assert_int_equal(endpoint_respond(s->c), 0);
	if (len)
		assert_int_equal(write(tcp[0], octets, len), len);
}

static bool closed_one(void *arg)
{
	return ((struct side *)arg)->closed;
}

static void silent_peer(void **state)
{
	struct side s;

	conf.startup_timeout = 100;
	respond_to(&s, NULL, 0);
	run_until(closed_one, &s);
	assert_int_equal(s.err, ETIMEDOUT);
}

static void silent_responder(void **state)
{
	struct side s;

	conf.startup_timeout = 100;
	side_start(&s, 0);
	endpoint_initiate(s.c, NULL, 0);
	run_until(closed_one, &s);
	assert_int_equal(s.err, ETIMEDOUT);
}

static void garbage(void **state)
{
	struct side s;

	respond_to(&s, "GET / HTTP/1.1\r\n\r\n", 18);
	run_until(closed_one, &s);
	assert_int_equal(s.err, EPROTO);
}

static const uint8_t req_p2p[24] = "MPA ID Req Frame\x50\x02\x00\x04\x80\x10\xc0\x10";

static void octets_behind_the_request(void **state)
{
	uint8_t out[25] = { 0 };
	struct side s;

	memcpy(out, req_p2p, 24);
	respond_to(&s, out, sizeof(out));
	run_until(closed_one, &s);
	assert_int_equal(s.err, EPROTO);
	assert_false(s.established);
}

static void read_exactly(int fd, void *buf, size_t len)
{
	assert_int_equal(recv(fd, buf, len, MSG_WAITALL), len);
}

/* mpa.req.r2.p2p of the golden vectors is answered, with both its RTR options; then no RTR comes: the Responder gives up. */
static void golden_reply_then_no_rtr(void **state)
{
	static const uint8_t want[24] = "MPA ID Rep Frame\x50\x02\x00\x09\x80\x10\xc0\x10";
	struct side s;
	uint8_t got[29];

	conf.startup_timeout = 3000;	/* a busy machine answers within it */
	respond_to(&s, req_p2p, sizeof(req_p2p));
	run_until(is_true, &s.established);
	read_exactly(tcp[0], got, sizeof(got));
	assert_memory_equal(got, want, sizeof(want));
	assert_memory_equal(got + 24, "reply", 5);
	run_until(closed_one, &s);
	assert_int_equal(s.err, ETIMEDOUT);
}

/* The Initiator's first octets after the Reply are the RTR Write; IRD and ORD follow what the Reply said. */
static void reply_with(struct side *s, const uint8_t *reply, size_t len)
{
	uint8_t req[24];

	side_start(s, 0);
	endpoint_initiate(s->c, NULL, 0);
	run_rounds(2);
	read_exactly(tcp[1], req, sizeof(req));
	assert_memory_equal(req, req_p2p, sizeof(req));
	assert_int_equal(write(tcp[1], reply, len), len);
}

static void initiator_sends_rtr(void **state)
{
	static const uint8_t rtr[20] = { 0x00, 0x0e, 0xc1, 0x40, [16] = 0xa3, 0x05, 0x72, 0xab };
	struct side s;
	uint8_t got[20];

	reply_with(&s, (const uint8_t *)"MPA ID Rep Frame\x50\x02\x00\x04\x80\x08\x80\x04", 24);
	run_until(is_true, &s.established);
	run_rounds(2);
	read_exactly(tcp[1], got, sizeof(got));
	assert_memory_equal(got, rtr, sizeof(rtr));
	assert_int_equal(soft_param(s.c)->ord, 8);
	assert_int_equal(soft_param(s.c)->ird, 16);
	endpoint_abort(s.c);
}

static bool peer_sees_end(void *arg)
{
	char c;

	return recv(tcp[1], &c, 1, MSG_DONTWAIT) == 0;
}

/* A Reply that leaves no RTR to choose: the first FPDU is the Terminate 2/0/07 (term.llp.rtr), then FIN. */
static void no_matching_rtr(void **state)
{
	static const uint8_t term[28] = { 0x00, 0x16, 0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0x20, 0x07, 0, 0,
					  0x1b, 0xd2, 0xba, 0xbe };
	struct side s;
	uint8_t got[28];

	reply_with(&s, (const uint8_t *)"MPA ID Rep Frame\x50\x02\x00\x04\x80\x08\x00\x04", 24);
	run_until(closed_one, &s);
	assert_int_equal(s.err, EPROTO);
	assert_false(s.established);
	run_rounds(3);
	read_exactly(tcp[1], got, sizeof(got));
	assert_memory_equal(got, term, sizeof(term));
	run_until(peer_sees_end, NULL);
}

static void octets_behind_the_reply(void **state)
{
	struct side s;

	reply_with(&s, (const uint8_t *)"MPA ID Rep Frame\x50\x02\x00\x04\x80\x08\x80\x04X", 25);
	run_until(closed_one, &s);
	assert_int_equal(s.err, EPROTO);
}

static void reply_of_an_old_responder(void **state)
{
	struct side s;

	reply_with(&s, (const uint8_t *)"MPA ID Rep Frame\x40\x01\x00\x00", 20);
	run_until(closed_one, &s);
	assert_int_equal(s.err, EPROTO);
}

static void fin_during_startup(void **state)
{
	struct side s;

	respond_to(&s, req_p2p, 10);
	close(tcp[0]);
	tcp[0] = -1;
	run_until(closed_one, &s);
	assert_int_equal(s.err, ECONNRESET);
}

/* ---- ends ---- */

/* A FIN that the ULP was not prepared for is what a killed daemon leaves. */
static void unannounced_fin(void **state)
{
	struct side s[2];

	connect_pair(s);
	shutdown(soft_fd(s[0].c), SHUT_WR);
	run_until(closed_one, &s[1]);
	assert_int_equal(s[1].err, ECONNRESET);
	run_until(both_closed, s);
	assert_int_equal(s[0].err, ECONNRESET);
	free(s[0].mem);
	free(s[1].mem);
}

static void close_answered_in_the_event(void **state)
{
	struct side s[2];

	connect_pair(s);
	s[1].close_on_eof = true;
	endpoint_close(s[0].c);
	run_until(both_closed, s);
	assert_int_equal(s[0].err, 0);
	assert_int_equal(s[1].err, 0);
	free(s[0].mem);
	free(s[1].mem);
}

static void abort_is_a_reset(void **state)
{
	struct side s[2];

	connect_pair(s);
	endpoint_abort(s[0].c);
	run_until(closed_one, &s[1]);
	assert_int_equal(s[1].err, ECONNRESET);
	run_rounds(3);
	assert_false(s[0].closed);	/* no callback after endpoint_abort() */
	free(s[0].mem);
	free(s[1].mem);
}

static void detach_lingers(void **state)
{
	struct side s[2];

	connect_pair(s);
	s[1].close_on_eof = true;
	pattern(s[0].mem, LEN, 3);
	post(&s[0], (struct iw_wr){ .op = IW_WR_SEND, .nsge = 1, .sge[0] = sge(&s[0], 0, LEN) });
	endpoint_detach(s[0].c);
	run_until(closed_one, &s[1]);
	assert_int_equal(s[1].err, 0);
	assert_int_equal(s[1].recvs, 1);
	assert_memory_equal(s[0].mem, s[1].mem, LEN);
	assert_false(s[0].closed);
	run_until(quiet, NULL);
	free(s[0].mem);
	free(s[1].mem);
}

static void peer_never_closes(void **state)
{
	struct side s[2];

	conf.close_timeout = 100;
	connect_pair(s);
	s[1].close_on_eof = false;
	endpoint_close(s[0].c);
	endpoint_abort(s[1].c);
	run_until(closed_one, &s[0]);
	assert_int_equal(s[0].err, 0);
	free(s[0].mem);
	free(s[1].mem);
}

/* ---- a hostile peer ---- */

/* Frames of the right length with a plausible header and junk behind it; the CRC is off, so that it is looked at. */
static size_t junk_fpdu(uint8_t *out, unsigned int *r)
{
	size_t len = 2 + (size_t)rand_r(r) % 120, wire = (2 + len + 3) / 4 * 4 + 4;

	for (size_t i = 0; i < wire; i++)
		out[i] = rand_r(r) % 4 ? 0 : (uint8_t)rand_r(r);
	out[0] = (uint8_t)(len >> 8);
	out[1] = (uint8_t)len;
	if (rand_r(r) % 8) {
		out[2] = (uint8_t)(rand_r(r) % 4 << 6 | 1);
		out[3] = (uint8_t)(0x40 | rand_r(r) % 12);
	}
	if (rand_r(r) % 2)
		out[15] = 1;	/* MSN of an untagged header */
	return wire;
}

struct patience {
	const struct side *s;
	int left;
};

static bool over_or_idle(void *arg)
{
	struct patience *p = arg;

	return p->s->closed || --p->left <= 0;
}

static void junk_after_startup(void **state)
{
	static const uint8_t req[24] = "MPA ID Req Frame\x10\x02\x00\x04\x80\x10\xc0\x10";
	unsigned int seed = (unsigned int)getpid() * 31u, r = seed, ended = 0;

	print_message("# seed %u\n", seed);
	conf.crc = false;
	conf.close_timeout = 100;
	for (int i = 0; i < 300; i++) {
		uint8_t out[256], in[64];
		struct side s;

		respond_to(&s, req, sizeof(req));
		give_memory(&s, ALL_RIGHTS);
		post_recv(&s, 0, 64);
		run_until(is_true, &s.established);
		for (int k = 0; k < 40 && !s.closed; k++) {
			if (send(tcp[0], out, junk_fpdu(out, &r), MSG_NOSIGNAL) < 0)
				break;
			if (k % 10 == 9)
				run_until(over_or_idle, (&(struct patience){ &s, 3 }));
		}
		ended += s.closed;
		while (recv(tcp[0], in, sizeof(in), MSG_DONTWAIT) > 0)
			;
		if (!s.closed)
			endpoint_abort(s.c);
		close(tcp[0]);
		free(s.mem);
		tcp_pair(tcp);
	}
	assert_true(ended > 250);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(send_both_ways), T(writes), T(reads), T(markers), T(without_crc), T(rejected), T(bad_stag_terminates), T(both_hear_the_cause),
		T(silent_peer), T(silent_responder), T(garbage), T(octets_behind_the_request), T(golden_reply_then_no_rtr),
		T(initiator_sends_rtr), T(no_matching_rtr), T(octets_behind_the_reply), T(reply_of_an_old_responder),
		T(fin_during_startup), T(unannounced_fin), T(close_answered_in_the_event), T(abort_is_a_reset),
		T(detach_lingers), T(peer_never_closes), T(junk_after_startup),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, engine_setup, engine_teardown);
}
