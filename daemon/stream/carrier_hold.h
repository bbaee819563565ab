/* SPDX-License-Identifier: MIT */
/* Octets that are held in the carrier. */
#ifndef IWARPD_STREAM_CARRIER_HOLD_H
#define IWARPD_STREAM_CARRIER_HOLD_H

struct stream;

void hold_start(struct stream *st);
/* The requests of hold_start() end some time later; `then` is called when they have (not when the stream died meanwhile). */
void hold_stop(struct stream *st, void (*then)(struct stream *st));

#endif
