// SPDX-License-Identifier: MIT
/* Ordering, delivery and completion: the rules of RDMAP 5.5 and of its extensions that two queue pairs can show. */
#include "qp_pair.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

/* ---- messages arrive in order, once, with everything before them ---- */
static unsigned int seen;
static struct pair *watched;
static bool by_imm;

/* The handler of a Send or Immediate Data finds the Write before it in place (RDMAP-5.5-R10, EXT-6.4-01) and comes in its turn. */
static void check_pattern(void *ctx, const struct iw_cqe *c)
{
	struct end *e = ctx;
	uint32_t n;

	if (c->op != IW_WR_RECV || c->status != IW_WC_OK)
		return;
	if (by_imm) {
		assert_true(c->has_imm);
		memcpy(&n, c->imm, 4);
	} else {
		memcpy(&n, watched->bmem + 900000 + (c->wr_id % 64) * 64, 4);
	}
	assert_int_equal(n, seen);
	for (unsigned int i = 0; i < 64; i += 4) {
		uint32_t got;

		memcpy(&got, watched->bmem + (seen % 100) * 64 + i, 4);
		assert_int_equal(got, seen);
	}
	seen++;
	assert_int_equal(iw_qp_post_recv(&e->qp, c->wr_id, &(struct iw_sge){ .stag = BMEM, .to = 900000 + (c->wr_id % 64) * 64, .len = 64 }), 0);
}

static void numbered(bool imm)
{
	struct iw_qp_ops ops = end_ops;
	struct pair t;

	by_imm = imm;
	ops.complete = check_pattern;
	pair_new(&t, no_crc(), no_crc());
	watched = &t;
	seen = 0;
	for (unsigned int i = 0; i < 64; i++)
		assert_int_equal(iw_qp_post_recv(&t.b->qp, i, &(struct iw_sge){ .stag = BMEM, .to = 900000 + i * 64, .len = 64 }), 0);
	for (uint32_t i = 0; i < 100000; i++) {
		struct iw_wr w = wr_write(1, 0, (i % 100) * 64, 64), s = wr_send(2, AMEM, 0, 4);
		size_t n;

		for (unsigned int k = 0; k < 64; k += 4)
			memcpy(t.amem + k, &i, 4);
		if (imm) {
			s = (struct iw_wr){ .op = IW_WR_IMM, .flags = IW_WR_SE };
			memcpy(s.imm, &i, 4);
		}
		w.flags |= IW_WR_QUIET;
		s.flags |= IW_WR_QUIET;
		post(t.a, &w);
		post(t.a, &s);
		n = iw_qp_tx(&t.a->qp, &end_ops, t.a, t.a->out, IW_FPDU_MAX_MARKERS, 0);
		iw_qp_tx_done(&t.a->qp, &end_ops, t.a, n);
		assert_int_equal(iw_qp_rx(&t.b->qp, &ops, t.b, t.a->out, n), n);
	}
	assert_int_equal(seen, 100000);
	pair_free(&t);
}

static void sends_find_writes(void **state)
{
	numbered(false);
}

static void immediates_find_writes(void **state)
{
	numbered(true);
}

/* ---- silence: good Writes and the Reads of others are none of the ULP's business ---- */
static void good_writes_are_silent(void **state)
{
	struct pair t;

	pair_new(&t, param_default, param_default);
	post_recvs(t.b, BMEM, 1, 64);
	for (unsigned int i = 0; i < 1000; i++) {
		struct iw_wr w = wr_write(i, 0, 4096, 16);

		post(t.a, &w);
		end_settle(t.a, t.b);
	}
	assert_int_equal(t.b->qp.stat.rx_write, 1000);
	assert_int_equal(t.b->ncq, 0);
	assert_int_equal(t.b->nev, 1);		/* FIRST_FPDU */
	pair_free(&t);
}

static void good_reads_are_silent(void **state)
{
	struct pair t;

	pair_new(&t, param_default, param_default);
	post_recvs(t.b, BMEM, 1, 64);
	for (unsigned int i = 0; i < 1000; i++) {
		struct iw_wr r = wr_read(i, 0, 4096, i % 3 * 100);

		post(t.a, &r);
		end_settle(t.a, t.b);
	}
	assert_int_equal(t.b->qp.stat.rx_read, 1000);
	assert_true(t.a->ncq == 1000 && t.b->ncq == 0 && t.b->nev == 1);
	pair_free(&t);
}

/* ---- placement is in the order of the wire: our stronger rule than R03 ---- */
static void last_write_wins(void **state)
{
	struct pair t;

	pair_new(&t, param_default, param_default);
	for (unsigned int i = 0; i < 50; i++) {
		struct iw_wr w = wr_write(i, i * 100, 5000 + i % 7, 64);

		post(t.a, &w);
	}
	end_settle(t.a, t.b);
	assert_memory_equal(t.bmem + 5000 + 49 % 7, t.amem + 4900, 64);
	pair_free(&t);
}

/* ---- Reads ---- */
static void many_reads_in_order(void **state)
{
	static uint8_t out[1 << 16];
	struct iw_qp_param p = param_default;
	unsigned int k = 0;
	struct pair t;
	size_t n;

	p.ird = p.ord = 16;
	pair_new(&t, p, p);
	for (unsigned int i = 0; i < 16; i++) {
		struct iw_wr r = wr_read(i, i * 4096, 400000 + i * 8192, (i * 1237) % 4001);

		post(t.a, &r);
	}
	end_move(t.a, t.b);
	n = end_drain(t.b, out, sizeof(out));
	for (size_t i = 0; i < n; i += iw_mpa_fpdu_len(iw_get16(out + i))) {
		assert_int_equal(out[i + 3] & 15, IW_OP_READ_RESP);
		if (k * 1237 % 4001)
			assert_int_equal((iw_get64(out + i + 8) - 400000) / 8192, k);
		k += !!(out[i + 2] & 0x40);
	}
	assert_int_equal(k, 16);		/* one Response each (RDMAP-5.2-01) */
	end_feed(t.a, out, n);
	assert_int_equal(t.a->ncq, 16);
	for (unsigned int i = 0; i < 16; i++) {
		assert_true(t.a->cq[i].wr_id == i && t.a->cq[i].status == IW_WC_OK && t.a->cq[i].len == i * 1237 % 4001);
		assert_memory_equal(t.amem + 400000 + i * 8192, t.bmem + i * 4096, i * 1237 % 4001);
	}
	pair_free(&t);
}

/* A Write, then a Read of it, in one piece: the Response holds what was written. A zero-length Read is a fence as well (R12). */
static void read_sees_the_write(void **state)
{
	struct pair t;

	pair_new(&t, param_default, param_default);
	for (unsigned int i = 0; i < 500; i++) {
		struct iw_wr w = wr_write(1, i * 16, 7000, 1 + i * 7), r = wr_read(2, 7000, 500000, 1 + i * 7), z = wr_read(3, 0, 0, 0);

		post(t.a, &w);
		post(t.a, i % 2 ? &z : &r);
		end_settle(t.a, t.b);
		assert_memory_equal(i % 2 ? t.bmem + 7000 : t.amem + 500000, t.amem + i * 16, 1 + i * 7);
		assert_int_equal(t.a->cq[t.a->ncq - 1].status, IW_WC_OK);
	}
	pair_free(&t);
}

/* The source is not looked at before the Request is whole (R17, EXT-5.4-02), nor the word of an Atomic. */
static void request_cut_in_two(void **state)
{
	struct iw_wr r = wr_read(1, 800, 500000, 8), add = { .wr_id = 2, .op = IW_WR_FETCHADD, .rstag = BMEM, .rto = 808, .add_swap = 1 };
	uint64_t before = 111, word = 222;
	uint8_t out[256];
	struct pair t;
	size_t n;

	pair_new(&t, param_default, param_default);
	memcpy(t.bmem + 800, &before, 8);
	memcpy(t.bmem + 808, &before, 8);
	post(t.a, &r);
	post(t.a, &add);
	n = end_drain(t.a, out, sizeof(out));
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(t.b->qp.stat.rx_read, i >= 52);
		if (i == 51)
			memcpy(t.bmem + 800, &word, 8);
		if (i == n - 1)
			memcpy(t.bmem + 808, &word, 8);
		end_feed(t.b, out + i, 1);
	}
	end_settle(t.a, t.b);
	assert_memory_equal(t.amem + 500000, &word, 8);
	assert_true(t.a->ncq == 2 && t.a->cq[1].orig == 222);
	memcpy(&word, t.bmem + 808, 8);
	assert_int_equal(word, 223);
	pair_free(&t);
}

/* Our send side is stuck with a Read to be answered: a Send behind the Request is delivered all the same (R18, EXT-5.4-03). */
static void sends_pass_waiting_reads(void **state)
{
	struct iw_wr r = wr_read(1, 0, 500000, 100), add = { .op = IW_WR_FETCHADD, .rstag = BMEM }, s = wr_send(2, AMEM, 0, 5);
	struct pair t;

	pair_new(&t, param_default, param_default);
	post_recvs(t.b, BMEM, 1, 64);
	post(t.a, &r);
	post(t.a, &add);
	post(t.a, &s);
	end_move(t.a, t.b);
	assert_true(iw_qp_tx_pending(&t.b->qp));
	assert_true(t.b->ncq == 1 && t.b->cq[0].len == 5);
	pair_free(&t);
}

/* A slot of the inbound limit is free when the peer has the whole Response, whatever TCP says (RDMAP-5.2.2-02, EXT-5.2.2-02). */
static void slot_free_at_once(void **state)
{
	struct iw_qp_param p = param_default, q = param_default;
	static uint8_t out[65536];
	struct pair t;
	size_t n, k;

	p.ord = 8;		/* the peer of this test may ask for more than it was granted; it takes care itself */
	q.ird = 3;
	pair_new(&t, p, q);
	for (unsigned int i = 0; i < 3; i++) {
		struct iw_wr r = wr_read(i, 0, 500000, 3000), add = { .wr_id = i, .op = IW_WR_FETCHADD, .rstag = BMEM };

		post(t.a, i == 1 ? &add : &r);
	}
	end_move(t.a, t.b);
	for (unsigned int i = 0; i < 50; i++) {
		struct iw_wr r = wr_read(3, 0, 600000, 3000);

		n = 0;
		do {	/* until the last FPDU of one Response was made; TCP has accepted nothing yet */
			k = iw_qp_tx(&t.b->qp, &end_ops, t.b, out + n, sizeof(out) - n, 1);
			n += k;
		} while (k && !(out[n - k + 2] & 0x40));
		end_feed(t.a, out, n);
		post(t.a, &r);
		end_move(t.a, t.b);
		assert_int_equal(t.b->qp.state, IW_QP_RTS);
	}
	pair_free(&t);
}

/* One more than the limit, Reads and Atomics counted together: no buffer on QN 1. */
static void one_too_many(void **state)
{
	for (unsigned int kind = 0; kind < 2; kind++) {
		struct iw_qp_param p = param_default, q = param_default;
		struct pair t;

		q.ird = 4;
		pair_new(&t, p, q);
		for (unsigned int i = 0; i < 5; i++) {
			struct iw_wr r = wr_read(i, 0, 500000, 8), add = { .wr_id = i, .op = IW_WR_FETCHADD, .rstag = BMEM };

			post(t.a, i % 2 == kind ? &add : &r);
		}
		end_move(t.a, t.b);
		expect_term(t.b, 1, 2, 2);
		assert_int_equal(t.b->qp.stat.rx_read + t.b->qp.stat.rx_atomic, 4);
		pair_free(&t);
	}
}

/* Outstanding Reads and Atomics together never exceed ORD. */
static void ord_counts_both(void **state)
{
	struct iw_qp_param p = param_default;
	static uint8_t out[65536];
	struct pair t;
	size_t n;

	p.ord = p.ird = 5;
	pair_new(&t, p, p);
	for (unsigned int i = 0; i < 40; i++) {
		struct iw_wr r = wr_read(i, 0, 500000, 8), add = { .wr_id = i, .op = IW_WR_CMPSWAP, .rstag = BMEM };

		post(t.a, i % 3 ? &add : &r);
	}
	n = end_drain(t.a, out, sizeof(out));
	assert_int_equal(count_op(out, n, IW_OP_READ_REQ) + count_op(out, n, IW_OP_ATOMIC_REQ), 5);
	/* one run of MSNs on QN 1 (EXT-5.2.1-02) */
	for (size_t i = 0, k = 1; i < n; i += iw_mpa_fpdu_len(iw_get16(out + i)), k++)
		assert_true(iw_get32(out + i + 8) == 1 && iw_get32(out + i + 12) == k);
	end_feed(t.b, out, n);
	end_settle(t.a, t.b);
	assert_int_equal(t.a->ncq, 40);
	pair_free(&t);
}

/* Ten Atomics in a row: Responses on QN 3 with MSN 1 to 10, identifiers as in the Requests. */
static void atomic_responses_count(void **state)
{
	struct iw_qp_param p = param_default;
	static uint8_t req[4096], out[4096];
	struct pair t;
	size_t n, i = 0;

	p.ird = p.ord = 16;
	pair_new(&t, p, p);
	for (unsigned int k = 0; k < 10; k++) {
		struct iw_wr add = { .wr_id = k, .op = IW_WR_FETCHADD, .rstag = BMEM, .add_swap = 1 };

		post(t.a, &add);
	}
	end_feed(t.b, req, end_drain(t.a, req, sizeof(req)));
	n = end_drain(t.b, out, sizeof(out));
	assert_int_equal(count_op(out, n, IW_OP_ATOMIC_RESP), 10);
	for (unsigned int k = 0; k < 10; k++, i += iw_mpa_fpdu_len(iw_get16(out + i))) {
		assert_true(iw_get16(out + i) == 30 && iw_get32(out + i + 8) == 3 && iw_get32(out + i + 12) == k + 1);
		assert_int_equal(iw_get32(out + i + 20), iw_get32(req + k * 76 + 24));
	}
	pair_free(&t);
}

/* ---- Atomics of eight streams, each on a thread of its own, on one word (EXT-5.3-01) ---- */
#define STREAMS	8u
#define TIMES	100000u
static pthread_barrier_t together;
static uint64_t the_word __attribute__((aligned(64)));

static void *adds(void *arg)
{
	struct pair *t = arg;

	pthread_barrier_wait(&together);
	for (unsigned int i = 0; i < TIMES; i++) {
		struct iw_wr add = { .op = IW_WR_FETCHADD, .flags = IW_WR_QUIET, .rstag = 0x777, .add_swap = 1 };

		post(t->a, &add);
		if (i % 8 == 7)
			end_settle(t->a, t->b);
	}
	return NULL;
}

static void *swaps(void *arg)
{
	struct pair *t = arg;
	uint64_t guess = 0;

	pthread_barrier_wait(&together);
	for (unsigned int done = 0; done < TIMES / 10;) {
		struct iw_wr cas = { .op = IW_WR_CMPSWAP, .rstag = 0x777, .compare = guess, .compare_mask = UINT64_MAX,
				     .add_swap = guess + 1, .add_swap_mask = UINT64_MAX };

		post(t->a, &cas);
		end_settle(t->a, t->b);
		assert_int_equal(t->a->ncq, 1);
		done += t->a->cq[0].orig == guess;
		guess = t->a->cq[0].orig == guess ? guess + 1 : t->a->cq[0].orig;
		t->a->ncq = 0;
	}
	return NULL;
}

static void eight_streams_one_word(void **state)
{
	for (int kind = 0; kind < 2; kind++) {
		struct pair t[STREAMS];
		pthread_t th[STREAMS];

		the_word = 0;
		pthread_barrier_init(&together, NULL, STREAMS);
		for (unsigned int i = 0; i < STREAMS; i++) {
			pair_new(&t[i], no_crc(), no_crc());
			end_reg(t[i].b, 0x777, 0, &the_word, 8, IW_ACCESS_REMOTE_ATOMIC);
		}
		for (unsigned int i = 0; i < STREAMS; i++) {
			assert_int_equal(pthread_create(&th[i], NULL, kind ? swaps : adds, &t[i]), 0);
		}
		for (unsigned int i = 0; i < STREAMS; i++) {
			pthread_join(th[i], NULL);
			pair_free(&t[i]);
		}
		pthread_barrier_destroy(&together);
		assert_true(the_word == (kind ? STREAMS * (TIMES / 10) : STREAMS * TIMES));
	}
}

/* ---- an application that changes buffers which are under way (R07, R08): its data is undefined, everything else is not ---- */
static uint8_t scribbled[1 << 16];
static bool stop;

static void *scribbler(void *arg)
{
	for (uint32_t x = 1; !__atomic_load_n(&stop, __ATOMIC_RELAXED);) {
		x = x * 1664525 + 1013904223;
		__atomic_store_n(&scribbled[x >> 16], (uint8_t)x, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* k: 0 what is sent, 1 what is received into and written to. CRCs are over what is on the wire, so none is ever wrong. */
static void scribble(int k)
{
	struct pair t;
	pthread_t th;

#ifdef __SANITIZE_THREAD__
	skip();		/* the race is the point */
#endif
	pair_new(&t, param_default, param_default);
	end_reg(k ? t.b : t.a, 0x777, 0, scribbled, sizeof(scribbled), 63);
	stop = false;
	assert_int_equal(pthread_create(&th, NULL, scribbler, NULL), 0);
	for (unsigned int i = 0; i < 300; i++) {
		struct iw_wr w = wr_write(1, 0, 0, 60000), s = wr_send(2, k ? AMEM : 0x777, 0, 30000);
		struct iw_wr r = { .wr_id = 3, .op = IW_WR_READ, .nsge = 1, .rstag = k ? 0x777 : BMEM,
				   .sge = { { .stag = k ? AMEM : 0x777, .len = 60000 } } };

		if (k)
			w.rstag = 0x777;
		else
			w.sge[0].stag = 0x777;
		assert_int_equal(iw_qp_post_recv(&t.b->qp, i, &(struct iw_sge){ .stag = k ? 0x777 : BMEM, .len = 30000 }), 0);
		post(t.a, &w);
		post(t.a, &s);
		post(t.a, &r);
		end_settle(t.a, t.b);
		assert_true(t.a->ncq == 3 * (i + 1) && t.b->ncq == i + 1);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(th, NULL);
	assert_true(t.a->qp.state == IW_QP_RTS && t.b->qp.state == IW_QP_RTS);
	pair_free(&t);
}

static void scribbled_source(void **state)
{
	scribble(0);
}

static void scribbled_sink(void **state)
{
	scribble(1);
}

/* ---- large ---- */
#define HUGE_LEN (100u << 20)

/* 100 MiB by Write, Read and Send: every octet (DDP-5.2-03). */
static void hundred_mebioctets(void **state)
{
	struct iw_qp_param p = no_crc();
	uint8_t *a = mmap(NULL, HUGE_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *b = mmap(NULL, HUGE_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(a != MAP_FAILED && b != MAP_FAILED);
	for (size_t i = 0; i < HUGE_LEN; i += 8)
		*(uint64_t *)(a + i) = (i + 1) * 0x9e3779b97f4a7c15ull;
	p.mulpdu = 64768;
	for (int op = 0; op < 3; op++) {
		struct iw_wr wr = { .op = op == 0 ? IW_WR_WRITE : op == 1 ? IW_WR_READ : IW_WR_SEND, .nsge = 1, .rstag = 0x888,
				    .sge = { { .stag = 0x777, .len = HUGE_LEN } } };
		struct pair t;

		pair_new(&t, p, p);
		end_reg(t.a, 0x777, 0, op == 1 ? b : a, HUGE_LEN, 63);
		end_reg(t.b, 0x888, 0, op == 1 ? a : b, HUGE_LEN, 63);
		assert_int_equal(iw_qp_post_recv(&t.b->qp, 1, &(struct iw_sge){ .stag = 0x888, .len = HUGE_LEN }), 0);
		memset(b, 0, HUGE_LEN);
		post(t.a, &wr);
		end_settle(t.a, t.b);
		assert_true(t.a->ncq == 1 && t.a->cq[0].status == IW_WC_OK && t.a->cq[0].len == HUGE_LEN);
		assert_int_equal(memcmp(a, b, HUGE_LEN), 0);
		if (op == 2)
			assert_true(t.b->ncq == 1 && t.b->cq[0].len == HUGE_LEN);	/* DDP-5.4-02 */
		pair_free(&t);
	}
	munmap(a, HUGE_LEN);
	munmap(b, HUGE_LEN);
}

/* A Read of 2^32 - 1 octets at odd places (RDMAP-4.4-03): every TO leads to the same 128 KiB. */
static uint8_t *scratch;
static uint64_t touched;

static enum iw_access_err any_access(void *ctx, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	assert_true(to >= 12345 && len <= 0xffffffffull && to - 12345 <= 0xffffffffull - len);
	*ptr = scratch;
	if (right == IW_ACCESS_READ_SINK && len <= 65536) {
		assert_true(to - 12345 == touched);
		touched += len;
	}
	return IW_ACC_OK;
}

static void largest_read(void **state)
{
	struct iw_wr r = { .op = IW_WR_READ, .nsge = 1, .rstag = 2, .rto = 12345, .sge = { { .stag = 1, .to = 12345, .len = UINT32_MAX } } };
	struct iw_qp_ops ops = end_ops;
	struct iw_qp_param p = no_crc();
	struct pair t;
	size_t n, m;

	scratch = calloc(1, 128 << 10);
	touched = 0;
	ops.access = any_access;
	p.mulpdu = 64768;
	pair_new(&t, p, p);
	post(t.a, &r);
	do {
		n = iw_qp_tx(&t.a->qp, &ops, t.a, t.a->out, IW_FPDU_MAX_MARKERS, 0);
		iw_qp_tx_done(&t.a->qp, &ops, t.a, n);
		assert_int_equal(iw_qp_rx(&t.b->qp, &ops, t.b, t.a->out, n), n);
		m = iw_qp_tx(&t.b->qp, &ops, t.b, t.b->out, IW_FPDU_MAX_MARKERS, 0);
		iw_qp_tx_done(&t.b->qp, &ops, t.b, m);
		assert_int_equal(iw_qp_rx(&t.a->qp, &ops, t.a, t.b->out, m), m);
	} while (n || m);
	assert_true(t.a->ncq == 1 && t.a->cq[0].status == IW_WC_OK && t.a->cq[0].len == UINT32_MAX);
	assert_true(touched == UINT32_MAX);
	pair_free(&t);
	free(scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends_find_writes), cmocka_unit_test(immediates_find_writes), cmocka_unit_test(good_writes_are_silent),
		cmocka_unit_test(good_reads_are_silent), cmocka_unit_test(last_write_wins), cmocka_unit_test(many_reads_in_order),
		cmocka_unit_test(read_sees_the_write), cmocka_unit_test(request_cut_in_two), cmocka_unit_test(sends_pass_waiting_reads),
		cmocka_unit_test(slot_free_at_once), cmocka_unit_test(one_too_many), cmocka_unit_test(ord_counts_both),
		cmocka_unit_test(atomic_responses_count), cmocka_unit_test(eight_streams_one_word), cmocka_unit_test(scribbled_source),
		cmocka_unit_test(scribbled_sink), cmocka_unit_test(hundred_mebioctets),
		cmocka_unit_test(largest_read),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("qp_order", tests, NULL, NULL);
}
