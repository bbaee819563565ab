// SPDX-License-Identifier: MIT
/* SHUT_RDWR: the peer gets all data and the end; here everything is over. */
#include "../sock.h"

static void server(int fd)
{
	want_str(fd, "last words");
	want_eof(fd);
	say_poll("peer", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0) & (POLLIN | POLLRDHUP));
	close(fd);
	t_sync();
}

static void client(int fd)
{
	char b[4];

	send_str(fd, "last words");
	step("shutdown", shutdown(fd, SHUT_RDWR));
	step("recv", recv(fd, b, 4, 0));
	step("send", send(fd, "x", 1, MSG_NOSIGNAL));
	say_poll("poll", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
