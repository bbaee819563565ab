// SPDX-License-Identifier: MIT
/* Messages of the library: who handles which. */
#include "message.h"

#include <errno.h>

#include "daemon/base/closing.h"
#include "daemon/stream/stream.h"
#include "book.h"
#include "direct.h"
#include "mapping.h"
#include "match.h"
#include "opt.h"
#include "switch.h"

/* Possession of the carrier is the right to the segment. */
static int cm_open(struct client *c, const struct iw_ctl_fdmsg *m, int fd)
{
	struct stream_grant g = { .carrier = -1, .segment = -1 };
	struct cm_req r = { 0 };
	struct stream *st;
	int ret = req_begin(&r, c, &m->h);

	if (!ret)
		ret = stream_open(fd, &g);
	close_passed(fd, c->uid);
	if (!r.client)
		return ret;
	if (ret) {
		req_plain(&r, IW_REASON_NOT_STREAM, 0);
		return 0;
	}
	st = stream_find(g.stream_id);
	if (st)		/* else it is over */
		proposal_revive(c, st, m->conn_id, m->fd);
	req_stream(&r, &g);
	return 0;
}

/* Whoever has the carrier has the end. */
static int cm_rest(struct client *c, const struct iw_ctl_fdmsg *m, int fd)
{
	struct stream_grant g = { .carrier = -1, .segment = -1 };
	struct cm_req r = { 0 };
	int ret = req_begin(&r, c, &m->h);
	struct stream *st;
	unsigned int e;

	if (ret) {
		close_passed(fd, c->uid);
		return ret;
	}
	st = stream_of_carrier(fd, &e);
	if (st)
		switch_joins(st);
	if (stream_rest(fd, c->uid, &g))
		req_plain(&r, IW_REASON_NOT_STREAM, 0);
	else
		req_stream(&r, &g);
	return 0;
}

static int cm_sync(struct client *c, const struct iw_ctl_hdr *h)
{
	struct cm_req r = { 0 };
	int ret = req_begin(&r, c, h);

	if (!ret)
		req_ack(&r, IW_REASON_ACCELERATED, 0);
	return ret;
}

/* Of a connection that was proposed: it cannot be switched, ever or as it is now. */
static void cm_plain(struct client *c, const struct iw_ctl_conn *m)
{
	struct iw_tuple t = { .local = m->local, .peer = m->peer };
	struct proposal *p = proposal_find(c, m->conn_id);

	if (!p) {
		plain_record(c, m->conn_id, &t, m->flags & IW_CONN_CLIENT, m->fd, m->reason);
		match_plain(&t, m->flags & IW_CONN_CLIENT, m->reason);
	} else if (!(m->flags & IW_CONN_FOR_NOW)) {
		match_never(p, m->reason);
	} else if (p->state < PROPOSAL_SWITCHED) {
		match_hindered(p, m->reason);
	}
}

static void cm_closed(struct client *c, uint64_t conn_id)
{
	plain_closed(c, conn_id);
	proposal_closed(c, conn_id);
	stream_stir();
}

/* ---- dispatch ---- */

int cm_message(struct client *c, const void *msg, int fd)
{
	const struct iw_ctl_hdr *h = msg;
	int ret = 0;

	switch (h->type) {
	case IW_CTL_PROPOSE:
		cm_propose(c, msg);
		break;
	case IW_CTL_PLAIN:
		cm_plain(c, msg);
		break;
	case IW_CTL_CLOSED:
		cm_closed(c, ((const struct iw_ctl_id *)msg)->id);
		break;
	case IW_CTL_SWITCH:
		return cm_switch(c, msg, fd);	/* keeps fd */
	case IW_CTL_SWITCHED:
		ret = cm_switched(c, msg);
		break;
	case IW_CTL_ABANDON:
		cm_abandon(c, msg);
		break;
	case IW_CTL_BACK:
		ret = cm_back(c, msg);
		break;
	case IW_CTL_MAP:
		ret = cm_map(c, msg);
		break;
	case IW_CTL_UNMAP:
		ret = cm_unmap(c, msg);
		break;
	case IW_CTL_BELL:
		cm_bell(c, msg);
		break;
	case IW_CTL_OPEN:
		return cm_open(c, msg, fd);	/* closes fd */
	case IW_CTL_REST:
		return cm_rest(c, msg, fd);	/* keeps fd */
	case IW_CTL_DIRECT:
		ret = cm_direct(c, msg, fd);
		break;
	case IW_CTL_SYNC:
		ret = cm_sync(c, msg);
		break;
	case IW_CTL_GETSOCKOPT:
	case IW_CTL_SETSOCKOPT:
		ret = ctl_option(c, msg);
		break;
	default:
		ret = -EPROTO;
	}
	if (fd >= 0)
		close_passed(fd, c->uid);
	return ret;
}

void cm_client_gone(struct client *c)
{
	while (!list_empty(&c->priv->reqs)) {
		struct cm_req *r = list_entry(c->priv->reqs.next, struct cm_req, node);

		req_end(r);
		if (r->cancel)
			r->cancel(r);
	}
	direct_client_gone(c);
	proposals_client_gone(c);
	plain_client_gone(c);
	grants_client_gone(c);
	stream_stir();
}
