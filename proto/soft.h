/* SPDX-License-Identifier: MIT */
/*
 * State of an RDMAP endpoint on a TCP connection: the queue pair, and what is under way between it and TCP. Flat, without pointers,
 * versioned, so that it can lie in a memfd and one process can go on where another left off.
 */
#ifndef IW_PROTO_SOFT_H
#define IW_PROTO_SOFT_H

#include "qp.h"

#define IW_SOFT_MAGIC	0x49575346u	/* "IWSF" */
#define IW_SOFT_VERSION	3u
#define IW_SOFT_PAGE	4096u
/* Receive staging: a full FPDU always fits behind what one recv left over. */
#define IW_SOFT_RX	((256u << 10) + IW_FPDU_MAX_MARKERS)
#define IW_SOFT_TX	(256u << 10)	/* FPDUs framed in one go */

#define IW_SOFT_FEW	1024u		/* the same, of a few small messages */
#define IW_SOFT_IN_FEW	2u		/* iw_soft_tx.buf: they are there */

struct iw_soft_tx {			/* FPDUs that TCP has not taken yet */
	uint64_t pos;			/* of the first octet in the stream of FPDUs: Markers follow from it */
	uint32_t len, off;		/* octets, and how many of them TCP has */
	uint32_t buf;			/* where they are: iw_soft_tx_at() */
	uint32_t used;			/* 0: there are none */
};

/*
 * Large things first and last: what is never reached is never touched. What a stream of small messages needs, its octets too, is on one page:
 * the end of qp, and what follows, up to the first octets of rx.
 */
struct iw_soft {
	uint8_t front[IW_SOFT_PAGE - IW_QP_HOT % IW_SOFT_PAGE];
	struct iw_qp qp;

	uint32_t magic;
	uint16_t version, pad;
	uint64_t size;			/* of this structure */

	uint32_t rx_off, rx_len;	/* received and not yet consumed, at most one partial FPDU between two batches: rx[rx_off .. rx_len) */
	struct iw_soft_tx tx[2];	/* tx[0] is being sent, tx[1] follows */
	uint8_t large;			/* FPDUs may be longer than TCP's segments */
	uint8_t closing;		/* the ULP closed: FIN once everything is sent */
	uint8_t shut;			/* our FIN is sent */
	uint8_t peer_eof;
	uint8_t cut;			/* a Terminate came: only the FPDU that was begun is sent to its end */
	uint8_t reserved[59];

	_Alignas(64) uint8_t few[IW_SOFT_FEW];
	uint8_t rx[IW_SOFT_RX];
	_Alignas(IW_SOFT_PAGE) uint8_t txbuf[2][IW_SOFT_TX];
};
#define IW_SOFT_HOT	(offsetof(struct iw_soft, qp) + IW_QP_HOT)	/* where that page begins */
static_assert(sizeof(struct iw_soft_tx) == 24, "iw_soft_tx");
static_assert(IW_SOFT_HOT % IW_SOFT_PAGE == 0 && offsetof(struct iw_soft, rx) + IW_SOFT_FEW <= IW_SOFT_HOT + IW_SOFT_PAGE, "iw_soft pages");
static_assert(offsetof(struct iw_soft, txbuf) % IW_SOFT_PAGE == 0, "iw_soft pages");

/* Where the octets of b are, inside of s whatever b says; and how many have room there. */
static inline uint8_t *iw_soft_tx_at(struct iw_soft *s, const struct iw_soft_tx *b)
{
	return b->buf == IW_SOFT_IN_FEW ? s->few : s->txbuf[b->buf & 1];
}

static inline uint32_t iw_soft_tx_room(const struct iw_soft_tx *b)
{
	return b->buf == IW_SOFT_IN_FEW ? IW_SOFT_FEW : IW_SOFT_TX;
}

/* What is not consumed of rx moves to its front. */
void iw_soft_rx_front(struct iw_soft *s);
/* tx[0] ends with the FPDU that TCP has the first octets of, and nothing follows (RDMAP-5.4-06). */
void iw_soft_cut(struct iw_soft *s);

#endif
