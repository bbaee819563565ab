/* SPDX-License-Identifier: MIT */
/* State of an RDMAP endpoint, shared by conn.c (life, octets), conn_mpa.c (startup), conn_idle.c (memory) and conn_cut.c (after a Terminate). */
#ifndef IWARPD_CONN_PRIV_H
#define IWARPD_CONN_PRIV_H

#include "conf.h"
#include "conn.h"

/* Receive staging: a full FPDU always fits behind what one recv left over. */
#define CONN_RX_LEN	((256u << 10) + IW_FPDU_MAX_MARKERS)
#define CONN_TX_LEN	(256u << 10)	/* one transmit buffer; taken from a pool while something is being sent */

enum conn_state {
	CONN_IDLE,
	CONN_WAIT_REPLY,	/* Initiator: Request sent */
	CONN_WAIT_REQUEST,	/* Responder */
	CONN_DECIDE,		/* Responder: the ULP has the Request */
	CONN_REPLY,		/* Responder: the Reply is on its way */
	CONN_OPEN,		/* Full Operation, or ending it by a Terminate */
	CONN_DEAD,		/* only waiting for requests in flight to end */
};

struct conn_txbuf {
	struct conn_txbuf *next;
	size_t len, off;
	uint64_t pos;			/* of data[0] in the stream of FPDUs: Markers follow from it */
	uint8_t data[CONN_TX_LEN];
};

struct conn {
	int fd;
	enum conn_state state;
	const struct conn_ops *ops;
	void *ctx;
	struct rnic_qp *qp;
	struct iw_qp *q;		/* its protocol state */
	struct rnic_cq *cq;		/* of its own, NULL: the ULP polls */
	bool polling;

	struct op recv_op, send_op;
	struct timer timer;
	struct work work;
	bool tx_wanted, rx_wanted;

	bool initiator, detached;
	bool closing;			/* conn_close(): FIN once everything is sent */
	bool shut;			/* our FIN is sent */
	bool peer_eof;
	bool cut;			/* a Terminate came: only the FPDU that was begun is sent to its end */
	unsigned int *counter;		/* counts it, or NULL */
	bool over, told;		/* closed() is due, was called */
	bool reset;			/* close by RST */
	bool large, tx_markers;
	int over_err;
	uint64_t mss_ms;		/* when the EMSS was read */

	struct conn_txbuf *tx[2];	/* tx[0] is being sent, tx[1] follows */
	uint8_t *rx;
	size_t rx_off, rx_len;		/* not yet consumed: rx[rx_off .. rx_len) */
	size_t rx_peak;			/* pages up to here may have been touched */
	uint64_t rx_ms;			/* when octets came last */
	struct timer rx_timer;

	bool has_attr;
	struct conn_attr attr;
	struct iw_mpa_frame req, rep;	/* as sent or received */
	uint8_t frame[IW_MPA_FRAME_MAX];
	size_t frame_len, frame_off;
};

/* conn.c */
void conn_fail(struct conn *c, int err);	/* the ULP hears closed(err) after this batch */
void conn_finish(struct conn *c, bool reset);	/* no more I/O; freed when nothing is in flight */
void conn_prepare(struct conn *c);		/* the socket, before the first octet */
void conn_arm_recv(struct conn *c);
void conn_sent(struct op *op, int res, bool more);
int conn_open(struct conn *c, const struct iw_qp_param *p);	/* enter Full Operation */
void conn_rx_fpdus(struct conn *c);
void conn_rx_front(struct conn *c);		/* what is not consumed moves to the front of the buffer */
void conn_poll(struct conn *c);			/* after every call of iw_qp_*: completions to the ULP */
uint16_t conn_mulpdu(const struct conn *c);
void conn_txbuf_put(struct conn_txbuf *b);
/* conn_cut.c */
void conn_cut(struct conn *c);
void conn_cut_buf(struct conn *c);		/* tx[0] ends with the FPDU that it has come to */
/* conn_idle.c */
void conn_rx_note(struct conn *c);		/* octets came */
void conn_rx_trim(struct conn *c);
/* conn_mpa.c */
void conn_mpa_rx(struct conn *c);		/* octets came before Full Operation */
void conn_mpa_sent(struct conn *c);		/* frame_off moved */

#endif
