/* SPDX-License-Identifier: MIT */
/* Completion queues: a ring of fixed size per queue, so that one who does not poll harms nobody else. */
#include "cq_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/base/engine.h"
#include "daemon/base/log.h"
#include "pd_priv.h"
#include "qp_priv.h"

struct rnic_cq {
	struct rnic_cq_attr attr;
	struct rnic_pd *pd;
	size_t bytes;			/* of wc */
	unsigned int promised;		/* entries that its queue pairs may need */
	enum rnic_cq_arm armed;
	bool dead;			/* overflowed */
	bool overflow_due, notify_due;
	struct work work;
	struct rnic_cq_use *users;
	uint32_t head, tail, mask;
	struct rnic_wc *wc;
};

static void cq_work(struct work *w)
{
	struct rnic_cq *cq = container_of(w, struct rnic_cq, work);
	bool overflow = cq->overflow_due, notify = cq->notify_due;

	cq->overflow_due = cq->notify_due = false;
	if (overflow && cq->attr.overflow)
		cq->attr.overflow(cq->attr.ctx, cq);
	else if (notify && cq->attr.notify)
		cq->attr.notify(cq->attr.ctx, cq);
}

int rnic_cq_create(struct rnic_pd *pd, const struct rnic_cq_attr *attr, struct rnic_cq **out)
{
	struct rnic_cq *cq;
	struct rnic_wc *wc;
	uint32_t n = 1;
	size_t bytes;
	int ret;

	if (!attr->size || attr->size > RNIC_CQ_MAX)
		return -EINVAL;
	while (n < attr->size)
		n *= 2;
	if (!(attr->flags & RNIC_PREPAID)) {
		ret = prm_take_one(pd->user, PRM_CQES, attr->size);
		if (ret)
			return ret;
	}
	/* a mapping of its own: pages that the ring does not reach stay untouched */
	bytes = (size_t)n * sizeof(cq->wc[0]);
	wc = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cq = wc == MAP_FAILED ? NULL : calloc(1, sizeof(*cq));
	if (!cq) {
		if (wc != MAP_FAILED)
			munmap(wc, bytes);
		if (!(attr->flags & RNIC_PREPAID))
			prm_give_one(pd->user, PRM_CQES, attr->size);
		return -ENOMEM;
	}
	cq->attr = *attr;
	cq->wc = wc;
	cq->bytes = bytes;
	cq->mask = n - 1;
	cq->pd = pd;
	pd->refs++;
	cq->work.turn = &pd->user->turn;
	*out = cq;
	return 0;
}

int rnic_cq_destroy(struct rnic_cq *cq)
{
	struct rnic_pd *pd;

	if (!cq)
		return 0;
	if (cq->users)
		return -EBUSY;
	work_cancel(&cq->work);
	pd = cq->pd;
	if (!(cq->attr.flags & RNIC_PREPAID))
		prm_give_one(pd->user, PRM_CQES, cq->attr.size);
	munmap(cq->wc, cq->bytes);
	free(cq);
	rnic_pd_put(pd);
	return 0;
}

void rnic_cq_trim(struct rnic_cq *cq)
{
	if (cq->tail == cq->head)
		madvise(cq->wc, cq->bytes, MADV_DONTNEED);
}

int rnic_cq_poll(struct rnic_cq *cq, struct rnic_wc *wc, int n)
{
	int got = 0;

	while (got < n && cq->tail != cq->head)
		wc[got++] = cq->wc[cq->tail++ & cq->mask];
	if (cq->tail == cq->head)
		cq->head = cq->tail = 0;	/* back to the first page */
	return !got && n > 0 && cq->dead ? -EOVERFLOW : got;
}

bool rnic_cq_arm(struct rnic_cq *cq, enum rnic_cq_arm what)
{
	cq->armed = what;
	return cq->head != cq->tail || cq->dead;
}

bool cq_dead(const struct rnic_cq *cq)
{
	return cq->dead;
}

/* A completion is lost, so nobody can say any more what became of the work requests of these queue pairs. */
static void cq_overflow(struct rnic_cq *cq)
{
	cq->dead = true;
	cq->overflow_due = true;
	cq->notify_due |= cq->armed;
	cq->armed = 0;
	work_queue(&cq->work, cq_work);
	log_err("a completion queue of user %u with %u entries overflowed: its streams end", cq->pd->user->uid, cq->attr.size);
	for (struct rnic_cq_use *u = cq->users; u; u = u->next)
		rnic_qp_terminate(u->qp, 0, 0, 0);
}

void cq_push(struct rnic_cq *cq, struct rnic_qp *qp, const struct iw_cqe *cqe)
{
	struct rnic_wc *wc;

	if (cq->dead)
		return;
	if (cq->head - cq->tail >= cq->attr.size) {
		cq_overflow(cq);
		return;
	}
	wc = &cq->wc[cq->head++ & cq->mask];
	wc->cqe = *cqe;
	wc->qp = qp;
	if (cq->armed == RNIC_CQ_NEXT || (cq->armed == RNIC_CQ_SOLICITED && (cqe->se || cqe->status != IW_WC_OK))) {
		cq->armed = 0;
		cq->notify_due = true;
		work_queue(&cq->work, cq_work);
	}
}

/* Room is promised when the queue pair is made, not looked for when it completes (SEC-P05). */
int cq_join(struct rnic_cq *cq, struct rnic_cq_use *use, struct rnic_qp *qp, unsigned int entries)
{
	if (cq->dead)
		return -EOVERFLOW;
	if (cq->pd->user != qp->attr.pd->user)
		return -EPERM;		/* SEC-R09 */
	if (entries > cq->attr.size - cq->promised)
		return -ENOSPC;
	cq->promised += entries;
	use->qp = qp;
	use->next = cq->users;
	use->pprev = &cq->users;
	if (use->next)
		use->next->pprev = &use->next;
	cq->users = use;
	return 0;
}

void cq_leave(struct rnic_cq *cq, struct rnic_cq_use *use, unsigned int entries)
{
	uint32_t to = cq->tail;

	if (!use->pprev)
		return;
	*use->pprev = use->next;
	if (use->next)
		use->next->pprev = use->pprev;
	cq->promised -= entries;
	for (uint32_t i = cq->tail; i != cq->head; i++) {
		if (cq->wc[i & cq->mask].qp != use->qp)
			cq->wc[to++ & cq->mask] = cq->wc[i & cq->mask];
	}
	cq->head = to;
	use->pprev = NULL;
}
