// SPDX-License-Identifier: MIT
/* EPOLLEXCLUSIVE on a listener in two sets and on a connection; MOD is refused. */
#include "../sock.h"

static void server(void)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLEXCLUSIVE };
	int l = t_listen(0), ep[2], fd;

	for (int i = 0; i < 2; i++) {
		ep[i] = (int)ok(epoll_create1(0));
		ev = (struct epoll_event){ .events = EPOLLIN | EPOLLEXCLUSIVE };
		step("ADD", epoll_ctl(ep[i], EPOLL_CTL_ADD, l, &ev));
	}
	t_sync();
	t_until(l, POLLIN);
	step("wait", epoll_wait(ep[0], &ev, 1, T_WAIT_MS));
	fd = t_accept(l);
	ev = (struct epoll_event){ .events = EPOLLIN | EPOLLEXCLUSIVE };
	step("ADD", epoll_ctl(ep[0], EPOLL_CTL_ADD, fd, &ev));
	ev = (struct epoll_event){ .events = EPOLLIN };
	step("MOD", epoll_ctl(ep[0], EPOLL_CTL_MOD, fd, &ev));
	t_sync();
	step("wait", epoll_wait(ep[0], &ev, 1, T_WAIT_MS));
	want_str(fd, "x");
	step("DEL", epoll_ctl(ep[0], EPOLL_CTL_DEL, fd, NULL));
	close(fd);
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd;

	t_peer(&ss);
	t_sync();
	fd = t_connect_to(&ss);
	t_sync();
	send_str(fd, "x");
	want_eof(fd);
	close(fd);
}

SOCK_ROLES(server, client)
