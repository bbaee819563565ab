// SPDX-License-Identifier: MIT
/* Runs another program in a process group of its own, which is killed when its time is over. */
#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_MS 500	/* for one that was killed; who hangs in the kernel is left */

static int start(pid_t *pid, char *const argv[], int out, int err)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	int r;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setpgroup(&attr, 0);
	r = posix_spawnp(pid, argv[0], &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	return -r;
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* It has ended: 0. */
static int wait_for(int fd, unsigned int limit_ms, const volatile sig_atomic_t *stop)
{
	uint64_t until = now_ms() + limit_ms, now;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (!*stop && (now = now_ms()) < until)
		if (poll(&p, 1, (int)(until - now)) > 0)
			return 0;
	return *stop ? -EINTR : -ETIMEDOUT;
}

int step_run(char *const argv[], int out, int err, unsigned int limit_ms, const volatile sig_atomic_t *stop)
{
	const volatile sig_atomic_t no = 0;
	int r, fd, status = 0;
	pid_t pid;

	r = start(&pid, argv, out, err);
	if (r < 0)
		return r;
	fd = pidfd_open(pid, 0);
	r = fd < 0 ? -errno : wait_for(fd, limit_ms, stop);
	if (r < 0) {
		kill(-pid, SIGKILL);
		if (fd >= 0)
			wait_for(fd, GRACE_MS, &no);
	}
	waitpid(pid, &status, r < 0 ? WNOHANG : 0);
	if (fd >= 0)
		close(fd);
	if (r < 0)
		return r;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -ECANCELED;
}
