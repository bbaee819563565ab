// SPDX-License-Identifier: MIT
/* The reasons table: complete, unambiguous, its numbers frozen. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/reason.h"

/* Numbers are stored by users and shown by scripts: they never change. */
static const char *const frozen[] = {
	"accelerated", "no-daemon", "peer-no-iwarp", "peer-unreachable", "listener-not-registered", "policy", "tuple-unknown",
	"fd-shared", "epoll-unknown", "quota", "unclaimed", "version", "io_uring-user", "secure-exec", "netns", "fastopen",
	"option", "peer-refused", "resources", "not-mpa", "listener-gone", "timeout", "swap-unsafe", "daemon-gone", "not-stream",
	"peer-untrusted", "disabled", "no-ipsec",
};

static void test_frozen(void **state)
{
	unsigned int n = sizeof(frozen) / sizeof(frozen[0]);

	assert_true(IW_REASON_MAX >= n);
	for (unsigned int i = 0; i < n; i++) {
		assert_string_equal(iw_reason_name(i), frozen[i]);
		assert_int_equal(iw_reason_parse(frozen[i]), i);
	}
}

static void test_texts(void **state)
{
	for (unsigned int i = 0; i < IW_REASON_MAX; i++) {
		const char *s = iw_reason_sentence(i), *a = iw_reason_advice(i);

		assert_non_null(iw_reason_name(i));
		assert_true(strlen(iw_reason_name(i)) > 2 && !strchr(iw_reason_name(i), ' '));
		assert_true(s[strlen(s) - 1] == '.');
		assert_true(i == IW_REASON_ACCELERATED || strlen(a) > 10);
		for (unsigned int k = 0; k < i; k++)
			assert_string_not_equal(iw_reason_name(i), iw_reason_name(k));
	}
}

static void test_unknown(void **state)
{
	const char *a = iw_reason_name(0xfffe), *b = iw_reason_name(0xffffffff);
	char name[32];

	snprintf(name, sizeof(name), "reason-%d", IW_REASON_MAX);
	assert_string_equal(iw_reason_name(IW_REASON_MAX), name);
	assert_string_equal(a, "reason-65534");
	assert_string_equal(b, "reason-4294967295");
	assert_string_equal(iw_reason_name(IW_REASON_OTHER), "other");
	assert_non_null(strstr(iw_reason_sentence(IW_REASON_MAX), "newer iwsock"));
	assert_string_equal(iw_reason_sentence(IW_REASON_OTHER), iw_reason_sentence(IW_REASON_MAX));
	assert_non_null(strstr(iw_reason_advice(0xffffffff), "iwctl reasons"));
	assert_int_equal(iw_reason_parse("no-such-reason"), -ENOENT);
	assert_int_equal(iw_reason_parse(""), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frozen),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
