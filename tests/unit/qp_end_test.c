// SPDX-License-Identifier: MIT
/* How a queue pair ends: wrong Responses, Terminates both ways, local errors, FIN, a lost connection. */
#include "qp_pair.h"

#include <errno.h>

/* ---- messages in pieces nobody makes, but DDP allows ---- */
static void pieces(void **state)
{
	static uint8_t out[65536];
	uint8_t req[28] = { 0 }, imm[8] = { 8, 7, 6, 5, 4, 3, 2, 1 };
	struct pair t;
	size_t n = 0;

	iw_put32(req, AMEM);
	iw_put32(req + 12, 100);
	iw_put32(req + 16, BMEM);
	pair_new(&t, no_crc(), no_crc());
	post_recvs(t.b, BMEM, 2, 64);
	/* a Read Request, Immediate Data and a Send, mixed with each other and a Write */
	n += untagged(out + n, IW_OP_READ_REQ, false, 1, 1, 0, req, 3);
	n += untagged(out + n, IW_OP_IMM, false, 0, 1, 0, imm, 5);
	n += untagged(out + n, IW_OP_READ_REQ, false, 1, 1, 3, req + 3, 0);
	n += tagged(out + n, IW_OP_WRITE, false, BMEM, 5000, "write", 5);
	n += untagged(out + n, IW_OP_IMM, true, 0, 1, 5, imm + 5, 3);
	n += untagged(out + n, IW_OP_SEND, false, 0, 2, 0, "he", 2);
	n += untagged(out + n, IW_OP_READ_REQ, true, 1, 1, 3, req + 3, 25);
	n += untagged(out + n, IW_OP_SEND, true, 0, 2, 2, "llo", 3);
	end_feed(t.b, out, n);
	assert_int_equal(t.b->qp.state, IW_QP_RTS);
	assert_int_equal(t.b->ncq, 2);
	assert_memory_equal(t.b->cq[0].imm, imm, 8);
	assert_int_equal(t.b->cq[1].len, 5);
	assert_memory_equal(t.bmem + 64, "hello", 5);
	assert_memory_equal(t.bmem + 5000, "write", 5);
	assert_int_equal(end_drain(t.b, out, sizeof(out)), iw_mpa_fpdu_len(14 + 100));
	assert_int_equal(t.b->qp.stat.rx_tiny, 5);
	/* the Write is still open: FIN now is an error */
	iw_qp_rx_eof(&t.b->qp, &end_ops, t.b, 0);
	assert_int_equal(t.b->qp.state, IW_QP_ERROR);
	pair_free(&t);
}

/* ---- Responses that are not what was asked ---- */
static void bad_read_responses(void **state)
{
	static const struct {
		uint32_t stag;
		uint64_t to;
		uint16_t n;
		bool last;
		uint8_t code;
	} c[] = {
		{ AMEM + 1, 500000, 8, true, 0 },	/* another STag */
		{ AMEM, 500001, 8, true, 1 },		/* shifted */
		{ AMEM, 500000, 9, true, 1 },		/* one octet more */
		{ AMEM, 500000, 7, true, 1 },		/* one less */
		{ AMEM, 500000, 9, false, 1 },
		{ BMEM, 0, 0, true, 1 },		/* nothing at all */
	};

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct iw_wr r = wr_read(1, 0, 500000, 8), s = wr_send(2, AMEM, 0, 4);
		uint8_t out[128], before[64];
		struct pair t;

		pair_new(&t, no_crc(), no_crc());
		memcpy(before, t.amem + 499990, 64);
		post(t.a, &r);
		post(t.a, &s);
		end_drain(t.a, NULL, 0);
		end_feed(t.a, out, tagged(out, IW_OP_READ_RESP, c[i].last, c[i].stag, c[i].to, "xxxxxxxxxx", c[i].n));
		expect_term(t.a, 1, 1, c[i].code);
		assert_memory_equal(before, t.amem + 499990, 64);
		assert_int_equal(t.a->ncq, 2);
		assert_int_equal(t.a->cq[0].status, IW_WC_FLUSH);
		pair_free(&t);
	}
}

/* Right in two pieces; then a Write into the sink that the Read Request showed; then a Response where an Atomic's is due. */
static void response_rules(void **state)
{
	struct iw_wr r = wr_read(1, 0, 500000, 8), add = { .wr_id = 2, .op = IW_WR_FETCHADD, .rstag = BMEM };
	uint8_t out[256], resp[12] = { 0 };
	struct pair t;

	pair_new(&t, no_crc(), no_crc());
	t.a->regs[0].access &= ~IW_ACCESS_REMOTE_WRITE;
	post(t.a, &r);
	end_drain(t.a, NULL, 0);
	end_feed(t.a, out, tagged(out, IW_OP_READ_RESP, false, AMEM, 500000, "abc", 3));
	end_feed(t.a, out, tagged(out, IW_OP_READ_RESP, false, AMEM, 500003, "defgh", 5));
	assert_int_equal(t.a->ncq, 0);
	end_feed(t.a, out, tagged(out, IW_OP_READ_RESP, true, AMEM, 500008, "", 0));
	assert_int_equal(t.a->ncq, 1);
	assert_memory_equal(t.amem + 500000, "abcdefgh", 8);
	post(t.a, &r);
	end_drain(t.a, NULL, 0);
	end_feed(t.a, out, tagged(out, IW_OP_WRITE, true, AMEM, 500000, "evil", 4));
	expect_term(t.a, 1, 1, 0);
	pair_free(&t);

	pair_new(&t, no_crc(), no_crc());
	post(t.a, &add);
	post(t.a, &r);
	end_drain(t.a, NULL, 0);
	end_feed(t.a, out, tagged(out, IW_OP_READ_RESP, true, AMEM, 500000, "abcdefgh", 8));
	expect_term(t.a, 0, 2, 6);
	pair_free(&t);

	pair_new(&t, no_crc(), no_crc());
	post(t.a, &r);
	post(t.a, &add);
	end_drain(t.a, NULL, 0);
	iw_put32(resp, 1);
	end_feed(t.a, out, untagged(out, IW_OP_ATOMIC_RESP, true, 3, 1, 0, resp, 12));
	expect_term(t.a, 0, 2, 6);
	pair_free(&t);
}

static void bad_atomic_responses(void **state)
{
	static const struct {
		uint32_t rid, msn;
		uint16_t n;
		uint8_t layer, etype, code;
	} c[] = {
		{ 2, 1, 12, 0, 2, 0xff }, { 1, 2, 12, 1, 2, 0x02 }, { 1, 1, 11, 0, 2, 0xff }, { 1, 1, 13, 1, 2, 0x05 },
		{ 1, 0, 12, 1, 2, 0x03 },
	};
	struct iw_wr add = { .wr_id = 2, .op = IW_WR_FETCHADD, .rstag = BMEM };
	uint8_t out[128], resp[16] = { 0 };
	struct pair t;

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		pair_new(&t, no_crc(), no_crc());
		post(t.a, &add);
		end_drain(t.a, NULL, 0);
		iw_put32(resp, c[i].rid);
		end_feed(t.a, out, untagged(out, IW_OP_ATOMIC_RESP, true, 3, c[i].msn, 0, resp, c[i].n));
		expect_term(t.a, c[i].layer, c[i].etype, c[i].code);
		pair_free(&t);
	}
}

/* Two Atomics in flight: their Responses come in the order of the Requests, or it ends (EXT-5.2.2-03). */
static void swapped_atomic_responses(void **state)
{
	static const struct { uint32_t rid, msn; uint8_t layer, code; } c[] = {
		{ 2, 1, 0, 0xff },	/* the second's answer in the place of the first */
		{ 1, 2, 1, 3 },		/* a place that is not due yet */
		{ 2, 2, 1, 3 },
		{ 1, 3, 1, 2 },		/* and one that there is no buffer for */
	};

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct iw_wr add = { .op = IW_WR_FETCHADD, .rstag = BMEM };
		uint8_t out[128], resp[12] = { 0 };
		struct pair t;

		pair_new(&t, no_crc(), no_crc());
		post(t.a, &add);
		post(t.a, &add);
		end_drain(t.a, NULL, 0);
		iw_put32(resp, c[i].rid);
		end_feed(t.a, out, untagged(out, IW_OP_ATOMIC_RESP, true, 3, c[i].msn, 0, resp, 12));
		expect_term(t.a, c[i].layer, 2, c[i].code);
		assert_true(t.a->ncq == 2 && t.a->cq[0].status == IW_WC_FLUSH && t.a->cq[1].status == IW_WC_FLUSH);
		pair_free(&t);
	}
}

/* ---- ends ---- */
static void local_errors(void **state)
{
	static uint8_t out[65536];
	struct iw_wr good = wr_send(1, AMEM, 0, 10), bad = wr_send(2, 0xbad, 0, 5000), after = wr_send(3, AMEM, 0, 10);
	struct iw_wr read = wr_read(2, 0, MEMSZ - 4, 8);	/* sink past the end */
	struct pair t;
	size_t n;

	for (int k = 0; k < 4; k++) {
		pair_new(&t, param_default, param_default);
		bad.sge[0].len = k == 1 ? 5 : 5000;
		if (k == 2) {	/* the second half of the gather list is bad: nothing goes out either */
			bad.nsge = 2;
			bad.sge[0].stag = AMEM;
			bad.sge[1] = (struct iw_sge){ .stag = 0xbad, .len = 1 };
		}
		post(t.a, &good);
		post(t.a, k == 3 ? &read : &bad);
		post(t.a, &after);
		n = end_drain(t.a, out, sizeof(out));
		assert_int_equal(count_op(out, n, IW_OP_SEND), 1);
		assert_int_equal(count_op(out, n, IW_OP_READ_REQ), 0);
		assert_int_equal(count_op(out, n, IW_OP_TERMINATE), 1);
		assert_int_equal(t.a->ncq, 3);
		assert_int_equal(t.a->cq[1].status, IW_WC_LOC_PROT);
		assert_int_equal(t.a->cq[2].status, IW_WC_FLUSH);
		assert_true(t.a->qp.term.layer == 0 && t.a->qp.term.etype == 0 && !t.a->qp.term.has_len);
		pair_free(&t);
	}
}

/* Revoked while a message is half out: the rest never leaves. */
static void revoked_half_way(void **state)
{
	struct iw_wr w = wr_write(1, 0, 0, 10000);
	static uint8_t out[65536];
	struct pair t;
	size_t n;

	pair_new(&t, param_default, param_default);
	post(t.a, &w);
	n = iw_qp_tx(&t.a->qp, &end_ops, t.a, out, sizeof(out), 3000);
	t.a->nregs = 0;
	n += iw_qp_tx(&t.a->qp, &end_ops, t.a, out + n, sizeof(out) - n, 0);
	assert_int_equal(count_op(out, n, IW_OP_WRITE), 3);
	assert_int_equal(count_op(out, n, IW_OP_TERMINATE), 1);
	assert_int_equal(t.a->cq[0].status, IW_WC_LOC_PROT);
	post_recvs(t.b, BMEM, 1, 64);
	end_feed(t.b, out, n);
	assert_true(end_had(t.b, IW_QP_EV_TERM_RECEIVED));
	assert_int_equal(t.b->cq[0].status, IW_WC_FLUSH);
	pair_free(&t);
}

/* A Terminate goes ahead of what is queued, between two FPDUs of a message; everything left is flushed; nothing follows. */
static void terminate_first(void **state)
{
	struct iw_wr w = wr_write(1, 0, 0, 100000), r = wr_read(2, 0, 500000, 50000);
	static uint8_t out[1 << 18];
	uint8_t bad[64];
	struct pair t;
	size_t n;

	pair_new(&t, no_crc(), no_crc());
	post_recvs(t.a, AMEM, 5, 64);
	post(t.a, &w);
	post(t.a, &r);
	n = iw_qp_tx(&t.a->qp, &end_ops, t.a, out, sizeof(out), 4000);
	assert_int_equal(count_op(out, n, IW_OP_WRITE), 3);
	end_feed(t.a, bad, untagged(bad, IW_OP_SEND, true, 4, 1, 0, "x", 1));
	expect_term(t.a, 1, 2, 1);
	assert_int_equal(t.a->ev[t.a->nev - 1], IW_QP_EV_TERM_SENT);
	assert_int_equal(t.a->ncq, 7);
	for (unsigned int i = 0; i < 7; i++)
		assert_int_equal(t.a->cq[i].status, IW_WC_FLUSH);
	assert_true(iw_qp_tx_pending(&t.a->qp));
	n = iw_qp_tx(&t.a->qp, &end_ops, t.a, out, sizeof(out), 0);
	assert_int_equal(count_op(out, n, IW_OP_TERMINATE), 1);
	assert_int_equal(n, iw_mpa_fpdu_len(18 + 24));
	assert_false(iw_qp_tx_pending(&t.a->qp));
	assert_int_equal(t.a->qp.state, IW_QP_TERMINATE);
	iw_qp_tx_done(&t.a->qp, &end_ops, t.a, t.a->qp.tx_pos - 1);
	assert_int_equal(t.a->qp.state, IW_QP_TERMINATE);
	iw_qp_tx_done(&t.a->qp, &end_ops, t.a, 1);
	assert_int_equal(t.a->qp.state, IW_QP_CLOSING);
	iw_qp_terminate(&t.a->qp, &end_ops, t.a, 0, 0, 0);
	iw_qp_lost(&t.a->qp, &end_ops, t.a, ECONNRESET);
	assert_int_equal(t.a->nev, 2);		/* FIRST_FPDU, TERM_SENT: the owner knows */
	assert_int_equal(t.a->ncq, 7);
	pair_free(&t);
}

/* The Read that failed says so; 100 queued posts are flushed. */
static void terminate_received(void **state)
{
	struct iw_wr r = { .wr_id = 1, .op = IW_WR_READ, .nsge = 1, .rstag = 0xbad, .sge = { { .stag = AMEM, .len = 8 } } };
	struct pair t;

	pair_new(&t, param_default, param_default);
	post(t.a, &r);
	end_move(t.a, t.b);
	for (unsigned int i = 0; i < 100; i++) {
		struct iw_wr w = wr_write(2 + i, 0, 0, 10000);

		post(t.a, &w);
	}
	end_move(t.b, t.a);
	assert_true(t.a->qp.state == IW_QP_CLOSING && t.b->qp.state == IW_QP_CLOSING);
	assert_int_equal(t.a->ncq, 101);
	assert_int_equal(t.a->cq[0].status, IW_WC_REM_ERR);
	for (unsigned int i = 1; i < 101; i++)
		assert_int_equal(t.a->cq[i].status, IW_WC_FLUSH);
	assert_true(t.a->qp.term.layer == 0 && t.a->qp.term.etype == 1 && t.a->qp.term.code == 0 && t.a->qp.term.has_rdmap);
	assert_false(iw_qp_tx_pending(&t.a->qp));
	assert_string_equal(iw_term_text(0, 1, 0), "RDMAP / remote protection / invalid STag");
	pair_free(&t);
}

static void fin(void **state)
{
	struct iw_wr s = wr_send(1, BMEM, 0, 4);
	static uint8_t out[65536];
	struct pair t;
	size_t n;

	/* at a boundary: half-closed, the other direction goes on */
	pair_new(&t, param_default, param_default);
	post_recvs(t.b, BMEM, 2, 4096);
	post(t.a, &(struct iw_wr){ .op = IW_WR_WRITE });
	end_move(t.a, t.b);
	iw_qp_rx_eof(&t.b->qp, &end_ops, t.b, 0);
	assert_true(end_had(t.b, IW_QP_EV_EOF));
	post(t.b, &s);
	assert_true(end_drain(t.b, NULL, 0) > 0);
	assert_int_equal(t.b->qp.state, IW_QP_RTS);
	end_feed(t.b, "x", 1);		/* octets after the FIN (DDP-6.2.1-02) */
	assert_true(end_had(t.b, IW_QP_EV_LOST));
	assert_int_equal(t.b->qp.state, IW_QP_ERROR);
	assert_int_equal(t.b->ncq, 3);
	pair_free(&t);

	/* inside an FPDU, and between two segments of a Send */
	for (int k = 0; k < 2; k++) {
		s = wr_send(1, AMEM, 0, 3000);
		pair_new(&t, param_default, param_default);
		post_recvs(t.b, BMEM, 1, 4096);
		post(t.a, &s);
		n = iw_qp_tx(&t.a->qp, &end_ops, t.a, out, sizeof(out), 1);
		end_feed(t.b, out, k ? n : n - 1);
		iw_qp_rx_eof(&t.b->qp, &end_ops, t.b, t.b->nin);
		assert_int_equal(t.b->qp.state, IW_QP_ERROR);
		assert_true(end_had(t.b, IW_QP_EV_LOST));
		assert_true(t.b->ncq == 1 && t.b->cq[0].status == IW_WC_FLUSH);
		assert_true(t.b->qp.err == EPROTO && t.b->qp.term.layer == 2 && t.b->qp.term.code == 1);
		pair_free(&t);
	}
}

static void lost(void **state)
{
	struct pair t;

	pair_new(&t, param_default, param_default);
	post_recvs(t.a, AMEM, 5, 64);
	for (unsigned int i = 0; i < 3; i++) {
		struct iw_wr r = wr_read(i, 0, 500000, 8);

		post(t.a, &r);
	}
	end_drain(t.a, NULL, 0);
	iw_qp_lost(&t.a->qp, &end_ops, t.a, ETIMEDOUT);
	assert_int_equal(t.a->ncq, 8);
	assert_int_equal(t.a->qp.err, ETIMEDOUT);
	assert_int_equal(t.a->nev, 1);
	assert_int_equal(end_drain(t.a, NULL, 0), 0);
	iw_qp_lost(&t.a->qp, &end_ops, t.a, ECONNRESET);
	assert_int_equal(t.a->nev, 1);
	pair_free(&t);
}

/* The owner says that it is over: what is outstanding is flushed, silently; what came before keeps its own end. */
static void over(void **state)
{
	struct iw_wr r = wr_read(1, 0, 500000, 8), s = wr_send(2, AMEM, 0, 10);
	struct pair t;

	for (int started = 0; started < 3; started++) {
		pair_new(&t, param_default, param_default);
		if (!started)
			iw_qp_init(&t.a->qp);
		post_recvs(t.a, AMEM, 2, 64);
		if (started) {
			post(t.a, &r);
			post(t.a, &s);
			end_drain(t.a, NULL, 0);
		}
		if (started == 2) {
			iw_qp_terminate(&t.a->qp, &end_ops, t.a, 0, 0, 0);
			assert_int_equal(t.a->ncq, 4);
		}
		iw_qp_end(&t.a->qp, &end_ops, t.a);
		iw_qp_end(&t.a->qp, &end_ops, t.a);
		assert_int_equal(t.a->ncq, started ? 4 : 2);
		assert_int_equal(t.a->nev, started == 2);
		/* the Send was with the LLP already */
		for (unsigned int i = 0; i < t.a->ncq; i++)
			assert_int_equal(t.a->cq[i].status, t.a->cq[i].op == IW_WR_SEND ? IW_WC_OK : IW_WC_FLUSH);
		assert_int_equal(t.a->qp.state, started == 2 ? IW_QP_TERMINATE : IW_QP_CLOSING);
		assert_int_equal(iw_qp_post_send(&t.a->qp, &s), -ENOTCONN);
		assert_int_equal(iw_qp_tx_pending(&t.a->qp), started == 2);
		pair_free(&t);
	}
}

/* Send with Invalidate, then a Write to that STag. */
static void invalidate(void **state)
{
	struct iw_wr s = { .op = IW_WR_SEND, .flags = IW_WR_INVALIDATE | IW_WR_SE, .inv_stag = 0x777 }, w = wr_write(2, 0, 0, 4);
	struct pair t;

	pair_new(&t, param_default, param_default);
	end_reg(t.b, 0x777, 0, t.bmem + 4096, 64, IW_ACCESS_REMOTE_WRITE);
	post_recvs(t.b, BMEM, 2, 64);
	w.rstag = 0x777;
	post(t.a, &w);
	post(t.a, &s);
	post(t.a, &w);
	end_settle(t.a, t.b);
	assert_true(t.b->cq[0].has_inv && t.b->cq[0].inv_stag == 0x777 && t.b->cq[0].se && t.b->cq[0].status == IW_WC_OK);
	assert_true(t.b->qp.term.layer == 1 && t.b->qp.term.etype == 1 && t.b->qp.term.code == 0);
	assert_true(end_had(t.a, IW_QP_EV_TERM_RECEIVED));
	pair_free(&t);
}

/* What Linux siw sends, taken from captures of it: payloads of its Terminates. */
static void siw_terminates(void **state)
{
	static const struct {
		const char *p;
		size_t n;
		uint8_t layer, etype, code, ddp, rdmap;
	} c[] = {
		{ "\x11\x00\x03\x00\x00\x40\xc1\x40\x4a\xe6\x49\x00\x00\x00\x55\x78\xc9\x21\x71\x60", 20, 1, 1, 0, 14, 0 },
		{ "\x11\x01\x03\x00\x00\x40\xc1\x40\x98\x13\x58\x00\x00\x00\x55\xca\x20\x1b\x52\x40", 20, 1, 1, 1, 14, 0 },
		{ "\x10\x00\x07\x00\x00\x00\x41\x41\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x40\x00\x00\x00\x00"
		  "\x41\xe5\xee\x00\x00\x00\x55\x85\xfd\x65\xf1\x60\x00\x00\x00\x40\xa4\xe9\x08\x00\x00\x00\x56\x40\xc6\xc9\x11\x60", 52,
		  0, 1, 0, 18, 1 },
		{ "\x10\x01\x07\x00\x00\x00\x41\x41\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x40\x00\x00\x00\x00"
		  "\xa5\xab\x1d\x00\x00\x00\x55\x7a\x4c\xbe\xd1\x60\x00\x00\x00\x40\x2c\x1c\xc6\x00\x00\x00\x55\x59\x97\xb6\xb2\x40", 52,
		  0, 1, 1, 18, 1 },
		{ "\x21\x02\x03\x00\x00\x10\x41\x43\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00", 24, 1, 2, 2, 18, 0 },
		{ "\x02\x02\x00\x00", 4, 2, 0, 2, 0, 0 },
	};

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct iw_term t;

		iw_term_decode(&t, (const uint8_t *)c[i].p, c[i].n);
		assert_true(t.siw_swapped && !t.cut);
		assert_true(t.layer == c[i].layer && t.etype == c[i].etype && t.code == c[i].code);
		assert_true(t.has_ddp == !!c[i].ddp && t.ddp_len == c[i].ddp && t.has_rdmap == c[i].rdmap);
	}
}

/* ---- an owner that ends the stream from a callback ---- */
static bool by_lost;

static void complete_and_end(void *ctx, const struct iw_cqe *cqe)
{
	struct end *e = ctx;

	end_complete(ctx, cqe);
	if (e->ncq > 1)
		return;
	if (by_lost)
		iw_qp_lost(&e->qp, &end_ops, e, ECONNABORTED);
	else
		iw_qp_terminate(&e->qp, &end_ops, e, 0, 0, 0);
}

static void end_in_callback(void **state)
{
	struct iw_qp_ops ops = end_ops;

	ops.complete = complete_and_end;
	for (int k = 0; k < 4; k++) {
		struct iw_wr s = wr_send(1, AMEM, 0, 10);
		struct pair t;
		struct end *e;
		size_t n;

		by_lost = k & 1;
		pair_new(&t, param_default, param_default);
		post_recvs(t.b, BMEM, 3, 64);
		for (int i = 0; i < 3; i++)
			post(t.a, &s);
		n = iw_qp_tx(&t.a->qp, &end_ops, t.a, t.a->out, IW_FPDU_MAX_MARKERS, 0);
		e = k & 2 ? t.a : t.b;
		if (k & 2)
			iw_qp_tx_done(&t.a->qp, &ops, t.a, n);
		else
			assert_int_equal(iw_qp_rx(&t.b->qp, &ops, t.b, t.a->out, n), n);
		assert_int_equal(e->ncq, 3);
		assert_int_equal(e->cq[0].status, IW_WC_OK);
		assert_true(e->cq[1].wr_id == (k & 2 ? 1 : 1001));
		assert_int_equal(e->cq[2].status, k & 2 ? IW_WC_OK : IW_WC_FLUSH);	/* TCP had all three Sends */
		assert_int_equal(e->qp.state, by_lost ? IW_QP_ERROR : IW_QP_TERMINATE);
		assert_int_equal(iw_qp_tx_pending(&e->qp), !by_lost);
		pair_free(&t);
	}
}

/* A receive buffer that is registered no more: our fault, told as such; the first error stays the one that is reported. */
static void recv_buffer_gone(void **state)
{
	struct iw_qp_ops ops = end_ops;
	struct iw_wr s = wr_send(1, AMEM, 0, 10);

	by_lost = false;
	for (int k = 0; k < 2; k++) {
		struct pair t;
		size_t n;

		ops.complete = k ? complete_and_end : end_complete;
		pair_new(&t, param_default, param_default);
		post_recvs(t.b, 0xbad, 2, 64);
		post(t.a, &s);
		n = iw_qp_tx(&t.a->qp, &end_ops, t.a, t.a->out, IW_FPDU_MAX_MARKERS, 0);
		assert_int_equal(iw_qp_rx(&t.b->qp, &ops, t.b, t.a->out, n), n);
		assert_int_equal(t.b->ncq, 2);
		assert_true(t.b->cq[0].wr_id == 1000 && t.b->cq[0].status == IW_WC_LOC_PROT);
		assert_true(t.b->cq[1].wr_id == 1001 && t.b->cq[1].status == IW_WC_FLUSH);
		expect_term(t.b, k ? 0 : 1, 0, 0);
		assert_false(t.b->qp.term.has_ddp);
		assert_int_equal(t.b->nev, 2);		/* FIRST_FPDU, one TERM_SENT */
		pair_free(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces), cmocka_unit_test(bad_read_responses), cmocka_unit_test(response_rules),
		cmocka_unit_test(bad_atomic_responses), cmocka_unit_test(swapped_atomic_responses), cmocka_unit_test(local_errors), cmocka_unit_test(revoked_half_way),
		cmocka_unit_test(terminate_first), cmocka_unit_test(terminate_received), cmocka_unit_test(fin),
		cmocka_unit_test(lost), cmocka_unit_test(over), cmocka_unit_test(invalidate), cmocka_unit_test(siw_terminates),
		cmocka_unit_test(end_in_callback), cmocka_unit_test(recv_buffer_gone),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("qp_end", tests, NULL, NULL);
}
