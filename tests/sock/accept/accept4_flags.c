// SPDX-License-Identifier: MIT
/* accept4: SOCK_NONBLOCK and SOCK_CLOEXEC, and accept() that inherits neither. */
#include "../sock.h"

static void flags(const char *what, int fd)
{
	say("%s: nonblock %d cloexec %d", what, !!(ok(fcntl(fd, F_GETFL)) & O_NONBLOCK),
	    !!(ok(fcntl(fd, F_GETFD)) & FD_CLOEXEC));
}

static void server(void)
{
	int l = t_listen(0), fl[] = { 0, SOCK_NONBLOCK, SOCK_CLOEXEC, SOCK_NONBLOCK | SOCK_CLOEXEC };
	int fd;

	for (int i = 0; i < 4; i++) {
		fd = (int)ok(accept4(l, NULL, NULL, fl[i]));
		flags("accept4", fd);
		t_until(fd, POLLIN);
		want_str(fd, "x");
		close(fd);
	}
	set_nonblock(l, true);
	t_until(l, POLLIN);
	fd = t_accept(l);
	flags("accept of a non-blocking listener", fd);
	step("bad flags", accept4(l, NULL, NULL, 0x55));
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int i = 0; i < 5; i++) {
		int fd = t_connect_to(&ss);

		send_str(fd, "x");
		if (i < 4)
			want_eof(fd);
		close(fd);
	}
}

SOCK_ROLES(server, client)
