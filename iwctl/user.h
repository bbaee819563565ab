/* SPDX-License-Identifier: MIT */
/* Users as people write them. */
#ifndef IWCTL_USER_H
#define IWCTL_USER_H

#include <stdint.h>

/* A name or a number. An exit code of iwctl.h; what is wrong is said, as of this option. */
int iwctl_user(const char *option, const char *s, int64_t *uid);

#endif
