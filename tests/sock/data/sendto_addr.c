// SPDX-License-Identifier: MIT
/* On a connected TCP socket the address of sendto and sendmsg is ignored; recvfrom gives none. */
#include "../sock.h"

static void server(int fd)
{
	struct sockaddr_storage a;
	socklen_t l = sizeof(a);
	char b[16];
	struct iovec v = { b, 4 };
	struct msghdr m = { .msg_name = &a, .msg_namelen = sizeof(a), .msg_iov = &v, .msg_iovlen = 1 };

	t_readable(fd, 8);
	step("recvfrom", recvfrom(fd, b, 4, 0, (void *)&a, &l));
	say("address length %u", l);
	step("recvmsg", recvmsg(fd, &m, 0));
	say("name length %u", m.msg_namelen);
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(7), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct iovec v = { (char *)"data", 4 };
	struct msghdr m = { .msg_name = &a, .msg_namelen = sizeof(a), .msg_iov = &v, .msg_iovlen = 1 };

	step("sendto", sendto(fd, "data", 4, 0, (void *)&a, sizeof(a)));
	step("sendmsg", sendmsg(fd, &m, 0));
	close(fd);
}

SOCK_PAIR(server, client)
