/* SPDX-License-Identifier: MIT */
/* An iwsock.conf read for people. */
#ifndef IWCTL_CHECK_POLICY_H
#define IWCTL_CHECK_POLICY_H

#include <jansson.h>

#include "proto/policy.h"

/* p: the good rules; errors: a string for each line that is wrong. IWCTL_NO: the file cannot be read, which was printed. */
int check_policy_read(struct iw_policy *p, const char *path, json_t **errors);

#endif
