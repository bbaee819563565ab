// SPDX-License-Identifier: MIT
/*
 * An answer and, at once, a close with octets unread, early and later in the life of a connection:
 * the answer can be read, and the reset is behind it, whoever writes meanwhile.
 */
#include "../sock.h"

#define CONNS	120

static int rounds(int i)
{
	return i % 7;
}

static void serve(int fd, int i)
{
	static const struct linger lg = { 1, 0 };
	char c;

	for (int k = 0; k < rounds(i); k++) {
		want_str(fd, "ping");
		send_str(fd, "pong");
	}
	if (i & 1) {
		t_readable(fd, 8);
		must(recv(fd, &c, 1, 0) == 1);
	} else {
		want_str(fd, "question");
		ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	}
	send_str(fd, "answer");
	close(fd);
}

static void server(void)
{
	int l = t_listen(0);

	for (int i = 0; i < CONNS; i++) {
		serve(t_accept(l), i);
		t_sync();
	}
	close(l);
}

static void ask(int fd, int i, int *good)
{
	static const char more[1024];
	char b[8];

	for (int k = 0; k < rounds(i); k++) {
		send_str(fd, "ping");
		want_str(fd, "pong");
	}
	send_str(fd, "question");
	if (i % 3) {	/* the error is a send's */
		while (send(fd, more, sizeof(more), MSG_NOSIGNAL) > 0)
			;
		*good += recv(fd, b, 8, 0) == 6 && recv(fd, b, 8, 0) == 0;
	} else {
		t_until(fd, POLLHUP);
		*good += recv(fd, b, 8, 0) == 6 && recv(fd, b, 8, 0) == -1 && errno == ECONNRESET && recv(fd, b, 8, 0) == 0;
	}
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int good = 0;

	t_peer(&ss);
	for (int i = 0; i < CONNS; i++) {
		ask(t_connect_to(&ss), i, &good);
		t_sync();
	}
	say("answers: %d", good);
}

SOCK_ROLES(server, client)
