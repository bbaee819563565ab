// SPDX-License-Identifier: MIT
/* One connection in two epoll sets and under two duplicated numbers in one set; epoll_pwait and epoll_pwait2. */
#include "../sock.h"

static void server(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = 1 }, evs[4];
	int a = (int)ok(epoll_create1(0)), b = (int)ok(epoll_create(1)), d = (int)ok(dup(fd));
	struct timespec ts = { 10, 0 };
	sigset_t none;

	sigemptyset(&none);
	step("ADD a", epoll_ctl(a, EPOLL_CTL_ADD, fd, &ev));
	step("ADD b", epoll_ctl(b, EPOLL_CTL_ADD, fd, &ev));
	ev.data.u32 = 2;
	step("ADD dup", epoll_ctl(a, EPOLL_CTL_ADD, d, &ev));
	t_sync();
	t_readable(fd, 1);
	step("pwait a", epoll_pwait(a, evs, 4, T_WAIT_MS, &none));
	step("pwait2 b", epoll_pwait2(b, evs, 4, &ts, NULL));
	close(d);
	want_str(fd, "x");
	close(fd);
}

static void client(int fd)
{
	t_sync();
	send_str(fd, "x");
	want_eof(fd);
	close(fd);
}

SOCK_PAIR(server, client)
