/* SPDX-License-Identifier: MIT */
/* Giving the queue pair of a stream to its application. */
#ifndef IWARPD_STREAM_MAP_H
#define IWARPD_STREAM_MAP_H

#include <stdbool.h>

struct stream;

void map_start(struct stream *st);		/* RUNNING: it may be asked for */
void map_stop(struct stream *st);		/* the endpoint is over: nor any more */
/* The pump while it comes to rest: it gives nothing, takes nothing more, does nothing at all. */
bool map_holds_rx(const struct stream *st);
bool map_holds_tx(const struct stream *st);
bool map_rests(const struct stream *st);
void map_look(struct stream *st);		/* the pump has been at work */
bool map_offered(const struct stream *st);	/* it is not known yet whether it is taken */
bool map_taken(const struct stream *st);
void map_over(struct stream *st);		/* the stream ends: whoever waits hears it */

#endif
