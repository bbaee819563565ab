// SPDX-License-Identifier: MIT
/* The fuzz target fed with damaged golden vectors: a short run of what libFuzzer does at length. IW_SEED, IW_RUNS. */
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include <cmocka.h>

#include "tests/fuzz/fpdu_fuzz.c"
#include "vec_util.h"

/* Octets that mean something in a header: lengths, opcodes, queues, STags' last octets, ends of ranges. */
static uint8_t spice(void)
{
	static const uint8_t s[] = { 0, 1, 2, 3, 4, 0x0f, 0x10, 0x40, 0x41, 0x42, 0x43, 0x44, 0x47, 0x48, 0x4a, 0x4b, 0x7f, 0x80, 0xc1, 0xff };

	return random() % 3 ? s[random() % (long)sizeof(s)] : (uint8_t)random();
}

static bool is_fpdu(const struct vec *v)
{
	return v->n >= 8 && (!strncmp(v->name, "fpdu.", 5) || !strncmp(v->name, "neg", 3) || !strncmp(v->name, "want", 4) ||
			     !strncmp(v->name, "seg.", 4) || !strncmp(v->name, "stream.", 7));
}

static size_t add(uint8_t *in, size_t n, const struct vec *v, bool raw)
{
	size_t k = raw ? v->n : 2 + (size_t)iw_get16(v->p);

	if (n + k > 16000 || k > v->n)
		return n;
	memcpy(in + n, v->p, k);
	return n + k;
}

static void damaged(void **state)
{
	const char *s = getenv("IW_SEED"), *r = getenv("IW_RUNS");
	unsigned int seed = s ? (unsigned int)strtoul(s, NULL, 0) : (unsigned int)time(NULL);
	unsigned int runs = r ? (unsigned int)strtoul(r, NULL, 0) : 60000;
	static uint8_t in[16384];

	printf("# IW_SEED=%u IW_RUNS=%u\n", seed, runs);
	fflush(stdout);
	for (unsigned int i = 0; i < runs; i++) {
		size_t n = 1, at;

		srandom(seed + i);
		in[0] = (uint8_t)(random() & (RAW | MARKERS | ASKER | DRAIN | (random() % 8 ? 0 : OCTETS)));
		for (long k = 1 + random() % 6; k;) {
			const struct vec *v = &vecs[random() % nvecs];

			if (is_fpdu(v)) {
				n = add(in, n, v, in[0] & RAW);
				k--;
			}
		}
		for (long k = random() % 5; k && n > 1; k--) {
			at = 1 + (size_t)random() % (n - 1);
			in[at] = spice();
		}
		LLVMFuzzerTestOneInput(in, n - (random() % 4 || n < 2 ? 0 : (size_t)random() % (n - 1)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(damaged) };
	int r;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	vec_load();
	r = cmocka_run_group_tests_name("qp_fuzz", tests, NULL, NULL);
	vec_unload();
	return r;
}
