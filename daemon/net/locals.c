// SPDX-License-Identifier: MIT
/* The addresses of this host, as they come and go; published as such. */
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/engine.h"
#include "daemon/base/log.h"
#include "locals.h"
#include "peers_page.h"
#include "proto/addr.h"

#define LOCALS_MAX	512u

static uint8_t locals[LOCALS_MAX][16];
static unsigned int nlocals;
static struct claim {
	uint8_t ip[16];
	uint64_t netns;
	unsigned int n;		/* how often; 0: free */
} claims[LOCALS_MAX];
static unsigned int nclaims;	/* up to the last one that was ever used */
static struct { int fd; struct op op; uint8_t buf[4096]; } netlink = { .fd = -1 };

bool local_listed(const uint8_t ip[16])
{
	for (unsigned int i = 0; i < nlocals; i++)
		if (iw_ip_same(locals[i], ip))
			return true;
	return false;
}

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
		struct iw_addr a;

		if (iw_addr_from_sockaddr(&a, i->ifa_addr, sizeof(struct sockaddr_in6)) && !local_listed(a.ip))
			memcpy(locals[nlocals++], a.ip, 16);
	}
	freeifaddrs(list);
	for (unsigned int k = 0; k < nold; k++)
		if (!addr_is_local(old[k]))
			peers_publish(old[k], IW_PEER_UNKNOWN, 0, 0);
	for (unsigned int k = 0; k < nlocals; k++)
		peers_publish(locals[k], IW_PEER_LOCAL, 0, 0);
}

static struct claim *claimed(const uint8_t ip[16])
{
	for (unsigned int i = 0; i < nclaims; i++)
		if (claims[i].n && iw_ip_same(claims[i].ip, ip))
			return &claims[i];
	return NULL;
}

bool local_claim(const uint8_t ip[16], uint64_t netns)
{
	struct claim *c = claimed(ip);
	unsigned int i = 0;

	if (iw_ip_loopback(ip) || iw_ip_any(ip) || local_listed(ip) || (c && c->netns != netns))
		return false;
	if (!c) {
		while (i < nclaims && claims[i].n)
			i++;
		if (i == LOCALS_MAX)
			return false;
		nclaims = i < nclaims ? nclaims : i + 1;
		c = &claims[i];
		memcpy(c->ip, ip, 16);
		c->netns = netns;
		peers_publish(ip, IW_PEER_LOCAL, 0, 0);
	}
	c->n++;
	return true;
}

void local_unclaim(const uint8_t ip[16])
{
	struct claim *c = claimed(ip);

	if (c && !--c->n && !local_listed(ip))
		peers_publish(ip, IW_PEER_UNKNOWN, 0, 0);
}

bool addr_is_local(const uint8_t ip[16])
{
	if (local_listed(ip) || claimed(ip))
		return true;
	if (!iw_ip_loopback(ip))
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

void locals_start(void)
{
	netlink_start();	/* first, so that no change falls between */
	locals_read();
}

void locals_stop(void)
{
	if (netlink.fd < 0)
		return;
	shutdown(netlink.fd, SHUT_RDWR);
	close(netlink.fd);
	netlink.fd = -1;
}
