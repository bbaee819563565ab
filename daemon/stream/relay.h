/* SPDX-License-Identifier: MIT */
/* A withdrawn stream: plain octets. */
#ifndef IWARPD_STREAM_RELAY_H
#define IWARPD_STREAM_RELAY_H

#include <stddef.h>

struct stream;

size_t relay_memory(void);		/* octets of the daemon's that one takes */
int relay_start(struct stream *st);	/* 0 or -errno */
void relay_free(struct stream *st);

#endif
