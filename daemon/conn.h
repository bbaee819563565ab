/* SPDX-License-Identifier: MIT */
/* An RDMAP endpoint on a TCP socket: MPA startup, then a queue pair whose octets go through io_uring ("soft" provider). */
#ifndef IWARPD_CONN_H
#define IWARPD_CONN_H

#include "../proto/mpa.h"
#include "engine.h"
#include "rnic.h"

struct conn;
struct conn_ops {
	/* Responder: a valid Request came. Call conn_accept() or conn_reject(), now or later. */
	void (*request)(void *ctx, const struct iw_mpa_frame *req);
	/* Full Operation: frame = the Reply (Initiator) or the Request (Responder). rtr and IRD/ORD are settled. */
	void (*established)(void *ctx, const struct iw_mpa_frame *frame);
	void (*complete)(void *ctx, const struct iw_cqe *cqe);
	void (*event)(void *ctx, enum iw_qp_event ev);
	void (*invalidated)(void *ctx, uint32_t stag);
	/* The connection is over for the ULP; all its work requests have completed (queues of the caller's own: poll them here at the
	 * latest, what the QP has in them goes with it). err: 0 graceful, else positive errno (EPROTO after a
	 * Terminate in either direction, or a bad startup frame, when the term of the QP says 2/0/04; ECONNREFUSED rejected (frame = the Reply),
	 * ETIMEDOUT, ECONNRESET). Called once; the conn lingers and frees itself. */
	void (*closed)(void *ctx, int err, const struct iw_mpa_frame *reject);
};

/*
 * Takes over fd (a connected TCP socket). 0 or -errno (then fd stays the caller's). It has a completion queue of its own, polled
 * after each batch of octets, whose completions come by ops->complete.
 */
int conn_create(int fd, struct rnic_pd *pd, const struct conn_ops *ops, void *ctx, struct conn **conn);
/* The same in full: completion queues of the caller's (ops->complete is not called), or none; queue sizes as in rnic_qp_attr. */
struct conn_queues {
	struct rnic_cq *send_cq, *recv_cq;	/* both or none */
	unsigned int max_send, max_recv;
	unsigned int flags;			/* RNIC_PREPAID: CONN_CQES and CONN_READS were taken from the quotas already */
};
#define CONN_CQES	(2 * (IW_QP_SQ + IW_QP_RQ))
#define CONN_READS	(IW_QP_IRD + IW_QP_ORD)
int conn_create_queues(int fd, struct rnic_pd *pd, const struct conn_queues *q, const struct conn_ops *ops, void *ctx, struct conn **conn);
/* Gives a conn up that was never started; the fd is the caller's again, untouched. */
void conn_unwrap(struct conn *c);
struct rnic_qp *conn_qp(struct conn *c);
int conn_fd(const struct conn *c);

/* How the startup goes, for ULPs other than the ring stream. */
struct conn_attr {
	uint8_t rev;			/* Initiator: revision of the Request, 1 or 2 */
	bool p2p;			/* Initiator: ask for peer-to-peer with RTR. Without, or with revision 1, it has to send first */
	bool crc, markers;		/* what we ask for; CRCs are off only when neither side asks */
	uint16_t ird, ord;		/* <= IW_QP_IRD, IW_QP_ORD */
};
/* What holds without conn_set_attr(): revision 2, peer-to-peer, the rest from conf. */
void conn_attr_default(struct conn_attr *a);
/* Before conn_initiate() or conn_respond(). */
void conn_set_attr(struct conn *c, const struct conn_attr *a);

/* Start as Initiator with private data pd: up to 512 octets, 508 in revision 2. */
int conn_initiate(struct conn *c, const uint8_t *pd, size_t pd_len);
/* Start as Responder: wait for the Request (startup_timeout). */
int conn_respond(struct conn *c);
int conn_accept(struct conn *c, const uint8_t *pd, size_t pd_len);
int conn_reject(struct conn *c, const uint8_t *pd, size_t pd_len);
/* May FPDUs exceed the EMSS (both ends announced it)? Call in established(). */
void conn_large_fpdu(struct conn *c, bool on);

/* As the two ends settled them. Call in established() or later. */
void conn_depths(const struct conn *c, unsigned int *ird, unsigned int *ord);

/* There may be something to send: transmit at the end of this batch. Call after posting. */
void conn_kick(struct conn *c);
/* Everything posted is sent, then FIN, then wait for the peer's FIN (close_timeout). closed() comes with 0. */
void conn_close(struct conn *c);
/* Now, by RST. No callback comes any more. */
void conn_abort(struct conn *c);
/* No callback comes any more; the conn lingers (Terminate, FIN; what was posted is sent, what comes is dropped) and frees itself. */
void conn_detach(struct conn *c);
/* The ULP cannot go on: as conn_detach(), but with a Terminate. Of an Initiator in established() it is the first FPDU: 2/0/05 (EMPA-9.3-01). */
void conn_terminate(struct conn *c, uint8_t layer, uint8_t etype, uint8_t code);

/* *n counts it until it is freed: it may linger. */
void conn_counted(struct conn *c, unsigned int *n);
unsigned int conn_count(void);	/* endpoints that are not freed yet: some linger */
const struct iw_qp_stat *conn_stat(struct conn *c);

#endif
