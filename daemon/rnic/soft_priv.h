/* SPDX-License-Identifier: MIT */
/* What is alive of a soft endpoint: requests under way, timers, callbacks. What somebody else could go on with is in its struct iw_soft. */
#ifndef IWARPD_SOFT_PRIV_H
#define IWARPD_SOFT_PRIV_H

#include "proto/soft.h"
#include "daemon/base/engine.h"
#include "daemon/base/log.h"
#include "area.h"
#include "soft.h"

enum soft_state {
	SOFT_IDLE,
	SOFT_WAIT_REPLY,	/* Initiator: Request sent */
	SOFT_WAIT_REQUEST,	/* Responder */
	SOFT_DECIDE,		/* Responder: the ULP has the Request */
	SOFT_REPLY,		/* Responder: the Reply is on its way */
	SOFT_OPEN,		/* Full Operation, or ending it by a Terminate */
	SOFT_DEAD,		/* only waiting for requests in flight to end */
};

struct soft_startup {
	struct iw_mpa_frame req, rep;	/* as sent or received */
	uint8_t frame[IW_MPA_FRAME_MAX];
	size_t frame_len, frame_off;
};

struct soft {
	struct endpoint ep;
	struct iw_soft *s;		/* in area */
	struct area *area;
	int fd;
	enum soft_state state;
	struct rnic_qp *qp;		/* on s->qp */
	struct rnic_cq *cq;		/* of its own, NULL: the ULP polls */
	bool polling;

	struct op recv_op, send_op;
	unsigned int spun;	/* see engine_file_again() */
	struct timer timer;
	struct work work;
	bool tx_wanted, rx_wanted;

	bool initiator, detached;
	bool midway;	/* the connection carried something else before */
	bool over, told;		/* closed() is due, was called */
	bool reset;			/* close by RST */
	bool rests;			/* begins nothing; see soft_rest.c */
	bool halts;			/* nor sends what was made */
	bool shared;			/* others may hold the connection, too */
	void (*still)(void *ctx);	/* who waits for that */
	int over_err;
	int tx_err;			/* TCP takes nothing more; what came ahead of that is being read */
	uint64_t mss_ms;		/* when the EMSS was read */

	size_t rx_peak, tx_peak;	/* pages up to here may have been touched; tx: of each buffer */
	uint64_t busy_ms;		/* when octets came or went last */
	struct timer idle_timer;

	bool has_mpa;
	struct soft_mpa mpa;
	struct soft_startup *up;	/* NULL: started long ago */
};

static inline struct soft *soft_of(const struct endpoint *ep)
{
	return container_of(ep, struct soft, ep);
}

/* soft.c: a line about it, after the address at the other end */
#define soft_log(c, level, fmt, ...) \
	log_about(level, &((struct log_about){ .peer = soft_peer(c) }), "%s: " fmt, soft_peer(c), ##__VA_ARGS__)
const char *soft_peer(const struct soft *c);
/* soft.c: how it ends */
void soft_fail(struct soft *c, int err);	/* the ULP hears closed(err) after this batch */
void soft_finish(struct soft *c, bool reset);	/* no more I/O; freed when nothing is in flight */
void soft_lost(struct soft *c, int err);	/* the TCP connection is, or ended in a way that leaves nothing to say */
void soft_timeout(struct timer *t);		/* close_timeout, by c->timer */
void soft_queue(struct soft *c);		/* look at it after this batch */
void soft_kick(struct soft *c);			/* and transmit what there is */

#endif
