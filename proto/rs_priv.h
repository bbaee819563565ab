/* SPDX-License-Identifier: MIT */
/* What the parts of the ring stream share among themselves. */
#ifndef IW_PROTO_RS_PRIV_H
#define IW_PROTO_RS_PRIV_H

#include "rs.h"

#define RS_MASK48	0xffffffffffffull
#define RS_SA_LEN_MAX	(1u << 30)	/* longest SRCAVAIL accepted */
#define RS_SQ_ROOM	4u		/* send queue entries that a data message may need */

/* wr_id: what a completion is about in the top octet, a number below. */
enum rs_tag { RS_TAG_RECV = 1, RS_TAG_DATA, RS_TAG_CTL, RS_TAG_READ };
#define RS_WR_ID(tag, n)	((uint64_t)(tag) << 56 | ((n) & 0xffffffffffffffull))

static inline uint64_t rs_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* One call from the owner. */
struct rs_io {
	struct iw_rs *rs;
	const struct iw_rs_ops *ops;
	void *ctx;
};

/* A message of QN 0: a control word, what follows it, and octets of the tx ring. */
struct rs_msg {
	uint8_t type, flags;
	uint64_t value;
	uint64_t wr_id;
	bool se;
	uint8_t body_len, nsge;
	uint8_t body[IW_CW_SRCAVAIL_LEN];
	struct iw_sge sge[2];
	uint32_t inv_stag;
	bool inv;
};

/* May a message of this type go now (credits, send queue)? */
bool rs_may_send(const struct rs_io *io, unsigned int type);
/* Post it with the credits to return. False: the stream is dead or the queue full. */
bool rs_post(const struct rs_io *io, const struct rs_msg *m);
/* A protocol failure or a local one: ABORT(err) to the peer, event ABORT here. */
void rs_fail(const struct rs_io *io, int err);
/* The stream is over without a word to the peer. */
void rs_die(const struct rs_io *io, int err, bool event);
void rs_event(const struct rs_io *io, enum iw_rs_event ev);

/* Is an ACK due? */
static inline bool rs_ack_due(const struct iw_rs *rs)
{
	uint64_t n = rs->rx_cons - rs->rx_acked;

	/* of the smaller ring: the peer may keep what it sent until then. In the end: the writer has seen a full ring */
	if (n && (n >= rs_min(rs->p.rx_len, rs->peer_len) / 4 || rs->rx_ack_now || rs->rx_prod - rs->rx_acked == rs->p.rx_len))
		return true;
	if (rs->rx_fin_consumed && !rs->rx_fin_acked && !rs->rx_nsa)
		return true;
	return rs->rx_waiting && !rs->rx_told_waiting;
}

/* rs_tx.c */
void rs_tx_pump(const struct rs_io *io);
void rs_tx_data_done(const struct rs_io *io, uint64_t seq);
void rs_tx_ack(const struct rs_io *io, const struct iw_cw *cw);
void rs_tx_rddone(const struct rs_io *io, const struct iw_cw *cw, const uint8_t *body, size_t len, const struct iw_cqe *cqe);
void rs_tx_unexpose_all(const struct rs_io *io);

/* rs_rx.c */
void rs_rx_pump(const struct rs_io *io);
void rs_rx_credit(const struct rs_io *io);
/* Returns the type of the message. */
uint8_t rs_rx_message(const struct rs_io *io, const struct iw_cqe *cqe);
void rs_rx_read_done(const struct rs_io *io, uint64_t seq);

/* rs_ext.c: the receive order */
bool rs_ext_ring(struct iw_rs *rs, uint64_t end);
bool rs_ext_srcavail(struct iw_rs *rs, uint64_t id, const struct iw_cw_srcavail *sa);
struct iw_rs_ext *rs_ext_oldest_open(struct iw_rs *rs);
struct iw_rs_ext *rs_ext_to_read(struct iw_rs *rs);
void rs_ext_read_done(struct iw_rs *rs, uint32_t n);
void rs_ext_truncate(struct iw_rs *rs, struct iw_rs_ext *e);
void rs_ext_skip(struct iw_rs *rs);
uint32_t rs_ext_count(const struct iw_rs *rs);

#endif
