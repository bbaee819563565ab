// SPDX-License-Identifier: MIT
/* A close-on-exec connection ends when the process executes something else, which goes on until the other end has seen that. */
#include "../sock.h"

static void server(int fd)
{
	want_str(fd, "x");
	want_eof(fd);
	close(fd);
	say("ended");
}

static void client(int fd)
{
	send_str(fd, "x");
	ok(fcntl(fd, F_SETFD, FD_CLOEXEC));
	ok(dup2(T_CHAN, 0));
	execl("/bin/cat", "cat", (char *)NULL);
	must(0);
}

SOCK_PAIR(server, client)
