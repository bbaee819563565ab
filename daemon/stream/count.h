/* SPDX-License-Identifier: MIT */
/* What streams have carried. No count goes back, or beyond what the kernel counts on TCP, whatever an application writes into its map. */
#ifndef IWARPD_STREAM_COUNT_H
#define IWARPD_STREAM_COUNT_H

#include <stdbool.h>

struct stream;
struct stream_counts;

/* Its map is offered, or was given by a daemon before us: what is private is what everything is counted from. */
void count_offered(struct stream *st);
void count_revived(struct stream *st);
void count_begins(struct stream *st);	/* what it had carried by now is not this daemon's */
/* It is mapped no more, or TCP about to be closed; if it was. imported: what the library left is private now; else what its map says is. */
void count_settle(struct stream *st, bool imported);
/* Since the connection was switched. */
void count_of(const struct stream *st, struct stream_counts *c);
/* The same, of this daemon's time. */
void count_ours(const struct stream *st, struct stream_counts *c);
void count_add(struct stream_counts *sum, const struct stream_counts *c);

#endif
