/* SPDX-License-Identifier: MIT */
/* Parser and matcher of iwsock.conf. */
#include "policy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FIELDS	4
#define WORD	160	/* longest field */

struct line {
	char word[FIELDS][WORD];
	int n;
};

static const char *const field_name[FIELDS] = { "'iwarp' or 'tcp'", "'connect', 'listen' or 'both'", "a program", "an address" };

/* Cut a line into fields. NULL, or what is wrong. */
static const char *split(struct line *l, const char *s, const char *end)
{
	size_t n;

	l->n = 0;
	for (;;) {
		while (s < end && (*s == ' ' || *s == '\t' || *s == '\r'))
			s++;
		if (s == end || *s == '#')
			return NULL;
		for (n = 0; s + n < end && s[n] != ' ' && s[n] != '\t' && s[n] != '\r' && s[n] != '#'; n++)
			if (!s[n])
				return "a NUL character is not accepted";
		if (l->n == FIELDS)
			return "too many fields; a rule is: iwarp|tcp connect|listen|both program address[/prefix][:ports]";
		if (n >= WORD)
			return "a field is too long";
		memcpy(l->word[l->n], s, n);
		l->word[l->n++][n] = 0;
		s += n;
	}
}

/* A decimal number up to max at *s, which moves behind it. -1: none. */
static long number(const char **s, long max)
{
	long v = 0;
	const char *p = *s;

	if (*p < '0' || *p > '9')
		return -1;
	for (; *p >= '0' && *p <= '9'; p++) {
		v = v * 10 + (*p - '0');
		if (v > max)
			return -1;
	}
	*s = p;
	return v;
}

static const char *parse_ports(struct iw_policy_rule *r, const char *s)
{
	long lo, hi;

	if (!strcmp(s, "*"))
		return NULL;
	for (;;) {
		lo = hi = number(&s, 65535);
		if (lo >= 0 && *s == '-') {
			s++;
			hi = number(&s, 65535);
		}
		if (lo < 0 || hi < lo)
			return "bad port; accepted are *, a number up to 65535, ranges as 8000-8080, and lists of these with commas";
		if (r->nports == IW_POLICY_PORTS)
			return "too many ports in one rule (at most 16 numbers or ranges); write a second rule";
		r->port[r->nports].lo = (uint16_t)lo;
		r->port[r->nports++].hi = (uint16_t)hi;
		if (!*s)
			return NULL;
		if (*s++ != ',')
			return "bad port list; numbers and ranges are separated by commas";
	}
}

static const char *const bad_address =
	"bad address; accepted are *, 192.0.2.1, 192.0.2.0/24, [2001:db8::1], [2001:db8::]/32, each with :ports or without";

static void mask(struct iw_policy_rule *r)
{
	for (unsigned int bit = r->prefix; bit < 128; bit++)
		r->ip[bit / 8] &= (uint8_t)~(0x80 >> bit % 8);
}

static const char *parse_ip(struct iw_policy_rule *r, const char *text)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, text, &v4) == 1) {
		r->v4 = true;
		iw_ip_from_v4(r->ip, &v4);
		return NULL;
	}
	return inet_pton(AF_INET6, text, r->ip) == 1 ? NULL : bad_address;
}

static const char *parse_address(struct iw_policy_rule *r, char *s)
{
	const char *why, *rest;
	char *end, c;
	bool six = *s == '[';
	long n;

	if (*s == '*') {
		r->any = true;
		end = s + 1;
	} else {
		s += six;
		end = s + strcspn(s, six ? "]" : "/:");
		c = *end;
		*end = 0;
		why = parse_ip(r, s);
		if (why || r->v4 == six || (six && c != ']'))
			return bad_address;
		*end = c;
		end += six;
		r->prefix = 128;
		if (*end == '/') {
			rest = end + 1;
			n = number(&rest, six ? 128 : 32);
			if (n < 0)
				return six ? "bad prefix; accepted is 0 to 128" : "bad prefix; accepted is 0 to 32";
			r->prefix = (uint8_t)(six ? n : n + 96);
			end = (char *)rest;
		}
		mask(r);
	}
	if (!*end)
		return NULL;
	return *end == ':' ? parse_ports(r, end + 1) : bad_address;
}

static const char *parse_rule(struct iw_policy_rule *r, struct line *l)
{
	memset(r, 0, sizeof(*r));
	if (!strcmp(l->word[0], "iwarp"))
		r->iwarp = true;
	else if (strcmp(l->word[0], "tcp"))
		return "a rule begins with 'iwarp' or 'tcp'";
	if (l->n < FIELDS)
		return field_name[l->n];
	if (!strcmp(l->word[1], "connect"))
		r->verbs = IW_POLICY_CONNECT;
	else if (!strcmp(l->word[1], "listen"))
		r->verbs = IW_POLICY_LISTEN;
	else if (!strcmp(l->word[1], "both"))
		r->verbs = IW_POLICY_CONNECT | IW_POLICY_LISTEN;
	else
		return "the second field is 'connect', 'listen' or 'both'";
	if (strlen(l->word[2]) >= sizeof(r->program))
		return "the program pattern is too long";
	strcpy(r->program, l->word[2]);
	return parse_address(r, l->word[3]);
}

static int fail(const char *name, unsigned int line, const char *why, bool missing, char *err, size_t errlen)
{
	if (err && errlen)
		snprintf(err, errlen, "%s:%u: %s%s", name, line, missing ? "missing: " : "", why);
	return -EINVAL;
}

int iw_policy_parse(struct iw_policy *p, const char *text, size_t len, const char *name, char *err, size_t errlen)
{
	const char *s = text, *end = text + len, *eol, *why;
	unsigned int line = 0;
	struct line l;

	p->n = 0;
	for (; s < end; s = eol + 1) {
		eol = memchr(s, '\n', (size_t)(end - s));
		if (!eol)
			eol = end;
		line++;
		why = split(&l, s, eol);
		if (why)
			return fail(name, line, why, false, err, errlen);
		if (!l.n)
			continue;
		if (p->n == IW_POLICY_RULES)
			return fail(name, line, "too many rules (at most 256)", false, err, errlen);
		why = parse_rule(&p->rule[p->n], &l);
		if (why)
			return fail(name, line, why, l.n < FIELDS && why == field_name[l.n], err, errlen);
		p->n++;
	}
	return 0;
}

/* Patterns of * and ?. Linear in the worst case that matters: only the last star is ever tried again. */
static bool glob(const char *pat, const char *s)
{
	const char *star = NULL, *from = NULL;

	while (*s) {
		if (*pat == '*') {
			star = pat++;
			from = s;
		} else if (*pat == '?' || *pat == *s) {
			pat++;
			s++;
		} else if (star) {
			pat = star + 1;
			s = ++from;
		} else {
			return false;
		}
	}
	while (*pat == '*')
		pat++;
	return !*pat;
}

static bool address_in(const struct iw_policy_rule *r, const struct iw_addr *a)
{
	if (!r->any && !iw_prefix_has(r->ip, r->prefix, a->ip))
		return false;
	if (!r->nports)
		return true;
	for (unsigned int i = 0; i < r->nports; i++)
		if (a->port >= r->port[i].lo && a->port <= r->port[i].hi)
			return true;
	return false;
}

bool iw_policy_match(const struct iw_policy *p, unsigned int verb, const char *program, const char *path, const struct iw_addr *a, int *rule)
{
	for (unsigned int i = 0; i < p->n; i++) {
		const struct iw_policy_rule *r = &p->rule[i];
		const char *name = strchr(r->program, '/') ? path : program;

		if (!(r->verbs & verb) || !name || !glob(r->program, name) || !address_in(r, a))
			continue;
		if (rule)
			*rule = (int)i;
		return r->iwarp;
	}
	if (rule)
		*rule = -1;
	return true;
}
