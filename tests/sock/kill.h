/* SPDX-License-Identifier: MIT */
/* The kill_*.c programs: what an application sees when an iwarpd is killed, by the pid in IW_TEST_KILL; not for plain TCP. And what is soon. */
#ifndef TESTS_SOCK_KILL_H
#define TESTS_SOCK_KILL_H

#include "sock.h"

#include <sys/un.h>

static unsigned long start_idle, start_all;

__attribute__((constructor)) static void kill_start(void)
{
	t_cpu(&start_idle, &start_all);
}

/* The pid of the daemon to kill. Without one the test is skipped. */
static inline pid_t kill_whom(void)
{
	const char *p = getenv("IW_TEST_KILL");

	if (!p || !*p)
		exit(77);
	return (pid_t)atoi(p);
}

/* Kill the daemon; the time at which it was done. */
static inline long kill_daemon(void)
{
	ok(kill(kill_whom(), SIGKILL));
	return t_ms();
}

/* Which stream's carrier it is, by its name, which the library hides; 0: it is a TCP socket. */
static inline uint64_t kill_stream(int fd)
{
	struct sockaddr_un sa = { 0 };
	socklen_t len = sizeof(sa);

	ok(t_sys(SYS_getsockname, fd, &sa, &len));
	must(sa.sun_family != AF_UNIX || !strncmp(sa.sun_path + 1, "iwsock.", 7));
	return sa.sun_family == AF_UNIX ? strtoull(sa.sun_path + 8, NULL, 16) : 0;
}

/*
 * Requests and answers, until neither end is a TCP socket any more, which the kill of a daemon would be nothing to; joined: until both have one
 * stream. With IW_TEST_KILL_RELAY of octets with which no upgrade of the wire begins.
 */
static inline void kill_ready_as(int fd, bool client, bool joined)
{
	const char *q = getenv("IW_TEST_KILL_RELAY") ? "M" : "q";
	uint64_t mine, theirs;
	long end = t_ms() + T_WAIT_MS;

	kill_whom();
	do {
		for (int i = 0; i < 300; i++) {
			if (client)
				send_str(fd, q);
			want_str(fd, q);
			if (!client)
				send_str(fd, q);
		}
		mine = kill_stream(fd);
		t_put(&mine, sizeof(mine));
		must(t_get(&theirs, sizeof(theirs)) == sizeof(theirs) && t_ms() < end);
	} while (!mine || !theirs || (joined && mine != theirs));
}

static inline void kill_ready(int fd, bool client)
{
	kill_ready_as(fd, client, false);
}

/* Is it this end's daemon that is killed? */
static inline bool kill_mine(void)
{
	const char *p = getenv("IW_TEST_KILL_SIDE");

	return p && !strcmp(p, t_role);
}

/* Until this end works its TCP socket itself, by a number of the library's. */
static inline bool kill_has_tcp(int fd)
{
	struct sockaddr_storage sa;

	for (int i = 3; i < 65536; i++)
		if (i != fd && !t_sys(SYS_getpeername, i, &sa, &(socklen_t){ sizeof(sa) }) && (sa.ss_family == AF_INET || sa.ss_family == AF_INET6))
			return true;
	return false;
}

static inline void kill_mapped(int fd, bool client)
{
	long end = t_ms() + T_WAIT_MS;
	char mine, theirs;

	kill_ready(fd, client);
	do {
		for (int i = 0; i < 30; i++) {
			if (client)
				send_str(fd, "q");
			want_str(fd, "q");
			if (!client)
				send_str(fd, "q");
			usleep(client ? 1000 : 0);
		}
		mine = kill_has_tcp(fd);
		t_put(&mine, 1);
		must(t_get(&theirs, 1) == 1 && t_ms() < end);
	} while (!mine || !theirs);
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

/*
 * The same, and the killed daemon's carriers, of these n, have hung up when it returns: the kernel does that a while after the death, with one after
 * the other.
 */
static inline void kill_and_all_gone(const int *fd, int n, bool killer)
{
	kill_together(killer);
	for (int i = 0; i < n && kill_mine(); i++) {
		struct pollfd p = { .fd = fd[i] };

		must(t_sys(SYS_ppoll, &p, 1, &(struct timespec){ .tv_sec = T_WAIT_MS / 1000 }, NULL, 8) == 1 && (p.revents & POLLHUP));
	}
	t_sync();
}

static inline void kill_and_gone(int fd, bool killer)
{
	kill_and_all_gone(&fd, 1, killer);
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
