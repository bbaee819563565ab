// SPDX-License-Identifier: MIT
/*
 * Intents: which programs are about to connect where. They are counters in the page each process shares with us (proto/page.h), so raising one
 * costs no message. Looked at are only processes that may have raised one in the bucket: a process that was found without an open intent
 * is taken from the list and says so itself (INTENT) when it raises the next one; when a claim waits, its library says when the
 * count falls to 0 (INTENT_END). tests/intent.pml is the model: nothing is missed, and nobody waits for a timer.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/net/locals.h"
#include "claim.h"
#include "intent.h"

#define IDLE_LOOKS	8u	/* a process that connects again and again shall not have to say so each time */

struct intent {
	struct list node;		/* in listed[bucket]; in no list: set aside */
	struct list mine;		/* in client_priv.intents */
	struct list claims;		/* struct claim: wait for its end */
	struct client *client;
	unsigned int bucket, idle;
};

static struct list listed[IW_INTENTS];
static struct list fresh = { &fresh, &fresh };	/* clients that are listed everywhere: nobody has looked at them yet */

static struct list *list_of(unsigned int bucket)
{
	return list_bucket(&listed[bucket]);
}

static bool is_open(const struct client *c, unsigned int bucket)
{
	return atomic_load(&c->proc->intent[bucket]) != 0;
}

static struct intent *intent_find(struct client *c, unsigned int bucket)
{
	list_each(n, nxt, &c->priv->intents) {
		struct intent *in = list_entry(n, struct intent, mine);

		if (in->bucket == bucket)
			return in;
	}
	return NULL;
}

/* Idempotent. Without memory claims do not wait for this process. */
static void intent_list(struct client *c, unsigned int bucket)
{
	struct intent *in = intent_find(c, bucket);

	if (!in) {
		in = calloc(1, sizeof(*in));
		if (!in)
			return;
		in->client = c;
		in->bucket = bucket;
		list_init(&in->node);
		list_init(&in->claims);
		list_add_tail(&c->priv->intents, &in->mine);
	}
	in->idle = 0;
	if (list_empty(&in->node))
		list_add_tail(list_of(bucket), &in->node);
	atomic_fetch_or(&c->proc->watch[bucket], IW_WATCH_LISTED);
}

static void intent_free(struct intent *in)
{
	list_del(&in->node);
	list_del(&in->mine);
	free(in);
}

/* No claim waits for it. True: it was raised meanwhile, and stays. */
static bool intent_unlist(struct intent *in)
{
	atomic_fetch_and(&in->client->proc->watch[in->bucket], (uint8_t)~(IW_WATCH_LISTED | IW_WATCH_END));
	if (is_open(in->client, in->bucket)) {
		intent_list(in->client, in->bucket);
		return true;
	}
	intent_free(in);
	return false;
}

/* Open, and we shall hear of its end? The mark stands before the count is read: one of the two sides sees the other. */
static bool intent_watch(struct intent *in)
{
	if (!is_open(in->client, in->bucket))
		return false;
	atomic_fetch_or(&in->client->proc->watch[in->bucket], IW_WATCH_END);
	return is_open(in->client, in->bucket);
}

static bool intent_awaits(struct intent *in)
{
	if (intent_watch(in)) {
		in->idle = 0;
		return true;
	}
	/* With claims that wait its end is on its way, and what wakes them must not be taken from under them. */
	if (!list_empty(&in->claims) || ++in->idle < IDLE_LOOKS)
		return false;
	return intent_unlist(in) && intent_watch(in);
}

/* Its claims look again. It may be gone afterwards. */
static void intent_wake(struct intent *in)
{
	struct list claims;

	list_take(&claims, &in->claims);
	while (!list_empty(&claims))
		claim_look(list_entry(claims.next, struct claim, node));
}

/* ---- clients ---- */

void intents_client_new(struct client *c)
{
	for (unsigned int b = 0; b < IW_INTENTS; b++)
		atomic_init(&c->proc->watch[b], IW_WATCH_LISTED);
	list_add_tail(&fresh, &c->priv->fresh);
}

/* Once in the life of a client: from being listed everywhere to being listed where it has something. */
static void client_sort(struct client *c)
{
	list_del(&c->priv->fresh);
	for (unsigned int b = 0; b < IW_INTENTS; b++) {
		atomic_store(&c->proc->watch[b], 0);
		if (is_open(c, b))
			intent_list(c, b);
	}
}

void intents_client_gone(struct client *c)
{
	list_del(&c->priv->fresh);
	while (!list_empty(&c->priv->intents)) {
		struct intent *in = list_entry(c->priv->intents.next, struct intent, mine);

		/* out of everything first: claims look at what is left */
		list_del(&in->node);
		list_del(&in->mine);
		intent_wake(in);
		free(in);
	}
}

/* It goes on: what claims waited for in vain counts again. */
void intents_client_moves(struct client *c)
{
	if (!c->priv->set_aside)
		return;
	c->priv->set_aside = false;
	list_each(n, nxt, &c->priv->intents) {
		struct intent *in = list_entry(n, struct intent, mine);

		if (is_open(c, in->bucket))
			intent_list(c, in->bucket);
	}
}

int cm_intent(struct client *c, const struct iw_ctl_id *m)
{
	struct cm_req r = { 0 };
	struct intent *in;
	int ret;

	if (m->id >= IW_INTENTS)
		return -EPROTO;
	if (m->h.type == IW_CTL_INTENT_END) {
		in = intent_find(c, (unsigned int)m->id);
		if (in)
			intent_wake(in);
		return 0;
	}
	ret = req_begin(&r, c, &m->h);
	if (ret)
		return ret;
	if (list_empty(&c->priv->fresh))
		intent_list(c, (unsigned int)m->id);
	req_ack(&r, IW_REASON_ACCELERATED, 0);
	return 0;
}

/* ---- who is waited for ---- */

#define VAIN_MAX	4u	/* of a user's, and then one a second */

static struct prm_user *user_of(const struct intent *in)
{
	return prm_user_get(in->client->uid);
}

static void vain_age(struct prm_user *u)
{
	uint64_t now = engine_now_ms(), s = (now - u->vain_ms) / 1000;

	u->vain = s < u->vain ? u->vain - (unsigned int)s : 0;
	u->vain_ms = u->vain ? u->vain_ms + 1000 * s : now;
}

static bool worth_waiting(const struct intent *in)
{
	struct prm_user *u = user_of(in);

	if (!u || !u->vain)
		return true;
	vain_age(u);
	return u->vain < VAIN_MAX;
}

static void waited_in_vain(const struct intent *in)
{
	struct prm_user *u = user_of(in);

	if (!u)
		return;
	vain_age(u);
	if (u->vain < VAIN_MAX)
		u->vain++;
}

/* ---- claims ---- */

/* Buckets in which a connection to dst can have been announced; the number of them. */
static unsigned int buckets_of(const struct iw_addr *dst, unsigned int b[3])
{
	static const uint8_t any4[16] = { [10] = 0xff, [11] = 0xff }, any6[16];

	b[0] = iw_addr_hash(dst->ip, dst->port) % IW_INTENTS;
	if (!addr_is_local(dst->ip))
		return 1;
	/* connect to the unspecified address means this host */
	b[1] = iw_addr_hash(any4, dst->port) % IW_INTENTS;
	b[2] = iw_addr_hash(any6, dst->port) % IW_INTENTS;
	return 3;
}

struct list *intent_claims(const struct iw_addr *dst, pid_t except)
{
	unsigned int b[3], n = buckets_of(dst, b);

	while (!list_empty(&fresh))
		client_sort(client_of_fresh(fresh.next));
	for (unsigned int i = 0; i < n; i++) {
		list_each(l, nxt, list_of(b[i])) {
			struct intent *in = list_entry(l, struct intent, node);

			if ((!except || in->client->pid != except) && worth_waiting(in) && intent_awaits(in))
				return &in->claims;
		}
	}
	return NULL;
}

void intents_set_aside(const struct iw_addr *dst, pid_t except)
{
	unsigned int b[3], n = buckets_of(dst, b);

	for (unsigned int i = 0; i < n; i++) {
		list_each(l, nxt, list_of(b[i])) {
			struct intent *in = list_entry(l, struct intent, node);

			if ((except && in->client->pid == except) || !is_open(in->client, in->bucket))
				continue;
			atomic_fetch_and(&in->client->proc->watch[in->bucket], (uint8_t)~IW_WATCH_LISTED);
			list_del(&in->node);
			in->client->priv->set_aside = true;
			waited_in_vain(in);
		}
	}
}
