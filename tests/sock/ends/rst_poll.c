// SPDX-License-Identifier: MIT
/* A reset seen by poll: ERR and HUP; SO_ERROR gives it once. */
#include "../sock.h"

static void server(int fd)
{
	struct linger lg = { 1, 0 };

	want_str(fd, "x");
	ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	close(fd);
}

static void client(int fd)
{
	char b[4];

	send_str(fd, "x");
	say_poll("poll", t_until(fd, POLLERR | POLLHUP));
	say_poll("poll", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	say("SO_ERROR %s", t_errname(get_int(fd, SOL_SOCKET, SO_ERROR)));
	say("SO_ERROR %s", t_errname(get_int(fd, SOL_SOCKET, SO_ERROR)));
	step("recv", recv(fd, b, 4, 0));
	step("send", send(fd, b, 1, MSG_NOSIGNAL));
	close(fd);
}

SOCK_PAIR(server, client)
