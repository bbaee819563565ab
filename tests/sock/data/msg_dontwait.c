// SPDX-License-Identifier: MIT
/* MSG_DONTWAIT on a blocking socket. */
#include "../sock.h"

static void server(int fd)
{
	struct iovec v;
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	char b[16];

	v = (struct iovec){ b, 16 };
	step("recv", recv(fd, b, 16, MSG_DONTWAIT));
	step("recvmsg", recvmsg(fd, &m, MSG_DONTWAIT));
	t_sync();
	t_readable(fd, 3);
	step("recv", recv(fd, b, 16, MSG_DONTWAIT));
	step("recv", recv(fd, b, 16, MSG_DONTWAIT));
	step("send", send(fd, "abc", 3, MSG_DONTWAIT));
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	t_sync();
	step("send", send(fd, "abc", 3, MSG_DONTWAIT));
	want_str(fd, "abc");
	close(fd);
}

SOCK_PAIR(server, client)
