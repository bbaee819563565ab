/* SPDX-License-Identifier: MIT */
/* Connections that stay plain TCP: the daemon is told, so that it can list them with their reason. */
#ifndef IW_PRELOAD_PLAIN_H
#define IW_PRELOAD_PLAIN_H

#include <stdbool.h>

#include "proto/addr.h"
#include "proto/reason.h"
#include "candidate.h"

#pragma GCC visibility push(hidden)

/*
 * Tell the daemon why c stays plain, or, when it is proposed, cannot be switched now (for_now). Rate-limited. t: its names; NULL: it is
 * known to the daemon.
 */
void iw_plain_tell(int fd, struct iw_candidate *c, const struct iw_tuple *t, enum iw_reason why, bool for_now);

#pragma GCC visibility pop
#endif
