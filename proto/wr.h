/* SPDX-License-Identifier: MIT */
/* What a ULP says to whoever does RDMA for it, and what it hears: work requests, completions, rights of memory. */
#ifndef IW_PROTO_WR_H
#define IW_PROTO_WR_H

#include <stdint.h>

#define IW_QP_SQ	256u	/* of a queue pair: send queue entries, power of two */
#define IW_QP_RQ	256u	/* receive queue entries, power of two */
#define IW_QP_IRD	32u	/* inbound Reads + Atomics, at most */
#define IW_QP_ORD	32u	/* outbound Reads + Atomics, at most */
#define IW_QP_SGE	4u

enum iw_wr_op {
	IW_WR_SEND,
	IW_WR_WRITE,
	IW_WR_READ,
	IW_WR_IMM,		/* Immediate Data: imm[8] */
	IW_WR_FETCHADD,
	IW_WR_CMPSWAP,
	IW_WR_RECV,		/* in completions only */
};

#define IW_WR_SE	1u	/* solicited event: Send, Imm */
#define IW_WR_INVALIDATE 2u	/* Send with Invalidate of inv_stag */
#define IW_WR_FENCE	4u	/* wait until all earlier Reads and Atomics of this QP have completed */
#define IW_WR_INLINE	8u	/* Send: the payload starts with inl[0..inl_len), copied when posted; sge[0..nsge) follow (nsge may be 0) */
#define IW_WR_QUIET	16u	/* no completion on success */

#define IW_WR_INLINE_MAX 80u

struct iw_sge {			/* local memory, named like remote memory: by STag and Tagged Offset */
	uint64_t to;
	uint32_t stag;
	uint32_t len;
};

struct iw_wr {
	uint64_t wr_id;
	uint8_t op, flags, nsge, inl_len;
	uint32_t inv_stag;
	uint32_t rstag;			/* Write: Data Sink; Read, Atomic: Data Source */
	uint64_t rto;
	struct iw_sge sge[IW_QP_SGE];	/* Send, Write: gather. Read: exactly one, the sink. Recv: exactly one. */
	uint8_t imm[8];
	uint64_t add_swap, add_swap_mask, compare, compare_mask;	/* Atomics, host order */
	uint8_t inl[IW_WR_INLINE_MAX];
};

enum iw_wc_status {
	IW_WC_OK = 0,
	IW_WC_FLUSH,		/* the QP left the RTS state before it was done */
	IW_WC_LOC_PROT,		/* local STag, right or bounds. Ends the stream with Terminate 0/0/00: what follows in the queue may
				 * build on it (RDMAP-7.1-02). Nothing went out, unless it was revoked half way */
	IW_WC_LOC_LEN,
	IW_WC_REM_ERR,		/* Read, Atomic: the one the peer's Terminate quotes; see the QP's term fields. All others: FLUSH */
};

struct iw_cqe {			/* a completion */
	uint64_t wr_id;
	uint8_t op;		/* enum iw_wr_op; IW_WR_RECV for receives */
	uint8_t status;		/* enum iw_wc_status */
	uint8_t se;		/* receive: solicited event */
	uint8_t has_imm;	/* receive: it was Immediate Data, in imm; the buffer was eaten, not touched */
	uint8_t has_inv;	/* receive: inv_stag was invalidated */
	uint32_t len;		/* receive: octets */
	uint32_t inv_stag;
	uint8_t imm[8];
	uint64_t orig;		/* Atomics: original value, host order */
};

/* Rights of a registration. */
#define IW_ACCESS_LOCAL_WRITE	1u
#define IW_ACCESS_REMOTE_READ	2u
#define IW_ACCESS_REMOTE_WRITE	4u
#define IW_ACCESS_REMOTE_ATOMIC	8u
#define IW_ACCESS_LOCAL_READ	16u
#define IW_ACCESS_READ_SINK	32u	/* placement of a Read Response of this QP's own Read */

#endif
