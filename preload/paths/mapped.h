/* SPDX-License-Identifier: MIT */
/* The path of a stream whose map this process has: octets are framed and parsed on the TCP socket here. */
#ifndef IW_PRELOAD_PATHS_MAPPED_H
#define IW_PRELOAD_PATHS_MAPPED_H

#include "preload/path.h"

#pragma GCC visibility push(hidden)

extern const struct iw_path_ops iw_mapped;
/* Before the first call: what is known of it. */
void iw_mapped_begin(struct iw_stream *s);
/* A step that sends what is gathered. false: not all of it went, or it is mapped no more. */
bool iw_mapped_flush(struct iw_stream *s, int fd);
/* After the last one, locked: what the TCP socket has for it is unread there. */
void iw_mapped_end(struct iw_stream *s);
/* TCP takes nothing more, as it said, locked: what came ahead of that is unread there. */
void iw_mapped_lost(struct iw_stream *s, int err);

#pragma GCC visibility pop

#endif
