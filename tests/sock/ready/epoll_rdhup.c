// SPDX-License-Identifier: MIT
/* EPOLLRDHUP, EPOLLHUP and EPOLLERR: half-close, full close, reset. */
#include "../sock.h"

static void server(void)
{
	int l = t_listen(0);

	for (int i = 0; i < 3; i++) {
		struct linger lg = { 1, 0 };
		int fd = t_accept(l);

		want_str(fd, "x");
		if (i == 2)
			ok(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		if (i == 0)
			ok(shutdown(fd, SHUT_WR));
		else
			close(fd);
		t_sync();
		if (i == 0)
			close(fd);
	}
}

static void client(void)
{
	struct sockaddr_storage ss;

	t_peer(&ss);
	for (int i = 0; i < 3; i++) {
		struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP };
		int fd = t_connect_to(&ss), ep = (int)ok(epoll_create1(0));

		ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		send_str(fd, "x");
		step("wait", epoll_wait(ep, &ev, 1, T_WAIT_MS));
		if (i < 2)
			say_poll("event", (int)ev.events & (EPOLLIN | EPOLLRDHUP | EPOLLERR));
		else
			say_poll("event", t_until(fd, POLLERR | POLLHUP));
		t_sync();
		close(fd);
	}
}

SOCK_ROLES(server, client)
