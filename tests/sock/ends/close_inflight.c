// SPDX-License-Identifier: MIT
/* close() with data still queued does not block and loses nothing. */
#include "../kill.h"

static void server(int fd)
{
	uint64_t total;

	t_get(&total, sizeof(total));
	t_sync();
	recv_pattern(fd, total, 5000, 8);
	want_eof(fd);
	close(fd);
	say("all there");
}

static void client(int fd)
{
	static uint8_t b[65536];
	uint64_t total = 0;
	long t0;

	set_nonblock(fd, true);
	for (;;) {
		ssize_t r;

		t_fill(b, sizeof(b), total, 8);
		r = send(fd, b, sizeof(b), 0);
		if (r < 0)
			break;
		total += (uint64_t)r;
		if (total > (256u << 20))
			break;
	}
	must(total > 0);
	set_nonblock(fd, false);
	t0 = t_ms();
	step("close", close(fd));
	must_soon(t0);
	t_put(&total, sizeof(total));
	t_sync();
}

SOCK_PAIR(server, client)
