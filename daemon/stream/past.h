/* SPDX-License-Identifier: MIT */
/* Streams that are over and whose application still has its end. */
#ifndef IWARPD_STREAM_PAST_H
#define IWARPD_STREAM_PAST_H

#include <stdint.h>

struct stream;
struct stream_grant;

/*
 * The stream is about to be freed, its carrier is closed. While somebody has the other end of that, whoever is given it (exec, SCM_RIGHTS) is told
 * what it was and how it ended; it counts in its user's quota of streams. Takes over the segment and the watch.
 */
void past_keep(struct stream *st);
/* The one whose carrier has this SO_COOKIE. 0, or -errno. */
int past_open(uint64_t cookie, struct stream_grant *g);

#endif
