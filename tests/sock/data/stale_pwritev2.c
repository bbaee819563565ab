// SPDX-License-Identifier: MIT
/* The connection's number was closed by a raw system call and is a file now: pwritev2 writes there. */
#include "../sock.h"

static void server(int fd)
{
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	struct iovec v = { "hello", 5 };
	int f = (int)ok(memfd_create("file", 0));

	ok(t_sys(SYS_close, fd));
	must(ok(t_sys(SYS_dup, f)) == fd);
	step("pwritev2", pwritev2(fd, &v, 1, 0, 0));
	say("size %ld", (long)lseek(fd, 0, SEEK_END));
	close(fd);
}

SOCK_PAIR(server, client)
