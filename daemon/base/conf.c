// SPDX-License-Identifier: MIT
/* Reads iwarpd.conf: one table of keys, each with its kind, range and a sentence for error messages. */
#include "conf.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "proto/addr.h"

struct conf conf;

enum kind { K_UINT, K_U16, K_U32, K_U64, K_POW2, K_BOOL, K_GO, K_MAP, K_PROVIDER, K_NAME, K_PATH, K_PREFIX, K_LEVEL };

static const struct key {
	const char *name;
	enum kind kind;
	size_t off, size;
	uint64_t min, max;
	const char *accepts;
} keys[] = {
#define F(f) offsetof(struct conf, f), sizeof(((struct conf *)0)->f)
	{ "run_dir", K_PATH, F(rundir), 0, 0, "an absolute path of at most 90 octets" },
	{ "control_port", K_U16, F(control_port), 1, 65535, "a TCP port, 1 to 65535" },
	{ "trust_high_port", K_BOOL, F(accept_high_port), 0, 0, "yes or no" },
	{ "answer_timeout", K_UINT, F(answer_timeout), 1, 1000, "milliseconds, 1 to 1000" },
	{ "join_namespaces", K_BOOL, F(join_namespaces), 0, 0, "yes or no" },
	{ "go", K_GO, F(go_at_once), 0, 0, "matched or at-once" },
	{ "negative_cache", K_UINT, F(negative_ttl), 1, 86400, "seconds, 1 to 86400" },
	{ "startup_timeout", K_UINT, F(startup_timeout), 100, 60000, "milliseconds, 100 to 60000" },
	{ "close_timeout", K_UINT, F(close_timeout), 100, 60000, "milliseconds, 100 to 60000" },
	{ "crc", K_BOOL, F(crc), 0, 0, "on or off" },
	{ "large_fpdu", K_BOOL, F(large_fpdu), 0, 0, "on or off" },
	{ "keep_congestion", K_BOOL, F(keep_congestion), 0, 0, "yes or no" },
	{ "map", K_MAP, F(map), 0, 0, "yes, no or restless" },
	{ "provider", K_PROVIDER, F(provider), 0, 0, "soft or auto" },
	{ "device", K_NAME, F(device), 0, 0, "the name of an RDMA device as 'iwctl devices' shows it, or a pattern such as mlx5_*, of at most 63 octets" },
	{ "markers", K_BOOL, F(markers), 0, 0, "on or off" },
	{ "ring_size", K_POW2, F(ring_size), 64 << 10, 64 << 20, "a power of two from 64K to 64M" },
	{ "inline_max", K_U32, F(inline_max), 0, 32768, "octets, 0 to 32768" },
	{ "read_threshold", K_U32, F(srcavail_min), 0, 1u << 30, "octets, 0 (never) to 1G" },
	{ "max_ird", K_UINT, F(max_ird), 1, 32, "1 to 32" },
	{ "max_ord", K_UINT, F(max_ord), 1, 32, "1 to 32" },
	{ "max_streams", K_UINT, F(max_streams), 0, 1u << 24, "streams per user, 0 to 16777216" },
	{ "max_memory", K_U64, F(max_memory), 0, UINT64_C(1) << 48, "octets per user, for example 4G" },
	{ "max_stags", K_UINT, F(max_stags), 0, 1u << 30, "STags per user, 0 to 1G" },
	{ "max_reads", K_UINT, F(max_reads), 0, 1u << 30, "Read slots per user, 0 to 1G" },
	{ "max_cq_entries", K_UINT, F(max_cq_entries), 0, 1u << 30, "completion queue entries per user, 0 to 1G" },
	{ "hide_stag_errors", K_BOOL, F(hide_stag_errors), 0, 0, "yes or no" },
	{ "allow", K_PREFIX, F(allow), 0, 0, "up to 32 prefixes such as 192.0.2.0/24 or 2001:db8::/32, divided by blanks" },
	{ "require_ipsec", K_BOOL, F(require_ipsec), 0, 0, "yes or no" },
	{ "log_level", K_LEVEL, F(log_level), 0, 0, "err, warning, info or debug" },
#undef F
};

void conf_default(struct conf *c)
{
	*c = (struct conf){
		.control_port = 874, .answer_timeout = 20, .negative_ttl = 60, .startup_timeout = 5000,
		.close_timeout = 5000, .crc = true, .large_fpdu = true, .map = CONF_MAP_YES, .device = "*", .ring_size = 1 << 20, .inline_max = 512,
		.srcavail_min = 256 << 10, .max_ird = 16, .max_ord = 16, .max_streams = 16384, .max_memory = UINT64_C(64) << 30,
		.max_stags = 256 << 10, .max_reads = 1 << 20, .max_cq_entries = 16 << 20,
		.log_level = LOG_INFO,
	};
}

/* A number with an optional K, M or G (1024-based). */
static int parse_number(const char *s, uint64_t *out)
{
	char *end;
	unsigned int shift = 0;
	unsigned long long v;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, 10);
	if (errno)
		return -EINVAL;
	if (*end == 'K' || *end == 'k')
		shift = 10;
	else if (*end == 'M' || *end == 'm')
		shift = 20;
	else if (*end == 'G' || *end == 'g')
		shift = 30;
	if (shift)
		end++;
	if (*end || v > UINT64_MAX >> shift)
		return -EINVAL;
	*out = (uint64_t)v << shift;
	return 0;
}

static int parse_bool(const char *s, bool *out)
{
	if (!strcasecmp(s, "yes") || !strcasecmp(s, "on") || !strcasecmp(s, "true") || !strcmp(s, "1"))
		*out = true;
	else if (!strcasecmp(s, "no") || !strcasecmp(s, "off") || !strcasecmp(s, "false") || !strcmp(s, "0"))
		*out = false;
	else
		return -EINVAL;
	return 0;
}

static int parse_go(const char *s, bool *at_once)
{
	bool yes = !strcasecmp(s, "at-once");

	if (!yes && strcasecmp(s, "matched"))
		return -EINVAL;
	*at_once = yes;
	return 0;
}

static int parse_map(const char *s, enum conf_map *out)
{
	bool yes;

	if (!strcasecmp(s, "restless")) {
		*out = CONF_MAP_RESTLESS;
		return 0;
	}
	if (parse_bool(s, &yes))
		return -EINVAL;
	*out = yes ? CONF_MAP_YES : CONF_MAP_NO;
	return 0;
}

static int parse_provider(const char *s, enum conf_provider *out)
{
	bool by_device = !strcasecmp(s, "auto");

	if (!by_device && strcasecmp(s, "soft"))
		return -EINVAL;
	*out = by_device ? CONF_PROVIDER_AUTO : CONF_PROVIDER_SOFT;
	return 0;
}

static int parse_level(const char *s, int *out)
{
	static const struct { const char *name; int level; } levels[] = {
		{ "err", LOG_ERR }, { "error", LOG_ERR }, { "warning", LOG_WARNING }, { "warn", LOG_WARNING },
		{ "info", LOG_INFO }, { "debug", LOG_DEBUG },
	};

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		if (!strcasecmp(s, levels[i].name)) {
			*out = levels[i].level;
			return 0;
		}
	return -EINVAL;
}

static int parse_prefix(const char *s, struct conf_prefix *p)
{
	char addr[64];
	const char *slash = strchr(s, '/');
	size_t n = slash ? (size_t)(slash - s) : strlen(s);
	uint64_t len = 128, bits = 128;
	uint8_t v4[4];

	if (n >= sizeof(addr))
		return -EINVAL;
	memcpy(addr, s, n);
	addr[n] = 0;
	if (inet_pton(AF_INET, addr, v4) == 1) {
		iw_ip_from_v4(p->ip, v4);
		bits = 32;
	} else if (inet_pton(AF_INET6, addr, p->ip) != 1) {
		return -EINVAL;
	}
	if (slash && (parse_number(slash + 1, &len) || len > bits))
		return -EINVAL;
	p->len = (uint8_t)(slash ? len + (128 - bits) : 128);
	for (unsigned int i = p->len; i < 128; i++)
		if (p->ip[i / 8] & (0x80 >> i % 8))
			return -EDOM;
	return 0;
}

static int parse_prefixes(struct conf *c, const char *value)
{
	char buf[2048], *save = NULL;
	int ret = -EINVAL;

	if (strlen(value) >= sizeof(buf))
		return -EINVAL;
	strcpy(buf, value);
	for (char *w = strtok_r(buf, " \t,", &save); w; w = strtok_r(NULL, " \t,", &save)) {
		if (c->nallow == sizeof(c->allow) / sizeof(c->allow[0]))
			return -EINVAL;
		ret = parse_prefix(w, &c->allow[c->nallow]);
		if (ret)
			return ret;
		c->nallow++;
	}
	return ret;
}

static int set_number(void *field, const struct key *k, const char *value)
{
	uint64_t v;

	if (parse_number(value, &v) || v < k->min || v > k->max)
		return -EINVAL;
	if (k->kind == K_POW2 && v & (v - 1))
		return -EINVAL;
	switch (k->kind) {
	case K_U16:
		*(uint16_t *)field = (uint16_t)v;
		break;
	case K_U64:
		*(uint64_t *)field = v;
		break;
	case K_UINT:
		*(unsigned int *)field = (unsigned int)v;
		break;
	default:
		*(uint32_t *)field = (uint32_t)v;
	}
	return 0;
}

static int set_value(struct conf *c, const struct key *k, const char *value)
{
	void *field = (char *)c + k->off;

	switch (k->kind) {
	case K_BOOL:
		return parse_bool(value, field);
	case K_GO:
		return parse_go(value, field);
	case K_MAP:
		return parse_map(value, field);
	case K_PROVIDER:
		return parse_provider(value, field);
	case K_LEVEL:
		return parse_level(value, field);
	case K_PREFIX:
		return parse_prefixes(c, value);
	case K_NAME:
		if (!*value || strlen(value) >= sizeof(c->device) || strpbrk(value, "/ \t"))
			return -EINVAL;
		memset(field, 0, k->size);
		strcpy(field, value);
		return 0;
	case K_PATH:
		if (value[0] != '/' || strlen(value) > 90)	/* sun_path holds 108 with the socket's name */
			return -EINVAL;
		strcpy(field, value);
		return 0;
	default:
		return set_number(field, k, value);
	}
}

int conf_set(struct conf *c, const char *key, const char *value, char *err, size_t errlen)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		int ret;

		if (strcmp(keys[i].name, key))
			continue;
		ret = set_value(c, &keys[i], value);
		if (ret == -EDOM)
			snprintf(err, errlen, "%s = %s: bits are set behind the prefix length", key, value);
		else if (ret)
			snprintf(err, errlen, "%s = %s: not accepted; give %s", key, value, keys[i].accepts);
		return ret ? -EINVAL : 0;
	}
	snprintf(err, errlen, "%s: no such key; see iwarpd.conf(5)", key);
	return -EINVAL;
}

static char *trim(char *s)
{
	char *e;

	s += strspn(s, " \t\r\n");
	e = s + strlen(s);
	while (e > s && strchr(" \t\r\n", e[-1]))
		*--e = 0;
	return s;
}

static int conf_line(struct conf *c, char *line, char *err, size_t errlen)
{
	char *hash = strchr(line, '#'), *key, *eq;

	if (hash)
		*hash = 0;
	key = trim(line);
	if (!*key)
		return 0;
	eq = strchr(key, '=');
	if (!eq) {
		snprintf(err, errlen, "%s: a line is 'key = value'", key);
		return -EINVAL;
	}
	*eq = 0;
	return conf_set(c, trim(key), trim(eq + 1), err, errlen);
}

/* Nobody runs what others may rewrite (SEC-R12): settings are root's, or of the user who runs this. */
static int conf_safe(int fd, const char *path, char *err, size_t errlen)
{
	struct stat st;

	if (fstat(fd, &st))
		snprintf(err, errlen, "%s: %s", path, strerror(errno));
	else if (st.st_uid && st.st_uid != geteuid())
		snprintf(err, errlen, "%s belongs to user %u, not to root: refused", path, (unsigned int)st.st_uid);
	else if (st.st_mode & (S_IWGRP | S_IWOTH))
		snprintf(err, errlen, "%s is writable by group or others: refused; chmod go-w %s", path, path);
	else
		return 0;
	return -EPERM;
}

int conf_read(struct conf *c, const char *path, char *err, size_t errlen)
{
	char line[4096], why[2600];
	FILE *f = fopen(path, "re");
	unsigned int no = 0;
	int ret = 0;

	if (!f) {
		ret = -errno;
		snprintf(err, errlen, "%s: %s", path, strerror(-ret));
		return ret;
	}
	ret = conf_safe(fileno(f), path, err, errlen);
	while (!ret && fgets(line, sizeof(line), f)) {
		no++;
		if (!strchr(line, '\n') && !feof(f)) {
			ret = -EINVAL;
			snprintf(why, sizeof(why), "line too long; at most %zu octets", sizeof(line) - 2);
		} else {
			ret = conf_line(c, line, why, sizeof(why));
		}
		if (ret)
			snprintf(err, errlen, "%s:%u: %s", path, no, why);
	}
	if (!ret && ferror(f)) {
		ret = -EIO;
		snprintf(err, errlen, "%s: cannot be read", path);
	}
	fclose(f);
	return ret;
}

/* ---- another one while the daemon runs ---- */

static bool same(const struct key *k, const struct conf *a, const struct conf *b)
{
	const char *x = (const char *)a + k->off, *y = (const char *)b + k->off;

	if (k->kind == K_PATH)
		return !strcmp(x, y);
	return !memcmp(x, y, k->size) && (k->kind != K_PREFIX || a->nallow == b->nallow);
}

/* What was made of it at start stays. */
static bool fixed(const struct key *k)
{
	return k->off == offsetof(struct conf, rundir) || k->off == offsetof(struct conf, control_port);
}

static void name_add(char *list, size_t len, const char *name)
{
	size_t n = strlen(list);

	snprintf(list + n, len - n, "%s%s", n ? ", " : "", name);
}

void conf_renew(struct conf *c, const struct conf *to, char changed[CONF_NAMES], char stays[CONF_NAMES])
{
	struct conf now = *to;

	*changed = *stays = 0;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct key *k = &keys[i];

		if (same(k, c, to))
			continue;
		name_add(fixed(k) ? stays : changed, CONF_NAMES, k->name);
		if (fixed(k))
			memcpy((char *)&now + k->off, (const char *)c + k->off, k->size);
	}
	*c = now;
}

bool conf_allowed(const struct conf *c, const uint8_t ip[16])
{
	for (unsigned int i = 0; i < c->nallow; i++)
		if (iw_prefix_has(c->allow[i].ip, c->allow[i].len, ip))
			return true;
	return !c->nallow;
}
