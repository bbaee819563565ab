// SPDX-License-Identifier: MIT
/* Pollers at both ends see ERR or HUP within a second of a daemon's death, and recv gives ECONNRESET. */
#include "../kill.h"

static void both(int fd, bool killer)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int ep = (int)ok(epoll_create1(0));
	long t;

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	t = kill_together(killer);
	must(epoll_wait(ep, &ev, 1, T_WAIT_MS) == 1);
	must(t_poll(fd, POLLIN, T_WAIT_MS) & (POLLIN | POLLERR | POLLHUP));
	must_soon(t + 100);
	set_nonblock(fd, true);
	want_reset(fd);
	close(fd);
}

static void server(int fd)
{
	kill_ready(fd, false);
	want_str(fd, "hello");
	both(fd, false);
}

static void client(int fd)
{
	kill_ready(fd, true);
	send_str(fd, "hello");
	both(fd, true);
}

SOCK_PAIR(server, client)
