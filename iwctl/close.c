// SPDX-License-Identifier: MIT
/* iwctl close: ends streams by id, or those that carried nothing for some time. */
#include "iwctl.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus.h"
#include "out.h"
#include "user.h"

#define IDLE_MAX 31536000u

static void help(FILE *f)
{
	fputs("usage: iwctl close ID...\n"
	      "       iwctl close --idle SECONDS [--user USER]\n\n"
	      "Ends streams that go over iWARP or are relayed: their programs see \"Software caused connection abort\", the other end a reset.\n"
	      "ID is what iwctl streams shows. Root and the daemon's user may close everybody's, others their own.\n\n"
	      "  -i, --idle SECONDS  streams whose program neither sent nor received anything for so long\n"
	      "  -u, --user USER     of these, only those of this user, name or number\n"
	      "  -j, --json\n"
	      "  -h, --help\n"
	      "\nExit code: 0 all were closed, 1 one was not, or there was none.\n", f);
}

static int usage(bool asked)
{
	help(asked ? stdout : stderr);
	return asked ? IWCTL_OK : IWCTL_USAGE;
}

static int parse_seconds(const char *s, uint64_t *ms)
{
	char *end;
	unsigned long v;

	errno = 0;
	v = strtoul(s, &end, 10);
	if (*s < '0' || *s > '9' || *end || errno || v < 1 || v > IDLE_MAX) {
		iwctl_error("--idle %s: give seconds, 1 to %u", s, IDLE_MAX);
		return IWCTL_USAGE;
	}
	*ms = (uint64_t)v * 1000;
	return IWCTL_OK;
}

static void show(const json_t *s, const char *arg)
{
	char idle[32];

	if (!iwctl_true(s, "closed")) {
		iwctl_error("%s: not closed: %s", iwctl_str(s, "id", "?"), iwctl_str(s, "why", "?"));
		return;
	}
	printf("closed %s, %s (pid %llu), %s - %s, idle %s\n", iwctl_str(s, "id", "?"), iwctl_str(s, "program", "?"),
	       (unsigned long long)iwctl_num(s, "pid"), iwctl_str(s, "local", "?"), iwctl_str(s, "peer", "?"),
	       iwctl_duration(iwctl_num(s, "idle_ms"), idle));
}

int close_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "idle", required_argument, NULL, 'i' }, { "user", required_argument, NULL, 'u' }, { "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t idle_ms = 0;
	int64_t uid = -1;
	int c, code = IWCTL_OK;
	json_t *list;

	optind = 0;
	while (code == IWCTL_OK && (c = getopt_long(argc, argv, "i:u:jh", options, NULL)) != -1) {
		if (c == 'i')
			code = parse_seconds(optarg, &idle_ms);
		else if (c == 'u')
			code = iwctl_user("--user", optarg, &uid);
		else if (c == 'j')
			iwctl.json = true;
		else
			return usage(c == 'h');
	}
	if (code == IWCTL_OK && (idle_ms ? optind < argc : optind == argc || uid >= 0))
		return usage(false);
	if (code == IWCTL_OK)
		code = idle_ms ? iwctl_close_idle(idle_ms, uid, &list) : iwctl_by_ids("Close", argv + optind, &list);
	if (code != IWCTL_OK)
		return code;
	if (!iwctl.json && !json_array_size(list))
		printf("No stream is idle for so long.\n");
	return iwctl_result(list, "closed", show, NULL);
}
