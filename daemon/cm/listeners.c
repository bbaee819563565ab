// SPDX-License-Identifier: MIT
/* Registered listeners: who may be offered connections. The passed descriptor is looked at and closed, never kept. */
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "daemon/base/log.h"
#include "daemon/net/sock.h"
#include "daemon/session/session.h"
#include "book.h"
#include "listeners.h"
#include "offer.h"

#define PLACES_BITS	14u
#define PLACES_HASH	(1u << PLACES_BITS)
#define LISTENERS_MAX	4096u	/* per client */

/*
 * Where somebody listens: all listeners of the same address, so that what it takes to look one up does not grow with their number. The
 * family of a wildcard address says whose connections it takes, AF_UNSPEC both's.
 */
struct place {
	struct list hash;
	struct iw_addr addr;
	unsigned int listeners;
};
static struct list places[PLACES_HASH];

struct listener {
	struct list node;		/* in client_priv.listeners */
	struct client *client;
	struct place *place;
	uint64_t cookie;
	struct iw_addr addr;
};

/* Random, and with the high bits of a sum of products: who chooses addresses cannot choose them to be in one bucket. */
static struct list *bucket(const struct iw_addr *a)
{
	static uint64_t key[6];
	uint32_t word[5];
	uint64_t sum;

	while (!key[0])
		if (getrandom(key, sizeof(key), 0) != (ssize_t)sizeof(key))
			key[0] = 0;
	memcpy(word, a->ip, 16);
	word[4] = (uint32_t)a->family << 16 | a->port;
	sum = key[5];
	for (unsigned int i = 0; i < 5; i++)
		sum += key[i] * word[i];
	return list_bucket(&places[sum >> (64 - PLACES_BITS)]);
}

static struct place *place_find(const uint8_t ip[16], uint16_t port, uint16_t family)
{
	struct iw_addr a = { .port = port, .family = family };

	memcpy(a.ip, ip, 16);
	list_each(n, nxt, bucket(&a)) {
		struct place *p = list_entry(n, struct place, hash);

		if (iw_addr_same(&p->addr, &a) && p->addr.family == family)
			return p;
	}
	return NULL;
}

static struct place *place_take(const uint8_t ip[16], uint16_t port, uint16_t family)
{
	struct place *p = place_find(ip, port, family);

	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		memcpy(p->addr.ip, ip, 16);
		p->addr.port = port;
		p->addr.family = family;
		list_add_tail(bucket(&p->addr), &p->hash);
	}
	p->listeners++;
	return p;
}

static void place_put(struct place *p)
{
	if (--p->listeners)
		return;
	list_del(&p->hash);
	free(p);
}

static const uint8_t any[16];

static struct place *place_of(const struct iw_addr *a, bool v6only)
{
	bool v4 = iw_ip_v4(a->ip);	/* so can an AF_INET6 socket be bound */

	if (!iw_ip_any(a->ip))
		return place_take(a->ip, a->port, iw_ip_family(a->ip));
	return place_take(any, a->port, v4 ? AF_INET : v6only ? AF_INET6 : AF_UNSPEC);
}

bool listener_match(const struct iw_addr *dst)
{
	uint16_t family = iw_ip_family(dst->ip);

	return place_find(dst->ip, dst->port, family) || place_find(any, dst->port, family) || place_find(any, dst->port, AF_UNSPEC);
}

static struct listener *find(struct client *c, uint64_t cookie)
{
	list_each(n, nxt, &c->priv->listeners) {
		struct listener *l = list_entry(n, struct listener, node);

		if (l->cookie == cookie)
			return l;
	}
	return NULL;
}

enum iw_reason listener_add(struct client *c, int fd, uint64_t *cookie)
{
	int v = 0, zero = 0;
	socklen_t len = sizeof(v);
	enum iw_reason reason = sock_check(fd);
	bool v6only = false;
	struct listener *l;

	if (reason)
		return reason;
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &v, &len) || v != 1)
		return IW_REASON_NOT_STREAM;
	*cookie = sock_cookie(fd);
	if (find(c, *cookie))
		return IW_REASON_ACCELERATED;
	if (c->priv->nlisteners >= LISTENERS_MAX || !prm_record(c->uid))
		return IW_REASON_QUOTA;
	l = calloc(1, sizeof(*l));
	if (!l || sock_name(fd, &l->addr, false))
		goto fail;
	v = 0;
	len = sizeof(v);
	if (l->addr.family == AF_INET6 && !getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v, &len))
		v6only = v;
	l->place = place_of(&l->addr, v6only);
	if (!l->place)
		goto fail;
	/* it would wait for octets that the client's daemon holds back until we claim */
	setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &zero, sizeof(zero));
	l->client = c;
	l->cookie = *cookie;
	list_add_tail(&c->priv->listeners, &l->node);
	c->priv->nlisteners++;
	log_debug("pid %d listens on %s", (int)c->pid, iw_addr_text(&l->addr));
	shun_del(&l->addr);
	sess_listener_changed(l->addr.port);
	return IW_REASON_ACCELERATED;
fail:
	prm_forget(c->uid);
	free(l);
	return IW_REASON_RESOURCES;
}

static void listener_free(struct listener *l)
{
	uint16_t port = l->addr.port;

	prm_forget(l->client->uid);
	l->client->priv->nlisteners--;
	place_put(l->place);
	list_del(&l->node);
	free(l);
	offers_listener_gone(port);
	sess_listener_changed(port);
}

void listener_del(struct client *c, uint64_t cookie)
{
	struct listener *l = find(c, cookie);

	if (l)
		listener_free(l);
}

void listeners_client_gone(struct client *c)
{
	while (!list_empty(&c->priv->listeners))
		listener_free(list_entry(c->priv->listeners.next, struct listener, node));
}

void listener_foreach(void (*fn)(void *arg, const struct listener_info *info), void *arg)
{
	list_each(cn, cnxt, &clients) {
		struct client *c = client_of(cn);

		list_each(n, nxt, &c->priv->listeners) {
			const struct listener *l = list_entry(n, struct listener, node);
			struct listener_info info = { .addr = l->addr, .pid = c->pid, .uid = c->uid, .program = c->program };

			fn(arg, &info);
		}
	}
}
