/* SPDX-License-Identifier: MIT */
/* Mapped streams outlive the daemon: their descriptors lie in the service manager's store. */
#ifndef IWARPD_STREAM_KEEP_H
#define IWARPD_STREAM_KEEP_H

struct area;
struct stream;

/* Before it is offered: T, the daemon's end of the carrier, segment, area, map and the pidfd of its owner. 0; -EAGAIN: not now. */
int keep(struct stream *st, const struct area *map, int owner);
void keep_not(struct stream *st, const struct area *map);	/* any more */

#endif
