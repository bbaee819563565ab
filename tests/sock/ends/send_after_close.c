// SPDX-License-Identifier: MIT
/* After the peer's close the first send succeeds, the next is EPIPE. */
#include "../sock.h"

static void server(int fd)
{
	want_str(fd, "x");
	step("close", close(fd));
}

static void client(int fd)
{
	send_str(fd, "x");
	want_eof(fd);
	say_poll("poll", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0) & (POLLIN | POLLOUT | POLLRDHUP));
	step("first send", send(fd, "y", 1, MSG_NOSIGNAL));
	t_until(fd, POLLHUP);
	step("second send", send(fd, "z", 1, MSG_NOSIGNAL));
	step("third send", send(fd, "z", 1, MSG_NOSIGNAL));
	step("recv", recv(fd, &(char){ 0 }, 1, 0));
	close(fd);
}

SOCK_PAIR(server, client)
