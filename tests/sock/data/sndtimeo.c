// SPDX-License-Identifier: MIT
/* SO_SNDTIMEO: a blocked send returns what went, then EAGAIN. */
#include "../sock.h"

static void server(int fd)
{
	t_sync();
	t_sync();
	close(fd);
}

static void client(int fd)
{
	static char b[1 << 20];
	struct timeval tv = { 0, 100000 };
	ssize_t r;
	long t0;

	ok(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	t_sync();
	do {
		t0 = t_ms();
		r = send(fd, b, sizeof(b), MSG_NOSIGNAL);
	} while (r > 0);
	step("send", r);
	must(t_ms() - t0 >= 90);
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
