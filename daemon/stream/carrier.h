/* SPDX-License-Identifier: MIT */
/* The carrier: the socket pair whose other end is the application's fd. */
#ifndef IWARPD_STREAM_CARRIER_H
#define IWARPD_STREAM_CARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/engine.h"

struct stream;

int carrier_make(uint64_t id, int s[2]);	/* of this stream; both ends are the caller's. -errno */
void carrier_fin(struct stream *st);		/* the peer's FIN: every octet is in the carrier */
void carrier_record_reset(struct stream *st, int err);	/* in the page only; after a FIN it becomes EPIPE */
void carrier_reset(struct stream *st, int err);	/* the page says RESET; then the carrier goes */
void carrier_drop(struct stream *st);		/* close d */
void carrier_recv(struct stream *st, void *buf, size_t len, op_fn fn);	/* by d_rx */
void carrier_received(struct stream *st, int res);	/* first thing in fn: descriptors that came along are closed */
void carrier_poll(struct stream *st, void (*hup)(struct stream *st, bool error));	/* tell when the application closed */
bool carrier_hup(const struct stream *st);	/* look now */
bool tcp_linger0(int tcp);
void tcp_reset_on_close(int tcp);

#endif
