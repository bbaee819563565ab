// SPDX-License-Identifier: MIT
/* getsockname and getpeername agree at both ends, truncate as they should, and refuse nonsense. */
#include "../sock.h"

static void names(int fd, struct sockaddr_storage *me, struct sockaddr_storage *peer)
{
	socklen_t l = sizeof(*me);

	memset(me, 0, sizeof(*me));
	memset(peer, 0, sizeof(*peer));
	ok(getsockname(fd, (void *)me, &l));
	must(l == t_salen(me));
	l = sizeof(*peer);
	ok(getpeername(fd, (void *)peer, &l));
	must(l == t_salen(peer));
}

static void both(int fd)
{
	struct sockaddr_storage n[2], o[2], s;
	socklen_t l;

	names(fd, &n[0], &n[1]);
	say("family %s %s", n[0].ss_family == AF_INET ? "INET" : "other", n[1].ss_family == AF_INET ? "INET" : "other");
	t_put(n, sizeof(n));
	t_get(o, sizeof(o));
	must(!memcmp(&n[0], &o[1], t_salen(&n[0])));
	must(!memcmp(&n[1], &o[0], t_salen(&n[1])));
	memset(&s, 0xee, sizeof(s));
	l = 6;
	step("truncated", getsockname(fd, (void *)&s, &l));
	say("full length %u", l);
	must(!memcmp(&s, &n[0], 6) && ((uint8_t *)&s)[6] == 0xee);
	l = 0;
	step("empty", getpeername(fd, (void *)&s, &l));
	say("full length %u", l);
	l = (socklen_t)-5;
	step("negative", getpeername(fd, (void *)&s, &l));
	l = sizeof(s);
	step("to nowhere", getsockname(fd, (void *)(long)16, &l));
}

static void server(int fd)
{
	struct sockaddr_storage s;
	socklen_t l = sizeof(s);

	both(fd);
	want_eof(fd);
	step("getpeername after the peer's FIN", getpeername(fd, (void *)&s, &l));
	close(fd);
}

static void client(int fd)
{
	struct sockaddr_storage s;
	socklen_t l = sizeof(s);

	both(fd);
	ok(shutdown(fd, SHUT_WR));
	step("getsockname after shutdown", getsockname(fd, (void *)&s, &l));
	want_eof(fd);
	close(fd);
}

SOCK_PAIR(server, client)
