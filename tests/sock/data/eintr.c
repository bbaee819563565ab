// SPDX-License-Identifier: MIT
/* Signals without SA_RESTART interrupt accept, recv, send, poll and epoll_wait. */
#include "../sock.h"

static void on_alarm(int sig)
{
}

static void ticks(int ms)
{
	struct itimerval it = { { 0, ms * 1000 }, { 0, ms * 1000 } };
	struct sigaction sa = { .sa_handler = on_alarm };

	ok(sigaction(SIGALRM, &sa, NULL));
	ok(setitimer(ITIMER_REAL, &it, NULL));
}

static void server(void)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd p = { .events = POLLIN };
	int l = t_listen(0), fd, ep = (int)ok(epoll_create1(0));
	char b[4];

	ticks(20);
	step("accept", accept(l, NULL, NULL));
	ticks(0);
	t_sync();
	fd = t_accept(l);
	ticks(20);
	step("recv", recv(fd, b, 4, 0));
	step("read", read(fd, b, 4));
	p.fd = fd;
	step("poll", poll(&p, 1, 5000));
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	step("epoll_wait", epoll_wait(ep, &ev, 1, 5000));
	ticks(0);
	t_sync();
	t_sync();
	close(fd);
}

static void client(void)
{
	static char b[1 << 20];
	struct sockaddr_storage ss;
	ssize_t r;
	int fd;

	t_peer(&ss);
	t_sync();
	fd = t_connect_to(&ss);
	t_sync();
	ticks(20);
	do
		r = send(fd, b, sizeof(b), 0);
	while (r > 0);
	step("send", r);
	ticks(0);
	t_sync();
	close(fd);
}

SOCK_ROLES(server, client)
