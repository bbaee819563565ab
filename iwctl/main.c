// SPDX-License-Identifier: MIT
/* iwctl: shows what iwarpd does with whose connections, and why. Options and the table of sub-commands. */
#include "iwctl.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "out.h"

struct iwctl iwctl;

static const struct command {
	const char *name, *args, *what;
	int (*run)(int argc, char **argv);
	bool own;	/* has options of its own: everything behind its name is its */
} commands[] = {
	{ "status", "", "the daemon, its settings and totals", status_main, false },
	{ "streams", "[OPTION...]", "every connection: transport, octets, messages by RDMAP operation; see iwctl streams --help", lists_main, true },
	{ "top", "[OPTION...]", "octets and messages per second of each program; see iwctl top --help", top_main, true },
	{ "metrics", "[OPTION...]", "totals, peers and reasons as OpenMetrics; see iwctl metrics --help", metrics_main, true },
	{ "events", "[OPTION...]", "what happens, as it happens, a line each; see iwctl events --help", events_main, true },
	{ "why", "PID|PID/FD|HOST:PORT", "why a connection is accelerated or plain TCP, in sentences", why_main, false },
	{ "check", "HOST:PORT", "probe the way to a server end to end", check_main, false },
	{ "peers", "", "other hosts: who has an iwarpd, who not and until when", lists_main, true },
	{ "devices", "", "RDMA devices of this host, and what is carried by them", lists_main, true },
	{ "stags", "", "registered memory (STags)", lists_main, true },
	{ "reasons", "", "the table of reasons with counts", lists_main, true },
	{ "check-policy", "FILE", "check an iwsock.conf", check_policy_main, false },
	{ "upgrade", "ID...", "have connections upgraded now; see iwctl upgrade --help", upgrade_main, true },
	{ "downgrade", "ID...", "have connections plain TCP; see iwctl downgrade --help", upgrade_main, true },
	{ "close", "ID...|--idle N", "end streams: by id, or those that are idle; see iwctl close --help", close_main, true },
	{ "service", "NAME on|off|check", "have a service of systemd's load the library; see iwctl service --help", service_main, true },
	{ "doctor", "[PID|UNIT|HOST:PORT]", "what acceleration needs, whether it is well, and what to do", doctor_main, true },
	{ "report", "[-o FILE]", "gather what a bug report needs into a file; see iwctl report --help", report_main, true },
	{ "rping", "-c|-s ...", "ping over RDMA, as rdma-core's rping; needs no daemon; see iwctl rping --help", rping_main, true },
};
#define COMMANDS (sizeof(commands) / sizeof(*commands))

static void help(FILE *f)
{
	fputs("usage: iwctl [--json] [--run-dir DIR | --system] COMMAND [ARGUMENT]\n\n", f);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(f, "  %-12s %-21s %s\n", commands[i].name, commands[i].args, commands[i].what);
	fputs("\n"
	      "  -j, --json         machine-readable output; names are stable\n"
	      "  -r, --run-dir DIR  where the daemon's bus.sock is; default: $IWSOCK_RUNDIR, /run/iwarpd, $XDG_RUNTIME_DIR/iwarpd\n"
	      "  -s, --system       ask over the system bus\n"
	      "  -V, --version\n"
	      "\nExit code: 0 yes, 1 no, 2 usage, 3 no daemon, 4 failed. See iwctl(8).\n", f);
}

/* The sub-command takes options of its own: ours must not be looked for behind it. */
static bool own_options(int argc, char **argv, const struct option *options)
{
	bool own = false;

	opterr = 0;
	while (getopt_long(argc, argv, "+jr:sVh", options, NULL) != -1)
		;
	for (size_t i = 0; optind < argc && i < COMMANDS; i++)
		own |= commands[i].own && !strcmp(argv[optind], commands[i].name);
	opterr = 1;
	return own;
}

bool iwctl_option(int c)
{
	switch (c) {
	case 'j': iwctl.json = true; return true;
	case 'r': iwctl.run_dir = optarg; return true;
	case 's': iwctl.system = true; return true;
	default: return false;
	}
}

int iwctl_options_fit(void)
{
	if (!iwctl.system || !iwctl.run_dir)
		return IWCTL_OK;
	iwctl_error("--system and --run-dir exclude each other");
	return IWCTL_USAGE;
}

/* IWCTL_OK: go on. -1: nothing else was asked for. */
static int options_read(int argc, char **argv, const char *letters, const struct option *options)
{
	int c;

	optind = 0;
	while ((c = getopt_long(argc, argv, letters, options, NULL)) != -1) {
		if (iwctl_option(c))
			continue;
		switch (c) {
		case 'V': puts("iwctl " IWSOCK_VERSION); return -1;
		case 'h': help(stdout); return -1;
		default: help(stderr); return IWCTL_USAGE;
		}
	}
	return iwctl_options_fit();
}

static int command_run(int argc, char **argv)
{
	for (size_t i = 0; i < COMMANDS; i++) {
		bool wants = commands[i].args[0];

		if (strcmp(argv[0], commands[i].name))
			continue;
		if (!commands[i].own && argc != 1 + wants) {
			fprintf(stderr, "usage: iwctl %s%s%s\n", commands[i].name, wants ? " " : "", commands[i].args);
			return IWCTL_USAGE;
		}
		return commands[i].run(argc, argv);
	}
	iwctl_error("no command \"%s\"; see iwctl --help", argv[0]);
	return IWCTL_USAGE;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' }, { "run-dir", required_argument, NULL, 'r' },
		{ "system", no_argument, NULL, 's' }, { "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	const char *no_color = getenv("NO_COLOR");
	bool own = own_options(argc, argv, options);
	int code;

	iwctl_out_begin();
	log_std_fds();
	iwctl.colour = isatty(STDOUT_FILENO) && !(no_color && *no_color);
	code = options_read(argc, argv, own ? "+jr:sVh" : "jr:sVh", options);
	if (code == IWCTL_OK && optind == argc) {
		help(stderr);
		code = IWCTL_USAGE;
	} else if (code == IWCTL_OK) {
		code = command_run(argc - optind, argv + optind);
	}
	return iwctl_out_end(code < 0 ? IWCTL_OK : code);
}
