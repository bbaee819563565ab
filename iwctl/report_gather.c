// SPDX-License-Identifier: MIT
/* Gathers the parts of a report in a directory of its own, each within a time limit, and packs it. */
#include "report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "file.h"
#include "iwctl.h"
#include "judge.h"
#include "library.h"
#include "out.h"
#include "redact.h"
#include "step.h"

#define TOP	 "iwsock-report"
#define STEP_MS	 3000u
#define PACK_MS	 20000u
#define PEERS	 3u		/* that are checked */
#define WORDS	 16
#define ETC	 IW_SYSCONFDIR "/iwsock"

enum cut { WHOLE, UNIT, FIREWALL };

static const char unit_state[] =
	"Id,LoadState,ActiveState,SubState,Result,NRestarts,MainPID,ExecMainStatus,MemoryCurrent,MemoryMax,TasksCurrent,TasksMax,LimitNOFILE,"
	"FileDescriptorStoreMax,NFileDescriptorStore,ActiveEnterTimestamp,FreezerState,DropInPaths";

/* A program and the part that its output is. "iwctl" is this one. */
static const struct part {
	const char *file;
	bool daemon;		/* asks it: in vain when it does not answer */
	enum cut cut;
	const char *argv[WORDS];
} parts[] = {
	{ "status.json", true, WHOLE, { "iwctl", "--json", "status" } },
	{ "streams.txt", true, WHOLE, { "iwctl", "streams" } },
	{ "streams.json", true, WHOLE, { "iwctl", "--json", "streams" } },
	{ "ended.txt", true, WHOLE, { "iwctl", "streams", "--ended" } },
	{ "ended.json", true, WHOLE, { "iwctl", "--json", "streams", "--ended" } },
	{ "peers.txt", true, WHOLE, { "iwctl", "peers" } },
	{ "peers.json", true, WHOLE, { "iwctl", "--json", "peers" } },
	{ "reasons.txt", true, WHOLE, { "iwctl", "reasons" } },
	{ "reasons.json", true, WHOLE, { "iwctl", "--json", "reasons" } },
	{ "metrics.txt", true, WHOLE, { "iwctl", "metrics" } },
	{ "metrics.json", true, WHOLE, { "iwctl", "--json", "metrics" } },
	{ "doctor.txt", false, WHOLE, { "iwctl", "doctor" } },
	{ "doctor.json", false, WHOLE, { "iwctl", "doctor", "--json" } },
	{ "iwarpd-version.txt", false, WHOLE, { "iwarpd", "--version" } },
	{ "iwarpd-settings.txt", false, WHOLE, { "iwarpd", "--check" } },
	{ "systemd-version.txt", false, WHOLE, { "systemctl", "--version" } },
	{ "packages.txt", false, WHOLE, { "dpkg-query", "-W", "iwarpd", "libiwsock", "libc6", "systemd", "liburing2", "libjansson4" } },
	{ "units.txt", false, UNIT, { "systemctl", "cat", "--no-pager", "iwarpd.service", "iwarpd.socket" } },
	{ "unit-state.txt", false, WHOLE, { "systemctl", "show", "--no-pager", "iwarpd.service", "iwarpd.socket", "-p", unit_state } },
	{ "journal.txt", false, WHOLE, { "journalctl", "-q", "--no-pager", "-o", "short-iso-precise", "-n", "500", "-u", "iwarpd.service", "-t", "iwarpd", "-t", "systemd" } },
	{ "addresses.txt", false, WHOLE, { "ip", "-s", "-d", "address" } },
	{ "routes.txt", false, WHOLE, { "ip", "route", "show", "table", "all" } },
	{ "sockets.txt", false, WHOLE, { "ss", "-s" } },
	{ "nftables.txt", false, FIREWALL, { "nft", "-s", "list", "ruleset" } },
	{ "iptables.txt", false, FIREWALL, { "iptables-save" } },
	{ "ip6tables.txt", false, FIREWALL, { "ip6tables-save" } },
};

/* Values of the kernel's. Not tcp_fastopen_key, which is a secret. */
static const char *const values[] = {
	"/proc/sys/net/ipv4/tcp_*", "/proc/sys/net/core/[rw]mem_*", "/proc/sys/net/core/somaxconn", "/proc/sys/net/core/netdev_max_backlog",
	"/proc/sys/net/core/optmem_max", "/proc/sys/net/core/default_qdisc", "/proc/sys/net/ipv4/ip_local_port_range",
	"/proc/sys/net/ipv4/ip_unprivileged_port_start", "/proc/sys/fs/file-max", "/proc/sys/fs/file-nr", "/proc/sys/fs/nr_open",
	"/proc/sys/vm/max_map_count", "/proc/sys/kernel/io_uring_*", "/proc/sys/kernel/yama/ptrace_scope",
};
#define SECRET "tcp_fastopen_key"

struct work {
	char dir[PATH_MAX];	/* with TOP in it */
	json_t *steps;
	const volatile sig_atomic_t *stop;
	bool there;		/* the daemon answers */
};

static void note(struct work *w, const char *part, const char *why)
{
	json_t *o = json_pack("{s:s, s:b}", "part", part, "ok", !why);

	if (why)
		json_object_set_new(o, "why", json_string(why));
	json_array_append_new(w->steps, o);
}

static void path_of(const struct work *w, const char *part, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%.3000s/" TOP "/%.200s", w->dir, part);
}

static FILE *part_open(const struct work *w, const char *part)
{
	char path[PATH_MAX];

	path_of(w, part, path);
	return fopen(path, "wxe");
}

static void part_text(struct work *w, const char *part, const char *text, const char *why)
{
	FILE *f = part_open(w, part);

	if (f && text)
		fputs(text, f);
	else if (f)
		fprintf(f, "%s\n", why);
	if (f)
		fclose(f);
	note(w, part, why);
}

/* ---- programs ---- */

static const char *ended(int r, unsigned int limit_ms, char why[64])
{
	if (!r)
		return NULL;
	if (r > 0)
		snprintf(why, 64, "exit status %d", r);
	else if (r == -ETIMEDOUT)
		snprintf(why, 64, "not within %u s", limit_ms / 1000);
	else if (r == -ECANCELED)
		snprintf(why, 64, "it was killed");
	else
		snprintf(why, 64, "%s", strerror(-r));
	return why;
}

/* What was written is read again, and written without what others need not know. */
static int cut_part(const char *path, enum cut cut)
{
	char *text = file_text(path, NULL), *less = NULL;
	struct stat mode = { .st_mode = 0600, .st_uid = geteuid(), .st_gid = getegid() };
	int r = -ENOMEM;

	if (text)
		less = cut == UNIT ? redact_unit(text) : redact_firewall(text, judge_port(NULL));
	if (less)
		r = file_replace(path, less, &mode);
	if (r < 0)
		unlink(path);	/* rather nothing than all */
	free(text);
	free(less);
	return r;
}

/* The words of a part, and the options of ours that go with "iwctl". */
static void words(const char *const given[], char *argv[WORDS + 4])
{
	int n = 0;

	if (!strcmp(given[0], "iwctl")) {
		argv[n++] = "/proc/self/exe";
		if (iwctl.run_dir) {
			argv[n++] = "--run-dir";
			argv[n++] = (char *)(uintptr_t)iwctl.run_dir;
		} else if (iwctl.system) {
			argv[n++] = "--system";
		}
		given++;
	}
	while (*given)
		argv[n++] = (char *)(uintptr_t)*given++;
	argv[n] = NULL;
}

static int part_run(struct work *w, const char *part, enum cut cut, const char *const given[])
{
	char path[PATH_MAX], why[64], *argv[WORDS + 4];
	int fd, r;

	path_of(w, part, path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0) {
		note(w, part, strerror(errno));
		return -errno;
	}
	words(given, argv);
	r = step_run(argv, fd, fd, STEP_MS, w->stop);
	if (r == IWCTL_NO && !strcmp(given[0], "iwctl"))
		r = 0;		/* "no" is an answer */
	ended(r, STEP_MS, why);
	/* of what was cut off at any place nothing is certain */
	if (cut != WHOLE && (r < 0 || cut_part(path, cut) < 0))
		unlink(path);
	else if (r)
		dprintf(fd, "(%s)\n", why);
	close(fd);
	note(w, part, r ? why : NULL);
	return r;
}

/* ---- what we know ourselves ---- */

static void versions(struct work *w)
{
	FILE *f = part_open(w, "versions.txt");
	char library[PATH_MAX];
	struct utsname u;

	if (f) {
		uname(&u);
		if (iwctl_library(library))
			strcpy(library, "not found");
		fprintf(f, "iwctl %s\nlibrary %s\nLinux %s %s %s\nglibc %s\n%ld processors, %ld MiB\n", IWSOCK_VERSION, library, u.release, u.version, u.machine,
			gnu_get_libc_version(), sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_PHYS_PAGES) / 256 * (sysconf(_SC_PAGESIZE) / 4096));
		fclose(f);
	}
	note(w, "versions.txt", f ? NULL : strerror(errno));
}

static void settings(struct work *w, const char *part, const char *path)
{
	char *text = file_text(path, NULL), *less = text ? redact_comments(text) : NULL;

	part_text(w, part, less, less ? NULL : strerror(errno));
	free(text);
	free(less);
}

static void sysctls(struct work *w)
{
	FILE *f = part_open(w, "sysctl.txt");

	for (size_t i = 0; f && i < sizeof(values) / sizeof(*values); i++) {
		glob_t g = { 0 };

		glob(values[i], 0, NULL, &g);
		for (size_t k = 0; k < g.gl_pathc; k++) {
			char *text = strstr(g.gl_pathv[k], SECRET) ? NULL : file_text(g.gl_pathv[k], NULL);

			if (text)
				fprintf(f, "%s: %s", g.gl_pathv[k] + strlen("/proc/sys/"), text);
			free(text);
		}
		globfree(&g);
	}
	if (f)
		fclose(f);
	note(w, "sysctl.txt", f ? NULL : strerror(errno));
}

static json_t *read_json(const struct work *w, const char *part)
{
	char path[PATH_MAX];

	path_of(w, part, path);
	return json_load_file(path, 0, NULL);
}

static void process(struct work *w)
{
	static const char *const files[] = { "limits", "status", "cgroup" };
	json_t *status = read_json(w, "status.json");
	unsigned int pid = (unsigned int)iwctl_num(status, "pid");
	char part[64], path[64];

	for (size_t i = 0; pid && i < sizeof(files) / sizeof(*files); i++) {
		char *text;

		snprintf(part, sizeof(part), "iwarpd-%s.txt", files[i]);
		snprintf(path, sizeof(path), "/proc/%u/%s", pid, files[i]);
		text = file_text(path, NULL);
		part_text(w, part, text, text ? NULL : strerror(errno));
		free(text);
	}
	json_decref(status);
}

/* The way to the first other hosts; nothing is connected to but their daemons. */
static void check_peers(struct work *w)
{
	json_t *peers = read_json(w, "peers.json"), *p;
	size_t i;

	json_array_foreach(peers, i, p) {
		const char *address = iwctl_str(p, "address", "");
		char to[128], part[32];

		if (i == PEERS)
			break;
		snprintf(to, sizeof(to), strchr(address, ':') ? "[%s]:874" : "%s:874", address);
		snprintf(part, sizeof(part), "check-%zu.txt", i + 1);
		part_run(w, part, WHOLE, (const char *const[]){ "iwctl", "check", to, NULL });
	}
	json_decref(peers);
}

static int gather(struct work *w)
{
	versions(w);
	settings(w, "iwarpd.conf", ETC "/iwarpd.conf");
	settings(w, "iwsock.conf", ETC "/iwsock.conf");
	sysctls(w);
	w->there = part_run(w, "status.txt", WHOLE, (const char *const[]){ "iwctl", "status", NULL }) == 0;
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts) && !*w->stop; i++) {
		if (parts[i].daemon && !w->there)
			part_text(w, parts[i].file, NULL, "no daemon answers: see status.txt");
		else
			part_run(w, parts[i].file, parts[i].cut, parts[i].argv);
	}
	process(w);
	check_peers(w);
	return *w->stop ? -EINTR : 0;
}

/* ---- the bundle ---- */

static void index_write(struct work *w)
{
	FILE *f = part_open(w, "index.txt");
	json_t *o;
	size_t i;

	json_array_foreach(w->steps, i, o)
		if (f)
			fprintf(f, "%-24s %s\n", iwctl_str(o, "part", "?"), iwctl_str(o, "why", "ok"));
	if (f && geteuid())
		fprintf(f, "gathered by user %u, not root\n", geteuid());
	if (f)
		fclose(f);
}

static int pack(struct work *w, int fd)
{
	char *argv[] = { "tar", "--sort=name", "--owner=0", "--group=0", "-C", w->dir, "-cz", TOP, NULL };
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC), r;

	if (null < 0)
		return -errno;
	r = step_run(argv, fd, null, PACK_MS, w->stop);
	close(null);
	if (r == -ENOENT)
		iwctl_error("tar is not there");
	return r > 0 ? -EIO : r;
}

static void clear(const char *dir)
{
	char path[PATH_MAX];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%.3000s/" TOP, dir);
	d = opendir(path);
	while (d && (e = readdir(d)))
		unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	rmdir(path);
	rmdir(dir);
}

int report_gather(int fd, json_t *steps, const volatile sig_atomic_t *stop)
{
	struct work w = { .steps = steps, .stop = stop };
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX];
	int r;

	snprintf(w.dir, sizeof(w.dir), "%.2900s/iwctl-report.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(w.dir))
		return -errno;
	snprintf(path, sizeof(path), "%.3000s/" TOP, w.dir);
	r = mkdir(path, 0700) < 0 ? -errno : gather(&w);
	if (!r) {
		index_write(&w);
		r = pack(&w, fd);
	}
	clear(w.dir);
	return r;
}
