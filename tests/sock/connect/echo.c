// SPDX-License-Identifier: MIT
/* connect, accept, a few octets there and back, end of stream. */
#include "../sock.h"

static void server(int fd)
{
	want_str(fd, "hello");
	send_str(fd, "HELLO");
	want_eof(fd);
	step("close", close(fd));
}

static void client(int fd)
{
	step("send", send(fd, "hello", 5, 0));
	want_str(fd, "HELLO");
	step("close", close(fd));
}

SOCK_PAIR(server, client)
