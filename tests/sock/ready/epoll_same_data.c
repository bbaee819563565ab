// SPDX-License-Identifier: MIT
/* Two connections in one epoll set with the same data: a reset of one says nothing about the other. */
#include "../sock.h"

static void server(void)
{
	struct linger lg = { 1, 0 };
	int l = t_listen(0), calm = t_accept(l), broken = t_accept(l);

	t_sync();
	ok(setsockopt(broken, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	close(broken);
	t_sync();
	send_str(calm, "still here");
	ok(shutdown(calm, SHUT_WR));
	want_str(calm, "so am I");
	want_eof(calm);
	close(calm);
	close(l);
}

static void client(void)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 7 };
	struct sockaddr_storage ss;
	int ep = (int)ok(epoll_create1(0)), calm, broken, n;
	char b[16];

	t_peer(&ss);
	calm = t_connect_to(&ss);
	broken = t_connect_to(&ss);
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, calm, &ev));
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, broken, &ev));
	t_sync();
	n = epoll_wait(ep, &ev, 1, T_WAIT_MS);
	say("events %d data %d", n, (int)ev.data.u64);
	say_poll("of the broken one", (int)ev.events);
	step("broken", recv(broken, b, sizeof(b), 0));
	say_poll("calm", t_poll(calm, POLLIN | POLLOUT | POLLRDHUP, 0));
	say("calm has error %d", get_int(calm, SOL_SOCKET, SO_ERROR));
	t_sync();
	want_str(calm, "still here");
	step("end of calm", recv(calm, b, sizeof(b), 0));
	send_str(calm, "so am I");
	close(calm);
	close(broken);
}

SOCK_ROLES(server, client)
