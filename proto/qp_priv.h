/* SPDX-License-Identifier: MIT */
/* What the files of the queue pair engine share: protocol errors, Terminate coding, queue helpers. */
#ifndef IW_PROTO_QP_PRIV_H
#define IW_PROTO_QP_PRIV_H

#include "qp.h"
#include "wire.h"

/* How much of the offending message a Terminate quotes (the M, D and R bits). */
enum iw_quote { IW_Q_NONE, IW_Q_DDP, IW_Q_RDMAP };	/* RDMAP: only when the message is a Read Request */

/* X(SYMBOL, layer, etype, code, quote): every error the engine itself finds. */
#define IW_TERRS(X) \
	X(LOCAL,	0, 0, 0x00, IW_Q_NONE) \
	X(RP_STAG,	0, 1, 0x00, IW_Q_RDMAP) \
	X(RP_BOUNDS,	0, 1, 0x01, IW_Q_RDMAP) \
	X(RP_RIGHTS,	0, 1, 0x02, IW_Q_RDMAP) \
	X(RP_SCOPE,	0, 1, 0x03, IW_Q_RDMAP) \
	X(RP_WRAP,	0, 1, 0x04, IW_Q_RDMAP) \
	X(RP_INV,	0, 1, 0x09, IW_Q_DDP) \
	X(RO_VERSION,	0, 2, 0x05, IW_Q_DDP) \
	X(RO_OPCODE,	0, 2, 0x06, IW_Q_DDP) \
	X(RO_STREAM,	0, 2, 0x07, IW_Q_DDP) \
	X(RO_UNSPEC,	0, 2, 0xff, IW_Q_DDP) \
	X(DDP_LOCAL,	1, 0, 0x00, IW_Q_NONE) \
	X(T_STAG,	1, 1, 0x00, IW_Q_DDP) \
	X(T_BOUNDS,	1, 1, 0x01, IW_Q_DDP) \
	X(T_SCOPE,	1, 1, 0x02, IW_Q_DDP) \
	X(T_WRAP,	1, 1, 0x03, IW_Q_DDP) \
	X(T_VERSION,	1, 1, 0x04, IW_Q_DDP) \
	X(U_QN,		1, 2, 0x01, IW_Q_DDP) \
	X(U_NOBUF,	1, 2, 0x02, IW_Q_DDP) \
	X(U_MSN,	1, 2, 0x03, IW_Q_DDP) \
	X(U_MO,		1, 2, 0x04, IW_Q_DDP) \
	X(U_TOOLONG,	1, 2, 0x05, IW_Q_DDP) \
	X(U_VERSION,	1, 2, 0x06, IW_Q_DDP) \
	X(LLP_LOST,	2, 0, 0x01, IW_Q_NONE) \
	X(LLP_CRC,	2, 0, 0x02, IW_Q_NONE) \
	X(LLP_MARKER,	2, 0, 0x03, IW_Q_NONE)

enum iw_terr {
	IW_TE_OK = 0,
#define X(sym, layer, etype, code, quote) IW_TE_##sym,
	IW_TERRS(X)
#undef X
	IW_TE_MAX
};

/* What is quoted: the ULPDU as received (its DDP header is all that is looked at), and the Read Request if it is one. */
struct iw_quoted {
	const uint8_t *ddp;		/* NULL: nothing */
	uint16_t ulpdu;
	const uint8_t *read_req;	/* 28 octets, or NULL */
};

void iw_term_set(struct iw_term *t, enum iw_terr e, const struct iw_quoted *q);
/* Terminate payload: encode into out[IW_TERM_MAX], returns octets. Decode takes anything (cut: shorter than its bits say). */
size_t iw_term_encode(const struct iw_term *t, uint8_t *out);
void iw_term_decode(struct iw_term *t, const uint8_t *in, size_t len);

/* Masked arithmetic of Atomics on host-order values (EXT-5.1.1-01, EXT-5.1.2-01). */
static inline uint64_t iw_fetchadd(uint64_t orig, uint64_t add, uint64_t mask)
{
	return ((orig & ~mask) + (add & ~mask)) ^ ((orig ^ add) & mask);
}

static inline uint64_t iw_cmpswap(uint64_t orig, uint64_t cmp, uint64_t cmp_mask, uint64_t swap, uint64_t swap_mask)
{
	return (orig ^ cmp) & cmp_mask ? orig : (orig & ~swap_mask) | (swap & swap_mask);
}

static inline bool iw_op_is_read(uint8_t op)	/* has a Response */
{
	return op == IW_WR_READ || op == IW_WR_FETCHADD || op == IW_WR_CMPSWAP;
}

static inline struct iw_sqe *iw_sqe(struct iw_qp *qp, uint32_t i)
{
	return &qp->sq[iw_sq_at(i)];
}

static inline struct iw_rqe *iw_rqe(struct iw_qp *qp, uint32_t i)
{
	return qp->rq_alike ? &qp->rq_one : &qp->rq[i & (IW_QP_RQ - 1)];
}

static inline struct iw_ore *iw_ore(struct iw_qp *qp, uint32_t i)
{
	return &qp->ordq[i & (IW_QP_ORD - 1)];
}

static inline struct iw_ire *iw_ire(struct iw_qp *qp, uint32_t i)
{
	return &qp->irdq[i & (IW_QP_IRD - 1)];
}

enum iw_terr iw_terr_rdmap(enum iw_access_err e);	/* Read and Atomic Requests: layer 0 type 1 */
enum iw_terr iw_terr_ddp(enum iw_access_err e);		/* tagged placement: layer 1 type 1 */

/* A protocol error was found: queue the Terminate, tell the owner, flush. Nothing happens unless the state is RTS. */
void iw_qp_fail(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, enum iw_terr e, const struct iw_quoted *q);
/* Complete everything that is left; what was done already completes well. */
void iw_qp_flush(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx);
/* Complete the send queue as far as it is done, in order (RDMAP-5.5-R15). */
void iw_qp_complete_sq(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx);

#endif
