// SPDX-License-Identifier: MIT
/* connect() with wrong arguments and on sockets that cannot. */
#include "../sock.h"

static void server(int fd)
{
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	struct sockaddr_storage ss;
	socklen_t l = sizeof(ss);
	int s = t_socket();

	ok(getpeername(fd, (void *)&ss, &l));
	step("connected", connect(fd, (void *)&ss, l));
	step("short address", connect(s, (void *)&ss, 3));
	step("null address", connect(s, NULL, l));
	ss.ss_family = AF_UNIX;
	step("wrong family", connect(s, (void *)&ss, l));
	step("bad fd", connect(150, (void *)&ss, l));
	step("recv unconnected", recv(s, &l, 1, MSG_DONTWAIT));
	step("send unconnected", send(s, "x", 1, MSG_NOSIGNAL));
	l = sizeof(ss);
	step("getpeername unconnected", getpeername(s, (void *)&ss, &l));
	step("shutdown unconnected", shutdown(s, SHUT_RDWR));
	close(s);
	close(fd);
}

SOCK_PAIR(server, client)
