/* SPDX-License-Identifier: MIT */
/* CONNECTING fds: their entries between connect.c, which fills them, and connecting.c, which settles them. */
#ifndef IW_PRELOAD_CONNECTING_H
#define IW_PRELOAD_CONNECTING_H

#include "core.h"

#pragma GCC visibility push(hidden)

struct iw_connecting;

/* TCP to CONNECTING, PENDING. NULL: the fd changed in the meantime, or no entry is free. */
struct iw_connecting *iw_connecting_begin(int fd, uint32_t w);
/* The three ends of PENDING: the connect failed (TCP again), it stays plain, or there is a stream. */
void iw_connecting_undo(struct iw_connecting *c);
void iw_connecting_plain(struct iw_connecting *c, uint32_t conn_id);
void iw_connecting_offered(struct iw_connecting *c, struct iw_stream *s, int carrier, bool established);

#pragma GCC visibility pop
#endif
