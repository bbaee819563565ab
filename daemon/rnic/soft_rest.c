// SPDX-License-Identifier: MIT
/* The soft endpoint: rests while somebody else works its connection with the state in its area. */
#include "soft_rest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "soft_idle.h"
#include "soft_priv.h"
#include "soft_rx.h"
#include "soft_tx.h"

int soft_rest(struct endpoint *ep, bool halt, void (*still)(void *ctx))
{
	struct soft *c = soft_of(ep);
	const struct iw_soft *s = c->s;

	/* before the first FPDU a Responder's startup timer may run */
	if (c->state != SOFT_OPEN || c->over || c->tx_err || s->closing || s->qp.state != IW_QP_RTS || (!c->initiator && !s->qp.first_seen))
		return -EAGAIN;
	c->rests = c->shared = true;
	c->halts = halt;
	c->still = still;
	if (c->up && c->up->frame_off == c->up->frame_len) {
		free(c->up);
		c->up = NULL;
	}
	engine_cancel(&c->recv_op);	/* what comes all the same is delivered */
	if (halt)
		engine_cancel(&c->send_op);	/* and says how far it came */
	soft_queue(c);
	return 0;
}

/* It works its connection again, whether or not it was still. */
static void soft_awake(struct soft *c)
{
	c->rests = c->halts = false;
	c->still = NULL;
	if (c->state != SOFT_OPEN)
		return;
	if (c->s->tx[0].used)
		soft_tx_send(c);
	c->rx_wanted = true;
	soft_kick(c);
}

void soft_rest_look(struct soft *c)
{
	void (*still)(void *ctx) = c->still;

	if (c->over) {	/* by what came before it was still: nobody will resume it, and its FIN has to follow */
		soft_awake(c);
		return;
	}
	if (c->state != SOFT_OPEN || c->recv_op.busy || c->send_op.busy || (c->s->tx[0].used && !c->halts) || c->rx_wanted)
		return;
	c->still = NULL;
	soft_idle_note(c);
	still(c->ep.ctx);
}

void soft_rest_adopt(struct soft *c)
{
	c->state = SOFT_OPEN;
	c->initiator = c->s->qp.param.initiator;
	c->rests = c->shared = c->midway = true;
}

/* What the queue pair would have told at once had it happened here. */
static void ended_meanwhile(struct soft *c)
{
	struct iw_soft *s = c->s;

	if (s->qp.state == IW_QP_ERROR) {
		soft_lost(c, s->qp.err && s->qp.err != EPROTO ? s->qp.err : ECONNRESET);
		return;
	}
	if (s->qp.state != IW_QP_RTS)
		soft_fail(c, EPROTO);
	if (s->qp.state != IW_QP_RTS || s->closing)
		timer_start(&c->timer, conf.close_timeout, soft_timeout);
	if (s->peer_eof)
		soft_rx_eof(c);
}

void soft_resume(struct endpoint *ep)
{
	struct soft *c = soft_of(ep);

	if (c->state == SOFT_OPEN)
		ended_meanwhile(c);
	soft_awake(c);
}

/* Closing says nothing as long as somebody else holds it. */
void soft_rest_reset(struct soft *c)
{
	static const struct sockaddr none = { .sa_family = AF_UNSPEC };

	if (connect(c->fd, &none, sizeof(none)))
		log_debug("%s: no reset: %s", soft_peer(c), strerror(errno));
}
