/* SPDX-License-Identifier: MIT */
/* The daemon ends in order: what it pumps is the next one's. */
#ifndef IWARPD_STREAM_LEAVE_H
#define IWARPD_STREAM_LEAVE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/rs.h"

struct stream;

bool leave_left(const struct stream *st);
void leave_not(struct stream *st);	/* after all: it goes on here until its end */

/* At the next one. It rests, with its area and what the peer may read (remote_exposed()). 0 or -errno. */
int leave_revive(struct stream *st, const uint64_t exposed[IW_RS_SA]);
void leave_revived(struct stream *st);	/* and it goes on */

#endif
