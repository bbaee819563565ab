// SPDX-License-Identifier: MIT
/* Registered listeners: who may be offered connections. The passed descriptor is looked at and closed, never kept. */
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cm_priv.h"

#define LISTENERS_MAX 4096u	/* per client */

struct listener {
	struct list hash, node;		/* in all[] by port; in client_priv.listeners */
	struct client *client;
	uint64_t cookie;
	struct iw_addr addr;
	bool v6only;
};
static struct list all[CM_HASH];

static struct list *by_port(uint16_t port)
{
	struct list *b = &all[port % CM_HASH];

	if (!b->next)
		list_init(b);
	return b;
}

static bool matches(const struct listener *l, const struct iw_addr *dst)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool v4 = !memcmp(dst->ip, mapped, 12);

	if (l->addr.port != dst->port)
		return false;
	if (ip_same(l->addr.ip, dst->ip))
		return true;
	if (!ip_any(l->addr.ip))
		return false;
	if (l->addr.family == AF_INET)
		return v4;
	/* [::]; an AF_INET6 socket bound to ::ffff:0.0.0.0 takes IPv4 only */
	return v4 ? !l->v6only : !!memcmp(l->addr.ip, mapped, 12);
}

bool listener_match(const struct iw_addr *dst)
{
	list_each(n, nxt, by_port(dst->port))
		if (matches(list_entry(n, struct listener, hash), dst))
			return true;
	return false;
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
	if (!l || sock_name(fd, &l->addr, false)) {
		prm_forget(c->uid);
		free(l);
		return IW_REASON_RESOURCES;
	}
	v = 0;
	len = sizeof(v);
	if (l->addr.family == AF_INET6 && !getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v, &len))
		l->v6only = v;
	/* it would wait for octets that the client's daemon holds back until we claim */
	setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &zero, sizeof(zero));
	l->client = c;
	l->cookie = *cookie;
	list_add_tail(by_port(l->addr.port), &l->hash);
	list_add_tail(&c->priv->listeners, &l->node);
	c->priv->nlisteners++;
	log_debug("pid %d listens on %s", (int)c->pid, addr_text(&l->addr));
	shun_del(&l->addr);
	sess_listeners_changed();
	return IW_REASON_ACCELERATED;
}

static void listener_free(struct listener *l)
{
	uint16_t port = l->addr.port;

	prm_forget(l->client->uid);
	l->client->priv->nlisteners--;
	list_del(&l->hash);
	list_del(&l->node);
	free(l);
	offers_listener_gone(port);
}

void listener_del(struct client *c, uint64_t cookie)
{
	struct listener *l = find(c, cookie);

	if (!l)
		return;
	listener_free(l);
	sess_listeners_changed();
}

void listeners_client_gone(struct client *c)
{
	bool any = !list_empty(&c->priv->listeners);

	while (!list_empty(&c->priv->listeners))
		listener_free(list_entry(c->priv->listeners.next, struct listener, node));
	if (any)
		sess_listeners_changed();
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
