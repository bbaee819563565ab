// SPDX-License-Identifier: MIT
/* What was written by one call, with nothing else on the way, comes by one call: at whatever place of the stream it lies, and whoever else has the socket. */
#include "../sock.h"

#define LEN	1001u		/* less than a segment takes */
#define TURNS	700		/* more than two rings */

static uint8_t octet(unsigned int turn, unsigned int i)
{
	return (uint8_t)(turn * 31 + i * 7);
}

static void gets(int fd, unsigned int turn)
{
	uint8_t b[2 * LEN];
	ssize_t n = recv(fd, b, sizeof(b), 0);

	if (n != LEN)
		say("%zd octets, errno %d, in turn %u", n, errno, turn);
	must(n == LEN);
	for (unsigned int i = 0; i < LEN; i++)
		must(b[i] == octet(turn, i));
}

static void puts_one(int fd, unsigned int turn)
{
	uint8_t b[LEN];

	for (unsigned int i = 0; i < LEN; i++)
		b[i] = octet(turn, i);
	must(send(fd, b, LEN, 0) == LEN);
}

static void turns(int fd, bool first)
{
	for (unsigned int turn = 0; turn < TURNS; turn++) {
		if (first)
			puts_one(fd, turn);
		gets(fd, turn);
		if (!first)
			puts_one(fd, turn);
	}
	say("turns");
}

static void both(int fd, bool first)
{
	int p[2], st;
	pid_t child;
	char c;

	turns(fd, first);
	ok(pipe(p));
	child = (pid_t)ok(fork());
	if (!child) {		/* has it, and does nothing with it */
		close(p[1]);
		_exit(read(p[0], &c, 1) ? 1 : 0);
	}
	close(p[0]);
	turns(fd, first);
	close(p[1]);
	ok(waitpid(child, &st, 0));
	say("child %d", st);
	turns(fd, first);
	close(fd);
}

SOCK_BOTH(both)
