// SPDX-License-Identifier: MIT
/* Options set before the connection exists are there after it: on the client's socket, and from the listener. */
#include "../sock.h"

static void show(const char *what, int fd)
{
	struct linger lg = { 0, 0 };
	socklen_t l = sizeof(lg);

	ok(getsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, &l));
	say("%s: NODELAY %d KEEPALIVE %d KEEPIDLE %d LINGER %d/%d SNDBUF %d", what, get_int(fd, IPPROTO_TCP, TCP_NODELAY),
	    get_int(fd, SOL_SOCKET, SO_KEEPALIVE), get_int(fd, IPPROTO_TCP, TCP_KEEPIDLE), lg.l_onoff, lg.l_linger,
	    get_int(fd, SOL_SOCKET, SO_SNDBUF));
}

static void set(int fd)
{
	struct linger lg = { 1, 3 };

	ok(set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1));
	ok(set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1));
	ok(set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 99));
	ok(set_int(fd, SOL_SOCKET, SO_SNDBUF, 40000));
	ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
}

static void server(void)
{
	struct sockaddr_storage ss;
	int l = t_bind(0, &ss), fd;

	set(l);
	ok(listen(l, 5));
	t_put(&ss, sizeof(ss));
	fd = t_accept(l);
	show("accepted", fd);
	t_sync();
	want_eof(fd);
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd;

	t_peer(&ss);
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
	set(fd);
	ok(connect(fd, (void *)&ss, t_salen(&ss)));
	show("connected", fd);
	t_sync();
	close(fd);
}

SOCK_ROLES(server, client)
