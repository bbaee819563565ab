/* SPDX-License-Identifier: MIT */
/* poll() as streams have it, for those that wait by it. */
#ifndef IW_PRELOAD_POLL_H
#define IW_PRELOAD_POLL_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>

#include "deadline.h"

#pragma GCC visibility push(hidden)

/* As poll(), or with a mask ppoll(). The array can be read and written. */
int iw_poll_until(struct pollfd *p, nfds_t n, const struct iw_deadline *d, const sigset_t *mask, bool with_mask);

#pragma GCC visibility pop
#endif
