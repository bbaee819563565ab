// SPDX-License-Identifier: MIT
/* Lines with ok, warn or bad, and advice. */
#include "verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iwctl.h"
#include "out.h"

static const char *const names[] = { [VERDICT_OK] = "ok", [VERDICT_WARN] = "warn", [VERDICT_BAD] = "bad" };

void verdict(json_t *list, enum verdict v, const char *what, const char *advice, const char *fmt, ...)
{
	char *text = NULL;
	json_t *o, *s;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	/* what others chose, as the name of a program, shall not steer the terminal */
	for (char *p = text; p && *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = '?';
	s = json_string(text);	/* NULL: not UTF-8 */
	o = json_pack("{s:s, s:s, s:o}", "check", what, "verdict", names[v], "text", s ? s : json_string("(not UTF-8)"));
	if (advice && *advice)
		json_object_set_new(o, "advice", json_string(advice));
	json_array_append_new(list, o);
	free(text);
}

int verdicts_end(json_t *list, const char *subject)
{
	bool bad = false;
	json_t *o;
	size_t i;
	int code;

	json_array_foreach(list, i, o)
		bad |= !strcmp(iwctl_str(o, "verdict", ""), names[VERDICT_BAD]);
	if (iwctl.json) {
		code = iwctl_print_json(json_pack("{s:s, s:b, s:o}", "subject", subject, "ok", !bad, "checks", list));
		return code != IWCTL_OK ? code : bad ? IWCTL_NO : IWCTL_OK;
	}
	json_array_foreach(list, i, o) {
		const char *v = iwctl_str(o, "verdict", "?"), *advice = iwctl_str(o, "advice", NULL);

		printf("%s%-4s%s  %-14s  %s\n", iwctl_colour(*v == 'o' ? GOOD : *v == 'w' ? WARN : BAD), v, iwctl_colour(PLAIN),
		       iwctl_str(o, "check", "?"), iwctl_str(o, "text", ""));
		if (advice)
			printf("%22s%s\n", "", advice);
	}
	json_decref(list);
	return bad ? IWCTL_NO : IWCTL_OK;
}
