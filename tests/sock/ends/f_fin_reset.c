// SPDX-License-Identifier: MIT
/* FIN first, then a reset: the reader sees a regular end, the error is EPIPE. */
#include "../sock.h"

static void server(int fd)
{
	t_readable(fd, 6);
	send_str(fd, "tail");
	shutdown(fd, SHUT_WR);
	t_sync();
	close(fd);	/* with octets unread */
}

static void client(int fd)
{
	char b[8];
	struct sockaddr_storage ss;
	socklen_t l = sizeof(ss);

	send_str(fd, "unread");
	want_str(fd, "tail");
	say_poll("after FIN", t_until(fd, POLLIN | POLLRDHUP));
	t_sync();
	say_poll("after reset", t_until(fd, POLLERR | POLLHUP));
	step("recv", recv(fd, b, 8, 0));
	step("peername", getpeername(fd, (void *)&ss, &l));
	say("SO_ERROR %s", t_errname(get_int(fd, SOL_SOCKET, SO_ERROR)));
	say_poll("then", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	step("send", send(fd, b, 1, MSG_NOSIGNAL));
	step("shutdown", shutdown(fd, SHUT_WR));
	close(fd);
}

SOCK_PAIR(server, client)
