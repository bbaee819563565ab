// SPDX-License-Identifier: MIT
/* A closed fd leaves its epoll sets by itself; a new connection under the same number has no ghost events. */
#include "../sock.h"

static void server(void)
{
	int l = t_listen(0), a = t_accept(l), b;

	t_sync();
	want_eof(a);
	close(a);
	b = t_accept(l);
	send_str(b, "y");
	want_eof(b);
	close(b);
}

static void client(void)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT, .data.u32 = 1 };
	struct sockaddr_storage ss;
	int a, b, ep = (int)ok(epoll_create1(0));

	t_peer(&ss);
	a = t_connect_to(&ss);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, a, &ev));
	step("wait", epoll_wait(ep, &ev, 1, T_WAIT_MS));
	t_sync();
	close(a);
	step("after close", epoll_wait(ep, &ev, 1, 20));
	b = t_connect_to(&ss);
	say("same number %d", a == b);
	step("no ghost", epoll_wait(ep, &ev, 1, 20));
	step("MOD", epoll_ctl(ep, EPOLL_CTL_MOD, b, &ev));
	ev = (struct epoll_event){ .events = EPOLLIN, .data.u32 = 2 };
	step("ADD", epoll_ctl(ep, EPOLL_CTL_ADD, b, &ev));
	step("wait", epoll_wait(ep, &ev, 1, T_WAIT_MS));
	must(ev.data.u32 == 2);
	want_str(b, "y");
	close(b);
}

SOCK_ROLES(server, client)
