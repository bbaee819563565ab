// SPDX-License-Identifier: MIT
/* EPOLLET with EPOLLONESHOT and no other interest: the peer's close is no event and does not use up the one that own shutdown makes. */
#include "../sock.h"

static void server(int fd)
{
	t_sync();
	close(fd);
}

static void client(int fd)
{
	struct epoll_event ev = { .events = EPOLLET | EPOLLONESHOT };
	int ep = (int)ok(epoll_create1(0));

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	t_sync();
	t_until(fd, POLLRDHUP);
	step("after the peer's close", epoll_wait(ep, &ev, 1, 100));
	ok(shutdown(fd, SHUT_WR));
	step("after own shutdown", epoll_wait(ep, &ev, 1, 2000));
	say_poll("epoll", (int)ev.events);
	step("once", epoll_wait(ep, &ev, 1, 0));
	close(fd);
}

SOCK_PAIR(server, client)
