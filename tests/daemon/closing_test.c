// SPDX-License-Identifier: MIT
/* close_socket() where signals are slow, as under strace, a debugger or an emulator: its timer must leave room to get on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../daemon/closing.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(slow_signals) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
