// SPDX-License-Identifier: MIT
/*
 * One thread forks, while another one, which has read a part of what came, moves on some of the rest by splice(), makes a duplicate of the descriptor, closes
 * that, and reads on by the other number: nothing is lost, whoever was sooner, and whichever number it had when the child was made.
 */
#include <stdatomic.h>
#include <sys/wait.h>

#include "../sock.h"

#define TURNS	300	/* there and back, before */
#define ROUNDS	150
#define AGAIN	40	/* there and back, in each round: with nobody else about it is as it was at first */
#define OCTETS	94000	/* more than a ring has */
#define MOVED	20000

static _Atomic int forks;	/* so many are wanted; -1: no more */
static _Atomic int forked;

static void *forker(void *arg)
{
	int n = 0, want, status;

	while ((want = atomic_load(&forks)) >= 0) {
		pid_t pid;

		if (n == want) {
			sched_yield();
			continue;
		}
		pid = (pid_t)ok(fork());
		if (!pid)
			_exit(0);
		must(waitpid(pid, &status, 0) == pid && !status);
		atomic_store(&forked, ++n);
	}
	return NULL;
}

static void server(int fd)
{
	static char b[OCTETS];
	int pipes[2];
	pthread_t t;

	ok(pipe(pipes));
	t_wake(fd, false, TURNS);
	must(!pthread_create(&t, NULL, forker, NULL));
	for (int i = 0; i < ROUNDS; i++) {
		size_t part = 1 + (size_t)i * 7 % 3000;
		ssize_t n;
		int other;

		t_wake(fd, false, AGAIN);
		t_readable(fd, OCTETS);
		must(recv(fd, b, OCTETS, MSG_PEEK | MSG_DONTWAIT) > 0);
		must(recv(fd, b, part, 0) == (ssize_t)part);
		atomic_store(&forks, i + 1);
		for (volatile int k = 0; k < i * 997 % 60000; k++)	/* the one, or the other, is sooner */
			;
		n = splice(fd, NULL, pipes[1], NULL, MOVED, 0);
		must(n > 0 && read(pipes[0], b + part, (size_t)n) == n);
		part += (size_t)n;
		other = (int)ok(i & 1 ? dup(fd) : fcntl(fd, F_DUPFD, 60));
		ok(close(fd));
		fd = other;
		while (atomic_load(&forked) <= i)
			sched_yield();
		must(recv(fd, b + part, OCTETS - part, MSG_WAITALL) == (ssize_t)(OCTETS - part));
		t_same(b, OCTETS, (uint64_t)i * OCTETS, 1);
		must(send(fd, "n", 1, 0) == 1);
	}
	atomic_store(&forks, -1);
	must(!pthread_join(t, NULL));
	say("all read");
	close(fd);
}

static void client(int fd)
{
	static char b[OCTETS];

	t_wake(fd, true, TURNS);
	for (int i = 0; i < ROUNDS; i++) {
		t_wake(fd, true, AGAIN);
		t_fill(b, OCTETS, (uint64_t)i * OCTETS, 1);
		must(send(fd, b, OCTETS, 0) == OCTETS);
		must(recv(fd, b, 1, 0) == 1);
	}
	must(recv(fd, b, 1, 0) == 0);
	say("all sent");
	close(fd);
}

SOCK_PAIR(server, client)
