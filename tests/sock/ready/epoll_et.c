// SPDX-License-Identifier: MIT
/* Edge-triggered epoll: one event per arrival, none while nothing new comes. */
#include "../sock.h"

static void server(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int ep = (int)ok(epoll_create1(0));

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	for (int i = 0; i < 3; i++) {
		t_sync();
		t_readable(fd, 4 * (i + 1));
		step("wait", epoll_wait(ep, &ev, 1, T_WAIT_MS));
		say_poll("event", (int)ev.events);
		step("again", epoll_wait(ep, &ev, 1, 20));
	}
	want_str(fd, "aaaaaaaaaaaa");
	step("empty", recv(fd, &ev, 1, MSG_DONTWAIT));
	t_sync();
	step("wait", epoll_wait(ep, &ev, 1, T_WAIT_MS));
	say_poll("event", (int)ev.events);
	want_eof(fd);
	ev.events = EPOLLIN | EPOLLET;
	ok(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev));
	step("MOD arms again", epoll_wait(ep, &ev, 1, 0));
	close(fd);
}

static void client(int fd)
{
	for (int i = 0; i < 3; i++) {
		t_sync();
		must(send(fd, "aaaa", 4, 0) == 4);
	}
	t_sync();
	ok(shutdown(fd, SHUT_WR));
	want_eof(fd);
	close(fd);
}

SOCK_PAIR(server, client)
