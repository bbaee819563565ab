// SPDX-License-Identifier: MIT
/* An entry that waits for nothing, with octets unread: epoll_wait() comes back when its time is over, and sleeps until then; of the end it is told. */
#include <sys/epoll.h>

#include "../sock.h"

#define SIZE	400000u
#define TURNS	10
#define MS	20

static double used(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int waits(int ep, int ms)
{
	struct epoll_event e = { 0 };

	return (int)ok(epoll_wait(ep, &e, 1, ms)) ? (int)e.events : 0;
}

static void server(int fd)
{
	int ep = (int)ok(epoll_create1(0)), came = 0, late;
	struct epoll_event e = { .events = EPOLLIN };
	double wall, cpu;
	char c;

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	say_poll("for octets", waits(ep, -1));
	must(recv(fd, &c, 1, 0) == 1);
	e.events = 0;
	ok(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	wall = used(CLOCK_MONOTONIC);
	cpu = used(CLOCK_THREAD_CPUTIME_ID);
	for (int i = 0; i < TURNS; i++)		/* more comes meanwhile */
		came |= waits(ep, MS);
	wall = used(CLOCK_MONOTONIC) - wall;
	cpu = used(CLOCK_THREAD_CPUTIME_ID) - cpu;
	say_poll("for nothing", came);
	say("asleep %d", cpu < wall / 2);
	say_poll("at once", waits(ep, 0));
	e.events = EPOLLIN;
	ok(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	say_poll("for octets", waits(ep, -1));
	recv_pattern(fd, SIZE - 1, 65536, 3);
	want_eof(fd);
	e.events = 0;
	ok(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	say_poll("one end is not both", waits(ep, MS));
	ok(shutdown(fd, SHUT_WR));
	for (late = 0; !(came = waits(ep, 1000)) && late < 20; late++)
		;
	say_poll("both ends", came);
	close(fd);
	close(ep);
}

static void client(int fd)
{
	send_all(fd, "x", 1);
	send_pattern(fd, SIZE - 1, 65536, 3);
	ok(shutdown(fd, SHUT_WR));
	want_eof(fd);
	close(fd);
	say("sent");
}

SOCK_PAIR(server, client)
