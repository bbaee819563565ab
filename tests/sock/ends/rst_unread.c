// SPDX-License-Identifier: MIT
/* close() with unread data resets the connection. */
#include "../sock.h"

static void server(int fd)
{
	t_readable(fd, 5);
	step("close", close(fd));
}

static void client(int fd)
{
	char b[4];

	send_str(fd, "never read");
	step("recv", recv(fd, b, 4, 0));
	step("recv", recv(fd, b, 4, 0));
	close(fd);
}

SOCK_PAIR(server, client)
