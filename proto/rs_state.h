/* SPDX-License-Identifier: MIT */
/* State of a ring stream: flat, without pointers, versioned, so that it can live in shared memory. Included by rs.h only. */
#ifndef IW_PROTO_RS_STATE_H
#define IW_PROTO_RS_STATE_H

#define IW_RS_SA	8u	/* SRCAVAILs open at once, per direction */
#define IW_RS_RD	4u	/* RDMA Reads in flight */
#define IW_RS_TXQ	64u	/* data messages posted and not completed, power of two */
#define IW_RS_EXT	64u	/* extents of the receive order, power of two */

struct iw_rs_stat {		/* messages posted and received, and stream octets by path; those of each small message first */
	uint64_t tx_inline, tx_inline_octets, rx_inline, rx_inline_octets;
	uint64_t tx_data, tx_write, tx_ack, tx_credit, tx_srcavail, tx_rddone, tx_read, tx_ctl;
	uint64_t tx_write_octets, tx_srcavail_octets;
	uint64_t rx_data, rx_ack, rx_credit, rx_srcavail, rx_rddone, rx_ctl;
	uint64_t rx_data_octets, rx_read_octets;
	uint64_t no_room, no_credit;	/* times the transmitter stopped for want of ring space, of credits */
};

/* A SRCAVAIL of ours that the peer has not finished. */
struct iw_rs_tx_sa {
	uint64_t id;
	uint64_t start;			/* stream position of its first octet */
	uint32_t len;
	uint32_t stag;
};

/* A piece of the stream as received: octets of the ring, octets to be read from the peer, or ring octets to be skipped. */
enum iw_rs_ext_kind { IW_RS_EXT_RING, IW_RS_EXT_SA, IW_RS_EXT_DROP };
struct iw_rs_ext {
	uint64_t end;			/* RING, DROP: ring position after it */
	uint64_t id;			/* SA: all that follows */
	uint64_t rto;
	uint32_t rstag;
	uint32_t len, issued, done, consumed;	/* octets; issued: asked for by Reads, done: Reads completed */
	uint8_t kind;
	uint8_t cancel;			/* issue no more Reads: 1 the source said CANCEL, 2 we refuse */
	uint8_t released;		/* RDDONE posted */
};

struct iw_rs {
	uint32_t version;		/* IW_RS_VERSION */
	/* ---- public, read-only ---- */
	int32_t err;			/* positive errno once the stream is dead */
	uint16_t caps;			/* common capabilities, after iw_rs_start() */
	uint8_t started, dead, done;
	uint8_t abort_posted;		/* dead, and the peer knows: ABORT was posted, or it was the peer's (else close by RST) */
	uint64_t tx_pos;		/* stream octets produced here since the start */
	uint64_t rx_pos;		/* stream octets consumed here */
	uint64_t rx_urg;		/* rx_urg_valid: stream position of the urgent octet (the mark) */
	uint8_t rx_urg_valid;
	struct iw_rs_stat stat;

	/* ---- private ---- */
	struct iw_rs_param p;
	uint32_t peer_stag, peer_len;
	uint64_t peer_to;
	uint32_t peer_bufs, peer_sa;
	uint32_t inline_max, chunk;

	/* credits */
	uint32_t credits;		/* messages we may send */
	uint32_t unreturned;		/* buffers posted again and not told */
	uint8_t credit_due;		/* a message other than CREDIT made unreturned reach half of the buffers */

	/* transmit: stream positions freed <= sent <= tx_pos; ring positions acked <= ring_sent */
	uint64_t tx_freed, tx_sent, tx_done;	/* done: work requests completed up to here */
	uint64_t tx_push;			/* send without waiting up to here */
	uint64_t ring_sent, ring_acked;
	uint64_t tx_urg;			/* stream position after the urgent octet */
	uint8_t tx_urg_mark, tx_urg_word;	/* the mark, the word URGENT are still to be sent */
	uint8_t tx_fin, tx_fin_sent, tx_fin_acked;
	uint8_t peer_waiting;
	uint8_t tx_cancel;			/* CANCEL of the oldest open SRCAVAIL: 1 to be sent, 2 sent */
	uint8_t tx_mark;			/* CANCEL(tx_mark_id) must go before more stream octets */
	uint64_t tx_mark_id;
	uint32_t txq_head, txq_tail;
	uint32_t tx_nsa;
	uint64_t tx_sa_id;

	/* receive */
	uint64_t rx_prod, rx_cons, rx_acked;	/* ring positions: announced, consumed, told */
	uint64_t rx_stream;			/* stream position after all that was announced */
	uint32_t ext_head, ext_tail;
	uint32_t rx_nsa;			/* open: no RDDONE posted */
	uint64_t rx_sa_id;			/* the newest id seen */
	uint64_t rx_resync;			/* with rx_dropping: everything is dropped until CANCEL of this id */
	uint8_t rx_dropping;
	uint8_t rx_fin, rx_fin_consumed, rx_fin_acked;
	uint8_t rx_waiting, rx_told_waiting, rx_ack_now;
	uint64_t rd_issued, rd_ready, rd_cons;	/* positions in the read area */
	uint32_t rd_len[IW_RS_RD];		/* Reads in flight */
	uint32_t rd_head, rd_tail;
	uint32_t rd_max;			/* so many at once; 0: offers are refused */
	uint8_t ping_due, ping_sent;
	uint64_t ping_value;

	/* what is used an entry at a time, apart from what every message needs */
	uint64_t txq_end[IW_RS_TXQ];		/* stream position that each data message completes: those in flight, and before them the last ones */
	struct iw_rs_tx_sa tx_sa[IW_RS_SA];	/* oldest first */
	struct iw_rs_ext ext[IW_RS_EXT];
};

#endif
