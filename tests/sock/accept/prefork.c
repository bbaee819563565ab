// SPDX-License-Identifier: MIT
/* Three workers accept on an inherited listener; all 30 connections are served with their data. */
#include "../sock.h"

static void worker(int l)
{
	for (;;) {
		int fd = t_accept(l);
		char b[16];
		ssize_t n = recv(fd, b, sizeof(b), 0);

		if (n == 4 && !memcmp(b, "quit", 4))
			_exit(0);
		must(n > 0);
		send_all(fd, b, (size_t)n);
		want_eof(fd);
		close(fd);
	}
}

static void server(void)
{
	int l = t_listen(0), st, bad = 0;

	for (int i = 0; i < 3; i++)
		if (!ok(fork()))
			worker(l);
	close(l);
	for (int i = 0; i < 3; i++) {
		ok(wait(&st));
		bad |= st;
	}
	say("workers %d", bad);
}

static void client(void)
{
	struct sockaddr_storage ss;
	char b[16];
	int fd;

	t_peer(&ss);
	for (int i = 0; i < 30; i++) {
		fd = t_connect_to(&ss);
		snprintf(b, sizeof(b), "job %d", i);
		send_str(fd, b);
		want_str(fd, b);
		close(fd);
	}
	for (int i = 0; i < 3; i++) {
		fd = t_connect_to(&ss);
		send_str(fd, "quit");
		want_eof(fd);
		close(fd);
	}
	say("served");
}

SOCK_ROLES(server, client)
