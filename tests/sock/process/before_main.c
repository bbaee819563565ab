// SPDX-License-Identifier: MIT
/* A program that does everything before its main, and before any library was set up, as a constructor of another library may: nothing is lost. */
#include "../sock.h"

#define TOTAL	(200u << 10)

static void server(void)
{
	int l = t_listen(0), fd = t_accept(l);

	close(l);
	for (int i = 0; i < 20; i++) {
		recv_pattern(fd, TOTAL / 20, 1000, 1);
		send_str(fd, "more");
	}
	send_pattern(fd, TOTAL, 7000, 2);
	want_eof(fd);
	say("all received");
	close(fd);
}

static void client(void)
{
	int fd = t_connect();

	for (int i = 0; i < 20; i++) {
		send_pattern(fd, TOTAL / 20, 3000, 1);
		want_str(fd, "more");
	}
	recv_pattern(fd, TOTAL, 5000, 2);
	say("all received");
	ok(shutdown(fd, SHUT_WR));
	want_eof(fd);
	close(fd);
}

/* libc has not looked at the environment yet. */
static void early(int argc, char **argv, char **envp)
{
	if (argc < 2)
		return;
	environ = envp;
	_exit(t_main(argc, argv, server, client));
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = early;

SOCK_ROLES(server, client)
