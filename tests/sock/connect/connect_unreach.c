// SPDX-License-Identifier: MIT
/* No route to the address: ENETUNREACH at once. */
#include "../sock.h"

static void server(void)
{
	t_sync();
}

static void client(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(9) };
	int fd = (int)ok(socket(AF_INET, SOCK_STREAM, 0));

	t_sync();
	if (!getenv("IW_TEST_BLACKHOLE"))
		exit(77);	/* not in a namespace of ours: there may be a default route */
	must(inet_pton(AF_INET, "203.0.113.1", &a.sin_addr) == 1);
	step("connect", connect(fd, (void *)&a, sizeof(a)));
	set_nonblock(fd, true);
	step("non-blocking connect", connect(fd, (void *)&a, sizeof(a)));
	close(fd);
}

SOCK_ROLES(server, client)
