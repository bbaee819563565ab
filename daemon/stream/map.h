/* SPDX-License-Identifier: MIT */
/* The queue pair mapped into the application. */
#ifndef IWARPD_STREAM_MAP_H
#define IWARPD_STREAM_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/rnic/endpoint.h"

struct stream;
struct stream_info;

void map_start(struct stream *st);		/* RUNNING: it may be asked for */
void map_stop(struct stream *st);		/* the endpoint is over: nor any more */
/* The pump while it comes to rest: it gives nothing, takes nothing more, does nothing at all. */
bool map_holds_rx(const struct stream *st);
bool map_holds_tx(const struct stream *st);
bool map_rests(const struct stream *st);
void map_look(struct stream *st);		/* the pump has been at work */
bool map_offered(const struct stream *st);	/* it is not known yet whether it is taken */
bool map_taken(const struct stream *st);
void map_opened(struct stream *st);	/* somebody has the carrier who was not given the map: the library is asked to stop */
void map_over(struct stream *st);		/* the stream ends: whoever waits hears it */
/* Of one that a daemon before us had mapped, RUNNING; takes over fd: 0 or -errno; and then what the page says of it. */
int map_revive(struct stream *st, int fd, uint64_t len, int owner);
void map_revived(struct stream *st);
void map_info(const struct stream *st, struct stream_info *i);	/* taken: what the library has noted, which nothing may depend on */

#endif
