// SPDX-License-Identifier: MIT
/* 32 MiB in both directions at the same time, octet by octet compared, odd piece sizes. */
#include "../sock.h"

#define TOTAL (32u << 20)

struct job { int fd; unsigned int seed; size_t piece; };

static void *writer(void *arg)
{
	struct job *j = arg;

	send_pattern(j->fd, TOTAL, j->piece, j->seed);
	ok(shutdown(j->fd, SHUT_WR));
	return NULL;
}

static void both(int fd, unsigned int out, unsigned int in, size_t piece)
{
	struct job j = { fd, out, piece };
	pthread_t t;

	must(!pthread_create(&t, NULL, writer, &j));
	recv_pattern(fd, TOTAL, 77777, in);
	want_eof(fd);
	must(!pthread_join(t, NULL));
	close(fd);
	say("%u octets each way", TOTAL);
}

static void server(int fd)
{
	both(fd, 1, 2, 65536);
}

static void client(int fd)
{
	both(fd, 2, 1, 99991);
}

SOCK_PAIR(server, client)
