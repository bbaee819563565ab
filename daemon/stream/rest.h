/* SPDX-License-Identifier: MIT */
/*
 * A joined pair of which one end goes to a program that cannot be given what is unread in its ring: that end gets another carrier, and we pass on
 * everything from here on, first what was left (docs/rings.md, 5).
 */
#ifndef IWARPD_STREAM_REST_H
#define IWARPD_STREAM_REST_H

#include <stdint.h>

struct stream;

/* carrier: that of end e, and the caller's no more, whatever comes of it. *s: the new one in its place, the caller's. -errno. */
int rest_begin(struct stream *st, unsigned int e, int carrier, uint32_t uid, int *s);

#endif
