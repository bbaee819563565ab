// SPDX-License-Identifier: MIT
/* A writer blocked on a full buffer is woken by a reset with ECONNRESET. */
#include "../sock.h"

static void server(int fd)
{
	struct linger lg = { 1, 0 };

	t_sync();
	t_nap(300);
	ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	close(fd);
}

static void client(int fd)
{
	static char b[1 << 20];
	ssize_t r;

	t_sync();
	do
		r = send(fd, b, sizeof(b), MSG_NOSIGNAL);
	while (r == sizeof(b));
	if (r >= 0)	/* part of it went before the reset came */
		r = send(fd, b, 1, MSG_NOSIGNAL);
	step("send", r);
	step("send", send(fd, b, 1, MSG_NOSIGNAL));
	close(fd);
}

SOCK_PAIR(server, client)
