// SPDX-License-Identifier: MIT
/* The peer's close is no event for one who asked for none, and costs no spinning; its own shutdown then makes it POLLHUP. */
#include "../sock.h"

static void server(int fd)
{
	t_sync();
	close(fd);
}

static void *closes_half(void *arg)
{
	t_nap(30);
	ok(shutdown(*(int *)arg, SHUT_WR));
	return NULL;
}

static void client(int fd)
{
	struct pollfd p = { .fd = fd };
	struct timespec before, after;
	pthread_t t;

	t_sync();
	t_until(fd, POLLRDHUP);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
	step("poll for nothing", poll(&p, 1, 200));
	p.events = POLLPRI;
	step("poll for PRI", poll(&p, 1, 200));
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
	must((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 < 100);
	p.events = 0;
	must(!pthread_create(&t, NULL, closes_half, &fd));
	step("poll woken by own shutdown", poll(&p, 1, T_WAIT_MS));
	say_poll("poll", p.revents);
	pthread_join(t, NULL);
	close(fd);
}

SOCK_PAIR(server, client)
