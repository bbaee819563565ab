/* SPDX-License-Identifier: MIT */
/*
 * The flat, pointer-free state of a queue pair, included by qp.h only. Indexes are free-running 32-bit counters, masked on
 * use; stream positions are 64-bit octet counts from the first octet of Full Operation in that direction.
 */
#ifndef IW_PROTO_QP_STATE_H
#define IW_PROTO_QP_STATE_H

#include <assert.h>

#define IW_QN_COUNT	4u	/* 0 Send and Immediate, 1 Read and Atomic Requests, 2 Terminate, 3 Atomic Responses */
#define IW_QP_UBUF	52u	/* octets of a QN 1 buffer */

enum iw_sqe_state {
	IW_SQE_QUEUED = 0,
	IW_SQE_ACTIVE,		/* some segments were framed */
	IW_SQE_FRAMED,		/* all were: a Send waits for the LLP, a Read for its Response */
	IW_SQE_DONE,		/* Read, Atomic: the Response was delivered */
};

struct iw_sqe {			/* send queue entry */
	struct iw_wr wr;
	uint64_t end;		/* stream position behind its last FPDU, once framed */
	uint64_t orig;		/* Atomic: what the Response said */
	uint32_t len;		/* octets of the message */
	uint8_t st;		/* enum iw_sqe_state */
	uint8_t status;		/* enum iw_wc_status it will complete with */
	uint8_t pad[2];
};

struct iw_rqe {			/* receive queue entry */
	uint64_t wr_id;
	struct iw_sge sge;
};

struct iw_ore {			/* outbound Read or Atomic in flight */
	uint32_t sq;		/* its send queue index */
	uint32_t rid;		/* Atomic: request identifier */
	uint32_t got;		/* Read: octets of the Response placed */
	uint8_t op;		/* enum iw_wr_op */
	uint8_t rtr;		/* 1: the RTR Read, which no work request stands for */
	uint8_t open;		/* 1: a segment of the Response came, the last did not */
	uint8_t pad;
};

struct iw_ire {			/* inbound Read or Atomic to be answered */
	uint64_t sink_to, src_to;
	uint64_t orig;		/* Atomic: original value */
	uint32_t sink_stag, src_stag;
	uint32_t size, done;	/* Read: octets asked for, octets framed */
	uint32_t rid;
	uint16_t ulpdu;		/* of the Request, for the Terminate that quotes it */
	uint8_t atomic;
	uint8_t ddp[18];	/* its DDP header as received */
	uint8_t pad[3];
};

struct iw_qp {
	/* the queues, their first entries last: what a stream of small messages needs lies together, and ends where the structure ends */
	struct iw_ire irdq[IW_QP_IRD];
	struct iw_ore ordq[IW_QP_ORD];
	struct iw_rqe rq[IW_QP_RQ];
	struct iw_sqe sq[IW_QP_SQ];	/* entry i is sq[iw_sq_at(i)]: backwards */
	struct iw_rqe rq_one;

	/* public: read by the owner, written by the engine */
	uint32_t version;
	uint32_t state;			/* enum iw_qp_state */
	struct iw_qp_param param;
	struct iw_term term;		/* sent or received, when the state says so */
	struct iw_qp_stat stat;
	int32_t err;			/* ERROR: positive errno of the LLP, or EPROTO for a FIN inside an FPDU or message */

	/* flags of both directions */
	uint8_t first_seen;		/* an FPDU was received and validated */
	uint8_t rtr_due;		/* enum iw_rtr: the Initiator's first FPDU, still to be framed */
	uint8_t rx_eof;			/* graceful FIN seen */
	uint8_t sq_shut;		/* no more posts: the owner closes its half once everything is sent */

	/* transmit */
	uint64_t tx_pos;		/* made by iw_qp_tx() */
	uint64_t tx_acked;		/* accepted by the LLP */
	uint64_t term_end;		/* position behind the Terminate */
	uint32_t sq_head, sq_next, sq_tail;	/* next to post, to frame, to complete */
	uint32_t tx_off;		/* octets of send queue entry sq_next framed */
	uint32_t tx_sge_off;
	uint8_t tx_sge;
	uint8_t tx_cur;			/* whose message is being segmented: 0 none, 1 send queue, 2 Response */
	uint8_t tx_turn;		/* 1: a Response has its turn */
	uint8_t term_due;		/* 1 to be framed, 2 framed */
	uint32_t tx_msn[IW_QN_COUNT];
	uint32_t tx_rid;
	uint32_t ord_head, ord_tail;

	/* receive */
	uint64_t rx_pos;
	uint32_t rx_msn[IW_QN_COUNT];	/* due next, or of the message that is open */
	uint32_t rx_mo[IW_QN_COUNT];	/* octets of the open message placed */
	uint8_t rx_open[IW_QN_COUNT];	/* 0, or opcode + 1 of the open message */
	uint8_t write_open;		/* a Write without its last segment */
	uint8_t rq_alike;		/* all entries of the receive queue are rq_one */
	uint8_t pad[2];
	uint32_t rq_head, rq_tail;
	uint32_t ird_head, ird_tail;
	uint32_t atomics;		/* outbound Atomics in flight: buffers of QN 3 */
	uint8_t imm[8];			/* Immediate Data being put together */
	uint8_t ubuf[2][IW_QP_UBUF];	/* messages of more than one segment on QN 1, QN 3 */
};
static inline uint32_t iw_sq_at(uint32_t i)
{
	return ~i & (IW_QP_SQ - 1);
}
#define IW_QP_HOT	offsetof(struct iw_qp, sq[IW_QP_SQ - 2])	/* from here on it is used all the time */

#endif
