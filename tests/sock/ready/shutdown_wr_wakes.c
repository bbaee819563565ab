// SPDX-License-Identifier: MIT
/* Who waits for room on a full connection is woken when another thread shuts it for writing: by poll, select and epoll, and finds room from then on. */
#include "../sock.h"

enum { POLL, PPOLL, SELECT, PSELECT, LEVEL, EDGE, ONCE, LATE, WAYS };
static const char *const names[WAYS] = { "poll", "ppoll", "select", "pselect", "epoll", "epoll, edge", "epoll, once", "epoll, added afterwards" };
static int conn;
static pid_t waiter;

static void server(void)
{
	int l = t_listen(0);

	int fd[WAYS];

	for (int i = 0; i < WAYS; i++)
		fd[i] = t_accept(l);
	for (int i = 0; i < WAYS; i++) {
		t_sync();	/* nothing is read until the other one is through */
		close(fd[i]);
	}
	close(l);
}

static void *shuts(void *arg)
{
	t_asleep(waiter);
	ok(shutdown(conn, SHUT_WR));
	return arg;
}

/* Until all of them stay full. */
static void fill(const int *fd)
{
	static char b[65536];
	struct pollfd p[WAYS];

	for (int i = 0; i < WAYS; i++) {
		set_nonblock(fd[i], true);
		p[i] = (struct pollfd){ .fd = fd[i], .events = POLLOUT };
	}
	do {
		for (int i = 0; i < WAYS; i++)
			while (send(fd[i], b, sizeof(b), MSG_NOSIGNAL) > 0)
				;
	} while (ok(poll(p, WAYS, 500)));
}

static int by_select(int way)
{
	struct timeval tv = { T_WAIT_MS / 1000, 0 };
	struct timespec ts = { T_WAIT_MS / 1000, 0 };
	fd_set r, w;
	int n;

	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_SET(conn, &r);
	FD_SET(conn, &w);
	n = way == SELECT ? select(conn + 1, &r, &w, NULL, &tv) : pselect(conn + 1, &r, &w, NULL, &ts, NULL);
	must(n == 1 && FD_ISSET(conn, &w) && !FD_ISSET(conn, &r));
	return n;
}

static int by_poll(int way)
{
	struct timespec ts = { T_WAIT_MS / 1000, 0 };
	struct pollfd p = { conn, POLLIN | POLLOUT, 0 };
	int n = way == POLL ? poll(&p, 1, T_WAIT_MS) : ppoll(&p, 1, &ts, NULL);

	must(n == 1 && p.revents == POLLOUT);
	return n;
}

static int epoll_made(int way)
{
	static const uint32_t more[WAYS] = { [EDGE] = EPOLLET, [ONCE] = EPOLLONESHOT };
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | more[way], .data.u32 = 7 };
	int ep = (int)ok(epoll_create1(0));

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, conn, &ev));
	return ep;
}

static int by_epoll(int ep, int ms)
{
	struct epoll_event ev[4];
	int n = (int)ok(epoll_wait(ep, ev, 4, ms));

	must(!n || (ev[0].data.u32 == 7 && ev[0].events == EPOLLOUT));
	return n;
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd[WAYS];
	pthread_t t;

	waiter = (pid_t)t_sys(SYS_gettid);
	t_peer(&ss);
	for (int way = 0; way < WAYS; way++)
		fd[way] = t_connect_to(&ss);
	fill(fd);
	for (int way = 0; way < WAYS; way++) {
		int ep = -1, n = 0;

		conn = fd[way];
		if (way >= LEVEL && way != LATE)
			ep = epoll_made(way);
		must(!pthread_create(&t, NULL, shuts, NULL));
		if (way <= PPOLL)
			n = by_poll(way);
		else if (way <= PSELECT)
			n = by_select(way);
		else if (way != LATE)
			n = by_epoll(ep, T_WAIT_MS);
		pthread_join(t, NULL);
		say("%s: %d", names[way], n);
		if (way == LATE)
			ep = epoll_made(way);
		if (ep >= 0) {
			say("again: %d", by_epoll(ep, 0));
			ok(epoll_ctl(ep, EPOLL_CTL_MOD, conn, &(struct epoll_event){ .events = EPOLLOUT, .data.u32 = 7 }));
			say("changed: %d", by_epoll(ep, 0));
			ok(epoll_ctl(ep, EPOLL_CTL_MOD, conn, &(struct epoll_event){ .events = EPOLLIN, .data.u32 = 7 }));
			say("not asked: %d", by_epoll(ep, 0));
			ok(epoll_ctl(ep, EPOLL_CTL_MOD, conn, &(struct epoll_event){ .events = EPOLLOUT, .data.u32 = 7 }));
			if (way != LEVEL)
				ok(epoll_ctl(ep, EPOLL_CTL_DEL, conn, NULL));
			say("%s: %d", way == LEVEL ? "still" : "taken out", by_epoll(ep, 0));
		}
		by_poll(POLL);
		by_select(SELECT);
		step("send", send(conn, "x", 1, MSG_NOSIGNAL));
		close(conn);
		if (ep >= 0)
			say("closed: %d", by_epoll(ep, 0));
		close(ep);
		t_sync();
	}
}

SOCK_ROLES(server, client)
