// SPDX-License-Identifier: MIT
/* Registered with epoll before a non-blocking connect: one EPOLLOUT, the data word is kept, MOD and DEL work after. */
#include "../sock.h"

static void server(void)
{
	int fd = t_accept(t_listen(0));

	want_str(fd, "go");
	send_str(fd, "x");
	want_eof(fd);
	close(fd);
}

static void client(void)
{
	struct epoll_event ev = { .events = EPOLLOUT, .data.u64 = 0x1122334455667788 };
	struct sockaddr_storage ss;
	int fd, ep = (int)ok(epoll_create1(EPOLL_CLOEXEC));

	t_peer(&ss);
	fd = (int)ok(socket(ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	step("connect", connect(fd, (void *)&ss, t_salen(&ss)));
	memset(&ev, 0, sizeof(ev));
	for (;;) {	/* a socket never connected reports OUT|HUP; that may be seen first */
		must(epoll_wait(ep, &ev, 1, T_WAIT_MS) == 1);
		if (!(ev.events & EPOLLHUP))
			break;
	}
	say_poll("epoll", (int)ev.events);
	must(ev.data.u64 == 0x1122334455667788);
	say("SO_ERROR %d", get_int(fd, SOL_SOCKET, SO_ERROR));
	ev.events = EPOLLIN;
	ev.data.u64 = 42;
	step("MOD", epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev));
	step("nothing yet", epoll_wait(ep, &ev, 1, 0));
	send_str(fd, "go");
	step("wait", epoll_wait(ep, &ev, 1, T_WAIT_MS));
	must(ev.data.u64 == 42);
	say_poll("epoll", (int)ev.events);
	step("ADD again", epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	step("DEL", epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
	step("DEL again", epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
	step("no event", epoll_wait(ep, &ev, 1, 20));
	want_str(fd, "x");
	close(fd);
}

SOCK_ROLES(server, client)
