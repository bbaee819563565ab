// SPDX-License-Identifier: MIT
/* Protection domains. */
#include "pd_priv.h"

#include <stdlib.h>

static struct rnic_pd *pds;	/* common ones */

struct rnic_pd *rnic_pd_new(uint32_t uid, uint64_t stream_id)
{
	struct rnic_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->user = prm_user_get(uid);
	pd->refs = 1;
	pd->stream_id = stream_id;
	if (pd->user)
		return pd;
	free(pd);
	return NULL;
}

struct rnic_pd *rnic_pd_get(uint32_t uid)
{
	struct rnic_pd *pd;

	for (pd = pds; pd; pd = pd->next) {
		if (pd->user->uid == uid) {
			pd->refs++;
			return pd;
		}
	}
	pd = rnic_pd_new(uid, 0);
	if (!pd)
		return NULL;
	pd->next = pds;
	pd->pprev = &pds;
	if (pd->next)
		pd->next->pprev = &pd->next;
	pds = pd;
	return pd;
}

void rnic_pd_put(struct rnic_pd *pd)
{
	if (!pd || --pd->refs)
		return;
	if (pd->pprev) {
		*pd->pprev = pd->next;
		if (pd->next)
			pd->next->pprev = pd->pprev;
	}
	prm_give(pd->user, &pd->bill);
	free(pd);
}

void rnic_pd_bill(struct rnic_pd *pd, const struct prm_bill *b)
{
	for (enum prm_kind k = 0; k < PRM_KINDS; k++)
		pd->bill.n[k] += b->n[k];
}

struct prm_user *rnic_pd_user(const struct rnic_pd *pd)
{
	return pd->user;
}
