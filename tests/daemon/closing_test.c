// SPDX-License-Identifier: MIT
/* close_socket() where signals are blocked from the start, or slow, as under strace, a debugger or an emulator: its timer must leave room to get on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/closing.h"

#define CLOSES	50
#define STOPS	2000	/* 40 a close are twice as many as it needs, and far less than a flood */

static void closes(void)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	for (int i = 0; i < CLOSES; i++)
		close_socket(socket(AF_INET, SOCK_DGRAM, 0));
	_exit(0);
}

static void slow_signals(void **state)
{
	const struct timespec slow = { .tv_nsec = 200000 };
	int status, stops = 0;
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child)
		closes();
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status) && stops < STOPS) {
		int sig = WSTOPSIG(status) == SIGRTMIN ? SIGRTMIN : 0;	/* the others are of ptrace(): each system call twice */

		stops++;
		nanosleep(&slow, NULL);
		ptrace(PTRACE_SYSCALL, child, NULL, (void *)(intptr_t)sig);
	}
	if (WIFSTOPPED(status)) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		fail_msg("%d stops and not through with %d closes", stops, CLOSES);
	}
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* As a process may be started: no signal comes through. */
static void signals_blocked(void **state)
{
	const struct linger linger = { .l_onoff = 1, .l_linger = 20 };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	static char octets[1 << 16];
	struct timespec from, to;
	sigset_t all, was;
	int l = socket(AF_INET, SOCK_STREAM, 0), s = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(l, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
	assert_int_equal(connect(s, (struct sockaddr *)&a, len), 0);
	while (send(s, octets, sizeof(octets), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(s, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &was);
	clock_gettime(CLOCK_MONOTONIC, &from);
	close_socket(s);
	clock_gettime(CLOCK_MONOTONIC, &to);
	sigprocmask(SIG_SETMASK, &was, NULL);
	assert_true(to.tv_sec - from.tv_sec < 10);
	close(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(slow_signals),	/* first: a child has no timer of its parent */
		cmocka_unit_test(signals_blocked) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
