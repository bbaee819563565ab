// SPDX-License-Identifier: MIT
/* Octets by calls that move them inside libc, or by the system call itself, between those by send: in their order, and answered. */
#include "../sock.h"

static void server(int fd)
{
	char b[256];

	for (int i = 0; i < 40; i++) {
		size_t n = 0;

		while (!n || b[n - 1] != '\n')
			must(recv(fd, b + n, 1, 0) == 1 && ++n < sizeof(b));
		must(send(fd, b, n, 0) == (ssize_t)n);
	}
	want_eof(fd);
}

static void put(int fd, int i)
{
	char b[32];
	int n = snprintf(b, sizeof(b), "line %d\n", i);

	if (i % 4 == 1)
		must(dprintf(fd, "line %d\n", i) == n);
	else if (i % 4 == 3)
		must(t_sys(SYS_write, fd, b, n) == n);
	else
		must(send(fd, b, (size_t)n, 0) == n);
}

static void client(int fd)
{
	char b[64], want[64];

	for (int i = 0; i < 40; i++) {
		int n = snprintf(want, sizeof(want), "line %d\n", i);

		put(fd, i);
		must(recv(fd, b, (size_t)n, MSG_WAITALL) == n && !memcmp(b, want, (size_t)n));
	}
	say("answered");
}

SOCK_PAIR(server, client)
