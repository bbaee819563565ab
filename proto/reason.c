// SPDX-License-Identifier: MIT
/* Texts of the reasons table. */
#include "reason.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name, *sentence, *advice;
} reasons[] = {
#define X(num, sym, name, sentence, advice) [num] = { name, sentence, advice },
	IW_REASONS(X)
#undef X
};

const char *iw_reason_name_in(unsigned int reason, char name[IW_REASON_NAME])
{
	if (reason < IW_REASON_MAX)
		return reasons[reason].name;
	if (reason == IW_REASON_OTHER)
		return "other";
	snprintf(name, IW_REASON_NAME, "reason-%u", reason);
	return name;
}

const char *iw_reason_sentence(unsigned int reason)
{
	return reason < IW_REASON_MAX ? reasons[reason].sentence : "A newer iwsock, here or on the other host, has this reason; this one has no text for it.";
}

const char *iw_reason_advice(unsigned int reason)
{
	return reason < IW_REASON_MAX ? reasons[reason].advice : "See 'iwctl reasons' of the newer one.";
}

int iw_reason_parse(const char *name)
{
	for (int i = 0; i < IW_REASON_MAX; i++)
		if (!strcmp(name, reasons[i].name))
			return i;
	return -ENOENT;
}
