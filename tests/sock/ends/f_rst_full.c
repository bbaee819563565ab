// SPDX-License-Identifier: MIT
/* A reset reaches one who waits to write although both directions are full; what came before can still be read. */
#include "../sock.h"

/* Until nothing more goes in for a while. */
static uint64_t fill(int fd, unsigned int seed)
{
	static uint8_t b[65536];
	uint64_t total = 0;

	set_nonblock(fd, true);
	for (int quiet = 0; quiet < 3;) {
		ssize_t r;

		t_fill(b, sizeof(b), total, seed);
		r = send(fd, b, sizeof(b), MSG_NOSIGNAL);
		if (r > 0)
			total += (uint64_t)r, quiet = 0;
		else
			quiet = t_poll(fd, POLLOUT, 50) ? 0 : quiet + 1;
	}
	return total;
}

static void server(int fd)
{
	struct linger lg = { 1, 0 };

	fill(fd, 1);
	t_sync();
	ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	close(fd);
}

static void client(int fd)
{
	uint8_t b[256];

	fill(fd, 2);
	t_sync();
	while (!(t_poll(fd, POLLOUT, T_WAIT_MS) & POLLHUP))	/* the kernel's TCP sets ERR a moment before HUP */
		t_nap(1);
	say_poll("poll", t_poll(fd, POLLOUT, 0));
	must(recv(fd, b, sizeof(b), 0) == sizeof(b));
	t_same(b, sizeof(b), 0, 1);
	step("send", send(fd, b, 1, MSG_NOSIGNAL));
	step("send", send(fd, b, 1, MSG_NOSIGNAL));
	close(fd);
}

SOCK_PAIR(server, client)
