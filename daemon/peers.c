// SPDX-License-Identifier: MIT
/* Peers: what is known of each address, published to the libraries in a read-only page. */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "session_priv.h"

#define PEERS_MAX	900u	/* the page has room for a few local addresses besides */
#define LOCALS_MAX	512u

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static struct iw_peers *page;
static int page_fd = -1;
static struct list table[CM_HASH], lru = { &lru, &lru };
static unsigned int npeers;
static uint8_t locals[LOCALS_MAX][16];
static unsigned int nlocals;
static struct { int fd; struct op op; uint8_t buf[4096]; } netlink = { .fd = -1 };

int peers_fd(void)
{
	return page_fd;
}

uint64_t daemon_generation(void)
{
	return page ? page->generation : 0;
}

/* ---- the page ---- */

static void slot_write(struct iw_peer_slot *s, const uint8_t ip[16], enum iw_peer_state state, enum iw_reason reason, uint64_t expires)
{
	uint32_t seq = atomic_load_explicit(&s->seq, memory_order_relaxed);
	uint64_t half[2];

	memcpy(half, ip, 16);
	atomic_store_explicit(&s->seq, seq + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&s->ip[0], half[0], memory_order_relaxed);
	atomic_store_explicit(&s->ip[1], half[1], memory_order_relaxed);
	atomic_store_explicit(&s->state, state, memory_order_relaxed);
	atomic_store_explicit(&s->reason, reason, memory_order_relaxed);
	atomic_store_explicit(&s->expires, expires, memory_order_relaxed);
	atomic_store_explicit(&s->seq, seq + 2, memory_order_release);
}

static bool slot_is(struct iw_peer_slot *s, const uint8_t ip[16])
{
	uint64_t half[2];

	memcpy(half, ip, 16);
	return s->ip[0] == half[0] && s->ip[1] == half[1];
}

static bool local_known(const uint8_t ip[16])
{
	for (unsigned int i = 0; i < nlocals; i++)
		if (ip_same(locals[i], ip))
			return true;
	return false;
}

/*
 * How gladly a slot is given up: 0 not at all. Readers may stop at a slot that was never used, so none is ever emptied. Of the loopback
 * addresses anybody can name 16 million; they come back when they are used.
 */
static unsigned int slot_worth(struct iw_peer_slot *s)
{
	uint64_t half[2] = { s->ip[0], s->ip[1] };
	uint8_t ip[16];

	if (s->state == IW_PEER_UNKNOWN)
		return s->ip[0] || s->ip[1] ? 3 : 4;
	if (s->state == IW_PEER_NEGATIVE)
		return s->expires <= engine_now_ms() ? 2 : 1;
	memcpy(ip, half, 16);
	return s->state == IW_PEER_LOCAL && ip_loopback(ip) && !local_known(ip) ? 2 : 0;
}

void peers_publish(const uint8_t ip[16], enum iw_peer_state state, enum iw_reason reason, unsigned int ttl_ms)
{
	uint32_t h = iw_addr_hash(ip, 0);
	struct iw_peer_slot *best = NULL;
	unsigned int worth = 0;

	if (!page)
		return;
	for (unsigned int i = 0; i < IW_PEERS_PROBE; i++) {
		struct iw_peer_slot *s = &page->slot[(h + i) % IW_PEERS_SLOTS];

		if (slot_is(s, ip)) {
			best = s;
			worth = 5;
			break;
		}
		if (slot_worth(s) > worth) {
			best = s;
			worth = slot_worth(s);
		}
	}
	if (!best || (state == IW_PEER_UNKNOWN && worth < 5))
		return;		/* full: the library asks each time, which is slower and still right */
	slot_write(best, ip, state, reason, ttl_ms ? engine_now_ms() + ttl_ms : 0);
}

static int page_make(void)
{
	size_t len = (sizeof(*page) + 4095) & ~(size_t)4095;
	int fd = memfd_create("iwsock-peers", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p = MAP_FAILED;

	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, (off_t)len))
		p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	/* our mapping stays writable; nobody gets another one */
	if (p == MAP_FAILED || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)) {
		int ret = -errno;

		if (p != MAP_FAILED)
			munmap(p, len);
		close(fd);
		return ret;
	}
	page = p;
	page_fd = fd;
	page->magic = IW_PEERS_MAGIC;
	page->version = 1;
	if (getrandom(&page->generation, sizeof(page->generation), 0) != sizeof(page->generation) || !page->generation)
		page->generation = (uint64_t)getpid() << 32 | 1;
	return 0;
}

/* ---- addresses of this host ---- */

static void locals_read(void)
{
	static uint8_t old[LOCALS_MAX][16];
	unsigned int nold = nlocals;
	struct ifaddrs *list, *i;

	if (getifaddrs(&list))
		return;
	memcpy(old, locals, sizeof(old));
	nlocals = 0;
	for (i = list; i && nlocals < LOCALS_MAX; i = i->ifa_next) {
		struct sockaddr_storage ss = { 0 };
		struct iw_addr a;

		if (!i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
			continue;
		memcpy(&ss, i->ifa_addr, i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
		addr_from_sockaddr(&a, &ss);
		if (!local_known(a.ip))
			memcpy(locals[nlocals++], a.ip, 16);
	}
	freeifaddrs(list);
	for (unsigned int k = 0; k < nold; k++)
		if (!local_known(old[k]))
			peers_publish(old[k], IW_PEER_UNKNOWN, 0, 0);
	for (unsigned int k = 0; k < nlocals; k++)
		peers_publish(locals[k], IW_PEER_LOCAL, 0, 0);
}

bool addr_is_local(const uint8_t ip[16])
{
	if (local_known(ip))
		return true;
	if (!ip_loopback(ip))
		return false;
	peers_publish(ip, IW_PEER_LOCAL, 0, 0);	/* 127.0.0.0/8 cannot be listed in advance */
	return true;
}

static void netlink_read(void);

static void netlink_event(struct op *op, int res, bool more)
{
	if (netlink.fd < 0 || (res < 0 && res != -EINTR && res != -ENOBUFS && res != -EAGAIN))
		return;
	locals_read();
	netlink_read();
}

static void netlink_read(void)
{
	struct io_uring_sqe *sqe = engine_sqe();

	netlink.op.fn = netlink_event;
	io_uring_prep_recv(sqe, netlink.fd, netlink.buf, sizeof(netlink.buf), 0);
	engine_submit(sqe, &netlink.op);
}

static void netlink_start(void)
{
	struct sockaddr_nl sa = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0 || bind(fd, (void *)&sa, sizeof(sa))) {
		log_warn("changes of this host's addresses will not be noticed: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
		return;
	}
	netlink.fd = fd;
	netlink_read();
}

int peers_start(void)
{
	int ret = page_make();

	if (ret) {
		log_err("the page of peers: %s", strerror(-ret));
		return ret;
	}
	netlink_start();	/* first, so that no change falls between */
	locals_read();
	return 0;
}

void peers_stop(void)
{
	if (page)
		atomic_store(&page->dead, 1);
	if (netlink.fd >= 0) {
		shutdown(netlink.fd, SHUT_RDWR);
		close(netlink.fd);
		netlink.fd = -1;
	}
}

/* ---- the table ---- */

static struct list *bucket(const uint8_t ip[16])
{
	struct list *b = &table[iw_addr_hash(ip, 0) % CM_HASH];

	if (!b->next)
		list_init(b);
	return b;
}

struct peer *peer_find(const uint8_t ip[16])
{
	list_each(n, nxt, bucket(ip)) {
		struct peer *p = list_entry(n, struct peer, hash);

		if (ip_same(p->ip, ip))
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

void peer_set(struct peer *p, enum iw_peer_state state, enum iw_reason reason, unsigned int ttl_ms)
{
	if (p->state != state || p->reason != reason)
		log_info("peer %s: %s%s%s", ip_text(p->ip),
			 state == IW_PEER_POSITIVE ? "has an iwarpd" : state == IW_PEER_NEGATIVE ? "plain TCP, " : "unknown",
			 state == IW_PEER_NEGATIVE ? iw_reason_name(reason) : "", "");
	p->state = state;
	p->reason = reason;
	p->expires = ttl_ms ? engine_now_ms() + ttl_ms : 0;
	if (!addr_is_local(p->ip))
		peers_publish(p->ip, state, reason, ttl_ms);
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

/* ---- for iwctl ---- */

static void count_stream(void *arg, const struct stream_info *info)
{
	struct peer *p = peer_find(info->tuple.peer.ip);

	if (p)
		p->streams++;
}

static bool has_up(const struct list *sessions)
{
	list_each(n, nxt, sessions)
		if (list_entry(n, struct sess, node)->state == SESS_UP)
			return true;
	return false;
}

void peers_foreach(void (*fn)(void *arg, const struct peer_info *info), void *arg)
{
	list_each(n, nxt, &lru)
		list_entry(n, struct peer, lru)->streams = 0;
	stream_foreach(count_stream, NULL);
	list_each(n, nxt, &lru) {
		const struct peer *p = list_entry(n, struct peer, lru);
		struct peer_info info = { .state = p->state, .reason = p->reason, .expires_ms = p->expires, .streams = p->streams };

		if (p->state == IW_PEER_NEGATIVE && !peer_negative(p))
			info.state = IW_PEER_UNKNOWN;
		memcpy(info.ip, p->ip, 16);
		info.in = has_up(&p->in);
		info.out = has_up(&p->out);
		fn(arg, &info);
	}
}
