// SPDX-License-Identifier: MIT
/* A child that was started with the connection closes its own copies; for the peer nothing is closed while the parent has it. */
#include "../sock.h"

static void child(void)
{
	must(get_int(0, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
	close(0);
	must(get_int(1, SOL_SOCKET, SO_TYPE) == SOCK_STREAM);
	close(1);
}

static void server(void)
{
	pid_t pid;
	int fd, st;

	if (getenv("IW_TEST_EXECED")) {
		child();
		return;
	}
	fd = t_accept(t_listen(0));
	setenv("IW_TEST_EXECED", "1", 1);
	pid = (pid_t)ok(fork());
	if (!pid) {
		ok(dup2(fd, 0));
		ok(dup2(fd, 1));
		close(fd);
		execl("/proc/self/exe", "self", "SERVER", (char *)NULL);
		_exit(127);
	}
	ok(waitpid(pid, &st, 0));
	must(st == 0);
	t_sync();
	want_eof(fd);
	t_sync();
	close(fd);
}

static void client(int fd)
{
	struct sockaddr_storage a;
	socklen_t l = sizeof(a);

	t_sync();
	step("shutdown", shutdown(fd, SHUT_RDWR));
	step("getpeername", getpeername(fd, (void *)&a, &l));
	t_sync();
	close(fd);
}

static void t_client(void)
{
	client(t_connect());
}

SOCK_ROLES(server, t_client)
