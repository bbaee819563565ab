// SPDX-License-Identifier: MIT
/* One end of a stream on its map: the ring stream on a queue pair, and the octets of T between calls. */
#include "end_priv.h"

#include <errno.h>
#include <string.h>

#include "mpa.h"

#define LATE_SMALL	4u	/* messages that are left where they came */

/* ---- what queue pair and ring stream ask for ---- */

/* The application learns of what TCP would have said. */
void end_lost(struct iw_end *e, int err)
{
	if (!e->f->reset_err && !e->f->rs.done && !e->f->aborted)
		e->f->reset_err = err == ETIMEDOUT || err == EHOSTUNREACH || err == ENETUNREACH ? err : ECONNRESET;
}

static int rs_post_send(void *ctx, const struct iw_wr *wr)
{
	return iw_qp_post_send(&((struct iw_end *)ctx)->s->qp, wr);
}

static int rs_post_recv(void *ctx, uint64_t wr_id, const struct iw_sge *sge)
{
	return iw_qp_post_recv(&((struct iw_end *)ctx)->s->qp, wr_id, sge);
}

static unsigned int rs_sq_free(void *ctx)
{
	return iw_qp_sq_free(&((struct iw_end *)ctx)->s->qp);
}

static uint8_t *within(uint8_t *mem, uint64_t base, uint64_t size, uint64_t to, uint64_t len)
{
	return to >= base && len <= size && to - base <= size - len ? mem + (to - base) : NULL;
}

void *end_mem(const struct iw_end *e, uint32_t stag, uint64_t to, size_t len)
{
	const struct iw_rs_param *p = &e->f->rs.p;

	if (stag == p->rx_stag)
		return within(e->rx_ring, p->rx_to, p->rx_len, to, len);
	if (stag == p->rq_stag && e->msg)
		return within((uint8_t *)e->msg, p->rq_to, e->msg_len, to, len);
	if (stag == p->rq_stag)
		return within(e->rq, p->rq_to, iw_rs_rq_len(p), to, len);
	return stag == p->rd_stag ? within(e->rd, p->rd_to, p->rd_len, to, len) : NULL;
}

static void *rs_mem(void *ctx, uint32_t stag, uint64_t to, size_t len)
{
	struct iw_end *e = ctx;

	if (stag == e->f->rs.p.rx_stag)
		end_place_late(e);
	return end_mem(e, stag, to, len);
}

/* Few of them: many small ones are read faster in one piece. */
static void rs_place(void *ctx, uint64_t to, const uint8_t *src, uint32_t n)
{
	struct iw_end *e = ctx;
	void *ptr;

	if (e->msg && end_lates(e) < LATE_SMALL && end_deferred(e, to, src, n))
		return;
	ptr = rs_mem(e, e->f->rs.p.rx_stag, to, n);
	if (ptr)	/* else somebody writes into the map meanwhile */
		memcpy(ptr, src, n);
}

static void rs_event(void *ctx, enum iw_rs_event ev)
{
	struct iw_end *e = ctx;

	if (ev == IW_RS_EV_DONE)
		e->f->ev_done = 1;
	if (ev != IW_RS_EV_ABORT)
		return;
	e->f->ev_abort = 1;
	end_lost(e, e->f->rs.err);
}

/* Nothing of a mapped end is offered to the peer's Reads, unless somebody writes into the map. */
static int rs_expose(void *ctx, uint64_t off, uint32_t len, uint32_t *stag, uint64_t *to)
{
	return -ENOSPC;
}

static void rs_unexpose(void *ctx, uint32_t stag)
{
}

const struct iw_rs_ops end_rs_ops = {
	.post_send = rs_post_send, .post_recv = rs_post_recv, .sq_free = rs_sq_free, .mem = rs_mem, .place = rs_place, .expose = rs_expose,
	.unexpose = rs_unexpose, .event = rs_event,
};

static enum iw_access_err qp_access(void *ctx, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	const struct iw_rs_param *p = &((struct iw_end *)ctx)->f->rs.p;
	unsigned int has = stag == p->rx_stag ? IW_ACCESS_REMOTE_WRITE : stag == p->rd_stag ? IW_ACCESS_READ_SINK :
			   stag == p->rq_stag ? IW_ACCESS_LOCAL_WRITE : stag == p->tx_stag ? IW_ACCESS_LOCAL_READ : 0;

	if (to + (len - 1) < to)
		return IW_ACC_WRAP;
	if (has != right)
		return has ? IW_ACC_RIGHTS : IW_ACC_STAG;
	*ptr = end_mem(ctx, stag, to, len);
	return *ptr ? IW_ACC_OK : IW_ACC_BOUNDS;
}

static enum iw_access_err qp_place(void *ctx, uint32_t stag, uint64_t to, const uint8_t *src, uint32_t n)
{
	struct iw_end *e = ctx;
	void *ptr;
	enum iw_access_err err = qp_access(e, stag, to, n, IW_ACCESS_REMOTE_WRITE, &ptr);

	if (err == IW_ACC_OK && !end_deferred(e, to, src, n)) {
		iw_end_unwant(e);	/* it may lie over what was taken for the next */
		end_place_late(e);
		memcpy(ptr, src, n);
	}
	return err;
}

/* What follows in the stream, if it goes in one piece to where a reader waits for it. */
static uint8_t *qp_sink(void *ctx, uint32_t stag, uint64_t to, uint32_t n)
{
	struct iw_end *e = ctx;
	const struct iw_rs_param *p = &e->f->rs.p;
	uint64_t off = e->want.end - e->want.pos;
	const struct iovec *v = e->want.v;

	if (!e->want.open || stag != p->rx_stag || to - p->rx_to != (e->want.end & (p->rx_len - 1)) || off + n > e->want.len || off + n > p->rx_len)
		return NULL;
	for (off += e->want.skip; off >= v->iov_len; v++)
		off -= v->iov_len;
	if (v->iov_len - off < n)
		return NULL;
	e->want.end += n;
	return (uint8_t *)v->iov_base + off;
}

/* Until it is completed, which comes next. Of an agent's receive buffers each lies apart: see end_mem(). */
static bool qp_whole(void *ctx, const uint8_t *src, uint32_t n)
{
	struct iw_end *e = ctx;

	if (e->f->rs.p.rq_step)
		return false;
	e->msg = src;
	e->msg_len = n;
	return true;
}

/* Whatever is framed of the transmit ring lies with the caller: see iw_end_put(). */
static const void *qp_payload(void *ctx, uint32_t stag, uint64_t to, uint32_t *len)
{
	const struct iw_end *e = ctx;
	const struct iw_rs_param *p = &e->f->rs.p;
	static const uint8_t nothing[4096];
	const struct iovec *v = e->v, *end = v + e->nv;
	uint64_t off = e->skip + ((to - p->tx_to - e->src_pos) & (p->tx_len - 1));

	while (v < end && off >= v->iov_len)
		off -= v++->iov_len;
	if (v == end) {		/* somebody writes into the map meanwhile */
		*len = *len < sizeof(nothing) ? *len : sizeof(nothing);
		return nothing;
	}
	if (*len > v->iov_len - off)
		*len = (uint32_t)(v->iov_len - off);
	return (const uint8_t *)v->iov_base + off;
}

/* The peer has been given no STag that it might invalidate. */
static enum iw_access_err qp_invalidate(void *ctx, uint32_t stag)
{
	return IW_ACC_STAG;
}

static void qp_complete(void *ctx, const struct iw_cqe *cqe)
{
	struct iw_end *e = ctx;

	iw_rs_complete(&e->f->rs, &end_rs_ops, e, cqe);
	if (cqe->op == IW_WR_RECV)
		e->msg = NULL;
}

static void qp_event(void *ctx, enum iw_qp_event ev)
{
	struct iw_end *e = ctx;

	switch (ev) {
	case IW_QP_EV_TERM_RECEIVED:
		iw_soft_cut(e->s);
		end_lost(e, EPROTO);
		break;
	case IW_QP_EV_TERM_SENT:
		end_lost(e, EPROTO);
		break;
	case IW_QP_EV_LOST:
		end_lost(e, e->s->qp.err);
		break;
	default:
		break;
	}
}

const struct iw_qp_ops end_qp_ops = {
	.access = qp_access, .place = qp_place, .sink = qp_sink, .whole = qp_whole, .payload = qp_payload, .invalidate = qp_invalidate, .complete = qp_complete, .event = qp_event,
};

int iw_end_open(struct iw_end *e, struct iw_map *m, uint64_t len)
{
	const struct iw_remote *f = (const struct iw_remote *)((uint8_t *)m + IW_MAP_REMOTE);
	struct iw_map_priv at;

	if (len < IW_MAP_REMOTE + sizeof(*f) || m->magic != IW_MAP_MAGIC || m->version != IW_MAP_VERSION || m->size > len)
		return -EPROTO;
	if (f->magic != IW_REMOTE_MAGIC || f->version != IW_REMOTE_VERSION || m->size < iw_map_size(&f->p))
		return -EPROTO;
	iw_map_at(m, &f->p, &at);
	*e = (struct iw_end){ .m = m, .f = at.f, .s = at.s, .rq = at.rq, .rd = at.rd, .rx_ring = at.rx_ring, .tx = at.tx, .defers = true };
	e->data_end = at.s->qp.tx_pos;
	return at.s->magic == IW_SOFT_MAGIC && at.s->version == IW_SOFT_VERSION && at.s->qp.version == IW_QP_VERSION ? 0 : -EPROTO;
}

/* ---- how it stands ---- */

unsigned int iw_end_state_fin(const struct iw_end *e)
{
	return iw_rs_rx_fin(&e->f->rs) ? IW_END_FIN : 0;
}

int iw_end_err(const struct iw_end *e)
{
	return e->f->reset_err ? e->f->reset_err : ECONNRESET;
}

void iw_end_emss(struct iw_end *e, uint16_t mss)
{
	struct iw_qp *qp = &e->s->qp;

	if (e->s->large)
		return;
	end_change(e);
	iw_qp_set_mulpdu(qp, iw_mpa_mulpdu(mss, qp->param.tx_markers));
	end_changed(e);
}

uint64_t iw_end_unacked(const struct iw_end *e, uint64_t queued)
{
	uint64_t control = e->s->qp.tx_pos - e->data_end;

	queued -= queued < control ? queued : control;
	return iw_rs_tx_left(&e->f->rs, queued) + iw_end_gathered(e);
}
