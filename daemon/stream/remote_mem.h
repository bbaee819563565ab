/* SPDX-License-Identifier: MIT */
/* The memory of a stream over RDMAP. */
#ifndef IWARPD_STREAM_REMOTE_MEM_H
#define IWARPD_STREAM_REMOTE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "proto/rs.h"

struct stream;
struct stream_remote;
struct endpoint_mr;

#define REMOTE_KEPT	512u			/* the first octets of the area: see keep.c. struct iw_remote follows */
uint16_t remote_caps(unsigned int can);	/* IW_RS_CAP_* of ENDPOINT_* */
int remote_alloc(struct stream *st);		/* st->remote, with its area. 0 or -errno */
int remote_register_all(struct stream *st);	/* what it has as long as there is an endpoint */
int remote_register(struct stream *st, void *addr, uint64_t len, unsigned int access, struct endpoint_mr *mr);
/* What the peer may read of the transmit ring, as it was before another daemon took over: to[], of rs.tx_sa[] each, from remote_exposed(). */
void remote_exposed(const struct stream *st, uint64_t to[IW_RS_SA]);
int remote_expose_again(struct stream *st, const uint64_t to[IW_RS_SA]);
void remote_forget(struct stream_remote *r);	/* the endpoint, which may linger, and all registrations */
uint8_t *remote_tx_ring(const struct stream *st);
/* Own memory by local STag and TO; ctx: struct stream. NULL: not in one of our ranges. */
void *remote_mem(void *ctx, uint32_t stag, uint64_t to, size_t len);

#endif
