/* SPDX-License-Identifier: MIT */
/* Each of the 65536 values of the first two octets of a ULPDU (security.md R24): nothing but what may be written changes, nothing crashes. */
#include "verbs_util.h"

#include "proto/crc32c.h"

#define LEN	256u
#define GUARD	64u

static struct rnic_pd *pd;
static uint8_t area[2][LEN + 2 * GUARD];	/* writable; of another domain */
static unsigned int seed;

static size_t fpdu(uint16_t head, uint8_t *out, uint32_t stag, unsigned int body)
{
	size_t n = 2 + body, pad = -(2 + n) & 3;
	uint32_t crc;

	for (size_t i = 0; i < n; i++)
		out[2 + i] = (uint8_t)rand_r(&seed);
	out[0] = (uint8_t)(n >> 8);
	out[1] = (uint8_t)n;
	out[2] = (uint8_t)(head >> 8);
	out[3] = (uint8_t)head;
	for (unsigned int i = 0; i < 4; i++)
		out[4 + i] = (uint8_t)(stag >> (24 - 8 * i));
	memset(out + 8, 0, 7);		/* TO 0..255: so that some are let through */
	memset(out + 2 + n, 0, pad);
	crc = iw_crc32c(0, out, 2 + n + pad);
	memcpy(out + 2 + n + pad, &crc, 4);
	return 2 + n + pad + 4;
}

static void check_guards(unsigned int head)
{
	for (unsigned int k = 0; k < 2; k++) {
		for (unsigned int i = 0; i < GUARD; i++) {
			if (area[k][i] != 0xc5 || area[k][GUARD + LEN + i] != 0xc5)
				fail_msg("header %04x: a canary died", head);
		}
	}
	for (unsigned int i = 0; i < LEN; i++) {
		if (area[1][GUARD + i] != 0xc5)
			fail_msg("header %04x: the other domain's memory changed", head);
	}
}

static void all_headers(void **state)
{
	struct rnic_pd *other = rnic_pd_get(1001);
	struct rnic_mr *mr[2];
	unsigned int ended = 0;

	memset(area, 0xc5, sizeof(area));
	mr[0] = new_mr(pd, NULL, area[0] + GUARD, LEN, 63);
	mr[1] = new_mr(other, NULL, area[1] + GUARD, LEN, 63);
	for (unsigned int head = 0; head < 65536; head++) {
		struct rnic_cq *cq = new_cq(pd, 64);
		struct vqp v;
		uint8_t in[512];

		assert_int_equal(vqp_new(&v, pd, cq, cq, 16, 16), 0);
		vqp_start(&v, false);
		assert_int_equal(post_recv(&v, 1, mr[0], 0, 64), 0);
		for (unsigned int i = 0; i < 3 && !v.gone; i++) {
			size_t n = fpdu((uint16_t)head, in, rnic_mr_stag(mr[(head + i) % 2]), 12 + (unsigned int)rand_r(&seed) % 100);

			assert_int_equal(iw_qp_rx(rnic_qp_state(v.qp), &rnic_qp_ops, v.qp, in, n), n);
			while ((n = iw_qp_tx(rnic_qp_state(v.qp), &rnic_qp_ops, v.qp, wire, sizeof(wire), 0)))
				iw_qp_tx_done(rnic_qp_state(v.qp), &rnic_qp_ops, v.qp, n);
		}
		ended += v.gone;
		check_guards(head);
		rnic_qp_destroy(v.qp);
		assert_int_equal(rnic_cq_destroy(cq), 0);
	}
	printf("# %u of 65536 headers ended their stream\n", ended);
	assert_true(ended > 60000);
	rnic_mr_dereg(mr[0]);
	rnic_mr_dereg(mr[1]);
	rnic_pd_put(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_headers) };
	const char *s = getenv("IW_SEED");

	conf_default(&conf);
	prm_strict = false;
	log_init(LOG_EMERG, 1);
	seed = s ? (unsigned int)strtoul(s, NULL, 0) : (unsigned int)getpid();
	printf("# seed %u\n", seed);
	pd = rnic_pd_get(1000);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
