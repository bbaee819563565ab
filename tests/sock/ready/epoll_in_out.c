// SPDX-License-Identifier: MIT
/*
 * A client that registers for what it wants next, and takes it out of the set when it has it, as event loops do; what comes while it is out is nobody's
 * event, and stands when it is in again; a second set, and one that is polled.
 */
#include "../sock.h"

#define TURNS 300

static void in(int ep, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.fd = fd };

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
}

static void out(int ep, int fd)
{
	ok(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
}

static void event(const char *what, int ep, int fd, uint32_t events)
{
	struct epoll_event ev[2];

	must(epoll_wait(ep, ev, 2, T_WAIT_MS) == 1 && ev[0].data.fd == fd);
	if (ev[0].events != events)
		say("%s: event %#x", what, ev[0].events);
}

static void server(int fd)
{
	char b[16];

	for (int i = 0; i < TURNS; i++) {
		must(recv(fd, b, 1, 0) == 1);
		must(send(fd, b, 1, 0) == 1);
	}
	for (int i = 0; i < 3; i++) {
		t_sync();
		send_str(fd, "x");
		t_sync();
	}
	t_sync();
	close(fd);
}

static void client(int fd)
{
	int ep = (int)ok(epoll_create1(EPOLL_CLOEXEC)), other = (int)ok(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd p = { .fd = ep, .events = POLLIN };
	char b[4];

	for (int i = 0; i < TURNS; i++) {
		in(ep, fd, EPOLLOUT);
		event("turn", ep, fd, EPOLLOUT);
		must(send(fd, "a", 1, 0) == 1);
		out(ep, fd);
		in(ep, fd, EPOLLIN);
		event("turn", ep, fd, EPOLLIN);
		must(recv(fd, b, sizeof(b), 0) == 1);
		ev.events = i % 2 ? EPOLLIN | EPOLLOUT : EPOLLIN;
		ok(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev));
		out(ep, fd);
		step("out", epoll_wait(ep, &ev, 1, 0));
	}
	for (int i = 0; i < 3; i++) {	/* it comes while it is out */
		t_sync();
		t_until(fd, POLLIN);
		step("polled", poll(&p, 1, 0));
		step("out", epoll_wait(ep, &ev, 1, 20));
		step("MOD", epoll_ctl(ep, EPOLL_CTL_MOD, fd, &ev));
		step("DEL", epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
		if (i == 1) {
			in(other, fd, EPOLLIN);
			event("other", other, fd, EPOLLIN);
			out(other, fd);
		}
		in(ep, fd, EPOLLIN | (i == 2 ? EPOLLET : 0));
		step("ADD", epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		event("in", ep, fd, EPOLLIN);
		want_str(fd, "x");
		step("read", epoll_wait(ep, &ev, 1, 0));
		step("polled", poll(&p, 1, 0));
		out(ep, fd);
		t_sync();
	}
	in(ep, fd, EPOLLIN);
	out(ep, fd);
	t_sync();
	t_until(fd, POLLIN);		/* the end */
	step("end", epoll_wait(ep, &ev, 1, 0));
	close(fd);
	step("closed", epoll_wait(ep, &ev, 1, 0));
	close(ep);
	close(other);
}

SOCK_PAIR(server, client)
