/* SPDX-License-Identifier: MIT */
/*
 * State of a stream between two hosts, at one end: the ring stream and how far its two directions are. Flat, without pointers, versioned:
 * it lies in an area, which has the memory of the ring stream and the endpoint's state (proto/soft.h) behind it. The rings are in the
 * segment (proto/page.h), which the application has mapped; an area it has not.
 */
#ifndef IW_PROTO_REMOTE_H
#define IW_PROTO_REMOTE_H

#include "rs.h"

#define IW_REMOTE_MAGIC		0x4957524du	/* "IWRM" */
#define IW_REMOTE_VERSION	3u

struct iw_remote {
	uint32_t magic;
	uint16_t version, pad;
	uint64_t size;			/* of the whole area */
	uint64_t stream_id;

	/* where, from the start of the area */
	uint64_t ep_off, ep_len;	/* the endpoint's state, in a layout of its own */
	uint64_t rq_off, rd_off;	/* receive buffers of QN 0, and where RDMA Reads go: lengths as in p */

	uint8_t running;		/* MPA is up */
	uint8_t ev_abort, ev_done;	/* noted by the ring stream's events */
	uint8_t tx_eof;			/* the application's half ended */
	uint8_t fin_given;		/* the peer's FIN was passed on */
	uint8_t discard;		/* nobody reads the carrier any more, yet it is not closed (SHUT_RD) */
	uint8_t aborted;		/* the application reset the stream */
	uint8_t pad2;
	int32_t reset_err;		/* the peer or the network did; what it sent before is still being delivered */
	uint32_t pad3;
	struct iw_rs_param p;
	struct iw_rs rs;
};
static_assert(offsetof(struct iw_remote, ep_off) == 24 && offsetof(struct iw_remote, p) == 72, "iw_remote");

#endif
