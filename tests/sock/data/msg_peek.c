// SPDX-License-Identifier: MIT
/* MSG_PEEK leaves the data, also over several iovecs, and sees the end. */
#include "../sock.h"

static void server(int fd)
{
	char b[16];
	struct iovec v[2] = { { b, 3 }, { b + 3, 4 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };

	step("peek nothing", recv(fd, b, 10, MSG_PEEK | MSG_DONTWAIT));
	t_sync();
	t_readable(fd, 10);
	step("peek", recv(fd, b, 4, MSG_PEEK));
	must(!memcmp(b, "0123", 4));
	step("peek", recv(fd, b, 16, MSG_PEEK));
	must(!memcmp(b, "0123456789", 10));
	step("recvmsg peek", recvmsg(fd, &m, MSG_PEEK));
	must(!memcmp(b, "0123456", 7));
	step("read", recv(fd, b, 6, 0));
	step("peek", recv(fd, b, 16, MSG_PEEK));
	must(!memcmp(b, "6789", 4));
	step("read", recv(fd, b, 16, 0));
	t_sync();
	step("peek end", recv(fd, b, 16, MSG_PEEK));
	step("read end", recv(fd, b, 16, 0));
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
