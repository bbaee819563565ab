// SPDX-License-Identifier: MIT
/* What /proc says of a process or descriptor for which the daemon knows no connection. */
#include "proc.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/reason.h"
#include "proto/view.h"
#include "young.h"

static void say(json_t *why, const char *fmt, ...)
{
	char s[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s, sizeof(s), fmt, ap);
	va_end(ap);
	json_array_append_new(why, json_string(s));
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

static enum iwctl_loaded judge(unsigned int pid)
{
	int on = iwctl_library_on(pid);

	if (on >= 0)
		return on ? LOADED_ON : LOADED_OFF;
	return on == -EPERM ? LOADED_UNKNOWN : LOADED_OTHER;
}

struct iwctl_image iwctl_proc_image(unsigned int pid)
{
	struct iwctl_image img = { 0 };
	bool file = false, code = false;
	char path[64], *line = NULL;
	size_t cap = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	f = fopen(path, "re");
	if (!f)
		return img;
	while (getline(&line, &cap, f) > 0) {
		bool library = strstr(line, "/" IWCTL_LIBRARY);

		img.readable = true;
		file |= library;
		code |= library && strstr(line, " r-x");
		img.deleted |= library && strstr(line, " (deleted)");
		img.dynamic |= strstr(line, "/ld-linux") || strstr(line, "/ld-musl") || strstr(line, "/libc.so") || strstr(line, "/ld-2");
	}
	free(line);
	fclose(f);
	img.secure = secure(pid);
	img.loaded = code ? judge(pid) : file ? LOADED_BROKEN : LOADED_NO;
	return img;
}

/* The state that the table says, as the kernel numbers them; 0: the socket is not in it. */
static unsigned int in_table(unsigned int pid, const char *table, unsigned long inode)
{
	unsigned int state, found = 0;
	char path[64], line[512];
	unsigned long n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/net/%s", pid, table);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (!found && fgets(line, sizeof(line), f))
		if (sscanf(line, " %*s %*s %*s %x %*s %*s %*s %*s %*s %lu", &state, &n) == 2 && n == inode)
			found = state;
	fclose(f);
	return found;
}

/* "3 of 400 calls" */
static const char *of(char s[64], uint64_t has, uint64_t needs, uint64_t never, const char *what)
{
	if (needs == never)
		snprintf(s, 64, "%llu %s, which do not count", (unsigned long long)has, what);
	else
		snprintf(s, 64, "%llu of %llu %s", (unsigned long long)has, (unsigned long long)needs, what);
	return s;
}

static void counted(json_t *why, int fd, const struct iwctl_young *y)
{
	char calls[64], octets[64];

	if (y->state == IW_VIEW_PLAIN && y->reason)
		say(why, "Descriptor %d stays plain TCP. Reason %u, %s: %s", fd, y->reason, iw_reason_name(y->reason), iw_reason_sentence(y->reason));
	else if (y->state == IW_VIEW_PLAIN || (y->at_calls == UINT32_MAX && y->at_octets == UINT64_MAX))
		say(why, "Descriptor %d stays plain TCP: upgrade_after in iwsock.conf says never.", fd);
	else if (y->state == IW_VIEW_YOUNG)
		say(why, "Descriptor %d is young: %s It has %s and %s; at either it is proposed (upgrade_after in iwsock.conf).", fd,
		    iw_reason_sentence(IW_REASON_YOUNG), of(calls, y->calls, y->at_calls, UINT32_MAX, "calls"), of(octets, y->octets, y->at_octets, UINT64_MAX, "octets"));
	else
		say(why, "Descriptor %d was proposed, but not to this daemon: one before it, or another one's (IWSOCK_RUNDIR).", fd);
}

static unsigned long socket_inode(unsigned int pid, int fd, char target[256])
{
	unsigned long inode;
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/fd/%d", pid, fd);
	n = readlink(path, target, 255);
	target[n < 0 ? 0 : n] = 0;
	if (n < 0)
		return 0;
	errno = 0;
	return sscanf(target, "socket:[%lu]", &inode) == 1 ? inode : 0;
}

static unsigned int tcp_state(unsigned int pid, unsigned long inode)
{
	unsigned int state = in_table(pid, "tcp", inode);

	return state ? state : in_table(pid, "tcp6", inode);
}

static void look_at_fd(json_t *why, unsigned int pid, int fd)
{
	struct iwctl_young y;
	unsigned int state;
	unsigned long inode;
	char target[256];
	int r;

	inode = socket_inode(pid, fd, target);
	if (!inode && errno == ENOENT)
		say(why, "Process %u has no descriptor %d.", pid, fd);
	else if (!inode && errno)
		say(why, "Descriptor %d of process %u cannot be looked at: %s. Ask as root.", fd, pid, strerror(errno));
	else if (!inode)
		say(why, "Descriptor %d is not a socket: %s.", fd, target);
	else if (!(state = tcp_state(pid, inode)))
		say(why, "Descriptor %d is a socket, but not a TCP one, or not connected.", fd);
	else if (state == TCP_LISTEN)
		say(why, "Descriptor %d listens: only connections are accelerated.", fd);
	else if (!(r = iwctl_young(pid, fd, &y)))
		counted(why, fd, &y);
	else
		say(why, "Descriptor %d is a TCP connection that the daemon was not told of.%s", fd,
		    r == -EPERM ? " How much of upgrade_after it has is in the memory of the process: ask as root." : "");
}

void iwctl_proc_young(json_t *why, unsigned int pid)
{
	struct iwctl_young y;
	struct dirent *e;
	char path[64];
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%u/fd", pid);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		int fd = *e->d_name == '.' ? -1 : atoi(e->d_name);
		unsigned int state = fd < 0 ? 0 : tcp_state(pid, socket_inode(pid, fd, (char[256]){ 0 }));

		if (state && state != TCP_LISTEN && !iwctl_young(pid, fd, &y) && y.state == IW_VIEW_YOUNG)
			counted(why, fd, &y);
	}
	if (d)
		closedir(d);
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
	struct iwctl_image img;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (access(path, F_OK) < 0) {
		say(why, "There is no process %u.", pid);
		return why;
	}
	if (fd >= 0)
		look_at_fd(why, pid, fd);
	img = iwctl_proc_image(pid);
	if (!img.readable)
		say(why, "The memory map of process %u cannot be read. Ask as root.", pid);
	else if (img.loaded == LOADED_BROKEN)
		say(why, "Process %u has the file of " IWCTL_LIBRARY " mapped, but could not load it: nothing may be executed there (NoExecPaths= of its unit?). "
		    "See 'iwctl doctor %u'.", pid, pid);
	else if (img.loaded == LOADED_OFF)
		say(why, "Process %u has " IWCTL_LIBRARY " loaded, and it is switched off there (IWSOCK_DISABLE, or a program with more rights than its user).", pid);
	else if (img.loaded != LOADED_NO && age(pid) > uptime_ms)
		say(why, "Process %u has libiwsock.so loaded, and is older than the daemon, which knows no connection of it: it tells of those that it "
		    "has when it next uses them.", pid);
	else if (img.loaded != LOADED_NO)
		say(why, "Process %u has libiwsock.so loaded, but the daemon knows no connection of it: it has none, or none that is worth it yet "
		    "(upgrade_after in iwsock.conf), or it uses another daemon (IWSOCK_RUNDIR), or acceleration is switched off for it.", pid);
	else if (!img.dynamic)
		say(why, "Process %u is statically linked: no library can be loaded into it.", pid);
	else if (img.secure)
		say(why, "Process %u runs with changed user or group rights: such programs are never accelerated.", pid);
	else
		say(why, "Process %u does not have libiwsock.so loaded. Start it with iwrun, or LD_PRELOAD=libiwsock.so; a service: iwctl service.", pid);
	return why;
}

bool iwctl_proc_limit(unsigned int pid, const char *name, unsigned long *soft)
{
	char path[64], line[256];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/limits", pid);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, name, strlen(name)) && sscanf(line + strlen(name), " %lu", soft) == 1;
	if (f)
		fclose(f);
	return found;
}
