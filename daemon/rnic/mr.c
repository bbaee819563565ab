/* SPDX-License-Identifier: MIT */
/* The STag table: every access of the network or of a work request to memory is decided here. */
#include "mr_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "daemon/base/conf.h"
#include "pd_priv.h"
#include "prm_mem.h"
#include "qp_priv.h"

#define MR_MIN_BUCKETS	1024u
#define GRAVE_BITS	(1u << 20)
#define GRAVE_MAX	(1u << 16)	/* STags freed before the older generation is forgotten */

/* What lets the network, or a completion, change memory. */
#define WRITES (IW_ACCESS_REMOTE_WRITE | IW_ACCESS_REMOTE_ATOMIC | IW_ACCESS_READ_SINK | IW_ACCESS_LOCAL_WRITE)
#define PEER_RIGHTS (IW_ACCESS_REMOTE_READ | IW_ACCESS_REMOTE_WRITE | IW_ACCESS_REMOTE_ATOMIC)
#define REMOTE_RIGHTS (PEER_RIGHTS | IW_ACCESS_READ_SINK)
#define RIGHTS (REMOTE_RIGHTS | IW_ACCESS_LOCAL_READ | IW_ACCESS_LOCAL_WRITE)

struct rnic_mr {
	uint32_t stag;
	unsigned int access;
	bool revoked;			/* only the handle is left */
	struct rnic_pd *pd;
	struct rnic_qp *scope;
	uint8_t *addr;
	uint64_t to, len;
	struct rnic_mr *hnext, **hpprev;	/* table */
	struct rnic_mr *qnext, **qpprev;	/* of its queue pair */
	struct rnic_mr *mnext, **mpprev;	/* of the memory it lies in */
};

static struct {
	struct rnic_mr *elsewhere;	/* registrations of memory that the PRM did not make: tools, sessions */
	struct rnic_mr **bucket;
	unsigned int nbuckets, count;
	/* two generations of freed STags; a false hit only costs another draw */
	uint64_t grave[2][GRAVE_BITS / 64];
	unsigned int grave_now, grave_count;
	uint32_t pool[256];
	unsigned int pool_left;
} rnic;

/* ---- STags ---- */

static uint32_t stag_hash(uint32_t stag)
{
	return (stag * 2654435761u) >> 7;
}

static bool grave_has(uint32_t stag)
{
	uint32_t h = stag_hash(stag) % GRAVE_BITS;
	uint64_t bit = 1ull << (h % 64);

	return (rnic.grave[0][h / 64] | rnic.grave[1][h / 64]) & bit;
}

static void grave_add(uint32_t stag)
{
	uint32_t h = stag_hash(stag) % GRAVE_BITS;

	if (rnic.grave_count++ == GRAVE_MAX) {
		rnic.grave_now ^= 1;
		rnic.grave_count = 1;
		memset(rnic.grave[rnic.grave_now], 0, sizeof(rnic.grave[0]));
	}
	rnic.grave[rnic.grave_now][h / 64] |= 1ull << (h % 64);
}

struct rnic_mr *rnic_mr_find(uint32_t stag)
{
	struct rnic_mr *mr;

	if (!rnic.nbuckets)
		return NULL;
	for (mr = rnic.bucket[stag_hash(stag) & (rnic.nbuckets - 1)]; mr; mr = mr->hnext) {
		if (mr->stag == stag)
			return mr;
	}
	return NULL;
}

/* An unused random value; 0 when the kernel gives no random octets. STag 0 and all ones are never used. */
static uint32_t stag_draw(void)
{
	for (;;) {
		uint32_t stag;

		if (!rnic.pool_left) {
			if (getrandom(rnic.pool, sizeof(rnic.pool), 0) != (ssize_t)sizeof(rnic.pool))
				return 0;
			rnic.pool_left = sizeof(rnic.pool) / sizeof(rnic.pool[0]);
		}
		stag = rnic.pool[--rnic.pool_left];
		rnic.pool[rnic.pool_left] = 0;
		if (stag && stag != UINT32_MAX && !grave_has(stag) && !rnic_mr_find(stag))
			return stag;
	}
}

static void mr_hash(struct rnic_mr *mr)
{
	struct rnic_mr **b = &rnic.bucket[stag_hash(mr->stag) & (rnic.nbuckets - 1)];

	mr->hnext = *b;
	mr->hpprev = b;
	if (mr->hnext)
		mr->hnext->hpprev = &mr->hnext;
	*b = mr;
}

static int table_grow(void)
{
	unsigned int n = rnic.nbuckets ? rnic.nbuckets * 2 : MR_MIN_BUCKETS, old = rnic.nbuckets;
	struct rnic_mr **was = rnic.bucket, **b;

	if (rnic.count < old)
		return 0;
	b = calloc(n, sizeof(struct rnic_mr *));
	if (!b)
		return old ? 0 : -ENOMEM;	/* longer chains will do */
	rnic.bucket = b;
	rnic.nbuckets = n;
	for (unsigned int i = 0; i < old; i++) {
		for (struct rnic_mr *mr = was[i], *next; mr; mr = next) {
			next = mr->hnext;
			mr_hash(mr);
		}
	}
	free(was);
	return 0;
}

static void mr_count(struct rnic_pd *pd, uint64_t len, unsigned int access, struct prm_bill *b)
{
	*b = (struct prm_bill){ 0 };
	if (access & RNIC_PREPAID)
		return;
	b->n[PRM_MEMORY] = len;
	b->n[PRM_STAGS] = 1;
}

/* Would peers of two domains, who do not trust each other, get the right to write the same octets (SEC-U05)? */
static bool mr_alias(const struct rnic_mr *first, const struct rnic_pd *pd, const uint8_t *addr, size_t len)
{
	for (const struct rnic_mr *m = first; m; m = m->mnext) {
		if (m->pd != pd && m->access & WRITES && addr < m->addr + m->len && m->addr < addr + len)
			return true;
	}
	return false;
}

static struct rnic_mr **mr_place(const struct rnic_pd *pd, const void *addr, size_t len, int *ret)
{
	struct prm_mem *m = prm_mem_find(addr, len);

	*ret = 0;
	if (pd->user->uid != PRM_DAEMON && (m ? m->user != pd->user : prm_strict))
		*ret = -EPERM;
	return m ? &m->mrs : &rnic.elsewhere;
}

static int mr_add(struct rnic_pd *pd, struct rnic_qp *scope, void *addr, size_t len, uint64_t to, unsigned int access,
		  uint32_t stag, struct rnic_mr **out)
{
	struct rnic_mr **place, *mr;
	struct prm_bill bill;
	int ret;

	if (!len || len > UINT64_MAX - to || len > UINTPTR_MAX - (uintptr_t)addr || (scope && scope->attr.pd != pd) ||
	    access & ~(RIGHTS | RNIC_PREPAID))
		return -EINVAL;
	place = mr_place(pd, addr, len, &ret);
	if (!ret && access & WRITES && mr_alias(*place, pd, addr, len))
		ret = -EBUSY;
	if (!ret)
		ret = table_grow();
	if (ret)
		return ret;
	mr_count(pd, len, access, &bill);
	ret = prm_take(pd->user, &bill);
	if (ret)
		return ret;
	mr = calloc(1, sizeof(*mr));
	if (!mr) {
		prm_give(pd->user, &bill);
		return -ENOMEM;
	}
	*mr = (struct rnic_mr){ .stag = stag, .access = access, .pd = pd, .scope = scope, .addr = addr, .to = to, .len = len };
	mr_hash(mr);
	if (scope) {
		mr->qnext = scope->mrs;
		mr->qpprev = &scope->mrs;
		if (mr->qnext)
			mr->qnext->qpprev = &mr->qnext;
		scope->mrs = mr;
	}
	mr->mnext = *place;
	mr->mpprev = place;
	if (mr->mnext)
		mr->mnext->mpprev = &mr->mnext;
	*place = mr;
	pd->refs++;
	rnic.count++;
	*out = mr;
	return 0;
}

int rnic_mr_reg(struct rnic_pd *pd, struct rnic_qp *scope, void *addr, size_t len, uint64_t to, unsigned int access,
		struct rnic_mr **mr)
{
	uint32_t stag = stag_draw();

	return stag ? mr_add(pd, scope, addr, len, to, access, stag, mr) : -EIO;
}

int rnic_mr_reg_stag(struct rnic_pd *pd, struct rnic_qp *scope, void *addr, size_t len, uint64_t to, unsigned int access,
		     uint32_t stag, struct rnic_mr **mr)
{
	return rnic_mr_find(stag) ? -EEXIST : mr_add(pd, scope, addr, len, to, access, stag, mr);
}

int rnic_mr_set_access(struct rnic_mr *mr, unsigned int access)
{
	struct prm_mem *m = prm_mem_find(mr->addr, mr->len);

	if (mr->revoked || access & ~RIGHTS)
		return -EINVAL;
	if (access & WRITES && mr_alias(m ? m->mrs : rnic.elsewhere, mr->pd, mr->addr, mr->len))
		return -EBUSY;
	mr->access = (mr->access & RNIC_PREPAID) | access;
	return 0;
}

void rnic_mr_revoke(struct rnic_mr *mr)
{
	struct prm_bill bill;

	if (mr->revoked)
		return;
	mr->revoked = true;
	*mr->hpprev = mr->hnext;
	if (mr->hnext)
		mr->hnext->hpprev = mr->hpprev;
	*mr->mpprev = mr->mnext;
	if (mr->mnext)
		mr->mnext->mpprev = mr->mpprev;
	grave_add(mr->stag);
	rnic.count--;
	mr_count(mr->pd, mr->len, mr->access, &bill);
	prm_give(mr->pd->user, &bill);
}

void rnic_mr_dereg(struct rnic_mr *mr)
{
	if (!mr)
		return;
	rnic_mr_revoke(mr);
	if (mr->scope) {
		*mr->qpprev = mr->qnext;
		if (mr->qnext)
			mr->qnext->qpprev = mr->qpprev;
	}
	rnic_pd_put(mr->pd);
	free(mr);
}

uint32_t rnic_mr_stag(const struct rnic_mr *mr)
{
	return mr->stag;
}

uint64_t rnic_mr_to(const struct rnic_mr *mr)
{
	return mr->to;
}

unsigned int rnic_mr_count(void)
{
	return rnic.count;
}

void rnic_mr_foreach(void (*fn)(void *arg, const struct rnic_mr_info *info), void *arg)
{
	for (unsigned int i = 0; i < rnic.nbuckets; i++) {
		for (struct rnic_mr *mr = rnic.bucket[i]; mr; mr = mr->hnext) {
			struct rnic_mr_info info = {
				.stag = mr->stag, .to = mr->to, .len = mr->len, .access = mr->access & ~RNIC_PREPAID, .uid = mr->pd->user->uid,
				.stream_id = mr->pd->stream_id, .scoped = mr->scope,
			};

			fn(arg, &info);
		}
	}
}

/* ---- what the queue pairs ask ---- */

/* An administrator may prefer that nobody learns which STags exist (security.md R3). */
static enum iw_access_err scope_error(void)
{
	return conf.hide_stag_errors ? IW_ACC_STAG : IW_ACC_SCOPE;
}

/* wrap, STag, scope, right, bounds: in this order. */
enum iw_access_err mr_access(struct rnic_qp *qp, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	struct rnic_mr *mr;

	if (len > UINT64_MAX - to)
		return IW_ACC_WRAP;
	mr = rnic_mr_find(stag);
	if (!mr)
		return IW_ACC_STAG;
	if (mr->pd != qp->attr.pd || ((right & REMOTE_RIGHTS) && mr->scope && mr->scope != qp))
		return scope_error();
	if (!right || (mr->access & right) != right)
		return IW_ACC_RIGHTS;
	if (to < mr->to || len > mr->len || to - mr->to > mr->len - len)
		return IW_ACC_BOUNDS;
	*ptr = mr->addr + (to - mr->to);
	return IW_ACC_OK;
}

enum iw_access_err mr_invalidate(struct rnic_qp *qp, uint32_t stag)
{
	struct rnic_mr *mr = rnic_mr_find(stag);

	if (!mr)
		return IW_ACC_STAG;
	/* of others, shared by several streams (security.md R22), or never meant for the peer: receive buffers, sinks of our Reads */
	if (mr->pd != qp->attr.pd || mr->scope != qp || !(mr->access & PEER_RIGHTS))
		return scope_error();
	rnic_mr_revoke(mr);
	return IW_ACC_OK;
}

void *rnic_qp_mem(struct rnic_qp *qp, uint32_t stag, uint64_t to, size_t len)
{
	struct rnic_mr *mr = rnic_mr_find(stag);

	if (!mr || mr->pd != qp->attr.pd || to < mr->to || len > mr->len || to - mr->to > mr->len - len)
		return NULL;
	return mr->addr + (to - mr->to);
}
