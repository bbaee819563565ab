// SPDX-License-Identifier: MIT
/* Judges a process: the library in it, and what it sees of the daemon. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "iwctl.h"
#include "judge.h"
#include "proc.h"
#include "verdict.h"

const char *judge_rundir(void)
{
	const char *env = getenv("IWSOCK_RUNDIR"), *xdg = getenv("XDG_RUNTIME_DIR");
	static char own[108];

	if (iwctl.run_dir)
		return iwctl.run_dir;
	if (env && *env)
		return env;
	if (access("/run/iwarpd", F_OK) && xdg && *xdg && snprintf(own, sizeof(own), "%s/iwarpd", xdg) < (int)sizeof(own) && !access(own, F_OK))
		return own;
	return "/run/iwarpd";
}

static const char *program(unsigned int pid, char name[32])
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	f = fopen(path, "re");
	if (!f || !fgets(name, 32, f))
		strcpy(name, "?");
	name[strcspn(name, "\n")] = 0;
	if (f)
		fclose(f);
	return name;
}

/* The environment that it was started with; value is "" if it has none of that name, or must not be read. */
static void environment(unsigned int pid, const char *name, char value[256])
{
	char path[64], *line = NULL;
	size_t cap = 0, n = strlen(name);
	FILE *f;

	*value = 0;
	snprintf(path, sizeof(path), "/proc/%u/environ", pid);
	f = fopen(path, "re");
	while (f && getdelim(&line, &cap, 0, f) > 0)
		if (!strncmp(line, name, n) && line[n] == '=')
			snprintf(value, 256, "%s", line + n + 1);
	free(line);
	if (f)
		fclose(f);
}

static void library(json_t *list, unsigned int pid, const struct iwctl_image *img, const char *restart)
{
	char name[32], off[256];

	program(pid, name);
	switch (img->loaded) {
	case LOADED_ON:
		if (img->deleted)
			verdict(list, VERDICT_WARN, "process", restart, "%s[%u] has " IWCTL_LIBRARY " at work, of a file that was replaced since", name, pid);
		else
			verdict(list, VERDICT_OK, "process", NULL, "%s[%u] has " IWCTL_LIBRARY " at work", name, pid);
		return;
	case LOADED_OFF:
		environment(pid, "IWSOCK_DISABLE", off);
		verdict(list, VERDICT_BAD, "process", *off ? "Take IWSOCK_DISABLE out of its environment." : "Programs with more rights than their user are never accelerated.",
			"%s[%u] has " IWCTL_LIBRARY " loaded, and it is switched off there", name, pid);
		return;
	case LOADED_OTHER:
		verdict(list, VERDICT_WARN, "process", restart, "%s[%u] has " IWCTL_LIBRARY " loaded, of another release than iwctl", name, pid);
		return;
	case LOADED_UNKNOWN:
		verdict(list, VERDICT_WARN, "process", "Ask as root whether it is at work there.", "%s[%u] has " IWCTL_LIBRARY " loaded", name, pid);
		return;
	case LOADED_BROKEN:
		verdict(list, VERDICT_BAD, "process", "Its unit forbids that something is executed there (NoExecPaths=): iwctl service NAME on.",
			"%s[%u] has the file of " IWCTL_LIBRARY " mapped, but could not load it", name, pid);
		return;
	case LOADED_NO:
		break;
	}
	if (!img->dynamic)
		verdict(list, VERDICT_BAD, "process", "No library can be loaded into it: use a dynamically linked build.", "%s[%u] is statically linked", name, pid);
	else if (img->secure)
		verdict(list, VERDICT_BAD, "process", "Such programs are never accelerated.", "%s[%u] runs with changed user or group rights", name, pid);
	else
		verdict(list, VERDICT_BAD, "process", restart, "%s[%u] runs without " IWCTL_LIBRARY, name, pid);
}

/* As it sees it: with its root, its mounts. */
static void socket_seen(json_t *list, unsigned int pid)
{
	char dir[256], path[512];
	struct stat st;

	environment(pid, "IWSOCK_RUNDIR", dir);
	if (!*dir)
		snprintf(dir, sizeof(dir), "%s", judge_rundir());
	snprintf(path, sizeof(path), "/proc/%u/root%s/ctl.sock", pid, dir);
	if (stat(path, &st) == 0)
		return;
	if (errno == EACCES || errno == EPERM)
		return;	/* not for us to say */
	snprintf(path, sizeof(path), "%s/ctl.sock", dir);
	if (stat(path, &st) == 0)
		verdict(list, VERDICT_BAD, "run directory", "Its root, or its mounts, hide it: see RootDirectory=, InaccessiblePaths=, TemporaryFileSystem= of its unit, or mount it there.",
			"process %u does not see %s", pid, path);
}

static void namespace(json_t *list, unsigned int pid)
{
	char path[64], theirs[64] = "", ours[64] = "";

	snprintf(path, sizeof(path), "/proc/%u/ns/net", pid);
	if (readlink(path, theirs, sizeof(theirs) - 1) < 0 || readlink("/proc/self/ns/net", ours, sizeof(ours) - 1) < 0 || !strcmp(ours, theirs))
		return;
	verdict(list, VERDICT_WARN, "network", "Run an iwarpd there, or see join_namespaces in iwarpd.conf(5).",
		"process %u is in another network namespace than this iwctl", pid);
}

void judge_process(json_t *list, unsigned int pid, const char *restart)
{
	struct iwctl_image img;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u", pid);
	if (access(path, F_OK) < 0) {
		verdict(list, VERDICT_BAD, "process", "See 'ps', or give a service, or HOST:PORT.", "there is no process %u", pid);
		return;
	}
	img = iwctl_proc_image(pid);
	if (!img.readable) {
		verdict(list, VERDICT_WARN, "process", "Ask as root.", "the memory map of process %u cannot be read", pid);
		return;
	}
	library(list, pid, &img, restart ? restart : "Start it again with iwrun; a service: iwctl service NAME on.");
	socket_seen(list, pid);
	namespace(list, pid);
}
