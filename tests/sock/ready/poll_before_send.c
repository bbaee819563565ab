// SPDX-License-Identifier: MIT
/* Each send is preceded by a poll that says that there is room, while nobody reads; until it says that there is none, in its time, and then there is none. */
#include "../sock.h"

#define TURNS	10	/* there and back, before */
#define LITTLE	512
#define MS	50

static void server(int fd)
{
	static uint8_t b[LITTLE];
	uint64_t total;

	t_wake(fd, false, TURNS);
	t_sync();
	t_get(&total, sizeof(total));
	for (uint64_t at = 0; at < total; at += LITTLE) {
		must(recv_all(fd, b, LITTLE) == LITTLE);
		t_same(b, LITTLE, at, 4);
	}
	want_eof(fd);
	close(fd);
}

static void client(int fd)
{
	static uint8_t b[LITTLE];
	uint64_t total = 0;
	long begin;

	t_wake(fd, true, TURNS);
	t_sync();
	set_nonblock(fd, true);
	for (begin = t_ms(); t_poll(fd, POLLOUT, MS); begin = t_ms()) {
		t_fill(b, LITTLE, total, 4);
		must(send(fd, b, LITTLE, MSG_NOSIGNAL) == LITTLE);
		total += LITTLE;
	}
	say("in time: %s", t_ms() - begin >= MS - 1 ? "yes" : "no");
	must(total >= 16 * LITTLE);
	t_put(&total, sizeof(total));
	say_poll("poll", t_poll(fd, POLLOUT, T_WAIT_MS));
	close(fd);
}

SOCK_PAIR(server, client)
