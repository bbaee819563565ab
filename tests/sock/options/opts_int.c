// SPDX-License-Identifier: MIT
/* Integer options of SOL_SOCKET, TCP and IP: set on the connection and read back. */
#include "../sock.h"

#include <netinet/ip.h>

static const struct { const char *name; int level, opt, val; } o[] = {
	{ "TCP_NODELAY", IPPROTO_TCP, TCP_NODELAY, 1 },
	{ "SO_KEEPALIVE", SOL_SOCKET, SO_KEEPALIVE, 1 },
	{ "TCP_KEEPIDLE", IPPROTO_TCP, TCP_KEEPIDLE, 77 },
	{ "TCP_KEEPINTVL", IPPROTO_TCP, TCP_KEEPINTVL, 11 },
	{ "TCP_KEEPCNT", IPPROTO_TCP, TCP_KEEPCNT, 5 },
	{ "TCP_USER_TIMEOUT", IPPROTO_TCP, TCP_USER_TIMEOUT, 4321 },
	{ "TCP_LINGER2", IPPROTO_TCP, TCP_LINGER2, 30 },
	{ "TCP_SYNCNT", IPPROTO_TCP, TCP_SYNCNT, 4 },
	{ "TCP_NOTSENT_LOWAT", IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384 },
	{ "SO_REUSEADDR", SOL_SOCKET, SO_REUSEADDR, 1 },
	{ "SO_OOBINLINE", SOL_SOCKET, SO_OOBINLINE, 1 },
	{ "SO_PRIORITY", SOL_SOCKET, SO_PRIORITY, 3 },
	{ "SO_DONTROUTE", SOL_SOCKET, SO_DONTROUTE, 0 },
	{ "IP_TOS", IPPROTO_IP, IP_TOS, 0x10 },
	{ "IP_TTL", IPPROTO_IP, IP_TTL, 33 },
};

static void server(int fd)
{
	want_str(fd, "x");
	send_str(fd, "y");
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	for (size_t i = 0; i < sizeof(o) / sizeof(*o); i++) {
		int before = get_int(fd, o[i].level, o[i].opt), r = set_int(fd, o[i].level, o[i].opt, o[i].val);

		say("%s: %d, set %s, now %d", o[i].name, before, r ? t_errname(errno) : "0",
		    get_int(fd, o[i].level, o[i].opt));
	}
	send_str(fd, "x");
	want_str(fd, "y");
	close(fd);
}

SOCK_PAIR(server, client)
