/* SPDX-License-Identifier: MIT */
/* The carrier: the socket pair whose other end is the application's fd. */
#ifndef IWARPD_STREAM_CARRIER_H
#define IWARPD_STREAM_CARRIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "daemon/base/engine.h"

struct stream;

/* So many octets fit it surely, when it is empty. */
uint32_t carrier_takes(int fd);
int carrier_make(uint64_t id, int s[2]);	/* of this stream; both ends are the caller's. -errno */
int carrier_cookie(int fd, uint64_t *cookie);		/* what it is found by: without it never again, so that is an error like any other. -errno */
void carrier_fin(struct stream *st);		/* the peer's FIN: every octet is in the carrier */
void carrier_record_reset(struct stream *st, int err);	/* in the page only; after a FIN it becomes EPIPE */
void carrier_reset(struct stream *st, int err);	/* the page says RESET; then the carrier goes */
/* The page says RESET, and writers hear it; what the peer sent before is still to be delivered, as TCP delivers what it has received. */
void carrier_lost(struct stream *st, int err);
void carrier_drop(struct stream *st);		/* close d */
/* What carrier_recv() needs besides. false: no memory. carrier_lean(): not needed until carrier_room() again. */
bool carrier_room(struct stream *st);
void carrier_lean(struct stream *st);
void carrier_recv(struct stream *st, const struct iovec *v, unsigned int n, op_fn fn);	/* into 1 or 2 pieces, by d_rx */
void carrier_received(struct stream *st, int res);	/* first thing in fn: descriptors that came along are closed */
/* The same at once and without waiting: the number of octets, 0, or less than 0 when there are none. */
ssize_t carrier_take(struct stream *st, void *buf, size_t len);
/*
 * The file of an application was exchanged, and before that another of its threads wrote into it by calls that no library sees: what lies in `from`, which
 * nobody would read any more, goes into `to`, at once and in order. Octets, at most 256 KiB; -errno: not all of it could, and nothing may come behind it.
 */
int carrier_late(int from, int to, uint32_t uid);
/* Tell when the application closed, once; one who waited before is not told any more. */
void carrier_poll(struct stream *st, void (*hup)(struct stream *st, bool error));
void carrier_unpoll(struct stream *st, void (*then)(struct stream *st));	/* no longer: `then` comes when d_poll has ended, if it was busy */
bool carrier_hup(const struct stream *st);	/* look now */

#endif
