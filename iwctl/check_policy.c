// SPDX-License-Identifier: MIT
/* iwctl check-policy: reads an iwsock.conf, names every line that is wrong, or shows the rules as they were understood. */
#include "check_policy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iwctl.h"
#include "out.h"

#define POLICY_MAX 65536u	/* the library reads no longer file */
#define ERRORS	   100u		/* that are named */

static char *slurp(const char *path, size_t *len)
{
	char *text = malloc(POLICY_MAX + 1);
	FILE *f = fopen(path, "re");

	if (!f || !text) {
		iwctl_error("%s: %s", path, strerror(errno));
		goto fail;
	}
	*len = fread(text, 1, POLICY_MAX + 1, f);
	if (ferror(f)) {
		iwctl_error("%s: %s", path, strerror(errno));
		goto fail;
	}
	if (*len > POLICY_MAX) {
		iwctl_error("%s: longer than %u octets", path, POLICY_MAX);
		goto fail;
	}
	fclose(f);
	return text;
fail:
	if (f)
		fclose(f);
	free(text);
	return NULL;
}

static const char *verbs(const struct iw_policy_rule *r)
{
	if (r->verbs == (IW_POLICY_CONNECT | IW_POLICY_LISTEN))
		return "both";
	return r->verbs == IW_POLICY_CONNECT ? "connect" : "listen";
}

static void address(const struct iw_policy_rule *r, char *s, size_t size)
{
	char ip[INET6_ADDRSTRLEN] = "*";
	int n;

	if (!r->any)
		inet_ntop(r->v4 ? AF_INET : AF_INET6, r->v4 ? r->ip + 12 : r->ip, ip, sizeof(ip));
	n = snprintf(s, size, r->any || r->v4 ? "%s" : "[%s]", ip);
	if (!r->any)
		n += snprintf(s + n, size - (size_t)n, "/%u", r->v4 ? r->prefix - 96u : r->prefix);
	for (unsigned int i = 0; i < r->nports; i++) {
		n += snprintf(s + n, size - (size_t)n, "%c%u", i ? ',' : ':', r->port[i].lo);
		if (r->port[i].hi != r->port[i].lo)
			n += snprintf(s + n, size - (size_t)n, "-%u", r->port[i].hi);
	}
}

/* The limits as they would stand behind upgrade_after. */
static const char *after(const struct iw_upgrade_limits *u, char *s, size_t size)
{
	static const char *const unit[] = { "", "K", "M", "G" };
	unsigned int i = 0, octets = u->octets;
	int n = 0;

	if (!u->calls || !u->octets)
		return "0";
	if (u->calls != IW_UPGRADE_NEVER)
		n = snprintf(s, size, "%u calls", u->calls);
	for (; octets % 1024 == 0 && i < 3; i++)
		octets /= 1024;
	if (u->octets != IW_UPGRADE_NEVER)
		snprintf(s + n, size - (size_t)n, "%s%u%s", n ? " " : "", octets, unit[i]);
	return s;
}
#define AFTER(u) after(u, (char[32]){ 0 }, 32)

/* And behind upgrade_after_far, where that is something else. */
static const char *both(const struct iw_upgrade *u, const char *between, char *s, size_t size)
{
	bool same = u->after.calls == u->far.calls && u->after.octets == u->far.octets;

	snprintf(s, size, same ? "%s" : "%s%s%s", AFTER(&u->after), between, AFTER(&u->far));
	return s;
}
#define BOTH(u, between) both(u, between, (char[96]){ 0 }, 96)

static int show(const struct iw_policy *p)
{
	static const char *const head[] = { ">RULE", "TRANSPORT", "WHEN", "PROGRAM", "ADDRESS", "UPGRADE AFTER", ">WAIT", NULL };
	struct table *t = table_new(head);
	char a[INET6_ADDRSTRLEN + 16 + IW_POLICY_PORTS * 12];

	for (unsigned int i = 0; i < p->n; i++) {
		const struct iw_policy_rule *r = &p->rule[i];

		address(r, a, sizeof(a));
		table_cell(t, PLAIN, "%u", i + 1);
		table_cell(t, r->iwarp ? GOOD : WARN, "%s", r->iwarp ? "iwarp" : "tcp");
		table_cell(t, PLAIN, "%s", verbs(r));
		table_cell(t, PLAIN, "%s", r->program);
		table_cell(t, PLAIN, "%s", a);
		table_cell(t, PLAIN, "%s", r->iwarp ? BOTH(&r->upgrade, "; far: ") : "-");
		if (r->iwarp)
			table_cell(t, PLAIN, "%u", r->upgrade.wait_ms);
		else
			table_cell(t, PLAIN, "-");
	}
	table_print(t);
	printf("Everything else: iwarp, upgrade_after %s, upgrade_wait %u.\n", BOTH(&p->upgrade, ", upgrade_after_far "), p->upgrade.wait_ms);
	if (!p->burst)
		puts("Small writes are not gathered (burst no).");
	if (p->rings != IW_RINGS_YES)
		puts(p->rings ? "Within this host octets go through shared memory, if it is worth it or not (rings always)." : "Within this host octets go through no shared memory (rings no).");
	if (p->spin != IW_SPIN_ADAPTIVE)
		puts(p->spin == IW_SPIN_NO ? "Waits sleep at once (spin no)." : "Waits look again before they sleep (spin always).");
	return IWCTL_OK;
}

static void upgrade_json(json_t *o, const struct iw_upgrade *u)
{
	json_object_set_new(o, "upgrade_after", json_string(AFTER(&u->after)));
	json_object_set_new(o, "upgrade_after_far", json_string(AFTER(&u->far)));
	json_object_set_new(o, "upgrade_wait", json_integer(u->wait_ms));
}

static int show_json(const struct iw_policy *p, json_t *errors)
{
	json_t *rules = json_array(), *o;
	char a[INET6_ADDRSTRLEN + 16 + IW_POLICY_PORTS * 12];
	bool bad = json_array_size(errors);
	int code;

	for (unsigned int i = 0; i < p->n; i++) {
		const struct iw_policy_rule *r = &p->rule[i];

		address(r, a, sizeof(a));
		o = json_pack("{s:s, s:s, s:s, s:s}", "transport", r->iwarp ? "iwarp" : "tcp", "when", verbs(r), "program", r->program,
			      "address", a);
		if (r->iwarp)
			upgrade_json(o, &r->upgrade);
		json_array_append_new(rules, o);
	}
	o = json_pack("{s:b, s:o, s:o}", "ok", !bad, "rules", rules, "errors", errors);
	upgrade_json(o, &p->upgrade);
	if (bad)
		json_object_set(o, "error", json_array_get(errors, 0));
	code = iwctl_print_json(o);
	return code != IWCTL_OK ? code : bad ? IWCTL_NO : IWCTL_OK;
}

static void blank_line(char *text, size_t len, unsigned long line)
{
	char *s = text, *end = text + len;

	while (--line)
		s = (char *)memchr(s, '\n', (size_t)(end - s)) + 1;
	while (s < end && *s != '\n')
		*s++ = ' ';
}

/* Every line that is wrong, as "FILE:LINE: what". The parser ends at the first: it goes, and the rest is looked at again. p: the good rules. */
static json_t *parse(struct iw_policy *p, char *text, size_t len, const char *name)
{
	json_t *errors = json_array();
	char err[1024];

	while (iw_policy_parse(p, text, len, "", err, sizeof(err)) < 0) {
		unsigned long line = strtoul(err + 1, NULL, 10);

		if (json_array_size(errors) == ERRORS) {
			json_array_append_new(errors, json_sprintf("%s: and more", name));
			break;
		}
		json_array_append_new(errors, json_sprintf("%s%s", name, err));
		blank_line(text, len, line);
	}
	return errors;
}

int check_policy_read(struct iw_policy *p, const char *path, json_t **errors)
{
	size_t len;
	char *text = slurp(path, &len);

	if (!text)
		return IWCTL_NO;
	*errors = parse(p, text, len, path);
	free(text);
	return IWCTL_OK;
}

int check_policy_main(int argc, char **argv)
{
	static struct iw_policy p;
	json_t *errors, *e;
	size_t i;

	if (check_policy_read(&p, argv[1], &errors) != IWCTL_OK)
		return IWCTL_NO;
	if (iwctl.json)
		return show_json(&p, errors);
	json_array_foreach(errors, i, e)
		iwctl_error("%s", json_string_value(e));
	json_decref(errors);
	return i ? IWCTL_NO : show(&p);
}
