// SPDX-License-Identifier: MIT
/* Timeouts set before the connection exists are in force after it. */
#include "../sock.h"

static void server(void)
{
	struct timeval tv = { 0, 60000 };
	int l = t_listen(0), fd;
	char b[4];

	ok(setsockopt(l, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	t_sync();
	t_until(l, POLLIN);
	fd = t_accept(l);
	step("recv with the listener's timeout", recv(fd, b, 4, 0));
	t_sync();
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	struct timeval tv = { 0, 70000 };
	char b[4];
	long t0;
	int fd;

	t_peer(&ss);
	t_sync();
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM, 0));
	ok(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	ok(connect(fd, (void *)&ss, t_salen(&ss)));
	t0 = t_ms();
	step("recv", recv(fd, b, 4, 0));
	must(t_ms() - t0 >= 65);
	t_sync();
	close(fd);
}

SOCK_ROLES(server, client)
