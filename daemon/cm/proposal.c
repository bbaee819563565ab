// SPDX-License-Identifier: MIT
/* The table of proposals. Whoever looks here may have been lied to: that a program has a connection is proved by its socket, at the switch. */
#include "proposal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "proto/probe.h"
#include "daemon/base/conf.h"
#include "daemon/net/ipsec.h"
#include "daemon/net/locals.h"
#include "daemon/net/sock.h"
#include "book.h"
#include "match.h"
#include "switch.h"

#define BITS		16u
#define PROPOSALS_MAX	65536u	/* of a client; of a user, see prm_record() */
#define SAME_MAX	8u	/* of a user, of the same connection */

static_assert(TUPLE_HASH == 1u << BITS, "one size for all");

static struct list by_tuple[1u << BITS], by_id[1u << BITS], by_peer[1u << BITS], by_number[1u << BITS];

/* Random, and with the high bits of a sum of products: who chooses addresses cannot choose them to be in one bucket. */
static struct list *bucket(struct list *table, const uint32_t *word, unsigned int n)
{
	static uint64_t key[12];
	uint64_t sum;

	while (!key[0])
		if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key))
			key[0] = 0;
	sum = key[11];
	for (unsigned int i = 0; i < n; i++)
		sum += key[i] * word[i];
	return list_bucket(&table[sum >> (64 - BITS)]);
}

struct list *tuple_bucket(struct list *table, const struct iw_tuple *t)
{
	uint32_t word[9];

	memcpy(word, t->local.ip, 16);
	memcpy(word + 4, t->peer.ip, 16);
	word[8] = (uint32_t)t->local.port << 16 | t->peer.port;
	return bucket(table, word, 9);
}

static struct list *peer_bucket(const uint8_t ip[16])
{
	uint32_t word[4];

	memcpy(word, ip, 16);
	return bucket(by_peer, word, 4);
}

static struct list *id_bucket(const struct client *c, uint64_t conn_id)
{
	uint32_t word[4];
	uintptr_t p = (uintptr_t)c;

	memset(word, 0, sizeof(word));
	memcpy(word, &p, sizeof(p));
	memcpy(word + 2, &conn_id, sizeof(conn_id));
	return bucket(by_id, word, 4);
}

struct proposal *proposal_find(struct client *c, uint64_t conn_id)
{
	list_each(n, nxt, id_bucket(c, conn_id)) {
		struct proposal *p = list_entry(n, struct proposal, id);

		if (p->client == c && p->conn_id == conn_id)
			return p;
	}
	return NULL;
}

static struct list *number_bucket(uint64_t number)
{
	return list_bucket(&by_number[number & ((1u << BITS) - 1)]);
}

struct proposal *proposal_numbered(uint64_t number)
{
	list_each(n, nxt, number_bucket(number)) {
		struct proposal *p = list_entry(n, struct proposal, numbers);

		if (p->number == number)
			return p;
	}
	return NULL;
}

struct proposal *proposal_next(const struct iw_tuple *t, struct proposal *prev)
{
	struct list *b = tuple_bucket(by_tuple, t);

	for (struct list *n = prev ? prev->tuple.next : b->next; n != b; n = n->next) {
		struct proposal *p = list_entry(n, struct proposal, tuple);

		if (iw_tuple_same(&p->t, t))
			return p;
	}
	return NULL;
}

/* Its address is one that its namespace has, and no other one. */
static bool at_home(const struct proposal *p)
{
	const uint8_t *ip = p->t.local.ip;

	return p->netns == sock_own_netns() ? local_listed(ip) && !iw_ip_loopback(ip) : p->claims && !local_listed(ip);
}

bool proposals_meet(const struct proposal *p, const struct proposal *o)
{
	return p->netns == o->netns || (at_home(p) && at_home(o));
}

void proposals_of_peer(const uint8_t ip[16], void (*fn)(struct proposal *p))
{
	list_each(n, nxt, peer_bucket(ip)) {
		struct proposal *p = list_entry(n, struct proposal, peer);

		if (iw_ip_same(p->t.peer.ip, ip))
			fn(p);
	}
}

/* ---- they come and go ---- */

void proposal_orphan(struct proposal *p)
{
	if (p->client)
		p->client->priv->nproposals--;
	p->client = NULL;
	list_del(&p->id);
	list_del(&p->mine);
}

void proposal_free(struct proposal *p)
{
	if (p->state != PROPOSAL_DONE)
		reason_add(p->reason, p->is_client);
	match_forget(p);
	switch_forget(p);
	proposal_orphan(p);
	list_del(&p->tuple);
	list_del(&p->peer);
	list_del(&p->numbers);
	if (p->claims)
		local_unclaim(p->t.local.ip);
	prm_forget(p->uid);
	free(p);
}

/* What a program says of a connection that it has switched is of no use: its carrier tells more. */
static bool has_stream(struct proposal *p)
{
	switch_settle(p);
	return p->state >= PROPOSAL_SWITCHED;
}

void proposal_closed(struct client *c, uint64_t conn_id)
{
	struct proposal *p = proposal_find(c, conn_id);

	if (p && has_stream(p))
		proposal_orphan(p);
	else if (p)
		proposal_free(p);
}

void proposals_client_gone(struct client *c)
{
	while (!list_empty(&c->priv->proposals)) {
		struct proposal *p = list_entry(c->priv->proposals.next, struct proposal, mine);

		if (has_stream(p))
			proposal_orphan(p);
		else
			proposal_free(p);
	}
}

/*
 * Room for one more of that connection by this client, new: what it said of it before does not count any more, but how long to wait after a switch
 * in vain. Where one user's programs say all the same, the oldest of them gives way.
 */
static void same_before(const struct client *c, struct proposal *new)
{
	struct proposal *oldest = NULL, *next;
	unsigned int n = 0;

	for (struct proposal *p = proposal_next(&new->t, NULL); p; p = next) {
		next = proposal_next(&new->t, p);
		if (p->uid != c->uid || p->st)
			continue;
		if (p->client == c) {
			if (p->cookie == new->cookie) {
				new->backs = p->backs;
				new->refused = p->refused;
				new->not_before = p->not_before;
				new->reason = p->reason == IW_REASON_DOWNGRADED ? p->reason : new->reason;
			}
			proposal_free(p);
			continue;
		}
		oldest = oldest ? oldest : p;
		n++;
	}
	if (n >= SAME_MAX)
		proposal_free(oldest);
}

/* Of another namespace: who has connected to that address from ours is on this host. */
static bool claims(struct proposal *p)
{
	p->claims = conf.join_namespaces && local_claim(p->t.local.ip, p->netns);
	if (p->claims)
		proposals_of_peer(p->t.local.ip, match_comes_home);
	return p->claims || (conf.join_namespaces && iw_ip_loopback(p->t.local.ip));
}

/* What speaks against it from the start. */
static enum iw_reason check(struct proposal *p)
{
	bool ours = p->netns == sock_own_netns();

	if (!ours && !claims(p))
		return IW_REASON_NETNS;
	if (p->reason == IW_REASON_DOWNGRADED)
		return p->reason;
	return ours ? ipsec_check(&p->t) : IW_REASON_ACCELERATED;
}

/* NULL: there are too many. The program need not know; nothing comes of that one. */
static struct proposal *room(const struct client *c)
{
	struct proposal *p;

	if (c->priv->nproposals >= PROPOSALS_MAX || !prm_record(c->uid))
		return NULL;
	p = malloc(sizeof(*p));
	if (!p)
		prm_forget(c->uid);
	return p;
}

static void add(struct client *c, struct proposal *p)
{
	static uint64_t number;

	p->number = ++number;
	p->client = c;
	p->uid = c->uid;
	list_add_tail(tuple_bucket(by_tuple, &p->t), &p->tuple);
	list_add_tail(id_bucket(c, p->conn_id), &p->id);
	list_add_tail(peer_bucket(p->t.peer.ip), &p->peer);
	list_add_tail(number_bucket(p->number), &p->numbers);
	list_add_tail(&c->priv->proposals, &p->mine);
	c->priv->nproposals++;
}

/* It is one that a daemon before us had, or is nothing to us. */
void proposal_revive(struct client *c, struct stream *st, uint64_t conn_id, int fd)
{
	struct stream_info i;
	struct proposal *p;

	if (stream_cm_data(st) || (stream_state(st) != STREAM_RUNNING && stream_state(st) != STREAM_RELAY) || !stream_look(stream_id(st), &i) || i.uid != c->uid || proposal_find(c, conn_id))
		return;
	p = room(c);
	if (!p)
		return;
	*p = (struct proposal){
		.conn_id = conn_id, .t = *stream_tuple(st), .fd = fd, .is_client = i.client, .state = PROPOSAL_DONE, .st = st,
		.proposed_ms = i.since_ms, .switched_ms = i.since_ms,
	};
	add(c, p);
	stream_set_cm_data(st, p);
}

void cm_propose(struct client *c, const struct iw_ctl_propose *m)
{
	struct iw_tuple t = { .local = m->local, .peer = m->peer };
	struct proposal *p, *old = proposal_find(c, m->conn_id);
	enum iw_reason reason;

	if (old && has_stream(old))
		return;
	plain_closed(c, m->conn_id);
	p = room(c);
	if (!p) {
		reason_add(IW_REASON_QUOTA, m->flags & IW_CONN_CLIENT);
		plain_tell_quota(c, &t, m->flags & IW_CONN_CLIENT, m->fd);
		return;
	}
	*p = (struct proposal){
		.conn_id = m->conn_id, .cookie = m->cookie, .netns = m->netns, .t = t, .slot = m->slot, .fd = m->fd,
		.is_client = m->flags & IW_CONN_CLIENT, .local = m->netns != sock_own_netns() || addr_is_local(t.peer.ip), .reason = IW_REASON_UNANSWERED,
		.octets = m->octets, .calls = m->calls, .gain = m->gain, .proposed_ms = engine_now_ms(),
	};
	same_before(c, p);
	old = proposal_find(c, m->conn_id);
	if (old)
		proposal_free(old);
	add(c, p);
	IW_PROBE3(iwarpd, proposed, p->number, c->pid, c->uid);
	reason = check(p);
	if (reason)
		match_never(p, reason);
	else
		match_look(p);
}
