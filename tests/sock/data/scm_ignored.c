// SPDX-License-Identifier: MIT
/* SCM_RIGHTS and SCM_CREDENTIALS in a message on TCP pass nothing; the data goes. */
#include "../sock.h"

static void server(int fd)
{
	char b[8];
	union { char c[256]; struct cmsghdr align; } u;
	struct iovec v = { b, 8 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof(u) };

	t_readable(fd, 4);
	step("recvmsg", recvmsg(fd, &m, 0));
	say("control %zu flags 0x%x", m.msg_controllen, (unsigned int)m.msg_flags);
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	union { char c[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } u;
	struct iovec v = { (char *)"data", 4 };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof(u) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int p[2];

	ok(pipe(p));
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &p[0], sizeof(int));
	step("sendmsg", sendmsg(fd, &m, 0));
	close(fd);
}

SOCK_PAIR(server, client)
