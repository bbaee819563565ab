// SPDX-License-Identifier: MIT
/* A connection in an epoll set in an epoll set, and the outer set in poll(). */
#include "../sock.h"

static void server(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = 1 };
	int in = (int)ok(epoll_create1(0)), out = (int)ok(epoll_create1(0));

	ok(epoll_ctl(in, EPOLL_CTL_ADD, fd, &ev));
	ev = (struct epoll_event){ .events = EPOLLIN, .data.u32 = 2 };
	step("ADD a set", epoll_ctl(out, EPOLL_CTL_ADD, in, &ev));
	step("nothing", epoll_wait(out, &ev, 1, 20));
	t_sync();
	say_poll("poll of the outer set", t_poll(out, POLLIN, T_WAIT_MS));
	step("outer", epoll_wait(out, &ev, 1, T_WAIT_MS));
	must(ev.data.u32 == 2);
	step("inner", epoll_wait(in, &ev, 1, T_WAIT_MS));
	must(ev.data.u32 == 1);
	want_str(fd, "x");
	step("outer", epoll_wait(out, &ev, 1, 20));
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
