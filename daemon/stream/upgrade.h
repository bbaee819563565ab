/* SPDX-License-Identifier: MIT */
/* The upgrade of the wire (docs/upgrade.md), as the relay asks it. */
#ifndef IWARPD_STREAM_UPGRADE_H
#define IWARPD_STREAM_UPGRADE_H

#include <stdbool.h>

struct stream;
struct stream_info;

extern unsigned int upgrade_least_ms;		/* one waits for the other that long at least. Tests may take more */

int upgrade_new(struct stream *st);		/* 0 or -errno */
void upgrade_switched(struct stream *st);	/* the relay runs */
bool upgrade_holds(struct stream *st);		/* what the application wrote (or its end) may not be sent now; when that changes the relay is told */
/* The same as it is, which begins none. */
bool upgrade_keeps(const struct stream *st);
void upgrade_came(struct stream *st);		/* octets, or the end, came from TCP: they are the last ones in hand */
void upgrade_moved(struct stream *st);		/* something was passed on */
bool upgrade_open(const struct stream *st);	/* an attempt is under way: what stands at a position is not decided yet */
void upgrade_over(struct stream *st);		/* there will be none: the stream ends, or becomes something else */
void upgrade_joined(struct stream *st);		/* nor need there be: both ends are here */
void upgrade_free(struct stream *st);
void upgrade_info(const struct stream *st, struct stream_info *i);

#endif
