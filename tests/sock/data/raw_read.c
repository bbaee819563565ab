// SPDX-License-Identifier: MIT
/* A program that reads by system calls of its own, and has always done so, finds what comes: its streams are not mapped. With the limits that are the default. */
#include "../sock.h"

#define ROUNDS	400

static void seen_long_enough(void)
{
	const char *conf = getenv("IWSOCK_CONF");

	if ((getenv("IW_TEST_PRELOAD_SERVER") || getenv("IW_TEST_PRELOAD_CLIENT")) && !(conf && strstr(conf, "default")))
		exit(77);
}

static void server(int fd)
{
	char b[64];
	long n;

	while ((n = t_sys(SYS_read, fd, b, sizeof(b))) > 0)
		must(send(fd, b, (size_t)n, 0) == n);
	must(!n);
	close(fd);
}

static void client(int fd)
{
	char b[64];

	for (int i = 0; i < ROUNDS; i++) {
		send_all(fd, "0123456789", 10);
		must(recv_all(fd, b, 10) == 10);
		usleep(500);
	}
	say("%d rounds", ROUNDS);
	close(fd);
}

static void server_(void)
{
	int l, fd;

	seen_long_enough();
	l = t_listen(0);
	fd = t_accept(l);
	close(l);
	server(fd);
}

static void client_(void)
{
	seen_long_enough();
	client(t_connect());
}

SOCK_ROLES(server_, client_)
