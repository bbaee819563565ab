// SPDX-License-Identifier: MIT
/* Texts of the reasons table. */
#include "reason.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *name, *sentence, *advice;
} reasons[] = {
#define X(num, sym, name, sentence, advice) [num] = { name, sentence, advice },
	IW_REASONS(X)
#undef X
};

const char *iw_reason_name(unsigned int reason)
{
	return reason < IW_REASON_MAX ? reasons[reason].name : "unknown";
}

const char *iw_reason_sentence(unsigned int reason)
{
	return reason < IW_REASON_MAX ? reasons[reason].sentence : "unknown reason";
}

const char *iw_reason_advice(unsigned int reason)
{
	return reason < IW_REASON_MAX ? reasons[reason].advice : "";
}

int iw_reason_parse(const char *name)
{
	for (int i = 0; i < IW_REASON_MAX; i++)
		if (!strcmp(name, reasons[i].name))
			return i;
	return -ENOENT;
}
