/* SPDX-License-Identifier: MIT */
/* The daemon as agent of a stream whose queue pair its application works: it takes over what that leaves, living or dead. */
#ifndef IWARPD_STREAM_AGENT_H
#define IWARPD_STREAM_AGENT_H

#include <stdbool.h>
#include <stdint.h>

struct stream;
struct stream_info;

/* Nobody works the map any more, or its owner is dead: on with it here. It may be asked for again after *pause, or min. A reset, if it is unsound. */
void agent_take(struct stream *st, bool dead, unsigned int *pause, unsigned int min);
void agent_opened(struct stream *st);	/* somebody has the carrier who was not given the map: the library is asked to stop */
/* Of one that a daemon before us had mapped, RUNNING; takes over fd: 0 or -errno; and then what the page says of it. */
int agent_revive(struct stream *st, int fd, uint64_t len, int owner);
void agent_revived(struct stream *st);
void agent_info(const struct stream *st, struct stream_info *i);	/* taken: that it is, and when it last carried something */

#endif
