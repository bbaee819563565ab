// SPDX-License-Identifier: MIT
/* Every way to send and to receive one small message. */
#include "../sock.h"

static void server(int fd)
{
	struct iovec v[2];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	struct sockaddr_storage a;
	socklen_t l = sizeof(a);
	char b[16];

	t_readable(fd, 35);
	step("read", read(fd, b, 5));
	step("recv", recv(fd, b, 5, 0));
	step("recvfrom", recvfrom(fd, b, 5, 0, NULL, NULL));
	step("recvfrom with address", recvfrom(fd, b, 5, 0, (void *)&a, &l));
	v[0] = (struct iovec){ b, 2 };
	v[1] = (struct iovec){ b + 2, 3 };
	step("readv", readv(fd, v, 2));
	must(!memcmp(b, "eeeee", 5));
	step("recvmsg", recvmsg(fd, &m, 0));
	must(!memcmp(b, "fffff", 5));
	say("flags 0x%x", (unsigned int)m.msg_flags);
	step("preadv2", preadv2(fd, v, 2, -1, 0));
	must(!memcmp(b, "ggggg", 5));
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	char p[] = "eeeee", q[] = "fffff", r[] = "ggggg";
	struct iovec v[2] = { { p, 2 }, { p + 2, 3 } }, w[2] = { { q, 1 }, { q + 1, 4 } }, x[1] = { { r, 5 } };
	struct msghdr m = { .msg_iov = w, .msg_iovlen = 2 };

	step("write", write(fd, "aaaaa", 5));
	step("send", send(fd, "bbbbb", 5, 0));
	step("sendto", sendto(fd, "ccccc", 5, 0, NULL, 0));
	step("send nosignal", send(fd, "ddddd", 5, MSG_NOSIGNAL));
	step("writev", writev(fd, v, 2));
	step("sendmsg", sendmsg(fd, &m, 0));
	step("pwritev2", pwritev2(fd, x, 1, -1, 0));
	close(fd);
}

SOCK_PAIR(server, client)
