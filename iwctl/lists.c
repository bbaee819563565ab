// SPDX-License-Identifier: MIT
/* iwctl streams, peers, stags, reasons: lists of the daemon as columns. What a list shows is in its table. */
#include "iwctl.h"

#include <stdio.h>
#include <string.h>

#include "bus.h"
#include "out.h"

struct column {
	const char *head;	/* '>' in front: to the right */
	void (*cell)(struct table *t, enum colour c, const json_t *row, const char *key);
	const char *key;	/* of --json */
};

struct listing {
	const char *name;
	int (*query)(json_t **out);
	const char *method;	/* where there is no query */
	enum colour (*colour)(const json_t *row);
	struct column columns[20];
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

static void duration(struct table *t, enum colour c, const json_t *row, const char *key)
{
	char s[32];

	if (json_object_get(row, key))
		table_cell(t, c, "%s", iwctl_duration(iwctl_num(row, key), s));
	else
		nothing(t);
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

static void octets(struct table *t, enum colour c, const json_t *row, const char *key)
{
	char a[16], b[16];
	uint64_t tx, rx;

	if (both(row, key, &tx, &rx))
		table_cell(t, c, "%s/%s", iwctl_bytes(tx, a), iwctl_bytes(rx, b));
	else
		nothing(t);
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

static const struct listing lists[] = {
	{ "streams", iwctl_connections, NULL, NULL, {
		{ ">PID", number, "pid" }, { "PROGRAM", text, "program" }, { ">FD", descriptor, "fd" }, { "LOCAL", text, "local" },
		{ "SIDE", text, "side" }, { "PEER", text, "peer" }, { "TRANSPORT", verdict, "transport" }, { "STATE", text, "state" },
		{ "PATH", text, "path" }, { ">IDLE", duration, "idle_ms" }, { ">BYTES", octets, "bytes" }, { ">SENDS", count, "sends" }, { ">WRITES", count, "writes" },
		{ ">IMMEDIATES", count, "immediates" }, { ">READS", count, "reads" }, { ">FPDUS", count, "fpdus" }, { "ID", text, "id" },
		{ "REASON", reason, "reason" } } },
	{ "peers", NULL, "Peers", NULL, {
		{ "ADDRESS", text, "address" }, { "STATE", verdict, "state" }, { "SESSIONS", sessions, "" }, { ">STREAMS", number, "streams" },
		{ ">EXPIRES", duration, "expires_in_ms" }, { "REASON", reason, "reason" } } },
	{ "stags", NULL, "Stags", NULL, {
		{ "STAG", text, "stag" }, { ">TO", text, "to" }, { ">LENGTH", number, "length" }, { ">UID", number, "uid" },
		{ ">STREAM", stream, "stream" }, { "ACCESS", text, "access" } } },
	{ "reasons", NULL, "Reasons", by_count, {
		{ ">NO", number, "reason_number" }, { "REASON", text, "reason" }, { ">AS CLIENT", number, "as_client" },
		{ ">AS SERVER", number, "as_server" }, { "MEANS", text, "sentence" } } },
};

static void show(const struct listing *l, const json_t *rows)
{
	const char *head[sizeof(l->columns) / sizeof(*l->columns) + 1] = { 0 };
	const struct column *col;
	struct table *t;
	json_t *row;
	size_t i;

	for (i = 0; l->columns[i].head; i++)
		head[i] = l->columns[i].head;
	t = table_new(head);
	json_array_foreach(rows, i, row)
		for (col = l->columns; col->head; col++)
			col->cell(t, l->colour ? l->colour(row) : PLAIN, row, col->key);
	table_print(t);
}

int lists_main(int argc, char **argv)
{
	const struct listing *l = lists;
	json_t *rows;
	int code;

	while (strcmp(l->name, argv[0]))
		l++;
	code = l->query ? l->query(&rows) : iwctl_query(l->method, &rows);
	if (code != IWCTL_OK)
		return code;
	if (iwctl.json)
		return iwctl_print_json(rows);
	show(l, rows);
	json_decref(rows);
	return IWCTL_OK;
}
