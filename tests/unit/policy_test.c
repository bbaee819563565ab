// SPDX-License-Identifier: MIT
/* iwsock.conf: what is accepted, what is refused with which words, which rule wins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/policy.h"

static struct iw_policy p;
static char err[256];

static int parse(const char *text)
{
	err[0] = 0;
	return iw_policy_parse(&p, text, strlen(text), "f.conf", err, sizeof(err));
}

static struct iw_addr at(const char *ip, uint16_t port)
{
	struct iw_addr a = { .port = port, .family = AF_INET };

	if (inet_pton(AF_INET, ip, a.ip + 12) == 1) {
		a.ip[10] = a.ip[11] = 0xff;
		return a;
	}
	memset(a.ip, 0, sizeof(a.ip));
	a.family = AF_INET6;
	assert_int_equal(inet_pton(AF_INET6, ip, a.ip), 1);
	return a;
}

/* The number of the deciding rule; its verdict is checked on the way. */
static int decided(unsigned int verb, const char *prog, const char *path, const char *ip, uint16_t port)
{
	struct iw_addr a = at(ip, port);
	int rule = -2;
	bool iwarp = iw_policy_match(&p, verb, prog, path, &a, &rule);

	assert_int_equal(iwarp, rule < 0 ? true : p.rule[rule].iwarp);
	return rule;
}

#define CONNECT(ip, port) decided(IW_POLICY_CONNECT, "prog", "/usr/bin/prog", ip, port)
#define LISTEN(ip, port) decided(IW_POLICY_LISTEN, "prog", "/usr/bin/prog", ip, port)

static void empty(void **state)
{
	assert_int_equal(parse(""), 0);
	assert_int_equal(p.n, 0);
	assert_int_equal(parse("\n  # nothing\n\t\n#\n"), 0);
	assert_int_equal(p.n, 0);
	assert_int_equal(CONNECT("192.0.2.1", 80), -1);
}

static void first_match(void **state)
{
	assert_int_equal(parse("iwarp connect prog 10.0.0.0/8:6379\ntcp connect prog 10.0.0.0/8\niwarp both * *\r\ntcp both * *"), 0);
	assert_int_equal(p.n, 4);
	assert_int_equal(CONNECT("10.1.2.3", 6379), 0);
	assert_int_equal(CONNECT("10.1.2.3", 80), 1);
	assert_int_equal(CONNECT("11.1.2.3", 80), 2);
	assert_int_equal(LISTEN("10.1.2.3", 6379), 2);
}

static void verbs(void **state)
{
	assert_int_equal(parse("tcp listen * *\niwarp connect * *"), 0);
	assert_int_equal(LISTEN("192.0.2.1", 1), 0);
	assert_int_equal(CONNECT("192.0.2.1", 1), 1);
	assert_int_equal(parse("tcp connect * *"), 0);
	assert_int_equal(LISTEN("192.0.2.1", 1), -1);
	assert_int_equal(parse("tcp both * *"), 0);
	assert_int_equal(LISTEN("192.0.2.1", 1), 0);
	assert_int_equal(CONNECT("192.0.2.1", 1), 0);
}

/* What just fits, and one more. */
static void lengths(void **state)
{
	char program[200], line[400];

	memset(program, 'a', sizeof(program));
	for (size_t n = 120; n < sizeof(program); n++) {
		snprintf(line, sizeof(line), "tcp both %.*s *", (int)n, program);
		if (n < IW_POLICY_PROGRAM) {
			assert_int_equal(parse(line), 0);
			assert_int_equal(strlen(p.rule[0].program), n);
		} else {
			assert_int_equal(parse(line), -EINVAL);
			assert_non_null(strstr(err, n < 160 ? "the program pattern is too long" : "a field is too long"));
		}
	}
}

static void addresses(void **state)
{
	assert_int_equal(parse("tcp connect * 192.0.2.0/25"), 0);
	assert_int_equal(CONNECT("192.0.2.127", 1), 0);
	assert_int_equal(CONNECT("192.0.2.128", 1), -1);
	assert_int_equal(parse("tcp connect * 0.0.0.0/0"), 0);
	assert_int_equal(CONNECT("198.51.100.7", 1), 0);
	assert_int_equal(CONNECT("2001:db8::1", 1), -1);
	assert_int_equal(parse("tcp connect * [2001:db8::ffff]/33:80"), 0);
	assert_int_equal(CONNECT("2001:db8:7fff::1", 80), 0);
	assert_int_equal(CONNECT("2001:db8:8000::1", 80), -1);
	assert_int_equal(parse("tcp connect * [::]/0"), 0);
	assert_int_equal(CONNECT("192.0.2.1", 1), 0);	/* IPv4 is IPv4-mapped IPv6 */
	assert_int_equal(parse("tcp connect * [::ffff:192.0.2.1]"), 0);
	assert_int_equal(CONNECT("192.0.2.1", 1), 0);
	assert_int_equal(parse("tcp connect * 192.0.2.1"), 0);
	assert_int_equal(CONNECT("192.0.2.2", 1), -1);
}

static void ports(void **state)
{
	assert_int_equal(parse("tcp connect * *:22,80-90,65535"), 0);
	assert_int_equal(CONNECT("192.0.2.1", 22), 0);
	assert_int_equal(CONNECT("192.0.2.1", 79), -1);
	assert_int_equal(CONNECT("192.0.2.1", 80), 0);
	assert_int_equal(CONNECT("192.0.2.1", 90), 0);
	assert_int_equal(CONNECT("192.0.2.1", 91), -1);
	assert_int_equal(CONNECT("2001:db8::1", 65535), 0);
	assert_int_equal(parse("tcp connect * *:*"), 0);
	assert_int_equal(CONNECT("192.0.2.1", 1), 0);
}

static void programs(void **state)
{
	static const struct { const char *pattern; bool match; } t[] = {
		{ "prog", true }, { "pro", false }, { "progs", false }, { "*", true }, { "p*g", true }, { "p?og", true }, { "?", false },
		{ "*o*", true }, { "**g", true }, { "prog*", true }, { "prog**", true }, { "pr*o**", true },
		{ "prog*?", false },
		{ "p*r*g", true }, { "*g*g", false }, { "*x*", false }, { "/usr/bin/prog", true }, { "/usr/*", true }, { "*/prog", true },
		{ "/bin/prog", false },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		char line[64];

		snprintf(line, sizeof(line), "tcp both %s *", t[i].pattern);
		assert_int_equal(parse(line), 0);
		assert_int_equal(CONNECT("192.0.2.1", 1), t[i].match ? 0 : -1);
	}
	assert_int_equal(parse("tcp both /usr/bin/prog *"), 0);
	assert_int_equal(decided(IW_POLICY_CONNECT, "prog", NULL, "192.0.2.1", 1), -1);
}

static void refused(void **state)
{
	static const struct { const char *text, *says; } t[] = {
		{ "udp both * *", "f.conf:1: a rule begins with 'iwarp' or 'tcp'" },
		{ "# ok\niwarp both * *\niwarp", "f.conf:3: missing: 'connect', 'listen' or 'both'" },
		{ "iwarp both", "f.conf:1: missing: a program" },
		{ "iwarp both *", "f.conf:1: missing: an address" },
		{ "iwarp client * *", "f.conf:1: the second field is" },
		{ "iwarp both * * *", "f.conf:1: too many fields" },
		{ "iwarp both * 10.0.0.0/33", "f.conf:1: bad prefix; accepted is 0 to 32" },
		{ "iwarp both * [::]/129", "f.conf:1: bad prefix; accepted is 0 to 128" },
		{ "iwarp both * 10.0.0/8", "f.conf:1: bad address" },
		{ "iwarp both * 2001:db8::1", "f.conf:1: bad address" },
		{ "iwarp both * [10.0.0.1]", "f.conf:1: bad address" },
		{ "iwarp both * [::1", "f.conf:1: bad address" },
		{ "iwarp both * host.example", "f.conf:1: bad address" },
		{ "iwarp both * *x", "f.conf:1: bad address" },
		{ "iwarp both * *:", "f.conf:1: bad port" },
		{ "iwarp both * *:65536", "f.conf:1: bad port" },
		{ "iwarp both * *:90-80", "f.conf:1: bad port" },
		{ "iwarp both * *:80,", "f.conf:1: bad port" },
		{ "iwarp both * *:80;81", "f.conf:1: bad port list" },
		{ "iwarp both * *:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "f.conf:1: too many ports" },
		{ "iwarp both * 10.0.0.1/", "f.conf:1: bad prefix" },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_int_equal(parse(t[i].text), -EINVAL);
		if (strncmp(err, t[i].says, strlen(t[i].says)))
			fail_msg("%s: \"%s\" instead of \"%s\"", t[i].text, err, t[i].says);
	}
	assert_int_equal(iw_policy_parse(&p, "iwarp\0both", 10, "f.conf", err, sizeof(err)), -EINVAL);
	assert_int_equal(iw_policy_parse(&p, "x", 1, "f.conf", NULL, 0), -EINVAL);
}

static void too_many(void **state)
{
	static char text[(IW_POLICY_RULES + 1) * 16];
	char *s = text;

	for (unsigned int i = 0; i <= IW_POLICY_RULES; i++)
		s = stpcpy(s, "tcp both * *\n");
	assert_int_equal(parse(text), -EINVAL);
	assert_non_null(strstr(err, ":257: too many rules"));
	assert_int_equal(p.n, IW_POLICY_RULES);
}

/* Whatever comes in, the parser ends and what it accepted stays within bounds. */
static void noise(void **state)
{
	static const char set[] = "iwarptcp both connect listen *?/:[]-,0123456789abcdef.#\n\n\t  ";
	const char *given = getenv("IW_SEED");
	unsigned int seed = given ? (unsigned int)strtoul(given, NULL, 0) : (unsigned int)time(NULL);
	char text[400];

	print_message("# IW_SEED=%u\n", seed);
	srand(seed);
	for (int i = 0; i < 20000; i++) {
		size_t len = (size_t)rand() % sizeof(text);

		for (size_t j = 0; j < len; j++)
			text[j] = set[(size_t)rand() % (sizeof(set) - 1)];
		if (i % 2 && len > 20)
			memcpy(text, "iwarp both * 10.0.0.", 20);
		iw_policy_parse(&p, text, len, "noise", err, sizeof(err));
		assert_true(p.n <= IW_POLICY_RULES);
		for (unsigned int r = 0; r < p.n; r++)
			assert_true(p.rule[r].prefix <= 128 && p.rule[r].nports <= IW_POLICY_PORTS);
		if (p.n)
			CONNECT("10.0.0.1", (uint16_t)rand());
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty), cmocka_unit_test(first_match), cmocka_unit_test(verbs), cmocka_unit_test(lengths),
		cmocka_unit_test(addresses), cmocka_unit_test(ports), cmocka_unit_test(programs), cmocka_unit_test(refused),
		cmocka_unit_test(too_many), cmocka_unit_test(noise),
	};

	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
