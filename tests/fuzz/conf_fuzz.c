// SPDX-License-Identifier: MIT
/* libFuzzer: iwarpd.conf as a file and key by key, and the rules of iwsock.conf. */
#include "fuzz.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/conf.h"
#include "proto/policy.h"

static void sane(const struct conf *c)
{
	must(c->control_port && c->answer_timeout >= 1 && c->answer_timeout <= 1000);
	must(c->negative_ttl >= 1 && c->negative_ttl <= 86400 && c->startup_timeout >= 100 && c->close_timeout >= 100);
	must(c->ring_size >= 65536 && c->ring_size <= 64u << 20 && !(c->ring_size & (c->ring_size - 1)));
	must(c->inline_max <= 32768 && c->srcavail_min <= 1u << 30 && c->max_memory <= UINT64_C(1) << 48);
	must(c->max_ird >= 1 && c->max_ird <= 32 && c->max_ord >= 1 && c->max_ord <= 32 && c->nallow <= 32);
	must(memchr(c->rundir, 0, 91) && (!c->rundir[0] || c->rundir[0] == '/'));
	for (unsigned int i = 0; i < c->nallow; i++)
		must(c->allow[i].len <= 128);
	conf_allowed(c, (const uint8_t *)"\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1");
}

static void file(const uint8_t *p, size_t n)
{
	static int fd = -1;
	char err[3000], path[64];
	struct conf c;
	int ret;

	if (fd < 0) {
		fd = memfd_create("conf", MFD_CLOEXEC);
		must(!fchmod(fd, 0600));	/* one that others may write is refused */
	}
	must(fd >= 0 && !ftruncate(fd, 0) && pwrite(fd, p, n, 0) == (ssize_t)n);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	conf_default(&c);
	memset(err, 'x', sizeof(err));
	ret = conf_read(&c, path, err, sizeof(err));
	must(!ret || (ret == -EINVAL && memchr(err, 0, sizeof(err)) && strchr(err, ':')));
	sane(&c);
}

static void one_key(const uint8_t *p, size_t n)
{
	char *key = strndup((const char *)p, n), *value = key ? strchr(key, '=') : NULL, err[64];
	struct conf c;

	must(key);
	conf_default(&c);
	if (value) {
		*value++ = 0;
		memset(err, 'x', sizeof(err));
		must(!conf_set(&c, key, value, err, sizeof(err)) || memchr(err, 0, sizeof(err)));
	}
	sane(&c);
	free(key);
}

static void sane_limits(const struct iw_upgrade_limits *l)
{
	must(l->calls <= IW_UPGRADE_MAX || l->calls == IW_UPGRADE_NEVER);
	must(l->octets <= IW_UPGRADE_MAX || l->octets == IW_UPGRADE_NEVER);
	must((l->calls & l->octets) != IW_UPGRADE_NEVER);
}

static void sane_upgrade(const struct iw_upgrade *u)
{
	sane_limits(&u->after);
	sane_limits(&u->far);
	must(u->wait_ms <= IW_UPGRADE_WAIT_MAX);
}

static void policy(const uint8_t *p, size_t n)
{
	static const struct iw_addr addr[] = {
		{ .ip = { [10] = 0xff, [11] = 0xff, 10, 1, 2, 3 }, .port = 80, .family = 2 }, { .ip = { 0x20, 0x01, 0x0d, 0xb8 }, .port = 65535, .family = 10 },
	};
	static struct iw_policy pol;
	char *text = malloc(n ? n : 1), err[200];
	int rule;

	must(text);
	memcpy(text, p, n);
	memset(err, 'x', sizeof(err));
	must(!iw_policy_parse(&pol, text, n, "f", err, sizeof(err)) || memchr(err, 0, sizeof(err)));
	must(pol.n <= IW_POLICY_RULES);
	sane_upgrade(&pol.upgrade);
	for (unsigned int i = 0; i < pol.n; i++)
		sane_upgrade(&pol.rule[i].upgrade);
	for (unsigned int i = 0; i < pol.n; i++)
		must(pol.rule[i].nports <= IW_POLICY_PORTS && pol.rule[i].prefix <= 128 && memchr(pol.rule[i].program, 0, IW_POLICY_PROGRAM));
	for (unsigned int i = 0; i < 4; i++) {
		iw_policy_match(&pol, 1 + i / 2, "nginx", i & 1 ? "/usr/sbin/nginx" : NULL, &addr[i % 2], &rule);
		must(rule >= -1 && rule < (int)pol.n);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size || size > 9000)
		return 0;
	switch (data[0] % 3) {
	case 0:
		file(data + 1, size - 1);
		break;
	case 1:
		one_key(data + 1, size - 1);
		break;
	default:
		policy(data + 1, size - 1);
	}
	return 0;
}
