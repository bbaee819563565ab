// SPDX-License-Identifier: MIT
/* The table of peers: what is known of each address, and start and stop of all that is known of addresses. */
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "locals.h"
#include "peers.h"
#include "peers_page.h"

#define PEERS_HASH	1024u
#define PEERS_MAX	900u	/* the page has room for a few local addresses besides */

static struct list table[PEERS_HASH], lru = { &lru, &lru };
static unsigned int npeers;

int peers_start(void)
{
	int ret = peers_page_start();

	if (ret)
		log_err("the page of peers: %s", strerror(-ret));
	else
		locals_start();
	return ret;
}

void peers_stop(void)
{
	peers_page_stop();
	locals_stop();
}

/* ---- the table ---- */

static struct list *bucket(const uint8_t ip[16])
{
	return list_bucket(&table[iw_addr_hash(ip, 0) % PEERS_HASH]);
}

struct peer *peer_find(const uint8_t ip[16])
{
	list_each(n, nxt, bucket(ip)) {
		struct peer *p = list_entry(n, struct peer, hash);

		if (iw_ip_same(p->ip, ip))
			return p;
	}
	return NULL;
}

static bool peer_idle(const struct peer *p)
{
	return list_empty(&p->out) && list_empty(&p->in) && !p->in_conns && !p->redial.due;
}

/* Make room: the longest unused one without sessions. */
static bool peer_evict(void)
{
	list_each(n, nxt, &lru) {
		struct peer *p = list_entry(n, struct peer, lru);

		if (!peer_idle(p))
			continue;
		if (!addr_is_local(p->ip))
			peers_publish(p->ip, IW_PEER_UNKNOWN, 0, 0);
		list_del(&p->hash);
		list_del(&p->lru);
		free(p);
		npeers--;
		return true;
	}
	return false;
}

struct peer *peer_get(const uint8_t ip[16], uint32_t scope_id)
{
	struct peer *p = peer_find(ip);

	if (!p) {
		if (npeers >= PEERS_MAX && !peer_evict())
			return NULL;
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		memcpy(p->ip, ip, 16);
		list_init(&p->lru);
		list_init(&p->out);
		list_init(&p->in);
		list_add_tail(bucket(ip), &p->hash);
		npeers++;
	}
	if (scope_id)
		p->scope_id = scope_id;
	list_del(&p->lru);
	list_add_tail(&lru, &p->lru);
	return p;
}

void (*peers_watch)(const struct peer *p, enum iw_peer_state from);

static void changed_log(const struct peer *p, enum iw_peer_state state, enum iw_reason reason)
{
	const char *why = state == IW_PEER_NEGATIVE ? iw_reason_name(reason) : NULL;
	struct log_about about = { .id = LOG_ID_PEER, .peer = iw_ip_text(p->ip), .reason = why };

	log_about(LOG_INFO, &about, "peer %s: %s%s", about.peer,
		  state == IW_PEER_POSITIVE ? "has an iwarpd" : state == IW_PEER_NEGATIVE ? "plain TCP, " : "unknown", why ? why : "");
}

void peer_set(struct peer *p, enum iw_peer_state state, enum iw_reason reason, unsigned int ttl_ms)
{
	enum iw_peer_state from = p->state;
	bool changed = p->state != state || p->reason != reason;

	if (changed)
		changed_log(p, state, reason);
	p->state = state;
	p->reason = reason;
	p->expires = ttl_ms ? engine_now_ms() + ttl_ms : 0;
	if (!addr_is_local(p->ip))
		peers_publish(p->ip, state, reason, ttl_ms);
	if (changed && peers_watch)
		peers_watch(p, from);
}

bool peer_negative(const struct peer *p)
{
	return p->state == IW_PEER_NEGATIVE && p->expires > engine_now_ms();
}

void peers_each(void (*fn)(struct peer *p, void *arg), void *arg)
{
	list_each(n, nxt, &lru)
		fn(list_entry(n, struct peer, lru), arg);
}
