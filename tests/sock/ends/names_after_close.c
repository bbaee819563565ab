// SPDX-License-Identifier: MIT
/* Names after both FINs and after a reset: getpeername is ENOTCONN then, getsockname still answers. */
#include "../sock.h"

static void server(void)
{
	struct linger lg = { 1, 0 };
	int l = t_listen(0), fd = t_accept(l);

	want_eof(fd);
	close(fd);
	fd = t_accept(l);
	want_str(fd, "x");
	ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	close(fd);
	t_sync();
}

static void client(void)
{
	struct sockaddr_storage ss, s;
	socklen_t l;
	int fd;

	t_peer(&ss);
	fd = t_connect_to(&ss);
	ok(shutdown(fd, SHUT_WR));
	want_eof(fd);
	t_until(fd, POLLHUP);
	l = sizeof(s);
	step("getsockname", getsockname(fd, (void *)&s, &l));
	close(fd);
	fd = t_connect_to(&ss);
	send_str(fd, "x");
	t_until(fd, POLLERR);
	l = sizeof(s);
	step("getpeername after reset", getpeername(fd, (void *)&s, &l));
	l = sizeof(s);
	step("getsockname after reset", getsockname(fd, (void *)&s, &l));
	close(fd);
	t_sync();
}

SOCK_ROLES(server, client)
