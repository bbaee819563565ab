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
	struct timer map_want;		/* see map.c */
	unsigned int map_pause, burst_pause;
	struct timer orphan;		/* see orphan.c */
	uint64_t orphan_seen;
	unsigned int orphan_waits;
	struct iw_rs_pd pd;		/* what this end says of itself */
	bool on;			/* T is the endpoint's; before that all is only prepared */
	bool initiator;
	bool resets;			/* the application is gone, and a reset goes behind what that wrote */
};

void remote_needs(struct prm_bill *b);		/* what a stream takes from its user's quotas */
int remote_prepare(struct stream *st);		/* while T is the relay's, and undone */
void remote_unprepare(struct stream *st);
bool remote_ready(struct stream *st, void (*again)(void *ctx));	/* of what is prepared: see endpoint_ready(); ctx: st */
bool remote_made(const struct stream *st);	/* it is worth keeping: see endpoint_made() */
/* RUNNING, with the area, which it takes over, as another process left it; its endpoint rests. 0 or -errno: T is the stream's. */
int remote_revive(struct stream *st, struct area *a);
/* The octets of a Request with this nonce: their number or -errno. */
int remote_request(struct stream *st, uint64_t nonce, uint8_t out[ENDPOINT_FRAME_MAX]);
/* Of these octets, how many are a Request (answer: a Reply) with this nonce: 0 more are needed, -EPROTO none. */
int remote_frame(struct stream *st, const uint8_t *in, size_t len, bool answer, uint64_t nonce);
/* The relay has come to rest, and this is the other end's frame: STARTING. 0, or -errno and nothing has happened. */
int remote_go(struct stream *st, bool initiator, const uint8_t *frame, size_t len);
void remote_free(struct stream *st);
void remote_stat(const struct stream *st, struct endpoint_stat *s);
void remote_abort(struct stream *st, int err);	/* the application is gone by a reset */
void remote_reset(struct stream *st, int err);	/* the peer is */
void remote_cut(struct stream *st, int err);	/* whatever state it is in: a reset for both */
void remote_end(struct stream *st);		/* DEAD when connection and carrier are done */

#endif
