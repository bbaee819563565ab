// SPDX-License-Identifier: MIT
/* EPOLLONESHOT: one event, then silence until MOD. */
#include "../sock.h"

static void server(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT };
	int ep = (int)ok(epoll_create1(0));

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	t_sync();
	step("wait", epoll_wait(ep, &ev, 1, T_WAIT_MS));
	say_poll("event", (int)ev.events);
	step("silent", epoll_wait(ep, &ev, 1, 20));
	want_str(fd, "x");
	t_sync();
	t_readable(fd, 1);
	step("silent", epoll_wait(ep, &ev, 1, 20));
	ev.events = EPOLLIN | EPOLLONESHOT | EPOLLET;
	step("MOD", epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev));
	step("wait", epoll_wait(ep, &ev, 1, T_WAIT_MS));
	want_str(fd, "y");
	ev.events = EPOLLIN | EPOLLRDHUP | EPOLLONESHOT;
	ok(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev));
	t_sync();
	step("wait", epoll_wait(ep, &ev, 1, T_WAIT_MS));
	say("RDHUP %d", !!(ev.events & EPOLLRDHUP));
	close(fd);
}

static void client(int fd)
{
	t_sync();
	send_str(fd, "x");
	t_sync();
	send_str(fd, "y");
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
