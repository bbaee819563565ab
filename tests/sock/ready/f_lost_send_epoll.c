// SPDX-License-Identifier: MIT
/* A send to a peer that has closed makes its socket report ERR and HUP: level- and edge-triggered. */
#include "../sock.h"

static void server(int fd)
{
	t_sync();
	close(fd);
}

static void show(const char *what, int ep)
{
	struct epoll_event ev = { 0 };
	int n = epoll_wait(ep, &ev, 1, T_WAIT_MS);

	step(what, n);
	say_poll("\tevents", (int)ev.events);
}

static void client(int fd)
{
	struct epoll_event lt = { .events = EPOLLIN | EPOLLRDHUP }, et = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET }, ev;
	int level = (int)ok(epoll_create1(0)), edge = (int)ok(epoll_create1(0));

	t_sync();
	t_until(fd, POLLRDHUP);
	ok(epoll_ctl(level, EPOLL_CTL_ADD, fd, &lt));
	ok(epoll_ctl(edge, EPOLL_CTL_ADD, fd, &et));
	show("level", level);
	show("edge", edge);
	step("no second edge", epoll_wait(edge, &ev, 1, 20));
	step("send", send(fd, "x", 1, MSG_NOSIGNAL));
	t_until(fd, POLLERR | POLLHUP);
	show("level", level);
	show("edge", edge);
	step("send", send(fd, "x", 1, MSG_NOSIGNAL));
	show("level", level);
	close(level);
	close(edge);
	close(fd);
}

SOCK_PAIR(server, client)
