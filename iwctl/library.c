// SPDX-License-Identifier: MIT
/* Finds the library: beside this program, by the loader, or where an installation has it. */
#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc.h"

/* In a process of its own: what is loaded stays. */
static void load(int fd)
{
	struct link_map *map;
	void *h;

	setenv("IWSOCK_DISABLE", "1", 1);
	h = dlopen(IWCTL_LIBRARY, RTLD_LAZY);
	if (h && dlinfo(h, RTLD_DI_LINKMAP, &map) == 0 && write(fd, map->l_name, strlen(map->l_name)) < 0)
		_exit(1);
	_exit(0);
}

static bool by_loader(char path[PATH_MAX])
{
	char name[PATH_MAX];
	ssize_t n = 0, r;
	int fd[2];
	pid_t pid;

	if (pipe(fd) < 0)
		return false;
	pid = fork();
	if (pid == 0)
		load(fd[1]);
	close(fd[1]);
	while (pid > 0 && n < PATH_MAX - 1 && (r = read(fd[0], name + n, (size_t)(PATH_MAX - 1 - n))) > 0)
		n += r;
	close(fd[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	name[n] = 0;
	return n && realpath(name, path);
}

int iwctl_library(char path[PATH_MAX])
{
	char exe[PATH_MAX], name[PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	exe[n < 0 ? 0 : n] = 0;
	slash = strrchr(exe, '/');
	if (slash) {
		*slash = 0;
		snprintf(name, sizeof(name), "%s/" IWCTL_LIBRARY, exe);
		if (realpath(name, path))
			return 0;
	}
	if (by_loader(path))
		return 0;
	if (slash) {
		snprintf(name, sizeof(name), "%s/../lib/" IWCTL_LIBRARY, exe);
		if (realpath(name, path))
			return 0;
	}
	return -ENOENT;
}
