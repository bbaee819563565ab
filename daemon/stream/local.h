/* SPDX-License-Identifier: MIT */
/* A pair of applications of this host. */
#ifndef IWARPD_STREAM_LOCAL_H
#define IWARPD_STREAM_LOCAL_H

#include <stdbool.h>

struct prm_bill;
struct stream;

int local_prepare(struct stream *st, int a);	/* registers both ends while we have them */
/* Its application has another end of a carrier now: fd. 0 or -errno. */
int local_watch(struct stream *st, unsigned int end, int fd);
/* Does the epoll set still have that end, by the number that it had when it came there: is it open? Without /proc: no. */
bool local_lists(int watch, int number);
void local_forget(struct stream *st);
int local_start(struct stream *st);		/* the other end is about to be handed out */
void local_needs(const struct stream *st, struct prm_bill *b);	/* what its rings take from its user's quotas: nothing, if it is not LOCAL */
const char *local_path(const struct stream *st, unsigned int end);	/* what its octets go by, as its library says */

#endif
