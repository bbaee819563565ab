// SPDX-License-Identifier: MIT
/* A mapped end whose daemon is dead is closed with much on its way, or its program ends: the other end reads all of it, and the end. */
#include "../kill.h"

#define MUCH	300000u

static void drink(int fd)
{
	static uint8_t b[4096];

	for (uint64_t pos = 0; pos < MUCH; ) {
		ssize_t r = ok(recv(fd, b, sizeof(b), 0));

		must(r > 0);
		t_same(b, (size_t)r, pos, 1);
		pos += (uint64_t)r;
	}
	want_eof(fd);
	close(fd);
}

static void server(void)
{
	int l = t_listen(0), fd[2];

	for (int i = 0; i < 2; i++) {
		fd[i] = t_accept(l);
		kill_mapped(fd[i], false);
	}
	kill_and_all_gone(fd, 2, false);
	drink(fd[0]);
	drink(fd[1]);
}

static void client(void)
{
	static uint8_t b[MUCH];
	struct sockaddr_storage ss;
	int fd[2];

	t_peer(&ss);
	t_fill(b, sizeof(b), 0, 1);
	for (int i = 0; i < 2; i++) {
		fd[i] = t_connect_to(&ss);
		kill_mapped(fd[i], true);
	}
	kill_and_all_gone(fd, 2, true);
	send_all(fd[0], b, sizeof(b));
	close(fd[0]);
	send_all(fd[1], b, sizeof(b));
}

SOCK_ROLES(server, client)
