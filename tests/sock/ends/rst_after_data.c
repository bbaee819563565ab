// SPDX-License-Identifier: MIT
/* Data sent before a reset can still be read, then ECONNRESET, then the end. */
#include "../sock.h"

static void server(int fd)
{
	struct linger lg = { 1, 0 };

	send_str(fd, "tail");
	t_sync();
	ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	close(fd);
}

static void client(int fd)
{
	char b[8];

	t_readable(fd, 4);
	t_sync();
	t_until(fd, POLLHUP);
	step("recv", recv(fd, b, 8, 0));
	step("recv", recv(fd, b, 8, 0));
	step("recv", recv(fd, b, 8, 0));
	close(fd);
}

SOCK_PAIR(server, client)
