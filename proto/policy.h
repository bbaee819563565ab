/* SPDX-License-Identifier: MIT */
/*
 * iwsock.conf: which connections of which programs may leave plain TCP. One rule per line, the first that matches wins:
 *
 *	iwarp|tcp   connect|listen|both   program   address[/prefix][:ports]
 *
 * What no rule matches is iwarp. connect rules look at the destination, listen rules at the local address.
 */
#ifndef IW_PROTO_POLICY_H
#define IW_PROTO_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "page.h"

#define IW_POLICY_RULES		256u
#define IW_POLICY_PORTS		16u
#define IW_POLICY_PROGRAM	128u
#define IW_POLICY_CONNECT	1u
#define IW_POLICY_LISTEN	2u

struct iw_policy_rule {
	bool iwarp;
	uint8_t verbs;			/* IW_POLICY_CONNECT | IW_POLICY_LISTEN */
	uint8_t prefix;			/* of ip: 0 any address; IPv4 /24 is 120 */
	uint8_t nports;			/* 0: any port */
	bool v4;			/* an IPv4 address was given (0.0.0.0/0 is all of IPv4) */
	bool any;			/* the address is * */
	uint8_t ip[16];
	struct { uint16_t lo, hi; } port[IW_POLICY_PORTS];
	char program[IW_POLICY_PROGRAM];	/* pattern of * and ?; with a '/' it is matched against the whole path */
};

struct iw_policy {
	unsigned int n;
	struct iw_policy_rule rule[IW_POLICY_RULES];
};

/*
 * Parse a whole file. 0, or -EINVAL with "name:line: what is wrong and what is accepted" in err (may be NULL); p then holds the rules
 * before the bad line. No allocation, no I/O.
 */
int iw_policy_parse(struct iw_policy *p, const char *text, size_t len, const char *name, char *err, size_t errlen);

/* May it be accelerated? verb is one of IW_POLICY_*; path may be NULL. rule (may be NULL) gets the index that decided, or -1. */
bool iw_policy_match(const struct iw_policy *p, unsigned int verb, const char *program, const char *path, const struct iw_addr *a, int *rule);

#endif
