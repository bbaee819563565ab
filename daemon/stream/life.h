/* SPDX-License-Identifier: MIT */
/* The life of a stream, as its parts know it. */
#ifndef IWARPD_STREAM_LIFE_H
#define IWARPD_STREAM_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "stream.h"

void stream_relay_over(struct stream *st);	/* the relay's memory goes */
void stream_no_upgrade(struct stream *st);	/* it is neither relay nor ring stream any more: what was set aside for them goes */
void stream_unreserve(struct stream *st);	/* nor anything else */
/* The other end of the carrier is offered to this application. 0 or -errno, and nothing has happened. */
int stream_offer_end(struct stream *st, const struct iw_tuple *t, const struct stream_owner *o, struct stream_grant *g);
bool stream_withdraw_end(struct stream *st);	/* see stream_withdraw() */
void stream_join_end(struct stream *st, int tcp);	/* it is there: LOCAL. Takes over tcp */
int stream_count_user(uint32_t uid, int delta);	/* -EDQUOT */
void stream_forgotten(uint64_t id);			/* nobody answers for it any more */
void stream_uncount(struct stream *st, unsigned int end);	/* in its user's quota no more */
/* A line about a stream: whose it is, and between which addresses. */
void stream_log_line(const struct stream *st, int level, const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
#define stream_log(st, level, ...) stream_log_line(st, level, __FILE__, __LINE__, __VA_ARGS__)
/* One of a daemon before us, without connection and carrier, not in the table yet. Takes over the segment. NULL: it cannot be. */
struct stream *stream_revive(uint64_t id, const struct iw_tuple *t, const struct stream_owner *o, int segment, size_t size, bool relayed);
/* The same of a pair, both ends: LOCAL. counted: in the quota of its user. */
struct stream *stream_revive_pair(uint64_t id, const struct iw_tuple t[2], const struct stream_owner o[2], const bool counted[2], int segment, size_t size);
void stream_kill(struct stream *st);		/* to DEAD; freed when nothing is in flight */
bool stream_busy(const struct stream *st);
void stream_ended_op(struct stream *st);	/* an op of a dead or dropped part completed: see whether that was the last */

#endif
