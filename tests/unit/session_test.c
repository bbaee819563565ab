/* SPDX-License-Identifier: MIT */
/* Messages between daemons: exact octets, round trips, and that nothing malformed is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <errno.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "../../proto/reason.h"
#include "../../proto/session.h"

static const uint8_t types[] = { IW_SM_HELLO, IW_SM_LOOKUP, IW_SM_CLAIM, IW_SM_PING, IW_SM_ANSWER, IW_SM_LISTENER, IW_SM_CONFIRM,
				 IW_SM_ACK };

static struct iw_addr v4(uint8_t d, uint16_t port)
{
	return (struct iw_addr){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = d }, .port = port, .family = AF_INET };
}

static struct iw_sm sample(uint8_t type)
{
	struct iw_sm m = { .type = type, .seq = 0x01020304 };

	if (type == IW_SM_HELLO)
		m.generation = UINT64_C(0x1122334455667788);
	if (type == IW_SM_LOOKUP || type == IW_SM_LISTENER || type == IW_SM_CLAIM || type == IW_SM_CONFIRM)
		m.a = v4(1, 80);
	if (type == IW_SM_CLAIM || type == IW_SM_CONFIRM)
		m.b = v4(2, 40000);
	if (type == IW_SM_ANSWER || type == IW_SM_LISTENER || type == IW_SM_CONFIRM)
		m.yes = 1;
	return m;
}

static bool by_dialler(uint8_t type)
{
	return type < 16 || type == IW_SM_ACK;
}

static void exact_octets(void **state)
{
	static const uint8_t want[] = {
		0x02, 0, 0, 32, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1, 0, 80, 0, 0,
	};
	struct iw_sm m = sample(IW_SM_LOOKUP);
	uint8_t out[IW_SM_MAX];

	assert_int_equal(iw_sm_encode(&m, out), sizeof(want));
	assert_memory_equal(out, want, sizeof(want));
}

static void round_trip(void **state)
{
	for (size_t i = 0; i < sizeof(types); i++) {
		struct iw_sm m = sample(types[i]), back;
		uint8_t out[IW_SM_MAX];
		int len = iw_sm_encode(&m, out);

		assert_true(len > 0);
		assert_int_equal(iw_sm_decode(&back, out, (size_t)len, by_dialler(types[i])), 0);
		assert_memory_equal(&m, &back, sizeof(m));
		assert_int_equal(iw_sm_decode(&back, out, (size_t)len, !by_dialler(types[i])), -EPROTO);
		for (size_t cut = 0; cut < IW_SM_MAX; cut++)
			if (cut != (size_t)len)
				assert_int_equal(iw_sm_decode(&back, out, cut, by_dialler(types[i])), -EPROTO);
	}
}

/* Every octet changed to every value: either refused, or it decodes to something that encodes to the same octets. */
static void one_octet_wrong(void **state)
{
	for (size_t i = 0; i < sizeof(types); i++) {
		struct iw_sm m = sample(types[i]), back;
		uint8_t in[IW_SM_MAX], out[IW_SM_MAX];
		int len = iw_sm_encode(&m, in);

		for (int k = 0; k < len; k++) {
			uint8_t was = in[k];

			for (unsigned int v = 0; v < 256; v++) {
				in[k] = (uint8_t)v;
				if (iw_sm_decode(&back, in, (size_t)len, by_dialler(types[i])))
					continue;
				assert_int_equal(iw_sm_encode(&back, out), len);
				assert_memory_equal(in, out, (size_t)len);
			}
			in[k] = was;
		}
	}
}

static void refused(const struct iw_sm *m)
{
	uint8_t out[IW_SM_MAX];
	struct iw_sm back;
	int len = iw_sm_encode(m, out);

	if (len > 0)
		assert_int_equal(iw_sm_decode(&back, out, (size_t)len, by_dialler(m->type)), -EPROTO);
}

static void bad_values(void **state)
{
	struct iw_sm m;
	uint8_t out[IW_SM_MAX];

	m = sample(IW_SM_LOOKUP), m.a.port = 0, refused(&m);
	m = sample(IW_SM_LOOKUP), m.a = v4(1, 80), m.a.ip[12] = 224, refused(&m);
	m = sample(IW_SM_LOOKUP), m.a.ip[12] = 0, refused(&m);
	m = sample(IW_SM_LOOKUP), memset(m.a.ip, 0, 16), refused(&m);
	m = sample(IW_SM_LOOKUP), m.a.ip[0] = 0xff, refused(&m);
	m = sample(IW_SM_LOOKUP), m.yes = 1, refused(&m);
	m = sample(IW_SM_ANSWER), m.reason = 1, refused(&m);
	m = sample(IW_SM_ANSWER), m.yes = 0, refused(&m);
	m = sample(IW_SM_ANSWER), m.yes = 2, assert_int_equal(iw_sm_encode(&m, out), -EINVAL);
	m = sample(IW_SM_ANSWER), m.reason = IW_REASON_MAX, assert_int_equal(iw_sm_encode(&m, out), -EINVAL);
	m = sample(IW_SM_PING), m.type = 99, assert_int_equal(iw_sm_encode(&m, out), -EINVAL);
}

static void private_data(void **state)
{
	struct iw_sm_pd pd = { .ver_lo = 1, .ver_hi = 1, .bufs = 128, .buf_size = 256, .generation = 77 }, back;
	uint8_t out[IW_SM_PD_LEN + 4] = { 0 };

	iw_sm_pd_encode(&pd, out);
	assert_memory_equal(out, "IWCM", 4);
	assert_int_equal(iw_sm_pd_decode(&back, out, IW_SM_PD_LEN), 0);
	assert_memory_equal(&pd, &back, sizeof(pd));
	assert_int_equal(iw_sm_pd_decode(&back, out, sizeof(out)), 0);
	for (size_t n = 0; n < IW_SM_PD_LEN; n++)
		assert_int_equal(iw_sm_pd_decode(&back, out, n), -EPROTO);
	out[4] = out[5] = 2;
	assert_int_equal(iw_sm_pd_decode(&back, out, IW_SM_PD_LEN), -EPROTONOSUPPORT);
	assert_int_equal(iw_sm_pd_decode(&back, out, 6), -EPROTONOSUPPORT);
	out[4] = 1;
	assert_int_equal(iw_sm_pd_decode(&back, out, IW_SM_PD_LEN), 0);
	out[7] = 15;
	assert_int_equal(iw_sm_pd_decode(&back, out, IW_SM_PD_LEN), -EPROTO);
	out[0] = 'X';
	assert_int_equal(iw_sm_pd_decode(&back, out, IW_SM_PD_LEN), -EPROTO);
}

static void reject_data(void **state)
{
	uint8_t out[IW_SM_REJECT_LEN];

	iw_sm_reject_encode(IW_REASON_PEER_REFUSED, out);
	assert_int_equal(iw_sm_reject_decode(out, sizeof(out)), IW_REASON_PEER_REFUSED);
	assert_int_equal(iw_sm_reject_decode(out, sizeof(out) - 1), -EPROTO);
	iw_sm_reject_encode(IW_REASON_MAX, out);
	assert_int_equal(iw_sm_reject_decode(out, sizeof(out)), -EPROTO);
	iw_sm_reject_encode(0, out);
	assert_int_equal(iw_sm_reject_decode(out, sizeof(out)), -EPROTO);
}

static void random_octets(void **state)
{
	unsigned int seed;
	uint8_t in[300];
	struct iw_sm m;
	struct iw_sm_pd pd;

	assert_int_equal(getrandom(&seed, sizeof(seed), 0), sizeof(seed));
	print_message("# seed %u\n", seed);
	for (int i = 0; i < 200000; i++) {
		size_t len = (size_t)rand_r(&seed) % sizeof(in);

		for (size_t k = 0; k < len; k++)
			in[k] = (uint8_t)(rand_r(&seed) % 4 ? 0 : rand_r(&seed));
		if (len > 3 && rand_r(&seed) % 2) {
			in[0] = types[(size_t)rand_r(&seed) % sizeof(types)];
			in[3] = (uint8_t)len;
		}
		if (!iw_sm_decode(&m, in, len, rand_r(&seed) & 1))
			assert_string_not_equal(iw_sm_name(m.type), "unknown");
		iw_sm_pd_decode(&pd, in, len);
		iw_sm_reject_decode(in, len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_octets), cmocka_unit_test(round_trip), cmocka_unit_test(one_octet_wrong),
		cmocka_unit_test(bad_values), cmocka_unit_test(private_data), cmocka_unit_test(reject_data),
		cmocka_unit_test(random_octets),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
