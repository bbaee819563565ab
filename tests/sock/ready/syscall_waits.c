// SPDX-License-Identifier: MIT
/* Waits made by syscall() are told of what has come by any way, and how much of the time is left. */
#include "../sock.h"

#define TURNS	60
#define LONG_S	50

struct kernel_sigset {
	const uint64_t *set;
	size_t size;
};

static bool some_left(const struct timespec *t)
{
	return t->tv_sec >= 0 && (t->tv_sec < LONG_S || !t->tv_nsec);
}

/* Until fd can be read. */
static void wait_for(int fd, int ep, int how)
{
	struct timespec t = { LONG_S, 0 };
	struct epoll_event ev = { 0 };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t mask = 1u << (SIGUSR1 - 1);
	struct kernel_sigset s = { &mask, sizeof(mask) };
	fd_set r;

	FD_ZERO(&r);
	FD_SET(fd, &r);
	switch (how) {
	case 0:
		must(syscall(SYS_ppoll, &p, 1, &t, &mask, sizeof(mask)) == 1 && p.revents == POLLIN && some_left(&t));
		return;
	case 1:
		must(syscall(SYS_pselect6, fd + 1, &r, NULL, NULL, &t, &s) == 1 && FD_ISSET(fd, &r) && some_left(&t));
		return;
	case 2:
		must(syscall(SYS_epoll_pwait, ep, &ev, 1, LONG_S * 1000, &mask, sizeof(mask)) == 1 && ev.events == EPOLLIN && ev.data.fd == fd);
		return;
	case 3:
		must(syscall(SYS_epoll_pwait2, ep, &ev, 1, &t, NULL, sizeof(mask)) == 1 && ev.events == EPOLLIN && ev.data.fd == fd);
		return;
#ifdef SYS_poll
	case 4:
		must(syscall(SYS_poll, &p, 1, LONG_S * 1000) == 1 && p.revents == POLLIN);
		return;
	case 5:
		must(syscall(SYS_epoll_wait, ep, &ev, 1, LONG_S * 1000) == 1 && ev.events == EPOLLIN && ev.data.fd == fd);
		return;
#endif
	default:
		must(syscall(SYS_ppoll, &p, 1, NULL, NULL, 0L) == 1 && p.revents == POLLIN);
	}
}
#define WAITS	7

static void server(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };
	int ep = (int)ok(syscall(SYS_epoll_create1, EPOLL_CLOEXEC));
	struct timespec t = { 0, 1000000 };
	struct pollfd p = { .fd = fd, .events = POLLIN };
	uint64_t mask = 0;
	char b[8];

	ok(syscall(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, fd, &ev));
	for (int i = 0; i < TURNS; i++) {
		if (i % 3 == 2)
			t_sync();
		wait_for(fd, ep, i % WAITS);
		must(recv(fd, b, sizeof(b), 0) == 4);
		must(send(fd, b, 4, 0) == 4);
	}
	step("none", syscall(SYS_ppoll, &p, 1, &t, NULL, 0L));
	say("left %ld.%09ld", (long)t.tv_sec, t.tv_nsec);
	t = (struct timespec){ 0, 1000000001 };
	step("bad time", syscall(SYS_ppoll, &p, 1, &t, NULL, 0L));
	step("bad mask", syscall(SYS_ppoll, &p, 1, NULL, &mask, 128L));
	step("bad mask", syscall(SYS_epoll_pwait, ep, &ev, 1, 0, &mask, 128L));
	step("bad mask", syscall(SYS_pselect6, 0, NULL, NULL, NULL, NULL, 1L));
	step("bad set", syscall(SYS_epoll_pwait, ep, &ev, 0, 0, NULL, 8L));
	close(ep);
	t_sync();
	close(fd);
}

static void client(int fd)
{
	char b[8];

	for (int i = 0; i < TURNS; i++) {
		if (i % 3 == 2) {
			t_sync();
			t_nap(1);
		}
		must(send(fd, "ping", 4, 0) == 4);
		must(recv_all(fd, b, 4) == 4);
	}
	t_sync();
	close(fd);
}

SOCK_PAIR(server, client)
