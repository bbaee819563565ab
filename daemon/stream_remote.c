/* SPDX-License-Identifier: MIT */
/* A stream over RDMAP: its registrations, MPA startup with our private data, and its ends. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "log.h"
#include "stream_remote.h"

/* ---- memory ---- */

static void fill_param(struct iw_rs_param *p)
{
	*p = (struct iw_rs_param){
		.tx_len = conf.ring_size, .rx_len = conf.ring_size, .rd_len = REMOTE_RD_LEN, .bufs = REMOTE_BUFS,
		.buf_size = (uint16_t)((conf.inline_max + IW_CW_LEN + IW_CW_SRCAVAIL_LEN + 63) & ~63u),
		.inline_max = conf.inline_max, .srcavail_min = conf.srcavail_min, .read_max = REMOTE_READ_MAX,
		.caps = IW_RS_CAP_IMM | IW_RS_CAP_SENDINV | (conf.srcavail_min ? IW_RS_CAP_SRCAVAIL : 0) |
			(conf.large_fpdu ? IW_RS_CAP_LARGE : 0),
	};
}

static size_t rq_len(const struct iw_rs_param *p)
{
	return (size_t)p->bufs * p->buf_size;
}

/* What is exposed for the peer's Reads is part of the transmit ring. */
void remote_needs(struct prm_bill *b)
{
	struct iw_rs_param p;

	fill_param(&p);
	*b = (struct prm_bill){ 0 };
	b->n[PRM_MEMORY] = (uint64_t)p.tx_len + p.rx_len + p.rd_len + rq_len(&p);
	b->n[PRM_STAGS] = 4 + IW_RS_SA;
	b->n[PRM_READS] = CONN_READS;
	b->n[PRM_CQES] = CONN_CQES;
}

static uint8_t *tx_ring(const struct stream *st)
{
	return (uint8_t *)st->page + IW_PAGE_RINGS;
}

static uint8_t *rx_ring(const struct stream *st)
{
	return tx_ring(st) + st->remote->p.tx_len;
}

/* Our own ranges only, without the STag table: a registration that the peer invalidated must not take our memory from us. */
void *remote_mem(void *ctx, uint32_t stag, uint64_t to, size_t len)
{
	struct stream *st = ctx;
	struct stream_remote *r = st->remote;
	const struct iw_rs_param *p = &r->p;
	const struct { uint32_t stag; uint64_t to, len; uint8_t *mem; } area[] = {
		{ p->rx_stag, p->rx_to, p->rx_len, rx_ring(st) },
		{ p->rq_stag, p->rq_to, rq_len(p), r->rq },
		{ p->rd_stag, p->rd_to, p->rd_len, r->rd },
		{ p->tx_stag, p->tx_to, p->tx_len, tx_ring(st) },
	};

	for (size_t i = 0; i < sizeof(area) / sizeof(area[0]); i++) {
		if (area[i].stag == stag && to >= area[i].to && len <= area[i].len && to - area[i].to <= area[i].len - len)
			return area[i].mem + (to - area[i].to);
	}
	return NULL;
}

/* A random base, so that positions tell nothing of addresses (sdp.md 2.1); far from 2^64. */
static int random_to(uint64_t *to)
{
	if (getrandom(to, sizeof(*to), 0) != (ssize_t)sizeof(*to))
		return -EIO;
	*to = (*to >> 1) & ~4095ull;
	return 0;
}

static int reg_mr(struct stream *st, void *addr, uint64_t len, unsigned int access, uint64_t *to, struct rnic_mr **mr)
{
	struct stream_remote *r = st->remote;
	int ret = random_to(to);

	return ret ? ret : rnic_mr_reg(r->pd, conn_qp(r->conn), addr, len, *to, access, mr);
}

static int reg(struct stream *st, unsigned int i, void *addr, uint64_t len, unsigned int access, uint32_t *stag, uint64_t *to)
{
	struct rnic_mr **mr = &st->remote->own[i];
	int ret = reg_mr(st, addr, len, RNIC_PREPAID | access, to, mr);

	if (ret)
		*mr = NULL;
	else
		*stag = rnic_mr_stag(*mr);
	return ret;
}

static int register_all(struct stream *st)
{
	struct stream_remote *r = st->remote;
	struct iw_rs_param *p = &r->p;
	int ret;

	ret = reg(st, 0, tx_ring(st), p->tx_len, IW_ACCESS_LOCAL_READ, &p->tx_stag, &p->tx_to);
	if (!ret)
		ret = reg(st, 1, rx_ring(st), p->rx_len, IW_ACCESS_REMOTE_WRITE, &p->rx_stag, &p->rx_to);
	if (!ret)
		ret = reg(st, 2, r->rd, p->rd_len, IW_ACCESS_READ_SINK, &p->rd_stag, &p->rd_to);
	if (!ret)
		ret = reg(st, 3, r->rq, rq_len(p), IW_ACCESS_LOCAL_WRITE, &p->rq_stag, &p->rq_to);
	return ret;
}

static void deregister(struct rnic_mr **mr, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rnic_mr_dereg(mr[i]);
		mr[i] = NULL;
	}
}

/*
 * The connection is no longer ours, though it may linger. The registrations go first, by their handles: the queue pair takes these with
 * it, and an STag that is free may be somebody else's the next moment.
 */
static void conn_forget(struct stream_remote *r)
{
	deregister(r->exposed, IW_RS_SA);
	deregister(r->own, sizeof(r->own) / sizeof(r->own[0]));
	r->conn = NULL;
}

/* ---- what the ring stream asks ---- */

static int rs_post_send(void *ctx, const struct iw_wr *wr)
{
	struct stream_remote *r = ((struct stream *)ctx)->remote;

	return r->conn ? rnic_post_send(conn_qp(r->conn), wr) : -ENOTCONN;
}

static int rs_post_recv(void *ctx, uint64_t wr_id, const struct iw_sge *sge)
{
	struct stream_remote *r = ((struct stream *)ctx)->remote;

	return r->conn ? rnic_post_recv(conn_qp(r->conn), wr_id, sge) : -ENOTCONN;
}

static unsigned int rs_sq_free(void *ctx)
{
	struct stream_remote *r = ((struct stream *)ctx)->remote;

	return r->conn ? iw_qp_sq_free(rnic_qp_state(conn_qp(r->conn))) : 0;
}

static int rs_expose(void *ctx, uint64_t off, uint32_t len, uint32_t *stag, uint64_t *to)
{
	struct stream *st = ctx;
	struct stream_remote *r = st->remote;
	struct rnic_mr **mr = r->exposed;
	int ret;

	if (!r->conn)
		return -ENOTCONN;
	while (mr < r->exposed + IW_RS_SA && *mr)
		mr++;
	if (mr == r->exposed + IW_RS_SA)
		return -EAGAIN;
	ret = reg_mr(st, tx_ring(st) + off, len, RNIC_PREPAID | IW_ACCESS_REMOTE_READ, to, mr);
	if (ret)
		*mr = NULL;
	else
		*stag = rnic_mr_stag(*mr);
	return ret;
}

/* By the handle: an STag that the peer has invalidated is in no table any more. */
static void rs_unexpose(void *ctx, uint32_t stag)
{
	struct stream_remote *r = ((struct stream *)ctx)->remote;

	for (size_t i = 0; i < IW_RS_SA; i++) {
		if (r->exposed[i] && rnic_mr_stag(r->exposed[i]) == stag) {
			rnic_mr_dereg(r->exposed[i]);
			r->exposed[i] = NULL;
		}
	}
}

static void rs_event(void *ctx, enum iw_rs_event ev)
{
	struct stream *st = ctx;

	if (ev == IW_RS_EV_ABORT)
		st->remote->ev_abort = true;
	else if (ev == IW_RS_EV_DONE)
		st->remote->ev_done = true;
	pump_queue(st);
}

const struct iw_rs_ops remote_rs_ops = {
	.post_send = rs_post_send, .post_recv = rs_post_recv, .sq_free = rs_sq_free, .mem = remote_mem, .expose = rs_expose,
	.unexpose = rs_unexpose, .event = rs_event,
};

/* ---- the ends ---- */

void remote_end(struct stream *st)
{
	struct stream_remote *r = st->remote;

	if (!r->conn && (st->d_drop || r->rs.done))
		stream_kill(st);
}

void remote_abort(struct stream *st, int err)
{
	struct stream_remote *r = st->remote;

	if (r->aborted)
		return;
	r->aborted = true;
	st->state = STREAM_CLOSING;
	carrier_reset(st, ECONNRESET);	/* an application that only did SHUT_RDWR learns of it */
	if (r->conn && !r->reset_err) {
		iw_rs_abort(&r->rs, err);
		iw_rs_pump(&r->rs, &remote_rs_ops, st);
		conn_close(r->conn);	/* ABORT, then FIN */
	}
	remote_end(st);
}

/*
 * What the application wrote and nobody will send. A full carrier would keep it asleep in poll(POLLOUT), since a unix socket is not
 * writable merely because it cannot send. One octet stays: closing with it unread is a reset for programs without the library.
 */
static void drop_unsent(struct stream *st)
{
	union {
		struct cmsghdr h;
		uint8_t room[CMSG_SPACE(IW_SCM_MAX * sizeof(int))];
	} control;
	char buf[16384];
	int have = 0;

	while (!ioctl(st->d, FIONREAD, &have) && have > 1) {
		struct iovec v = { buf, (size_t)have - 1 < sizeof(buf) ? (size_t)have - 1 : sizeof(buf) };
		struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };

		if (recvmsg(st->d, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
			break;
		passed_take(&m, NULL, 0, st->end[0].uid);
	}
}

void remote_reset(struct stream *st, int err)
{
	struct stream_remote *r = st->remote;

	if (r->reset_err || r->aborted)
		return;
	r->reset_err = err;
	if (!r->running || st->d < 0 || st->app_closed) {
		carrier_reset(st, err);
		return;
	}
	/* Writers hear it now; what the peer sent before is delivered first, as TCP delivers what it has received. */
	carrier_record_reset(st, err);
	st->state = STREAM_CLOSING;
	engine_cancel(&st->d_rx);
	shutdown(st->d, SHUT_RD);
	drop_unsent(st);
	pump_queue(st);
}

/* ---- the connection below ---- */

static int own_pd(struct stream *st, struct iw_rs_pd *pd)
{
	const struct tuple *t = &st->end[0].tuple;
	int ret = iw_rs_init(&st->remote->rs, &st->remote->p, pd);

	pd->dst = st->client ? t->peer : t->local;
	pd->src = st->client ? t->local : t->peer;
	return ret;
}

static void reject(struct stream *st, enum iw_rs_reject why, const char *text)
{
	uint8_t out[16];

	log_warn("stream %016llx: MPA Request rejected: %s", (unsigned long long)st->id, text);
	conn_reject(st->remote->conn, out, iw_rs_reject_encode(why, out));
}

static void on_request(void *ctx, const struct iw_mpa_frame *req)
{
	struct stream *st = ctx;
	struct stream_remote *r = st->remote;
	const struct iw_addr *local = &st->end[0].tuple.local;
	uint8_t out[IW_RS_PD_LEN];
	struct iw_rs_pd peer, own;

	if (iw_rs_pd_decode(&peer, req->pd, req->pd_len) || iw_rs_start(&r->rs, &peer)) {
		reject(st, IW_RS_REJ_VERSION, "no common version, or unusable values");
		return;
	}
	if (memcmp(peer.dst.ip, local->ip, sizeof(local->ip)) || peer.dst.port != local->port) {
		reject(st, IW_RS_REJ_NO_LISTENER, "it is meant for another address");
		return;
	}
	own = (struct iw_rs_pd){
		.ver_lo = IW_RS_VERSION, .ver_hi = IW_RS_VERSION, .caps = r->rs.caps, .ring_stag = r->p.rx_stag, .ring_to = r->p.rx_to,
		.ring_len = r->p.rx_len, .bufs = r->p.bufs, .buf_size = r->p.buf_size,
		/* it answers no Reads: what it offered could not be read */
		.srcavail_max = r->rs.caps & IW_RS_CAP_SRCAVAIL && (!req->enhanced || req->ird) ? IW_RS_SA : 0,
		.dst = peer.dst, .src = peer.src,
	};
	iw_rs_pd_encode(&own, out);
	if (conn_accept(r->conn, out, sizeof(out)))
		reject(st, IW_RS_REJ_RESOURCES, "the queue pair refuses it");
}

static void on_established(void *ctx, const struct iw_mpa_frame *frame)
{
	struct stream *st = ctx;
	struct stream_remote *r = st->remote;
	unsigned int ird, ord;
	struct iw_rs_pd peer;

	if (st->client && (iw_rs_pd_decode(&peer, frame->pd, frame->pd_len) || iw_rs_start(&r->rs, &peer))) {
		log_warn("stream %016llx: private data of the MPA Reply is unusable", (unsigned long long)st->id);
		conn_terminate(r->conn, 2, 0, 5);
		conn_forget(r);
		st->end[0].tcp = -1;
		remote_reset(st, ECONNRESET);
		remote_end(st);
		return;
	}
	conn_depths(r->conn, &ird, &ord);
	iw_rs_depths(&r->rs, ird, ord);
	conn_large_fpdu(r->conn, r->rs.caps & IW_RS_CAP_LARGE);
	r->running = true;
	st->state = STREAM_RUNNING;
	pump_start(st);
}

static void on_complete(void *ctx, const struct iw_cqe *cqe)
{
	struct stream *st = ctx;

	iw_rs_complete(&st->remote->rs, &remote_rs_ops, st, cqe);
	pump_queue(st);
}

static void on_event(void *ctx, enum iw_qp_event ev)
{
	if (ev == IW_QP_EV_FIRST_FPDU)
		pump_queue(ctx);
}

/* The peer may take back the STag of its own ring's counterpart; without our ring there is no stream (security.md R23). */
static void on_invalidated(void *ctx, uint32_t stag)
{
	struct stream *st = ctx;

	if (stag == st->remote->p.rx_stag || stag == st->remote->p.rd_stag || stag == st->remote->p.rq_stag ||
	    stag == st->remote->p.tx_stag) {
		iw_rs_abort(&st->remote->rs, EPROTO);
		st->remote->ev_abort = true;
		pump_queue(st);
	} else {
		rs_unexpose(st, stag);
	}
}

/* What TCP would have said. */
static int socket_errno(int err)
{
	return err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH ? err : ECONNRESET;
}

static void on_closed(void *ctx, int err, const struct iw_mpa_frame *rej)
{
	struct stream *st = ctx;
	struct stream_remote *r = st->remote;

	st->qp_last = *conn_stat(r->conn);
	conn_forget(r);
	st->end[0].tcp = -1;
	timer_stop(&r->ack);
	if (!r->rs.done && !r->aborted) {
		if (err)
			log_info("stream %016llx: connection ended: %s", (unsigned long long)st->id, strerror(err));
		remote_reset(st, socket_errno(err));
	}
	remote_end(st);
}

static const struct conn_ops remote_conn_ops = {
	.request = on_request, .established = on_established, .complete = on_complete, .event = on_event,
	.invalidated = on_invalidated, .closed = on_closed,
};

/* ---- set-up ---- */

static int remote_alloc(struct stream *st)
{
	struct iw_rs_param p;
	struct stream_remote *r;
	size_t head = (sizeof(*r) + 4095) & ~(size_t)4095, size;
	void *mem;
	int ret;

	fill_param(&p);
	size = head + ((rq_len(&p) + 4095) & ~(size_t)4095) + p.rd_len;
	ret = prm_mem_create(rnic_pd_user(st->pd), size, &mem, NULL);
	if (ret)
		return ret;
	r = mem;
	r->st = st;
	r->p = p;
	r->rq = (uint8_t *)r + head;
	r->rd = (uint8_t *)r + size - p.rd_len;
	st->remote = r;
	return 0;
}

/* On failure the TCP socket is still the stream's. */
int remote_start(struct stream *st, bool initiator)
{
	struct stream_remote *r;
	uint8_t out[IW_RS_PD_LEN];
	struct iw_rs_pd pd = { 0 };
	int ret = remote_alloc(st);

	if (ret)
		return ret;
	r = st->remote;
	r->pd = st->pd;
	ret = conn_create_queues(st->end[0].tcp, r->pd, &(struct conn_queues){ .flags = RNIC_PREPAID }, &remote_conn_ops, st, &r->conn);
	if (ret)
		return ret;
	rnic_qp_set_stream_id(conn_qp(r->conn), st->id);
	ret = register_all(st);
	if (!ret)
		ret = own_pd(st, &pd);
	if (!ret)
		ret = iw_rs_post_all(&r->rs, &remote_rs_ops, st);
	if (ret)
		goto err;
	iw_rs_pd_encode(&pd, out);
	ret = initiator ? conn_initiate(r->conn, out, sizeof(out)) : conn_respond(r->conn);
	if (!ret)
		return 0;
err:
	conn_unwrap(r->conn);
	conn_forget(r);
	return ret;
}

void remote_free(struct stream *st)
{
	struct stream_remote *r = st->remote;

	if (!r)
		return;
	timer_stop(&r->ack);
	if (r->conn) {
		conn_abort(r->conn);
		conn_forget(r);
		st->end[0].tcp = -1;
	}
	prm_mem_destroy(r);
	st->remote = NULL;
}

const struct iw_qp_stat *remote_stat(const struct stream *st)
{
	return st->remote && st->remote->conn ? conn_stat(st->remote->conn) : &st->qp_last;
}
