// SPDX-License-Identifier: MIT
/* What the ring stream asks of its owner (proto/rs.h). */
#include "remote_rs.h"

#include <errno.h>

#include "carrier_pump.h"
#include "remote.h"
#include "remote_mem.h"
#include "stream_priv.h"

static int rs_post_send(void *ctx, const struct iw_wr *wr)
{
	struct stream_remote *r = ((struct stream *)ctx)->remote;

	return r->ep ? endpoint_post_send(r->ep, wr) : -ENOTCONN;
}

static int rs_post_recv(void *ctx, uint64_t wr_id, const struct iw_sge *sge)
{
	struct stream_remote *r = ((struct stream *)ctx)->remote;

	return r->ep ? endpoint_post_recv(r->ep, wr_id, sge) : -ENOTCONN;
}

static unsigned int rs_sq_free(void *ctx)
{
	struct stream_remote *r = ((struct stream *)ctx)->remote;

	return r->ep ? endpoint_send_room(r->ep) : 0;
}

static int rs_expose(void *ctx, uint64_t off, uint32_t len, uint32_t *stag, uint64_t *to)
{
	struct stream *st = ctx;
	struct stream_remote *r = st->remote;
	struct endpoint_mr *mr = r->exposed;
	int ret;

	if (!r->ep)
		return -ENOTCONN;
	while (mr < r->exposed + IW_RS_SA && mr->handle)
		mr++;
	if (mr == r->exposed + IW_RS_SA)
		return -EAGAIN;
	ret = remote_register(st, remote_tx_ring(st) + off, len, IW_ACCESS_REMOTE_READ, mr);
	*stag = mr->stag;
	*to = mr->to;
	return ret;
}

/*
 * By the handle: an STag that the peer has invalidated is in no table any more. After an ABORT of either end what is being read stays until the
 * connection ends (remote_forget()), since it would end by a Terminate before that is said; not for a peer that violates the protocol.
 */
void remote_unexpose(void *ctx, uint32_t stag)
{
	struct stream_remote *r = ((struct stream *)ctx)->remote;

	if (r->f->rs.dead && r->f->rs.err != EPROTO)
		return;
	for (size_t i = 0; i < IW_RS_SA; i++) {
		if (r->exposed[i].handle && r->exposed[i].stag == stag)
			endpoint_deregister(r->ep, &r->exposed[i]);
	}
}

static void rs_event(void *ctx, enum iw_rs_event ev)
{
	struct stream *st = ctx;

	if (ev == IW_RS_EV_ABORT)
		st->remote->f->ev_abort = true;
	else if (ev == IW_RS_EV_DONE)
		st->remote->f->ev_done = true;
	pump_queue(st);
}

const struct iw_rs_ops remote_rs_ops = {
	.post_send = rs_post_send, .post_recv = rs_post_recv, .sq_free = rs_sq_free, .mem = remote_mem, .expose = rs_expose,
	.unexpose = remote_unexpose, .event = rs_event,
};
