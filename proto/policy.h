/* SPDX-License-Identifier: MIT */
/*
 * iwsock.conf: which connections of which programs may leave plain TCP, and when. Rules, one per line, the first that matches wins, and
 * what holds where a rule says nothing else:
 *
 *	iwarp|tcp   connect|listen|both   program   address[/prefix][:ports]   [upgrade_after LIMITS] [upgrade_wait MS]
 *	upgrade_after LIMITS
 *	upgrade_wait MS
 *	burst yes|no
 *	rings yes|always|no
 *	spin adaptive|always|no
 *
 * LIMITS: 0, or N calls, or octets (128K), or both. What no rule matches is iwarp. connect rules look at the destination, listen rules
 * at the local address.
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

#define IW_UPGRADE_CALLS	192u		/* upgrade_after, where the file says nothing, within a host: bench/worth */
#define IW_UPGRADE_OCTETS	(4u << 20)
#define IW_UPGRADE_FAR_CALLS	4096u		/* and to another host */
#define IW_UPGRADE_FAR_OCTETS	(64u << 20)
#define IW_UPGRADE_MAX		(1 << 30)	/* of each */
#define IW_UPGRADE_NEVER	UINT32_MAX	/* this limit is none */
#define IW_UPGRADE_WAIT_MAX	10000

/* When a connection is proposed: as soon as calls or octets, both directions together, reach one limit. */
struct iw_upgrade_limits {
	uint32_t calls, octets;	/* IW_UPGRADE_NEVER: does not count. At most one of them */
};

struct iw_upgrade {
	struct iw_upgrade_limits after, far;	/* far: between two addresses that differ */
	uint32_t wait_ms;	/* so long a call that proposed waits for the switch */
	uint8_t set;		/* what the line itself says; and of far, what the line for all does: */
#define IW_UPGRADE_AFTER 1u
#define IW_UPGRADE_WAIT	 2u
#define IW_UPGRADE_FAR	 4u	/* else far is as after, where that is set */
};

struct iw_policy_rule {
	bool iwarp;
	uint8_t verbs;			/* IW_POLICY_CONNECT | IW_POLICY_LISTEN */
	uint8_t prefix;			/* of ip: 0 any address; IPv4 /24 is 120 */
	uint8_t nports;			/* 0: any port */
	bool v4;			/* an IPv4 address was given (0.0.0.0/0 is all of IPv4) */
	bool any;			/* the address is * */
	uint8_t ip[16];
	struct { uint16_t lo, hi; } port[IW_POLICY_PORTS];
	struct iw_upgrade upgrade;
	char program[IW_POLICY_PROGRAM];	/* pattern of * and ?; with a '/' it is matched against the whole path */
};

enum iw_policy_rings { IW_RINGS_NO, IW_RINGS_YES, IW_RINGS_ALWAYS };	/* yes: while that is worth it */
enum iw_policy_spin { IW_SPIN_ADAPTIVE, IW_SPIN_ALWAYS, IW_SPIN_NO };

struct iw_policy {
	unsigned int n;
	struct iw_upgrade upgrade;	/* where no rule matches */
	bool burst;			/* small sends may be gathered */
	enum iw_policy_rings rings;	/* on one host octets may go through shared memory */
	enum iw_policy_spin spin;	/* who waits may look again for a moment before it sleeps */
	struct iw_policy_rule rule[IW_POLICY_RULES];
};

/*
 * Parse a whole file. 0, or -EINVAL with "name:line: what is wrong and what is accepted" in err (may be NULL); p then holds the rules
 * before the bad line. No allocation, no I/O.
 */
int iw_policy_parse(struct iw_policy *p, const char *text, size_t len, const char *name, char *err, size_t errlen);

/* May it be accelerated? verb is one of IW_POLICY_*; path may be NULL. rule (may be NULL) gets the index that decided, or -1. */
bool iw_policy_match(const struct iw_policy *p, unsigned int verb, const char *program, const char *path, const struct iw_addr *a, int *rule);

/* The least calls and the least octets that any connection of a program needs. */
struct iw_upgrade_limits iw_policy_least(const struct iw_policy *p, const char *program, const char *path);

#endif
