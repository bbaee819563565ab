// SPDX-License-Identifier: MIT
/* iwctl peers: which other hosts have an iwarpd, and which are plain TCP, why and until when. */
#include "iwctl.h"

#include <string.h>

static const char *sessions(const json_t *p)
{
	bool in = iwctl_true(p, "session_in"), out = iwctl_true(p, "session_out");

	return in && out ? "both" : in ? "theirs" : out ? "ours" : "-";
}

int peers_main(int argc, char **argv)
{
	static const char *const head[] = { "ADDRESS", "STATE", "SESSIONS", ">STREAMS", ">EXPIRES", "REASON", NULL };
	char expires[32];
	struct table *t;
	json_t *list, *p;
	size_t i;
	int code = iwctl_query("Peers", &list);

	if (code != IWCTL_OK)
		return code;
	if (iwctl.json)
		return iwctl_print_json(list);
	t = table_new(head);
	json_array_foreach(list, i, p) {
		const char *state = iwctl_str(p, "state", "?"), *reason = iwctl_str(p, "reason", "?");
		bool good = !strcmp(state, "iwarp") || !strcmp(state, "local");

		table_cell(t, PLAIN, "%s", iwctl_str(p, "address", "?"));
		table_cell(t, good ? GOOD : strcmp(state, "plain") ? PLAIN : WARN, "%s", state);
		table_cell(t, PLAIN, "%s", sessions(p));
		table_cell(t, PLAIN, "%llu", (unsigned long long)iwctl_num(p, "streams"));
		if (json_object_get(p, "expires_in_ms"))
			table_cell(t, PLAIN, "%s", iwctl_duration(iwctl_num(p, "expires_in_ms"), expires));
		else
			table_cell(t, DIM, "-");
		table_cell(t, PLAIN, "%s", strcmp(reason, "accelerated") ? reason : "");
	}
	table_print(t);
	json_decref(list);
	return IWCTL_OK;
}
