// SPDX-License-Identifier: MIT
/* All is full before the other end reads for the first time, and then only a little: it is not writable, nor for poll or epoll, until the rest is read. */
#include "../sock.h"

#define TURNS	20
#define LITTLE	512
#define LIES	1000

static void server(int fd)
{
	static uint8_t b[LITTLE];
	uint64_t total;

	t_sync();
	for (uint64_t i = 0; i < TURNS; i++) {
		must(recv_all(fd, b, LITTLE) == LITTLE);
		t_same(b, LITTLE, i * LITTLE, 4);
		t_sync();
	}
	t_get(&total, sizeof(total));
	t_sync();
	for (uint64_t at = TURNS * LITTLE; at < total; at += LITTLE) {
		size_t n = total - at < LITTLE ? (size_t)(total - at) : LITTLE;

		must(recv_all(fd, b, n) == n);
		t_same(b, n, at, 4);
	}
	want_str(fd, "after");
	want_eof(fd);
	close(fd);
}

/*
 * Buffers between the two ends go on taking octets for a while, on a busy machine for a long one: full means not writable for so long. *lies: how often in
 * a row it was said to be, and took nothing.
 */
static uint64_t fill(int fd, uint64_t total, int ms, int *lies)
{
	static uint8_t b[8192];

	for (int quiet = 0; quiet < ms && *lies < LIES; ) {
		ssize_t r;

		t_fill(b, sizeof(b), total, 4);
		r = send(fd, b, sizeof(b), MSG_NOSIGNAL);
		if (r > 0) {
			total += (uint64_t)r;
			quiet = *lies = 0;
			continue;
		}
		must(r == -1 && errno == EAGAIN);
		if (t_poll(fd, POLLOUT, 50)) {
			quiet = 0;
			++*lies;
		} else {
			quiet += 50;
		}
	}
	return total;
}

static void client(int fd)
{
	struct epoll_event ev = { .events = EPOLLOUT };
	uint64_t total;
	int ep, lies = 0;

	set_nonblock(fd, true);
	total = fill(fd, 0, 200, &lies);
	t_sync();
	for (int i = 0; i < TURNS; i++) {
		t_poll(fd, POLLOUT, 1);
		t_sync();
	}
	ep = (int)ok(epoll_create1(EPOLL_CLOEXEC));
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	do
		total = fill(fd, total, 400, &lies);
	while (lies < LIES && epoll_wait(ep, &ev, 1, 100));
	say("full: %d", lies < LIES);
	t_put(&total, sizeof(total));
	t_sync();
	say("room: %d", epoll_wait(ep, &ev, 1, T_WAIT_MS));
	say_poll("poll", t_poll(fd, POLLOUT, T_WAIT_MS));
	set_nonblock(fd, false);
	send_str(fd, "after");
	close(ep);
	close(fd);
}

SOCK_PAIR(server, client)
