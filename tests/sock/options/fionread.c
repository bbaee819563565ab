// SPDX-License-Identifier: MIT
/* FIONREAD counts what can be read, on both ends, also after a peek and at the end. */
#include "../sock.h"

static int pending(int fd)
{
	int n = -1;

	ok(ioctl(fd, FIONREAD, &n));
	return n;
}

static void server(int fd)
{
	char b[16];

	say("at first %d", pending(fd));
	t_sync();
	t_readable(fd, 10);
	say("sent 10: %d", pending(fd));
	want_str(fd, "012");
	say("read 3: %d", pending(fd));
	step("peek", recv(fd, b, 16, MSG_PEEK));
	say("after peek: %d", pending(fd));
	want_str(fd, "3456789");
	say("all read: %d", pending(fd));
	t_sync();
	want_eof(fd);
	say("at the end: %d", pending(fd));
	close(fd);
}

static void client(int fd)
{
	t_sync();
	send_str(fd, "0123456789");
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
