// SPDX-License-Identifier: MIT
/* A connection registered by raw system calls and waited for by libc's epoll_wait: no HUP for a peer's mere close. */
#include "../sock.h"

static int ep, conn;

static void ctl(const char *what, int op, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u64 = 0x1234567890abcdef };

	step(what, t_sys(SYS_epoll_ctl, ep, op, conn, &ev));
}

static void wait_and_say(const char *what, int ms)
{
	struct epoll_event ev[4];
	struct timespec a, b;
	int n;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	n = (int)ok(epoll_wait(ep, ev, 4, ms));
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	must((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 < 100);	/* it sleeps */
	must(n <= 1 && (!n || ev[0].data.u64 == 0x1234567890abcdef));
	say_poll(what, n ? (int)ev[0].events : 0);
}

static void server(int s)
{
	send_str(s, "x");
	t_sync();
	close(s);
}

static void client(int fd)
{
	conn = fd;
	ep = (int)ok(epoll_create1(0));
	ctl("add", EPOLL_CTL_ADD, EPOLLIN | EPOLLRDHUP);
	want_str(fd, "x");
	t_sync();
	t_until(fd, POLLRDHUP);
	wait_and_say("closed", T_WAIT_MS);
	wait_and_say("again", T_WAIT_MS);
	ctl("nothing to wait for", EPOLL_CTL_MOD, EPOLLPRI);
	wait_and_say("silence", 500);
	ctl("room", EPOLL_CTL_MOD, EPOLLOUT);
	wait_and_say("room", T_WAIT_MS);
	ctl("end of stream", EPOLL_CTL_MOD, EPOLLIN | EPOLLET);
	wait_and_say("edge", T_WAIT_MS);
	wait_and_say("no second", 100);
	ctl("del", EPOLL_CTL_DEL, 0);
	close(fd);
	close(ep);
}

SOCK_PAIR(server, client)
