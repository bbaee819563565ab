// SPDX-License-Identifier: MIT
/* iwctl reasons: why connections were accelerated or stayed plain TCP, with counts since the daemon started. */
#include "iwctl.h"

int reasons_main(int argc, char **argv)
{
	static const char *const head[] = { ">NO", "REASON", ">AS CLIENT", ">AS SERVER", "MEANS", NULL };
	struct table *t;
	json_t *list, *r;
	size_t i;
	int code = iwctl_query("Reasons", &list);

	if (code != IWCTL_OK)
		return code;
	if (iwctl.json)
		return iwctl_print_json(list);
	t = table_new(head);
	json_array_foreach(list, i, r) {
		uint64_t client = iwctl_num(r, "as_client"), server = iwctl_num(r, "as_server");
		enum colour c = !client && !server ? DIM : iwctl_num(r, "reason_number") ? WARN : GOOD;

		table_cell(t, c, "%llu", (unsigned long long)iwctl_num(r, "reason_number"));
		table_cell(t, c, "%s", iwctl_str(r, "reason", "?"));
		table_cell(t, c, "%llu", (unsigned long long)client);
		table_cell(t, c, "%llu", (unsigned long long)server);
		table_cell(t, c, "%s", iwctl_str(r, "sentence", ""));
	}
	table_print(t);
	json_decref(list);
	return IWCTL_OK;
}
