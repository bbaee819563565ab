// SPDX-License-Identifier: MIT
/* The server speaks first, several times, before the client says anything. */
#include "../sock.h"

static void server(int fd)
{
	send_str(fd, "220 ready\r\n");
	want_str(fd, "HELO me\r\n");
	send_str(fd, "250 you\r\n");
	want_str(fd, "QUIT\r\n");
	send_str(fd, "221 bye\r\n");
	close(fd);
}

static void client(int fd)
{
	want_str(fd, "220 ready\r\n");
	send_str(fd, "HELO me\r\n");
	want_str(fd, "250 you\r\n");
	send_str(fd, "QUIT\r\n");
	want_str(fd, "221 bye\r\n");
	want_eof(fd);
	step("close", close(fd));
}

SOCK_PAIR(server, client)
