// SPDX-License-Identifier: MIT
/* What /proc says of a process or descriptor for which the daemon knows no connection. */
#include "proc.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/reason.h"

static void say(json_t *why, const char *fmt, ...)
{
	char s[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s, sizeof(s), fmt, ap);
	va_end(ap);
	json_array_append_new(why, json_string(s));
}

struct image {
	bool readable, library, dynamic;
};

static struct image look_at_maps(unsigned int pid)
{
	struct image img = { 0 };
	char path[64], *line = NULL;
	size_t cap = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	f = fopen(path, "re");
	if (!f)
		return img;
	while (getline(&line, &cap, f) > 0) {
		img.readable = true;
		img.library |= !!strstr(line, "/libiwsock.so");
		img.dynamic |= strstr(line, "/ld-linux") || strstr(line, "/ld-musl") || strstr(line, "/libc.so") || strstr(line, "/ld-2");
	}
	free(line);
	fclose(f);
	return img;
}

/* Real and effective user or group differ: the loader ignores LD_PRELOAD. */
static bool secure(unsigned int pid)
{
	char path[64], line[256];
	unsigned int a, b;
	bool yes = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f))
		if ((sscanf(line, "Uid: %u %u", &a, &b) == 2 || sscanf(line, "Gid: %u %u", &a, &b) == 2) && a != b)
			yes = true;
	fclose(f);
	return yes;
}

static bool in_table(unsigned int pid, const char *table, unsigned long inode)
{
	char path[64], line[512];
	unsigned long n;
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/net/%s", pid, table);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, " %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu", &n) == 1 && n == inode;
	fclose(f);
	return found;
}

static void look_at_fd(json_t *why, unsigned int pid, int fd)
{
	char path[64], target[256];
	unsigned long inode;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/fd/%d", pid, fd);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0) {
		if (errno == ENOENT)
			say(why, "Process %u has no descriptor %d.", pid, fd);
		else
			say(why, "Descriptor %d of process %u cannot be looked at: %s. Ask as root.", fd, pid, strerror(errno));
		return;
	}
	target[n] = 0;
	if (sscanf(target, "socket:[%lu]", &inode) != 1)
		say(why, "Descriptor %d is not a socket: %s.", fd, target);
	else if (in_table(pid, "tcp", inode) || in_table(pid, "tcp6", inode))
		say(why, "Descriptor %d is a TCP socket that the daemon was not told of: one that is listening or not connected, or young. %s", fd,
		    iw_reason_sentence(IW_REASON_YOUNG));
	else
		say(why, "Descriptor %d is a socket, but not a TCP one.", fd);
}

/* How long it has been running, ms; 0: unknown. */
static uint64_t age(unsigned int pid)
{
	unsigned long long ticks = 0, now, hz = (unsigned long long)sysconf(_SC_CLK_TCK);
	char path[64], line[1024], *s;
	struct timespec ts;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	/* field 22 of all, 19 fields behind the state, which follows a name that may have blanks and brackets */
	s = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	if (!s || sscanf(s, ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", &ticks) != 1)
		return 0;
	clock_gettime(CLOCK_BOOTTIME, &ts);
	now = (unsigned long long)ts.tv_sec * 1000 + (unsigned long long)ts.tv_nsec / 1000000;
	return now > ticks * 1000 / hz ? now - ticks * 1000 / hz : 0;
}

json_t *iwctl_proc_why(unsigned int pid, int fd, uint64_t uptime_ms)
{
	json_t *why = json_array();
	struct image img;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (access(path, F_OK) < 0) {
		say(why, "There is no process %u.", pid);
		return why;
	}
	if (fd >= 0)
		look_at_fd(why, pid, fd);
	img = look_at_maps(pid);
	if (!img.readable)
		say(why, "The memory map of process %u cannot be read. Ask as root.", pid);
	else if (img.library && age(pid) > uptime_ms)
		say(why, "Process %u has libiwsock.so loaded, and is older than the daemon, which knows no connection of it: it tells of those that it "
		    "has when it next uses them.", pid);
	else if (img.library)
		say(why, "Process %u has libiwsock.so loaded, but the daemon knows no connection of it: it has none, or none that is worth it yet "
		    "(upgrade_after in iwsock.conf), or it uses another daemon (IWSOCK_RUNDIR), or acceleration is switched off for it.", pid);
	else if (!img.dynamic)
		say(why, "Process %u is statically linked: no library can be loaded into it.", pid);
	else if (secure(pid))
		say(why, "Process %u runs with changed user or group rights: such programs are never accelerated.", pid);
	else
		say(why, "Process %u does not have libiwsock.so loaded. Start it with LD_PRELOAD=libiwsock.so.", pid);
	return why;
}
