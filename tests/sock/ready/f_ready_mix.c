// SPDX-License-Identifier: MIT
/* Sends, receives and changes of epoll entries by chance, everything settled before each look: what epoll (level, edge, one-shot), poll and select say. */
#include "../sock.h"

#define STEPS	220
#define SETS	5

static uint64_t seed = 88172645463325252u;
static uint8_t buf[4096];
static const uint32_t kinds[SETS] = { EPOLLIN, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, EPOLLIN | EPOLLET, EPOLLIN | EPOLLOUT | EPOLLONESHOT, EPOLLRDHUP | EPOLLET };
static int ep[SETS];
static unsigned int left;
static int told[SETS];
static bool over;

static unsigned int rnd(unsigned int n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned int)(seed >> 33) % n;
}

/* The end is an edge when it is said to the other end, and once more when that has acknowledged it, which may be later. */
static bool said_at_the_end(int i, int events)
{
	bool again = (kinds[i] & EPOLLET) && told[i] == events;

	told[i] = again ? 0 : events;
	return again;
}

static void looks(int fd, int step)
{
	struct timeval none = { 0, 0 };
	struct epoll_event ev[4];
	fd_set r, w, e;
	char name[64];

	for (int i = 0; i < SETS; i++) {
		int n = (int)ok(epoll_wait(ep[i], ev, 4, 0));

		must(n <= 1);
		if (n && over && said_at_the_end(i, (int)ev[0].events))
			continue;
		snprintf(name, sizeof(name), "%d: set %d", step, i);
		if (n)
			say_poll(name, (int)ev[0].events);
	}
	snprintf(name, sizeof(name), "%d: poll", step);
	say_poll(name, t_poll(fd, POLLIN | POLLOUT | POLLRDHUP, 0));
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&e);
	FD_SET(fd, &r);
	FD_SET(fd, &w);
	FD_SET(fd, &e);
	say("%d: select %d", step, (int)ok(select(fd + 1, &r, &w, &e, &none)));
}

/* An entry is changed, or goes and comes back. */
static void change(int fd)
{
	int i = (int)rnd(SETS);
	struct epoll_event ev = { .events = (kinds[i] & ~(rnd(3) ? 0u : (uint32_t)EPOLLIN)) | (rnd(2) ? (uint32_t)EPOLLOUT : 0) };

	if (!rnd(3))
		ok(epoll_ctl(ep[i], EPOLL_CTL_DEL, fd, NULL));
	if (epoll_ctl(ep[i], EPOLL_CTL_MOD, fd, &ev))
		ok(epoll_ctl(ep[i], EPOLL_CTL_ADD, fd, &ev));
}

static void server(int fd)
{
	for (int i = 0; i < SETS; i++) {
		struct epoll_event ev = { .events = kinds[i] };

		ep[i] = (int)ok(epoll_create1(EPOLL_CLOEXEC));
		ok(epoll_ctl(ep[i], EPOLL_CTL_ADD, fd, &ev));
	}
	for (int i = 0; i < STEPS; i++) {
		unsigned int n;

		t_get(&n, sizeof(n));
		left += n;
		t_readable(fd, (int)left);
		looks(fd, i);
		if (rnd(2)) {
			ssize_t k = recv(fd, buf, 1 + rnd(rnd(2) ? 100 : sizeof(buf)), MSG_DONTWAIT | (rnd(4) ? 0 : MSG_PEEK));

			say("%d: recv %s", i, k < 0 ? t_errname(errno) : "");
			ok(ioctl(fd, FIONREAD, &left));
		}
		if (!rnd(4))
			change(fd);
		if (!rnd(4))
			send_str(fd, "back");
		if (rnd(2))
			looks(fd, i);
		t_sync();
	}
	t_sync();
	t_until(fd, POLLRDHUP);
	looks(fd, STEPS);
	looks(fd, STEPS);
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	looks(fd, STEPS);
	over = true;
	ok(shutdown(fd, SHUT_WR));
	t_until(fd, POLLHUP);
	looks(fd, STEPS);
	looks(fd, STEPS);
	close(fd);
}

static void client(int fd)
{
	seed = 4711;
	ok(set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1));	/* the other end waits for what is sent, and acknowledges late */
	for (int i = 0; i < STEPS; i++) {
		unsigned int n = rnd(3) ? 1 + rnd(rnd(4) ? 50 : 1400) : 0;

		if (n)
			send_all(fd, buf, n);
		t_put(&n, sizeof(n));
		t_sync();
		while (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0)
			;
	}
	ok(shutdown(fd, SHUT_WR));
	t_sync();
	while (recv(fd, buf, sizeof(buf), 0) > 0)
		;
	close(fd);
}

SOCK_PAIR(server, client)
