/* SPDX-License-Identifier: MIT */
/* The application gets its TCP socket back. */
#ifndef IWARPD_STREAM_BACK_H
#define IWARPD_STREAM_BACK_H

#include <stdbool.h>

struct stream;

bool back_offered(const struct stream *st);	/* it is not known yet whether it takes it */
void back_over(struct stream *st);	/* the stream ends: whoever waits hears it */

#endif
