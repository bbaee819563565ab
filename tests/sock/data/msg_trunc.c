// SPDX-License-Identifier: MIT
/* MSG_TRUNC on a stream throws octets away without copying them. */
#include "../sock.h"

static void server(int fd)
{
	char b[16];

	memset(b, '.', sizeof(b));
	t_readable(fd, 10);
	step("recv trunc", recv(fd, b, 4, MSG_TRUNC));
	say("buffer untouched %d", b[0] == '.');
	step("recv null trunc", recv(fd, NULL, 2, MSG_TRUNC));
	step("recv", recv(fd, b, 16, 0));
	must(!memcmp(b, "6789", 4));
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	send_str(fd, "0123456789");
	close(fd);
}

SOCK_PAIR(server, client)
