// SPDX-License-Identifier: MIT
/* Edge-triggered EPOLLOUT after a full buffer: exactly what event loops wait for. */
#include "../sock.h"

#define TOTAL (8u << 20)

static void server(int fd)
{
	t_sync();
	recv_pattern(fd, TOTAL, 10000, 5);
	want_eof(fd);
	close(fd);
	say("got everything");
}

static void client(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	static uint8_t b[16384];
	uint64_t pos = 0;
	int ep = (int)ok(epoll_create1(0)), synced = 0;

	set_nonblock(fd, true);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	while (pos < TOTAL) {
		size_t n = TOTAL - pos < sizeof(b) ? (size_t)(TOTAL - pos) : sizeof(b);
		ssize_t r;

		t_fill(b, n, pos, 5);
		r = send(fd, b, n, MSG_NOSIGNAL);
		if (r > 0) {
			pos += (uint64_t)r;
			continue;
		}
		must(r == -1 && errno == EAGAIN);
		if (!synced++)
			t_sync();
		do
			must(epoll_wait(ep, &ev, 1, T_WAIT_MS) == 1);
		while (!(ev.events & EPOLLOUT));
	}
	if (!synced)
		t_sync();
	close(fd);
	say("sent everything");
}

SOCK_PAIR(server, client)
