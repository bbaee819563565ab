// SPDX-License-Identifier: MIT
/* iwctl doctor: goes through everything that acceleration needs, on this host, for a process, a service or the way to a server. */
#include "iwctl.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "judge.h"
#include "out.h"
#include "proc.h"
#include "systemd.h"
#include "unit.h"
#include "verdict.h"

#define PATIENCE_MS 1000

static void help(FILE *f)
{
	fputs("usage: iwctl doctor [PID|UNIT|HOST:PORT]\n\n"
	      "Goes through everything that acceleration needs, and says of each whether it is well; where not, what to do. It needs no daemon.\n"
	      "Without argument: this host. UNIT: a service, as redis-server or postgresql@15-main.\n\n"
	      "  -j, --json\n"
	      "  -h, --help\n"
	      "\nExit code: 0 nothing is bad, 1 something is.\n", f);
}

static bool of_process(const json_t *c, const void *arg)
{
	return iwctl_num(c, "pid") == *(const unsigned int *)arg;
}

static void process(json_t *list, unsigned int pid, const json_t *status)
{
	char *unit = systemd_unit_of(pid), advice[512] = "";

	if (unit && iwctl_proc_image(pid).loaded < LOADED_ON)
		snprintf(advice, sizeof(advice), "It is of %.200s: iwctl service %.200s check", unit, unit);
	judge_process(list, pid, *advice ? advice : NULL);
	judge_policy(list, pid);
	if (status)
		judge_known(list, of_process, &pid);
	free(unit);
}

static int service(json_t *list, const char *name, const json_t *status)
{
	struct unit u;
	unsigned int pid;
	int code = unit_find(&u, name);

	if (code != IWCTL_OK)
		return code;
	judge_unit(list, &u);
	pid = (unsigned int)iwctl_num(u.p, "MainPID");
	if (pid && !u.template) {
		judge_policy(list, pid);
		if (status)
			judge_known(list, of_process, &pid);
	}
	unit_free(&u);
	return IWCTL_OK;
}

static int look(json_t *list, const char *what)
{
	char host[IWCTL_HOST_MAX];
	json_t *status;
	uint16_t port;
	int code = IWCTL_OK;

	if (what && !what[strspn(what, "0123456789")] && (strlen(what) > 7 || !atoi(what))) {
		iwctl_error("\"%s\" is not the number of a process", what);
		return IWCTL_USAGE;
	}
	judge_host(list, !what, &status);
	if (!what) {
		if (status)
			judge_known(list, NULL, NULL);
	} else if (!what[strspn(what, "0123456789")]) {
		process(list, (unsigned int)atoi(what), status);
	} else if (strchr(what, ':')) {
		if (iwctl_split_addr(what, host, &port) && port) {
			judge_way(list, host, port, status);
		} else {
			iwctl_error("\"%s\" is neither PID, UNIT nor HOST:PORT; an IPv6 address goes into brackets: [2001:db8::1]:80", what);
			code = IWCTL_USAGE;
		}
	} else {
		code = service(list, what, status);
	}
	json_decref(status);
	return code;
}

int doctor_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	json_t *list;
	int c, code;

	optind = 0;
	while ((c = getopt_long(argc, argv, "jh", options, NULL)) != -1) {
		if (c != 'j') {
			help(c == 'h' ? stdout : stderr);
			return c == 'h' ? IWCTL_OK : IWCTL_USAGE;
		}
		iwctl.json = true;
	}
	if (optind < argc - 1) {
		help(stderr);
		return IWCTL_USAGE;
	}
	iwctl.patience_ms = PATIENCE_MS;
	list = json_array();
	code = look(list, argv[optind]);
	if (code == IWCTL_OK)
		return verdicts_end(list, argv[optind] ? argv[optind] : "this host");
	json_decref(list);
	return code;
}
