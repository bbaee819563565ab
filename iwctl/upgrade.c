// SPDX-License-Identifier: MIT
/* iwctl upgrade, downgrade: ask for a connection to be upgraded now, or to be plain TCP. */
#include "iwctl.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "bus.h"
#include "out.h"

static void help(FILE *f)
{
	fputs("usage: iwctl upgrade ID...\n"
	      "       iwctl downgrade ID...\n\n"
	      "upgrade: try now what would be tried again later, and forget an earlier downgrade. The program at the other end has to propose it, too.\n"
	      "downgrade: plain TCP, and no more tries. A relayed connection goes back at one of its program's next calls; one that runs over iWARP,\n"
	      "or joins two programs of this host, stays as it is.\n"
	      "ID is what iwctl streams shows. Root and the daemon's user may ask for everybody's, others for their own.\n\n"
	      "  -j, --json\n"
	      "  -h, --help\n"
	      "\nExit code: 0 all were asked for, 1 one was not.\n", f);
}

static void show(const json_t *s, const char *what)
{
	if (iwctl_true(s, "asked"))
		printf("%s asked for: %s, %s (pid %llu), %s - %s, now %s\n", what, iwctl_str(s, "id", "?"), iwctl_str(s, "program", "?"),
		       (unsigned long long)iwctl_num(s, "pid"), iwctl_str(s, "local", "?"), iwctl_str(s, "peer", "?"), iwctl_str(s, "state", "?"));
	else
		iwctl_error("%s: no %s: %s", iwctl_str(s, "id", "?"), what, iwctl_str(s, "why", "?"));
}

int upgrade_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
	};
	const char *what = argv[0];
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
	if (optind == argc) {
		help(stderr);
		return IWCTL_USAGE;
	}
	code = iwctl_by_ids(strcmp(what, "upgrade") ? "Downgrade" : "Upgrade", argv + optind, &list);
	return code == IWCTL_OK ? iwctl_result(list, "asked", show, what) : code;
}
