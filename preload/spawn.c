// SPDX-License-Identifier: MIT
/* Processes that begin and end: forks that fail or run no handlers, programs that are started, _exit. */
#include <sched.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/single_threaded.h>
#include <unistd.h>

#include "fdtab.h"
#include "holders.h"
#include "init.h"
#include "lib.h"
#include "map.h"
#include "proc.h"
#include "real.h"
#include "scm.h"

IW_EXPORT pid_t fork(void);
IW_EXPORT pid_t _Fork(void);
IW_EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *acts, const posix_spawnattr_t *attr,
			  char *const argv[], char *const envp[]);
IW_EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *acts, const posix_spawnattr_t *attr,
			   char *const argv[], char *const envp[]);
IW_EXPORT int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *acts, int fd, int to);
IW_EXPORT int system(const char *command);
IW_EXPORT FILE *popen(const char *command, const char *mode);
IW_EXPORT int unshare(int flags);
IW_EXPORT void _exit(int status) __attribute__((noreturn));
IW_EXPORT void _Exit(int status) __attribute__((noreturn));

/* What is done before and after it, pthread_atfork handlers do (proc.c); they are not told that it failed. */
pid_t fork(void)
{
	pid_t pid;

	iw_init();
	pid = iw_real.fork();
	if (iw_unlikely(pid < 0))
		iw_holders_fork_failed();
	return pid;
}

/* No handlers: in the child it is noticed when it first asks (iw_in_vfork). */
pid_t _Fork(void)
{
	iw_init();
	if (!iw_in_vfork())
		iw_between_switches(iw_holders_uncounted, true);
	return iw_real._Fork();
}

static void spawning(void)
{
	iw_init();
	if (!iw_in_vfork())
		iw_between_switches(iw_holders_spawn, false);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *acts, const posix_spawnattr_t *attr, char *const argv[],
		char *const envp[])
{
	spawning();
	return iw_real.posix_spawn(pid, path, acts, attr, argv, envp);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *acts, const posix_spawnattr_t *attr, char *const argv[],
		 char *const envp[])
{
	spawning();
	return iw_real.posix_spawnp(pid, file, acts, attr, argv, envp);
}

/* Close-on-exec or not, some program will have it. */
int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *acts, int fd, int to)
{
	iw_init();
	iw_fd_passed_on(fd);
	return iw_real.posix_spawn_file_actions_adddup2(acts, fd, to);
}

int system(const char *command)
{
	spawning();
	return iw_real.system(command);
}

FILE *popen(const char *command, const char *mode)
{
	spawning();
	return iw_real.popen(command, mode);
}

int unshare(int flags)
{
	iw_init();
	iw_unsharing(flags & CLONE_FILES);
	return iw_real.unshare(flags);
}

void iw_unsharing(bool files)
{
	if (files && (!__libc_single_threaded || atomic_load(&iw_vforks)) && !iw_in_vfork())
		iw_holders_split();
}

/* ---- the end: others may be alone with what we held ---- */

static void ending(void)
{
	iw_init();
	if (!iw_in_vfork()) {
		iw_maps_exit();
		iw_holders_exit();
	}
}

void _exit(int status)
{
	ending();
	iw_real._exit(status);
	__builtin_unreachable();
}

void _Exit(int status)
{
	ending();
	iw_real._exit(status);
	__builtin_unreachable();
}

/* exit(): after the handlers of the program and of all libraries that were loaded later. */
__attribute__((destructor(101))) static void at_exit(void)
{
	ending();
}

void iw_spawn_init(void)
{
	(void)at_quick_exit(at_exit);	/* where there is no room for it, counts stay too high */
}
