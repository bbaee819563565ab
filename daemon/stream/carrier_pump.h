/* SPDX-License-Identifier: MIT */
/* The pump of a remote stream, for whoever works its carrier without the library. */
#ifndef IWARPD_STREAM_CARRIER_PUMP_H
#define IWARPD_STREAM_CARRIER_PUMP_H

struct stream;

void pump_start(struct stream *st);
void pump_unread(struct stream *st);		/* what it holds for the application, and the end behind it, as far as the carrier takes it at once */
void pump_queue(struct stream *st);		/* after this batch */
void pump_acked(struct stream *st);		/* as relay_acked() */

#endif
