// SPDX-License-Identifier: MIT
/* Single checks of the queue pair at the edge of what comes by: quoted Requests, sums of 32 bits, refused work requests. */
#include "qp_pair.h"

#include <errno.h>

/* ---- Terminates received ---- */

/* The Request a Terminate quotes, by its RDMAP header or a DDP header that says Read or Atomic, is the oldest; others did not fail. */
static void quoted_request(void **state)
{
	static const struct {
		uint8_t flags, ctl, rdmap;	/* M D R; the first two octets of the DDP header */
		uint8_t status;
	} c[] = {
		{ 0xe0, 0x41, 0x41, IW_WC_REM_ERR },	/* Read Request, both headers */
		{ 0xc0, 0x41, 0x41, IW_WC_REM_ERR },
		{ 0xc0, 0x41, 0x4a, IW_WC_REM_ERR },	/* Atomic Request: no RDMAP header (RDMAP-4.8-06) */
		{ 0x20, 0, 0, IW_WC_REM_ERR },
		{ 0xc0, 0x41, 0x43, IW_WC_FLUSH },	/* a Send */
		{ 0xc0, 0xc1, 0x40, IW_WC_FLUSH },	/* a Write */
		{ 0xc0, 0x41, 0x4b, IW_WC_FLUSH },
		{ 0x00, 0, 0, IW_WC_FLUSH },
		{ 0x80, 0, 0, IW_WC_FLUSH },
	};

	for (unsigned int i = 0; i < 2 * sizeof(c) / sizeof(c[0]); i++) {
		struct iw_wr add = { .wr_id = 1, .op = IW_WR_FETCHADD, .rstag = BMEM }, r = wr_read(2, 0, 500000, 8);
		uint8_t term[64] = { 0x01, 0x00, c[i / 2].flags }, out[128];
		size_t n = 4;
		struct pair t;

		if (c[i / 2].flags & 0x80)
			n += 2;
		if (c[i / 2].flags & 0x40) {
			term[n] = c[i / 2].ctl;
			term[n + 1] = c[i / 2].rdmap;
			n += c[i / 2].ctl & 0x80 ? 14 : 18;
		}
		if (c[i / 2].flags & 0x20)
			n += 28;
		pair_new(&t, no_crc(), no_crc());
		post(t.a, i % 2 ? &r : &add);
		post(t.a, i % 2 ? &add : &r);
		end_drain(t.a, NULL, 0);
		end_feed(t.a, out, untagged(out, IW_OP_TERMINATE, true, 2, 1, 0, term, (uint16_t)n));
		assert_int_equal(t.a->qp.state, IW_QP_CLOSING);
		assert_false(t.a->qp.term.cut);
		assert_int_equal(t.a->ncq, 2);
		assert_int_equal(t.a->cq[0].status, c[i / 2].status);
		assert_int_equal(t.a->cq[1].status, IW_WC_FLUSH);
		pair_free(&t);
	}
}

/* From our own Responder: what it says of a bad Atomic leads the Initiator to it. */
static void atomic_refused(void **state)
{
	struct iw_wr add = { .wr_id = 1, .op = IW_WR_FETCHADD, .rstag = 0xbad }, w = wr_write(2, 0, 0, 4);
	struct pair t;

	pair_new(&t, param_default, param_default);
	post(t.a, &add);
	post(t.a, &w);
	end_settle(t.a, t.b);
	assert_true(t.a->qp.term.layer == 0 && t.a->qp.term.etype == 1 && t.a->qp.term.code == 0);
	assert_true(t.a->qp.term.has_ddp && !t.a->qp.term.has_rdmap);
	assert_int_equal(t.a->cq[0].status, IW_WC_REM_ERR);
	pair_free(&t);
}

/* The RTR Read has no work request that could fail; the Read behind it is not the one. */
static void rtr_read_refused(void **state)
{
	struct iw_qp_param p = no_crc();
	uint8_t term[4 + 2 + 18 + 28] = { 0x01, 0x00, 0xe0, [6] = 0x41, [7] = 0x41 }, out[128];
	struct iw_wr r = wr_read(1, 0, 500000, 8);
	struct pair t;

	p.rtr = 2;
	pair_new(&t, p, no_crc());
	post(t.a, &r);
	end_drain(t.a, NULL, 0);
	end_feed(t.a, out, untagged(out, IW_OP_TERMINATE, true, 2, 1, 0, term, sizeof(term)));
	assert_true(t.a->ncq == 1 && t.a->cq[0].status == IW_WC_FLUSH);
	pair_free(&t);
}

/* ---- receiving ---- */
static enum iw_access_err anywhere(void *ctx, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	static uint8_t scratch[64];

	assert_true(len <= sizeof(scratch) && to + len <= UINT32_MAX);
	*ptr = scratch;
	return IW_ACC_OK;
}

/* DDP-7.1-04: MO + length beyond 2^32 - 1 is an invalid MO, beyond the buffer only a message too long. */
static void largest_send(void **state)
{
	static const struct {
		uint32_t buffer;
		uint16_t n;
		uint8_t code;
	} c[] = { { UINT32_MAX, 15, 0 }, { UINT32_MAX, 16, 4 }, { UINT32_MAX, 17, 4 }, { 0xfffffff8, 8, 0 }, { 0xfffffff8, 9, 5 },
		  { 0xfffffff8, 15, 5 }, { 0xfffffff8, 16, 4 } };
	struct iw_qp_ops ops = end_ops;

	ops.access = anywhere;
	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		uint8_t out[64], p[17] = { 0 };
		struct pair t;
		size_t n;

		pair_new(&t, no_crc(), no_crc());
		assert_int_equal(iw_qp_post_recv(&t.b->qp, 1, &(struct iw_sge){ .stag = BMEM, .len = c[i].buffer }), 0);
		t.b->qp.rx_mo[IW_QN_SEND] = 0xfffffff0;		/* so much of it came already */
		t.b->qp.rx_open[IW_QN_SEND] = IW_OP_SEND + 1;
		n = untagged(out, IW_OP_SEND, true, 0, 1, 0xfffffff0, p, c[i].n);
		assert_int_equal(iw_qp_rx(&t.b->qp, &ops, t.b, out, n), n);
		if (c[i].code)
			expect_term(t.b, 1, 2, c[i].code);
		else
			assert_true(t.b->ncq == 1 && t.b->cq[0].status == IW_WC_OK && t.b->cq[0].len == 0xfffffff0 + c[i].n);
		pair_free(&t);
	}
}

/* DDP-7.1-06, -07: a sink that is taken back before its Response comes is not written to. */
static void sink_revoked(void **state)
{
	struct iw_wr r = wr_read(1, 0, 500000, 8);
	uint8_t out[128];

	for (int k = 0; k < 3; k++) {
		struct pair t;

		pair_new(&t, no_crc(), no_crc());
		post(t.a, &r);
		end_drain(t.a, NULL, 0);
		if (k == 0)
			t.a->nregs = 0;
		else if (k == 1)
			t.a->regs[0].access &= ~IW_ACCESS_READ_SINK;
		else
			t.a->regs[0].stream = 2;
		memset(t.amem + 500000, 0x77, 8);
		end_feed(t.a, out, tagged(out, IW_OP_READ_RESP, true, AMEM, 500000, "xxxxxxxx", 8));
		expect_term(t.a, 1, 1, k == 2 ? 2 : 0);
		assert_memory_equal(t.amem + 500000, "\x77\x77\x77\x77\x77\x77\x77\x77", 8);
		assert_true(t.a->ncq == 1 && t.a->cq[0].status == IW_WC_FLUSH);
		pair_free(&t);
	}
}

/* EXT-5.1-02: all eight octets are inside, and aligned; of a word that is neither, the alignment is told. */
static void atomic_word(void **state)
{
	for (uint64_t len = 1; len <= 24; len++)
		for (uint64_t to = 0; to <= 32; to++) {
			struct iw_wr add = { .wr_id = 1, .op = IW_WR_FETCHADD, .rstag = 0x777, .rto = to, .add_swap = 1 };
			uint8_t before[64];
			uint64_t word;
			struct pair t;

			pair_new(&t, no_crc(), no_crc());
			memcpy(before, t.bmem, sizeof(before));
			end_reg(t.b, 0x777, 0, t.bmem, len, IW_ACCESS_REMOTE_ATOMIC);
			post(t.a, &add);
			end_move(t.a, t.b);
			if (to % 8 && to < len) {
				expect_term(t.b, 0, 2, 7);
			} else if (to + 8 > len) {
				expect_term(t.b, 0, 1, 1);
			} else {
				assert_int_equal(t.b->qp.stat.rx_atomic, 1);
				memcpy(&word, before + to, 8);
				word++;
				memcpy(before + to, &word, 8);
			}
			assert_memory_equal(t.bmem, before, sizeof(before));
			pair_free(&t);
		}
}

/* MPA-4.3-04, MPA-4.4-06: Markers are in the CRC, and nothing is looked at before it: any octet changed is a CRC error. */
static void crc_with_markers(void **state)
{
	struct iw_wr w = wr_write(1, 0, 4096, 700);
	struct iw_qp_param p = param_default;
	static uint8_t out[2048], bad[2048];
	struct pair t;
	size_t n;

	p.tx_markers = p.rx_markers = 1;
	pair_new(&t, p, p);
	post(t.a, &w);
	n = iw_qp_tx(&t.a->qp, &end_ops, t.a, out, IW_FPDU_MAX_MARKERS, 0);
	assert_int_equal(n, 2 + 14 + 700 + 4 + 2 * 4);
	pair_free(&t);
	for (size_t i = 0; i < n; i++) {
		if (i == 4 || i == 5)
			continue;	/* another length: another FPDU, not whole yet */
		memcpy(bad, out, n);
		bad[i] ^= 0x10;
		pair_new(&t, p, p);
		memset(t.bmem + 4096, 0x55, 700);
		end_feed(t.b, bad, n);
		expect_term(t.b, 2, 0, 2);
		for (unsigned int k = 0; k < 700; k++)
			assert_int_equal(t.bmem[4096 + k], 0x55);
		pair_free(&t);
	}
}

/* EXT-6.3-02: Immediate Data whole, in two pieces cut anywhere, and octet by octet (DDP-5.2-04). */
static void immediate_in_pieces(void **state)
{
	static const uint8_t imm[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };

	for (unsigned int cut = 0; cut <= 9; cut++) {
		unsigned int done = 0;
		uint8_t out[64];
		struct pair t;

		pair_new(&t, no_crc(), no_crc());
		post_recvs(t.b, BMEM, 2, 64);
		while (done < 8) {
			unsigned int n = cut == 9 ? 1 : done ? 8 - done : cut ? cut : 8;

			assert_int_equal(t.b->ncq, 0);
			end_feed(t.b, out, untagged(out, IW_OP_IMM, done + n == 8, 0, 1, done, imm + done, (uint16_t)n));
			done += n;
		}
		assert_true(t.b->ncq == 1 && t.b->cq[0].has_imm && t.b->cq[0].len == 8);
		assert_memory_equal(t.b->cq[0].imm, imm, 8);
		pair_free(&t);
	}
}

/* DDP-6.2.1-02: octets behind a FIN are an error; an owner that looks again and has none is not. */
static void nothing_behind_the_fin(void **state)
{
	struct end *e = end_new(&param_default);
	uint8_t octet = 0;

	iw_qp_rx_eof(&e->qp, &end_ops, e, 0);
	assert_int_equal(iw_qp_rx(&e->qp, &end_ops, e, &octet, 0), 0);
	assert_true(e->qp.state == IW_QP_RTS && e->nev == 1 && e->ev[0] == IW_QP_EV_EOF);
	assert_int_equal(iw_qp_rx(&e->qp, &end_ops, e, &octet, 1), 1);
	assert_true(e->qp.state == IW_QP_ERROR && e->qp.err == EPROTO);
	end_free(e);
}

/* Octets that come before the start stay with the owner. */
static void nothing_before_the_start(void **state)
{
	uint8_t out[64];
	struct end *e = end_new(NULL);
	size_t n = tagged(out, IW_OP_WRITE, true, 0, 0, "", 0);

	assert_int_equal(iw_qp_rx(&e->qp, &end_ops, e, out, n), 0);
	assert_true(e->nev == 0 && e->qp.stat.rx_fpdu == 0 && e->qp.stat.rx_octets == 0);
	end_free(e);
}

/* A Terminate for which the owner's buffer has no room left is not lost: it is the next thing that leaves. */
static void terminate_waits_for_room(void **state)
{
	struct iw_wr w = wr_write(1, 0, 0, 60000), w2 = wr_write(2, 0, 0, 6004), bad = wr_write(3, 0, 0, 1);
	static uint8_t out[IW_FPDU_MAX_MARKERS];
	struct iw_qp_param p = no_crc();
	struct pair t;

	p.mulpdu = 64768;
	bad.sge[0].stag = 0xbad;
	pair_new(&t, p, p);
	post(t.a, &w);
	post(t.a, &w2);
	post(t.a, &bad);
	assert_int_equal(iw_qp_tx(&t.a->qp, &end_ops, t.a, out, sizeof(out), 0), sizeof(out) - 24);
	expect_term(t.a, 0, 0, 0);
	assert_true(iw_qp_tx_pending(&t.a->qp));
	assert_int_equal(iw_qp_tx(&t.a->qp, &end_ops, t.a, out, sizeof(out), 0), iw_mpa_fpdu_len(18 + 4));
	assert_int_equal(out[3], 0x47);
	assert_false(iw_qp_tx_pending(&t.a->qp));
	pair_free(&t);
}

/* ---- work requests that are refused ---- */
static void refused_posts(void **state)
{
	static const struct {
		struct iw_wr wr;
		int ret;
	} c[] = {
		{ { .op = IW_WR_SEND, .flags = IW_WR_INLINE, .inl_len = IW_WR_INLINE_MAX }, 0 },
		{ { .op = IW_WR_SEND, .flags = IW_WR_INLINE, .inl_len = IW_WR_INLINE_MAX + 1 }, -EINVAL },
		{ { .op = IW_WR_READ, .nsge = 1 }, 0 },
		{ { .op = IW_WR_READ, .nsge = 2 }, -EINVAL },	/* one Data Sink (RDMAP-4.4) */
		{ { .op = IW_WR_SEND, .nsge = IW_QP_SGE }, 0 },
		{ { .op = IW_WR_SEND, .nsge = IW_QP_SGE + 1 }, -EINVAL },
		{ { .op = IW_WR_WRITE, .nsge = IW_QP_SGE + 1 }, -EINVAL },
		{ { .op = IW_WR_IMM, .nsge = 1 }, -EINVAL },
		{ { .op = IW_WR_FETCHADD, .nsge = 1 }, -EINVAL },
		{ { .op = IW_WR_CMPSWAP, .nsge = 1 }, -EINVAL },
		{ { .op = IW_WR_RECV }, -EINVAL },
		{ { .op = 0xff }, -EINVAL },
		{ { .op = IW_WR_WRITE, .nsge = 2, .sge = { { .len = UINT32_MAX }, { .len = 1 } } }, -EMSGSIZE },
		{ { .op = IW_WR_WRITE, .nsge = 2, .sge = { { .len = UINT32_MAX - 1 }, { .len = 1 } } }, 0 },
		{ { .op = IW_WR_SEND, .flags = IW_WR_SE }, 0 },
		{ { .op = IW_WR_IMM, .flags = IW_WR_SE }, 0 },
		{ { .op = IW_WR_WRITE, .flags = IW_WR_SE }, -EINVAL },
		{ { .op = IW_WR_READ, .flags = IW_WR_SE }, -EINVAL },
		{ { .op = IW_WR_WRITE, .flags = IW_WR_INVALIDATE }, -EINVAL },
		{ { .op = IW_WR_IMM, .flags = IW_WR_INVALIDATE }, -EINVAL },
		{ { .op = IW_WR_WRITE, .flags = IW_WR_INLINE }, -EINVAL },
		{ { .op = IW_WR_IMM, .flags = IW_WR_INLINE }, -EINVAL },
		{ { .op = IW_WR_FETCHADD, .flags = IW_WR_FENCE | IW_WR_QUIET }, 0 },
	};

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct end *e = end_new(&param_default);

		if (iw_qp_post_send(&e->qp, &c[i].wr) != c[i].ret)
			fail_msg("work request %u", i);
		assert_int_equal(iw_qp_sq_free(&e->qp), IW_QP_SQ - !c[i].ret);
		end_free(e);
	}
}

/* The largest and smallest that a start accepts, and one more or less. */
static void start_limits(void **state)
{
	static const struct {
		struct iw_qp_param p;
		int ret;
	} c[] = {
		{ { .initiator = 1, .mulpdu = 128, .recv_min = 8 }, 0 },
		{ { .initiator = 1, .mulpdu = 64768, .ird = IW_QP_IRD, .ord = IW_QP_ORD, .rtr = 3, .recv_min = 8 }, 0 },
		{ { .mulpdu = 128, .recv_min = 9 }, 0 },
		{ { .initiator = 1, .mulpdu = 127, .recv_min = 8 }, -EINVAL },
		{ { .initiator = 1, .mulpdu = 64769, .recv_min = 8 }, -EINVAL },
		{ { .initiator = 1, .mulpdu = 128, .ird = IW_QP_IRD + 1, .recv_min = 8 }, -EINVAL },
		{ { .initiator = 1, .mulpdu = 128, .ord = IW_QP_ORD + 1, .recv_min = 8 }, -EINVAL },
		{ { .initiator = 1, .mulpdu = 128, .rtr = 4, .recv_min = 8 }, -EINVAL },
		{ { .mulpdu = 128, .rtr = 1, .recv_min = 8 }, -EINVAL },
		{ { .mulpdu = 128, .recv_min = 7 }, -EINVAL },		/* Immediate Data would not fit (EXT-6.3-03) */
		{ { .mulpdu = 128, .recv_min = 10 }, -EINVAL },		/* the one that is posted is smaller */
	};

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct end *e = end_new(NULL);

		assert_int_equal(iw_qp_post_recv(&e->qp, 1, &(struct iw_sge){ .len = 64 }), 0);
		assert_int_equal(iw_qp_post_recv(&e->qp, 1, &(struct iw_sge){ .len = 9 }), 0);
		if (iw_qp_start(&e->qp, &c[i].p) != c[i].ret)
			fail_msg("parameters %u", i);
		assert_int_equal(e->qp.state, c[i].ret ? IW_QP_IDLE : IW_QP_RTS);
		end_free(e);
	}
}

/* A receive buffer has its place below 2^64, and none is taken once the stream is over. */
static void refused_receives(void **state)
{
	struct end *e = end_new(&param_default);

	assert_int_equal(iw_qp_post_recv(&e->qp, 1, &(struct iw_sge){ .to = UINT64_MAX - 8, .len = 8 }), 0);
	assert_int_equal(iw_qp_post_recv(&e->qp, 2, &(struct iw_sge){ .to = UINT64_MAX - 7, .len = 8 }), -EINVAL);
	assert_int_equal(iw_qp_post_recv(&e->qp, 3, &(struct iw_sge){ .len = 7 }), -EINVAL);
	iw_qp_sq_shut(&e->qp);		/* our half only: receiving goes on */
	assert_int_equal(iw_qp_post_send(&e->qp, &(struct iw_wr){ .op = IW_WR_SEND }), -ENOTCONN);
	assert_int_equal(iw_qp_post_recv(&e->qp, 4, &(struct iw_sge){ .len = 8 }), 0);
	iw_qp_terminate(&e->qp, &end_ops, e, 0, 0, 0);
	assert_true(e->ncq == 2 && e->cq[0].wr_id == 1 && e->cq[1].wr_id == 4);
	assert_int_equal(iw_qp_post_recv(&e->qp, 5, &(struct iw_sge){ .len = 8 }), -ENOTCONN);
	assert_int_equal(iw_qp_post_send(&e->qp, &(struct iw_wr){ .op = IW_WR_SEND }), -ENOTCONN);
	assert_int_equal(e->ncq, 2);
	end_free(e);
}

/* ---- ends ---- */

/* DDP-6.2.1-02: a FIN while a message of any kind is open is an error, behind a whole one it is not; the second says nothing. */
static void fin_and_open_messages(void **state)
{
	uint8_t req[28] = { 0 }, resp[12] = { 0 };

	iw_put32(req + 12, 0);
	iw_put32(resp, 1);
	for (unsigned int k = 0; k < 10; k++) {
		struct iw_wr r = wr_read(1, 0, 500000, 8), add = { .wr_id = 1, .op = IW_WR_FETCHADD, .rstag = BMEM };
		bool last = k & 1;
		uint8_t out[128];
		struct pair t;
		size_t n;

		pair_new(&t, no_crc(), no_crc());
		post_recvs(t.a, AMEM, 1, 64);
		post(t.a, k / 2 == 4 ? &add : &r);
		end_drain(t.a, NULL, 0);
		switch (k / 2) {
		case 0:
			n = tagged(out, IW_OP_WRITE, last, 0, 0, "", 0);
			break;
		case 1:
			n = tagged(out, IW_OP_READ_RESP, last, AMEM, 500000, "12345678", last ? 8 : 7);
			break;
		case 2:
			n = untagged(out, IW_OP_SEND, last, 0, 1, 0, "x", 1);
			break;
		case 3:
			n = untagged(out, IW_OP_READ_REQ, last, 1, 1, 0, req, last ? 28 : 27);
			break;
		default:
			n = untagged(out, IW_OP_ATOMIC_RESP, last, 3, 1, 0, resp, last ? 12 : 11);
			break;
		}
		end_feed(t.a, out, n);
		assert_int_equal(t.a->qp.state, IW_QP_RTS);
		iw_qp_rx_eof(&t.a->qp, &end_ops, t.a, 0);
		assert_int_equal(end_had(t.a, IW_QP_EV_EOF), last);
		assert_int_equal(t.a->qp.state, last ? IW_QP_RTS : IW_QP_ERROR);
		assert_int_equal(t.a->qp.err, last ? 0 : EPROTO);
		n = t.a->nev;
		iw_qp_rx_eof(&t.a->qp, &end_ops, t.a, 1);
		assert_int_equal(t.a->nev, n);
		pair_free(&t);
	}
}

/* A connection that is lost before the start: the receives that were posted come back, once. */
static void lost_before_the_start(void **state)
{
	struct end *e = end_new(NULL);

	assert_int_equal(iw_qp_post_recv(&e->qp, 1, &(struct iw_sge){ .len = 8 }), 0);
	iw_qp_terminate(&e->qp, &end_ops, e, 0, 0, 0);		/* nobody to tell */
	assert_true(e->qp.state == IW_QP_IDLE && e->nev == 0);
	iw_qp_lost(&e->qp, &end_ops, e, ECONNRESET);
	assert_true(e->qp.state == IW_QP_ERROR && e->qp.err == ECONNRESET && e->nev == 1 && e->ev[0] == IW_QP_EV_LOST);
	assert_true(e->ncq == 1 && e->cq[0].status == IW_WC_FLUSH && e->cq[0].op == IW_WR_RECV);
	iw_qp_lost(&e->qp, &end_ops, e, ETIMEDOUT);
	assert_true(e->qp.err == ECONNRESET && e->nev == 1 && e->ncq == 1);
	assert_true(e->qp.term.layer == 2 && e->qp.term.etype == 0 && e->qp.term.code == 1);
	end_free(e);
}

/* A Terminate that is due does not leave any more once the connection is lost; nothing of the queues is told twice. */
static void lost_with_a_terminate_due(void **state)
{
	struct pair t;

	pair_new(&t, param_default, param_default);
	post_recvs(t.a, AMEM, 2, 64);
	iw_qp_terminate(&t.a->qp, &end_ops, t.a, 0, 0, 0);
	assert_true(iw_qp_tx_pending(&t.a->qp));
	iw_qp_lost(&t.a->qp, &end_ops, t.a, ECONNRESET);
	assert_false(iw_qp_tx_pending(&t.a->qp));
	assert_int_equal(end_drain(t.a, NULL, 0), 0);
	assert_true(t.a->qp.state == IW_QP_ERROR && t.a->ncq == 2 && t.a->nev == 1);
	pair_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quoted_request), cmocka_unit_test(atomic_refused), cmocka_unit_test(rtr_read_refused),
		cmocka_unit_test(largest_send), cmocka_unit_test(sink_revoked), cmocka_unit_test(atomic_word),
		cmocka_unit_test(crc_with_markers),
		cmocka_unit_test(immediate_in_pieces), cmocka_unit_test(nothing_behind_the_fin),
		cmocka_unit_test(nothing_before_the_start), cmocka_unit_test(terminate_waits_for_room),
		cmocka_unit_test(refused_posts), cmocka_unit_test(start_limits), cmocka_unit_test(refused_receives),
		cmocka_unit_test(fin_and_open_messages), cmocka_unit_test(lost_before_the_start),
		cmocka_unit_test(lost_with_a_terminate_due),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("qp_checks", tests, NULL, NULL);
}
