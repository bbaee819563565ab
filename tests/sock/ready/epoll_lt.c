// SPDX-License-Identifier: MIT
/* Level-triggered epoll: the event stands until the data is read; the data word is handed back; EPOLLOUT too. */
#include "../sock.h"

static void server(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 0xabcdef0123456789 };
	int ep = (int)ok(epoll_create1(EPOLL_CLOEXEC));

	step("ADD", epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	step("nothing", epoll_wait(ep, &ev, 1, 20));
	t_sync();
	for (int i = 0; i < 2; i++) {
		memset(&ev, 0, sizeof(ev));
		step("wait", epoll_wait(ep, &ev, 1, T_WAIT_MS));
		say_poll("event", (int)ev.events);
		must(ev.data.u64 == 0xabcdef0123456789);
		if (!i)
			want_str(fd, "a");
	}
	want_str(fd, "b");
	step("nothing", epoll_wait(ep, &ev, 1, 20));
	ev.events = EPOLLIN | EPOLLOUT;
	step("MOD", epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev));
	step("wait", epoll_wait(ep, &ev, 1, 0));
	say_poll("event", (int)ev.events);
	ev.events = 0;
	step("MOD 0", epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev));
	t_sync();
	t_until(fd, POLLIN);
	step("asked for nothing", epoll_wait(ep, &ev, 1, 20));
	close(fd);
	close(ep);
}

static void client(int fd)
{
	t_sync();
	send_str(fd, "ab");
	t_sync();
	send_str(fd, "c");
	t_until(fd, POLLIN);
	close(fd);
}

SOCK_PAIR(server, client)
