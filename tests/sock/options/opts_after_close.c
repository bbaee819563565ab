// SPDX-License-Identifier: MIT
/* Options keep their values while the fd is open, also after the peer has closed, and after its process has ended. */
#include "../sock.h"

static void show(int fd)
{
	say("KEEPALIVE %d KEEPIDLE %d NODELAY %d", get_int(fd, SOL_SOCKET, SO_KEEPALIVE), get_int(fd, IPPROTO_TCP, TCP_KEEPIDLE),
	    get_int(fd, IPPROTO_TCP, TCP_NODELAY));
}

static void survive(int fd)
{
	ok(set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1));
	ok(set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 55));
	ok(set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1));
	show(fd);
	send_str(fd, "x");
	/* while the peer closes and its process ends */
	for (long end = t_ms() + 100; t_ms() < end;)
		must(get_int(fd, SOL_SOCKET, SO_KEEPALIVE) == 1);
	want_eof(fd);
	show(fd);
	step("set", set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 66));
	show(fd);
	close(fd);
}

static void leave(int fd)
{
	want_str(fd, "x");
	close(fd);
}

static void server(void)
{
	int l = t_listen(0);

	leave(t_accept(l));
	survive(t_accept(l));
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	survive(t_connect_to(&ss));
	leave(t_connect_to(&ss));
}

SOCK_ROLES(server, client)
