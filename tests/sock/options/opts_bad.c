// SPDX-License-Identifier: MIT
/* Wrong levels, names, lengths and pointers give the errors of TCP. */
#include "../sock.h"

static void server(int fd)
{
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	int v = 1;
	socklen_t l = sizeof(v);

	step("set unknown TCP option", set_int(fd, IPPROTO_TCP, 9999, 1));
	step("set unknown socket option", set_int(fd, SOL_SOCKET, 9999, 1));
	step("set unknown level", set_int(fd, 12345, 1, 1));
	step("get unknown TCP option", getsockopt(fd, IPPROTO_TCP, 9999, &v, &l));
	step("get unknown socket option", getsockopt(fd, SOL_SOCKET, 9999, &v, &l));
	step("get unknown level", getsockopt(fd, 12345, 1, &v, &l));
	step("short set", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, 1));
	step("short set of socket", setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &v, 1));
	step("set from nowhere", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, (void *)(long)16, 4));
	step("get to nowhere", getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, (void *)(long)16, &l));
	l = (socklen_t)-1;
	step("negative length", getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, &l));
	l = 1;
	step("short get", getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &v, &l));
	say("length %u", l);
	step("bad value", set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, -1));
	step("read-only", set_int(fd, SOL_SOCKET, SO_TYPE, 1));
	step("set SO_ERROR", set_int(fd, SOL_SOCKET, SO_ERROR, 1));
	step("bad fd", set_int(150, IPPROTO_TCP, TCP_NODELAY, 1));
	close(fd);
}

SOCK_PAIR(server, client)
