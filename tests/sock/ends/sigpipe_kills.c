// SPDX-License-Identifier: MIT
/* A writer that does not handle SIGPIPE dies of it, as y
y
y
y
y
y
y
y
y
y needs it. */
#include "../sock.h"

static void server(int fd)
{
	char b[100];

	must(recv_all(fd, b, sizeof(b)) == sizeof(b));
	close(fd);	/* with unread data */
}

static void client(int fd)
{
	int st;
	pid_t p = (pid_t)ok(fork());

	if (!p) {
		static char b[65536];

		for (;;)
			if (write(fd, b, sizeof(b)) < 0 && errno != ECONNRESET)
				_exit(9);
	}
	close(fd);
	ok(waitpid(p, &st, 0));
	say("killed by %s", WIFSIGNALED(st) ? sigabbrev_np(WTERMSIG(st)) : "nothing");
}

SOCK_PAIR(server, client)
