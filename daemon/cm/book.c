// SPDX-License-Identifier: MIT
/* What is remembered of connections: plain ones and their reasons, who may address which stream. All bounded. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/probe.h"
#include "book.h"
#include "match.h"
#include "proposal.h"

#define PLAIN_MAX	4096u	/* per client; the oldest is forgotten */
#define GRANTS_MAX	65536u	/* per client */
#define BOOK_BITS	14u
#define BOOK_HASH	(1u << BOOK_BITS)

const struct cm_watch *cm_watch;

/* ---- plain connections ---- */

struct plain {
	struct list hash, tuple, node;
	struct client *client;
	uint64_t conn_id;
	struct iw_tuple t;
	bool is_client;
	int fd;
	enum iw_reason reason;
};
static struct list plains[BOOK_HASH], by_tuple[TUPLE_HASH];
static uint64_t reasons[2][IW_REASON_MAX + 1];	/* the last: those that are not in the table */

static struct list *bucket(struct list *table, uint64_t key)
{
	return list_bucket(&table[(key * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - BOOK_BITS)]);
}

static struct list *plain_bucket(const struct client *c, uint64_t conn_id)
{
	return bucket(plains, (uintptr_t)c ^ conn_id * 31);
}

enum iw_reason plain_why(const struct iw_tuple *t)
{
	list_each(n, nxt, tuple_bucket(by_tuple, t)) {
		const struct plain *p = list_entry(n, struct plain, tuple);

		if (iw_tuple_same(&p->t, t))
			return p->reason;
	}
	return IW_REASON_ACCELERATED;
}

static struct plain *plain_find(struct client *c, uint64_t conn_id)
{
	struct list *b = plain_bucket(c, conn_id);

	list_each(n, nxt, b) {
		struct plain *p = list_entry(n, struct plain, hash);

		if (p->client == c && p->conn_id == conn_id)
			return p;
	}
	return NULL;
}

static void plain_free(struct plain *p)
{
	prm_forget(p->client->uid);
	p->client->priv->nplain--;
	list_del(&p->hash);
	list_del(&p->tuple);
	list_del(&p->node);
	free(p);
}

void reason_add(enum iw_reason reason, bool is_client)
{
	reasons[is_client][reason < IW_REASON_MAX ? reason : IW_REASON_MAX]++;
}

uint64_t reason_count(enum iw_reason r, bool client)
{
	return reasons[client][r < IW_REASON_MAX ? r : IW_REASON_MAX];
}

static void tell(const struct plain_info *info)
{
	if (cm_watch)
		cm_watch->fallback(info);
}

static struct plain_info recorded(const struct plain *p)
{
	return (struct plain_info){
		.client = p->client, .uid = p->client->uid, .tuple = p->t, .is_client = p->is_client, .fd = p->fd, .reason = p->reason,
	};
}

void plain_record(struct client *c, uint64_t conn_id, const struct iw_tuple *t, bool is_client, int fd, enum iw_reason reason)
{
	struct plain *p = plain_find(c, conn_id), now;
	struct plain_info info;

	if (p) {	/* the library tells again what it was told: the first word counts */
		p->fd = fd;
		return;
	}
	reason_add(reason, is_client);
	now = (struct plain){ .client = c, .conn_id = conn_id, .t = *t, .is_client = is_client, .fd = fd, .reason = reason };
	info = recorded(&now);
	IW_PROBE3(iwarpd, fallback, 0, reason, 0);
	tell(&info);
	if (!prm_record(c->uid))
		return;
	p = calloc(1, sizeof(*p));
	if (!p) {
		prm_forget(c->uid);
		return;
	}
	*p = now;
	list_add_tail(plain_bucket(c, conn_id), &p->hash);
	list_add_tail(tuple_bucket(by_tuple, t), &p->tuple);
	list_add_tail(&c->priv->plain, &p->node);
	if (++c->priv->nplain > PLAIN_MAX)
		plain_free(list_entry(c->priv->plain.next, struct plain, node));
}

void plain_closed(struct client *c, uint64_t conn_id)
{
	struct plain *p = plain_find(c, conn_id);

	if (p)
		plain_free(p);
}

void plain_client_gone(struct client *c)
{
	while (!list_empty(&c->priv->plain))
		plain_free(list_entry(c->priv->plain.next, struct plain, node));
}

static struct plain_info proposed(const struct proposal *p)
{
	return (struct plain_info){
		.id = p->number, .client = p->client, .uid = p->uid, .tuple = p->t, .is_client = p->is_client, .fd = p->fd, .reason = p->reason,
		.stream_id = p->st ? stream_id(p->st) : 0, .theirs = p->theirs, .proposed_ms = p->proposed_ms, .octets = p->octets, .calls = p->calls, .backs = p->backs,
	};
}

void plain_tell(struct proposal *p)
{
	struct plain_info info;

	if (p->reason == IW_REASON_UNANSWERED || p->reason == IW_REASON_MATCHED || (p->told == p->reason && p->told_theirs == p->theirs))
		return;
	p->told = p->reason;
	p->told_theirs = p->theirs;
	IW_PROBE3(iwarpd, fallback, p->number, p->reason, p->theirs);
	info = proposed(p);
	tell(&info);
}

void plain_tell_quota(struct client *c, const struct iw_tuple *t, bool is_client, int fd)
{
	tell(&(struct plain_info){ .client = c, .uid = c->uid, .tuple = *t, .is_client = is_client, .fd = fd, .reason = IW_REASON_QUOTA });
}

void plain_foreach(void (*fn)(void *arg, const struct plain_info *info), void *arg)
{
	list_each(cn, cnxt, &clients) {
		struct client *c = client_of(cn);

		list_each(n, nxt, &c->priv->plain) {
			const struct plain *p = list_entry(n, struct plain, node);
			struct plain_info info = recorded(p);

			fn(arg, &info);
		}
		list_each(n, nxt, &c->priv->proposals) {
			const struct proposal *p = list_entry(n, struct proposal, mine);
			struct plain_info info = proposed(p);

			if (!p->st)
				fn(arg, &info);
		}
	}
}

static struct proposal *by_any_id(uint64_t id)
{
	struct proposal *p = proposal_numbered(id);
	struct stream *st = p ? NULL : stream_find(id);

	return st ? stream_cm_data(st) : p;
}

bool plain_look(uint64_t id, struct plain_info *info)
{
	const struct proposal *p = by_any_id(id);

	if (p)
		*info = proposed(p);
	return p;
}

bool plain_before(uint64_t stream, const struct iw_tuple *end, struct plain_info *info)
{
	for (struct proposal *p = proposal_next(end, NULL); p; p = proposal_next(end, p)) {
		if (!p->st || stream_id(p->st) != stream)
			continue;
		*info = proposed(p);
		return true;
	}
	return false;
}

int cm_upgrade(uint64_t id)
{
	struct proposal *p = by_any_id(id);

	return p ? match_upgrade(p) : -ENOENT;
}

int cm_downgrade(uint64_t id)
{
	struct proposal *p = by_any_id(id);

	return p ? match_downgrade(p) : -ENOENT;
}

/* ---- grants: which client was given which end of which stream ---- */

struct grant {
	struct list hash, node;
	struct client *client;
	uint64_t stream_id;
	unsigned int end;
};
static struct list grants[BOOK_HASH];

/* By process, not by connection: a library may hold more than one. Pid 0 is any process of a foreign pid namespace. */
static bool same_process(const struct client *a, const struct client *b)
{
	return a == b || (a->pid && a->pid == b->pid && a->uid == b->uid);
}

bool grant_has(struct client *c, uint64_t id, unsigned int end)
{
	list_each(n, nxt, bucket(grants, id)) {
		struct grant *g = list_entry(n, struct grant, hash);

		if (same_process(g->client, c) && g->stream_id == id && g->end == end)
			return true;
	}
	return false;
}

void grant_add(struct client *c, uint64_t id, unsigned int end)
{
	struct grant *g;

	if (c->priv->ngrants >= GRANTS_MAX || grant_has(c, id, end) || !prm_record(c->uid))
		return;
	g = malloc(sizeof(*g));
	if (!g) {
		prm_forget(c->uid);
		return;
	}
	*g = (struct grant){ .client = c, .stream_id = id, .end = end };
	list_add_tail(bucket(grants, id), &g->hash);
	list_add_tail(&c->priv->grants, &g->node);
	c->priv->ngrants++;
}

static void grant_free(struct grant *g)
{
	prm_forget(g->client->uid);
	g->client->priv->ngrants--;
	list_del(&g->hash);
	list_del(&g->node);
	free(g);
}

void grants_stream_gone(uint64_t id)
{
	list_each(n, nxt, bucket(grants, id)) {
		struct grant *g = list_entry(n, struct grant, hash);

		if (g->stream_id == id)
			grant_free(g);
	}
}

void grants_client_gone(struct client *c)
{
	while (!list_empty(&c->priv->grants))
		grant_free(list_entry(c->priv->grants.next, struct grant, node));
}
