// SPDX-License-Identifier: MIT
/* What has arrived and is not delivered does not exist for the ring stream; and a short run of its fuzz target. IW_SEED, IW_RUNS. */
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#include "tests/fuzz/rs_fuzz.c"

/* Worked as the daemon does, or on its map (proto/end.h) as the library does. */
static void fresh(void **state)
{
	static const uint8_t params[3] = { 31, 100, 8 };
	struct input in = { params, sizeof(params) };

	setup(&in);
	drain();
	if (*state)
		hand_over(true);
	assert_int_equal(mapped(), !!*state);
}

static uint32_t readable(void)
{
	uint32_t stag, n;
	uint64_t to;

	n = iw_rs_rx_peek(RS, &stag, &to);
	return n;
}

/* RDMAP-5.5-R05: junk in the ring, before and behind what was announced, and while it is read (security.md R8). */
static void ring_up_to_the_announced_position(void **state)
{
	uint8_t junk[4096], good[100], w[8];
	uint32_t stag, n;
	uint64_t to;

	fresh(state);
	memset(junk, 0xdb, sizeof(junk));
	for (uint64_t at = 0; at < 50 * 100; at += 100) {
		tagged(IW_OP_WRITE, true, RX, RX_TO + at, junk, sizeof(junk));
		drain();
		assert_int_equal(readable(), 0);
		for (unsigned int i = 0; i < 100; i++)
			good[i] = (uint8_t)(at / 100 + i);
		tagged(IW_OP_WRITE, true, RX, RX_TO + at, good, 100);
		assert_int_equal(readable(), 0);
		tagged(IW_OP_WRITE, false, RX, RX_TO + at + 100, junk, 1000);
		iw_put64(w, at + 100);		/* DATA */
		untagged(IW_OP_IMM, 0, 0, w, 8);
		tagged(IW_OP_WRITE, true, RX, RX_TO + at + 100, junk, 1000);
		drain();
		n = iw_rs_rx_peek(RS, &stag, &to);
		assert_int_equal(n, 100);
		assert_memory_equal(local(stag, to, n), good, 100);
		iw_rs_rx_consumed(RS, 100);
		assert_int_equal(readable(), 0);
	}
	assert_false(RS->dead);
}

/* RDMAP-5.5-R04: a Send in pieces says nothing before its last piece, whatever the first ones look like. */
static void send_before_its_last_segment(void **state)
{
	uint8_t f[256] = { 0 }, body[40];
	struct iw_rs before;

	fresh(state);
	iw_put64(body, 1ull << 60 | 32);	/* INLINE of 32 octets */
	memset(body + 8, 'x', 32);
	before = *RS;
	for (uint32_t mo = 0; mo < 40; mo += 8) {
		bool last = mo == 32;

		f[2] = last ? 0x41 : 0x01;
		f[3] = 0x40 | IW_OP_SEND;
		iw_put32(f + 8, 0);
		iw_put32(f + 12, z.msn[0]);
		iw_put32(f + 16, mo);
		memcpy(f + 20, body + mo, 8);
		give(f, 18 + 8);
		if (last)
			break;
		drain();
		assert_int_equal(readable(), 0);
		assert_memory_equal(&before, RS, sizeof(before));
	}
	drain();
	assert_int_equal(readable(), 32);
	assert_false(RS->dead);
}

static void random_programs(void **state)
{
	const char *s = getenv("IW_SEED"), *r = getenv("IW_RUNS");
	unsigned int seed = s ? (unsigned int)strtoul(s, NULL, 0) : (unsigned int)time(NULL);
	unsigned int runs = r ? (unsigned int)strtoul(r, NULL, 0) : 5000;
	static uint8_t in[1024];

	printf("# IW_SEED=%u IW_RUNS=%u\n", seed, runs);
	fflush(stdout);
	for (unsigned int i = 0; i < runs; i++) {
		size_t n;

		srandom(seed + i);
		n = 4 + (size_t)random() % (sizeof(in) - 4);
		for (size_t k = 0; k < n; k++)
			in[k] = random() % 3 ? (uint8_t)(random() & 0x8b) : (uint8_t)random();
		LLVMFuzzerTestOneInput(in, n);
	}
}

int main(void)
{
	static bool on_map = true;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ring_up_to_the_announced_position), cmocka_unit_test(send_before_its_last_segment),
		{ "ring_mapped", ring_up_to_the_announced_position, NULL, NULL, &on_map },
		{ "send_mapped", send_before_its_last_segment, NULL, NULL, &on_map }, cmocka_unit_test(random_programs),
	};
	int ret;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	ret = cmocka_run_group_tests_name("rs_undelivered", tests, NULL, NULL);
	free(z.tx);
	free(z.own.f);
	free(z.own.s);
	free(z.own.rx_ring);
	free(z.own.rd);
	free(z.own.rq);
	free(z.map);
	return ret;
}
