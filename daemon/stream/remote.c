/* SPDX-License-Identifier: MIT */
/* A stream over RDMAP: the startup with our private data, and its ends. */
#include "remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/conf.h"
#include "daemon/base/log.h"
#include "daemon/rnic/area.h"
#include "daemon/rnic/provider.h"
#include "daemon/rnic/rnic.h"
#include "carrier.h"
#include "carrier_pump.h"
#include "count.h"
#include "life.h"
#include "map.h"
#include "relay.h"
#include "remote_mem.h"
#include "remote_rs.h"
#include "stream_priv.h"

/* ---- the ends ---- */

/* The endpoint is, though it may linger. tcp: what answers for options from now on, or -1. */
static void over(struct stream *st, int tcp)
{
	timer_stop(&st->remote->ack);
	timer_stop(&st->remote->orphan);
	map_stop(st);
	remote_forget(st->remote);
	st->end[0].tcp = tcp;
	st->tcp_lent = true;
}

void remote_end(struct stream *st)
{
	struct stream_remote *r = st->remote;

	if (!r->ep && (st->d_drop || r->f->rs.done))
		stream_kill(st);
}

void remote_abort(struct stream *st, int err)
{
	struct stream_remote *r = st->remote;

	if (r->f->aborted)
		return;
	r->f->aborted = true;
	st->state = STREAM_CLOSING;
	carrier_reset(st, ECONNRESET);	/* an application that only did SHUT_RDWR learns of it */
	if (r->ep && !r->f->reset_err) {
		iw_rs_abort(&r->f->rs, err);
		iw_rs_pump(&r->f->rs, &remote_rs_ops, st);
		endpoint_close(r->ep);	/* ABORT, then FIN */
	}
	remote_end(st);
}

void remote_reset(struct stream *st, int err)
{
	struct stream_remote *r = st->remote;

	if (r->f->reset_err || r->f->aborted)
		return;
	r->f->reset_err = err;
	if (!r->f->running || st->d < 0 || st->app_closed) {
		carrier_reset(st, err);
		return;
	}
	st->state = STREAM_CLOSING;
	carrier_lost(st, err);
	pump_queue(st);
}

void remote_cut(struct stream *st, int err)
{
	struct stream_remote *r = st->remote;

	count_settle(st, false);
	carrier_reset(st, err);
	r->f->aborted = true;
	st->state = STREAM_CLOSING;
	if (r->ep) {
		endpoint_stat(r->ep, &st->stat_last);
		endpoint_abort(r->ep);
		over(st, -1);
	}
	remote_end(st);
}

/* ---- the connection below ---- */

/* What both can, as this endpoint goes on from here. */
static int start(struct stream *st, const struct endpoint_said *said, struct iw_rs_pd *peer)
{
	int ret = iw_rs_pd_decode(peer, said->pd, said->pd_len);

	if (ret)
		return ret;
	peer->caps &= remote_caps(endpoint_caps(st->remote->ep));
	st->remote->f->rs.p.tx_keeps = !!(endpoint_caps(st->remote->ep) & ENDPOINT_KEEPS);
	return iw_rs_start(&st->remote->f->rs, peer);
}

static void own_pd(const struct stream *st, struct iw_rs_pd *pd)
{
	const struct iw_tuple *t = &st->end[0].tuple;

	pd->dst = st->client ? t->peer : t->local;
	pd->src = st->client ? t->local : t->peer;
}

/* It is no answer that this end can live with: the connection is reset. */
static void unusable(struct stream *st, const char *text)
{
	struct stream_remote *r = st->remote;

	stream_log(st, LOG_WARNING, "MPA startup: %s", text);
	endpoint_terminate(r->ep);
	over(st, -1);
	remote_reset(st, ECONNRESET);
	remote_end(st);
}

static void on_request(void *ctx, const struct endpoint_said *said)
{
	struct stream *st = ctx;
	struct stream_remote *r = st->remote;
	uint8_t out[IW_RS_PD_LEN];
	struct iw_rs_pd peer, own;

	if (start(st, said, &peer)) {
		unusable(st, "no common version, or unusable values");
		return;
	}
	own = (struct iw_rs_pd){
		.ver_lo = IW_RS_VERSION, .ver_hi = IW_RS_VERSION, .caps = r->f->rs.caps, .ring_stag = r->f->p.rx_stag, .ring_to = r->f->p.rx_to,
		.ring_len = r->f->p.rx_len, .bufs = r->f->p.bufs, .buf_size = r->f->p.buf_size, .nonce = peer.nonce,
		/* it answers no Reads: what it offered could not be read */
		.srcavail_max = r->f->rs.caps & IW_RS_CAP_SRCAVAIL && (!said->ranges || said->ird) ? IW_RS_SA : 0,
	};
	own_pd(st, &own);
	iw_rs_pd_encode(&own, out);
	if (endpoint_accept(r->ep, out, sizeof(out)))
		unusable(st, "the queue pair refuses it");
}

static void on_established(void *ctx, const struct endpoint_said *said)
{
	struct stream *st = ctx;
	struct stream_remote *r = st->remote;
	unsigned int ird, ord;
	struct iw_rs_pd peer;

	if (r->initiator && start(st, said, &peer)) {
		unusable(st, "private data of the Reply is unusable");
		return;
	}
	endpoint_depths(r->ep, &ird, &ord);
	iw_rs_depths(&r->f->rs, ird, ord);
	endpoint_large(r->ep, r->f->rs.caps & IW_RS_CAP_LARGE);
	r->f->running = true;
	st->state = STREAM_RUNNING;
	if (!conf.keep_congestion)
		tcp_unpace(st->end[0].tcp, &st->kept, stream_ops && stream_ops->promised && stream_ops->promised(st));
	pump_start(st);
	map_start(st);
	if (stream_ops && stream_ops->upgraded)
		stream_ops->upgraded(st);
}

static void on_complete(void *ctx, const struct iw_cqe *cqe)
{
	struct stream *st = ctx;

	iw_rs_complete(&st->remote->f->rs, &remote_rs_ops, st, cqe);
	pump_queue(st);
}

static void on_event(void *ctx, enum endpoint_event ev)
{
	if (ev == ENDPOINT_EV_FIRST)
		pump_queue(ctx);
}

/* The peer may take back the STag of its own ring's counterpart; without our ring there is no stream (security.md R23). */
static void on_invalidated(void *ctx, uint32_t stag)
{
	struct stream *st = ctx;

	if (stag == st->remote->f->p.rx_stag || stag == st->remote->f->p.rd_stag || stag == st->remote->f->p.rq_stag ||
	    stag == st->remote->f->p.tx_stag) {
		iw_rs_abort(&st->remote->f->rs, EPROTO);
		st->remote->f->ev_abort = true;
		pump_queue(st);
	} else {
		remote_unexpose(st, stag);
	}
}

/* What TCP would have said. */
static int socket_errno(int err)
{
	return err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH ? err : ECONNRESET;
}

static void on_moved(void *ctx, int fd)
{
	struct stream *st = ctx;

	st->end[0].tcp = fd;
}

static void on_closed(void *ctx, int err, const struct endpoint_said *rej)
{
	struct stream *st = ctx;
	struct stream_remote *r = st->remote;

	endpoint_stat(r->ep, &st->stat_last);
	over(st, atomic_load(&stream_page_end(st)->shut) & IW_SHUT_CLOSED ? -1 : endpoint_socket(r->ep));
	if (!r->f->rs.done && !r->f->aborted) {
		if (err)
			stream_log(st, LOG_INFO, "connection ended: %s", strerror(err));
		remote_reset(st, socket_errno(err));
	}
	remote_end(st);
}

static const struct endpoint_ulp remote_ulp = {
	.request = on_request, .established = on_established, .complete = on_complete, .event = on_event,
	.invalidated = on_invalidated, .moved = on_moved, .closed = on_closed,
};

/* ---- set-up ---- */

/* Whatever can fail for want of something, before the other end is kept waiting. T is still the relay's. */
int remote_prepare(struct stream *st)
{
	struct endpoint_attr a = { .pd = st->pd, .ulp = &remote_ulp, .ctx = st, .flags = RNIC_PREPAID, .dialled = st->client };
	struct stream_remote *r;
	int ret;

	if (st->remote)
		return 0;
	ret = remote_alloc(st);
	if (ret)
		return ret;
	r = st->remote;
	a.area = r->area;
	a.area_off = r->f->ep_off;
	ret = provider_create(st->end[0].tcp, &a, &r->ep);
	if (!ret)
		ret = remote_register_all(st);
	if (!ret)
		ret = iw_rs_init(&r->f->rs, &r->f->p, &r->pd);
	if (!ret)
		ret = iw_rs_post_all(&r->f->rs, &remote_rs_ops, st);
	if (ret)
		remote_unprepare(st);
	return ret;
}

static void drop(struct stream *st)
{
	area_put(st->remote->area);	/* an endpoint that lingers still has it */
	free(st->remote);
	st->remote = NULL;
}

void remote_unprepare(struct stream *st)
{
	struct stream_remote *r = st->remote;

	if (!r || r->on)
		return;
	if (r->ep) {
		endpoint_unmake(r->ep);
		remote_forget(r);
	}
	drop(st);
}

int remote_revive(struct stream *st, struct area *a)
{
	struct endpoint_attr attr = {
		.pd = st->pd, .ulp = &remote_ulp, .ctx = st, .flags = RNIC_PREPAID | RNIC_GOES_ON, .area = a,
	};
	struct stream_remote *r = calloc(1, sizeof(*r));
	int ret;

	if (!r) {
		area_put(a);
		return -ENOMEM;
	}
	r->st = st;
	r->area = a;
	r->f = (struct iw_remote *)(a->mem + REMOTE_KEPT);
	r->rq = a->mem + r->f->rq_off;
	r->rd = a->mem + r->f->rd_off;
	st->remote = r;
	attr.area_off = r->f->ep_off;
	ret = provider_create(st->end[0].tcp, &attr, &r->ep);
	if (!ret)
		ret = remote_register_all(st);
	if (ret) {
		remote_unprepare(st);
		return ret;
	}
	r->on = true;
	st->state = STREAM_RUNNING;
	return 0;
}

bool remote_ready(struct stream *st, void (*again)(void *ctx))
{
	return endpoint_ready(st->remote->ep, again);
}

bool remote_made(const struct stream *st)
{
	return st->remote && st->remote->ep && endpoint_made(st->remote->ep);
}

int remote_request(struct stream *st, uint64_t nonce, uint8_t out[ENDPOINT_FRAME_MAX])
{
	struct stream_remote *r = st->remote;
	uint8_t pd[IW_RS_PD_LEN];

	r->pd.nonce = nonce;
	own_pd(st, &r->pd);
	iw_rs_pd_encode(&r->pd, pd);
	return endpoint_request(r->ep, pd, sizeof(pd), out);
}

int remote_frame(struct stream *st, const uint8_t *in, size_t len, bool answer, uint64_t nonce)
{
	struct endpoint_frame f;
	struct iw_rs_pd pd;
	int ret, n = endpoint_frame(st->remote->ep, in, len, answer, &f);

	if (n <= 0)
		return n;
	ret = iw_rs_pd_decode(&pd, f.pd, f.pd_len);	/* of another version: nothing an application would write here */
	return ret == -EPROTONOSUPPORT || pd.nonce == nonce ? n : -EPROTO;
}

int remote_go(struct stream *st, bool initiator, const uint8_t *frame, size_t len)
{
	struct stream_remote *r = st->remote;
	int ret = endpoint_go_on(r->ep, frame, len);

	if (ret)
		return ret;
	r->on = true;
	r->initiator = initiator;
	st->state = STREAM_STARTING;
	relay_end(st, pump_queue);
	return 0;
}

void remote_free(struct stream *st)
{
	struct stream_remote *r = st->remote;

	remote_unprepare(st);
	if (!st->remote)
		return;
	if (r->ep) {
		endpoint_abort(r->ep);
		over(st, -1);
	}
	drop(st);
}

void remote_stat(const struct stream *st, struct endpoint_stat *s)
{
	if (st->remote && st->remote->ep)
		endpoint_stat(st->remote->ep, s);
	else
		*s = st->stat_last;
}
