// SPDX-License-Identifier: MIT
/* iwctl listeners: the listening sockets that programs registered. */
#include "iwctl.h"

int listeners_main(int argc, char **argv)
{
	static const char *const head[] = { ">PID", "PROGRAM", ">UID", "ADDRESS", NULL };
	struct table *t;
	json_t *list, *l;
	size_t i;
	int code = iwctl_query("Listeners", &list);

	if (code != IWCTL_OK)
		return code;
	if (iwctl.json)
		return iwctl_print_json(list);
	t = table_new(head);
	json_array_foreach(list, i, l) {
		bool mine = json_object_get(l, "pid");

		table_cell(t, PLAIN, mine ? "%llu" : "-", (unsigned long long)iwctl_num(l, "pid"));
		table_cell(t, PLAIN, "%s", iwctl_str(l, "program", "-"));
		table_cell(t, PLAIN, mine ? "%llu" : "-", (unsigned long long)iwctl_num(l, "uid"));
		table_cell(t, PLAIN, "%s", iwctl_str(l, "address", "?"));
	}
	table_print(t);
	json_decref(list);
	return IWCTL_OK;
}
