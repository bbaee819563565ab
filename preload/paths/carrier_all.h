/* SPDX-License-Identifier: MIT */
/* Calls that take from the carrier until they have what they want: carrier_all.c. */
#ifndef IW_PRELOAD_PATHS_CARRIER_ALL_H
#define IW_PRELOAD_PATHS_CARRIER_ALL_H

#include "preload/paths/mapped_call.h"

#pragma GCC visibility push(hidden)

/* What a read of the carrier gave: that it was reset the kernel says once. Returns it. */
long iw_carrier_received(struct iw_stream *s, long n);
/* What the carrier has now, which is fd. Octets, 0: its end, or -errno. */
long iw_carrier_receive(struct iw_mapped_call *c, int fd);
/* More than the part that the call, begun then, has, which the carrier's own call would not know of: any handler ends it, and so does the time. */
void iw_carrier_more(struct iw_mapped_call *c, size_t least, int64_t begin_ns);
/* MSG_WAITALL of a local stream; rx: the carrier's own call. */
ssize_t iw_carrier_rx_all(struct iw_stream *s, int fd, struct iw_io *io, int flags, ssize_t (*rx)(int fd, struct iw_io *io, int flags));

#pragma GCC visibility pop
#endif
