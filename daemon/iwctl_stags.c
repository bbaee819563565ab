// SPDX-License-Identifier: MIT
/* iwctl stags: the memory that is registered with the soft RNIC. */
#include "iwctl.h"

#include <string.h>

int stags_main(int argc, char **argv)
{
	static const char *const head[] = { "STAG", ">TO", ">LENGTH", ">UID", ">STREAM", "ACCESS", NULL };
	struct table *t;
	json_t *list, *s;
	size_t i;
	int code = iwctl_query("Stags", &list);

	if (code != IWCTL_OK)
		return code;
	if (iwctl.json)
		return iwctl_print_json(list);
	t = table_new(head);
	json_array_foreach(list, i, s) {
		table_cell(t, PLAIN, "%s", iwctl_str(s, "stag", "-"));
		table_cell(t, PLAIN, "%s", iwctl_str(s, "to", "-"));
		table_cell(t, PLAIN, "%llu", (unsigned long long)iwctl_num(s, "length"));
		if (json_object_get(s, "uid"))
			table_cell(t, PLAIN, "%llu", (unsigned long long)iwctl_num(s, "uid"));
		else
			table_cell(t, DIM, "-");
		table_cell(t, PLAIN, "%s", strcmp(iwctl_str(s, "stream", "0"), "0") ? iwctl_str(s, "stream", "") : "control");
		table_cell(t, PLAIN, "%s", iwctl_str(s, "access", "-"));
	}
	table_print(t);
	json_decref(list);
	return IWCTL_OK;
}
