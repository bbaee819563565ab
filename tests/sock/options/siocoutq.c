// SPDX-License-Identifier: MIT
/* SIOCOUTQ: nothing unsent at first, something when the reader is slow, zero when all was acknowledged. */
#include "../sock.h"

#include <linux/sockios.h>

static int unsent(int fd)
{
	int n = -1;

	ok(ioctl(fd, SIOCOUTQ, &n));
	return n;
}

static void server(int fd)
{
	uint64_t total;

	t_get(&total, sizeof(total));
	recv_pattern(fd, total, 65536, 1);
	t_sync();
	close(fd);
}

static void client(int fd)
{
	static uint8_t b[65536];
	uint64_t total = 0;
	int n, quiet = 0;

	say("at first %d", unsent(fd));
	set_nonblock(fd, true);
	while (quiet < 4) {
		ssize_t r;

		t_fill(b, sizeof(b), total, 1);
		r = send(fd, b, sizeof(b), 0);
		if (r > 0)
			total += (uint64_t)r, quiet = 0;
		else
			quiet = t_poll(fd, POLLOUT, 50) ? 0 : quiet + 1;
	}
	n = unsent(fd);
	say("full: more than nothing %d, not more than sent %d", n > 0, (uint64_t)n <= total);
	t_put(&total, sizeof(total));
	for (long end = t_ms() + T_WAIT_MS; (n = unsent(fd)) && t_ms() < end; t_nap(2))
		;
	say("all read: %d", n);
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
