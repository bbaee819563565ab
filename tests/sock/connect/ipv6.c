// SPDX-License-Identifier: MIT
/* IPv6: connect, names with all fields, data. */
#include "../sock.h"

static void check(int fd)
{
	struct sockaddr_in6 me, peer, o[2], n[2];
	socklen_t l = sizeof(me);

	ok(getsockname(fd, (void *)&me, &l));
	must(l == sizeof(me));
	l = sizeof(peer);
	ok(getpeername(fd, (void *)&peer, &l));
	say("family %d %d flow %u scope %u", me.sin6_family == AF_INET6, peer.sin6_family == AF_INET6, peer.sin6_flowinfo,
	    peer.sin6_scope_id);
	n[0] = me;
	n[1] = peer;
	t_put(n, sizeof(n));
	t_get(o, sizeof(o));
	must(!memcmp(&o[0].sin6_addr, &peer.sin6_addr, 16) && o[0].sin6_port == peer.sin6_port);
	must(!memcmp(&o[1].sin6_addr, &me.sin6_addr, 16) && o[1].sin6_port == me.sin6_port);
	say("domain %s", get_int(fd, SOL_SOCKET, SO_DOMAIN) == AF_INET6 ? "INET6" : "other");
	say("V6ONLY %d", get_int(fd, IPPROTO_IPV6, IPV6_V6ONLY));
}

static void server(void)
{
	int fd = t_accept(t_listen(AF_INET6));

	check(fd);
	want_str(fd, "six");
	send_str(fd, "SIX");
	want_eof(fd);
	close(fd);
}

static void client(void)
{
	int fd = t_connect();

	check(fd);
	send_str(fd, "six");
	want_str(fd, "SIX");
	close(fd);
}

SOCK_ROLES(server, client)
