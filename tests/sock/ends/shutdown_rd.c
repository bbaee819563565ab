// SPDX-License-Identifier: MIT
/* SHUT_RD is local: recv gives 0, the peer may go on sending without an error, our own sends go. */
#include "../sock.h"

static void server(int fd)
{
	char b[8];

	step("shutdown RD", shutdown(fd, SHUT_RD));
	step("recv", recv(fd, b, 8, 0));
	say_poll("poll", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	t_sync();
	t_sync();
	step("send", send(fd, "still", 5, 0));
	t_sync();
	close(fd);
}

static void client(int fd)
{
	t_sync();
	step("send", send(fd, "one", 3, MSG_NOSIGNAL));
	step("send", send(fd, "two", 3, MSG_NOSIGNAL));
	t_sync();
	want_str(fd, "still");
	step("send", send(fd, "three", 5, MSG_NOSIGNAL));
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
