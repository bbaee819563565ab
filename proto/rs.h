/* SPDX-License-Identifier: MIT */
/*
 * The ring stream: an octet stream over RDMAP (docs/ringstream.md): control words, credits, rings, large sends by
 * RDMA Read, half-close, abort. A pure state machine over a flat state; it posts to a QP through ops and is fed its completions.
 */
#ifndef IW_PROTO_RS_H
#define IW_PROTO_RS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "page.h"
#include "wr.h"

#define IW_RS_VERSION	1
#define IW_RS_PD_LEN	76u

/* capabilities */
#define IW_RS_CAP_IMM		1u
#define IW_RS_CAP_SRCAVAIL	2u
#define IW_RS_CAP_SENDINV	4u
#define IW_RS_CAP_URGENT	8u
#define IW_RS_CAP_LARGE		16u	/* FPDUs larger than the EMSS */

/* What an end says of itself in the MPA private data. */
struct iw_rs_pd {
	uint8_t ver_lo, ver_hi;
	uint16_t caps;
	uint32_t ring_stag;
	uint64_t ring_to;
	uint32_t ring_len;	/* power of two, 64 KiB .. 64 MiB */
	uint16_t bufs;		/* QN 0 buffers posted, >= 8 */
	uint16_t buf_size;	/* of each, >= 64 */
	uint16_t srcavail_max;
	struct iw_addr dst, src;	/* original destination; the source as the application bound it */
	uint64_t nonce;		/* of the attempt (docs/upgrade.md), in Request and Reply */
};

void iw_rs_pd_encode(const struct iw_rs_pd *pd, uint8_t out[IW_RS_PD_LEN]);
/* 0, -EPROTO (magic, ranges), -EPROTONOSUPPORT (no common version). Unknown trailing octets are ignored. */
int iw_rs_pd_decode(struct iw_rs_pd *pd, const uint8_t *in, size_t len);

/* ---- control words ---- */
enum iw_cw_type {
	IW_CW_DATA, IW_CW_INLINE, IW_CW_ACK, IW_CW_CREDIT, IW_CW_SRCAVAIL, IW_CW_RDDONE, IW_CW_CANCEL, IW_CW_URGENT,
	IW_CW_ABORT, IW_CW_PING,
};
struct iw_cw {
	uint8_t type, flags, credits;
	uint64_t value;		/* 48 bits */
};
#define IW_CW_FIN	1u	/* DATA, INLINE, SRCAVAIL; ACK: FIN consumed */
#define IW_CW_URG	2u	/* DATA, INLINE, SRCAVAIL: last octet is urgent */
#define IW_CW_MORE	4u	/* DATA, INLINE, SRCAVAIL: more follows at once */
#define IW_CW_WAITING	2u	/* ACK: reader is waiting */
#define IW_CW_REFUSED	1u	/* RDDONE: refused or cancelled, the rest comes by ring */
#define IW_CW_ANSWER	1u	/* PING */
void iw_cw_encode(const struct iw_cw *cw, uint8_t out[8]);
int iw_cw_decode(struct iw_cw *cw, const uint8_t in[8]);	/* -EPROTO: unknown type or flag */

/* What follows the word in a Send. */
#define IW_CW_LEN		8u
#define IW_CW_SRCAVAIL_LEN	20u
#define IW_CW_RDDONE_LEN	8u
struct iw_cw_srcavail {
	uint32_t stag;
	uint64_t to, len;
};
void iw_cw_encode_srcavail(const struct iw_cw_srcavail *sa, uint8_t out[IW_CW_SRCAVAIL_LEN]);
void iw_cw_decode_srcavail(struct iw_cw_srcavail *sa, const uint8_t in[IW_CW_SRCAVAIL_LEN]);
void iw_cw_encode_rddone(uint64_t octets, uint8_t out[IW_CW_RDDONE_LEN]);
uint64_t iw_cw_decode_rddone(const uint8_t in[IW_CW_RDDONE_LEN]);

/* ---- the stream ---- */
struct iw_rs_param {
	uint32_t tx_len, rx_len;	/* ring sizes (powers of two) */
	uint32_t rd_len;		/* octets of the area Reads go to (power of two) */
	uint32_t tx_stag, rx_stag, rd_stag, rq_stag;	/* local STags: tx ring (local read), rx ring (remote write), read area, receive buffers */
	uint64_t tx_to, rx_to, rd_to, rq_to;		/* TO of the first octet of each */
	uint16_t bufs, buf_size;	/* receive buffers */
	uint32_t inline_max;		/* start with 512; <= peer's buf_size - 8 */
	uint32_t srcavail_min;		/* use SRCAVAIL for backlogs of at least this many octets; 0 = never */
	uint32_t read_max;		/* octets of one RDMA Read, 512 .. rd_len */
	uint16_t caps;
	/* Octets from one receive buffer to the next. 0: all are one, of a provider that completes each message before it places the next (proto/end.h). */
	uint16_t rq_step;
	/* What was sent stays in the tx ring until the peer has used it, so that it can be sent again; without SRCAVAIL only. */
	uint16_t tx_keeps;
};

/* Where a receive buffer lies in the area of them, and the octets of that. */
static inline uint64_t iw_rs_buf(const struct iw_rs_param *p, uint64_t idx)
{
	return idx * p->rq_step;
}

static inline uint64_t iw_rs_rq_len(const struct iw_rs_param *p)
{
	return iw_rs_buf(p, p->bufs - 1u) + p->buf_size;
}

enum iw_rs_event {
	IW_RS_EV_READABLE = 1,	/* iw_rs_rx_peek() has more */
	IW_RS_EV_WRITABLE,	/* iw_rs_tx_space() has more */
	IW_RS_EV_FIN,		/* the peer's FIN is next after what can be read */
	IW_RS_EV_ABORT,		/* the stream is dead: rs->err (positive errno) */
	IW_RS_EV_URGENT,
	IW_RS_EV_DONE,		/* both FINs consumed and acknowledged: close the connection */
};

struct iw_rs;
struct iw_rs_ops {
	int (*post_send)(void *ctx, const struct iw_wr *wr);	/* as iw_qp_post_send */
	int (*post_recv)(void *ctx, uint64_t wr_id, const struct iw_sge *sge);
	unsigned int (*sq_free)(void *ctx);
	/* A receive buffer, ring or read area of our own by local STag and TO, for copying INLINE payloads; never fails for our own ranges. */
	void *(*mem)(void *ctx, uint32_t stag, uint64_t to, size_t len);
	/* The n octets of a message at src, which mem() named, go to the receive ring at TO. NULL: they are copied to what mem() says. */
	void (*place)(void *ctx, uint64_t to, const uint8_t *src, uint32_t n);
	/* Expose [off, off + len) of the tx ring for remote read, stream scope. Returns 0 and the STag and TO to advertise. */
	int (*expose)(void *ctx, uint64_t off, uint32_t len, uint32_t *stag, uint64_t *to);
	/* On CANCEL or abort; a Send with Invalidate does it otherwise. A hostile peer may have invalidated it already: then nothing. */
	void (*unexpose)(void *ctx, uint32_t stag);
	/* Comes from within iw_rs_complete() and iw_rs_pump(): the callee only takes note (queues work) and calls nothing of rs. */
	void (*event)(void *ctx, enum iw_rs_event ev);
};

#include "rs_state.h"	/* struct iw_rs: flat, versioned */

/* Set up our side (before MPA): fills the ring, credit and buffer fields of pd. Posts no receive yet. */
int iw_rs_init(struct iw_rs *rs, const struct iw_rs_param *p, struct iw_rs_pd *pd);
/* Post the receive buffers: call before the MPA Reply or Request leaves. */
int iw_rs_post_all(struct iw_rs *rs, const struct iw_rs_ops *ops, void *ctx);
/* MPA is up, the peer said `peer`. -EPROTO when its values are unusable. */
int iw_rs_start(struct iw_rs *rs, const struct iw_rs_pd *peer);
/*
 * IRD and ORD as MPA settled them, after iw_rs_start() and before octets move; without it both are taken as enough. No more Reads than ORD
 * are posted; with ORD 0 offers are refused, with IRD 0 none are made.
 */
void iw_rs_depths(struct iw_rs *rs, unsigned int ird, unsigned int ord);

/* Transmit side. Contiguous free space in the tx ring, `skip` octets further on: offset and length (0: full). */
void iw_rs_tx_space(const struct iw_rs *rs, uint32_t skip, uint32_t *off, uint32_t *len);
void iw_rs_tx_produced(struct iw_rs *rs, uint32_t n);
uint64_t iw_rs_tx_recall(struct iw_rs *rs);	/* octets that were produced and not sent are no more; returns where the stream ends now */
bool iw_rs_tx_open(const struct iw_rs *rs);	/* however many octets are produced next, iw_rs_pump() would send some */
void iw_rs_tx_fin(struct iw_rs *rs);		/* no more will be produced */
void iw_rs_tx_urgent(struct iw_rs *rs);		/* the last octet produced is urgent */
void iw_rs_abort(struct iw_rs *rs, int err);	/* tell the peer ABORT(err) and end */
void iw_rs_push(struct iw_rs *rs);		/* end of a burst: do not wait for more to coalesce */
bool iw_rs_due(const struct iw_rs *rs);		/* iw_rs_pump() might do something */
/* Post whatever can be posted now. Call after any of the above and after feeding completions. */
void iw_rs_pump(struct iw_rs *rs, const struct iw_rs_ops *ops, void *ctx);

/* Receive side. The next contiguous readable octets, by local STag and TO (0: nothing now). */
uint32_t iw_rs_rx_peek(const struct iw_rs *rs, uint32_t *stag, uint64_t *to);
uint32_t iw_rs_rx_at(const struct iw_rs *rs, uint64_t skip, uint32_t *stag, uint64_t *to);	/* those `skip` octets further on */
uint64_t iw_rs_rx_unread(const struct iw_rs *rs);	/* all that can be read now */
void iw_rs_rx_consumed(struct iw_rs *rs, uint32_t n);	/* contiguous or not */
bool iw_rs_rx_fin(const struct iw_rs *rs);	/* everything was consumed and the peer's FIN follows */
void iw_rs_rx_fin_consumed(struct iw_rs *rs);
void iw_rs_rx_waiting(struct iw_rs *rs, bool waiting);	/* the reader sleeps: the peer shall use SE */

/* A completion of the QP below. */
void iw_rs_complete(struct iw_rs *rs, const struct iw_rs_ops *ops, void *ctx, const struct iw_cqe *cqe);

uint64_t iw_rs_tx_unacked(const struct iw_rs *rs);	/* octets produced and not yet consumed by the peer */
/* Of those, with which SIOCOUTQ counts: what the peer could not read if nothing more came. `queued` octets are not framed yet, or T's peer has not got them. */
uint64_t iw_rs_tx_left(const struct iw_rs *rs, uint64_t queued);
/*
 * Small amounts are acknowledged late (a quarter of the ring). An owner that wants the peer's iw_rs_tx_unacked() to fall
 * to 0 on an idle stream calls this from a coarse timer: the next pump sends an ACK if anything is not acknowledged.
 */
void iw_rs_ack(struct iw_rs *rs);
/* Take back the oldest SRCAVAIL that the peer has not finished: what it has not read goes through the ring. */
void iw_rs_tx_cancel(struct iw_rs *rs);
/* PING the peer; stat.rx_ctl counts the answer. */
void iw_rs_ping(struct iw_rs *rs);

#endif
