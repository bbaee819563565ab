// SPDX-License-Identifier: MIT
/* A fork while the daemon of a mapped end is dead: the parent goes on, for the child it is a reset, and its end is no end of the stream. */
#include "../kill.h"

static void one(int fd, bool client, bool forks)
{
	if (forks) {
		pid_t pid = (pid_t)ok(fork());
		int status;

		if (!pid) {
			must(recv(fd, &(char){ 0 }, 1, 0) < 0 && errno == ECONNRESET);
			close(fd);
			_exit(0);
		}
		must(waitpid(pid, &status, 0) == pid && !status);
	}
	for (int i = 0; i < 100; i++) {
		if (client)
			send_str(fd, "on");
		want_str(fd, "on");
		if (!client)
			send_str(fd, "on");
	}
}

static void server(int fd)
{
	kill_mapped(fd, false);
	kill_and_gone(fd, false);
	one(fd, false, kill_mine());
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	kill_mapped(fd, true);
	kill_and_gone(fd, true);
	one(fd, true, kill_mine());
	close(fd);
}

SOCK_PAIR(server, client)
