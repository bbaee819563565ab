/* SPDX-License-Identifier: MIT */
/* Sending on a mapped stream: octets are framed, and given to TCP. */
#ifndef IW_PRELOAD_PATHS_MAPPED_TX_H
#define IW_PRELOAD_PATHS_MAPPED_TX_H

#include "preload/path.h"

#pragma GCC visibility push(hidden)

ssize_t iw_mapped_tx(struct iw_stream *s, int fd, struct iw_io *io, int flags);
/* sendfile() and its like. */
ssize_t iw_mapped_tx_from(struct iw_stream *s, const struct iw_move *v);

#pragma GCC visibility pop

#endif
