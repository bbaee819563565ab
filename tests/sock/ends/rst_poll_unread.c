// SPDX-License-Identifier: MIT
/* A reset behind octets that nobody has read, seen by who polls for octets alone; what came can be read. */
#include "../sock.h"

#define MUCH	(120 << 10)

static uint8_t b[MUCH];

static void server(void)
{
	struct linger lg = { 1, 0 };
	int lfd = t_listen(0);

	for (int i = 0; i < 4; i++) {
		int fd = t_accept(lfd);

		want_str(fd, "question");
		t_fill(b, sizeof(b), 0, 1);
		send_all(fd, b, i & 1 ? sizeof(b) : 5);
		t_sync();
		ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		close(fd);
		t_sync();
	}
	close(lfd);
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int i = 0; i < 4; i++) {
		int fd = t_connect_to(&ss), size = 1 << 20, ev;
		long end;

		ok(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
		send_str(fd, "question");
		say_poll("octets", t_poll(fd, POLLIN, T_WAIT_MS));
		if (i & 2)
			step("peek", recv(fd, b, 3, MSG_PEEK));
		t_sync();
		end = t_ms() + T_WAIT_MS;
		do
			ev = t_poll(fd, POLLIN, 0);
		while ((ev & (POLLERR | POLLHUP)) != (POLLERR | POLLHUP) && t_ms() < end);	/* the kernel says the one before the other */
		say_poll("reset", ev);
		step("recv", recv(fd, b, 5, 0));
		t_sync();
		close(fd);
	}
}

SOCK_ROLES(server, client)
