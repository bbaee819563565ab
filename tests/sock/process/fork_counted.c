// SPDX-License-Identifier: MIT
/*
 * Octets are unread, and how many is asked all the time, and which, and whether, while another thread forks: all of them, at any time. Before, an option is set,
 * which has nothing to do with it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "../sock.h"

#define TURNS	300	/* there and back, before */
#define OCTETS	100000
#define PIECE	1000
#define ROUNDS	8

static _Atomic bool over;

static void *forks(void *arg)
{
	for (int i = 0; i < 3; i++) {
		pid_t pid = (pid_t)ok(fork());
		int status;

		if (!pid)
			_exit(0);
		must(waitpid(pid, &status, 0) == pid && !status);
	}
	atomic_store(&over, true);
	return arg;
}

static void server(int fd)
{
	static char b[OCTETS];
	int size = 1 << 20, off = -1;
	int ep = (int)ok(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd pf = { .fd = fd, .events = POLLIN };
	pthread_t t;

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	ok(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
	for (int round = 0; round < ROUNDS; round++) {
		int n, asked = 0;

		for (int i = 0; i < TURNS; i++) {
			must(recv(fd, b, 1, 0) == 1);
			must(send(fd, b, 1, 0) == 1);
		}
		t_sync();
		t_readable(fd, OCTETS);
		setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off));	/* what it is; some kernels refuse it */
		atomic_store(&over, false);
		must(!pthread_create(&t, NULL, forks, NULL));
		while (!atomic_load(&over) || !asked) {
			ok(ioctl(fd, FIONREAD, &n));
			asked++;
			if (n != OCTETS)
				say("round %d: %d of %d are there", round, n, OCTETS);
			must(n == OCTETS);
			must(poll(&pf, 1, 0) == 1 && pf.revents == POLLIN);
			must(epoll_wait(ep, &ev, 1, 0) == 1 && ev.events == EPOLLIN);
			if (asked % 2)
				continue;
			must(recv(fd, b, OCTETS, MSG_PEEK) == OCTETS);
			t_same(b, OCTETS, (uint64_t)round * OCTETS, 1);
		}
		must(!pthread_join(t, NULL));
		must(recv(fd, b, OCTETS, MSG_WAITALL) == OCTETS);
		t_same(b, OCTETS, (uint64_t)round * OCTETS, 1);
		t_sync();
	}
	say("all read");
	close(fd);
}

static void client(int fd)
{
	static char b[OCTETS];

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < TURNS; i++) {
			must(send(fd, "a", 1, 0) == 1);
			must(recv(fd, b, 1, 0) == 1);
		}
		t_fill(b, OCTETS, (uint64_t)round * OCTETS, 1);
		for (int at = 0; at < OCTETS; at += PIECE)
			must(send(fd, b + at, PIECE, 0) == PIECE);
		t_sync();
		t_sync();
	}
	must(recv(fd, b, 1, 0) == 0);
	say("all sent");
	close(fd);
}

SOCK_PAIR(server, client)
