// SPDX-License-Identifier: MIT
/* The reasons table: complete, unambiguous, its numbers frozen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/reason.h"

/* Numbers are stored by users and shown by scripts: they never change. NULL: its reason has left the table. */
static const char *const frozen[] = {
	"accelerated", NULL, "peer-no-iwarp", "peer-unreachable", NULL, "policy", "tuple-unknown", NULL, "epoll-unknown", "quota", NULL, "version",
	"io_uring-user", NULL, "netns", NULL, "option", "peer-refused", "resources", NULL, NULL, "timeout", NULL, "daemon-gone", "not-stream",
	"peer-untrusted", NULL, "no-ipsec", "young", "unanswered", "other-end", "busy", "inherited", "alias", "urgent", "half-closed",
	"downgraded", "matched", "no-gain", "unseen",
};

/* The n-th name, or that of a number whose reason has left the table. */
static const char *named(unsigned int n, char name[IW_REASON_NAME])
{
	snprintf(name, IW_REASON_NAME, "reason-%u", n);
	return frozen[n] ? frozen[n] : name;
}

static void test_frozen(void **state)
{
	unsigned int n = sizeof(frozen) / sizeof(frozen[0]);
	char name[IW_REASON_NAME];

	assert_int_equal(IW_REASON_MAX, n);
	for (unsigned int i = 0; i < n; i++) {
		assert_string_equal(iw_reason_name(i), named(i, name));
		assert_int_equal(iw_reason_known(i), !!frozen[i]);
	}
}

static void test_texts(void **state)
{
	for (unsigned int i = 0; i < IW_REASON_MAX; i++) {
		const char *s = iw_reason_sentence(i), *a = iw_reason_advice(i);

		if (!iw_reason_known(i)) {
			assert_string_equal(s, iw_reason_sentence(IW_REASON_OTHER));
			continue;
		}
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
	assert_non_null(strstr(iw_reason_sentence(IW_REASON_MAX), "Another version of iwsock"));
	assert_string_equal(iw_reason_sentence(IW_REASON_OTHER), iw_reason_sentence(IW_REASON_MAX));
	assert_non_null(strstr(iw_reason_advice(0xffffffff), "iwctl reasons"));
	assert_false(iw_reason_known(IW_REASON_MAX) || iw_reason_known(IW_REASON_OTHER) || iw_reason_known(0xffffffff));
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
