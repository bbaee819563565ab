/* SPDX-License-Identifier: MIT */
/* Pairs of this host outlive the daemon: what it has of them lies in the service manager's store. */
#ifndef IWARPD_STREAM_KEEP_PAIR_H
#define IWARPD_STREAM_KEEP_PAIR_H

#include <stdbool.h>

#define KEEP_PAIRS	"iwsock-pairs.1"	/* names in the store: the table, with the version of its layout, */
#define KEEP_PAIR	"iwsock-pair-"	/* and, with its slot and id, a pair */

struct stream;

/* It is LOCAL. false: that is not possible now, and should be tried again. */
bool keep_pair(struct stream *st);
/* Its carrier, or whether it is counted, has changed. */
void keep_pair_end(const struct stream *st, unsigned int end);
void keep_pair_not(struct stream *st);	/* any more */

/* The next daemon: first the table, which stays the caller's, 0 or -errno; then each pair, whose descriptors are taken in any case; then the end of it. */
int keep_pairs_table(int fd);
void keep_pair_revive(const char *name, const int *fds, unsigned int n);
void keep_pairs_done(void);

#endif
