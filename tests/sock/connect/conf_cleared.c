// SPDX-License-Identifier: MIT
/* A program that clears its environment before its first connection is still under the policy that it was started with. */
#include "../sock.h"

static void server(void)
{
	int fd;

	unsetenv("IWSOCK_CONF");
	fd = t_accept(t_listen(0));
	want_str(fd, "hello");
	close(fd);
}

static void client(void)
{
	int fd;

	unsetenv("IWSOCK_CONF");
	fd = t_connect();
	send_str(fd, "hello");
	want_eof(fd);
	close(fd);
}

SOCK_ROLES(server, client)
