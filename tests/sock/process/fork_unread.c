// SPDX-License-Identifier: MIT
/*
 * Forks while octets are unread, some of them told of: the parent reads on, and is not told of more or less than there is; also where the child becomes
 * a program that has the descriptor and does not know of it.
 */
#include <sys/wait.h>

#include "../sock.h"

#define TURNS	300	/* there and back, before */
#define OCTETS	3000
#define FORKS	20

static void child_comes_and_goes(bool program)
{
	pid_t pid = (pid_t)ok(fork());
	int status;

	if (!pid && program)
		execl("/bin/true", "true", (char *)NULL);
	if (!pid)
		_exit(program);
	must(waitpid(pid, &status, 0) == pid && !status);
}

static void server(int fd)
{
	static char b[OCTETS];
	int ep = (int)ok(epoll_create1(EPOLL_CLOEXEC)), n;
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	for (int i = 0; i < TURNS; i++) {
		must(epoll_wait(ep, &ev, 1, T_WAIT_MS) == 1);
		must(recv(fd, b, 1, 0) == 1);
		must(send(fd, b, 1, 0) == 1);
	}
	for (int i = 0; i < FORKS; i++) {
		size_t got = 0;

		t_sync();
		t_readable(fd, OCTETS);
		while (got < OCTETS) {
			size_t some = 1 + (size_t)(i * 97 + (int)got) % 700;

			must(epoll_wait(ep, &ev, 1, T_WAIT_MS) == 1 && ev.events == EPOLLIN);
			if (some > OCTETS - got)
				some = OCTETS - got;
			must(recv(fd, b + got, some, 0) == (ssize_t)some);
			got += some;
			if (got % 3 == 0)
				child_comes_and_goes(got % 2);
			ok(ioctl(fd, FIONREAD, &n));
			must((size_t)n == OCTETS - got);
		}
		t_same(b, OCTETS, (uint64_t)i * OCTETS, 1);
		must(epoll_wait(ep, &ev, 1, 0) == 0);
		t_sync();
	}
	say("all read");
	close(fd);
}

static void client(int fd)
{
	static char b[OCTETS];

	for (int i = 0; i < TURNS; i++) {
		must(send(fd, "a", 1, 0) == 1);
		must(recv(fd, b, 1, 0) == 1);
	}
	for (int i = 0; i < FORKS; i++) {
		t_fill(b, OCTETS, (uint64_t)i * OCTETS, 1);
		for (int at = 0; at < OCTETS; at += 100)
			must(send(fd, b + at, 100, 0) == 100);
		t_sync();
		t_sync();
	}
	must(recv(fd, b, 1, 0) == 0);
	say("all sent");
	close(fd);
}

SOCK_PAIR(server, client)
