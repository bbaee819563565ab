// SPDX-License-Identifier: MIT
/* Texts of the reasons table. */
#include "reason.h"

#include <stdio.h>

static const struct {
	const char *name, *sentence, *advice;
} reasons[] = {
#define X(num, sym, name, sentence, advice) [num] = { name, sentence, advice },
	IW_REASONS(X)
#undef X
};

bool iw_reason_known(unsigned int reason)
{
	return reason < IW_REASON_MAX && reasons[reason].name;
}

const char *iw_reason_name_in(unsigned int reason, char name[IW_REASON_NAME])
{
	if (iw_reason_known(reason))
		return reasons[reason].name;
	if (reason == IW_REASON_OTHER)
		return "other";
	snprintf(name, IW_REASON_NAME, "reason-%u", reason);
	return name;
}

const char *iw_reason_sentence(unsigned int reason)
{
	return iw_reason_known(reason) ? reasons[reason].sentence : "Another version of iwsock, here or on the other host, has this reason; this one has no text for it.";
}

const char *iw_reason_advice(unsigned int reason)
{
	return iw_reason_known(reason) ? reasons[reason].advice : "See 'iwctl reasons' of the other one.";
}
