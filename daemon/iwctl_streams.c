// SPDX-License-Identifier: MIT
/* iwctl streams: every connection, with its octets, its messages by RDMAP operation, and the reason where it is plain TCP. */
#include "iwctl.h"

#include <string.h>

/* "12/345": sent/received */
static void pair(struct table *t, const json_t *s, const char *tx, const char *rx)
{
	if (!json_object_get(s, tx))
		table_cell(t, DIM, "-");
	else
		table_cell(t, PLAIN, "%llu/%llu", (unsigned long long)iwctl_num(s, tx), (unsigned long long)iwctl_num(s, rx));
}

static enum colour colour_of(const char *transport)
{
	if (!strcmp(transport, "iwarp") || !strcmp(transport, "local"))
		return GOOD;
	return strcmp(transport, "tcp") ? PLAIN : WARN;
}

static void show(struct table *t, const json_t *s)
{
	const char *transport = iwctl_str(s, "transport", "?"), *reason = iwctl_str(s, "reason", "?");
	bool mine = json_object_get(s, "pid"), counts = json_object_get(s, "tx_bytes");
	char tx[16], rx[16], idle[32];

	if (mine)
		table_cell(t, PLAIN, "%llu", (unsigned long long)iwctl_num(s, "pid"));
	else
		table_cell(t, DIM, "-");
	table_cell(t, PLAIN, "%s", iwctl_str(s, "program", "-"));
	if (mine && json_integer_value(json_object_get(s, "fd")) >= 0)
		table_cell(t, PLAIN, "%llu", (unsigned long long)iwctl_num(s, "fd"));
	else
		table_cell(t, DIM, "-");
	table_cell(t, PLAIN, "%s", iwctl_str(s, "local", "-"));
	table_cell(t, PLAIN, "%s", iwctl_str(s, "side", ""));
	table_cell(t, PLAIN, "%s", iwctl_str(s, "peer", "-"));
	table_cell(t, colour_of(transport), "%s", transport);
	table_cell(t, PLAIN, "%s", iwctl_str(s, "state", "?"));
	if (json_object_get(s, "idle_ms"))
		table_cell(t, PLAIN, "%s", iwctl_duration(iwctl_num(s, "idle_ms"), idle));
	else
		table_cell(t, DIM, "-");
	if (counts)
		table_cell(t, PLAIN, "%s/%s", iwctl_bytes(iwctl_num(s, "tx_bytes"), tx), iwctl_bytes(iwctl_num(s, "rx_bytes"), rx));
	else
		table_cell(t, DIM, "-");
	pair(t, s, "tx_sends", "rx_sends");
	pair(t, s, "tx_writes", "rx_writes");
	pair(t, s, "tx_immediates", "rx_immediates");
	pair(t, s, "tx_reads", "rx_reads");
	pair(t, s, "tx_fpdus", "rx_fpdus");
	table_cell(t, PLAIN, "%s", iwctl_str(s, "id", "-"));
	table_cell(t, PLAIN, "%s", strcmp(reason, "accelerated") ? reason : "");
}

int streams_main(int argc, char **argv)
{
	static const char *const head[] = {
		">PID", "PROGRAM", ">FD", "LOCAL", "SIDE", "PEER", "TRANSPORT", "STATE", ">IDLE", ">BYTES", ">SENDS", ">WRITES", ">IMMEDIATES",
		">READS", ">FPDUS", "ID", "REASON", NULL,
	};
	struct table *t;
	json_t *list, *s;
	size_t i;
	int code = iwctl_connections(&list);

	if (code != IWCTL_OK)
		return code;
	if (iwctl.json)
		return iwctl_print_json(list);
	t = table_new(head);
	json_array_foreach(list, i, s)
		show(t, s);
	table_print(t);
	json_decref(list);
	return IWCTL_OK;
}
