// SPDX-License-Identifier: MIT
/* A non-blocking listener: EAGAIN, readable when a connection waits, accepted, EAGAIN again. */
#include "../sock.h"

static void server(void)
{
	int l = t_listen(0), fd;

	set_nonblock(l, true);
	step("accept", accept(l, NULL, NULL));
	say_poll("listener", t_poll(l, POLLIN | POLLOUT, 0));
	t_sync();
	say_poll("listener", t_poll(l, POLLIN | POLLOUT, T_WAIT_MS));
	fd = t_accept(l);
	step("accept", accept(l, NULL, NULL));
	send_str(fd, "ok");
	want_eof(fd);
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd;

	t_peer(&ss);
	t_sync();
	fd = t_connect_to(&ss);
	want_str(fd, "ok");
	close(fd);
}

SOCK_ROLES(server, client)
