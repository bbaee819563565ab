// SPDX-License-Identifier: MIT
/* The queue pair at work: every operation, order of completions, limits, startup, sizes, Markers. */
#include "qp_pair.h"

#include "proto/crc32c.h"

#include <errno.h>

/* ---- every operation once, on every kind of wire ---- */
static void counted(const struct iw_qp_stat *a, const struct iw_qp_stat *b)
{
	assert_true(a->tx_send == 2 && a->tx_write == 1 && a->tx_imm == 1 && a->tx_read == 1 && a->tx_atomic == 1);
	assert_true(b->rx_send == 2 && b->rx_write == 1 && b->rx_imm == 1 && b->rx_read == 1 && b->rx_atomic == 1);
	assert_true(a->rx_rresp == 1 && b->tx_rresp == 1 && a->tx_rresp == 0 && b->rx_rresp == 0);
	assert_true(a->tx_write_octets == 5005 && b->rx_write_octets == 5005);
	assert_true(b->tx_read_octets == 123456 && a->rx_read_octets == 123456);
	assert_true(a->tx_size[3] == 1 && a->tx_size[4] == 2 && b->tx_size[6] == 1);
	assert_true(b->rx_zero_tagged == 0 && a->rx_zero_tagged == 0 && a->rx_tiny == 0 && b->rx_tiny == 0);
}

static void all_operations(const struct iw_qp_param *p)
{
	struct iw_wr gather = { .wr_id = 2, .op = IW_WR_WRITE, .nsge = 4, .rstag = BMEM, .rto = 600000,
				.sge = { { .stag = AMEM, .to = 10, .len = 3 }, { .stag = AMEM, .to = 5000, .len = 0 },
					 { .stag = AMEM, .to = 100, .len = 5001 }, { .stag = AMEM, .to = 20000, .len = 1 } } };
	struct iw_wr imm = { .wr_id = 3, .op = IW_WR_IMM, .flags = IW_WR_SE, .imm = { 1, 2, 3, 4, 5, 6, 7, 8 } };
	struct iw_wr inl = { .wr_id = 4, .op = IW_WR_SEND, .flags = IW_WR_INLINE, .inl_len = 3, .inl = "abc", .nsge = 1,
			     .sge = { { .stag = AMEM, .to = 77, .len = 2000 } } };
	struct iw_wr add = { .wr_id = 6, .op = IW_WR_FETCHADD, .rstag = BMEM, .rto = 800000, .add_swap = 5 };
	struct pair t;
	uint64_t word;

	pair_new(&t, *p, *p);
	memcpy(&word, t.bmem + 800000, 8);
	post_recvs(t.b, BMEM, 3, 8192);
	post(t.a, &(struct iw_wr){ .wr_id = 1, .op = IW_WR_SEND, .nsge = 1, .sge = { { .stag = AMEM, .to = 7, .len = 8000 } } });
	post(t.a, &gather);
	post(t.a, &imm);
	post(t.a, &inl);
	post(t.a, &(struct iw_wr){ .wr_id = 5, .op = IW_WR_READ, .nsge = 1, .rstag = BMEM, .rto = 300000,
				   .sge = { { .stag = AMEM, .to = 500000, .len = 123456 } } });
	post(t.a, &add);
	end_settle(t.a, t.b);
	assert_int_equal(t.a->ncq, 6);
	for (unsigned int i = 0; i < 6; i++)
		assert_true(t.a->cq[i].wr_id == i + 1 && t.a->cq[i].status == IW_WC_OK);
	assert_int_equal(t.b->ncq, 3);
	assert_int_equal(t.b->cq[0].len, 8000);
	assert_memory_equal(t.bmem, t.amem + 7, 8000);
	assert_memory_equal(t.bmem + 600000, t.amem + 10, 3);
	assert_memory_equal(t.bmem + 600003, t.amem + 100, 5001);
	assert_int_equal(t.bmem[605004], t.amem[20000]);
	assert_true(t.b->cq[1].has_imm && t.b->cq[1].se && !memcmp(t.b->cq[1].imm, imm.imm, 8));
	assert_int_equal(t.b->cq[2].len, 2003);
	assert_memory_equal(t.bmem + 2 * 8192, "abc", 3);
	assert_memory_equal(t.bmem + 2 * 8192 + 3, t.amem + 77, 2000);
	assert_memory_equal(t.amem + 500000, t.bmem + 300000, 123456);
	assert_true(t.a->cq[5].orig == word);
	word += 5;
	assert_memory_equal(t.bmem + 800000, &word, 8);
	assert_int_equal(t.a->qp.stat.tx_octets, t.b->qp.stat.rx_octets);
	assert_int_equal(t.a->qp.stat.tx_fpdu, t.b->qp.stat.rx_fpdu);
	counted(&t.a->qp.stat, &t.b->qp.stat);
	pair_free(&t);
}

static void operations(void **state)
{
	static const uint16_t mulpdu[] = { 128, 129, 131, 530, 1442, 8942, 64768 };
	struct iw_qp_param p = param_default;

	for (unsigned int i = 0; i < 7 * 4; i++) {
		p.mulpdu = mulpdu[i / 4];
		p.tx_markers = p.rx_markers = i & 1;
		p.crc = !(i & 2);
		all_operations(&p);
	}
}

/* ---- limits of Reads ---- */
static void ord_kept(void **state)
{
	struct iw_qp_param p = param_default;
	static uint8_t out[65536];
	struct pair t;
	size_t n;

	p.ord = 4;
	p.ird = 4;
	pair_new(&t, p, p);
	for (unsigned int i = 0; i < 100; i++) {
		struct iw_wr wr = wr_read(i, i * 64, 500000 + i * 100, 1 + i % 64);

		post(t.a, &wr);
	}
	n = end_drain(t.a, out, sizeof(out));
	assert_int_equal(count_op(out, n, IW_OP_READ_REQ), 4);
	end_feed(t.b, out, n);
	end_settle(t.a, t.b);
	assert_int_equal(t.a->ncq, 100);
	for (unsigned int i = 0; i < 100; i++) {
		assert_true(t.a->cq[i].wr_id == i && t.a->cq[i].status == IW_WC_OK && t.a->cq[i].len == 1 + i % 64);
		assert_memory_equal(t.amem + 500000 + i * 100, t.bmem + i * 64, 1 + i % 64);
	}
	/* an inbound slot is free as soon as the last FPDU of its Response was framed, whether TCP has it or not */
	assert_int_equal(t.b->qp.state, IW_QP_RTS);
	pair_free(&t);
}

static void no_ord(void **state)
{
	struct iw_qp_param p = param_default;
	struct iw_wr wr = wr_read(1, 0, 0, 4);
	struct end *e;

	p.ord = 0;
	e = end_new(&p);
	assert_int_equal(iw_qp_post_send(&e->qp, &wr), -EINVAL);
	end_free(e);
}

static void fence(void **state)
{
	struct iw_wr r = wr_read(1, 0, 500000, 4000), w = wr_write(2, 0, 900000, 4), w2 = wr_write(3, 0, 900100, 4);
	static uint8_t out[65536];
	struct pair t;
	size_t n;

	w2.flags = IW_WR_FENCE;
	pair_new(&t, param_default, param_default);
	post(t.a, &r);
	post(t.a, &w);
	post(t.a, &w2);
	n = end_drain(t.a, out, sizeof(out));
	assert_int_equal(count_op(out, n, IW_OP_WRITE), 1);
	end_feed(t.b, out, n);
	end_settle(t.a, t.b);
	assert_int_equal(t.a->ncq, 3);
	assert_memory_equal(t.bmem + 900100, t.amem, 4);
	pair_free(&t);
}

/* ---- order of completions ---- */
static void completions_in_order(void **state)
{
	struct iw_wr r = wr_read(1, 0, 500000, 4000), s = wr_send(2, AMEM, 0, 10), s2 = wr_send(3, AMEM, 0, 10);
	static uint8_t out[65536], back[65536];
	struct pair t;
	size_t n;

	s2.flags = IW_WR_QUIET;
	pair_new(&t, param_default, param_default);
	post_recvs(t.b, BMEM, 4, 64);
	post(t.a, &s);
	n = iw_qp_tx(&t.a->qp, &end_ops, t.a, out, sizeof(out), 0);
	assert_int_equal(t.a->ncq, 0);			/* the LLP does not have it (RDMAP-5.5-R14) */
	iw_qp_tx_done(&t.a->qp, &end_ops, t.a, n - 1);
	assert_int_equal(t.a->ncq, 0);
	iw_qp_tx_done(&t.a->qp, &end_ops, t.a, 1);
	assert_int_equal(t.a->ncq, 1);
	end_feed(t.b, out, n);
	post(t.a, &r);
	post(t.a, &s);
	post(t.a, &s2);
	n = end_drain(t.a, out, sizeof(out));
	assert_int_equal(t.a->ncq, 1);			/* held back by the Read (R15) */
	end_feed(t.b, out, n);
	assert_int_equal(t.b->ncq, 3);
	n = end_drain(t.b, back, sizeof(back));
	end_feed(t.a, back, n - 1);
	assert_int_equal(t.a->ncq, 1);			/* not before the Response is whole (R19) */
	end_feed(t.a, back + n - 1, 1);
	assert_int_equal(t.a->ncq, 3);			/* the quiet one is silent */
	assert_true(t.a->cq[1].wr_id == 1 && t.a->cq[2].wr_id == 2);
	assert_int_equal(iw_qp_sq_free(&t.a->qp), IW_QP_SQ);
	assert_int_equal(t.a->qp.sq_head, 0);		/* empty: back to the first page */
	pair_free(&t);
}

/* A Write and a Read of it back to back: the Response holds what was written (R12); so does a Send's handler (R10). */
static void write_then_read(void **state)
{
	struct iw_wr w = wr_write(1, 100, 0, 5000), r = wr_read(2, 0, 500000, 5000);
	struct pair t;

	pair_new(&t, param_default, param_default);
	post(t.a, &w);
	post(t.a, &r);
	end_settle(t.a, t.b);
	assert_memory_equal(t.amem + 500000, t.amem + 100, 5000);
	pair_free(&t);
}

/* Messages by their octets: 64, 256 and so on belong to those below. */
static void sizes(void **state)
{
	static const struct { uint32_t len; unsigned int bucket; } sent[] = {
		{ 0, 0 }, { 1, 0 }, { 64, 0 }, { 65, 1 }, { 256, 1 }, { 257, 2 }, { 1024, 2 }, { 1025, 3 }, { 4096, 3 }, { 4097, 4 }, { 16384, 4 }, { 16385, 5 },
		{ 65536, 5 }, { 65537, 6 }, { 262144, 6 }, { 262145, 7 }, { MEMSZ, 7 },
	};
	uint64_t want[IW_SIZES] = { 0 };
	struct pair t;

	static_assert(MEMSZ == 1u << 20, "the last that is no exception");
	pair_new(&t, param_default, param_default);
	for (size_t i = 0; i < sizeof(sent) / sizeof(*sent); i++) {
		struct iw_wr w = wr_write(i, 0, 0, sent[i].len);

		post(t.a, &w);
		end_settle(t.a, t.b);
		want[sent[i].bucket]++;
		assert_memory_equal(t.a->qp.stat.tx_size, want, sizeof(want));
	}
	pair_free(&t);
}

/* Responses and the send queue take turns, message by message. */
static void turns(void **state)
{
	struct iw_wr r = wr_read(1, 0, 500000, 3000);
	static uint8_t out[1 << 17];
	uint8_t want[] = { IW_OP_READ_RESP, IW_OP_SEND, IW_OP_READ_RESP, IW_OP_SEND, IW_OP_READ_RESP, IW_OP_SEND, IW_OP_SEND };
	unsigned int k = 0;
	struct pair t;
	size_t n;

	pair_new(&t, param_default, param_default);
	for (unsigned int i = 0; i < 3; i++)
		post(t.a, &r);
	n = end_drain(t.a, out, sizeof(out));
	end_feed(t.b, out, n);
	t.b->qp.tx_turn = 1;
	for (unsigned int i = 0; i < 4; i++) {
		struct iw_wr s = wr_send(i, BMEM, 0, 2000);

		post(t.b, &s);
	}
	n = end_drain(t.b, out, sizeof(out));
	for (size_t i = 0; i < n; i += iw_mpa_fpdu_len(iw_get16(out + i)))
		if (out[i + 2] & IW_DDP_L)
			assert_int_equal(out[i + 3] & 15, want[k++]);
		else
			assert_int_equal(out[i + 3] & 15, want[k]);
	assert_int_equal(k, 7);
	pair_free(&t);
}

/* Segments of two messages are never mixed: a Response waits for the end of the Send that is half out. */
static void not_mixed(void **state)
{
	struct iw_wr s = wr_send(1, BMEM, 0, 5000), s0 = wr_send(0, BMEM, 0, 5), r = wr_read(1, 0, 500000, 100);
	static uint8_t out[65536];
	struct pair t;
	size_t n;

	pair_new(&t, param_default, param_default);
	post(t.a, &(struct iw_wr){ .op = IW_WR_WRITE });
	end_move(t.a, t.b);
	post(t.b, &s0);
	end_drain(t.b, NULL, 0);
	post(t.b, &s);
	assert_true(iw_qp_tx(&t.b->qp, &end_ops, t.b, out, sizeof(out), 1) > 1000);
	post(t.a, &r);
	end_move(t.a, t.b);
	n = iw_qp_tx(&t.b->qp, &end_ops, t.b, out, sizeof(out), 0);
	assert_int_equal(count_op(out, n, IW_OP_SEND), 3);
	assert_int_equal(count_op(out, n, IW_OP_READ_RESP), 1);
	assert_int_equal(out[3] & 15, IW_OP_SEND);
	assert_int_equal(out[2 * 1448 + 3] & 15, IW_OP_SEND);
	pair_free(&t);
}

/* ---- startup ---- */
static void rtr(void **state)
{
	for (uint8_t kind = 1; kind <= 3; kind++) {
		struct iw_qp_param p = param_default, q = param_default;
		struct iw_wr s;
		struct pair t;

		p.rtr = kind;
		pair_new(&t, p, q);
		post_recvs(t.b, BMEM, 2, 64);
		post_recvs(t.a, AMEM, 1, 64);
		s = wr_send(9, BMEM, 0, 5);
		post(t.b, &s);
		assert_false(iw_qp_tx_pending(&t.b->qp));
		end_settle(t.a, t.b);
		assert_true(end_had(t.b, IW_QP_EV_FIRST_FPDU));
		assert_int_equal(t.a->ncq, 1);		/* the Send; nothing of the RTR */
		assert_int_equal(t.a->cq[0].op, IW_WR_RECV);
		assert_int_equal(t.b->ncq, kind == 3 ? 2 : 1);	/* an RTR Send eats a receive buffer */
		s = wr_send(10, AMEM, 0, 5);
		post(t.a, &s);
		end_settle(t.a, t.b);
		assert_int_equal(t.b->ncq, kind == 3 ? 3 : 2);
		pair_free(&t);
	}
}

static void start_checks(void **state)
{
	struct iw_qp *qp = malloc(sizeof(*qp));
	struct iw_qp_param p = param_default;
	struct iw_wr wr = wr_send(1, 1, 0, 0);

	iw_qp_init(qp);
	assert_int_equal(qp->version, IW_QP_VERSION);
	assert_int_equal(iw_qp_post_send(qp, &wr), -ENOTCONN);
	assert_int_equal(iw_qp_post_recv(qp, 1, &(struct iw_sge){ .len = 7 }), -EINVAL);
	assert_int_equal(iw_qp_post_recv(qp, 1, &(struct iw_sge){ .len = 8 }), 0);
	p.recv_min = 16;
	assert_int_equal(iw_qp_start(qp, &p), -EINVAL);	/* a buffer posted before is too small */
	p = param_default;
	p.mulpdu = 127;
	assert_int_equal(iw_qp_start(qp, &p), -EINVAL);
	p.mulpdu = 64769;
	assert_int_equal(iw_qp_start(qp, &p), -EINVAL);
	p = param_default;
	p.ird = IW_QP_IRD + 1;
	assert_int_equal(iw_qp_start(qp, &p), -EINVAL);
	p = param_default;
	p.initiator = 0;
	p.rtr = 1;
	assert_int_equal(iw_qp_start(qp, &p), -EINVAL);
	assert_int_equal(iw_qp_start(qp, &param_default), 0);
	assert_int_equal(iw_qp_start(qp, &param_default), -EINVAL);
	wr.nsge = 5;
	assert_int_equal(iw_qp_post_send(qp, &wr), -EINVAL);
	wr.nsge = 2;
	wr.sge[0].len = wr.sge[1].len = 1u << 31;
	assert_int_equal(iw_qp_post_send(qp, &wr), -EMSGSIZE);	/* DDP-5.2-02 */
	wr.sge[1].len--;
	assert_int_equal(iw_qp_post_send(qp, &wr), 0);
	wr.sge[0].len = wr.sge[1].len = 8;
	for (wr.op = IW_WR_READ; wr.op <= IW_WR_RECV; wr.op++)	/* a Read has one sink (RDMAP-5.2.1-03); no such work request at last */
		assert_int_equal(iw_qp_post_send(qp, &wr), -EINVAL);
	wr.nsge = 1;
	for (wr.op = IW_WR_IMM; wr.op <= IW_WR_RECV; wr.op++)
		assert_int_equal(iw_qp_post_send(qp, &wr), -EINVAL);
	wr = wr_write(1, 0, 0, 1);
	wr.flags = IW_WR_INLINE;
	assert_int_equal(iw_qp_post_send(qp, &wr), -EINVAL);
	wr = wr_send(1, 1, 0, 1);
	for (unsigned int i = 1; i < IW_QP_SQ; i++)
		assert_int_equal(iw_qp_post_send(qp, &wr), 0);
	assert_int_equal(iw_qp_post_send(qp, &wr), -EAGAIN);
	assert_int_equal(iw_qp_sq_free(qp), 0);
	for (unsigned int i = 1; i < IW_QP_RQ; i++)
		assert_int_equal(iw_qp_post_recv(qp, i, &(struct iw_sge){ .len = 8 }), 0);
	assert_int_equal(iw_qp_post_recv(qp, 0, &(struct iw_sge){ .len = 8 }), -EAGAIN);
	free(qp);
}

/* A bad first FPDU at a Responder: the Terminate alone. A Terminate of its own before any: nothing at all. */
static void responder_gate(void **state)
{
	struct iw_qp_param p = param_default;
	uint8_t bad[24] = { 0x00, 0x12, 0x41, 0x43 };
	struct iw_wr s = wr_send(1, BMEM, 0, 5);
	static uint8_t out[65536];
	struct pair t;
	size_t n;

	pair_new(&t, p, p);
	post(t.b, &s);
	end_feed(t.b, bad, sizeof(bad));
	n = end_drain(t.b, out, sizeof(out));
	assert_int_equal(count_op(out, n, IW_OP_TERMINATE), 1);
	assert_int_equal(n, 28);
	assert_false(end_had(t.b, IW_QP_EV_FIRST_FPDU));
	pair_free(&t);
	pair_new(&t, p, p);
	post(t.b, &s);
	iw_qp_terminate(&t.b->qp, &end_ops, t.b, 2, 0, 5);
	assert_int_equal(end_drain(t.b, out, sizeof(out)), 0);
	assert_int_equal(t.b->qp.state, IW_QP_CLOSING);
	assert_true(end_had(t.b, IW_QP_EV_TERM_SENT));
	assert_true(t.b->ncq == 1 && t.b->cq[0].status == IW_WC_FLUSH);
	pair_free(&t);
}

/* ---- sequence numbers and sizes ---- */
static void msn_wraps(void **state)
{
	struct pair t;

	pair_new(&t, param_default, param_default);
	post_recvs(t.b, BMEM, 4, 64);
	t.a->qp.tx_msn[0] = t.b->qp.rx_msn[0] = 0xfffffffe;
	t.a->qp.tx_msn[1] = t.b->qp.rx_msn[1] = 0xffffffff;
	for (unsigned int i = 0; i < 4; i++) {
		struct iw_wr s = wr_send(i, AMEM, i, 8), r = wr_read(i, i, 500000, 8);

		post(t.a, &s);
		post(t.a, &r);
	}
	end_settle(t.a, t.b);
	assert_int_equal(t.b->ncq, 4);
	assert_int_equal(t.a->ncq, 8);
	assert_int_equal(t.a->qp.tx_msn[0], 2);
	assert_int_equal(t.b->qp.state, IW_QP_RTS);
	pair_free(&t);
}

/* LLP-3-02: what was cut stays cut; what follows has the new size. */
static void mulpdu_follows(void **state)
{
	struct iw_wr w = wr_write(1, 0, 0, 10000);
	struct pair t;
	size_t n, m;

	pair_new(&t, param_default, param_default);
	post(t.a, &w);
	n = iw_qp_tx(&t.a->qp, &end_ops, t.a, t.a->out, IW_FPDU_MAX_MARKERS, 1);
	assert_int_equal(n, 1448);
	iw_qp_set_mulpdu(&t.a->qp, 530);
	iw_qp_tx_done(&t.a->qp, &end_ops, t.a, n);
	end_feed(t.b, t.a->out, n);
	m = iw_qp_tx(&t.a->qp, &end_ops, t.a, t.a->out, IW_FPDU_MAX_MARKERS, 1);
	assert_int_equal(m, 536);
	iw_qp_tx_done(&t.a->qp, &end_ops, t.a, m);
	end_feed(t.b, t.a->out, m);
	end_settle(t.a, t.b);
	assert_memory_equal(t.bmem, t.amem, 10000);
	iw_qp_set_mulpdu(&t.a->qp, 1);
	assert_int_equal(t.a->qp.param.mulpdu, 128);
	iw_qp_set_mulpdu(&t.a->qp, 65535);
	assert_int_equal(t.a->qp.param.mulpdu, 64768);
	pair_free(&t);
}

/* MPA-5.1-04: as many whole FPDUs at once as there are; with a budget, no more of them than it takes to reach it. */
static void batched(void **state)
{
	const uint32_t each = 2 + 14 + 16 + 4;
	struct iw_wr w = wr_write(1, 0, 0, 16);
	struct pair t;
	size_t n;

	pair_new(&t, param_default, param_default);
	for (int i = 0; i < 20; i++)
		post(t.a, &w);
	n = iw_qp_tx(&t.a->qp, &end_ops, t.a, t.a->out, IW_FPDU_MAX_MARKERS, 2 * each + 1);
	assert_int_equal(n, 3 * each);
	n += iw_qp_tx(&t.a->qp, &end_ops, t.a, t.a->out + n, IW_FPDU_MAX_MARKERS, 0);
	assert_int_equal(n, 20 * each);
	iw_qp_tx_done(&t.a->qp, &end_ops, t.a, n);
	end_feed(t.b, t.a->out, n);
	assert_int_equal(t.b->qp.stat.rx_write, 20);
	pair_free(&t);
}

/* Only whole FPDUs, within cap. */
static void cap_and_budget(void **state)
{
	struct iw_wr w = wr_write(1, 0, 0, 1000000);
	struct iw_qp_param p = param_default;
	struct pair t;
	size_t n;

	p.mulpdu = 64768;
	p.tx_markers = p.rx_markers = 1;
	pair_new(&t, p, p);
	post(t.a, &w);
	while ((n = iw_qp_tx(&t.a->qp, &end_ops, t.a, t.a->out, IW_FPDU_MAX_MARKERS, 0))) {
		assert_true(n <= IW_FPDU_MAX_MARKERS);
		iw_qp_tx_done(&t.a->qp, &end_ops, t.a, n);
		end_feed(t.b, t.a->out, n);
		assert_int_equal(t.b->nin, 0);
	}
	assert_memory_equal(t.bmem, t.amem, 1000000);
	assert_int_equal(t.a->qp.stat.tx_fpdu, (1000000 + 64753) / 64754);
	pair_free(&t);
}

/* ---- Markers ---- */
static void marker_tolerance(void **state)
{
	struct iw_qp_param p = no_crc();
	uint8_t out[4096];
	size_t n;
	struct iw_wr w = wr_write(1, 0, 0, 3000);
	struct pair t;

	p.mulpdu = 4000;
	p.tx_markers = p.rx_markers = 1;
	for (int k = 0; k < 3; k++) {
		pair_new(&t, p, p);
		post(t.a, &w);
		n = iw_qp_tx(&t.a->qp, &end_ops, t.a, out, sizeof(out), 0);
		out[1024] = 0xff;			/* reserved half: ignored (MPA-4.2-01) */
		if (k == 1)
			out[1024 + 3] |= 3;		/* low two bits: taken as zero (MPA-4.2-02) */
		if (k == 2)
			out[1024 + 3] ^= 4;
		end_feed(t.b, out, n);
		if (k < 2)
			assert_memory_equal(t.bmem, t.amem, 3000);
		else
			expect_term(t.b, 2, 0, 3);
		pair_free(&t);
	}
}

/* The reserved half of a Marker is ignored but for the CRC, which covers it (MPA-4.2-01). */
static void marker_in_the_crc(void **state)
{
	struct iw_qp_param p = param_default;
	struct iw_wr w = wr_write(1, 0, 0, 3000);
	uint8_t out[4096];
	struct pair t;
	size_t n;

	p.mulpdu = 4000;
	p.tx_markers = p.rx_markers = 1;
	for (int right = 0; right < 2; right++) {
		pair_new(&t, p, p);
		memset(t.bmem, 0, 3000);
		post(t.a, &w);
		n = iw_qp_tx(&t.a->qp, &end_ops, t.a, out, sizeof(out), 0);
		memset(out + 1024, 0xff, 2);
		if (right)
			iw_crc32c_put(out + n - 4, iw_crc32c(0, out, n - 4));
		end_feed(t.b, out, n);
		if (right) {
			assert_memory_equal(t.bmem, t.amem, 3000);
		} else {
			expect_term(t.b, 2, 0, 2);
			assert_int_equal(t.bmem[0] | t.bmem[2999], 0);
		}
		pair_free(&t);
	}
}

/* Positions beyond 2^32 (MPA-4.3-05). */
static void marker_positions(void **state)
{
	struct iw_qp_param p = param_default;
	struct pair t;

	p.tx_markers = p.rx_markers = 1;
	pair_new(&t, p, p);
	t.a->qp.tx_pos = t.a->qp.tx_acked = t.b->qp.rx_pos = (1ull << 32) - 700;
	for (unsigned int i = 0; i < 20; i++) {
		struct iw_wr w = wr_write(i, i * 1000, i * 1000, 1000);

		post(t.a, &w);
	}
	end_settle(t.a, t.b);
	assert_memory_equal(t.bmem, t.amem, 20000);
	assert_int_equal(t.a->ncq, 20);
	pair_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations), cmocka_unit_test(ord_kept), cmocka_unit_test(no_ord), cmocka_unit_test(fence),
		cmocka_unit_test(completions_in_order), cmocka_unit_test(write_then_read), cmocka_unit_test(sizes), cmocka_unit_test(turns),
		cmocka_unit_test(not_mixed), cmocka_unit_test(rtr), cmocka_unit_test(start_checks), cmocka_unit_test(responder_gate),
		cmocka_unit_test(msn_wraps), cmocka_unit_test(mulpdu_follows), cmocka_unit_test(cap_and_budget), cmocka_unit_test(batched),
		cmocka_unit_test(marker_tolerance), cmocka_unit_test(marker_in_the_crc), cmocka_unit_test(marker_positions),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("qp", tests, NULL, NULL);
}
