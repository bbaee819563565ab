// SPDX-License-Identifier: MIT
/* Vectors of no, empty and too many elements; preadv2 and pwritev2 on a socket. */
#include "../sock.h"

static volatile int minus = -1;	/* the compiler need not know */

/* Linux 6.1 has no RWF_NOWAIT for sockets; under the library it may be there all the same. */
static bool has_nowait(void)
{
	struct iovec v = { "x", 1 };
	int sv[2];
	bool r;

	ok(socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	r = pwritev2(sv[0], &v, 1, -1, RWF_NOWAIT) == 1;
	close(sv[0]);
	close(sv[1]);
	return r;
}

static void client(int fd)
{
	static struct iovec many[1100];
	char c = 'c';
	struct iovec v[3] = { { "abc", 3 }, { NULL, 0 }, { "def", 3 } }, none = { &c, 0 };
	struct msghdr m = { .msg_iov = many, .msg_iovlen = 1100 };

	for (int i = 0; i < 1100; i++)
		many[i] = (struct iovec){ &c, 1 };
	step("writev", writev(fd, v, 3));
	step("writev 0", writev(fd, v, 0));
	step("writev -1", writev(fd, v, minus));
	step("writev 1024", writev(fd, many, 1024));
	step("writev 1100", writev(fd, many, 1100));
	step("writev empty", writev(fd, &none, 1));
	step("sendmsg 1100", sendmsg(fd, &m, 0));
	m.msg_iovlen = 0;
	step("sendmsg 0", sendmsg(fd, &m, 0));
	step("pwritev2", pwritev2(fd, v, 3, -1, 0));
	if (has_nowait())
		step("pwritev2 nowait", pwritev2(fd, v, 3, -1, RWF_NOWAIT));
	step("pwritev2 at 1", pwritev2(fd, v, 3, 1, 0));
	shutdown(fd, SHUT_WR);
	signal(SIGPIPE, SIG_IGN);
	step("writev empty", writev(fd, &none, 1));
	step("writev", writev(fd, v, 3));
	step("pwritev2", pwritev2(fd, v, 3, -1, 0));
	want_eof(fd);
	close(fd);
}

static void server(int fd)
{
	static char b[2048];
	struct iovec v[2] = { { b, 1000 }, { b + 1000, 42 } };

	t_readable(fd, 6 + 1024 + (has_nowait() ? 12 : 6));
	step("readv 0", readv(fd, v, 0));
	step("readv -1", readv(fd, v, minus));
	step("preadv2 at 1", preadv2(fd, v, 2, 1, 0));
	step("readv", readv(fd, v, 2));
	step("preadv2 at the end", preadv2(fd, v, 2, -1, 0));
	close(fd);
}

SOCK_PAIR(server, client)
