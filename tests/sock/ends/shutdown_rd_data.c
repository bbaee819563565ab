// SPDX-License-Identifier: MIT
/* Data that was there before SHUT_RD can still be read, then 0. */
#include "../sock.h"

static void server(int fd)
{
	char b[8];

	t_readable(fd, 4);
	step("shutdown RD", shutdown(fd, SHUT_RD));
	step("recv", recv(fd, b, 8, 0));
	step("recv", recv(fd, b, 8, 0));
	step("shutdown WR", shutdown(fd, SHUT_WR));
	say_poll("poll", t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	t_sync();
	close(fd);
}

static void client(int fd)
{
	send_str(fd, "data");
	want_eof(fd);
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
