// SPDX-License-Identifier: MIT
/* SO_LINGER 0 and close: the peer sees ECONNRESET once, then the end; sending is EPIPE. */
#include "../sock.h"

static void server(int fd)
{
	struct linger lg = { 1, 0 };

	want_str(fd, "x");
	ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	step("close", close(fd));
}

static void client(int fd)
{
	char b[4];

	send_str(fd, "x");
	step("recv", recv(fd, b, 4, 0));
	step("recv", recv(fd, b, 4, 0));
	step("send", send(fd, b, 1, MSG_NOSIGNAL));
	say_poll("poll", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	say("SO_ERROR %s", t_errname(get_int(fd, SOL_SOCKET, SO_ERROR)));
	close(fd);
}

SOCK_PAIR(server, client)
