// SPDX-License-Identifier: MIT
/* What a vfork child does to its descriptors does not concern the parent; a child made by clone() by hand shares the connection. */
#include "../sock.h"

static void server(int fd)
{
	for (int i = 0; i < 3; i++) {
		want_str(fd, "ping");
		send_str(fd, "pong");
	}
	want_eof(fd);
}

static void client(int fd)
{
	int st, null = (int)ok(open("/dev/null", O_RDWR | O_CLOEXEC));
	pid_t pid;

	pid = vfork();
	if (!pid) {
		dup2(null, fd);
		dup2(fd, 0);
		close(fd);
		close(T_CHAN);
		close_range(3, ~0u, 0);
		execl("/bin/true", "true", NULL);
		_exit(9);
	}
	ok(pid);
	ok(waitpid(pid, &st, 0));
	say("vfork child: %d", st);
	send_str(fd, "ping");
	want_str(fd, "pong");

	pid = (pid_t)ok(t_sys(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	if (!pid) {
		send_str(fd, "ping");
		want_str(fd, "pong");
		close(fd);
		_exit(0);
	}
	ok(waitpid(pid, &st, 0));
	say("cloned child: %d", st);
	send_str(fd, "ping");
	want_str(fd, "pong");
	close(fd);
	step("closed", send(fd, "x", 1, MSG_NOSIGNAL));
}

SOCK_PAIR(server, client)
