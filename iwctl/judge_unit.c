// SPDX-License-Identifier: MIT
/* Judges a service: its unit, what it has of ours, and which of its settings are in the way. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "dropin.h"
#include "iwctl.h"
#include "judge.h"
#include "out.h"
#include "pgenv.h"
#include "proc.h"
#include "systemd.h"
#include "verdict.h"

/* ---- what it has of ours ---- */

/* The library's name in LD_PRELOAD, by whomever. */
static bool preloads(const struct unit *u)
{
	const char *s = dropin_env(json_object_get(u->p, "Environment"), "LD_PRELOAD");
	char file[PATH_MAX], value[PATH_MAX];

	if (unit_env_file(u->p, file, value))
		return strstr(value, IWCTL_LIBRARY);
	return s && strstr(s, IWCTL_LIBRARY);
}

static void dropin(json_t *list, const struct unit *u, const char *on)
{
	if (u->own && !dropin_ours(u->own))
		verdict(list, VERDICT_BAD, "drop-in", "Give it another name, or take it away.", "%s was not written by iwctl", u->path);
	else if (!u->own && !u->wanted && u->env[0])
		;	/* the block is all that it needs */
	else if (!u->own && preloads(u))
		verdict(list, VERDICT_OK, "drop-in", NULL, "its unit has LD_PRELOAD without iwctl's help");
	else if (!u->own)
		verdict(list, VERDICT_BAD, "drop-in", on, "%s is not there", u->path);
	else if (u->wanted && !strcmp(u->own, u->wanted))
		verdict(list, VERDICT_OK, "drop-in", NULL, "%s is what the unit needs", u->path);
	else
		verdict(list, VERDICT_BAD, "drop-in", on, "%s is not what the unit needs as it is now", u->path);
	if (u->own && !u->env[0] && dropin_ours(u->own) && !preloads(u))
		verdict(list, VERDICT_BAD, "LD_PRELOAD", "See 'systemctl cat' for what sets it after iwsock.conf; or 'systemctl daemon-reload'.", "the unit does not have it in spite of the drop-in");
	if (iwctl_true(u->p, "NeedDaemonReload"))
		verdict(list, VERDICT_WARN, "drop-in", "systemctl daemon-reload", "unit files were changed since systemd read them");
}

static void block(json_t *list, const struct unit *u, const char *on)
{
	if (!u->env[0])
		return;
	if (u->env_own && u->env_wanted && !strcmp(u->env_own, u->env_wanted))
		verdict(list, VERDICT_OK, "environment", NULL, "%s has the server load the library", u->env);
	else if (pgenv_has(u->env_own))
		verdict(list, VERDICT_BAD, "environment", on, "%s has a block of iwctl's that is not what it should be", u->env);
	else
		verdict(list, VERDICT_BAD, "environment", on, "%s does not have the server load the library", u->env);
}

/* ---- what is in the way ---- */

static void hidden(json_t *list, const struct unit *u, const char *what, const char *path)
{
	static const char *const keys[] = { "InaccessiblePaths", "TemporaryFileSystem" };
	const json_t *l = json_object_get(u->p, "InaccessiblePaths"), *tmp = json_object_get(u->p, "TemporaryFileSystem"), *v;
	json_t *tmps = json_array();
	size_t i;

	json_array_foreach(tmp, i, v)
		json_array_append(tmps, json_array_get(v, 0));
	for (i = 0; i < 2; i++)
		if (dropin_covered(i ? tmps : l, path))
			verdict(list, VERDICT_BAD, what, "Have the unit see it: 'systemctl edit', BindReadOnlyPaths=, or another InaccessiblePaths=.", "%s= of the unit hides %s", keys[i], path);
	json_decref(tmps);
}

static void sandbox(json_t *list, const struct unit *u)
{
	const char *root = iwctl_str(u->p, "RootDirectory", ""), *image = iwctl_str(u->p, "RootImage", ""), *home = iwctl_str(u->p, "ProtectHome", "no");
	const char *dir = judge_rundir(), *lib = u->library;

	if (*root || *image)
		verdict(list, VERDICT_BAD, "root", "BindReadOnlyPaths= of the library and of the run directory into it.", "the unit has a root of its own, %s, in which neither the library nor %s is", *root ? root : image, dir);
	hidden(list, u, "run directory", dir);
	hidden(list, u, "library", lib);
	if (strcmp(home, "no") && strcmp(home, "read-only") && (!strncmp(lib, "/home/", 6) || !strncmp(lib, "/root/", 6)))
		verdict(list, VERDICT_BAD, "library", "Install the library where the unit sees it: /usr/local/lib.", "ProtectHome= of the unit hides %s", lib);
	if (iwctl_true(u->p, "PrivateNetwork") || *iwctl_str(u->p, "NetworkNamespacePath", ""))
		verdict(list, VERDICT_WARN, "network", "Run an iwarpd there, or see join_namespaces in iwarpd.conf(5).", "the unit has a network namespace of its own");
}

/* Calls that the library makes in every program. */
static const char *const calls[] = {
	"socket", "connect", "sendmsg", "recvmsg", "sendto", "recvfrom", "getsockopt", "setsockopt", "getsockname", "getpeername", "shutdown", "mmap", "munmap",
	"fstat", "fcntl", "ioctl", "dup3", "ppoll", "openat", "read", "close", "readlinkat", "lseek", "prlimit64", "kcmp", "membarrier", "futex", "tgkill", "gettid",
	"getpid", "rt_sigprocmask", "epoll_ctl", "sched_yield",
};

static bool listed(const json_t *list, const char *name)
{
	size_t i, n = strlen(name);
	const json_t *v;

	json_array_foreach(list, i, v) {
		const char *s = json_string_value(v);

		if (s && !strncmp(s, name, n) && (!s[n] || s[n] == ':'))	/* ":EPERM" */
			return true;
	}
	return false;
}

static void filter(json_t *list, const struct unit *u)
{
	const json_t *f = json_object_get(u->p, "SystemCallFilter"), *names = json_array_get(f, 1);
	bool allow = json_is_true(json_array_get(f, 0));
	uint64_t number = iwctl_num(u->p, "SystemCallErrorNumber");	/* what is none: the process is killed */
	char missing[512] = "", advice[896];

	if (!json_array_size(names))
		return;
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (listed(names, calls[i]) != allow && strlen(missing) + strlen(calls[i]) + 2 < sizeof(missing))
			strcat(strcat(missing, " "), calls[i]);
	if (!*missing)
		return;
	snprintf(advice, sizeof(advice), "systemctl edit %s: SystemCallFilter=%s", u->name, missing + 1);
	verdict(list, number && number < 4096 ? VERDICT_WARN : VERDICT_BAD, "system calls", advice,
		"SystemCallFilter= of the unit forbids what the library calls:%s", missing);
}

/* Has the file an interpreter, or is it none of the linker's? */
static bool is_static(int fd)
{
	Elf64_Ehdr e;
	Elf64_Phdr p;

	if (pread(fd, &e, sizeof(e), 0) != sizeof(e) || memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64)
		return false;
	for (unsigned int i = 0; i < e.e_phnum; i++)
		if (pread(fd, &p, sizeof(p), (off_t)(e.e_phoff + (uint64_t)i * e.e_phentsize)) == sizeof(p) && p.p_type == PT_INTERP)
			return false;
	return true;
}

static void program(json_t *list, const struct unit *u)
{
	const char *path = unit_program(u->p);
	int fd = *path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && (st.st_mode & (S_ISUID | S_ISGID) || fgetxattr(fd, "security.capability", NULL, 0) > 0))
		verdict(list, VERDICT_BAD, "program", "Take the bit, or the capability, away and have the unit give it: User=, AmbientCapabilities=.",
			"%s is set-user-ID or has file capabilities: the loader ignores LD_PRELOAD", path);
	else if (is_static(fd))
		verdict(list, VERDICT_BAD, "program", "No library can be loaded into it: use a dynamically linked build.", "%s is statically linked", path);
	close(fd);
}

static void control_socket(json_t *list, const struct unit *u)
{
	const char *user = iwctl_str(u->p, "User", "");
	char path[PATH_MAX];
	struct stat dir, sock;

	if (!*user && !iwctl_true(u->p, "DynamicUser"))
		return;
	snprintf(path, sizeof(path), "%s/ctl.sock", judge_rundir());
	if (stat(path, &sock) < 0 || stat(judge_rundir(), &dir) < 0)
		return;	/* no daemon: that is another line's */
	if (!(sock.st_mode & S_IWOTH) || !(dir.st_mode & S_IXOTH))
		verdict(list, VERDICT_BAD, "run directory", "Let users in: mode 0755 of the directory, 0666 of the socket, as the daemon makes them.",
			"user %s may not use %s", *user ? user : "(dynamic)", path);
}

/* ---- its processes ---- */

static void processes(json_t *list, const char *name, unsigned int main)
{
	char others[256] = "";
	json_t *pids, *v;
	size_t i, with = 0, without = 0, n = 0;

	if (systemd_processes(name, &pids) != IWCTL_OK)
		return;
	json_array_foreach(pids, i, v) {
		unsigned int pid = (unsigned int)json_integer_value(v);
		struct iwctl_image img = iwctl_proc_image(pid);

		if (pid == main || !img.readable)
			continue;
		with += img.loaded >= LOADED_ON;
		without += img.loaded < LOADED_ON;
		if (img.loaded < LOADED_ON && n < sizeof(others) - 16)
			n += (size_t)snprintf(others + n, sizeof(others) - n, " %u", pid);
	}
	if (without)
		verdict(list, VERDICT_WARN, "processes", "See 'iwctl doctor PID' for each.", "%zu of %zu others of %s are without it:%s", without, with + without, name, others);
	else if (with)
		verdict(list, VERDICT_OK, "processes", NULL, "and all %zu others of %s", with, name);
	json_decref(pids);
}

static void running(json_t *list, const struct unit *u)
{
	json_t *names = unit_running(u), *p, *v;
	char restart[NAME_MAX + 32];
	size_t i;

	if (names && !json_array_size(names))
		verdict(list, VERDICT_WARN, "process", "When it is started it loads the library.", "%s does not run", u->name);
	json_array_foreach(names, i, v) {
		const char *name = json_string_value(v);
		unsigned int pid;

		if (systemd_service(name, &p) != IWCTL_OK)
			continue;
		pid = (unsigned int)iwctl_num(p, "MainPID");
		snprintf(restart, sizeof(restart), "systemctl restart %s", name);
		if (pid)
			judge_process(list, pid, restart);
		processes(list, name, pid);
		json_decref(p);
	}
	json_decref(names);
}

void judge_unit(json_t *list, const struct unit *u)
{
	const char *state = iwctl_str(u->p, "ActiveState", "?");
	char why[UNIT_WHY], on[NAME_MAX + 64];

	if (unit_refused(u, why)) {
		verdict(list, VERDICT_BAD, "unit", "Nothing can be done by 'iwctl service' before that.", "%s", why);
		if (!unit_loaded(u))
			return;
	} else {
		bool failed = !u->template && !strcmp(state, "failed");

		snprintf(on, sizeof(on), "systemctl status %s", u->name);
		verdict(list, failed ? VERDICT_BAD : VERDICT_OK, "unit", failed ? on : NULL, "%s, %s", u->name, u->template ? "a template" : state);
	}
	if (!u->library[0])
		return;
	snprintf(on, sizeof(on), "iwctl service %s on", u->by);
	dropin(list, u, on);
	block(list, u, on);
	sandbox(list, u);
	filter(list, u);
	program(list, u);
	control_socket(list, u);
	running(list, u);
}
