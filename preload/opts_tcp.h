/* SPDX-License-Identifier: MIT */
/* Options asked of the TCP socket behind a stream. */
#ifndef IW_PRELOAD_OPTS_TCP_H
#define IW_PRELOAD_OPTS_TCP_H

#include <sys/socket.h>

#include "stream.h"

#pragma GCC visibility push(hidden)

/* getsockopt and setsockopt of that socket, by the daemon. -1 with errno, as the originals. */
int iw_opt_get(struct iw_stream *s, int fd, int level, int name, void *val, socklen_t *len);
/* What a socket that TCP gives to this process says to it: 0 or -errno. */
long iw_opt_try(struct iw_stream *s, int level, int name, const void *val, socklen_t len);
int iw_opt_set(struct iw_stream *s, int fd, int level, int name, const void *val, socklen_t len);

#pragma GCC visibility pop
#endif
