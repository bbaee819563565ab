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

#include "proto/reason.h"
#include "proto/session.h"

static const uint8_t types[] = { IW_SM_HELLO, IW_SM_PROPOSE, IW_SM_HOLD, IW_SM_PING, IW_SM_VOUCH, IW_SM_ANSWER, IW_SM_GOODBYE, IW_SM_ACK };

static struct iw_addr v4(uint8_t d, uint16_t port)
{
	return (struct iw_addr){ .ip = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = d }, .port = port, .family = AF_INET };
}

static struct iw_sm sample(uint8_t type)
{
	struct iw_sm m = { .type = type, .seq = 0x01020304 };

	if (type == IW_SM_HELLO)
		m.generation = UINT64_C(0x1122334455667788);
	if (type == IW_SM_PROPOSE || type == IW_SM_HOLD || type == IW_SM_VOUCH) {
		m.a = v4(1, 80);
		m.b = v4(2, 40000);
	}
	if (type == IW_SM_HOLD)
		m.nonce = UINT64_C(0x2122232425262728);
	if (type == IW_SM_HOLD || type == IW_SM_ANSWER) {
		m.pos = UINT64_C(0x3132333435363738);
		m.crc = 0x41424344;
	}
	if (type == IW_SM_PROPOSE)
		m.flags = IW_SM_F_CLIENT;
	if (type == IW_SM_ANSWER) {
		m.yes = 1;
		m.flags = IW_SM_F_SWITCHED | IW_SM_F_CLIENT;
	}
	return m;
}

static bool by_dialler(uint8_t type)
{
	return type < 16 || type == IW_SM_ACK;
}

/* From an exact allocation: a sanitizer sees any look beyond. */
static int decode(struct iw_sm *m, const uint8_t *in, size_t len, bool from_dialler)
{
	uint8_t *exact = malloc(len ? len : 1);
	int ret;

	memcpy(exact, in, len);
	ret = iw_sm_decode(m, exact, len, from_dialler);
	free(exact);
	return ret;
}

static void exact_octets(void **state)
{
	static const uint8_t hold[] = {
		0x03, 0, 0, 76, 1, 2, 3, 4, 0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1, 0, 80, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2, 0x9c, 0x40, 0, 0,
		0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44, 0, 0, 0, 0,
	};
	static const uint8_t yes[] = {
		0x10, 7, 0, 28, 1, 2, 3, 4, 0, 0, 0, 0, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44, 0, 0, 0, 0,
	};
	struct iw_sm m = sample(IW_SM_HOLD);
	uint8_t out[IW_SM_MAX];

	assert_int_equal(iw_sm_encode(&m, out), sizeof(hold));
	assert_memory_equal(out, hold, sizeof(hold));
	m = sample(IW_SM_ANSWER);
	assert_int_equal(iw_sm_encode(&m, out), sizeof(yes));
	assert_memory_equal(out, yes, sizeof(yes));
}

static void round_trip(void **state)
{
	for (size_t i = 0; i < sizeof(types); i++) {
		struct iw_sm m = sample(types[i]), back;
		uint8_t out[IW_SM_MAX];
		int len = iw_sm_encode(&m, out);

		assert_true(len > 0);
		assert_int_equal(decode(&back, out, (size_t)len, by_dialler(types[i])), 0);
		assert_memory_equal(&m, &back, sizeof(m));
		assert_int_equal(decode(&back, out, (size_t)len, !by_dialler(types[i])), -EPROTO);
		for (size_t cut = 0; cut < IW_SM_MAX; cut++)
			if (cut != (size_t)len)
				assert_int_equal(decode(&back, out, cut, by_dialler(types[i])), -EPROTO);
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

	m = sample(IW_SM_PROPOSE), m.a.port = 0, refused(&m);
	m = sample(IW_SM_PROPOSE), m.a = v4(1, 80), m.a.ip[12] = 224, refused(&m);
	m = sample(IW_SM_PROPOSE), m.a.ip[12] = 0, refused(&m);
	m = sample(IW_SM_PROPOSE), memset(m.a.ip, 0, 16), refused(&m);
	m = sample(IW_SM_PROPOSE), m.a.ip[0] = 0xff, refused(&m);
	m = sample(IW_SM_PROPOSE), m.b.port = 0, refused(&m);
	m = sample(IW_SM_PROPOSE), m.yes = 1, refused(&m);
	m = sample(IW_SM_HOLD), m.flags = 1, refused(&m);
	m = sample(IW_SM_HOLD), m.reason = 5, refused(&m);
	m = sample(IW_SM_PING), m.reason = 5, refused(&m);
	m = sample(IW_SM_VOUCH), m.flags = 2, refused(&m);
	m = sample(IW_SM_ANSWER), m.yes = 0, m.reason = 1, refused(&m);		/* a no has no flags */
	m = sample(IW_SM_PROPOSE), m.flags = 4, assert_int_equal(iw_sm_encode(&m, out), -EINVAL);
	m = sample(IW_SM_ANSWER), m.reason = 1, refused(&m);
	m = sample(IW_SM_ANSWER), m.yes = 0, refused(&m);
	m = sample(IW_SM_ANSWER), m.yes = 2, assert_int_equal(iw_sm_encode(&m, out), -EINVAL);
	m = sample(IW_SM_PING), m.type = 99, assert_int_equal(iw_sm_encode(&m, out), -EINVAL);
}

/* A newer daemon has reasons that are not in our table: they are as good as any other. */
static void newer_reasons(void **state)
{
	static const unsigned int reasons[] = { IW_REASON_MAX, 57, IW_REASON_OTHER };
	struct iw_sm m, back;
	uint8_t out[IW_SM_MAX];
	int n;

	for (size_t i = 0; i < 3; i++) {
		m = (struct iw_sm){ .type = IW_SM_ANSWER, .reason = (uint16_t)reasons[i] };
		n = iw_sm_encode(&m, out);
		assert_true(n > 0);
		assert_int_equal(iw_sm_decode(&back, out, (size_t)n, false), 0);
		assert_int_equal(back.yes, 0);
		assert_int_equal(back.reason, reasons[i]);
		m = sample(IW_SM_PROPOSE);	/* it stays plain, and the other end may know why */
		m.reason = (uint16_t)reasons[i];
		n = iw_sm_encode(&m, out);
		assert_true(n > 0);
		assert_int_equal(iw_sm_decode(&back, out, (size_t)n, true), 0);
		assert_int_equal(back.reason, reasons[i]);
	}
}

static void private_data(void **state)
{
	struct iw_sm_pd pd = { .ver_lo = IW_SM_VERSION, .ver_hi = IW_SM_VERSION, .bufs = 128, .buf_size = 256, .generation = 77 }, back;
	uint8_t out[IW_SM_PD_LEN + 4] = { 0 };

	iw_sm_pd_encode(&pd, out);
	assert_memory_equal(out, "IWCM", 4);
	assert_int_equal(iw_sm_pd_decode(&back, out, IW_SM_PD_LEN), 0);
	assert_memory_equal(&pd, &back, sizeof(pd));
	assert_int_equal(iw_sm_pd_decode(&back, out, sizeof(out)), 0);
	for (size_t n = 0; n < IW_SM_PD_LEN; n++)
		assert_int_equal(iw_sm_pd_decode(&back, out, n), -EPROTO);
	out[4] = out[5] = IW_SM_VERSION + 1;
	assert_int_equal(iw_sm_pd_decode(&back, out, IW_SM_PD_LEN), -EPROTONOSUPPORT);
	assert_int_equal(iw_sm_pd_decode(&back, out, 6), -EPROTONOSUPPORT);
	out[4] = IW_SM_VERSION;
	assert_int_equal(iw_sm_pd_decode(&back, out, IW_SM_PD_LEN), 0);
	out[7] = 15;
	assert_int_equal(iw_sm_pd_decode(&back, out, IW_SM_PD_LEN), -EPROTO);
	out[0] = 'X';
	assert_int_equal(iw_sm_pd_decode(&back, out, IW_SM_PD_LEN), -EPROTO);
}

/* What goes over the wire is for other versions to read: every octet of it has its place. */
static void private_octets(void **state)
{
	static const uint8_t want[IW_SM_PD_LEN] = { 'I', 'W', 'C', 'M', 1, 3, 0x01, 0x02, 0x03, 0x04, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8 };
	struct iw_sm_pd pd = { .ver_lo = 1, .ver_hi = 3, .bufs = 0x102, .buf_size = 0x304, .generation = UINT64_C(0x0102030405060708) };
	uint8_t out[IW_SM_PD_LEN], rej[IW_SM_REJECT_LEN];

	memset(out, 0xee, sizeof(out));
	iw_sm_pd_encode(&pd, out);
	assert_memory_equal(out, want, sizeof(want));
	assert_int_equal(iw_sm_pd_decode(&pd, out, sizeof(out)), 0);
	out[3] = 'X';
	assert_int_equal(iw_sm_pd_decode(&pd, out, sizeof(out)), -EPROTO);
	memset(rej, 0xee, sizeof(rej));
	iw_sm_reject_encode(IW_REASON_PEER_REFUSED, rej);
	assert_memory_equal(rej, "IWCM\2\2\0\0\0\0\0", 11);
	assert_int_equal(rej[11], IW_REASON_PEER_REFUSED);
	rej[9] = 1;		/* more than the 16 bits of a reason */
	assert_int_equal(iw_sm_reject_decode(rej, sizeof(rej)), -EPROTO);
	rej[9] = 0;
	rej[0] = 'X';
	assert_int_equal(iw_sm_reject_decode(rej, sizeof(rej)), -EPROTO);
}

/* Versions from..to with ours among them; as many and as large buffers as can be served. */
static void private_limits(void **state)
{
	static const struct { uint8_t lo, hi; uint16_t bufs, size; int ret; } c[] = {
		{ 2, 2, 16, IW_SM_MAX, 0 }, { 2, 2, 1024, UINT16_MAX, 0 }, { 0, 255, 16, IW_SM_MAX, 0 },
		{ 2, 2, 15, IW_SM_MAX, -EPROTO }, { 2, 2, 1025, IW_SM_MAX, -EPROTO }, { 2, 2, 16, IW_SM_MAX - 1, -EPROTO },
		{ 1, 0, 16, IW_SM_MAX, -EPROTO }, { 2, 1, 16, IW_SM_MAX, -EPROTO }, { 0, 1, 16, IW_SM_MAX, -EPROTONOSUPPORT },
		{ 3, 4, 16, IW_SM_MAX, -EPROTONOSUPPORT },
	};

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct iw_sm_pd pd = { .ver_lo = c[i].lo, .ver_hi = c[i].hi, .bufs = c[i].bufs, .buf_size = c[i].size }, back;
		uint8_t out[IW_SM_PD_LEN];

		iw_sm_pd_encode(&pd, out);
		assert_int_equal(iw_sm_pd_decode(&back, out, sizeof(out)), c[i].ret);
	}
}

static void names(void **state)
{
	static const char *const want[] = { "HELLO", "PROPOSE", "HOLD", "PING", "VOUCH", "ANSWER", "GOODBYE", "ACK" };

	for (size_t i = 0; i < sizeof(types); i++)
		assert_string_equal(iw_sm_name(types[i]), want[i]);
	for (unsigned int t = 0; t < 300; t++)
		if (!memchr(types, (int)t, sizeof(types)) || t > 255)
			assert_string_equal(iw_sm_name(t), "unknown");
}

/* Which addresses an endpoint of TCP can have. */
static void addresses(void **state)
{
	static const struct { uint8_t ip[16]; bool good; } c[] = {
		{ { [10] = 0xff, [11] = 0xff, [12] = 1 }, true }, { { [10] = 0xff, [11] = 0xff, [12] = 223, 255, 255, 255 }, true },
		{ { [10] = 0xff, [11] = 0xff, [12] = 0, 1, 1, 1 }, false }, { { [10] = 0xff, [11] = 0xff, [12] = 224 }, false },
		{ { [10] = 0xff, [11] = 0xff, [12] = 255, 255, 255, 255 }, false }, { { [15] = 1 }, true }, { { 0 }, false },
		{ { 0xff, 2, [15] = 1 }, false }, { { 0xfe, 0x80, [15] = 1 }, true }, { { 0x20, 1, 0xd, 0xb8 }, true },
	};

	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		for (int second = 0; second < 2; second++) {
			struct iw_sm m = sample(IW_SM_VOUCH), back;
			uint8_t out[IW_SM_MAX];
			int len;

			memcpy(second ? m.b.ip : m.a.ip, c[i].ip, 16);
			len = iw_sm_encode(&m, out);
			assert_int_equal(iw_sm_decode(&back, out, (size_t)len, true), c[i].good ? 0 : -EPROTO);
			if (c[i].good)
				assert_int_equal((second ? back.b : back.a).family, c[i].ip[10] == 0xff ? AF_INET : AF_INET6);
		}
}

static void reject_data(void **state)
{
	uint8_t out[IW_SM_REJECT_LEN];

	iw_sm_reject_encode(IW_REASON_PEER_REFUSED, out);
	assert_int_equal(iw_sm_reject_decode(out, sizeof(out)), IW_REASON_PEER_REFUSED);
	assert_int_equal(iw_sm_reject_decode(out, sizeof(out) - 1), -EPROTO);
	iw_sm_reject_encode(IW_REASON_MAX, out);
	assert_int_equal(iw_sm_reject_decode(out, sizeof(out)), IW_REASON_MAX);
	iw_sm_reject_encode(IW_REASON_OTHER, out);
	assert_int_equal(iw_sm_reject_decode(out, sizeof(out)), IW_REASON_OTHER);
	iw_sm_reject_encode(IW_REASON_OTHER + 1, out);
	assert_int_equal(iw_sm_reject_decode(out, sizeof(out)), -EPROTO);
	iw_sm_reject_encode(UINT32_MAX, out);
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
		cmocka_unit_test(bad_values), cmocka_unit_test(newer_reasons),
		cmocka_unit_test(private_data), cmocka_unit_test(private_octets),
		cmocka_unit_test(private_limits), cmocka_unit_test(names), cmocka_unit_test(addresses), cmocka_unit_test(reject_data),
		cmocka_unit_test(random_octets),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
