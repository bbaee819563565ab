// SPDX-License-Identifier: MIT
/*
 * A send is the first to find the peer's reset, also one that sleeps: what went is said before the error. What the peer had sent can be read
 * afterwards.
 */
#include "../sock.h"

#define TIMES	4

static void reset(int fd)
{
	struct linger lg = { 1, 0 };

	ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	close(fd);
}

static void server(void)
{
	int lfd = t_listen(0);

	for (int i = 0; i < TIMES; i++) {
		int fd = t_accept(lfd);

		want_str(fd, "question");
		send_str(fd, "answer");
		t_sync();
		if (i & 1)
			send_str(fd, "tail");
		t_sync();
		t_nap(i & 2 ? 200 : 50);
		reset(fd);
		t_sync();
	}
	close(lfd);
}

static void client(void)
{
	static char b[1 << 20];
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int i = 0; i < TIMES; i++) {
		int fd = t_connect_to(&ss);
		ssize_t r;
		char tail[8];

		send_str(fd, "question");
		want_str(fd, "answer");
		t_sync();
		t_sync();
		if (i & 2) {	/* it sleeps with part of it gone */
			do
				r = send(fd, b, sizeof(b), MSG_NOSIGNAL);
			while (r == sizeof(b));
			t_sync();
		} else {
			t_sync();
			t_nap(300);
			r = 0;
		}
		if (r >= 0)	/* what went is said first */
			r = send(fd, b, 1000, MSG_NOSIGNAL);
		say("%d: send %zd %s", i, r, r < 0 ? t_errname(errno) : "");
		r = send(fd, b, 1000, MSG_NOSIGNAL);
		say("%d: send %zd %s", i, r, r < 0 ? t_errname(errno) : "");
		for (int k = 0; k < 3; k++) {
			r = recv(fd, tail, sizeof(tail), 0);
			say("%d: recv %zd %s", i, r, r < 0 ? t_errname(errno) : "");
		}
		close(fd);
	}
}

SOCK_ROLES(server, client)
