/* SPDX-License-Identifier: MIT */
/*
 * The Privileged Resource Manager: what a user may have of everything that is scarce, memory that may be registered, and
 * each user's turn at the engine. RFC 5040 8.1.2: non-privileged ULPs get STags, queue entries and Read slots from nobody else.
 */
#ifndef IWARPD_PRM_H
#define IWARPD_PRM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/engine.h"
#include "daemon/base/list.h"

#define PRM_DAEMON	0xffffffffu	/* the "user" of the daemon's own sessions: no quota, but a turn like any other */

enum prm_kind {
	PRM_STREAMS,
	PRM_MEMORY,		/* octets registered or set aside */
	PRM_STAGS,
	PRM_READS,		/* Read slots: IRD and ORD of all its queue pairs */
	PRM_CQES,		/* completion queue entries */
	PRM_KINDS,
};

struct prm_user {
	uint32_t uid;
	uint64_t used[PRM_KINDS];
	unsigned int records;
	unsigned int programs;		/* control connections */
	unsigned int passed;		/* sockets of requests under way */
	struct work_class turn;		/* work of its streams: users share the engine, not streams */
	struct list waiting, turns;	/* its connections that wait to be upgraded; the users that have such */
	struct prm_user *next;		/* of those whose ids hash alike */
};

/*
 * How many files the process may have open, for the share of it that each user gets (security.md L2). Said once, at the start, after the limit
 * was raised: it is not looked up again for each stream, so a limit that somebody changes later counts from the next start. Nothing said: no limit,
 * as for tools that have no users.
 */
void prm_files(uint64_t most);

struct prm_user *prm_user_get(uint32_t uid);	/* finds or makes; it stays for good. NULL: no memory */

/* Several at once, all or nothing. 0 or -EDQUOT; a refusal is counted and says in the log what was exhausted. */
struct prm_bill { uint64_t n[PRM_KINDS]; };
int prm_take(struct prm_user *u, const struct prm_bill *b);
void prm_give(struct prm_user *u, const struct prm_bill *b);
int prm_take_one(struct prm_user *u, enum prm_kind k, uint64_t n);
void prm_give_one(struct prm_user *u, enum prm_kind k, uint64_t n);

/*
 * The small things that are remembered for a user's programs, some hundred octets each: proposals, plain connections, who was given
 * which stream. False: there are PRM_RECORDS already.
 */
#define PRM_RECORDS	(128u << 10)
bool prm_record(uint32_t uid);
void prm_forget(uint32_t uid);

/*
 * A program of the user connected to the control socket: an open file until it is gone. False: what is left of the daemon's open files
 * is kept for others (security.md L2).
 */
bool prm_program(uint32_t uid);
void prm_program_gone(uint32_t uid);
/*
 * A socket that such a program passed, from its request to the answer; a stream that it comes to be in is counted as such. It is there,
 * so it counts in any case; false: the answer has to be no, by the quota (which is counted, and logged).
 */
bool prm_passed(uint32_t uid);
void prm_passed_gone(uint32_t uid);

const char *prm_name(enum prm_kind k);		/* "streams", "memory", "stags", "reads", "cq_entries" */
uint64_t prm_limit(const struct prm_user *u, enum prm_kind k);
uint64_t prm_total(enum prm_kind k);		/* used by all users together */
uint64_t prm_refused(enum prm_kind k);		/* times that a quota said no since the start */

#endif
