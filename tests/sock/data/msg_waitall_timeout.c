// SPDX-License-Identifier: MIT
/* MSG_WAITALL with SO_RCVTIMEO returns what came. */
#include "../sock.h"

static void server(int fd)
{
	struct timeval tv = { 0, 100000 };
	char b[64];

	ok(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	t_readable(fd, 4);
	step("waitall", recv(fd, b, 64, MSG_WAITALL));
	step("waitall", recv(fd, b, 64, MSG_WAITALL));
	step("waitall dontwait", recv(fd, b, 64, MSG_WAITALL | MSG_DONTWAIT));
	tv.tv_usec = 0;		/* the end comes when the client has come to it */
	ok(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	t_sync();
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	send_str(fd, "four");
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
