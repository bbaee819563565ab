// SPDX-License-Identifier: MIT
/* After a daemon's death SO_ERROR gives ECONNRESET once, as for a reset TCP connection. */
#include "../kill.h"

static void both(int fd, bool killer)
{
	long t = kill_together(killer);

	must(t_poll(fd, POLLIN, T_WAIT_MS));
	must_soon(t + 100);
	say("SO_ERROR %s", t_errname(get_int(fd, SOL_SOCKET, SO_ERROR)));
	say("SO_ERROR %s", t_errname(get_int(fd, SOL_SOCKET, SO_ERROR)));
	close(fd);
}

static void server(int fd)
{
	kill_ready(fd, false);
	want_str(fd, "hello");
	both(fd, false);
}

static void client(int fd)
{
	kill_ready(fd, true);
	send_str(fd, "hello");
	both(fd, true);
}

SOCK_PAIR(server, client)
