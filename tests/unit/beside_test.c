// SPDX-License-Identifier: MIT
/* What is said of a connection beside the application's: octets as they are, and what is none of it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/beside.h"

static void dial(void **state)
{
	static const uint8_t want[IW_BESIDE_DIAL_LEN] = "IWBD\x01\x02\x03\x04\x05\x06\x07\x08\x12\x34\xab\xcd";
	const struct iw_beside_dial in = { .key = 0x0102030405060708, .sport = 0x1234, .dport = 0xabcd };
	uint8_t octets[IW_BESIDE_DIAL_LEN + 40] = { 0 };
	struct iw_beside_dial d;

	iw_beside_dial_encode(&in, octets);
	assert_memory_equal(octets, want, sizeof(want));
	/* InfiniBand hands over all the octets that there can be */
	assert_int_equal(iw_beside_dial_decode(&d, octets, sizeof(octets)), 0);
	assert_memory_equal(&d, &in, offsetof(struct iw_beside_dial, dport) + sizeof(d.dport));
	assert_int_equal(iw_beside_dial_decode(&d, octets, IW_BESIDE_DIAL_LEN - 1), -EPROTO);
	assert_int_equal(iw_beside_dial_decode(&d, NULL, 0), -EPROTO);
	octets[3] ^= 1;
	assert_int_equal(iw_beside_dial_decode(&d, octets, sizeof(octets)), -EPROTO);
}

static void beside(void **state)
{
	static const uint8_t want[IW_BESIDE_LEN] = "IWBS\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x15\x16\x17\x18\x21\x22\x23\x24\x25\x26\x27\x28\x31\x32\x33\x34";
	const struct iw_beside in = { .key = 0x0102030405060708, .to = 0x1112131415161718, .addr = 0x2122232425262728, .rkey = 0x31323334 };
	uint8_t octets[IW_BESIDE_LEN];
	struct iw_beside b = { 0 };

	iw_beside_encode(&in, octets);
	assert_memory_equal(octets, want, sizeof(want));
	assert_int_equal(iw_beside_decode(&b, octets, sizeof(octets)), 0);
	assert_true(b.key == in.key && b.to == in.to && b.addr == in.addr && b.rkey == in.rkey);
	assert_int_equal(iw_beside_decode(&b, octets, sizeof(octets) - 1), -EPROTO);
	octets[0] = 'J';
	assert_int_equal(iw_beside_decode(&b, octets, sizeof(octets)), -EPROTO);
}

static void lost(void **state)
{
	static const uint8_t want[IW_BESIDE_LOST_LEN] = "IWBL\x01\x02\x03\x04";
	uint8_t octets[IW_BESIDE_LOST_LEN];
	uint32_t came = 0;

	iw_beside_lost_encode(0x01020304, octets);
	assert_memory_equal(octets, want, sizeof(want));
	assert_int_equal(iw_beside_lost_decode(&came, octets), 0);
	assert_int_equal(came, 0x01020304);
	octets[3] = 'S';
	assert_int_equal(iw_beside_lost_decode(&came, octets), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(dial), cmocka_unit_test(beside), cmocka_unit_test(lost) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
