// SPDX-License-Identifier: MIT
/* A client that binds its source address and port first: both ends see that port. */
#include "../sock.h"

static void server(void)
{
	struct sockaddr_storage a, want;
	socklen_t l = sizeof(a);
	int fd = (int)ok(accept(t_listen(0), (void *)&a, &l));

	t_get(&want, sizeof(want));
	must(t_port(&a) == t_port(&want));
	want_eof(fd);
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss, me = { 0 }, now;
	socklen_t l = sizeof(me);
	int fd;

	t_peer(&ss);
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
	me.ss_family = ss.ss_family;
	ok(set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1));
	step("bind", bind(fd, (void *)&me, t_salen(&me)));
	ok(getsockname(fd, (void *)&me, &l));
	step("connect", connect(fd, (void *)&ss, t_salen(&ss)));
	l = sizeof(now);
	ok(getsockname(fd, (void *)&now, &l));
	must(t_port(&now) == t_port(&me));
	step("bind again", bind(fd, (void *)&me, t_salen(&me)));
	t_put(&now, sizeof(now));
	close(fd);
}

SOCK_ROLES(server, client)
