/* SPDX-License-Identifier: MIT */
/* Which connections of a list are meant: --filter. */
#ifndef IWCTL_FILTER_H
#define IWCTL_FILTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "addr.h"

#define FILTER_KEYS "program=, peer=, port=, user=, transport= and reason="

struct filter {		/* zero: all */
	const char *program, *transport, *reason;	/* program: a pattern of the shell's */
	bool by_peer, by_user;
	struct iwctl_place peer;
	int64_t uid;
	uint16_t port;	/* of either end */
};

/* "key=value,key=value": all of them must hold, and those of an earlier call. Splits s where it stands, and keeps it. An exit code of iwctl.h. */
int filter_add(struct filter *f, char *s);
bool filter_takes(const struct filter *f, const json_t *connection);

#endif
