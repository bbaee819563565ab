// SPDX-License-Identifier: MIT
/* Judges this host: the library, the kernel, the settings, the daemon. */
#include <dirent.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bus.h"
#include "check_policy.h"
#include "daemon/base/conf.h"
#include "iwctl.h"
#include "judge.h"
#include "library.h"
#include "out.h"
#include "proc.h"
#include "systemd.h"
#include "verdict.h"

#define CONF	   IW_SYSCONFDIR "/iwsock/iwarpd.conf"
#define POLICY	   IW_SYSCONFDIR "/iwsock/iwsock.conf"
#define FILES_MIN  65536u
#define FILES_EACH 6u		/* open files of the daemon for a stream, at most */

static void library(json_t *list)
{
	char path[PATH_MAX];

	if (iwctl_library(path) == 0)
		verdict(list, VERDICT_OK, "library", NULL, "%s", path);
	else
		verdict(list, VERDICT_BAD, "library", "Install it, and run ldconfig.", IWCTL_LIBRARY " is neither beside iwctl nor where the loader looks");
}

static void kernel(json_t *list)
{
	unsigned int major = 0, minor = 0, lmajor = 0, lminor = 0;
	struct utsname u;

	uname(&u);
	sscanf(u.release, "%u.%u", &major, &minor);
	sscanf(gnu_get_libc_version(), "%u.%u", &lmajor, &lminor);
	if (major < 6 || (major == 6 && minor < 1))
		verdict(list, VERDICT_BAD, "kernel", "Linux 6.1 or newer is needed.", "Linux %s", u.release);
	else if (lmajor < 2 || (lmajor == 2 && lminor < 36))
		verdict(list, VERDICT_BAD, "kernel", "glibc 2.36 or newer is needed.", "Linux %s, glibc %s", u.release, gnu_get_libc_version());
	else
		verdict(list, VERDICT_OK, "kernel", NULL, "Linux %s, glibc %s", u.release, gnu_get_libc_version());
}

static void uring(json_t *list)
{
	struct io_uring_params p = { 0 };
	int disabled = 0, fd;
	FILE *f = fopen("/proc/sys/kernel/io_uring_disabled", "re");

	if (f && fscanf(f, "%d", &disabled) != 1)
		disabled = 0;
	if (f)
		fclose(f);
	if (disabled) {
		verdict(list, VERDICT_BAD, "io_uring", "sysctl -w kernel.io_uring_disabled=0, and in /etc/sysctl.d.",
			disabled == 1 ? "kernel.io_uring_disabled is 1: only root, and a group, may use it; iwarpd is neither" : "kernel.io_uring_disabled is %d: nobody may use it", disabled);
		return;
	}
	fd = (int)syscall(SYS_io_uring_setup, 2, &p);
	if (fd >= 0)
		close(fd);
	if (fd >= 0 || errno == ENOMEM || errno == EMFILE || errno == ENFILE)
		verdict(list, VERDICT_OK, "io_uring", NULL, "the kernel has it");
	else
		verdict(list, VERDICT_BAD, "io_uring", "A seccomp filter, as of a container, or a kernel without it: iwarpd needs it.", "io_uring_setup: %s", strerror(errno));
}

static void settings(json_t *list)
{
	static struct iw_policy p;
	struct conf c;
	char err[3000];
	json_t *errors = NULL, *e;
	size_t i;

	conf_default(&c);
	if (access(CONF, F_OK) && errno == ENOENT)
		verdict(list, VERDICT_OK, "settings", NULL, CONF " is not there: all is as it is by default");
	else if (conf_read(&c, CONF, err, sizeof(err)))
		verdict(list, VERDICT_BAD, "settings", "Put it right: the daemon does not start with it. 'iwarpd --check' reads it again.", "%s", err);
	else
		verdict(list, VERDICT_OK, "settings", NULL, CONF);
	if (access(POLICY, F_OK) && errno == ENOENT)
		return;
	iwctl_error_keep(err, sizeof(err));
	if (check_policy_read(&p, POLICY, &errors) != IWCTL_OK)
		verdict(list, VERDICT_BAD, "policy", "Programs must be able to read it: mode 0644.", "%s", err);
	iwctl_error_keep(NULL, 0);
	json_array_foreach(errors, i, e)
		verdict(list, VERDICT_BAD, "policy", "Put the line right: 'iwctl check-policy'.", "%s", json_string_value(e));
	if (errors && !i)
		verdict(list, VERDICT_OK, "policy", NULL, POLICY ", %u rules", p.n);
	json_decref(errors);
}

void judge_policy(json_t *list, unsigned int pid)
{
	static struct iw_policy p;
	const struct iw_addr any = { .family = 10, .port = 1 };
	char path[64], exe[PATH_MAX], comm[32] = "", err[512];
	const char *slash;
	json_t *errors = NULL;
	int rule;
	ssize_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	exe[n < 0 ? 0 : n] = 0;
	slash = strrchr(exe, '/');
	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	f = fopen(path, "re");
	if (f && !fgets(comm, sizeof(comm), f))
		*comm = 0;
	if (f)
		fclose(f);
	comm[strcspn(comm, "\n")] = 0;
	iwctl_error_keep(err, sizeof(err));
	if (check_policy_read(&p, POLICY, &errors) == IWCTL_OK)
		for (unsigned int verb = IW_POLICY_CONNECT; verb <= IW_POLICY_LISTEN; verb++)
			if (!iw_policy_match(&p, verb, slash ? slash + 1 : comm, *exe ? exe : NULL, &any, &rule))
				verdict(list, VERDICT_BAD, "policy", "Change the rule, or put one before it: 'iwctl check-policy' shows them.", "rule %d of " POLICY " says tcp for %s, %s",
					rule + 1, slash ? slash + 1 : comm, verb == IW_POLICY_CONNECT ? "connecting" : "listening");
	iwctl_error_keep(NULL, 0);
	json_decref(errors);
}

unsigned int judge_port(const json_t *status)
{
	struct conf c;
	char err[3000];

	if (status)
		return (unsigned int)iwctl_num(status, "control_port");
	conf_default(&c);
	conf_read(&c, CONF, err, sizeof(err));
	return c.control_port;
}

static void rundir(json_t *list)
{
	const char *dir = judge_rundir();
	struct stat st, sock;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/ctl.sock", dir);
	if (stat(dir, &st) < 0)
		verdict(list, VERDICT_BAD, "run directory", "systemctl start iwarpd; or say where it is with --run-dir or IWSOCK_RUNDIR.", "%s: %s", dir, strerror(errno));
	else if (st.st_mode & (S_IWGRP | S_IWOTH))
		verdict(list, VERDICT_BAD, "run directory", "Mode 0755: else programs do not believe the daemon there.", "%s: others can write in it", dir);
	else if (stat(path, &sock) < 0)
		verdict(list, VERDICT_BAD, "run directory", "systemctl start iwarpd", "%s: %s", path, strerror(errno));
	else if (!(sock.st_mode & S_IWOTH) || !(st.st_mode & S_IXOTH))
		verdict(list, VERDICT_WARN, "run directory", "Mode 0755 of the directory and 0666 of the socket, as the daemon makes them.", "%s: not every user may use it", path);
	else
		verdict(list, VERDICT_OK, "run directory", NULL, "%s", dir);
}

/* What systemd says of a daemon that does not answer. */
static void unit_says(json_t *list)
{
	char err[512];
	json_t *p = NULL;

	iwctl_error_keep(err, sizeof(err));
	if (systemd_service("iwarpd.service", &p) == IWCTL_OK && strcmp(iwctl_str(p, "LoadState", ""), "not-found"))
		verdict(list, strcmp(iwctl_str(p, "ActiveState", ""), "failed") ? VERDICT_WARN : VERDICT_BAD, "iwarpd.service", "iwarpd --check; journalctl -u iwarpd; systemctl start iwarpd",
			"it is %s, its last result %s", iwctl_str(p, "ActiveState", "?"), iwctl_str(p, "Result", "?"));
	json_decref(p);
	iwctl_error_keep(NULL, 0);
}

static void daemon_says(json_t *list, json_t **status)
{
	char err[512], up[32], *line;
	int code;

	*status = NULL;
	iwctl_error_keep(err, sizeof(err));
	code = iwctl_query("Status", status);
	iwctl_error_keep(NULL, 0);
	if (code != IWCTL_OK) {
		*status = NULL;
		line = strchr(err, '\n');
		if (line)
			*line = 0;
		verdict(list, VERDICT_BAD, "daemon", "systemctl start iwarpd; journalctl -u iwarpd says why it ended.", "%s", err);
		unit_says(list);
		return;
	}
	verdict(list, VERDICT_OK, "daemon", NULL, "iwarpd %s, pid %llu, up %s", iwctl_str(*status, "version", "?"), (unsigned long long)iwctl_num(*status, "pid"),
		iwctl_duration(iwctl_num(*status, "uptime_ms"), up));
	if (strcmp(iwctl_str(*status, "version", ""), IWSOCK_VERSION))
		verdict(list, VERDICT_WARN, "versions", "Restart the daemon, or install one release of all.", "iwctl is %s, the daemon %s", IWSOCK_VERSION, iwctl_str(*status, "version", "?"));
	if (iwctl_true(*status, "system_bus"))
		verdict(list, VERDICT_OK, "system bus", NULL, "the daemon has its name there");
	else if (!iwctl_num(*status, "uid") || !strcmp(iwctl_str(*status, "run_dir", ""), "/run/iwarpd"))
		verdict(list, VERDICT_WARN, "system bus", "systemctl reload dbus; is org.iwsock.Daemon1.conf in its system.d? Only --system needs it.", "the daemon does not have its name there");
}

/* Who listens on a port, in the network namespace of a process. */
static bool listens(unsigned int pid, unsigned int port)
{
	static const char *const tables[] = { "tcp", "tcp6" };
	unsigned int at, state;
	char path[64], line[512];
	bool found = false;

	for (int i = 0; i < 2; i++) {
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%u/net/%s", pid, tables[i]);
		f = fopen(path, "re");
		while (f && fgets(line, sizeof(line), f))
			found |= sscanf(line, " %*d: %*[0-9A-F]:%x %*s %x", &at, &state) == 2 && state == 10 && at == port;
		if (f)
			fclose(f);
	}
	return found;
}

static void control_port(json_t *list, const json_t *status)
{
	unsigned int port = judge_port(status), pid = status ? (unsigned int)iwctl_num(status, "pid") : (unsigned int)getpid();
	bool open = listens(pid, port);
	char advice[160];

	if (status && open)
		verdict(list, VERDICT_OK, "control port", NULL, "%u/tcp; other hosts must reach it, and this one theirs", port);
	else if (status)
		verdict(list, VERDICT_BAD, "control port", "Have control_port in iwarpd.conf and ListenStream= in iwarpd.socket the same.", "nobody listens on %u/tcp: other hosts cannot reach the daemon", port);
	else if (open) {
		snprintf(advice, sizeof(advice), "ss -ltnp 'sport = :%u': iwarpd.socket, which starts the daemon, or somebody else?", port);
		verdict(list, VERDICT_WARN, "control port", advice, "somebody listens on %u/tcp while no daemon answers", port);
	}
}

static void limits(json_t *list, const json_t *status)
{
	unsigned int pid = (unsigned int)iwctl_num(status, "pid");
	unsigned long soft = 0, used = 0;
	char path[64];
	DIR *d;

	if (!iwctl_proc_limit(pid, "Max open files", &soft))
		return;
	snprintf(path, sizeof(path), "/proc/%u/fd", pid);
	d = opendir(path);
	while (d && readdir(d))
		used++;
	if (d)
		closedir(d);
	if (used > soft / 10 * 8)
		verdict(list, VERDICT_BAD, "limits", "Raise LimitNOFILE= ('systemctl edit iwarpd').", "the daemon has %lu of %lu files open", used, soft);
	else if (soft < FILES_MIN)
		verdict(list, VERDICT_WARN, "limits", "Raise LimitNOFILE= ('systemctl edit iwarpd').", "the daemon may have %lu open files: enough for some %lu streams", soft, soft / FILES_EACH);
	else
		verdict(list, VERDICT_OK, "limits", NULL, "the daemon may have %lu open files", soft);
}

struct kind { unsigned int n; char pids[64]; };

static void count(struct kind *k, unsigned int pid)
{
	size_t n = strlen(k->pids);

	if (k->n++ < 5)
		snprintf(k->pids + n, sizeof(k->pids) - n, " %u", pid);
}

static bool same_net(unsigned int pid)
{
	char path[64], theirs[64] = "", ours[64] = "";

	snprintf(path, sizeof(path), "/proc/%u/ns/net", pid);
	return readlink(path, theirs, sizeof(theirs) - 1) < 0 || readlink("/proc/self/ns/net", ours, sizeof(ours) - 1) < 0 || !strcmp(ours, theirs);
}

/* Every process of this network namespace that has it. */
static void programs(json_t *list)
{
	static const struct { enum iwctl_loaded loaded; enum verdict v; const char *text, *advice; } rows[] = {
		{ LOADED_BROKEN, VERDICT_BAD, "have its file mapped, but could not load it", "Their units forbid that something is executed there: 'iwctl service NAME check'." },
		{ LOADED_OFF, VERDICT_WARN, "have it loaded, and switched off", "IWSOCK_DISABLE in their environment?" },
		{ LOADED_OTHER, VERDICT_WARN, "have that of another release, or a file that was replaced since", "Restart them." },
		{ LOADED_UNKNOWN, VERDICT_WARN, "have it loaded", "Ask as root whether it is at work there." },
	};
	struct kind kinds[LOADED_UNKNOWN + 1] = { 0 };
	DIR *d = opendir("/proc");
	struct dirent *e;

	while (d && (e = readdir(d))) {
		unsigned int pid = *e->d_name >= '0' && *e->d_name <= '9' ? (unsigned int)strtoul(e->d_name, NULL, 10) : 0;
		struct iwctl_image img = pid && same_net(pid) ? iwctl_proc_image(pid) : (struct iwctl_image){ 0 };

		count(&kinds[img.loaded == LOADED_ON && img.deleted ? LOADED_OTHER : img.loaded], pid);
	}
	if (d)
		closedir(d);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (kinds[rows[i].loaded].n)
			verdict(list, rows[i].v, "programs", rows[i].advice, "%u %s:%s%s", kinds[rows[i].loaded].n, rows[i].text, kinds[rows[i].loaded].pids,
				kinds[rows[i].loaded].n > 5 ? " ..." : "");
	if (kinds[LOADED_ON].n)
		verdict(list, VERDICT_OK, "programs", NULL, "%u have " IWCTL_LIBRARY " at work", kinds[LOADED_ON].n);
	else
		verdict(list, VERDICT_WARN, "programs", "iwrun PROGRAM; for a service 'iwctl service NAME on'.", "none%s has " IWCTL_LIBRARY " at work", geteuid() ? " that you may look at" : "");
}

void judge_host(json_t *list, bool all, json_t **status)
{
	library(list);
	kernel(list);
	uring(list);
	settings(list);
	rundir(list);
	daemon_says(list, status);
	control_port(list, *status);
	if (*status) {
		limits(list, *status);
		judge_ipsec(list, *status);
		judge_devices(list, *status);
	}
	if (all)
		programs(list);
}
