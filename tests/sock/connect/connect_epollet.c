// SPDX-License-Identifier: MIT
/* Edge-triggered registration for everything before the connect, as event loops do it: OUT, then IN, then RDHUP. */
#include "../sock.h"

static void server(void)
{
	int fd = t_accept(t_listen(0));

	want_str(fd, "a");
	send_str(fd, "b");
	want_str(fd, "c");
	close(fd);
}

static int wait_for(int ep, uint32_t bit)
{
	struct epoll_event ev;

	for (;;) {
		must(epoll_wait(ep, &ev, 1, T_WAIT_MS) == 1);
		must(ev.data.u32 == 7);
		if (ev.events & bit)
			return (int)ev.events;
	}
}

static void client(void)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.u32 = 7 };
	struct sockaddr_storage ss;
	int fd, ep = (int)ok(epoll_create1(0));

	t_peer(&ss);
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
	step("connect", connect(fd, (void *)&ss, t_salen(&ss)));
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	wait_for(ep, EPOLLOUT);
	send_str(fd, "a");
	wait_for(ep, EPOLLIN);
	want_str(fd, "b");
	step("empty", recv(fd, &ev, 1, 0));
	send_str(fd, "c");
	wait_for(ep, EPOLLRDHUP);
	step("end", recv(fd, &ev, 1, 0));
	close(fd);
	step("closed fd leaves the set", epoll_wait(ep, &ev, 1, 20));
}

SOCK_ROLES(server, client)
