/* SPDX-License-Identifier: MIT */
/* Quotas per user id, and a reserve for users who come later. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "prm.h"

#define USERS		4096u	/* one user's range of subordinate ids is 65536: 16 to a bucket */
#define FDS_OWN		256u	/* files of the daemon that are no streams */
#define FDS_STREAM	6u	/* a stream has at most so many: TCP, carrier, segment, area, map, pidfd of its owner */

static const struct { const char *name, *key; } kinds[PRM_KINDS] = {
	[PRM_STREAMS] = { "streams", "max_streams" },
	[PRM_MEMORY] = { "memory", "max_memory" },
	[PRM_STAGS] = { "stags", "max_stags" },
	[PRM_READS] = { "reads", "max_reads" },
	[PRM_CQES] = { "cq_entries", "max_cq_entries" },
};

static struct {
	struct prm_user *users[USERS];
	uint64_t total[PRM_KINDS], refused[PRM_KINDS];
	uint64_t others;	/* files beside those of streams */
	uint64_t room;		/* files that users may have, all together */
} prm = { .room = UINT64_MAX };

void prm_files(uint64_t most)
{
	prm.room = most > 2 * FDS_OWN ? most - FDS_OWN : most / 2;
}

struct prm_user *prm_user_get(uint32_t uid)
{
	struct prm_user **b = &prm.users[uid % USERS], *u;

	for (u = *b; u; u = u->next) {
		if (u->uid == uid)
			return u;
	}
	u = calloc(1, sizeof(*u));
	if (!u)
		return NULL;
	u->uid = uid;
	work_class_init(&u->turn);
	u->next = *b;
	*b = u;
	return u;
}

/* ---- how much ---- */

const char *prm_name(enum prm_kind k)
{
	return kinds[k].name;
}

uint64_t prm_limit(const struct prm_user *u, enum prm_kind k)
{
	if (u->uid == PRM_DAEMON)
		return UINT64_MAX;
	switch (k) {
	case PRM_STREAMS: return conf.max_streams;
	case PRM_MEMORY: return conf.max_memory;
	case PRM_STAGS: return conf.max_stags;
	case PRM_READS: return conf.max_reads;
	default: return conf.max_cq_entries;
	}
}

uint64_t prm_total(enum prm_kind k)
{
	return prm.total[k];
}

uint64_t prm_refused(enum prm_kind k)
{
	return prm.refused[k];
}

static uint64_t files(uint64_t streams, uint64_t others)
{
	return streams * FDS_STREAM + others;
}

/*
 * Files are what users really take from each other. Nobody may have more of them than would still fit: however many users there are
 * and whatever they want, one who comes later finds room (security.md L2).
 */
static bool leaves_room(const struct prm_user *u, uint64_t n)
{
	uint64_t used = files(prm.total[PRM_STREAMS], prm.others);

	return used < prm.room && files(u->used[PRM_STREAMS], u->programs + u->passed) + n <= prm.room - used;
}

/* Which kind says no, or PRM_KINDS. */
static enum prm_kind refusal(const struct prm_user *u, const struct prm_bill *b, bool *room)
{
	for (enum prm_kind k = 0; k < PRM_KINDS; k++) {
		uint64_t limit = prm_limit(u, k);

		if (b->n[k] && (b->n[k] > limit || u->used[k] > limit - b->n[k]))
			return k;
	}
	*room = u->uid == PRM_DAEMON || !b->n[PRM_STREAMS] || leaves_room(u, files(b->n[PRM_STREAMS], 0));
	return *room ? PRM_KINDS : PRM_STREAMS;
}

static const struct log_about quota = { .id = LOG_ID_QUOTA };

int prm_take(struct prm_user *u, const struct prm_bill *b)
{
	bool room = true;
	enum prm_kind k = refusal(u, b, &room);

	if (k < PRM_KINDS) {
		prm.refused[k]++;
		if (!room)
			log_about(LOG_WARNING, &quota, "user %u: has %" PRIu64 " streams; what is left of the open files is kept for others: plain TCP. See LimitNOFILE=",
				 u->uid, u->used[k]);
		else
			log_about(LOG_WARNING, &quota, "user %u: quota of %s: has %" PRIu64 ", wants %" PRIu64 " more, may have %" PRIu64 " (%s): plain TCP",
				 u->uid, kinds[k].name, u->used[k], b->n[k], prm_limit(u, k), kinds[k].key);
		return -EDQUOT;
	}
	for (k = 0; k < PRM_KINDS; k++) {
		u->used[k] += b->n[k];
		prm.total[k] += b->n[k];
	}
	return 0;
}

void prm_give(struct prm_user *u, const struct prm_bill *b)
{
	for (enum prm_kind k = 0; k < PRM_KINDS; k++) {
		u->used[k] -= b->n[k];
		prm.total[k] -= b->n[k];
	}
}

int prm_take_one(struct prm_user *u, enum prm_kind k, uint64_t n)
{
	struct prm_bill b = { 0 };

	b.n[k] = n;
	return prm_take(u, &b);
}

void prm_give_one(struct prm_user *u, enum prm_kind k, uint64_t n)
{
	u->used[k] -= n;
	prm.total[k] -= n;
}

bool prm_record(uint32_t uid)
{
	struct prm_user *u = prm_user_get(uid);

	if (!u || u->records >= PRM_RECORDS)
		return false;
	u->records++;
	return true;
}

void prm_forget(uint32_t uid)
{
	prm_user_get(uid)->records--;
}

bool prm_program(uint32_t uid)
{
	struct prm_user *u = prm_user_get(uid);

	if (!u || !leaves_room(u, 1))
		return false;
	u->programs++;
	prm.others++;
	return true;
}

void prm_program_gone(uint32_t uid)
{
	prm_user_get(uid)->programs--;
	prm.others--;
}

bool prm_passed(uint32_t uid)
{
	struct prm_user *u = prm_user_get(uid);
	bool room = leaves_room(u, 1);

	u->passed++;
	prm.others++;
	if (room)
		return true;
	prm.refused[PRM_STREAMS]++;
	log_about(LOG_WARNING, &quota, "user %u: %u sockets wait for an answer; what is left of the open files is kept for others: plain TCP. See LimitNOFILE=", u->uid,
		 u->passed);
	return false;
}

void prm_passed_gone(uint32_t uid)
{
	prm_user_get(uid)->passed--;
	prm.others--;
}
