/* SPDX-License-Identifier: MIT */
/* iwarpd.conf: every key, its limits, and error messages that name file, line and key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <syslog.h>
#include <unistd.h>

#include "daemon/base/conf.h"

static struct conf c;
static char err[3000];

static int defaults(void **state)
{
	conf_default(&c);
	err[0] = 0;
	return 0;
}

static int set(const char *key, const char *value)
{
	return conf_set(&c, key, value, err, sizeof(err));
}

static int read_text(const char *text)
{
	const char *tmp = getenv("TMPDIR");
	char path[300];
	int fd, ret;

	snprintf(path, sizeof(path), "%s/iwt-conf.XXXXXX", tmp ? tmp : "/tmp");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	ret = conf_read(&c, path, err, sizeof(err));
	unlink(path);
	return ret;
}

static void every_key(void **state)
{
	assert_int_equal(read_text("# comment\n\n run_dir = /run/x # why\ncontrol_port=4874\ntrust_high_port = yes\nanswer_timeout = 30\n"
				   "go = at-once\nnegative_cache = 5\nstartup_timeout = 1000\nclose_timeout = 1000\ncrc = off\n"
				   "large_fpdu = off\nkeep_congestion = yes\nmap = no\nprovider = auto\ndevice = mlx5_*\nmarkers = on\nring_size = 64K\ninline_max = 0\nread_threshold = 0\nmax_ird = 1\n"
				   "max_ord = 32\nrequire_ipsec = yes\nmax_streams = 10\nmax_memory = 1G\nallow = 10.0.0.0/8, 2001:db8::/32\nlog_level = debug"), 0);
	assert_string_equal(c.rundir, "/run/x");
	assert_int_equal(c.control_port, 4874);
	assert_true(c.accept_high_port);
	assert_true(c.require_ipsec);
	assert_int_equal(c.answer_timeout, 30);
	assert_true(c.go_at_once);
	assert_int_equal(c.negative_ttl, 5);
	assert_false(c.crc);
	assert_false(c.large_fpdu);
	assert_true(c.keep_congestion);
	assert_int_equal(c.map, CONF_MAP_NO);
	assert_int_equal(c.provider, CONF_PROVIDER_AUTO);
	assert_string_equal(c.device, "mlx5_*");
	assert_true(c.markers);
	assert_int_equal(c.ring_size, 65536);
	assert_int_equal(c.srcavail_min, 0);
	assert_int_equal(c.max_ord, 32);
	assert_int_equal(c.max_memory, 1 << 30);
	assert_int_equal(c.nallow, 2);
	assert_int_equal(c.log_level, LOG_DEBUG);
}

static void maps(void **state)
{
	conf_default(&c);
	assert_int_equal(c.map, CONF_MAP_YES);
	assert_int_equal(set("map", "Restless"), 0);
	assert_int_equal(c.map, CONF_MAP_RESTLESS);
	assert_int_equal(set("map", "on"), 0);
	assert_int_equal(c.map, CONF_MAP_YES);
}

static void refuses(const char *key, const char *value)
{
	struct conf before = c;

	err[0] = 0;
	assert_int_equal(set(key, value), -EINVAL);
	assert_non_null(strstr(err, key));
	if (strcmp(key, "allow"))
		assert_memory_equal(&before, &c, sizeof(c));
}

static void limits(void **state)
{
	static const char *const bad[][2] = {
		{ "control_port", "0" }, { "control_port", "65536" }, { "control_port", "-1" }, { "control_port", "" },
		{ "control_port", "80x" }, { "answer_timeout", "0" }, { "answer_timeout", "99999999999999999999" },
		{ "ring_size", "100000" }, { "ring_size", "32K" }, { "ring_size", "128M" }, { "crc", "maybe" }, { "map", "perhaps" }, { "provider", "verbs" }, { "device", "" }, { "device", "a b" }, { "device", "/x" }, { "max_ird", "33" },
		{ "log_level", "loud" }, { "run_dir", "relative" }, { "allow", "10.0.0.1/8" }, { "allow", "10.0.0.0/33" },
		{ "go", "now" }, { "go", "" }, { "allow", "host.example" }, { "allow", "" }, { "max_memory", "99999999999G" }, { "nonsense", "1" }, { "", "1" },
	};
	char path[200];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refuses(bad[i][0], bad[i][1]);
	memset(path, 'a', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = 0;
	refuses("run_dir", path);
}

static void messages(void **state)
{
	assert_int_equal(read_text("crc = on\n\ncontrol_port = eighty\n"), -EINVAL);
	assert_non_null(strstr(err, ":3: control_port = eighty: not accepted; give a TCP port, 1 to 65535"));
	assert_int_equal(read_text("crc\n"), -EINVAL);
	assert_non_null(strstr(err, ":1: crc: a line is 'key = value'"));
	assert_int_equal(read_text("crc = on\ncolour = red\n"), -EINVAL);
	assert_non_null(strstr(err, ":2: colour: no such key"));
	assert_int_equal(conf_read(&c, "/nonexistent/iwarpd.conf", err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, "/nonexistent/iwarpd.conf: "));
}

static void long_line(void **state)
{
	char text[6000];

	memset(text, 'a', sizeof(text));
	memcpy(text, "allow = ", 8);
	text[sizeof(text) - 2] = '\n';
	text[sizeof(text) - 1] = 0;
	assert_int_equal(read_text(text), -EINVAL);
	assert_non_null(strstr(err, ":1: line too long"));
}

static bool allowed(const char *text)
{
	uint8_t ip[16] = { [10] = 0xff, [11] = 0xff };

	if (inet_pton(AF_INET, text, ip + 12) != 1)
		assert_int_equal(inet_pton(AF_INET6, text, ip), 1);
	return conf_allowed(&c, ip);
}

static void prefixes(void **state)
{
	assert_true(allowed("192.0.2.1"));
	assert_int_equal(set("allow", "10.1.0.0/16 192.0.2.7 2001:db8:8000::/33"), 0);
	assert_true(allowed("10.1.255.255"));
	assert_false(allowed("10.2.0.0"));
	assert_true(allowed("192.0.2.7"));
	assert_false(allowed("192.0.2.8"));
	assert_true(allowed("2001:db8:ffff::1"));
	assert_false(allowed("2001:db8:7fff::1"));
	assert_int_equal(set("allow", "0.0.0.0/0"), 0);
	assert_true(allowed("203.0.113.1"));
	assert_false(allowed("2001:db8:7fff::1"));
}

/* Another file while the daemon runs. */
static void renewed(void **state)
{
	char changed[CONF_NAMES], stays[CONF_NAMES];
	struct conf d;

	conf_default(&d);
	conf_renew(&d, &c, changed, stays);
	assert_string_equal(changed, "");
	assert_string_equal(stays, "");
	assert_int_equal(read_text("run_dir = /run/x\ncontrol_port=4874\ntrust_high_port = yes\nanswer_timeout = 30\njoin_namespaces = yes\n"
				   "go = at-once\nnegative_cache = 5\nstartup_timeout = 1000\nclose_timeout = 1000\ncrc = off\n"
				   "large_fpdu = off\nkeep_congestion = yes\nmap = no\nprovider = auto\ndevice = mlx5_*\nmarkers = on\nring_size = 64K\ninline_max = 0\nread_threshold = 0\nmax_ird = 1\n"
				   "max_ord = 32\nmax_streams = 10\nmax_memory = 1G\nmax_stags = 1\nmax_reads = 2\nmax_cq_entries = 3\nhide_stag_errors = yes\n"
				   "allow = 10.0.0.0/8\nrequire_ipsec = yes\nlog_level = debug"), 0);
	conf_renew(&d, &c, changed, stays);
	assert_string_equal(changed, "trust_high_port, answer_timeout, join_namespaces, go, negative_cache, startup_timeout, close_timeout, crc, large_fpdu, "
			    "keep_congestion, map, provider, device, markers, ring_size, inline_max, read_threshold, max_ird, max_ord, max_streams, max_memory, max_stags, max_reads, "
			    "max_cq_entries, hide_stag_errors, allow, require_ipsec, log_level");
	assert_string_equal(stays, "run_dir, control_port");
	assert_string_equal(d.rundir, "");
	assert_int_equal(d.control_port, 874);
	memset(c.rundir, 0, sizeof(c.rundir));
	c.control_port = d.control_port;
	assert_memory_equal(&d, &c, sizeof(d));
	/* as many prefixes, others; and one more */
	assert_int_equal(set("allow", "10.0.0.0/8"), 0);
	conf_renew(&d, &c, changed, stays);
	assert_string_equal(changed, "allow");
	c.allow[1].len = 128 - 16;
	conf_renew(&d, &c, changed, stays);
	assert_string_equal(changed, "allow");
	assert_int_equal(d.nallow, 2);
}

/* The file that is installed must be read, and must say the defaults. */
static void installed_file(void **state)
{
	const char *top = getenv("IW_TOP");
	char path[500], line[500], key[64], value[200];
	struct conf d;
	unsigned int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/conf/iwarpd.conf", top ? top : ".");
	assert_int_equal(conf_read(&c, path, err, sizeof(err)), 0);
	conf_default(&d);
	assert_memory_equal(&c, &d, sizeof(c));
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "#%63[a-z_] = %199s", key, value) != 2)
			continue;
		n++;
		if (conf_set(&c, key, value, err, sizeof(err)))
			fail_msg("%s", err);
	}
	fclose(f);
	assert_true(n >= 16);
	assert_memory_equal(&c, &d, sizeof(c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(every_key, defaults), cmocka_unit_test_setup(maps, defaults), cmocka_unit_test_setup(limits, defaults),
		cmocka_unit_test_setup(messages, defaults), cmocka_unit_test_setup(long_line, defaults),
		cmocka_unit_test_setup(prefixes, defaults), cmocka_unit_test_setup(renewed, defaults), cmocka_unit_test_setup(installed_file, defaults),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
