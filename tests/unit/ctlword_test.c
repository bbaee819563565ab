// SPDX-License-Identifier: MIT
/* Control words and private data of the ring stream: exact octets, round trips, everything malformed. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/rs.h"

static void unhex(const char *hex, uint8_t *out)
{
	for (unsigned int v; sscanf(hex, "%2x", &v) == 1; hex += 2)
		*out++ = (uint8_t)v;
}

static void expect_word(const struct iw_cw *cw, const char *hex)
{
	uint8_t want[8], got[8];
	struct iw_cw back;

	unhex(hex, want);
	iw_cw_encode(cw, got);
	assert_memory_equal(got, want, 8);
	assert_int_equal(iw_cw_decode(&back, want), 0);
	assert_int_equal(back.type, cw->type);
	assert_int_equal(back.flags, cw->flags);
	assert_int_equal(back.credits, cw->credits);
	assert_int_equal(back.value, cw->value);
}

/* The three examples of docs/ringstream.md 2. */
static void test_examples(void **state)
{
	expect_word(&(struct iw_cw){ IW_CW_DATA, 0, 3, 0x1000 }, "0003000000001000");
	expect_word(&(struct iw_cw){ IW_CW_DATA, IW_CW_FIN, 0, 0x1000 }, "0100000000001000");
	expect_word(&(struct iw_cw){ IW_CW_ACK, IW_CW_WAITING, 0, 0x100000 }, "2200000000100000");
}

static void test_all_types(void **state)
{
	expect_word(&(struct iw_cw){ IW_CW_DATA, 7, 255, 0xffffffffffff }, "07ffffffffffffff");
	expect_word(&(struct iw_cw){ IW_CW_INLINE, IW_CW_URG, 1, 0x010203040506 }, "1201010203040506");
	expect_word(&(struct iw_cw){ IW_CW_ACK, IW_CW_FIN | IW_CW_WAITING, 2, 1 }, "2302000000000001");
	expect_word(&(struct iw_cw){ IW_CW_CREDIT, 0, 128, 0 }, "3080000000000000");
	expect_word(&(struct iw_cw){ IW_CW_SRCAVAIL, IW_CW_MORE, 0, 7 }, "4400000000000007");
	expect_word(&(struct iw_cw){ IW_CW_RDDONE, IW_CW_REFUSED, 0, 7 }, "5100000000000007");
	expect_word(&(struct iw_cw){ IW_CW_CANCEL, 0, 0, 7 }, "6000000000000007");
	expect_word(&(struct iw_cw){ IW_CW_URGENT, 0, 0, 0 }, "7000000000000000");
	expect_word(&(struct iw_cw){ IW_CW_ABORT, 0, 0, ECONNRESET }, "8000000000000068");
	expect_word(&(struct iw_cw){ IW_CW_PING, IW_CW_ANSWER, 0, 0x1234 }, "9100000000001234");
}

/* Every first octet: legal exactly when the type is known and the flags belong to it. */
static void test_first_octet(void **state)
{
	static const uint8_t legal[16] = { 7, 7, 3, 0, 7, 1, 0, 0, 0, 1 };

	for (unsigned int o = 0; o < 256; o++) {
		uint8_t w[8] = { (uint8_t)o, 9, 1, 2, 3, 4, 5, 6 };
		struct iw_cw cw;
		int ok = o >> 4 <= IW_CW_PING && !(o & 15 & ~legal[o >> 4]);

		assert_int_equal(iw_cw_decode(&cw, w), ok ? 0 : -EPROTO);
	}
}

static void test_encode_masks(void **state)
{
	uint8_t w[8];

	iw_cw_encode(&(struct iw_cw){ IW_CW_DATA, 0, 0, 1ull << 48 | 5 }, w);	/* positions are modulo 2^48 */
	assert_memory_equal(w, "\0\0\0\0\0\0\0\5", 8);
}

static void test_bodies(void **state)
{
	struct iw_cw_srcavail sa = { 0x5a17c301, 0x0102030405060708, 0x40000 }, back;
	uint8_t got[20], want[20];

	unhex("5a17c30101020304050607080000000000040000", want);
	iw_cw_encode_srcavail(&sa, got);
	assert_memory_equal(got, want, 20);
	iw_cw_decode_srcavail(&back, want);
	assert_int_equal(back.stag, sa.stag);
	assert_int_equal(back.to, sa.to);
	assert_int_equal(back.len, sa.len);
	unhex("0000000000040000", want);
	iw_cw_encode_rddone(0x40000, got);
	assert_memory_equal(got, want, 8);
	assert_int_equal(iw_cw_decode_rddone(want), 0x40000);
}

/* ---- private data ---- */

static const char golden_pd[] =
	"5253544d" "01" "01" "001f" "5a17c301" "0123456789abcd00" "00100000" "0040" "0208" "0008" "18eb"
	"00000000000000000000ffff0a010002" "20010db8000000000000000000000001" "c350" "0000"
	"0badcafe12345678";

static struct iw_rs_pd sample(void)
{
	struct iw_rs_pd pd = {
		.ver_lo = 1, .ver_hi = 1, .caps = 31, .ring_stag = 0x5a17c301, .ring_to = 0x0123456789abcd00,
		.ring_len = 1u << 20, .bufs = 64, .buf_size = 520, .srcavail_max = 8,
		.dst = { .ip = { [10] = 0xff, [11] = 0xff, 10, 1, 0, 2 }, .port = 6379, .family = AF_INET },
		.src = { .ip = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 }, .port = 50000, .family = AF_INET6 },
		.nonce = 0x0badcafe12345678,
	};

	return pd;
}

static void test_pd(void **state)
{
	struct iw_rs_pd pd = sample(), back;
	uint8_t got[IW_RS_PD_LEN], want[IW_RS_PD_LEN + 8] = { 0 };

	unhex(golden_pd, want);
	iw_rs_pd_encode(&pd, got);
	assert_memory_equal(got, want, IW_RS_PD_LEN);
	assert_int_equal(iw_rs_pd_decode(&back, want, IW_RS_PD_LEN), 0);
	assert_memory_equal(&back, &pd, sizeof(pd));
	memset(want + IW_RS_PD_LEN, 0xee, 8);	/* a later version may have grown it */
	assert_int_equal(iw_rs_pd_decode(&back, want, sizeof(want)), 0);
	assert_memory_equal(&back, &pd, sizeof(pd));
}

static int decode_with(unsigned int off, const char *hex)
{
	uint8_t in[IW_RS_PD_LEN];
	struct iw_rs_pd pd;

	unhex(golden_pd, in);
	unhex(hex, in + off);
	return iw_rs_pd_decode(&pd, in, sizeof(in));
}

static void test_pd_bad(void **state)
{
	uint8_t in[IW_RS_PD_LEN];
	struct iw_rs_pd pd;

	unhex(golden_pd, in);
	for (size_t len = 0; len < IW_RS_PD_LEN; len++) {
		uint8_t *exact = malloc(len + 1);	/* for the address sanitizer */

		memcpy(exact, in, len);
		assert_int_equal(iw_rs_pd_decode(&pd, exact, len), -EPROTO);
		free(exact);
	}
	assert_int_equal(decode_with(0, "5253544e"), -EPROTO);
	assert_int_equal(decode_with(4, "0201"), -EPROTO);
	assert_int_equal(decode_with(4, "0203"), -EPROTONOSUPPORT);
	assert_int_equal(decode_with(4, "0000"), -EPROTONOSUPPORT);
	assert_int_equal(decode_with(4, "0005"), 0);
	assert_int_equal(decode_with(20, "00008000"), -EPROTO);		/* 32 KiB */
	assert_int_equal(decode_with(20, "00010000"), 0);
	assert_int_equal(decode_with(20, "00030000"), -EPROTO);		/* no power of two */
	assert_int_equal(decode_with(20, "04000000"), 0);
	assert_int_equal(decode_with(20, "08000000"), -EPROTO);
	assert_int_equal(decode_with(20, "00000000"), -EPROTO);
	assert_int_equal(decode_with(20, "ffffffff"), -EPROTO);
	assert_int_equal(decode_with(12, "fffffffffff00000"), 0);	/* ends at the last octet there is */
	assert_int_equal(decode_with(12, "fffffffffff00001"), -EPROTO);
	assert_int_equal(decode_with(24, "0007"), -EPROTO);
	assert_int_equal(decode_with(24, "0008"), 0);
	assert_int_equal(decode_with(26, "003f"), -EPROTO);
	assert_int_equal(decode_with(26, "0040"), 0);
	assert_int_equal(decode_with(6, "ffff"), 0);			/* capabilities we do not know */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples),
		cmocka_unit_test(test_all_types),
		cmocka_unit_test(test_first_octet),
		cmocka_unit_test(test_encode_masks),
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_pd),
		cmocka_unit_test(test_pd_bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
