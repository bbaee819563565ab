// SPDX-License-Identifier: MIT
/* iwctl top: what each program sends and receives in a second, from two looks at the counts of its streams. */
#include "iwctl.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bus.h"
#include "out.h"
#include "screen.h"

static const char *const rates[] = { "tx_bytes", "rx_bytes", "tx_messages", "rx_messages" };
#define RATES	(sizeof(rates) / sizeof(*rates))

struct look {		/* at all streams */
	uint64_t ms;
	json_t *streams;	/* by what names an end */
};

struct top {
	struct look last;
	uint64_t every_ms;
};

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void name(const json_t *s, char out[256])
{
	snprintf(out, 256, "%s %s", iwctl_str(s, "id", "?"), iwctl_str(s, "local", "?"));
}

/* tx_messages: of all kinds. */
static uint64_t counted(const json_t *s, const char *rate)
{
	static const char *const messages[] = { "sends", "writes", "immediates", "reads" };
	uint64_t sum = 0;
	char key[32];

	if (json_object_get(s, rate))
		return iwctl_num(s, rate);
	for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
		snprintf(key, sizeof(key), "%cx_%s", rate[0], messages[i]);
		sum += iwctl_num(s, key);
	}
	return sum;
}

/* ---- programs ---- */

static void more(json_t *o, const char *key, uint64_t n)
{
	n += iwctl_num(o, key);
	json_object_set_new(o, key, json_integer((json_int_t)n));
}

static json_t *program_of(json_t *programs, const json_t *s)
{
	const char *program = iwctl_str(s, "program", "?");
	json_t *p = json_object_get(programs, program);

	if (!p) {
		p = json_pack("{s:s, s:i, s:i, s:i, s:{}}", "program", program, "processes", 0, "streams", 0, "local", 0, "pids");
		json_object_set_new(programs, program, p);
	}
	return p;
}

/* What it has carried since it was looked at before; all, if it was not there then. */
static void carried(json_t *program, const json_t *s, const json_t *before)
{
	for (size_t r = 0; r < RATES; r++) {
		uint64_t now = counted(s, rates[r]), was = counted(before, rates[r]);

		more(program, rates[r], now > was ? now - was : 0);
	}
}

static void add_stream(json_t *programs, const json_t *s, const json_t *last)
{
	json_t *p = program_of(programs, s), *pids = json_object_get(p, "pids");
	char key[256];

	snprintf(key, sizeof(key), "%llu", (unsigned long long)iwctl_num(s, "pid"));
	json_object_set_new(pids, key, json_true());
	json_object_set_new(p, "processes", json_integer((json_int_t)json_object_size(pids)));
	more(p, "streams", 1);
	more(p, "local", !strcmp(iwctl_str(s, "transport", ""), "local"));
	name(s, key);
	carried(p, s, json_object_get(last, key));
}

/* One that has ended in between carried something before. */
static void add_ended(json_t *programs, const json_t *s, const json_t *last, uint64_t ms)
{
	const json_t *before;
	char key[256];

	name(s, key);
	before = json_object_get(last, key);
	if (iwctl_num(s, "since_end_ms") <= ms && (before || iwctl_num(s, "since_end_ms") + iwctl_num(s, "duration_ms") <= ms))
		carried(program_of(programs, s), s, before);
}

static int by_rate(const void *a, const void *b)
{
	json_t *const *x = a, *const *y = b;
	uint64_t m = iwctl_num(*x, "tx_bytes") + iwctl_num(*x, "rx_bytes"), n = iwctl_num(*y, "tx_bytes") + iwctl_num(*y, "rx_bytes");

	if (m != n)
		return m < n ? 1 : -1;
	return strcmp(iwctl_str(*x, "program", ""), iwctl_str(*y, "program", ""));
}

/* A list, the busiest first, with rates in the place of counts. */
static json_t *per_second(json_t *programs, uint64_t ms)
{
	size_t n = json_object_size(programs), i = 0;
	json_t **rows = calloc(n + 1, sizeof(json_t *)), *list = json_array(), *p;
	const char *key;
	char rate[32];

	json_object_foreach(programs, key, p)
		if (rows)
			rows[i++] = p;
	if (rows)
		qsort(rows, i, sizeof(json_t *), by_rate);
	for (size_t k = 0; rows && k < i; k++) {
		for (size_t r = 0; r < RATES; r++) {
			snprintf(rate, sizeof(rate), "%s_per_s", rates[r]);
			json_object_set_new(rows[k], rate, json_real((double)iwctl_num(rows[k], rates[r]) * 1000 / (double)ms));
			json_object_del(rows[k], rates[r]);
		}
		json_object_del(rows[k], "pids");
		json_array_append(list, rows[k]);
	}
	free(rows);
	json_decref(programs);
	return list;
}

/* ---- looks ---- */

static int look(struct look *l, json_t **list)
{
	char key[256];
	json_t *s;
	size_t i;
	int code = iwctl_query("Streams", list);

	if (code != IWCTL_OK)
		return code;
	l->ms = now_ms();
	l->streams = json_object();
	json_array_foreach(*list, i, s) {
		name(s, key);
		json_object_set(l->streams, key, s);
	}
	return IWCTL_OK;
}

static void print(const json_t *list)
{
	static const char *const head[] = { "PROGRAM", ">PROCESSES", ">STREAMS", ">LOCAL", ">SENT/S", ">RECEIVED/S", ">MESSAGES OUT/S", ">IN/S", NULL };
	static const unsigned char fade[] = { 0, 4, 3, 5, 0, 0, 1, 2 };
	struct table *t = table_new(head);
	char tx[16], rx[16];
	json_t *p;
	size_t i;

	json_array_foreach(list, i, p) {
		table_cell(t, PLAIN, "%s", iwctl_str(p, "program", "?"));
		table_cell(t, PLAIN, "%llu", (unsigned long long)iwctl_num(p, "processes"));
		table_cell(t, PLAIN, "%llu", (unsigned long long)iwctl_num(p, "streams"));
		table_cell(t, PLAIN, "%llu", (unsigned long long)iwctl_num(p, "local"));
		table_cell(t, PLAIN, "%s", iwctl_bytes((uint64_t)json_real_value(json_object_get(p, "tx_bytes_per_s")), tx));
		table_cell(t, PLAIN, "%s", iwctl_bytes((uint64_t)json_real_value(json_object_get(p, "rx_bytes_per_s")), rx));
		table_cell(t, PLAIN, "%.0f", json_real_value(json_object_get(p, "tx_messages_per_s")));
		table_cell(t, PLAIN, "%.0f", json_real_value(json_object_get(p, "rx_messages_per_s")));
	}
	table_fit(t, screen_width(), screen_height() - 2, fade);
	table_print(t);
}

static int show(void *arg)
{
	struct top *top = arg;
	json_t *list, *ended, *programs, *s;
	struct look now;
	uint64_t ms;
	size_t i;
	int code = look(&now, &list);

	if (code != IWCTL_OK)
		return code;
	code = iwctl_query("Ended", &ended);
	if (code != IWCTL_OK)
		goto out;
	programs = json_object();
	ms = now.ms > top->last.ms ? now.ms - top->last.ms : 1;
	json_array_foreach(list, i, s)
		add_stream(programs, s, top->last.streams);
	json_array_foreach(ended, i, s)
		add_ended(programs, s, top->last.streams, ms);
	json_decref(ended);
	programs = per_second(programs, ms);
	if (iwctl.json) {
		code = iwctl_print_json(programs);
	} else {
		print(programs);
		json_decref(programs);
	}
out:
	json_decref(list);
	json_decref(top->last.streams);
	top->last = now;
	return code;
}

static int help(bool asked)
{
	fputs("usage: iwctl top [OPTION...]\n\n"
	      "What each program sends and receives in a second over its streams, the busiest first: octets, and RDMAP messages. Those within the host are\n"
	      "not counted, since the daemon does not see their data.\n\n"
	      "  -d, --delay SECONDS  between two looks; 1\n"
	      "  -n, --count N        so many times; otherwise on a terminal until it is interrupted, elsewhere once\n"
	      "  -j, --json; -r, --run-dir DIR; -s, --system; -h, --help\n", asked ? stdout : stderr);
	return asked ? -1 : IWCTL_USAGE;
}

static int parse_count(const char *s, uint64_t *count)
{
	char *end;

	errno = 0;
	*count = strtoull(s, &end, 10);
	if (*s >= '0' && *s <= '9' && !*end && !errno && *count)
		return IWCTL_OK;
	iwctl_error("--count %s: give a number, 1 or more", s);
	return IWCTL_USAGE;
}

static int parse_delay(const char *s, uint64_t *ms)
{
	if (screen_seconds(s, ms))
		return IWCTL_OK;
	iwctl_error("--delay %s: give seconds, 0.1 to %u", s, SCREEN_SECONDS);
	return IWCTL_USAGE;
}

int top_main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "delay", required_argument, NULL, 'd' }, { "count", required_argument, NULL, 'n' }, { "help", no_argument, NULL, 'h' }, IWCTL_OPTIONS,
		{ NULL, 0, NULL, 0 },
	};
	struct top top = { .every_ms = 1000 };
	uint64_t count = !isatty(STDOUT_FILENO);
	int c, code = IWCTL_OK;
	json_t *list;

	optind = 0;
	while (code == IWCTL_OK && (c = getopt_long(argc, argv, "+d:n:h" IWCTL_LETTERS, options, NULL)) != -1) {
		if (c == 'd')
			code = parse_delay(optarg, &top.every_ms);
		else if (c == 'n')
			code = parse_count(optarg, &count);
		else if (!iwctl_option(c))
			code = help(c == 'h');
	}
	if (code == IWCTL_OK)
		code = optind < argc ? help(false) : iwctl_options_fit();
	if (code == IWCTL_OK)
		code = look(&top.last, &list);
	if (code != IWCTL_OK)
		return code;
	json_decref(list);
	screen_wait(top.every_ms);
	code = screen_loop(top.every_ms, count, show, &top);
	json_decref(top.last.streams);
	return code;
}
