// SPDX-License-Identifier: MIT
/* Atomics between two queue pairs: order, alignment, and against local threads. */
#include "qp_pair.h"

#include <pthread.h>

static void atomic_chain(void **state)
{
	struct iw_qp_param p = param_default;
	uint64_t zero = 0;
	struct pair t;

	p.ird = p.ord = 32;
	pair_new(&t, p, p);
	memcpy(t.bmem, &zero, 8);
	for (unsigned int i = 0; i < 16; i++) {
		struct iw_wr add = { .wr_id = i, .op = IW_WR_FETCHADD, .rstag = BMEM, .add_swap = 1 }, r = wr_read(100 + i, 64, 0, 8);

		post(t.a, &add);
		post(t.a, &r);
	}
	end_settle(t.a, t.b);
	assert_int_equal(t.a->ncq, 32);
	for (unsigned int i = 0; i < 16; i++) {
		assert_true(t.a->cq[2 * i].wr_id == i && t.a->cq[2 * i].orig == i);
		assert_true(t.a->cq[2 * i + 1].wr_id == 100 + i);
	}
	pair_free(&t);
}

/* Alignment is of the address: a buffer with an odd base makes an aligned TO unaligned, and the other way round. */
static void atomic_alignment(void **state)
{
	static const struct {
		uint64_t base, to;
		bool ok;
	} c[] = { { 0x1000, 0x1008, false }, { 0x1001, 0x1008, true }, { 0x1001, 0x1010, true }, { 0x1001, 0x1009, false } };

	for (unsigned int i = 0; i < 4; i++) {
		struct iw_wr add = { .op = IW_WR_FETCHADD, .rstag = 0x777, .rto = c[i].to, .add_swap = 1 };
		uint8_t before[64];
		struct pair t;

		pair_new(&t, param_default, param_default);
		end_reg(t.b, 0x777, c[i].base, t.bmem + 1, 4096, IW_ACCESS_REMOTE_ATOMIC);
		memcpy(before, t.bmem, 64);
		post(t.a, &add);
		end_feed(t.b, t.a->out, iw_qp_tx(&t.a->qp, &end_ops, t.a, t.a->out, IW_FPDU_MAX_MARKERS, 0));
		if (c[i].ok) {
			assert_int_equal(t.b->qp.state, IW_QP_RTS);
		} else {
			expect_term(t.b, 0, 2, 7);
			assert_memory_equal(before, t.bmem, 64);
		}
		pair_free(&t);
	}
}

/* Alignment is looked at before bounds: a word that hangs over the end, aligned and not. */
static void atomic_at_the_end(void **state)
{
	for (unsigned int off = 0; off <= 4; off += 4) {
		struct iw_wr add = { .op = IW_WR_FETCHADD, .rstag = 0x777, .rto = 60 - off, .add_swap = 1 };
		struct pair t;

		pair_new(&t, param_default, param_default);
		end_reg(t.b, 0x777, 0, t.bmem, off ? 60 : 62, IW_ACCESS_REMOTE_ATOMIC);
		post(t.a, &add);
		end_feed(t.b, t.a->out, iw_qp_tx(&t.a->qp, &end_ops, t.a, t.a->out, IW_FPDU_MAX_MARKERS, 0));
		if (off)
			expect_term(t.b, 0, 1, 1);	/* TO 56 of 60 octets: aligned, out of bounds */
		else
			expect_term(t.b, 0, 2, 7);	/* TO 60 of 62: unaligned as well */
		pair_free(&t);
	}
}

static uint64_t shared_word;
#define ADDS 20000u

static void *adder(void *arg)
{
	for (unsigned int i = 0; i < ADDS; i++)
		__atomic_add_fetch(&shared_word, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* Atomic against a local thread as well (EXT-5.3-02). */
static void atomic_threads(void **state)
{
	struct iw_wr add = { .op = IW_WR_FETCHADD, .flags = IW_WR_QUIET, .rstag = 0x777, .add_swap = 1 };
	pthread_t th;
	struct pair t;

	pair_new(&t, param_default, param_default);
	shared_word = 0;
	end_reg(t.b, 0x777, 0, &shared_word, 8, IW_ACCESS_REMOTE_ATOMIC);
	assert_int_equal(pthread_create(&th, NULL, adder, NULL), 0);
	for (unsigned int i = 0; i < ADDS; i += 100) {
		for (unsigned int k = 0; k < 100; k++)
			post(t.a, &add);
		end_settle(t.a, t.b);
	}
	pthread_join(th, NULL);
	assert_int_equal(shared_word, 2 * ADDS);
	pair_free(&t);
}

/* The arithmetic bit by bit, as RFC 7306 5.1 tells it, against ours: each bit alone as operand and as mask, and some patterns. */
static uint64_t slow_add(uint64_t orig, uint64_t add, uint64_t mask)
{
	uint64_t sum = 0, carry = 0;

	for (unsigned int i = 0; i < 64; i++) {
		uint64_t bit = (orig >> i & 1) + (add >> i & 1) + carry;

		sum |= (bit & 1) << i;
		carry = mask >> i & 1 ? 0 : bit >> 1;
	}
	return sum;
}

static uint64_t slow_swap(uint64_t orig, uint64_t cmp, uint64_t mask, uint64_t swap)
{
	uint64_t out = 0;

	for (unsigned int i = 0; i < 64; i++) {
		if (mask >> i & 1 && (orig ^ cmp) >> i & 1)
			return orig;
		out |= (~mask >> i & 1 ? swap : orig) & 1ull << i;
	}
	return out;
}

static void every_bit(void **state)
{
	enum { N = 72 };
	uint64_t v[N] = { 0, ~0ull, 0x8000000080000000, 0x8080808080808080, 0x0123456789abcdef, 0x7fffffffffffffff, 0x5555555555555555, 10 };

	for (unsigned int i = 0; i < 64; i++)
		v[8 + i] = 1ull << i;
	for (unsigned int a = 0; a < N; a++)
		for (unsigned int b = 0; b < N; b++)
			for (unsigned int c = 0; c < N; c++) {
				assert_int_equal(iw_fetchadd(v[a], v[b], v[c]), slow_add(v[a], v[b], v[c]));
				assert_int_equal(iw_cmpswap(v[a], v[b], v[c], v[7], ~v[c]), slow_swap(v[a], v[b], v[c], v[7]));
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(atomic_chain), cmocka_unit_test(atomic_alignment), cmocka_unit_test(atomic_at_the_end), cmocka_unit_test(atomic_threads),
		cmocka_unit_test(every_bit),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("qp_atomic", tests, NULL, NULL);
}
