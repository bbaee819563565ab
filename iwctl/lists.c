// SPDX-License-Identifier: MIT
/* iwctl streams, peers, devices, stags, reasons: lists of the daemon as columns. What a list shows is in its table. */
#include "iwctl.h"

#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus.h"
#include "devices.h"
#include "filter.h"
#include "out.h"
#include "screen.h"

#define COLUMNS	24u

struct column {
	const char *head;	/* '>' in front: to the right */
	void (*cell)(struct table *t, enum colour c, const json_t *row, const char *key);
	const char *key;	/* of --json */
	unsigned char fade;	/* the highest falls away first where the terminal is too narrow; 0 never */
};

struct listing {
	const char *name;
	int (*query)(json_t **out);
	const char *method;	/* where there is no query */
	enum colour (*colour)(const json_t *row);
	struct column columns[COLUMNS];
	const struct column *more;	/* shown when they are asked for; ends with no head; or NULL */
};

static unsigned long long num(const json_t *row, const char *key)
{
	return iwctl_num(row, key);
}

static void nothing(struct table *t)
{
	table_cell(t, DIM, "-");
}

/* ---- cells ---- */

static void text(struct table *t, enum colour c, const json_t *row, const char *key)
{
	table_cell(t, c, "%s", iwctl_str(row, key, "-"));
}

/* What is not there is not shown to everybody, or not known. */
static void number(struct table *t, enum colour c, const json_t *row, const char *key)
{
	if (json_object_get(row, key))
		table_cell(t, c, "%llu", num(row, key));
	else
		nothing(t);
}

static void descriptor(struct table *t, enum colour c, const json_t *row, const char *key)
{
	if (json_integer_value(json_object_get(row, key)) < 0)
		nothing(t);
	else
		number(t, c, row, key);
}

static void in_words(struct table *t, enum colour c, const json_t *row, const char *key, char *(*words)(uint64_t n, char *buf))
{
	char s[32];

	if (json_object_get(row, key))
		table_cell(t, c, "%s", words(iwctl_num(row, key), s));
	else
		nothing(t);
}

static void duration(struct table *t, enum colour c, const json_t *row, const char *key)
{
	in_words(t, c, row, key, iwctl_duration);
}

static void size(struct table *t, enum colour c, const json_t *row, const char *key)
{
	in_words(t, c, row, key, iwctl_bytes);
}

/* Sent/received: of "sends" tx_sends and rx_sends. */
static bool both(const json_t *row, const char *key, uint64_t *tx, uint64_t *rx)
{
	char name[32];

	snprintf(name, sizeof(name), "tx_%s", key);
	if (!json_object_get(row, name))
		return false;
	*tx = iwctl_num(row, name);
	name[0] = 'r';
	*rx = iwctl_num(row, name);
	return true;
}

static void count(struct table *t, enum colour c, const json_t *row, const char *key)
{
	uint64_t tx, rx;

	if (both(row, key, &tx, &rx))
		table_cell(t, c, "%llu/%llu", (unsigned long long)tx, (unsigned long long)rx);
	else
		nothing(t);
}

static void id(struct table *t, enum colour c, const json_t *row, const char *key)
{
	const char *s = iwctl_str(row, key, NULL);

	if (s)
		table_cell(t, c, "%016llx", strtoull(s, NULL, 16));
	else
		nothing(t);
}

static void octets(struct table *t, enum colour c, const json_t *row, const char *key)
{
	char a[16], b[16];
	uint64_t tx, rx;

	if (both(row, key, &tx, &rx))
		table_cell(t, c, "%s/%s", iwctl_bytes(tx, a), iwctl_bytes(rx, b));
	else
		nothing(t);
}

/* Or why not. */
static void used(struct table *t, enum colour c, const json_t *row, const char *key)
{
	table_cell(t, c, "%s", iwctl_str(row, key, "yes"));
}

/* Of a connection its transport, of a host its state. */
static void verdict(struct table *t, enum colour c, const json_t *row, const char *key)
{
	const char *s = iwctl_str(row, key, "?");

	if (!strcmp(s, "iwarp") || !strcmp(s, "local"))
		c = GOOD;
	else if (!strcmp(s, "tcp") || !strcmp(s, "plain"))
		c = WARN;
	table_cell(t, c, "%s", s);
}

static void reason(struct table *t, enum colour c, const json_t *row, const char *key)
{
	const char *s = iwctl_str(row, key, "?");

	table_cell(t, c, "%s", strcmp(s, "accelerated") ? s : "");
}

static void error(struct table *t, enum colour c, const json_t *row, const char *key)
{
	table_cell(t, c, "%s", iwctl_str(row, key, ""));
}

static void sessions(struct table *t, enum colour c, const json_t *row, const char *key)
{
	bool in = iwctl_true(row, "session_in"), out = iwctl_true(row, "session_out");

	table_cell(t, c, "%s", in && out ? "both" : in ? "theirs" : out ? "ours" : "-");
}

static void stream(struct table *t, enum colour c, const json_t *row, const char *key)
{
	const char *id = iwctl_str(row, key, "0");

	table_cell(t, c, "%s", strcmp(id, "0") ? id : "control");
}

/* ---- lists ---- */

static enum colour by_count(const json_t *row)
{
	if (!iwctl_num(row, "as_client") && !iwctl_num(row, "as_server"))
		return DIM;
	return iwctl_num(row, "reason_number") ? WARN : GOOD;
}

static enum colour by_use(const json_t *row)
{
	return iwctl_true(row, "usable") ? GOOD : DIM;
}

static const struct column more[] = {
	{ ">USER", number, "uid", 0 }, { ">AGE", duration, "age_ms", 0 }, { "DEVICE", text, "device", 0 }, { NULL, NULL, NULL, 0 },
};

static const struct listing ended = {
	"streams --ended", NULL, "Ended", NULL, {
		{ ">AGO", duration, "since_end_ms", 4 }, { ">PID", number, "pid", 5 }, { "PROGRAM", text, "program", 1 }, { "LOCAL", text, "local", 9 },
		{ "SIDE", text, "side", 12 }, { "PEER", text, "peer", 0 }, { "TRANSPORT", verdict, "transport", 7 }, { ">LASTED", duration, "duration_ms", 6 },
		{ ">BYTES", octets, "bytes", 3 }, { ">SENDS", count, "sends", 13 }, { ">WRITES", count, "writes", 14 }, { ">FPDUS", count, "fpdus", 15 },
		{ "ID", id, "id", 10 }, { "HOW", text, "how", 2 }, { "ERROR", error, "error", 8 } }, more
};

static const struct listing lists[] = {
	{ "streams", iwctl_connections, NULL, NULL, {
		{ ">PID", number, "pid", 4 }, { "PROGRAM", text, "program", 1 }, { ">FD", descriptor, "fd", 12 }, { "LOCAL", text, "local", 9 },
		{ "SIDE", text, "side", 13 }, { "PEER", text, "peer", 0 }, { "TRANSPORT", verdict, "transport", 2 }, { "STATE", text, "state", 10 },
		{ "PATH", text, "path", 8 }, { ">IDLE", duration, "idle_ms", 11 }, { ">BYTES", octets, "bytes", 5 }, { ">SENDS", count, "sends", 15 }, { ">WRITES", count, "writes", 16 },
		{ ">IMMEDIATES", count, "immediates", 18 }, { ">READS", count, "reads", 17 }, { ">FPDUS", count, "fpdus", 14 }, { "ID", id, "id", 7 },
		{ "REASON", reason, "reason", 3 } }, more },
	{ "peers", NULL, "Peers", NULL, {
		{ "ADDRESS", text, "address", 0 }, { "STATE", verdict, "state", 1 }, { "SESSIONS", sessions, "", 4 }, { ">STREAMS", number, "streams", 2 },
		{ ">EXPIRES", duration, "expires_in_ms", 5 }, { "REASON", reason, "reason", 3 } }, NULL },
	{ "devices", iwctl_devices, NULL, by_use, {
		{ "DEVICE", text, "device", 0 }, { "KIND", text, "kind", 4 }, { "INTERFACE", text, "interface", 2 }, { "STATE", text, "state", 1 },
		{ ">STREAMS", number, "streams", 3 }, { ">CARRIED", number, "carried", 5 }, { ">SENDS", count, "sends", 6 }, { ">WRITTEN", size, "tx_write_bytes", 7 },
		{ "USED", used, "why_not", 0 } }, NULL },
	{ "stags", NULL, "Stags", NULL, {
		{ "STAG", text, "stag", 0 }, { ">TO", text, "to", 4 }, { ">LENGTH", number, "length", 2 }, { ">UID", number, "uid", 5 },
		{ ">STREAM", stream, "stream", 1 }, { "ACCESS", text, "access", 3 } }, NULL },
	{ "reasons", NULL, "Reasons", by_count, {
		{ ">NO", number, "reason_number", 2 }, { "REASON", text, "reason", 0 }, { ">AS CLIENT", number, "as_client", 0 },
		{ ">AS SERVER", number, "as_server", 0 }, { "MEANS", text, "sentence", 1 } }, NULL },
};

/* ---- what was asked for ---- */

struct view {
	const struct listing *list;
	const struct column *columns[COLUMNS];	/* as shown, up to NULL */
	bool chosen;				/* not the table's */
	const struct column *sort;		/* NULL: as they come */
	bool falling;
	struct filter filter;
	uint64_t watch_ms;			/* 0: once */
};

/* "AS CLIENT" is as_client. */
static bool called(const struct column *c, const char *name, size_t n)
{
	const char *head = c->head + (c->head[0] == '>');

	if (strlen(head) == n) {
		while (n && (tolower(head[n - 1]) == tolower(name[n - 1]) || (head[n - 1] == ' ' && name[n - 1] == '_')))
			n--;
		return !n;
	}
	return false;
}

static const struct column *column_next(const struct listing *l, const struct column *c)
{
	c = c ? c + 1 : l->columns;
	if (c->head)
		return c;
	return l->more && c >= l->columns && c < l->columns + COLUMNS ? l->more : NULL;
}

static const struct column *column_find(const struct listing *l, const char *option, const char *name, size_t n)
{
	char known[512] = "";

	for (const struct column *c = column_next(l, NULL); c; c = column_next(l, c)) {
		size_t at = strlen(known);

		if (called(c, name, n))
			return c;
		snprintf(known + at, sizeof(known) - at, "%s%s", at ? ", " : "", c->head + (c->head[0] == '>'));
	}
	for (char *p = known; *p; p++)
		*p = *p == ' ' && p[-1] != ',' ? '_' : (char)tolower(*p);
	iwctl_error("%s: %s has no column \"%.*s\"; it has %s", option, l->name, (int)n, name, known);
	return NULL;
}

static int choose(struct view *v, const char *s)
{
	unsigned int n = 0;

	v->chosen = true;
	for (size_t len; ; s += len + 1) {
		len = strcspn(s, ",");
		if (n + 1 == COLUMNS) {
			iwctl_error("--columns: at most %u", COLUMNS - 1);
			return IWCTL_USAGE;
		}
		v->columns[n] = column_find(v->list, "--columns", s, len);
		if (!v->columns[n++])
			return IWCTL_USAGE;
		v->columns[n] = NULL;
		if (!s[len])
			return IWCTL_OK;
	}
}

static int choose_order(struct view *v, const char *s)
{
	v->falling = *s == '-';
	s += v->falling;
	v->sort = column_find(v->list, "--sort", s, strlen(s));
	return v->sort ? IWCTL_OK : IWCTL_USAGE;
}

static int choose_filter(struct view *v, char *s)
{
	if (!strncmp(v->list->name, "streams", 7))
		return filter_add(&v->filter, s);
	iwctl_error("--filter is for streams; %s has none", v->list->name);
	return IWCTL_USAGE;
}

static int choose_watch(struct view *v, const char *s)
{
	if (screen_seconds(s, &v->watch_ms))
		return IWCTL_OK;
	iwctl_error("--watch %s: give seconds, 0.1 to %u", s, SCREEN_SECONDS);
	return IWCTL_USAGE;
}

static int help(const struct listing *l, bool asked)
{
	FILE *f = asked ? stdout : stderr;
	bool streams = !strncmp(l->name, "streams", 7);

	fprintf(f, "usage: iwctl %s [OPTION...]\n\n"
		"  -c, --columns A,B,...   these columns, by their heads; otherwise those for which the terminal is wide enough, and all where there is none\n"
		"  -o, --sort COLUMN       in order of it; -COLUMN: the highest first\n", l->name);
	if (streams)
		fputs("  -f, --filter TERM,...   those that fit every TERM of " FILTER_KEYS ";\n"
		      "                          program is a pattern of the shell's, port one of either end\n"
		      "  -e, --ended             the last 256 that have ended, and how\n", f);
	fputs("  -w, --watch [SECONDS]   again and again, until it is interrupted; 2\n"
	      "  -j, --json; -r, --run-dir DIR; -s, --system; -h, --help\n\ncolumns: ", f);
	for (const struct column *c = column_next(l, NULL), *next; c; c = next) {
		next = column_next(l, c);
		for (const char *p = c->head + (c->head[0] == '>'); *p; p++)
			fputc(*p == ' ' ? '_' : tolower(*p), f);
		fputs(next ? ", " : "\n", f);
	}
	return asked ? -1 : IWCTL_USAGE;
}

#define LETTERS "+c:o:f:w::eh" IWCTL_LETTERS
static const struct option options[] = {
	{ "columns", required_argument, NULL, 'c' }, { "sort", required_argument, NULL, 'o' }, { "filter", required_argument, NULL, 'f' },
	{ "watch", optional_argument, NULL, 'w' }, { "ended", no_argument, NULL, 'e' }, { "help", no_argument, NULL, 'h' }, IWCTL_OPTIONS, { NULL, 0, NULL, 0 },
};

/* IWCTL_OK: go on. -1: nothing else was asked for. */
static int view_read(struct view *v, int argc, char **argv)
{
	int c, code = IWCTL_OK;
	char none[] = "";

	optind = 0;
	while (code == IWCTL_OK && (c = getopt_long(argc, argv, LETTERS, options, NULL)) != -1) {
		char *arg = optarg ? optarg : none;

		if (c == 'c')
			code = choose(v, arg);
		else if (c == 'o')
			code = choose_order(v, arg);
		else if (c == 'f')
			code = choose_filter(v, arg);
		else if (c == 'w')
			code = choose_watch(v, *arg ? arg : optind < argc && argv[optind][0] != '-' ? argv[optind++] : "2");
		else if (c != 'e' && !iwctl_option(c))
			code = help(v->list, c == 'h');
	}
	if (code != IWCTL_OK)
		return code;
	if (optind < argc)
		return help(v->list, false);
	if (iwctl.json && v->chosen) {
		iwctl_error("--columns is for people: --json has all names");
		return IWCTL_USAGE;
	}
	return iwctl_options_fit();
}

/* ---- order ---- */

/* Of two rows by numbers, sums of sent and received, or text in which numbers count as such. What is not there is lower than anything. */
static int compare(const json_t *a, const json_t *b, const char *key)
{
	const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);
	uint64_t t[2] = { 0 }, r[2] = { 0 };
	bool has[2] = { x || both(a, key, &t[0], &r[0]), y || both(b, key, &t[1], &r[1]) };

	if (!has[0] || !has[1])
		return has[0] - has[1];
	if (json_is_string(x) && json_is_string(y))
		return strverscmp(json_string_value(x), json_string_value(y));
	if (json_is_integer(x) && json_is_integer(y))
		return (json_integer_value(x) > json_integer_value(y)) - (json_integer_value(x) < json_integer_value(y));
	return (t[0] + r[0] > t[1] + r[1]) - (t[0] + r[0] < t[1] + r[1]);
}

struct place { json_t *row; size_t at; const struct view *v; };

static int by_view(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int c = compare(x->row, y->row, x->v->sort->key);

	if (!c)
		return (x->at > y->at) - (x->at < y->at);
	return x->v->falling ? -c : c;
}

static json_t *sorted(const struct view *v, json_t *rows)
{
	size_t n = json_array_size(rows), i;
	struct place *p = calloc(n + 1, sizeof(*p));
	json_t *out = json_array(), *row;

	json_array_foreach(rows, i, row)
		if (p)
			p[i] = (struct place){ row, i, v };
	if (p)
		qsort(p, n, sizeof(*p), by_view);
	for (i = 0; p && i < n; i++)
		json_array_append(out, p[i].row);
	free(p);
	json_decref(rows);
	return out;
}

static json_t *filtered(const struct view *v, json_t *rows)
{
	json_t *out = json_array(), *row;
	size_t i;

	json_array_foreach(rows, i, row)
		if (filter_takes(&v->filter, row))
			json_array_append(out, row);
	json_decref(rows);
	return out;
}

/* ---- showing ---- */

static void show(const struct view *v, const json_t *rows)
{
	const struct listing *l = v->list;
	const char *head[COLUMNS] = { 0 };
	unsigned char fade[COLUMNS] = { 0 };
	struct table *t;
	json_t *row;
	size_t i;

	for (i = 0; v->columns[i]; i++) {
		head[i] = v->columns[i]->head;
		fade[i] = v->columns[i]->fade;
	}
	t = table_new(head);
	json_array_foreach(rows, i, row)
		for (const struct column *const *c = v->columns; *c; c++)
			(*c)->cell(t, l->colour ? l->colour(row) : PLAIN, row, (*c)->key);
	/* one line for the head, and one for the cursor */
	table_fit(t, v->chosen ? 0 : screen_width(), v->watch_ms ? screen_height() - 2 : 0, fade);
	table_print(t);
}

static int once(void *arg)
{
	const struct view *v = arg;
	const struct listing *l = v->list;
	json_t *rows;
	int code = l->query ? l->query(&rows) : iwctl_query(l->method, &rows);

	if (code != IWCTL_OK)
		return code;
	rows = filtered(v, rows);
	if (v->sort)
		rows = sorted(v, rows);
	if (iwctl.json)
		return iwctl_print_json(rows);
	show(v, rows);
	json_decref(rows);
	return IWCTL_OK;
}

/* Which columns there are depends on it. */
static bool asks_for_ended(int argc, char **argv)
{
	bool is = false;
	int c;

	optind = opterr = 0;
	while ((c = getopt_long(argc, argv, LETTERS, options, NULL)) != -1) {
		is |= c == 'e';
		optind += c == 'w' && !optarg && optind < argc && argv[optind][0] != '-';
	}
	opterr = 1;
	return is;
}

int lists_main(int argc, char **argv)
{
	struct view v = { .list = lists };
	int code;

	while (strcmp(v.list->name, argv[0]))
		v.list++;
	if (asks_for_ended(argc, argv)) {
		if (v.list != lists) {
			iwctl_error("--ended is for streams; %s has none", v.list->name);
			return IWCTL_USAGE;
		}
		v.list = &ended;
	}
	for (size_t i = 0; v.list->columns[i].head; i++)
		v.columns[i] = &v.list->columns[i];
	code = view_read(&v, argc, argv);
	if (code != IWCTL_OK)
		return code;
	return v.watch_ms ? screen_loop(v.watch_ms, 0, once, &v) : once(&v);
}
