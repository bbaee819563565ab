// SPDX-License-Identifier: MIT
/* ppoll and pselect: with a signal mask, with a time, and many fds of different kinds at once. */
#include "../sock.h"

static volatile sig_atomic_t hits;

static void on_usr(int sig)
{
	hits++;
}

static void server(int fd)
{
	struct timespec ts = { 0, 30000000 }, lng = { 10, 0 };
	struct pollfd p[3] = { { .fd = fd, .events = POLLIN }, { .fd = -1 }, { .fd = 150, .events = POLLIN } };
	sigset_t block, none;
	fd_set r;

	signal(SIGUSR1, on_usr);
	sigemptyset(&none);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	ok(sigprocmask(SIG_BLOCK, &block, NULL));
	step("ppoll time", ppoll(p, 1, &ts, NULL));
	kill(getpid(), SIGUSR1);
	step("ppoll mask", ppoll(p, 1, &lng, &none));
	kill(getpid(), SIGUSR1);
	FD_ZERO(&r);
	FD_SET(fd, &r);
	step("pselect mask", pselect(fd + 1, &r, NULL, NULL, &lng, &none));
	say("hits %d", (int)hits);
	t_sync();
	step("ppoll data", ppoll(p, 1, &lng, NULL));
	say_poll("events", p[0].revents);
	step("poll three", poll(p, 3, 100));
	say_poll("negative fd", p[1].revents);
	say_poll("bad fd", p[2].revents);
	FD_ZERO(&r);
	FD_SET(fd, &r);
	step("pselect data", pselect(fd + 1, &r, NULL, NULL, &lng, NULL));
	want_str(fd, "x");
	close(fd);
}

static void client(int fd)
{
	t_sync();
	send_str(fd, "x");
	want_eof(fd);
	close(fd);
}

SOCK_PAIR(server, client)
