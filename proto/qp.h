/* SPDX-License-Identifier: MIT */
/*
 * A queue pair: the whole MPA FPDU / DDP / RDMAP endpoint as a pure state machine. Octets in, octets and completions out;
 * no I/O, no clock, no allocation, no pointer in the state: struct iw_qp is flat and versioned and may live in a memfd.
 * The owner gives memory and sinks through struct iw_qp_ops on every call.
 */
#ifndef IW_PROTO_QP_H
#define IW_PROTO_QP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wr.h"

#define IW_QP_VERSION	4
#define IW_FPDU_MAX	(2u + 65535u + 3u + 4u)	/* one FPDU without Markers */
#define IW_FPDU_MAX_MARKERS (IW_FPDU_MAX + 4u * (IW_FPDU_MAX / 508u + 2u))

enum iw_qp_event {
	IW_QP_EV_FIRST_FPDU = 1,	/* the first FPDU with a good CRC came: the Responder may send now. At the Initiator too */
	IW_QP_EV_TERM_SENT,		/* a protocol error was found and a Terminate is queued; qp->term says which */
	IW_QP_EV_TERM_RECEIVED,		/* qp->term has what the peer said */
	IW_QP_EV_EOF,			/* FIN at an FPDU and message boundary: the peer's half is closed gracefully */
	IW_QP_EV_LOST,			/* FIN inside an FPDU or message, or the LLP is lost: no Terminate can help */
};

/* Why access was refused; the QP maps it to layer/type/code by context. */
enum iw_access_err {
	IW_ACC_OK = 0,
	IW_ACC_STAG,		/* no such STag, or wrong key octet */
	IW_ACC_BOUNDS,
	IW_ACC_RIGHTS,
	IW_ACC_SCOPE,		/* other protection domain, or bound to another stream */
	IW_ACC_WRAP,		/* TO + length passes 2^64 - 1 */
};

/*
 * Callbacks come from inside iw_qp_tx, tx_done, rx, rx_eof, lost and terminate. They may post, and call iw_qp_terminate() and
 * iw_qp_lost(); they may not call the others, nor free the QP. At the end of a stream event() comes first, then every
 * outstanding work request completes: the send queue in order (with OK what was done already), then the receive queue; posts
 * then give -ENOTCONN. Receives complete in the order of their messages.
 */
struct iw_qp;
struct iw_qp_ops {
	/* Memory of [to, to + len) under stag for this QP with this right (one IW_ACCESS_*). Checks in the order wrap, STag,
	 * scope, right, bounds. len > 0. On IW_ACC_OK *ptr is valid until the call that asked returns. */
	enum iw_access_err (*access)(void *ctx, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr);
	/* Checks as access(), for IW_ACCESS_REMOTE_WRITE, and puts the n octets of src there, which stay where they are until iw_qp_rx() is called again: at
	 * once, or before anybody looks at that memory. NULL: access() is asked. */
	enum iw_access_err (*place)(void *ctx, uint32_t stag, uint64_t to, const uint8_t *src, uint32_t n);
	/* The payload of a Send that came in one segment: n octets at src, which stay there as those of place() do. true: it is kept there, and the receive
	 * buffer is left alone. NULL: it is not. */
	bool (*whole)(void *ctx, const uint8_t *src, uint32_t n);
	/* The payload of an RDMA Write, n octets of it, that came whole but was not checked yet: where they are to be copied while their CRC is taken, since
	 * somebody waits for them who cannot mind if they are bad. place() comes all the same. NULL, or NULL returned: nowhere. */
	uint8_t *(*sink)(void *ctx, uint32_t stag, uint64_t to, uint32_t n);
	/* Payload of a Send or Write, where it is not in one piece: *len octets, at most as many as asked for, are at the place it returns.
	 * Never fails, as nobody can revoke that memory. NULL: access() is asked. */
	const void *(*payload)(void *ctx, uint32_t stag, uint64_t to, uint32_t *len);
	/* Send with Invalidate: invalidate an STag of this QP. IW_ACC_OK, or why not (SCOPE also when shared by streams). */
	enum iw_access_err (*invalidate)(void *ctx, uint32_t stag);
	/* A work request completed, in the order rules 15 to 20 of RDMAP ask for. */
	void (*complete)(void *ctx, const struct iw_cqe *cqe);
	void (*event)(void *ctx, enum iw_qp_event ev);
};

enum iw_qp_state {
	IW_QP_IDLE = 0,
	IW_QP_RTS,
	IW_QP_TERMINATE,	/* a Terminate is to be sent (or was sent); input is discarded */
	IW_QP_CLOSING,		/* Terminate handed to the LLP, or received: the owner does shutdown(SHUT_WR) and reads to the end */
	IW_QP_ERROR,		/* LLP lost */
};

/* A Terminate, sent or received. */
struct iw_term {
	uint8_t layer, etype, code;
	uint8_t has_len, has_ddp, has_rdmap;	/* M D R */
	uint16_t seg_len;
	uint8_t ddp[18];
	uint8_t ddp_len;
	uint8_t rdmap[28];
	uint8_t siw_swapped;	/* received with Linux siw's swapped bits: decoded all the same */
	uint8_t cut;		/* received shorter than its bits say; what is there was decoded */
	uint8_t bad;		/* received with another MSN or MO than the first and only message of QN 2 has */
};

/* The Initiator's first FPDU in peer-to-peer mode (RFC 6581), of no octets. The Responder expects an ordinary message: nothing to set. */
enum iw_rtr { IW_RTR_NONE, IW_RTR_WRITE, IW_RTR_READ, IW_RTR_SEND };

struct iw_qp_param {
	uint8_t initiator;	/* may send at once; a Responder waits for the first FPDU */
	uint8_t crc;		/* generate and check */
	uint8_t tx_markers, rx_markers;
	uint8_t rtr;		/* enum iw_rtr */
	uint16_t mulpdu;	/* 128..64768; see iw_qp_set_mulpdu */
	uint16_t ird, ord;	/* <= IW_QP_IRD, IW_QP_ORD */
	uint32_t recv_min;	/* smallest receive buffer accepted by post_recv (>= 8) */
};

#define IW_SIZES	9u	/* of messages: up to 64 octets, 256, 1 KiB and so on to 1 MiB; more */

struct iw_qp_stat {		/* counts since start; sent = handed to the LLP */
	uint64_t tx_fpdu, rx_fpdu, tx_octets, rx_octets;
	uint64_t tx_send, rx_send, tx_write, rx_write, tx_imm, rx_imm, tx_read, rx_read, tx_rresp, rx_rresp, tx_atomic, rx_atomic;
	uint64_t tx_write_octets, rx_write_octets, tx_read_octets, rx_read_octets;	/* payload; read = of Responses */
	uint64_t rx_zero_tagged, rx_tiny;
	uint64_t tx_size[IW_SIZES];	/* Sends, Writes and Read Responses by the octets of the message */
};

/* The flat state. Fields other than those of the public part are the engine's own (qp_priv.h documents them). */
#include "qp_state.h"

void iw_qp_init(struct iw_qp *qp);
/* Enter Full Operation. -EINVAL for bad parameters. */
int iw_qp_start(struct iw_qp *qp, const struct iw_qp_param *p);
/* Follow the EMSS: segments already cut stay (LLP-3-02). */
void iw_qp_set_mulpdu(struct iw_qp *qp, uint16_t mulpdu);

/*
 * 0, -EAGAIN (queue full), -EINVAL, -EMSGSIZE (>= 2^32), -ENOTCONN (not RTS). The work request is copied; the memory it names is
 * read when its segments are made. Receives may be posted before iw_qp_start() (but after iw_qp_init()): the MPA Reply must
 * not leave before there are buffers.
 */
int iw_qp_post_send(struct iw_qp *qp, const struct iw_wr *wr);
int iw_qp_post_recv(struct iw_qp *qp, uint64_t wr_id, const struct iw_sge *sge);
static inline unsigned int iw_qp_sq_free(const struct iw_qp *qp)
{
	return IW_QP_SQ - (qp->sq_head - qp->sq_tail);
}
/* The ULP closes: what was posted still goes out, further sends are refused with -ENOTCONN (DDP-6.2.1-01). */
void iw_qp_sq_shut(struct iw_qp *qp);
/* Was everything posted made into FPDUs? While something waits for the Response of a Read there is more to come, though nothing is pending. */
static inline bool iw_qp_sq_framed(const struct iw_qp *qp)
{
	return qp->sq_next == qp->sq_head;
}

/*
 * Make octets for the LLP: as many whole FPDUs as there are and fit into out[0..cap). cap must be >= IW_FPDU_MAX_MARKERS.
 * Payload is copied and the CRC is taken over the copy. Returns octets (0: nothing to send now).
 * budget: stop after about this many octets (fairness between streams); 0 = cap.
 */
size_t iw_qp_tx(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, uint8_t *out, size_t cap, size_t budget);
/* True when iw_qp_tx() would give octets. */
bool iw_qp_tx_waits(const struct iw_qp *qp);
#define IW_QP_SINK	4096u	/* octets of payload from which on sink() is asked */
static inline bool iw_qp_tx_pending(const struct iw_qp *qp)
{
	bool nothing = qp->state == IW_QP_RTS && iw_qp_sq_framed(qp) && qp->ird_head == qp->ird_tail && !qp->rtr_due;

	return !nothing && iw_qp_tx_waits(qp);
}
/*
 * The LLP has accepted n more octets that iw_qp_tx() made: completes what ends in them. When the Terminate is among them the
 * state becomes CLOSING.
 */
void iw_qp_tx_done(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, size_t n);

/*
 * Octets from the LLP. Consumes whole FPDUs and returns how many octets were used; the rest (at most one partial FPDU)
 * must be presented again with more behind it. Everything is consumed and dropped after an error.
 * in must be writable scratch (Markers are taken out in place).
 */
size_t iw_qp_rx(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, uint8_t *in, size_t len);
/* FIN from the LLP, with `left` octets of a partial FPDU unconsumed. */
void iw_qp_rx_eof(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, size_t left);
/* The LLP is lost (ECONNRESET, ETIMEDOUT, ...): flush everything. */
void iw_qp_lost(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, int err);
/* The stream is over for the ULP, whatever the reason: what is still outstanding completes with FLUSH. No event; nothing is sent any more. */
void iw_qp_end(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx);
/*
 * The ULP or local software ends the stream with a Terminate of its own (layer, type, code; no headers). A Responder that
 * has received no FPDU sends nothing and goes straight to CLOSING (MPA-7.1.2-05).
 */
void iw_qp_terminate(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, uint8_t layer, uint8_t etype, uint8_t code);

/* "DDP / untagged / message too long" and the like, for logs; never NULL. */
const char *iw_term_text(uint8_t layer, uint8_t etype, uint8_t code);

#endif
