// SPDX-License-Identifier: MIT
/* Addresses: the kernel's form there and back, kinds of them, text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>

#include "proto/addr.h"

static struct iw_addr of(const char *text, uint16_t port)
{
	struct iw_addr a = { .port = port };
	uint8_t v4[4];

	if (inet_pton(AF_INET, text, v4) == 1)
		iw_ip_from_v4(a.ip, v4);
	else
		assert_int_equal(inet_pton(AF_INET6, text, a.ip), 1);
	a.family = iw_ip_family(a.ip);
	return a;
}

static void there_and_back(void **state)
{
	static const char *const all[] = { "192.0.2.1", "0.0.0.0", "::", "::1", "2001:db8::1", "fe80::1" };
	struct sockaddr_storage ss;
	struct iw_addr a, b;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		a = of(all[i], 65535);
		a.scope_id = i == 5 ? 3 : 0;
		assert_true(iw_addr_from_sockaddr(&b, (void *)&ss, iw_addr_to_sockaddr(&a, &ss)));
		assert_memory_equal(&a, &b, sizeof(a));
		assert_int_equal(ss.ss_family, i < 2 ? AF_INET : AF_INET6);
	}
	/* a socket of AF_INET6 with a peer of IPv4 keeps its family */
	a = of("192.0.2.1", 80);
	a.family = AF_INET6;
	assert_int_equal(iw_addr_to_sockaddr(&a, &ss), sizeof(struct sockaddr_in6));
	assert_true(iw_addr_from_sockaddr(&b, (void *)&ss, sizeof(struct sockaddr_in6)));
	assert_memory_equal(&a, &b, sizeof(a));
}

/* What a program may hand to connect(): too short, of another family, with a scope where none belongs. */
static void not_ours(void **state)
{
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(80), .sin6_scope_id = 7, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr un = { .sa_family = AF_UNIX };
	struct iw_addr a;

	assert_false(iw_addr_from_sockaddr(&a, NULL, 16));
	assert_false(iw_addr_from_sockaddr(&a, (void *)&in, 1));
	assert_false(iw_addr_from_sockaddr(&a, (void *)&in, sizeof(in) - 1));
	assert_false(iw_addr_from_sockaddr(&a, &un, sizeof(un)));
	assert_int_equal(a.family, AF_UNIX);
	assert_false(iw_addr_from_sockaddr(&a, (void *)&in6, 23));
	assert_true(iw_addr_from_sockaddr(&a, (void *)&in6, 24));	/* as of RFC 2133, without scope */
	assert_int_equal(a.port, 80);
	assert_true(iw_addr_from_sockaddr(&a, (void *)&in6, sizeof(in6)));
	assert_int_equal(a.scope_id, 0);
}

static void kinds(void **state)
{
	static const struct { const char *text; bool any, loopback, v4; } all[] = {
		{ "0.0.0.0", true, false, true }, { "::", true, false, false }, { "127.0.0.1", false, true, true },
		{ "127.255.0.9", false, true, true }, { "128.0.0.1", false, false, true }, { "0.0.0.1", false, false, true },
		{ "::1", false, true, false }, { "::2", false, false, false }, { "::fffe:0:0", false, false, false },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct iw_addr a = of(all[i].text, 1);

		assert_int_equal(iw_ip_any(a.ip), all[i].any);
		assert_int_equal(iw_ip_loopback(a.ip), all[i].loopback);
		assert_int_equal(iw_ip_v4(a.ip), all[i].v4);
	}
}

static void prefixes(void **state)
{
	struct iw_addr a = of("192.0.2.129", 1), b = of("192.0.2.255", 1);

	for (unsigned int len = 0; len <= 128; len++)
		assert_int_equal(iw_prefix_has(a.ip, len, b.ip), len <= 96 + 25);
	assert_true(iw_prefix_has(a.ip, 128, a.ip));
	assert_true(iw_prefix_has(a.ip + 12, 25, b.ip + 12));
	assert_false(iw_prefix_has(a.ip + 12, 26, b.ip + 12));
}

static void same_and_hash(void **state)
{
	struct iw_tuple t = { of("192.0.2.1", 1), of("2001:db8::1", 2) }, u = t, m = iw_tuple_mirror(&t);

	u.local.family = AF_INET6;	/* says nothing about which connection it is */
	assert_true(iw_tuple_same(&t, &u));
	assert_int_equal(iw_tuple_hash(&t), iw_tuple_hash(&u));
	assert_false(iw_tuple_same(&t, &m));
	u.peer.port++;
	assert_false(iw_tuple_same(&t, &u));
	assert_int_not_equal(iw_tuple_hash(&t), iw_tuple_hash(&u));
	/* the library and the daemon find each other's entries by it */
	assert_int_equal(iw_addr_hash(t.local.ip, 0), 0xcab5b696);
	assert_int_equal(iw_addr_hash(t.local.ip, 258), 0x23b26c47);
}

static void text(void **state)
{
	struct iw_tuple t = { of("192.0.2.1", 80), of("2001:db8::1", 65535) };

	assert_string_equal(iw_ip_text(t.local.ip), "192.0.2.1");
	assert_string_equal(iw_addr_text(&t.local), "192.0.2.1:80");
	assert_string_equal(iw_tuple_text(&t), "192.0.2.1:80 - [2001:db8::1]:65535");
	assert_string_not_equal(iw_ip_text(t.local.ip), iw_ip_text(t.peer.ip));	/* two in one line of the log */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(there_and_back), cmocka_unit_test(not_ours), cmocka_unit_test(kinds), cmocka_unit_test(prefixes),
		cmocka_unit_test(same_and_hash), cmocka_unit_test(text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
