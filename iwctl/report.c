// SPDX-License-Identifier: MIT
/* iwctl report: what a bug report needs, in one file, without data, arguments or environments of programs. */
#include "iwctl.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "out.h"
#include "report.h"

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	stop = sig;
}

static void help(FILE *f)
{
	fputs("usage: iwctl report [-o FILE]\n\n"
	      "Gathers what a bug report needs into a .tar.gz that only you can read, in a few seconds: versions, what the other commands of iwctl\n"
	      "say (as text and as JSON), settings and units of iwarpd, its last lines in the journal, limits, interfaces, sysctls, firewall rules about\n"
	      "the control port. Not in it: data, arguments and environments of programs, comments in settings. Root sees more.\n\n"
	      "  -o, --output FILE  which must not be there; default: iwsock-report-TIME.tar.gz here\n"
	      "  -j, --json\n"
	      "  -r, --run-dir DIR\n"
	      "  -h, --help\n"
	      "\nExit code: 0 it was written, 4 it was not.\n", f);
}

static void say_what(const char *file)
{
	printf("Gathering into %s, for a few seconds:\n"
	       "  versions; status, streams, peers, reasons, metrics, doctor and check; settings and units of iwarpd, its last lines in the\n"
	       "  journal, its limits; interfaces, routes, sysctls of TCP, firewall rules about the control port.\n"
	       "Not in it: data, arguments and environments of programs, comments in settings.\n"
	       "In it: addresses and ports, names of programs, numbers of processes and users. Look at it before you pass it on.\n", file);
	fflush(stdout);
}

static int say_end(const char *file, json_t *steps)
{
	unsigned int missing = 0;
	struct stat st = { 0 };
	json_t *s;
	size_t i;

	stat(file, &st);
	if (iwctl.json)
		return iwctl_print_json(json_pack("{s:s, s:I, s:b, s:o}", "file", file, "octets", (json_int_t)st.st_size, "root", geteuid() == 0, "parts", steps));
	json_array_foreach(steps, i, s) {
		if (iwctl_true(s, "ok"))
			continue;
		if (!missing++)
			printf("Not, or not in full:\n");
		printf("  %-24s  %s\n", iwctl_str(s, "part", "?"), iwctl_str(s, "why", "?"));
	}
	if (geteuid())
		printf("Not as root: other users' connections, the journal, firewall rules may be missing.\n");
	printf("Wrote %s, %llu octets.\n", file, (unsigned long long)st.st_size);
	json_decref(steps);
	return IWCTL_OK;
}

/* What is called here is not to have our library, speaks English, and finds what administrators have. */
static void environment(void)
{
	const char *path = getenv("PATH");
	char more[4096];

	unsetenv("LD_PRELOAD");
	setenv("LC_ALL", "C.UTF-8", 1);
	setenv("SYSTEMD_COLORS", "0", 1);
	setenv("SYSTEMD_PAGER", "", 1);
	setenv("NO_COLOR", "1", 1);
	if (snprintf(more, sizeof(more), "%s:/usr/sbin:/sbin", path && *path ? path : "/usr/bin:/bin") < (int)sizeof(more))
		setenv("PATH", more, 1);
}

static int gather(const char *file)
{
	struct sigaction sa = { .sa_handler = on_signal };
	int fd, r;
	json_t *steps;

	fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0) {
		iwctl_error("%s: %s", file, strerror(errno));
		return IWCTL_FAILED;
	}
	fchmod(fd, 0600);
	if (!iwctl.json)
		say_what(file);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	environment();
	steps = json_array();
	r = report_gather(fd, steps, &stop);
	if (close(fd) < 0 && !r)
		r = -errno;
	if (!r)
		return say_end(file, steps);
	unlink(file);
	json_decref(steps);
	iwctl_error("%s: %s", file, r == -EINTR ? "interrupted" : strerror(-r));
	return IWCTL_FAILED;
}

int report_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "output", required_argument, NULL, 'o' }, { "help", no_argument, NULL, 'h' }, IWCTL_OPTIONS, { NULL, 0, NULL, 0 },
	};
	const char *file = NULL;
	char name[64];
	time_t now = time(NULL);
	struct tm tm;
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, "o:h" IWCTL_LETTERS, options, NULL)) != -1) {
		if (c == 'o') {
			file = optarg;
		} else if (!iwctl_option(c)) {
			help(c == 'h' ? stdout : stderr);
			return c == 'h' ? IWCTL_OK : IWCTL_USAGE;
		}
	}
	if (optind < argc) {
		help(stderr);
		return IWCTL_USAGE;
	}
	c = iwctl_options_fit();
	if (c != IWCTL_OK)
		return c;
	strftime(name, sizeof(name), "iwsock-report-%Y%m%d-%H%M%S.tar.gz", localtime_r(&now, &tm));
	return gather(file ? file : name);
}
