// SPDX-License-Identifier: MIT
/* iwctl why: explains each connection of a process, a descriptor or an address in sentences. */
#include "iwctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "bus.h"
#include "out.h"
#include "proc.h"
#include "proto/reason.h"

struct wanted {
	bool process;
	unsigned int pid;
	int fd;			/* -1: any */
	struct iwctl_place place;
};

static bool parse_process(const char *s, struct wanted *w)
{
	char *end;
	unsigned long v;

	if (*s < '0' || *s > '9')
		return false;
	v = strtoul(s, &end, 10);
	if (v == 0 || v > 4194304 || (*end && *end != '/'))
		return false;
	w->process = true;
	w->pid = (unsigned int)v;
	w->fd = -1;
	if (!*end)
		return true;
	if (end[1] < '0' || end[1] > '9')
		return false;
	v = strtoul(end + 1, &end, 10);
	w->fd = (int)v;
	return !*end && v <= 1 << 30;
}

static bool matches(const struct wanted *w, const json_t *s)
{
	if (w->process)
		return iwctl_num(s, "pid") == w->pid && (w->fd < 0 || json_integer_value(json_object_get(s, "fd")) == w->fd);
	return iwctl_place_matches(&w->place, iwctl_str(s, "peer", NULL)) || iwctl_place_matches(&w->place, iwctl_str(s, "local", NULL));
}

/* The text of a reason stands with the daemon, whose table may be newer than ours; of what is not in it, ours. */
static void add_text(json_t *s, const json_t *reasons, unsigned int number, const char *key, const char *what, const char *ours)
{
	json_t *r;
	size_t i;

	json_object_set_new(s, key, json_string(ours));
	json_array_foreach(reasons, i, r)
		if (iwctl_num(r, "reason_number") == number)
			json_object_set(s, key, json_object_get(r, what));
}

static void add_texts(json_t *s, const json_t *reasons)
{
	unsigned int number = (unsigned int)iwctl_num(s, "reason_number"), theirs = (unsigned int)iwctl_num(s, "their_reason_number");

	add_text(s, reasons, number, "sentence", "sentence", iw_reason_sentence(number));
	add_text(s, reasons, number, "advice", "advice", iw_reason_advice(number));
	if (json_object_get(s, "their_reason"))
		add_text(s, reasons, theirs, "their_sentence", "sentence", iw_reason_sentence(theirs));
}

static void explain_good(const json_t *s)
{
	char tx[16], rx[16];

	if (!strcmp(iwctl_str(s, "transport", ""), "local"))
		printf("  It joins two programs of this host directly; the daemon is not in the way of the data.\n");
	else if (!strcmp(iwctl_str(s, "transport", ""), "pending"))
		printf("  It is being switched at this moment.\n");
	else
		printf("  It runs over iWARP on its own TCP connection: %s sent, %s received, as %llu/%llu Sends, %llu/%llu RDMA Writes,\n"
		       "  %llu/%llu Immediates and %llu/%llu RDMA Reads (sent/received).\n",
		       iwctl_bytes(iwctl_num(s, "tx_bytes"), tx), iwctl_bytes(iwctl_num(s, "rx_bytes"), rx),
		       (unsigned long long)iwctl_num(s, "tx_sends"), (unsigned long long)iwctl_num(s, "rx_sends"),
		       (unsigned long long)iwctl_num(s, "tx_writes"), (unsigned long long)iwctl_num(s, "rx_writes"),
		       (unsigned long long)iwctl_num(s, "tx_immediates"), (unsigned long long)iwctl_num(s, "rx_immediates"),
		       (unsigned long long)iwctl_num(s, "tx_reads"), (unsigned long long)iwctl_num(s, "rx_reads"));
}

/* What it was before, and since when it is what it is. */
static void explain_past(const json_t *s)
{
	char ago[32], sum[16], tx[16], rx[16];

	if (!json_object_get(s, "since_proposal_ms"))
		return;
	printf("  %s %s ago, after %llu calls and %s octets", json_object_get(s, "age_ms") ? "Plain TCP until it was proposed" : "Proposed", iwctl_duration(iwctl_num(s, "since_proposal_ms"), ago),
	       (unsigned long long)iwctl_num(s, "proposed_calls"), iwctl_bytes(iwctl_num(s, "proposed_octets"), sum));
	if (json_object_get(s, "age_ms"))
		printf("; switched %s ago", iwctl_duration(iwctl_num(s, "age_ms"), ago));
	if (json_object_get(s, "since_upgrade_ms"))
		printf("; upgraded %s ago", iwctl_duration(iwctl_num(s, "since_upgrade_ms"), ago));
	if (iwctl_num(s, "upgraded_at_tx") || iwctl_num(s, "upgraded_at_rx"))
		printf(", at octet %s sent and %s received", iwctl_bytes(iwctl_num(s, "upgraded_at_tx"), tx),
		       iwctl_bytes(iwctl_num(s, "upgraded_at_rx"), rx));
	printf(".\n");
	if (json_object_get(s, "congestion") && strcmp(iwctl_str(s, "congestion", ""), iwctl_str(s, "congestion_told", "")))
		printf("  TCP below it has %s in the place of %s, which paces its segments (keep_congestion in iwarpd.conf(5)).\n",
		       iwctl_str(s, "congestion", "?"), iwctl_str(s, "congestion_told", "?"));
	if (iwctl_num(s, "went_back"))
		printf("  It was switched and went back %llu times, since the other end did not come.\n", (unsigned long long)iwctl_num(s, "went_back"));
	if (json_object_get(s, "attempt_failed"))
		printf("  Attempts to upgrade the wire: %llu; the last that failed: %s.\n", (unsigned long long)iwctl_num(s, "attempts"),
		       iwctl_str(s, "attempt_failed", "?"));
}

static void explain_plain(const json_t *s)
{
	const char *advice = iwctl_str(s, "advice", "");

	printf("  Reason %llu, %s: %s\n", (unsigned long long)iwctl_num(s, "reason_number"), iwctl_str(s, "reason", "?"),
	       iwctl_str(s, "sentence", ""));
	if (json_object_get(s, "their_reason"))
		printf("  Theirs is %llu, %s: %s\n", (unsigned long long)iwctl_num(s, "their_reason_number"), iwctl_str(s, "their_reason", "?"),
		       iwctl_str(s, "their_sentence", ""));
	if (*advice)
		printf("  %s\n", advice);
	if (!strcmp(iwctl_str(s, "state", ""), "relay"))
		printf("  Until then its octets are relayed by the daemon.\n");
}

static void explain(const json_t *s)
{
	const char *transport = iwctl_str(s, "transport", "?");
	bool plain = !strcmp(transport, "tcp");

	printf("%s %s -> %s  %s[%llu] fd %lld, %s: %s%s%s\n", !strcmp(iwctl_str(s, "side", ""), "client") ? "to  " : "from",
	       iwctl_str(s, "local", "-"), iwctl_str(s, "peer", "-"), iwctl_str(s, "program", "?"), (unsigned long long)iwctl_num(s, "pid"),
	       (long long)json_integer_value(json_object_get(s, "fd")), iwctl_str(s, "side", "?"), iwctl_colour(plain ? WARN : GOOD),
	       plain ? "plain TCP" : transport, iwctl_colour(PLAIN));
	if (plain)
		explain_plain(s);
	else
		explain_good(s);
	explain_past(s);
}

static int parse(const char *arg, struct wanted *w)
{
	if (parse_process(arg, w))
		return IWCTL_OK;
	return iwctl_place_parse(arg, "PID, PID/FD, HOST nor HOST:PORT", &w->place);
}

static json_t *nothing(const struct wanted *w, const char *arg, uint64_t uptime_ms)
{
	char s[IWCTL_HOST_MAX + 128];

	if (w->process)
		return iwctl_proc_why(w->pid, w->fd, uptime_ms);
	snprintf(s, sizeof(s), "No program with the library has a connection with %.250s. 'iwctl check' tells whether one would be accelerated.",
		 arg);
	return json_pack("[s]", s);
}

int why_main(int argc, char **argv)
{
	struct wanted w = { 0 };
	json_t *list = NULL, *reasons = NULL, *status = NULL, *found, *notes, *s;
	size_t i, n;
	int code = parse(argv[1], &w);

	if (code == IWCTL_OK)
		code = iwctl_connections(&list);
	if (code == IWCTL_OK)
		code = iwctl_query("Reasons", &reasons);
	if (code == IWCTL_OK)
		code = iwctl_query("Status", &status);
	if (code != IWCTL_OK)
		goto out;
	found = json_array();
	json_array_foreach(list, i, s) {
		if (!matches(&w, s))
			continue;
		add_texts(s, reasons);
		json_array_append(found, s);
	}
	n = json_array_size(found);
	notes = n ? json_array() : nothing(&w, argv[1], iwctl_num(status, "uptime_ms"));
	if (w.process && w.fd < 0)
		iwctl_proc_young(notes, w.pid);
	if (iwctl.json) {
		code = iwctl_print_json(json_pack("{s:o, s:o}", "connections", found, "notes", notes));
	} else {
		json_array_foreach(found, i, s)
			explain(s);
		json_array_foreach(notes, i, s)
			printf("%s\n", json_string_value(s));
		json_decref(found);
		json_decref(notes);
	}
	if (code == IWCTL_OK && !n)
		code = IWCTL_NO;
out:
	json_decref(list);
	json_decref(reasons);
	json_decref(status);
	return code;
}
