/* SPDX-License-Identifier: MIT */
/* The last streams that have ended, and how. */
#ifndef IWARPD_STREAM_ENDED_H
#define IWARPD_STREAM_ENDED_H

struct stream;

/* It is about to be freed, and all of it is still there. One that was never switched is none. */
void ended_note(const struct stream *st);

#endif
