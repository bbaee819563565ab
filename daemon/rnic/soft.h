/* SPDX-License-Identifier: MIT */
/*
 * The soft endpoint: MPA startup on a TCP connection, then a queue pair of our own RNIC whose octets go through io_uring. For who creates
 * such endpoints, has wishes about MPA, or shows what was agreed; what one does with an endpoint is in endpoint.h.
 */
#ifndef IWARPD_SOFT_H
#define IWARPD_SOFT_H

#include "proto/mpa.h"
#include "proto/qp.h"
#include "endpoint.h"
#include "rnic.h"

extern const struct endpoint_ops soft_endpoint;

/* Queue entries and Read slots of one that was created without wishes. */
#define SOFT_CQES	(2 * (IW_QP_SQ + IW_QP_RQ))
#define SOFT_READS	(IW_QP_IRD + IW_QP_ORD)

/*
 * Takes over fd (a connected TCP socket). 0 or -errno (then fd stays the caller's). It has a completion queue of its own, polled
 * after each batch of octets, whose completions come by ulp->complete.
 */
int soft_create(int fd, struct rnic_pd *pd, const struct endpoint_ulp *ulp, void *ctx, struct endpoint **ep);
int soft_create_attr(int fd, const struct endpoint_attr *a, struct endpoint **ep);
/* The same with completion queues of the caller's (ulp->complete is not called; poll them in closed() at the latest); sizes as in rnic_qp_attr. */
struct soft_queues {
	struct rnic_cq *send_cq, *recv_cq;	/* both or none */
	unsigned int max_send, max_recv;
};
int soft_create_queues(int fd, const struct endpoint_attr *a, const struct soft_queues *q, struct endpoint **ep);

/* How the startup goes, for ULPs other than the ring stream. */
struct soft_mpa {
	uint8_t rev;			/* Initiator: revision of the Request, 1 or 2 */
	bool p2p;			/* Initiator: ask for peer-to-peer with RTR. Without, or with revision 1, it has to send first */
	bool crc, markers;		/* what we ask for; CRCs are off only when neither side asks */
	uint16_t ird, ord;		/* <= IW_QP_IRD, IW_QP_ORD */
};
/* What holds without soft_set_mpa(): revision 2, peer-to-peer, the rest from conf. */
void soft_mpa_default(struct soft_mpa *m);
/* Before endpoint_initiate() or endpoint_respond(). */
void soft_set_mpa(struct endpoint *ep, const struct soft_mpa *m);

/* ---- what was agreed, and what it stands on: as long as the endpoint may be used, closed() included ---- */

const struct iw_mpa_frame *soft_request(const struct endpoint *ep);	/* sent or received; zero before. Of one that has not rested */
const struct iw_mpa_frame *soft_reply(const struct endpoint *ep);
const struct iw_qp_param *soft_param(const struct endpoint *ep);	/* from established() on */
const struct iw_term *soft_term(const struct endpoint *ep);	/* sent or received; 2/0/04 of a startup frame that was bad, which is never sent */
struct rnic_qp *soft_qp(struct endpoint *ep);
int soft_fd(const struct endpoint *ep);
/* Of the state of one that rests (endpoint_rest()), which somebody else works. */
void soft_stat_of(const struct iw_qp_stat *q, struct endpoint_stat *s);

#endif
