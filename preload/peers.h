/* SPDX-License-Identifier: MIT */
/* What is known about other hosts without asking. */
#ifndef IW_PRELOAD_PEERS_H
#define IW_PRELOAD_PEERS_H

#include "proto/page.h"
#include "proto/reason.h"

#pragma GCC visibility push(hidden)

enum iw_peer_state iw_peer_lookup(const struct iw_addr *a, enum iw_reason *why);

#pragma GCC visibility pop
#endif
