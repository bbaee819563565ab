// SPDX-License-Identifier: MIT
/* Parent and child share a connection: both write, both read, the end comes when both have closed. */
#include "../sock.h"

static void server(int fd)
{
	char b[4];

	must(recv_all(fd, b, 2) == 2);
	must(b[0] != b[1]);
	say_poll("one has closed", t_poll(fd, POLLIN, 30));
	send_str(fd, "pc");
	t_sync();
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	int st, p[2];
	pid_t pid;
	char c;

	ok(pipe(p));
	pid = (pid_t)ok(fork());
	if (!pid) {
		send_str(fd, "C");
		close(fd);
		_exit(0);
	}
	ok(waitpid(pid, &st, 0));
	send_str(fd, "P");
	pid = (pid_t)ok(fork());
	if (!pid) {
		must(recv(fd, &c, 1, 0) == 1 && c == 'p');
		_exit(0);
	}
	ok(waitpid(pid, &st, 0));
	say("child %d", st);
	want_str(fd, "c");
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
