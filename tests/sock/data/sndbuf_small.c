// SPDX-License-Identifier: MIT
/* With the smallest SO_SNDBUF a non-reading peer makes the socket unwritable soon, and nothing is lost. */
#include "../sock.h"

static void server(int fd)
{
	uint64_t total;

	t_get(&total, sizeof(total));
	recv_pattern(fd, total, 4096, 6);
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	uint8_t b[512];
	uint64_t total = 0;
	int quiet = 0;

	step("SO_SNDBUF", set_int(fd, SOL_SOCKET, SO_SNDBUF, 1));
	set_nonblock(fd, true);
	while (quiet < 4 && total < (64u << 20)) {
		ssize_t r;

		t_fill(b, sizeof(b), total, 6);
		r = send(fd, b, sizeof(b), 0);
		if (r > 0) {
			total += (uint64_t)r;
			quiet = 0;
			continue;
		}
		must(r == -1 && errno == EAGAIN);
		quiet = t_poll(fd, POLLOUT, 50) ? 0 : quiet + 1;
	}
	must(total < (64u << 20));
	/* on a busy machine there may be room after all */
	for (t_fill(b, 1, total, 6); send(fd, b, 1, 0) == 1; t_fill(b, 1, total, 6))
		total++;
	say("full: %s", t_errname(errno));
	t_put(&total, sizeof(total));
	close(fd);
}

SOCK_PAIR(server, client)
