// SPDX-License-Identifier: MIT
/* A statically linked child inherits the connection as standard input and output and echoes. */
#include "../sock.h"

static void run_echo(int fd)
{
	const char *dir = getenv("IW_TEST_HELPER");
	char path[512];
	pid_t p;
	int st;

	if (!dir)
		exit(77);
	snprintf(path, sizeof(path), "%s/echoer", dir);
	p = (pid_t)ok(fork());
	if (!p) {
		ok(dup2(fd, 0));
		ok(dup2(fd, 1));
		close(fd);
		execl(path, "echoer", (char *)NULL);
		_exit(127);
	}
	close(fd);
	ok(waitpid(p, &st, 0));
	say("child %d", st);
}

static void server(int fd)
{
	run_echo(fd);
}

static void *writer(void *arg)
{
	send_pattern(*(int *)arg, 1 << 20, 7000, 3);
	ok(shutdown(*(int *)arg, SHUT_WR));
	return NULL;
}

static void client(int fd)
{
	pthread_t t;

	must(!pthread_create(&t, NULL, writer, &fd));
	recv_pattern(fd, 1 << 20, 5000, 3);
	want_eof(fd);
	must(!pthread_join(t, NULL));
	close(fd);
	say("echoed");
}

SOCK_PAIR(server, client)
