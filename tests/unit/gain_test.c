// SPDX-License-Identifier: MIT
/* What a connection to another host gains (preload/gain.c): by its pieces, their direction, TCP's algorithm, and how short the path is. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

static struct {
	const char *algorithm;
	uint32_t rtt;
	uint64_t acked, received;
	bool lost;		/* it is no TCP socket */
	bool from_file;
} has;

static long fake_getsockopt(int fd, int level, int name, void *val, socklen_t *len);

#include "preload/sys.h"
#undef IW_SYS
#define IW_SYS(name, ...) fake_##name(__VA_ARGS__)
#include "preload/gain.c"

static long fake_getsockopt(int fd, int level, int name, void *val, socklen_t *len)
{
	struct tcp_info *i = val;

	if (has.lost)
		return -ENOTSOCK;
	assert_int_equal(level, IPPROTO_TCP);
	if (name == TCP_CONGESTION) {
		snprintf(val, *len, "%s", has.algorithm);
		return 0;
	}
	assert_int_equal(name, TCP_INFO);
	i->tcpi_min_rtt = has.rtt;
	i->tcpi_bytes_acked = has.acked;
	i->tcpi_bytes_received = has.received;
	return 0;
}

#define MANY	1000u
#define MIB	(1u << 20)

/* By pieces of so many octets. */
static enum iw_gain of(const char *algorithm, uint32_t rtt, uint64_t piece)
{
	has.algorithm = algorithm;
	has.rtt = rtt;
	return iw_gain(3, piece * MANY, MANY, has.from_file);
}

static int begin(void **state)
{
	memset(&has, 0, sizeof(has));
	has.acked = 64 * MIB;
	has.received = 8 * MIB;
	return 0;
}

static void one_way(void **state)
{
	/* paced, on a short path */
	assert_int_equal(of("bbr", 20, 64), IW_GAIN_YES);
	assert_int_equal(of("bbr", 20, 8191), IW_GAIN_YES);
	assert_int_equal(of("bbr", 20, 8192), IW_GAIN_PACED);
	assert_int_equal(of("bbr", 20, 24575), IW_GAIN_PACED);
	assert_int_equal(of("bbr", 20, 24576), IW_GAIN_NONE);
	assert_int_equal(of("bbr", 20, 65536), IW_GAIN_NONE);
	assert_int_equal(of("bbr", 20, 98303), IW_GAIN_NONE);
	assert_int_equal(of("bbr", 20, 98304), IW_GAIN_PACED);
	assert_int_equal(of("bbr", IW_SHORT_US, 131072), IW_GAIN_PACED);
	assert_int_equal(of("bbr2", 20, MIB), IW_GAIN_PACED);
	/* nothing to lose */
	assert_int_equal(of("bbr", IW_SHORT_US + 1, 8192), IW_GAIN_YES);
	assert_int_equal(of("bbr", IW_SHORT_US + 1, 24576), IW_GAIN_NONE);
	assert_int_equal(of("cubic", 20, 8192), IW_GAIN_YES);
	assert_int_equal(of("cubic", 20, 24575), IW_GAIN_YES);
	assert_int_equal(of("cubic", 20, 24576), IW_GAIN_NONE);
	assert_int_equal(of("cubic", 20, MIB), IW_GAIN_NONE);
}

static void both_ways(void **state)
{
	has.received = 8 * MIB + 1;
	assert_int_equal(of("bbr", 20, 65536), IW_GAIN_YES);
	assert_int_equal(of("cubic", 20, 65536), IW_GAIN_YES);
	/* who reads does not judge */
	has.acked = 100;
	has.received = 64 * MIB;
	assert_int_equal(of("bbr", 20, 65536), IW_GAIN_YES);
	assert_int_equal(of("cubic", 20, MIB), IW_GAIN_YES);
}

/* TCP copies nothing there. */
static void from_files(void **state)
{
	has.from_file = true;
	assert_int_equal(of("bbr", 20, 8191), IW_GAIN_YES);
	assert_int_equal(of("bbr", 20, 8192), IW_GAIN_PACED);
	assert_int_equal(of("bbr", 20, 24576), IW_GAIN_NONE);
	assert_int_equal(of("bbr", 20, MIB), IW_GAIN_NONE);
	assert_int_equal(of("cubic", 20, 24575), IW_GAIN_YES);
	assert_int_equal(of("cubic", 20, MIB), IW_GAIN_NONE);
	has.received = 8 * MIB + 1;
	assert_int_equal(of("bbr", 20, MIB), IW_GAIN_YES);
}

static void not_known(void **state)
{
	has.lost = true;
	assert_int_equal(of("cubic", 20, MIB), IW_GAIN_YES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(one_way, begin), cmocka_unit_test_setup(both_ways, begin), cmocka_unit_test_setup(from_files, begin),
		cmocka_unit_test_setup(not_known, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
