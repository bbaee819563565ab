// SPDX-License-Identifier: MIT
/* What other daemons ask and say of connections, answered from our offers and listeners. */
#include "theirs.h"

#include <stdlib.h>

#include "book.h"
#include "claim.h"
#include "listeners.h"

struct their_claim {
	struct sess_claim asked;
	struct claim claim;
};

static struct their_claim *their(struct sess_claim *q)
{
	return container_of(q, struct their_claim, asked);
}

static struct sess_claim *claim_new(void)
{
	struct their_claim *c = calloc(1, sizeof(*c));

	return c ? &c->asked : NULL;
}

static void answered(struct claim *cl, struct offer *o, enum iw_reason reason)
{
	struct their_claim *c = container_of(cl, struct their_claim, claim);

	if (o)
		o->promised = true;
	sess_claim_answer(&c->asked, o != NULL, reason);
	free(c);
}

static void claim(struct sess_claim *q, const struct iw_tuple *t, unsigned int wait_ms)
{
	struct their_claim *c = their(q);

	c->claim.t = *t;
	c->claim.fn = answered;
	claim_ask(&c->claim, wait_ms);
}

static void claim_gone(struct sess_claim *q)
{
	claim_cancel(&their(q)->claim);
	free(their(q));
}

static void confirmed(const struct iw_tuple *t, bool yes, enum iw_reason reason)
{
	struct offer *o = offer_find(t);

	if (!o || o->state != OFFER_HELD || !o->promised)
		return;		/* withdrawn meanwhile: the other end sees plain octets */
	if (yes)
		offer_claimed(o);
	else
		offer_withdraw(o, reason);
}

static const struct session_ops ops = {
	.listens = listener_match, .claim_new = claim_new, .claim = claim, .claim_gone = claim_gone, .confirmed = confirmed,
	.listener_up = shun_del, .listeners_gone = offers_withdraw_to,
};

void theirs_start(void)
{
	session_ops = &ops;
}
