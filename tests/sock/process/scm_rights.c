// SPDX-License-Identifier: MIT
/* The connection is passed by SCM_RIGHTS to a process without the library, which echoes; the passer closes. */
#include "../sock.h"

static void server(int fd)
{
	const char *dir = getenv("IW_TEST_HELPER");
	char path[512];
	int sv[2], st;
	pid_t p;

	if (!dir)
		exit(77);
	snprintf(path, sizeof(path), "%s/echoer", dir);
	ok(socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	p = (pid_t)ok(fork());
	if (!p) {
		ok(dup2(sv[1], 0));
		close(sv[0]);
		close(sv[1]);
		close(fd);
		execl(path, "echoer", "--recv", (char *)NULL);
		_exit(127);
	}
	close(sv[1]);
	t_pass(sv[0], fd);
	close(fd);
	ok(waitpid(p, &st, 0));
	say("child %d", st);
}

static void client(int fd)
{
	send_str(fd, "through a stranger");
	want_str(fd, "through a stranger");
	ok(shutdown(fd, SHUT_WR));
	want_eof(fd);
	close(fd);
	say("echoed");
}

SOCK_PAIR(server, client)
