// SPDX-License-Identifier: MIT
/* Requests of the library: who handles which message, and what the streams tell back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/closing.h"
#include "daemon/base/conf.h"
#include "daemon/net/locals.h"
#include "daemon/session/session.h"
#include "book.h"
#include "claim.h"
#include "intent.h"
#include "listeners.h"
#include "message.h"
#include "offer.h"
#include "opt.h"

/* ---- PREPARE: may connections to this address be accelerated? ---- */

struct prepare {
	struct cm_req req;
	struct sess_ask ask;
};

static void prepared(struct sess_ask *q, bool yes, enum iw_reason reason)
{
	struct prepare *p = container_of(q, struct prepare, ask);

	req_ack(&p->req, yes ? IW_REASON_ACCELERATED : reason, 0);
	free(p);
}

static int cm_prepare(struct client *c, const struct iw_ctl_prepare *m)
{
	struct prepare *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return -ENOMEM;
	ret = req_begin(&p->req, c, &m->h);
	if (ret) {
		free(p);
		return ret;
	}
	p->ask.type = IW_SM_LOOKUP;
	p->ask.a = m->dst;
	p->ask.fn = prepared;
	if (!m->dst.port || iw_ip_any(m->dst.ip)) {
		/* connect to the unspecified address means this host */
		prepared(&p->ask, m->dst.port && listener_match(&m->dst), IW_REASON_LISTENER_NOT_REGISTERED);
		return 0;
	}
	if (addr_is_local(m->dst.ip))
		prepared(&p->ask, listener_match(&m->dst), IW_REASON_LISTENER_NOT_REGISTERED);
	else
		sess_ask(&p->ask, &m->dst, conf.answer_timeout);
	return 0;
}

/* ---- small requests ---- */

static int cm_listen(struct client *c, const struct iw_ctl_fdmsg *m, int fd)
{
	struct cm_req r = { 0 };
	uint64_t cookie = 0;
	enum iw_reason reason = IW_REASON_ACCELERATED;
	int ret = req_begin(&r, c, &m->h);

	if (!ret)
		reason = listener_add(c, fd, &cookie);
	close_passed(fd, c->uid);	/* before the answer: a close by the application must be the last one */
	if (!ret)
		req_ack(&r, reason, cookie);
	return ret;
}

/* Possession of the carrier is the right to the segment. */
static int cm_open(struct client *c, const struct iw_ctl_fdmsg *m, int fd)
{
	struct stream_grant g = { .carrier = -1, .segment = -1 };
	struct cm_req r = { 0 };
	int ret = req_begin(&r, c, &m->h);

	if (!ret)
		ret = stream_open(fd, &g);
	close_passed(fd, c->uid);
	if (!r.client)
		return ret;
	if (ret) {
		req_plain(&r, IW_REASON_NOT_STREAM);
		return 0;
	}
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

static int cm_plain(struct client *c, const struct iw_ctl_conn *m)
{
	struct iw_tuple t = { .local = m->local, .peer = m->peer };

	plain_record(c, m->conn_id, &t, m->flags & IW_CONN_CLIENT, m->fd, m->reason);
	return 0;
}

/* ---- dispatch ---- */

int cm_message(struct client *c, const void *msg, int fd)
{
	const struct iw_ctl_hdr *h = msg;
	int ret = 0;

	switch (h->type) {
	case IW_CTL_PREPARE:
		ret = cm_prepare(c, msg);
		break;
	case IW_CTL_OFFER:
		return cm_offer(c, msg, fd);	/* keeps fd */
	case IW_CTL_CLAIM:
		return cm_claim(c, msg, fd);	/* keeps fd */
	case IW_CTL_COMMIT:
		ret = cm_commit(c, msg);
		break;
	case IW_CTL_ABANDON:
		ret = cm_abandon(c, msg);
		break;
	case IW_CTL_LISTEN:
		return cm_listen(c, msg, fd);	/* closes fd */
	case IW_CTL_UNLISTEN:
		listener_del(c, ((const struct iw_ctl_id *)msg)->id);
		break;
	case IW_CTL_PLAIN:
		ret = cm_plain(c, msg);
		break;
	case IW_CTL_CLOSED:
		plain_closed(c, ((const struct iw_ctl_id *)msg)->id);
		break;
	case IW_CTL_OPEN:
		return cm_open(c, msg, fd);	/* closes fd */
	case IW_CTL_SYNC:
		ret = cm_sync(c, msg);
		break;
	case IW_CTL_INTENT:
	case IW_CTL_INTENT_END:
		ret = cm_intent(c, msg);
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

/* Requests under way find their client gone when their answers come; what was offered and not committed is dropped now. */
void cm_client_gone(struct client *c)
{
	while (!list_empty(&c->priv->reqs))
		req_end(list_entry(c->priv->reqs.next, struct cm_req, node));
	offers_client_gone(c);
	listeners_client_gone(c);
	plain_client_gone(c);
	grants_client_gone(c);
	intents_client_gone(c);
}
