/* SPDX-License-Identifier: MIT */
/* The life of a stream, as its parts know it. */
#ifndef IWARPD_STREAM_LIFE_H
#define IWARPD_STREAM_LIFE_H

#include <stdbool.h>
#include <stdint.h>

#include "stream.h"

int stream_new(int tcp, const struct iw_tuple *t, const struct stream_owner *o, bool client, struct stream_grant *g, struct stream **st);
void stream_unreserve(struct stream *st, uint64_t memory);	/* it needs that many octets, and no more of what was set aside */
int stream_count_user(uint32_t uid, int delta);	/* -EDQUOT */
void stream_uncount(struct stream *st, unsigned int end);	/* in its user's quota no more */
/* A line about a stream: whose it is, and between which addresses. */
void stream_log_line(const struct stream *st, int level, const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
#define stream_log(st, level, ...) stream_log_line(st, level, __FILE__, __LINE__, __VA_ARGS__)
void stream_kill(struct stream *st);		/* to DEAD; freed when nothing is in flight */
bool stream_busy(const struct stream *st);
void stream_ended_op(struct stream *st);	/* an op of a dead or dropped part completed: see whether that was the last */

#endif
