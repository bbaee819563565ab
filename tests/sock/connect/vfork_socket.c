// SPDX-License-Identifier: MIT
/* A vfork child that closes the connection and makes sockets of its own under that number leaves the parent's as it was. */
#include "../sock.h"

static void server(int fd)
{
	want_str(fd, "ping");
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	struct sockaddr_storage a;
	socklen_t l = sizeof(a);
	pid_t pid;
	int st;

	pid = vfork();
	if (!pid) {
		close(fd);
		_exit(socket(AF_INET, SOCK_STREAM, 0) == fd ? 0 : 9);
	}
	ok(pid);
	ok(waitpid(pid, &st, 0));
	pid = vfork();
	if (!pid) {
		close(fd);
		_exit(epoll_create1(0) == fd ? 0 : 9);
	}
	ok(pid);
	ok(waitpid(pid, &st, 0));
	say("child %d", st);
	ok(getpeername(fd, (void *)&a, &l));
	say("domain %d, peer %d", get_int(fd, SOL_SOCKET, SO_DOMAIN) == t_default_family(), a.ss_family == t_default_family());
	send_str(fd, "ping");
	close(fd);
}

SOCK_PAIR(server, client)
