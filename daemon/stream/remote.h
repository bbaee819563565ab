/* SPDX-License-Identifier: MIT */
/* A stream over RDMAP. */
#ifndef IWARPD_STREAM_REMOTE_H
#define IWARPD_STREAM_REMOTE_H

#include "proto/remote.h"
#include "daemon/rnic/endpoint.h"

struct area;
struct stream;

struct stream_remote {			/* what is alive of it */
	struct stream *st;
	struct iw_remote *f;		/* what somebody else could go on with, */
	struct area *area;		/* in here */
	struct endpoint *ep;		/* NULL once it is over */
	uint8_t *rq, *rd;		/* in area */
	struct endpoint_mr own[4];	/* as long as there is an endpoint: transmit and receive ring, rd, rq */
	struct endpoint_mr exposed[IW_RS_SA];	/* what the peer may read of the transmit ring */
	struct timer ack;
};

void remote_needs(struct prm_bill *b);		/* what a stream takes from its user's quotas */
int remote_start(struct stream *st, bool initiator);	/* on failure the TCP socket is still the stream's */
void remote_free(struct stream *st);
void remote_stat(const struct stream *st, struct endpoint_stat *s);
void remote_abort(struct stream *st, int err);	/* the application is gone by a reset */
void remote_reset(struct stream *st, int err);	/* the peer is */
void remote_end(struct stream *st);		/* DEAD when connection and carrier are done */

#endif
