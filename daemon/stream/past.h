/* SPDX-License-Identifier: MIT */
/* Streams that are over and whose application still has its end. */
#ifndef IWARPD_STREAM_PAST_H
#define IWARPD_STREAM_PAST_H

#include <stdbool.h>
#include <stdint.h>

struct stream;
struct stream_grant;
struct tcp_kept;

/*
 * The stream is about to be freed, its carrier is closed. While somebody has the other end of that, whoever is given it (exec, SCM_RIGHTS) is told
 * what it was and how it ended, and its TCP socket answers for options, unless it is to be reset; it counts in its user's quota of streams. Takes over the
 * segment, the watch and the socket. false: nobody has it.
 */
bool past_keep(struct stream *st);
/* The socket that answers for options of its end, and what is answered otherwise. -1: none. */
int past_tcp(uint64_t id, struct tcp_kept **kept);
/* The one whose carrier has this SO_COOKIE. 0, or -errno. */
int past_open(uint64_t cookie, struct stream_grant *g);

#endif
