/* SPDX-License-Identifier: MIT */
/* Protection domains, the STag table, queue pairs: every access of the network or of a work request to memory is decided here. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "conf.h"
#include "rnic.h"

#define MR_MIN_BUCKETS	1024u
#define GRAVE_BITS	(1u << 20)
#define GRAVE_MAX	(1u << 16)	/* STags freed before the older generation is forgotten */

struct rnic_pd {
	uint32_t uid;
	unsigned int refs;
	uint64_t memory;		/* octets registered or set aside */
	struct rnic_pd *next, **pprev;
};

struct rnic_mr {
	uint32_t stag;
	unsigned int access;
	struct rnic_pd *pd;
	struct rnic_qp *scope;
	uint8_t *addr;
	uint64_t to, len;
	struct rnic_mr *hnext, **hpprev;	/* table */
	struct rnic_mr *qnext, **qpprev;	/* of its queue pair */
};

struct rnic_qp {
	struct rnic_qp_attr attr;
	struct rnic_mr *mrs;		/* scoped to it */
	uint64_t stream_id;
	struct iw_qp state;
};

static struct {
	struct rnic_pd *pds;
	struct rnic_mr **bucket;
	unsigned int nbuckets, count;
	/* two generations of freed STags; a false hit only costs another draw */
	uint64_t grave[2][GRAVE_BITS / 64];
	unsigned int grave_now, grave_count;
	uint32_t pool[256];
	unsigned int pool_left;
} rnic;

/* ---- protection domains ---- */

struct rnic_pd *rnic_pd_get(uint32_t uid)
{
	struct rnic_pd *pd;

	for (pd = rnic.pds; pd; pd = pd->next) {
		if (pd->uid == uid) {
			pd->refs++;
			return pd;
		}
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->uid = uid;
	pd->refs = 1;
	pd->next = rnic.pds;
	pd->pprev = &rnic.pds;
	if (pd->next)
		pd->next->pprev = &pd->next;
	rnic.pds = pd;
	return pd;
}

void rnic_pd_put(struct rnic_pd *pd)
{
	if (!pd || --pd->refs)
		return;
	*pd->pprev = pd->next;
	if (pd->next)
		pd->next->pprev = pd->pprev;
	free(pd);
}

int rnic_pd_reserve(struct rnic_pd *pd, uint64_t octets)
{
	if (octets > conf.max_memory || pd->memory > conf.max_memory - octets)
		return -EDQUOT;
	pd->memory += octets;
	return 0;
}

void rnic_pd_unreserve(struct rnic_pd *pd, uint64_t octets)
{
	pd->memory -= octets;
}

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

static int mr_check(struct rnic_pd *pd, size_t len, uint64_t to, unsigned int access)
{
	int ret;

	if (!len || len > UINT64_MAX - to)
		return -EINVAL;
	ret = table_grow();
	if (!ret && !(access & RNIC_PREPAID))
		ret = rnic_pd_reserve(pd, len);
	return ret;
}

static void mr_uncount(struct rnic_pd *pd, uint64_t len, unsigned int access)
{
	if (!(access & RNIC_PREPAID))
		rnic_pd_unreserve(pd, len);
}

static int mr_add(struct rnic_pd *pd, struct rnic_qp *scope, void *addr, size_t len, uint64_t to, unsigned int access,
		  uint32_t stag, struct rnic_mr **out)
{
	struct rnic_mr *mr = calloc(1, sizeof(*mr));

	if (!mr) {
		mr_uncount(pd, len, access);
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
	pd->refs++;
	rnic.count++;
	*out = mr;
	return 0;
}

int rnic_mr_reg(struct rnic_pd *pd, struct rnic_qp *scope, void *addr, size_t len, uint64_t to, unsigned int access,
		struct rnic_mr **mr)
{
	uint32_t stag;
	int ret = mr_check(pd, len, to, access);

	if (ret)
		return ret;
	stag = stag_draw();
	if (!stag) {
		mr_uncount(pd, len, access);
		return -EIO;
	}
	return mr_add(pd, scope, addr, len, to, access, stag, mr);
}

int rnic_mr_reg_stag(struct rnic_pd *pd, struct rnic_qp *scope, void *addr, size_t len, uint64_t to, unsigned int access,
		     uint32_t stag, struct rnic_mr **mr)
{
	int ret;

	if (rnic_mr_find(stag))
		return -EEXIST;
	ret = mr_check(pd, len, to, access);
	if (ret)
		return ret;
	return mr_add(pd, scope, addr, len, to, access, stag, mr);
}

void rnic_mr_dereg(struct rnic_mr *mr)
{
	if (!mr)
		return;
	*mr->hpprev = mr->hnext;
	if (mr->hnext)
		mr->hnext->hpprev = mr->hpprev;
	if (mr->scope) {
		*mr->qpprev = mr->qnext;
		if (mr->qnext)
			mr->qnext->qpprev = mr->qpprev;
	}
	grave_add(mr->stag);
	rnic.count--;
	mr_uncount(mr->pd, mr->len, mr->access);
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
				.stag = mr->stag, .to = mr->to, .len = mr->len, .access = mr->access & ~RNIC_PREPAID, .uid = mr->pd->uid,
				.stream_id = mr->scope ? mr->scope->stream_id : 0,
			};

			fn(arg, &info);
		}
	}
}

/* ---- what the protocol engine asks ---- */

#define REMOTE_RIGHTS (IW_ACCESS_REMOTE_READ | IW_ACCESS_REMOTE_WRITE | IW_ACCESS_REMOTE_ATOMIC | IW_ACCESS_READ_SINK)

/* wrap, STag, scope, right, bounds: in this order (wire.md 5.8). */
static enum iw_access_err mr_access(struct rnic_qp *qp, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	struct rnic_mr *mr;

	if (len > UINT64_MAX - to)
		return IW_ACC_WRAP;
	mr = rnic_mr_find(stag);
	if (!mr)
		return IW_ACC_STAG;
	if (mr->pd != qp->attr.pd || ((right & REMOTE_RIGHTS) && mr->scope && mr->scope != qp))
		return IW_ACC_SCOPE;
	if (!right || (mr->access & right) != right)
		return IW_ACC_RIGHTS;
	if (to < mr->to || len > mr->len || to - mr->to > mr->len - len)
		return IW_ACC_BOUNDS;
	*ptr = mr->addr + (to - mr->to);
	return IW_ACC_OK;
}

static enum iw_access_err qp_access(void *ctx, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	return mr_access(ctx, stag, to, len, right, ptr);
}

static enum iw_access_err qp_invalidate(void *ctx, uint32_t stag)
{
	struct rnic_qp *qp = ctx;
	struct rnic_mr *mr = rnic_mr_find(stag);

	if (!mr)
		return IW_ACC_STAG;
	if (mr->pd != qp->attr.pd || mr->scope != qp)
		return IW_ACC_SCOPE;	/* of others, or shared by several streams (security.md R22) */
	rnic_mr_dereg(mr);
	if (qp->attr.invalidated)
		qp->attr.invalidated(qp->attr.ctx, stag);
	return IW_ACC_OK;
}

static void qp_complete(void *ctx, const struct iw_cqe *cqe)
{
	struct rnic_qp *qp = ctx;

	qp->attr.complete(qp->attr.ctx, cqe);
}

static void qp_event(void *ctx, enum iw_qp_event ev)
{
	struct rnic_qp *qp = ctx;

	qp->attr.event(qp->attr.ctx, ev);
}

const struct iw_qp_ops rnic_qp_ops = {
	.access = qp_access,
	.invalidate = qp_invalidate,
	.complete = qp_complete,
	.event = qp_event,
};

/* ---- queue pairs ---- */

int rnic_qp_create(const struct rnic_qp_attr *attr, struct rnic_qp **out)
{
	/* a mapping of its own: pages of queues that a quiet connection never reaches stay untouched */
	struct rnic_qp *qp = mmap(NULL, sizeof(*qp), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (qp == MAP_FAILED)
		return -ENOMEM;
	qp->attr = *attr;
	attr->pd->refs++;
	iw_qp_init(&qp->state);
	*out = qp;
	return 0;
}

void rnic_qp_destroy(struct rnic_qp *qp)
{
	struct rnic_pd *pd;

	if (!qp)
		return;
	while (qp->mrs)
		rnic_mr_dereg(qp->mrs);
	pd = qp->attr.pd;
	munmap(qp, sizeof(*qp));
	rnic_pd_put(pd);
}

struct iw_qp *rnic_qp_state(struct rnic_qp *qp)
{
	return &qp->state;
}

void rnic_qp_set_stream_id(struct rnic_qp *qp, uint64_t id)
{
	qp->stream_id = id;
}

void *rnic_qp_mem(struct rnic_qp *qp, uint32_t stag, uint64_t to, size_t len)
{
	struct rnic_mr *mr = rnic_mr_find(stag);

	if (!mr || mr->pd != qp->attr.pd || to < mr->to || len > mr->len || to - mr->to > mr->len - len)
		return NULL;
	return mr->addr + (to - mr->to);
}
