/* SPDX-License-Identifier: MIT */
/* Mapped streams outlive the daemon: their descriptors lie in the service manager's store. */
#ifndef IWARPD_STREAM_KEEP_H
#define IWARPD_STREAM_KEEP_H

struct area;
struct stream;

/* Before it is offered: T, the daemon's end of the carrier, segment, area and map. 0; -EAGAIN: not now. */
int keep(struct stream *st, const struct area *map);
void keep_not(struct stream *st, const struct area *map);	/* any more */

#endif
