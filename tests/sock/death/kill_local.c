// SPDX-License-Identifier: MIT
/* A pair on one host does not need its daemon any more: it goes on when that is killed, to a clean end. */
#include "../kill.h"

static void server(int fd)
{
	kill_ready_as(fd, false, true);
	want_str(fd, "before");
	t_sync();
	want_str(fd, "after");
	send_str(fd, "still here");
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	struct sockaddr_storage s;

	kill_ready_as(fd, true, true);
	send_str(fd, "before");
	kill_together(true);
	send_str(fd, "after");
	want_str(fd, "still here");
	step("getpeername", getpeername(fd, (void *)&s, &(socklen_t){ sizeof(s) }));
	close(fd);
}

SOCK_PAIR(server, client)
