/* SPDX-License-Identifier: MIT */
/* Receiving on a mapped stream: what was parsed, and what the TCP socket has. */
#ifndef IW_PRELOAD_PATHS_MAPPED_RX_H
#define IW_PRELOAD_PATHS_MAPPED_RX_H

#include "preload/path.h"

#pragma GCC visibility push(hidden)

ssize_t iw_mapped_rx(struct iw_stream *s, int fd, struct iw_io *io, int flags);
/* splice() out of it: the carrier does. */
ssize_t iw_mapped_rx_into(struct iw_stream *s, const struct iw_move *v);

#pragma GCC visibility pop

#endif
