// SPDX-License-Identifier: MIT
/* iwctl events: what the daemon tells of as it happens, a line each. */
#include "iwctl.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bus.h"
#include "out.h"

static int help(bool asked)
{
	fputs("usage: iwctl events [OPTION...]\n\n"
	      "What happens, as it happens, a line each, until it is interrupted: connections that are upgraded, that end afterwards, and that stay\n"
	      "plain TCP; and what becomes known of other hosts. Root and the daemon's user see everybody's connections, others their own.\n\n"
	      "  -n, --count N           end after so many\n"
	      "  -j, --json              an object each; -r, --run-dir DIR; -s, --system; -h, --help\n"
	      "\nExit code: 3 when the daemon ends.\n", asked ? stdout : stderr);
	return asked ? -1 : IWCTL_USAGE;
}

static void show_who(const json_t *o)
{
	printf("%s (pid %" PRIu64 "), %s - %s", iwctl_str(o, "program", "?"), iwctl_num(o, "pid"), iwctl_str(o, "local", "?"), iwctl_str(o, "peer", "?"));
}

static void show_upgraded(const json_t *o)
{
	char after[32];

	printf("%s, ", iwctl_str(o, "id", "?"));
	show_who(o);
	printf(": %s", iwctl_str(o, "transport", "?"));
	if (json_object_get(o, "since_proposal_ms"))
		printf(", %s after it was proposed", iwctl_duration(iwctl_num(o, "since_proposal_ms"), after));
}

static void show_ended(const json_t *o)
{
	char tx[16], rx[16], after[32];

	printf("%s, ", iwctl_str(o, "id", "?"));
	show_who(o);
	printf(": %s", iwctl_str(o, "how", "?"));
	if (json_object_get(o, "error"))
		printf(" (%s)", iwctl_str(o, "error", "?"));
	printf(" after %s", iwctl_duration(iwctl_num(o, "duration_ms"), after));
	if (json_object_get(o, "tx_bytes"))
		printf(", %s sent, %s received", iwctl_bytes(iwctl_num(o, "tx_bytes"), tx), iwctl_bytes(iwctl_num(o, "rx_bytes"), rx));
}

static void show_plain(const json_t *o)
{
	show_who(o);
	printf(": %s", iwctl_str(o, "reason", "?"));
	if (json_object_get(o, "their_reason"))
		printf(", there %s", iwctl_str(o, "their_reason", "?"));
}

static void show_peer(const json_t *o)
{
	const char *state = iwctl_str(o, "state", "?");

	printf("%s: %s, was %s", iwctl_str(o, "address", "?"), state, iwctl_str(o, "old_state", "?"));
	if (!strcmp(state, "plain"))
		printf(": %s", iwctl_str(o, "reason", "?"));
}

static void show_missed(const json_t *o)
{
	printf("%" PRIu64 " that happened were not told", iwctl_num(o, "missed"));
}

/* Signals of the daemon, and what they are called here. */
static const struct kind {
	const char *signal, *name;
	enum colour colour;
	void (*show)(const json_t *o);
} kinds[] = {
	{ "StreamUpgraded", "upgraded", GOOD, show_upgraded }, { "StreamEnded", "ended", PLAIN, show_ended }, { "Fallback", "plain", WARN, show_plain },
	{ "PeerChanged", "peer", PLAIN, show_peer }, { "Missed", "missed", BAD, show_missed },
};

static void show(const struct kind *k, const json_t *o)
{
	time_t now = time(NULL);
	struct tm tm;
	char at[16];

	strftime(at, sizeof(at), "%H:%M:%S", localtime_r(&now, &tm));
	printf("%s %s%-8s%s  ", at, iwctl_colour(k->colour), k->name, iwctl_colour(PLAIN));
	k->show(o);
	putchar('\n');
}

static void show_json(const struct kind *k, json_t *o)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	json_object_set_new(o, "event", json_string(k->name));
	json_object_set_new(o, "time_ms", json_integer((json_int_t)now.tv_sec * 1000 + now.tv_nsec / 1000000));
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
}

/* *left: 0 is no limit. One of a later release is passed over. */
static int came(const char *signal, json_t *what, void *arg)
{
	unsigned long *left = arg;
	bool last = false;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (strcmp(kinds[i].signal, signal))
			continue;
		if (iwctl.json)
			show_json(&kinds[i], what);
		else
			show(&kinds[i], what);
		last = *left && !--*left;
	}
	json_decref(what);
	if (fflush(stdout))
		return IWCTL_FAILED;
	return last ? IWCTL_LISTENED : IWCTL_OK;
}

static int parse_count(const char *s, unsigned long *n)
{
	char *end;

	errno = 0;
	*n = strtoul(s, &end, 10);
	if (*s >= '0' && *s <= '9' && !*end && !errno && *n)
		return IWCTL_OK;
	iwctl_error("--count %s: give a number, from 1 on", s);
	return IWCTL_USAGE;
}

int events_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "count", required_argument, NULL, 'n' }, { "help", no_argument, NULL, 'h' }, IWCTL_OPTIONS, { NULL, 0, NULL, 0 },
	};
	int c, code = IWCTL_OK;
	unsigned long left = 0;

	optind = 0;
	while (code == IWCTL_OK && (c = getopt_long(argc, argv, "n:h" IWCTL_LETTERS, options, NULL)) != -1) {
		if (c == 'n')
			code = parse_count(optarg, &left);
		else if (!iwctl_option(c))
			code = help(c == 'h');
	}
	if (code == IWCTL_OK)
		code = optind < argc ? help(false) : iwctl_options_fit();
	if (code != IWCTL_OK)
		return code < 0 ? IWCTL_OK : code;
	return iwctl_listen(came, &left);
}
