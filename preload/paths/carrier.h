/* SPDX-License-Identifier: MIT */
/* The path of a stream that nobody bypasses: every octet goes through its carrier. */
#ifndef IW_PRELOAD_PATHS_CARRIER_H
#define IW_PRELOAD_PATHS_CARRIER_H

#include "preload/path.h"

#pragma GCC visibility push(hidden)

extern const struct iw_path_ops iw_carrier;
/* As its rx, but for who has been awake before he sleeps. */
ssize_t iw_carrier_rx(struct iw_stream *s, int fd, struct iw_io *io, int flags);
/* A sleep there, with its time-out, would not have gone on after this one's handler. */
bool iw_carrier_interrupts(int fd, int sig);

#pragma GCC visibility pop
#endif
