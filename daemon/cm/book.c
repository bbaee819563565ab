// SPDX-License-Identifier: MIT
/* What is remembered of connections: plain ones and their reasons, who may address which stream, final answers. All bounded. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/conf.h"
#include "book.h"

#define PLAIN_MAX	4096u	/* per client; the oldest is forgotten */
#define GRANTS_MAX	65536u	/* per client */
#define REFUSED		4096u
#define REFUSED_MS	5000u
#define SHUNNED		1024u
#define BOOK_BITS	14u
#define BOOK_HASH	(1u << BOOK_BITS)

/* ---- plain connections ---- */

struct plain {
	struct list hash, node;
	struct client *client;
	uint64_t conn_id;
	struct iw_tuple t;
	bool is_client;
	int fd;
	enum iw_reason reason;
};
static struct list plains[BOOK_HASH];
static uint64_t reasons[2][IW_REASON_MAX + 1];	/* the last: those that are not in the table */

static struct list *bucket(struct list *table, uint64_t key)
{
	return list_bucket(&table[(key * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - BOOK_BITS)]);
}

static struct list *plain_bucket(const struct client *c, uint64_t conn_id)
{
	return bucket(plains, (uintptr_t)c ^ conn_id * 31);
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

void plain_record(struct client *c, uint64_t conn_id, const struct iw_tuple *t, bool is_client, int fd, enum iw_reason reason)
{
	struct plain *p = plain_find(c, conn_id);

	if (p) {	/* the library tells again what it was told: the first word counts */
		p->fd = fd;
		return;
	}
	reason_add(reason, is_client);
	if (!prm_record(c->uid))
		return;
	p = calloc(1, sizeof(*p));
	if (!p) {
		prm_forget(c->uid);
		return;
	}
	*p = (struct plain){ .client = c, .conn_id = conn_id, .t = *t, .is_client = is_client, .fd = fd, .reason = reason };
	list_add_tail(plain_bucket(c, conn_id), &p->hash);
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

void plain_foreach(void (*fn)(void *arg, const struct plain_info *info), void *arg)
{
	list_each(cn, cnxt, &clients) {
		struct client *c = client_of(cn);

		list_each(n, nxt, &c->priv->plain) {
			const struct plain *p = list_entry(n, struct plain, node);
			struct plain_info info = {
				.client = c, .tuple = p->t, .is_client = p->is_client, .fd = p->fd, .reason = p->reason,
			};

			fn(arg, &info);
		}
	}
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

/* ---- final answers: direct-mapped; what is overwritten is forgotten, which costs time, not correctness ---- */

static struct { struct iw_tuple t; uint64_t expires; enum iw_reason reason; } refused[REFUSED];

void refused_add(const struct iw_tuple *t, enum iw_reason reason)
{
	uint32_t i = iw_tuple_hash(t) % REFUSED;

	refused[i].t = *t;
	refused[i].reason = reason;
	/* a late claim is to be recognized as long as its listener is left alone */
	refused[i].expires = engine_now_ms() + (reason == IW_REASON_UNCLAIMED ? conf.negative_ttl * UINT64_C(1000) : REFUSED_MS);
}

enum iw_reason refused_find(const struct iw_tuple *t)
{
	uint32_t i = iw_tuple_hash(t) % REFUSED;

	if (refused[i].expires <= engine_now_ms() || !iw_tuple_same(&refused[i].t, t))
		return IW_REASON_ACCELERATED;
	return refused[i].reason;
}

static struct { struct iw_addr dst; uint64_t expires; enum iw_reason reason; } shunned[SHUNNED];

void shun_add(const struct iw_addr *dst, enum iw_reason reason)
{
	uint32_t i = iw_addr_hash(dst->ip, dst->port) % SHUNNED;

	shunned[i].dst = *dst;
	shunned[i].reason = reason;
	shunned[i].expires = engine_now_ms() + conf.negative_ttl * UINT64_C(1000);
}

enum iw_reason shun_find(const struct iw_addr *dst)
{
	uint32_t i = iw_addr_hash(dst->ip, dst->port) % SHUNNED;

	if (shunned[i].expires <= engine_now_ms() || !iw_addr_same(&shunned[i].dst, dst))
		return IW_REASON_ACCELERATED;
	return shunned[i].reason;
}

/* A listener (perhaps on the wildcard address) came up: its port gets another chance. */
void shun_del(const struct iw_addr *addr)
{
	for (unsigned int i = 0; i < SHUNNED; i++)
		if (shunned[i].dst.port == addr->port && (iw_ip_any(addr->ip) || iw_ip_same(shunned[i].dst.ip, addr->ip)))
			shunned[i].expires = 0;
}
