/* SPDX-License-Identifier: MIT */
/* A pair of applications of this host. */
#ifndef IWARPD_STREAM_LOCAL_H
#define IWARPD_STREAM_LOCAL_H

struct stream;

int local_prepare(struct stream *st, int a);	/* registers both ends while we have them */
void local_forget(struct stream *st);
int local_start(struct stream *st);		/* the other end is about to be handed out */

#endif
