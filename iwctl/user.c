// SPDX-License-Identifier: MIT
/* Users as people write them. */
#include "user.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>

#include "iwctl.h"
#include "out.h"

int iwctl_user(const char *option, const char *s, int64_t *uid)
{
	const struct passwd *pw;
	char *end;
	unsigned long v;

	errno = 0;
	v = strtoul(s, &end, 10);
	if (*s >= '0' && *s <= '9' && !*end && !errno && v < UINT32_MAX) {
		*uid = (int64_t)v;
		return IWCTL_OK;
	}
	pw = getpwnam(s);
	if (!pw) {
		iwctl_error("%s %s: there is no such user", option, s);
		return IWCTL_USAGE;
	}
	*uid = pw->pw_uid;
	return IWCTL_OK;
}
