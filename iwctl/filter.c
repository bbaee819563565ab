// SPDX-License-Identifier: MIT
/* Which connections of a list are meant: --filter. */
#include "filter.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iwctl.h"
#include "out.h"
#include "proto/reason.h"
#include "user.h"

static int take_program(struct filter *f, const char *s)
{
	f->program = s;
	return IWCTL_OK;
}

static int take_peer(struct filter *f, const char *s)
{
	f->by_peer = true;
	return iwctl_place_parse(s, "HOST nor HOST:PORT", &f->peer);
}

static int take_port(struct filter *f, const char *s)
{
	char *end;
	unsigned long v = strtoul(s, &end, 10);

	if (*s < '0' || *s > '9' || *end || v < 1 || v > 65535) {
		iwctl_error("--filter port=%s: give a port, 1 to 65535", s);
		return IWCTL_USAGE;
	}
	f->port = (uint16_t)v;
	return IWCTL_OK;
}

static int take_user(struct filter *f, const char *s)
{
	f->by_user = true;
	return iwctl_user("--filter user:", s, &f->uid);
}

static int take_transport(struct filter *f, const char *s)
{
	static const char *const known[] = { "iwarp", "local", "pending", "tcp" };

	f->transport = s;
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!strcmp(s, known[i]))
			return IWCTL_OK;
	iwctl_error("--filter transport=%s: a transport is iwarp, local, pending or tcp", s);
	return IWCTL_USAGE;
}

static int take_reason(struct filter *f, const char *s)
{
	f->reason = s;
	if (s[strspn(s, "0123456789")] == 0 || !strncmp(s, "reason-", 7))
		return IWCTL_OK;
	for (unsigned int r = 0; r < IW_REASON_MAX; r++)
		if (iw_reason_known(r) && !strcmp(s, iw_reason_name(r)))
			return IWCTL_OK;
	iwctl_error("--filter reason=%s: there is no such reason; 'iwctl reasons' shows them", s);
	return IWCTL_USAGE;
}

static const struct { const char *key; int (*take)(struct filter *f, const char *s); } keys[] = {
	{ "program", take_program }, { "peer", take_peer }, { "port", take_port }, { "user", take_user }, { "transport", take_transport },
	{ "reason", take_reason },
};

static int take(struct filter *f, char *term)
{
	char *value = strchr(term, '=');

	if (value)
		*value++ = 0;
	for (size_t i = 0; value && *value && i < sizeof(keys) / sizeof(*keys); i++)
		if (!strcmp(term, keys[i].key))
			return keys[i].take(f, value);
	if (value && !*value)
		iwctl_error("--filter %s=: a value is missing", term);
	else
		iwctl_error("--filter: there is no \"%s=\"; there are %s", term, FILTER_KEYS);
	return IWCTL_USAGE;
}

int filter_add(struct filter *f, char *s)
{
	char *rest = s, *term;
	int code = IWCTL_OK;

	while (code == IWCTL_OK && (term = strsep(&rest, ",")))
		code = take(f, term);
	return code;
}

static bool has_port(const json_t *c, const char *key, uint16_t port)
{
	char host[IWCTL_HOST_MAX];
	uint16_t p;

	return iwctl_split_addr(iwctl_str(c, key, ""), host, &p) && p == port;
}

/* Its name or its number. */
static bool has_reason(const json_t *c, const char *reason)
{
	char number[24];

	snprintf(number, sizeof(number), "%llu", (unsigned long long)iwctl_num(c, "reason_number"));
	return !strcmp(iwctl_str(c, "reason", ""), reason) || !strcmp(number, reason);
}

bool filter_takes(const struct filter *f, const json_t *c)
{
	return (!f->program || !fnmatch(f->program, iwctl_str(c, "program", ""), 0)) &&
	       (!f->by_peer || iwctl_place_matches(&f->peer, iwctl_str(c, "peer", NULL))) &&
	       (!f->port || has_port(c, "local", f->port) || has_port(c, "peer", f->port)) &&
	       (!f->by_user || (int64_t)iwctl_num(c, "uid") == f->uid) &&
	       (!f->transport || !strcmp(iwctl_str(c, "transport", ""), f->transport)) && (!f->reason || has_reason(c, f->reason));
}
