/* SPDX-License-Identifier: MIT */
/* A stream over RDMAP: state shared by stream_remote.c (set-up and end) and stream_pump.c (octets). */
#ifndef IWARPD_STREAM_REMOTE_H
#define IWARPD_STREAM_REMOTE_H

#include "conf.h"
#include "stream_priv.h"

#define REMOTE_BUFS	64u		/* receive buffers of QN 0: the peer's credits */
#define REMOTE_RD_LEN	(1u << 20)	/* where RDMA Reads go */
#define REMOTE_READ_MAX	(256u << 10)

struct stream_remote {
	struct stream *st;
	struct conn *conn;		/* NULL once it is over */
	struct rnic_pd *pd;
	struct iw_rs rs;
	struct iw_rs_param p;
	uint8_t *rq, *rd;		/* behind this structure */
	struct rnic_mr *own[4];		/* registrations as long as there is conn: transmit and receive ring, rd, rq */
	struct rnic_mr *exposed[IW_RS_SA];	/* what the peer may read of the transmit ring */
	struct timer ack;
	bool running;			/* MPA is up */
	bool ev_abort, ev_done;		/* noted by the ring stream's events */
	bool tx_eof;			/* the application's half ended */
	bool fin_given;			/* the peer's FIN was passed on */
	bool discard;			/* nobody reads the carrier any more, yet it is not closed (SHUT_RD) */
	bool aborted;			/* the application reset the stream */
	int reset_err;			/* the peer or the network did; what it sent before is still being delivered */
};

/* stream_remote.c */
extern const struct iw_rs_ops remote_rs_ops;	/* ctx: struct stream */
void remote_abort(struct stream *st, int err);	/* the application is gone by a reset */
void remote_reset(struct stream *st, int err);	/* the peer is */
void remote_end(struct stream *st);		/* DEAD when connection and carrier are done */
void *remote_mem(void *ctx, uint32_t stag, uint64_t to, size_t len);
/* stream_pump.c */
void pump_start(struct stream *st);
void pump_queue(struct stream *st);		/* after this batch */

#endif
