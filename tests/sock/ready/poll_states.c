// SPDX-License-Identifier: MIT
/* The events of poll() in every state of a connection. */
#include "../sock.h"

#define ALL (POLLIN | POLLOUT | POLLRDHUP | POLLPRI)

static void server(void)
{
	int s = t_socket(), l, fd;

	say_poll("fresh socket", t_poll(s, ALL, 0));
	close(s);
	l = t_listen(0);
	say_poll("listener", t_poll(l, ALL, 0));
	t_sync();
	say_poll("listener with a connection", t_poll(l, ALL, T_WAIT_MS));
	fd = t_accept(l);
	say_poll("connected", t_poll(fd, ALL, 0));
	say_poll("connected, reading", t_poll(fd, POLLIN, 0));
	t_sync();
	t_readable(fd, 1);
	say_poll("data", t_poll(fd, ALL, 0));
	want_str(fd, "x");
	say_poll("data read", t_poll(fd, ALL, 0));
	t_sync();
	say_poll("peer's FIN", t_until(fd, POLLIN | POLLRDHUP));
	say_poll("peer's FIN, asked for OUT", t_poll(fd, POLLOUT, 0));
	say_poll("peer's FIN, asked for nothing", t_poll(fd, 0, 0));
	t_sync();	/* the client has looked at its own FIN alone */
	ok(shutdown(fd, SHUT_WR));
	t_until(fd, POLLHUP);
	say_poll("both FINs", t_poll(fd, ALL, 0));
	close(fd);
	say_poll("closed", t_poll(fd, ALL, 0));
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd;

	t_peer(&ss);
	t_sync();
	fd = t_connect_to(&ss);
	t_sync();
	send_str(fd, "x");
	t_sync();
	ok(shutdown(fd, SHUT_WR));
	say_poll("own FIN", t_poll(fd, POLLOUT, 0));
	t_sync();
	want_eof(fd);
	close(fd);
}

SOCK_ROLES(server, client)
