// SPDX-License-Identifier: MIT
/* A connect that has completed and something else that is ready are in the same answer of epoll_wait, and each as often as it should. */
#include <sys/eventfd.h>

#include "../sock.h"

#define KINDS 3
static const uint32_t kinds[KINDS] = { 0, EPOLLET, EPOLLONESHOT };
static const char *const names[KINDS] = { "level", "edge", "once" };

static void server(void)
{
	int l = t_listen(0), fd[2 * KINDS];

	for (int i = 0; i < 2 * KINDS; i++)
		fd[i] = t_accept(l);
	t_sync();
	for (int i = 0; i < 2 * KINDS; i++)
		close(fd[i]);
	close(l);
}

static void wait_and_say(int ep, int max)
{
	struct epoll_event ev[8] = { 0 };
	char text[2][32] = { "", "" };
	int n = (int)ok(epoll_wait(ep, ev, max, 0));

	for (int i = 0; i < n; i++)
		snprintf(text[ev[i].data.u32 & 1], sizeof(text[0]), " %s %x", ev[i].data.u32 ? "connect" : "other", ev[i].events);
	say("%d:%s%s", n, text[0], text[1]);
}

static int one(const struct sockaddr_storage *ss, int kind, int max)
{
	int ep = (int)ok(epoll_create1(0)), other = (int)ok(eventfd(1, EFD_NONBLOCK)), fd;
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = 0 };
	struct pollfd p = { .events = POLLOUT };

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, other, &ev));
	p.fd = fd = (int)ok(socket(ss->ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0));
	ev = (struct epoll_event){ .events = EPOLLOUT | kinds[kind], .data.u32 = 1 };
	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	must(connect(fd, (const void *)ss, t_salen(ss)) == 0 || errno == EINPROGRESS);
	must(t_sys(SYS_ppoll, &p, 1, NULL, NULL, 8) == 1);	/* not seen by the library */
	say("%s, room for %d", names[kind], max);
	wait_and_say(ep, max);
	wait_and_say(ep, max);
	close(ep);
	close(other);
	return fd;
}

static void client(void)
{
	struct sockaddr_storage ss;
	int fd[2 * KINDS];

	t_peer(&ss);
	for (int i = 0; i < 2 * KINDS; i++)
		fd[i] = one(&ss, i / 2, i & 1 ? 2 : 8);
	t_sync();
	for (int i = 0; i < 2 * KINDS; i++)
		close(fd[i]);
}

SOCK_ROLES(server, client)
