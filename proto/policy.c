/* SPDX-License-Identifier: MIT */
/* Parser and matcher of iwsock.conf. */
#include "policy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define WORD	160	/* longest field */

/* A line that is being read. */
struct line {
	const char *s, *end;
	const char *why;	/* what is wrong with its form, or NULL */
	char word[WORD];	/* the field at hand; "" behind the last */
};

/* The next field is at hand. false: there is none, or why says what is wrong. */
static bool next(struct line *l)
{
	size_t n;

	l->word[0] = 0;
	while (l->s < l->end && (*l->s == ' ' || *l->s == '\t' || *l->s == '\r'))
		l->s++;
	if (l->s == l->end || *l->s == '#')
		return false;
	for (n = 0; l->s + n < l->end && l->s[n] != ' ' && l->s[n] != '\t' && l->s[n] != '\r' && l->s[n] != '#'; n++)
		if (!l->s[n])
			l->why = "a NUL character is not accepted";
	if (!l->why && n >= WORD)
		l->why = "a field is too long";
	if (l->why)
		return false;
	memcpy(l->word, l->s, n);
	l->word[n] = 0;
	l->s += n;
	return true;
}

/* The next field is at hand: NULL. Else what is wrong. */
static const char *need(struct line *l, const char *missing)
{
	return next(l) ? NULL : l->why ? l->why : missing;
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

/* A number up to max, which may end in K, M or G. -1: no such. */
static long size(const char *s, long max)
{
	static const char unit[] = "KMGkmg";
	long v = number(&s, max);
	const char *u = *s ? strchr(unit, *s) : NULL;

	for (long i = u ? (u - unit) % 3 : -1; v >= 0 && i >= 0; i--)
		v = v <= max / 1024 ? v * 1024 : -1;
	return *s && (!u || s[1]) ? -1 : v;
}

/* What follows the words upgrade_after and upgrade_after_far. The field behind it is at hand afterwards. */
static const char *parse_after(struct iw_upgrade_limits *u, struct line *l)
{
	static const char bad[] = "bad limits of upgrade_after; accepted are 0 (at once), 32 calls, 128K (octets), or both, each up to 1G: 32 calls 128K";
	const char *why = need(l, bad);
	uint32_t *limit;
	long v;

	u->calls = u->octets = IW_UPGRADE_NEVER;
	for (; !why && *l->word >= '0' && *l->word <= '9'; why = l->why) {
		v = size(l->word, IW_UPGRADE_MAX);
		limit = &u->octets;
		if (next(l) && !strcmp(l->word, "calls")) {
			limit = &u->calls;
			next(l);
		}
		if (v < 0 || *limit != IW_UPGRADE_NEVER)
			return bad;
		*limit = (uint32_t)v;
	}
	return why ? why : u->calls == IW_UPGRADE_NEVER && u->octets == IW_UPGRADE_NEVER ? bad : NULL;
}

static const char *parse_wait(struct iw_upgrade *u, struct line *l)
{
	static const char bad[] = "bad upgrade_wait; accepted are milliseconds, 0 to 10000";
	const char *why = need(l, bad), *s = l->word;
	long v = why ? 0 : number(&s, IW_UPGRADE_WAIT_MAX);

	if (why || v < 0 || *s)
		return why ? why : bad;
	u->wait_ms = (uint32_t)v;
	next(l);
	return l->why;
}

/* upgrade_after, upgrade_after_far and upgrade_wait, each at most once, until the line's end. other: what to say when there is something else. */
static const char *parse_upgrade(struct iw_upgrade *u, struct line *l, const char *other)
{
	const char *why = NULL;

	for (; !why && *l->word; other = "what does this field say? Limits are 0, 32 calls, 128K, or 32 calls 128K; a wait is milliseconds") {
		if (!strcmp(l->word, "upgrade_after")) {
			if (u->set & IW_UPGRADE_AFTER)
				return "upgrade_after is here for the second time; leave one";
			u->set |= IW_UPGRADE_AFTER;
			why = parse_after(&u->after, l);
		} else if (!strcmp(l->word, "upgrade_after_far")) {
			if (u->set & IW_UPGRADE_FAR)
				return "upgrade_after_far is here for the second time; leave one";
			u->set |= IW_UPGRADE_FAR;
			why = parse_after(&u->far, l);
		} else if (!strcmp(l->word, "upgrade_wait")) {
			if (u->set & IW_UPGRADE_WAIT)
				return "upgrade_wait is here for the second time; leave one";
			u->set |= IW_UPGRADE_WAIT;
			why = parse_wait(u, l);
		} else {
			why = other;
		}
	}
	if ((u->set & (IW_UPGRADE_AFTER | IW_UPGRADE_FAR)) == IW_UPGRADE_AFTER)
		u->far = u->after;
	return why;
}

static const char *parse_verb(struct iw_policy_rule *r, const char *s)
{
	if (!strcmp(s, "connect"))
		r->verbs = IW_POLICY_CONNECT;
	else if (!strcmp(s, "listen"))
		r->verbs = IW_POLICY_LISTEN;
	else if (!strcmp(s, "both"))
		r->verbs = IW_POLICY_CONNECT | IW_POLICY_LISTEN;
	else
		return "the second field is 'connect', 'listen' or 'both'";
	return NULL;
}

static const char *parse_program(struct iw_policy_rule *r, const char *s)
{
	if (strlen(s) >= sizeof(r->program))
		return "the program pattern is too long";
	strcpy(r->program, s);
	return NULL;
}

/* Behind 'iwarp' or 'tcp'. */
static const char *parse_rule(struct iw_policy_rule *r, struct line *l)
{
	const char *why;

	why = need(l, "missing: 'connect', 'listen' or 'both'");
	if (!why)
		why = parse_verb(r, l->word);
	if (!why)
		why = need(l, "missing: a program");
	if (!why)
		why = parse_program(r, l->word);
	if (!why)
		why = need(l, "missing: an address");
	if (!why)
		why = parse_address(r, l->word);
	if (why)
		return why;
	next(l);
	if (l->why || !*l->word)
		return l->why;
	why = parse_upgrade(&r->upgrade, l, "too many fields; a rule is: iwarp|tcp connect|listen|both program address[/prefix][:ports], "
			    "for iwarp with upgrade_after and upgrade_wait behind it");
	return !why && !r->iwarp ? "a tcp rule upgrades nothing; leave upgrade_after and upgrade_wait out" : why;
}

/* One of n words, whose number it is. */
static const char *parse_word(unsigned int *which, struct line *l, const char *const *words, unsigned int n, const char *bad)
{
	const char *why = need(l, bad);

	if (why)
		return why;
	for (*which = 0; *which < n; ++*which)
		if (!strcmp(l->word, words[*which]))
			return next(l) ? bad : l->why;
	return bad;
}

static const char *parse_burst(struct iw_policy *p, struct line *l)
{
	static const char *const words[] = { "no", "yes" };
	unsigned int i;
	const char *why = parse_word(&i, l, words, 2, "bad burst; accepted are yes and no");

	if (!why)
		p->burst = i;
	return why;
}

static const char *parse_rings(struct iw_policy *p, struct line *l)
{
	static const char *const words[] = { [IW_RINGS_NO] = "no", [IW_RINGS_YES] = "yes", [IW_RINGS_ALWAYS] = "always" };
	unsigned int i;
	const char *why = parse_word(&i, l, words, 3, "bad rings; accepted are yes, always and no");

	if (!why)
		p->rings = (enum iw_policy_rings)i;
	return why;
}

static const char *parse_spin(struct iw_policy *p, struct line *l)
{
	static const char *const words[] = { [IW_SPIN_ADAPTIVE] = "adaptive", [IW_SPIN_ALWAYS] = "always", [IW_SPIN_NO] = "no" };
	unsigned int i;
	const char *why = parse_word(&i, l, words, 3, "bad spin; accepted are adaptive, always and no");

	if (!why)
		p->spin = (enum iw_policy_spin)i;
	return why;
}

static const char *parse_line(struct iw_policy *p, struct line *l)
{
	struct iw_policy_rule *r = &p->rule[p->n];
	struct iw_upgrade all = p->upgrade;
	const char *why;
	bool iwarp;

	if (!next(l))
		return l->why;
	if (!strcmp(l->word, "burst"))
		return parse_burst(p, l);
	if (!strcmp(l->word, "rings"))
		return parse_rings(p, l);
	if (!strcmp(l->word, "spin"))
		return parse_spin(p, l);
	iwarp = !strcmp(l->word, "iwarp");
	if (!iwarp && strcmp(l->word, "tcp")) {
		why = parse_upgrade(&all, l, "a line begins with 'iwarp', 'tcp', 'upgrade_after', 'upgrade_after_far', 'upgrade_wait', 'burst', 'rings' or 'spin'");
		if (!why)
			p->upgrade = all;
		return why;
	}
	if (p->n == IW_POLICY_RULES)
		return "too many rules (at most 256)";
	memset(r, 0, sizeof(*r));
	r->iwarp = iwarp;
	why = parse_rule(r, l);
	if (!why)
		p->n++;
	return why;
}

/* What a rule does not say is as for all. */
static void inherit(struct iw_policy *p)
{
	for (unsigned int i = 0; i < p->n; i++) {
		struct iw_upgrade *u = &p->rule[i].upgrade;

		if (!(u->set & IW_UPGRADE_AFTER))
			u->after = p->upgrade.after;
		if (!(u->set & (IW_UPGRADE_AFTER | IW_UPGRADE_FAR))) {
			u->far = p->upgrade.far;
			u->set |= p->upgrade.set & (IW_UPGRADE_AFTER | IW_UPGRADE_FAR);
		}
		if (!(u->set & IW_UPGRADE_WAIT))
			u->wait_ms = p->upgrade.wait_ms;
	}
}

int iw_policy_parse(struct iw_policy *p, const char *text, size_t len, const char *name, char *err, size_t errlen)
{
	const char *end = text + len, *why = NULL;
	unsigned int line = 0;
	struct line l;

	p->n = 0;
	p->burst = true;
	p->rings = IW_RINGS_YES;
	p->spin = IW_SPIN_ADAPTIVE;
	p->upgrade = (struct iw_upgrade){
		.after = { IW_UPGRADE_CALLS, IW_UPGRADE_OCTETS }, .far = { IW_UPGRADE_FAR_CALLS, IW_UPGRADE_FAR_OCTETS },
	};
	for (l.s = text; !why && l.s < end; l.s = l.end + 1) {
		l.end = memchr(l.s, '\n', (size_t)(end - l.s));
		if (!l.end)
			l.end = end;
		l.why = NULL;
		line++;
		why = parse_line(p, &l);
	}
	inherit(p);
	if (why && err && errlen)
		snprintf(err, errlen, "%s:%u: %s", name, line, why);
	return why ? -EINVAL : 0;
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

static bool program_is(const struct iw_policy_rule *r, const char *program, const char *path)
{
	const char *name = strchr(r->program, '/') ? path : program;

	return name && glob(r->program, name);
}

bool iw_policy_match(const struct iw_policy *p, unsigned int verb, const char *program, const char *path, const struct iw_addr *a, int *rule)
{
	for (unsigned int i = 0; i < p->n; i++) {
		const struct iw_policy_rule *r = &p->rule[i];

		if (!(r->verbs & verb) || !program_is(r, program, path) || !address_in(r, a))
			continue;
		if (rule)
			*rule = (int)i;
		return r->iwarp;
	}
	if (rule)
		*rule = -1;
	return true;
}

static void lower(struct iw_upgrade_limits *least, const struct iw_upgrade_limits *l)
{
	least->calls = l->calls < least->calls ? l->calls : least->calls;
	least->octets = l->octets < least->octets ? l->octets : least->octets;
}

struct iw_upgrade_limits iw_policy_least(const struct iw_policy *p, const char *program, const char *path)
{
	struct iw_upgrade_limits least = p->upgrade.after;

	lower(&least, &p->upgrade.far);
	for (unsigned int i = 0; i < p->n; i++) {
		if (!program_is(&p->rule[i], program, path))
			continue;
		lower(&least, &p->rule[i].upgrade.after);
		lower(&least, &p->rule[i].upgrade.far);
	}
	return least;
}
