// SPDX-License-Identifier: MIT
/* select() in the states of a connection: readable, writable, exceptional. */
#include "../sock.h"

static void sel(const char *what, int fd, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
	fd_set r, w, e;
	int n;

	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	FD_SET(fd, &r);
	FD_SET(fd, &w);
	FD_SET(fd, &e);
	n = select(fd + 1, &r, &w, &e, &tv);
	say("%s: %d%s%s%s", what, n, FD_ISSET(fd, &r) ? " read" : "", FD_ISSET(fd, &w) ? " write" : "",
	    FD_ISSET(fd, &e) ? " except" : "");
}

static void server(int fd)
{
	sel("connected", fd, 0);
	t_sync();
	t_readable(fd, 1);
	sel("data", fd, 0);
	want_str(fd, "x");
	sel("read", fd, 0);
	t_sync();
	t_until(fd, POLLRDHUP);
	sel("end", fd, 0);
	close(fd);
	{
		struct timeval tv = { 0, 0 };
		fd_set r;

		FD_ZERO(&r);
		FD_SET(fd, &r);
		step("closed", select(fd + 1, &r, NULL, NULL, &tv));
	}
}

static void client(int fd)
{
	t_sync();
	send_str(fd, "x");
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
