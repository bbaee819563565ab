// SPDX-License-Identifier: MIT
/* dup, dup2, dup3, F_DUPFD, F_DUPFD_CLOEXEC: each is the connection; only the last close ends it. */
#include "../sock.h"

static void server(int fd)
{
	want_str(fd, "abcdef");
	say_poll("still open", t_poll(fd, POLLIN, 30));
	t_sync();
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	struct sockaddr_storage a, b;
	socklen_t la = sizeof(a), lb = sizeof(b);
	int d[6] = { fd };

	d[1] = (int)ok(dup(fd));
	d[2] = (int)ok(dup2(fd, 60));
	d[3] = (int)ok(dup3(fd, 61, O_CLOEXEC));
	d[4] = (int)ok(fcntl(fd, F_DUPFD, 62));
	d[5] = (int)ok(fcntl(fd, F_DUPFD_CLOEXEC, 62));
	say("%d %d %d %d", d[2], d[3], d[4], d[5]);
	say("cloexec %ld %ld %ld", ok(fcntl(d[3], F_GETFD)), ok(fcntl(d[4], F_GETFD)), ok(fcntl(d[5], F_GETFD)));
	ok(getsockname(fd, (void *)&a, &la));
	step("getsockname of a dup", getsockname(d[2], (void *)&b, &lb));
	must(la == lb && !memcmp(&a, &b, la));
	ok(set_int(d[1], IPPROTO_TCP, TCP_NODELAY, 1));
	say("option seen through another %d", get_int(d[4], IPPROTO_TCP, TCP_NODELAY));
	for (int i = 0; i < 6; i++) {
		char c = (char)('a' + i);

		must(send(d[i], &c, 1, 0) == 1);
	}
	step("dup2 to itself", dup2(fd, fd) == fd ? 0 : -1);
	step("dup3 to itself", dup3(fd, fd, 0));
	for (int i = 0; i < 5; i++)
		close(d[i]);
	t_sync();
	close(d[5]);
}

SOCK_PAIR(server, client)
