// SPDX-License-Identifier: MIT
/* A program started with the connection as its standard input, as by inetd, and that only reads: a reset is no end of file to it. */
#include "../kill.h"

static void inherited(void)
{
	char c;
	ssize_t r;

	must(read(0, &c, 1) == 1 && c == 'x');
	t_sync();
	r = read(0, &c, 1);
	if (r >= 0)
		t_fail(__FILE__, __LINE__, "a truncated stream looks like a clean end");
	step("read", r);
	step("read", read(0, &c, 1));
}

static void server(void)
{
	int fd;

	if (getenv("IW_TEST_EXECED")) {
		inherited();
		return;
	}
	fd = t_accept(t_listen(0));
	kill_ready(fd, false);
	ok(dup2(fd, 0));
	close(fd);
	setenv("IW_TEST_EXECED", "1", 1);
	execl("/proc/self/exe", "self", "SERVER", (char *)NULL);
	must(0);
}

static void client(void)
{
	int fd = t_connect();

	kill_ready(fd, true);
	send_str(fd, "x");
	t_sync();
	kill_daemon();
	want_reset(fd);
	step("recv", recv(fd, &(char){ 0 }, 1, 0));
	close(fd);
}

SOCK_ROLES(server, client)
