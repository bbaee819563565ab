// SPDX-License-Identifier: MIT
/* MSG_WAITALL waits for everything, returns less at the end of the stream, and not at all with MSG_DONTWAIT. */
#include "../sock.h"

static void server(int fd)
{
	char b[64];

	step("waitall", recv(fd, b, 12, MSG_WAITALL));
	must(!memcmp(b, "one two thre", 12));
	step("waitall", recv(fd, b, 64, MSG_WAITALL));
	step("waitall at the end", recv(fd, b, 64, MSG_WAITALL));
	close(fd);
}

static void client(int fd)
{
	send_str(fd, "one ");
	t_nap(20);
	send_str(fd, "two ");
	t_nap(20);
	send_str(fd, "three");
	close(fd);
}

SOCK_PAIR(server, client)
