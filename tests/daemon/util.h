/* SPDX-License-Identifier: MIT */
/* What the tests of the daemon's data side share: a loopback TCP pair, and running the engine until something holds. */
#ifndef TEST_UTIL_H
#define TEST_UTIL_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/base/conf.h"
#include "daemon/base/engine.h"
#include "daemon/base/log.h"

/* For a group of tests. */
static inline int engine_setup(void **state)
{
	log_init(0, 1);
	return engine_init();
}

static inline int engine_teardown(void **state)
{
	engine_fini();
	return 0;
}

/* s[0] connected from, s[1] accepted. */
static inline void tcp_pair_family(int s[2], int family)
{
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_storage a;
	socklen_t len = family == AF_INET6 ? sizeof(a6) : sizeof(a4);
	int l = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(&a, family == AF_INET6 ? (void *)&a6 : (void *)&a4, len);
	assert_true(l >= 0);
	assert_int_equal(bind(l, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
	s[0] = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(s[0], (struct sockaddr *)&a, len), 0);
	s[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	assert_true(s[1] >= 0);
	close(l);
}

static inline void tcp_pair(int s[2])
{
	tcp_pair_family(s, AF_INET);
}

/* The condition is looked at every millisecond; the test fails when it does not hold within 20 s. */
static bool (*until_cond)(void *arg);
static void *until_arg;
static uint64_t until_end;

static inline void until_tick(struct timer *t)
{
	if (until_cond(until_arg) || engine_now_ms() > until_end)
		engine_stop();
	else
		timer_start(t, 1, until_tick);
}

static inline void run_until_at(bool (*cond)(void *), void *arg, const char *what, int line)
{
	struct timer t = { 0 };

	until_cond = cond;
	until_arg = arg;
	until_end = engine_now_ms() + 20000;
	timer_start(&t, 0, until_tick);
	engine_run();
	timer_stop(&t);
	if (!cond(arg))
		fail_msg("line %d: waited in vain for %s", line, what);
}
#define run_until(cond, arg) run_until_at(cond, arg, #cond, __LINE__)

static inline bool is_true(void *arg)
{
	return *(bool *)arg;
}

/* Let everything that is due happen: a few rounds of the loop. */
static inline bool rounds_over(void *arg)
{
	return --*(int *)arg <= 0;
}

static inline void run_rounds(int n)
{
	run_until(rounds_over, &n);
}

/* As many as there may be, like the daemon: the limit this program was started with is not what is tested. */
static inline void files_like_daemon(void)
{
	struct rlimit rl;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &rl), 0);
	rl.rlim_cur = rl.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &rl), 0);
}

static inline unsigned int open_fds(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

#endif
