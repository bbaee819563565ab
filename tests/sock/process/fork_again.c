// SPDX-License-Identifier: MIT
/*
 * Forks again and again while octets are unread, at either end, with children that stay for a while; between them octets go both ways at once, or there and
 * back: nothing is lost, and all comes in order, whoever passes it on, and whenever that changes.
 */
#include <sys/wait.h>

#include "../sock.h"

#define TURNS	300	/* there and back, before */
#define FORKS	20
#define PIECES	40	/* under way at once */
#define PIECE	700
#define ROUNDS	60	/* there and back, with each child and after it */

static pid_t child;

/* One that lives until the next one, or goes at once. */
static void next_child(bool stays)
{
	int status;

	if (child) {
		ok(kill(child, SIGKILL));
		must(waitpid(child, &status, 0) == child);
	}
	child = (pid_t)ok(fork());
	if (!child && stays)
		for (;;)
			pause();
	if (!child)
		_exit(0);
}

static void take(int fd, uint64_t *pos, size_t n)
{
	static char b[PIECES * PIECE];

	must(recv(fd, b, n, MSG_WAITALL) == (ssize_t)n);
	t_same(b, n, *pos, 1);
	*pos += n;
}

static void give(int fd, uint64_t *pos, size_t n)
{
	static char b[PIECES * PIECE];

	t_fill(b, n, *pos, 1);
	must(send(fd, b, n, 0) == (ssize_t)n);
	*pos += n;
}

static void there_and_back(int fd, bool first, uint64_t *in, uint64_t *out)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (first)
			give(fd, out, 1 + (size_t)i);
		take(fd, in, 1 + (size_t)i);
		if (!first)
			give(fd, out, 1 + (size_t)i);
	}
}

static void both_at_once(int fd, uint64_t *in, uint64_t *out)
{
	for (int i = 0; i < PIECES; i++)
		give(fd, out, PIECE);
	for (int i = 0; i < PIECES; i++)
		take(fd, in, PIECE);
}

static void end(int fd, bool first)
{
	uint64_t in = 0, out = 0;
	static char b[PIECE];
	int status;

	for (int i = 0; i < TURNS / ROUNDS; i++)
		there_and_back(fd, first, &in, &out);
	for (int i = 0; i < FORKS; i++) {
		bool forks = (i & 1) == first;

		give(fd, &out, PIECE);
		if (forks) {
			t_readable(fd, PIECE);
			must(recv(fd, b, PIECE, MSG_PEEK | MSG_DONTWAIT) == PIECE);	/* which leaves them in the ring */
			take(fd, &in, 1);
			next_child(i % 5 == 4);
			take(fd, &in, PIECE - 1);
		} else {
			take(fd, &in, PIECE);
		}
		both_at_once(fd, &in, &out);
		there_and_back(fd, first, &in, &out);
		if (forks && i % 3 == 2)
			next_child(false);
		there_and_back(fd, first, &in, &out);
	}
	if (child) {
		kill(child, SIGKILL);
		must(waitpid(child, &status, 0) == child);
	}
	say("%llu in, %llu out", (unsigned long long)in, (unsigned long long)out);
	close(fd);
}

static void server(int fd)
{
	end(fd, false);
}

static void client(int fd)
{
	end(fd, true);
}

SOCK_PAIR(server, client)
