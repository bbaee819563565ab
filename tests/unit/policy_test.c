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
		{ "udp both * *", "f.conf:1: a line begins with 'iwarp', 'tcp', 'upgrade_after', 'upgrade_after_far', 'upgrade_wait', 'burst', 'rings' or 'spin'" },
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
		{ "upgrade_after=0", "f.conf:1: a line begins with" },
		{ "upgrade_after", "f.conf:1: bad limits of upgrade_after" },
		{ "\nupgrade_after # 0", "f.conf:2: bad limits of upgrade_after" },
		{ "upgrade_after = 0", "f.conf:1: bad limits of upgrade_after" },
		{ "upgrade_after calls", "f.conf:1: bad limits of upgrade_after" },
		{ "upgrade_after 12 calls 13 calls", "f.conf:1: bad limits of upgrade_after" },
		{ "upgrade_after 12K 13K", "f.conf:1: bad limits of upgrade_after" },
		{ "upgrade_after 12KB", "f.conf:1: bad limits of upgrade_after" },
		{ "upgrade_after 12T", "f.conf:1: bad limits of upgrade_after" },
		{ "upgrade_after 1073741825", "f.conf:1: bad limits of upgrade_after" },
		{ "upgrade_after 2G", "f.conf:1: bad limits of upgrade_after" },
		{ "upgrade_after 99999999999999999999 calls", "f.conf:1: bad limits of upgrade_after" },
		{ "upgrade_after never", "f.conf:1: bad limits of upgrade_after" },
		{ "upgrade_after 128K octets", "f.conf:1: what does this field say?" },
		{ "upgrade_after 1 calls calls", "f.conf:1: what does this field say?" },
		{ "upgrade_after 1 calls iwarp both * *", "f.conf:1: what does this field say?" },
		{ "upgrade_after 0\nupgrade_after 0", "f.conf:2: upgrade_after is here for the second time" },
		{ "upgrade_after_far 0\nupgrade_after_far 0", "f.conf:2: upgrade_after_far is here for the second time" },
		{ "upgrade_after_far soon", "f.conf:1: bad limits of upgrade_after" },
		{ "upgrade_after_farther 0", "f.conf:1: a line begins with" },
		{ "upgrade_wait 0\niwarp both * * upgrade_wait 1 upgrade_wait 1", "f.conf:2: upgrade_wait is here for the second time" },
		{ "upgrade_wait", "f.conf:1: bad upgrade_wait" },
		{ "upgrade_wait 10001", "f.conf:1: bad upgrade_wait" },
		{ "upgrade_wait 1s", "f.conf:1: bad upgrade_wait" },
		{ "upgrade_wait -1", "f.conf:1: bad upgrade_wait" },
		{ "burst", "f.conf:1: bad burst; accepted are yes and no" },
		{ "burst on", "f.conf:1: bad burst" },
		{ "burst no no", "f.conf:1: bad burst" },
		{ "rings", "f.conf:1: bad rings; accepted are yes, always and no" },
		{ "rings on", "f.conf:1: bad rings" },
		{ "spin", "f.conf:1: bad spin; accepted are adaptive, always and no" },
		{ "spin yes", "f.conf:1: bad spin" },
		{ "spin no no", "f.conf:1: bad spin" },
		{ "iwarp both * * burst no", "f.conf:1: too many fields" },
		{ "iwarp both * * upgrade_after", "f.conf:1: bad limits of upgrade_after" },
		{ "iwarp both * * after 0", "f.conf:1: too many fields" },
		{ "tcp both * * upgrade_after 0", "f.conf:1: a tcp rule upgrades nothing" },
		{ "tcp both * *\ntcp both * * upgrade_wait 5", "f.conf:2: a tcp rule upgrades nothing" },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_int_equal(parse(t[i].text), -EINVAL);
		if (strncmp(err, t[i].says, strlen(t[i].says)))
			fail_msg("%s: \"%s\" instead of \"%s\"", t[i].text, err, t[i].says);
	}
	assert_int_equal(iw_policy_parse(&p, "iwarp\0both", 10, "f.conf", err, sizeof(err)), -EINVAL);
	assert_int_equal(iw_policy_parse(&p, "upgrade_after 1 \0", 17, "f.conf", err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "NUL"));
	assert_int_equal(iw_policy_parse(&p, "iwarp both * * upgrade_wait 1 \0", 31, "f.conf", err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "NUL"));
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

static void is_limits(const struct iw_upgrade_limits *l, uint32_t calls, uint32_t octets)
{
	assert_int_equal(l->calls, calls);
	assert_int_equal(l->octets, octets);
}

static void is_upgrade(const struct iw_upgrade *u, uint32_t calls, uint32_t octets, uint32_t wait)
{
	is_limits(&u->after, calls, octets);
	assert_int_equal(u->wait_ms, wait);
}

/* When a connection is proposed: forms of the limits, and whose they are. */
static void upgrade(void **state)
{
	static const struct { const char *text; uint32_t calls, octets, wait; } t[] = {
		{ "", IW_UPGRADE_CALLS, IW_UPGRADE_OCTETS, 0 },
		{ "upgrade_after 0", IW_UPGRADE_NEVER, 0, 0 },
		{ "upgrade_after 0 calls", 0, IW_UPGRADE_NEVER, 0 },
		{ "upgrade_after 32 calls 128K", 32, 128 << 10, 0 },
		{ "upgrade_after 3m 1k calls", 1024, 3 << 20, 0 },
		{ "\tupgrade_after\t1 calls#", 1, IW_UPGRADE_NEVER, 0 },
		{ "upgrade_after 1G", IW_UPGRADE_NEVER, 1 << 30, 0 },
		{ "upgrade_after 1073741824 1G calls\r\nupgrade_wait 10000", 1 << 30, 1 << 30, 10000 },
		{ "upgrade_wait 0", IW_UPGRADE_CALLS, IW_UPGRADE_OCTETS, 0 },
		{ "upgrade_wait 7 upgrade_after 5", IW_UPGRADE_NEVER, 5, 7 },
		{ "upgrade_after 5 upgrade_wait 7", IW_UPGRADE_NEVER, 5, 7 },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_int_equal(parse(t[i].text), 0);
		is_upgrade(&p.upgrade, t[i].calls, t[i].octets, t[i].wait);
		if (t[i].calls != IW_UPGRADE_CALLS)
			is_limits(&p.upgrade.far, t[i].calls, t[i].octets);
		else
			is_limits(&p.upgrade.far, IW_UPGRADE_FAR_CALLS, IW_UPGRADE_FAR_OCTETS);
		assert_int_equal(p.n, 0);
	}
	assert_int_equal(parse("iwarp both * *"), 0);
	assert_true(p.burst);
	assert_int_equal(parse("burst no # none\niwarp both * *"), 0);
	assert_false(p.burst);
	assert_int_equal(p.rings, IW_RINGS_YES);
	assert_int_equal(parse("rings no"), 0);
	assert_int_equal(p.rings, IW_RINGS_NO);
	assert_int_equal(parse("rings always"), 0);
	assert_int_equal(p.rings, IW_RINGS_ALWAYS);
	assert_int_equal(parse("rings always no"), -EINVAL);
	assert_int_equal(p.spin, IW_SPIN_ADAPTIVE);
	assert_int_equal(parse("spin always"), 0);
	assert_int_equal(p.spin, IW_SPIN_ALWAYS);
	assert_int_equal(parse("spin no"), 0);
	assert_int_equal(p.spin, IW_SPIN_NO);
	assert_int_equal(parse("spin adaptive"), 0);
	assert_int_equal(p.spin, IW_SPIN_ADAPTIVE);
	assert_int_equal(parse("iwarp both * *\niwarp both a *:1 upgrade_after 0\niwarp both * * upgrade_wait 3 upgrade_after 9 calls 1K\n"
			       "iwarp both * * upgrade_wait 0\nupgrade_after 2K\ntcp both * *\nupgrade_wait 50"), 0);
	assert_int_equal(p.n, 5);
	is_upgrade(&p.rule[0].upgrade, IW_UPGRADE_NEVER, 2048, 50);
	is_upgrade(&p.rule[1].upgrade, IW_UPGRADE_NEVER, 0, 50);
	is_upgrade(&p.rule[2].upgrade, 9, 1024, 3);
	is_upgrade(&p.rule[3].upgrade, IW_UPGRADE_NEVER, 2048, 0);
	is_upgrade(&p.rule[4].upgrade, IW_UPGRADE_NEVER, 2048, 50);
	assert_int_equal(parse("upgrade_wait 50\niwarp both * *\nudp"), -EINVAL);
	is_upgrade(&p.rule[0].upgrade, IW_UPGRADE_CALLS, IW_UPGRADE_OCTETS, 50);
}

/* Limits of their own between two hosts: where nothing is said of them, those for all. */
static void far(void **state)
{
	static const char *const text[] = {
		"upgrade_after 7\nupgrade_after_far 9 calls\n", "upgrade_after_far 9 calls\nupgrade_after 7\n", "upgrade_after_far 9 calls upgrade_after 7\n",
	};
	char all[512];

	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
		snprintf(all, sizeof(all), "%siwarp both * *\niwarp both * * upgrade_after 3\niwarp both * * upgrade_after_far 5\n"
			 "iwarp both * * upgrade_after_far 5 upgrade_after 3\n", text[i]);
		assert_int_equal(parse(all), 0);
		is_limits(&p.upgrade.after, IW_UPGRADE_NEVER, 7);
		is_limits(&p.upgrade.far, 9, IW_UPGRADE_NEVER);
		is_limits(&p.rule[0].upgrade.after, IW_UPGRADE_NEVER, 7);
		is_limits(&p.rule[0].upgrade.far, 9, IW_UPGRADE_NEVER);
		is_limits(&p.rule[1].upgrade.after, IW_UPGRADE_NEVER, 3);
		is_limits(&p.rule[1].upgrade.far, IW_UPGRADE_NEVER, 3);
		is_limits(&p.rule[2].upgrade.after, IW_UPGRADE_NEVER, 7);
		is_limits(&p.rule[2].upgrade.far, IW_UPGRADE_NEVER, 5);
		is_limits(&p.rule[3].upgrade.after, IW_UPGRADE_NEVER, 3);
		is_limits(&p.rule[3].upgrade.far, IW_UPGRADE_NEVER, 5);
	}
	assert_int_equal(parse("upgrade_after_far 0"), 0);
	is_limits(&p.upgrade.after, IW_UPGRADE_CALLS, IW_UPGRADE_OCTETS);
	is_limits(&p.upgrade.far, IW_UPGRADE_NEVER, 0);
}

/* What lets a connection alone without a look at its rule. */
static void is_least(const char *program, const char *path, uint32_t calls, uint32_t octets)
{
	struct iw_upgrade_limits l = iw_policy_least(&p, program, path);

	is_limits(&l, calls, octets);
}

static void least(void **state)
{
	assert_int_equal(parse("upgrade_after 40 calls 40K\niwarp both prog *:1 upgrade_after 50 calls 30K\ntcp both prog *\n"
			       "iwarp listen /usr/bin/prog * upgrade_after 35 calls\niwarp both other * upgrade_after 0\n"
			       "iwarp both fourth * upgrade_after_far 7 calls"), 0);
	is_least("prog", "/usr/bin/prog", 35, 30 << 10);
	is_least("prog", NULL, 40, 30 << 10);
	is_least("other", NULL, 40, 0);
	is_least("third", "/usr/bin/third", 40, 40 << 10);
	is_least("fourth", NULL, 7, 40 << 10);
}

/* Whatever comes in, the parser ends and what it accepted stays within bounds. */
static void noise(void **state)
{
	static const char set[] = "iwarptcp both connect listen upgrade_after upgrade_wait burst rings spin no 1K calls *?/:[]-,0123456789abcdef.#\n\n\t  ";
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
			memcpy(text, i % 4 == 1 ? "iwarp both * 10.0.0." : "upgrade_after 1 call", 20);
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
		cmocka_unit_test(too_many), cmocka_unit_test(upgrade), cmocka_unit_test(far), cmocka_unit_test(least), cmocka_unit_test(noise),
	};

	return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
