/* SPDX-License-Identifier: MIT */
/* The kill_*.c programs: what an application sees when an iwarpd is killed. IW_TEST_KILL is the pid; not for plain TCP. */
#ifndef TESTS_SOCK_KILL_H
#define TESTS_SOCK_KILL_H

#include "sock.h"

static unsigned long start_idle, start_all;

__attribute__((constructor)) static void kill_start(void)
{
	t_cpu(&start_idle, &start_all);
}

/* Kill the daemon; the time at which it was done. Without one to kill the test is skipped. */
static inline long kill_daemon(void)
{
	const char *p = getenv("IW_TEST_KILL");

	if (!p || !*p)
		exit(77);
	ok(kill(atoi(p), SIGKILL));
	return t_ms();
}

/* Both ends meet and only then the client kills: returns the time. */
static inline long kill_together(bool killer)
{
	long t;

	t_sync();
	if (killer)
		t = kill_daemon();
	else
		t = t_ms();
	return t;
}

/* Within a second. Where no CPU was idle it says nothing of us; then it must only come. */
static inline bool is_soon(long t)
{
	unsigned long idle, all;

	if (t_ms() - t < 1000)
		return true;
	t_cpu(&idle, &all);
	return (idle - start_idle) * 2 < all - start_all && t_ms() - t < T_WAIT_MS;
}
#define must_soon(t) must(is_soon(t))

/* One read that must be a reset: never an end of stream. */
static inline void want_reset(int fd)
{
	char c;
	ssize_t r = recv(fd, &c, 1, 0);

	if (r >= 0) {
		fprintf(stderr, "%s: recv gave %zd instead of ECONNRESET\n", t_role, r);
		t_fail("kill.h", __LINE__, "a truncated stream looks like a clean end");
	}
	step("recv", r);
}

#endif
