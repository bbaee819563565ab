/* SPDX-License-Identifier: MIT */
/* STag values cannot be predicted, and come back late (SEC-R08): statistics over 10^6 of them. */
#include "verbs_util.h"

#include <math.h>

#define N	1000000u
#define WINDOW	65536u		/* an STag freed is not given again before so many others were */

static uint8_t mem[64];

static uint32_t *draw(void)
{
	struct rnic_pd *pd = rnic_pd_get(1000);
	uint32_t *v = malloc(N * sizeof(*v));

	assert_non_null(v);
	for (unsigned int i = 0; i < N; i++) {
		struct rnic_mr *mr = new_mr(pd, NULL, mem, sizeof(mem), IW_ACCESS_REMOTE_READ);

		v[i] = rnic_mr_stag(mr);
		rnic_mr_dereg(mr);
	}
	rnic_pd_put(pd);
	return v;
}

/*
 * Chi-square of n counts against the uniform distribution, as a normal deviate (Wilson and Hilferty). Values beyond 6
 * have a probability below 10^-8 on either side.
 */
static double deviate(const uint32_t *count, unsigned int n, double total)
{
	double x = 0, want = total / n, df = n - 1;

	for (unsigned int i = 0; i < n; i++)
		x += (count[i] - want) * (count[i] - want) / want;
	return (cbrt(x / df) - (1 - 2 / (9 * df))) / sqrt(2 / (9 * df));
}

static void check_uniform(const uint32_t *v, unsigned int shift, const char *what)
{
	static uint32_t count[65536];
	double d;

	memset(count, 0, sizeof(count));
	for (unsigned int i = 0; i < N; i++)
		count[v[i] >> shift & 0xffff]++;
	d = deviate(count, 65536, N);
	printf("# %s: %.2f\n", what, d);
	if (fabs(d) > 6)
		fail_msg("%s is not uniform: deviate %.2f", what, d);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void spread_and_independent(void **state)
{
	uint32_t *v = draw(), *d = malloc(N * sizeof(*d)), same = 0;
	uint32_t ones[32] = { 0 };

	check_uniform(v, 16, "high 16 bits");
	check_uniform(v, 8, "middle 16 bits");
	check_uniform(v, 0, "low 16 bits, with the key octet");
	/* neighbours: their difference and their XOR say nothing */
	for (unsigned int i = 0; i < N; i++)
		d[i] = v[(i + 1) % N] - v[i];
	check_uniform(d, 16, "differences, high bits");
	check_uniform(d, 0, "differences, low bits");
	for (unsigned int i = 0; i < N; i++)
		d[i] = v[(i + 1) % N] ^ v[i];
	check_uniform(d, 16, "XOR, high bits");
	check_uniform(d, 0, "XOR, low bits");
	for (unsigned int i = 0; i < N; i++) {
		for (unsigned int b = 0; b < 32; b++)
			ones[b] += d[i] >> b & 1;
	}
	for (unsigned int b = 0; b < 32; b++)	/* 6 sigma of N/2 */
		assert_true(fabs(ones[b] - N / 2.0) < 6 * sqrt(N / 4.0));
	/* as many repeats in all as chance has it (N^2 / 2^33 = 116), save those within the window */
	memcpy(d, v, N * sizeof(*d));
	qsort(d, N, sizeof(*d), by_value);
	for (unsigned int i = 1; i < N; i++)
		same += d[i] == d[i - 1];
	printf("# repeats: %u\n", same);
	assert_true(same < 116 + 6 * 11);
	assert_int_not_equal(d[0], 0);
	assert_int_not_equal(d[N - 1], UINT32_MAX);
	free(v);
	free(d);
}

struct at { uint32_t stag, when; };

static int by_stag(const void *a, const void *b)
{
	const struct at *x = a, *y = b;

	if (x->stag != y->stag)
		return x->stag < y->stag ? -1 : 1;
	return x->when < y->when ? -1 : x->when > y->when;
}

static void no_repeat_in_the_window(void **state)
{
	uint32_t *v = draw(), nearest = UINT32_MAX;
	struct at *a = malloc(N * sizeof(*a));

	for (unsigned int i = 0; i < N; i++)
		a[i] = (struct at){ v[i], i };
	qsort(a, N, sizeof(*a), by_stag);
	for (unsigned int i = 1; i < N; i++) {
		if (a[i].stag == a[i - 1].stag && a[i].when - a[i - 1].when < nearest)
			nearest = a[i].when - a[i - 1].when;
	}
	printf("# nearest repeat after %u others\n", nearest);
	assert_true(nearest > WINDOW);
	free(a);
	free(v);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(spread_and_independent), cmocka_unit_test(no_repeat_in_the_window) };

	conf_default(&conf);
	prm_strict = false;
	log_init(LOG_CRIT, 1);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
