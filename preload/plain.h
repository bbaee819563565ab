/* SPDX-License-Identifier: MIT */
/* Connections that stay plain TCP, as the daemon knows them. */
#ifndef IW_PRELOAD_PLAIN_H
#define IW_PRELOAD_PLAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/page.h"
#include "proto/reason.h"

#pragma GCC visibility push(hidden)

/* Tell the daemon about a connection that stays plain; rate-limited. Returns the conn_id it now knows, or 0. */
uint32_t iw_plain_tell(int fd, bool client, const struct iw_addr *peer, enum iw_reason why);
/* The socket stays plain for good: PLAIN when the daemon heard of it (conn_id != 0), else OTHER. */
void iw_plain_set(int fd, uint32_t conn_id);

#pragma GCC visibility pop
#endif
