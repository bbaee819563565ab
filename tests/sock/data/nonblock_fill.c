// SPDX-License-Identifier: MIT
/* A non-blocking writer fills everything, is not writable, and is woken when the reader reads. */
#include "../sock.h"

static void server(int fd)
{
	uint64_t total;

	t_get(&total, sizeof(total));
	t_sync();
	recv_pattern(fd, total, 30000, 4);
	want_str(fd, "after");
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	static uint8_t b[8192];
	uint64_t total = 0;
	int quiet = 0;

	set_nonblock(fd, true);
	/* Buffers between the two ends go on taking octets for a while: full means not writable for 200 ms. */
	while (quiet < 200) {
		ssize_t r;

		t_fill(b, sizeof(b), total, 4);
		r = send(fd, b, sizeof(b), MSG_NOSIGNAL);
		if (r > 0) {
			total += (uint64_t)r;
			quiet = 0;
			continue;
		}
		must(r == -1 && errno == EAGAIN);
		quiet = t_poll(fd, POLLOUT, 50) ? 0 : quiet + 50;
	}
	must(total >= 16384);
	/* on a busy machine there may be room after all */
	for (t_fill(b, 1, total, 4); send(fd, b, 1, MSG_NOSIGNAL) == 1; t_fill(b, 1, total, 4))
		total++;
	say("full: %s", t_errname(errno));
	t_put(&total, sizeof(total));
	t_sync();
	say_poll("poll", t_poll(fd, POLLOUT, T_WAIT_MS));
	set_nonblock(fd, false);
	send_str(fd, "after");
	close(fd);
}

SOCK_PAIR(server, client)
