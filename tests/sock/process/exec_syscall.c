// SPDX-License-Identifier: MIT
/* A program that becomes another one by syscall(), again and again, each time with something unread, and ends by it: each has what was left to it. */
#include "../sock.h"

#define TIMES	4
#define TURNS	20

static void server(void)
{
	int fd = t_accept(t_listen(0));
	char b[32];

	for (int i = 0; i <= TIMES; i++) {
		for (int k = 0; k < TURNS; k++) {
			want_str(fd, "ask");
			send_str(fd, "answer");
		}
		snprintf(b, sizeof(b), "left %d", i);
		send_str(fd, b);
		t_sync();
	}
	want_str(fd, "the last");
	want_eof(fd);
	close(fd);
}

static void become(int i)
{
	static char name[] = "/proc/self/exe", role[] = "CLIENT";
	char *argv[] = { name, role, NULL };
	char num[16];

	snprintf(num, sizeof(num), "%d", i);
	setenv("IW_TEST_TIMES", num, 1);
	if (i % 2)
		syscall(SYS_execve, name, argv, environ);
	else
		syscall(SYS_execveat, AT_FDCWD, name, argv, environ, 0);
	must(0);
}

static void client(void)
{
	const char *in = getenv("IW_TEST_FD"), *times = getenv("IW_TEST_TIMES");
	int fd = in ? atoi(in) : t_connect(), i = times ? atoi(times) : 0;
	char b[32];

	if (in) {
		snprintf(b, sizeof(b), "left %d", i - 1);
		want_str(fd, b);
		say("%s", b);
	} else {
		snprintf(b, sizeof(b), "%d", fd);
		setenv("IW_TEST_FD", b, 1);
	}
	for (int k = 0; k < TURNS; k++) {
		send_str(fd, "ask");
		want_str(fd, "answer");
	}
	t_sync();
	t_readable(fd, 6);
	if (i < TIMES)
		become(i + 1);
	want_str(fd, "left 4");
	send_str(fd, "the last");
	syscall(SYS_exit_group, 0);
}

SOCK_ROLES(server, client)
