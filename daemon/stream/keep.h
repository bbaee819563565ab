/* SPDX-License-Identifier: MIT */
/* Streams between hosts outlive the daemon: their descriptors lie in the service manager's store. */
#ifndef IWARPD_STREAM_KEEP_H
#define IWARPD_STREAM_KEEP_H

struct area;
struct stream;

/* Before it is offered: T, the daemon's end of the carrier, segment, area, map and the pidfd of its owner. 0; -EAGAIN: not now. */
int keep(struct stream *st, const struct area *map, int owner);
/* One that has come to rest as the daemon ends, with all of its state in its area: T, carrier, segment, area. 0, or it is not kept. */
int keep_pumped(struct stream *st);
int keep_relayed(struct stream *st);	/* the same, halted: T, carrier, segment, and what the relay had */
void keep_options(const struct stream *st);	/* its application has set some: with what is kept of it already, if there is any */
void keep_not(struct stream *st, const struct area *map);	/* any more */

#endif
