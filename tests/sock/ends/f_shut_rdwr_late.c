// SPDX-License-Identifier: MIT
/* Octets that reach a socket which did SHUT_RDWR reset the connection, at both ends. */
#include "../sock.h"

static void server(int fd)
{
	char c;

	t_sync();
	step("shutdown", shutdown(fd, SHUT_RDWR));
	say_poll("poll", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	step("recv", recv(fd, &c, 1, 0));
	t_sync();
	t_sync();
	step("send", send(fd, &c, 1, MSG_NOSIGNAL));
	close(fd);
}

static void client(int fd)
{
	char c;

	t_sync();
	say_poll("after FIN", t_until(fd, POLLIN | POLLRDHUP));
	step("recv", recv(fd, &c, 1, 0));
	t_sync();
	step("late send", send(fd, "late", 4, MSG_NOSIGNAL));
	say_poll("after it", t_until(fd, POLLERR | POLLHUP));
	step("send", send(fd, "x", 1, MSG_NOSIGNAL));
	step("recv", recv(fd, &c, 1, 0));
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
