/* SPDX-License-Identifier: MIT */
/* A relayed stream whose other end is an application of this host, too, becomes a pair. */
#ifndef IWARPD_STREAM_JOIN_H
#define IWARPD_STREAM_JOIN_H

#include <stdbool.h>

struct stream;

bool join_offered(const struct stream *st);	/* it is not known yet whether the second application takes its end */
void join_over(struct stream *st);	/* the stream ends: whoever waits hears it */

#endif
