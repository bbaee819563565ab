// SPDX-License-Identifier: MIT
/* What an import of a map holds for sound. */
#include <errno.h>
#include <string.h>

#include "map_priv.h"
#include "rs_priv.h"
#include "wire.h"

#define ERRNO_MAX	4095

void iw_map_keep(struct iw_map_const *c, const struct iw_map_priv *from)
{
	const struct iw_rs *rs = &from->f->rs;

	memset(c, 0, sizeof(*c));
	memcpy(&c->p, &rs->p, sizeof(c->p));
	c->caps = rs->caps;
	c->peer_stag = rs->peer_stag;
	c->peer_len = rs->peer_len;
	c->peer_to = rs->peer_to;
	c->peer_bufs = rs->peer_bufs;
	c->peer_sa = rs->peer_sa;
	c->inline_max = rs->inline_max;
	c->chunk = rs->chunk;
	c->rd_max = rs->rd_max;
	memcpy(&c->qp, &from->s->qp.param, sizeof(c->qp));
	c->qp.mulpdu = 0;
	c->soft_size = from->s->size;
	c->large = from->s->large;
}

static bool same_const(const struct iw_map_const *was, const struct iw_map_priv *of)
{
	struct iw_map_const now;
	uint16_t mulpdu = of->s->qp.param.mulpdu;

	iw_map_keep(&now, of);
	/* both were copied octet for octet into zeroed memory, gaps too */
	return !memcmp(was, &now, sizeof(now)) &&	/* NOLINT(bugprone-suspicious-memory-comparison) */
	       mulpdu >= IW_MULPDU_MIN && mulpdu <= IW_MULPDU_MAX &&
	       of->f->rs.version == IW_RS_VERSION && of->s->magic == IW_SOFT_MAGIC && of->s->version == IW_SOFT_VERSION &&
	       of->s->qp.version == IW_QP_VERSION;
}

/* ---- the ring stream ---- */

static bool tx_ok(const struct iw_rs *rs)
{
	uint64_t pos = rs->tx_done;

	if (rs->credits > rs->peer_bufs || rs->unreturned > rs->p.bufs || rs->tx_nsa || rs->tx_cancel || rs->txq_tail - rs->txq_head > IW_RS_TXQ)
		return false;
	if (rs->tx_freed > pos || rs->tx_sent != rs->tx_pos || rs->tx_pos - rs->tx_freed > rs->p.tx_len ||
	    rs->tx_urg > rs->tx_pos || rs->ring_sent - rs->ring_acked > rs->peer_len)
		return false;
	for (uint32_t i = rs->txq_head; i != rs->txq_tail; i++) {
		uint64_t end = rs->txq_end[i % IW_RS_TXQ];

		if (end < pos)
			return false;
		pos = end;
	}
	return pos <= rs->tx_sent;
}

/* The Reads in flight, in their order, fill what the offers wait for. */
static bool reads_ok(const struct iw_rs *rs, uint32_t *rd, const struct iw_rs_ext *e)
{
	uint32_t wait = e->issued - e->done;

	while (wait) {
		uint32_t n = *rd == rs->rd_tail ? 0 : rs->rd_len[*rd % IW_RS_RD];

		if (!n || n > wait)
			return false;
		wait -= n;
		(*rd)++;
	}
	return true;
}

static bool ext_ok(const struct iw_rs *rs)
{
	uint64_t ring = rs->rx_cons, issued = rs->rd_cons, ready = issued;
	uint32_t nsa = 0, rd = rs->rd_head;

	if (rs_ext_count(rs) > IW_RS_EXT || rs->rd_tail - rd > rs->rd_max)
		return false;
	for (uint32_t i = rs->ext_head; i != rs->ext_tail; i++) {
		const struct iw_rs_ext *e = &rs->ext[i % IW_RS_EXT];

		if (e->kind > IW_RS_EXT_DROP)
			return false;
		if (e->kind != IW_RS_EXT_SA) {
			if (e->end <= ring || e->end > rs->rx_prod)
				return false;
			ring = e->end;
			continue;
		}
		if (!e->len || e->len > RS_SA_LEN_MAX || e->issued > e->len || e->done > e->issued || e->consumed > e->done ||
		    (e->released && e->done != e->len) || !reads_ok(rs, &rd, e))
			return false;
		issued += e->issued - e->consumed;
		ready += e->done - e->consumed;
		nsa += !e->released;
	}
	return ring == rs->rx_prod && rd == rs->rd_tail && issued == rs->rd_issued && ready == rs->rd_ready && nsa == rs->rx_nsa;
}

static bool rs_ok(const struct iw_rs *rs)
{
	if (!rs->started || rs->err < 0 || rs->err > ERRNO_MAX || (rs->dead && !rs->err))
		return false;
	if (rs->rx_prod - rs->rx_cons > rs->p.rx_len || rs->rx_acked > rs->rx_cons ||
	    rs->rd_issued - rs->rd_cons > rs->p.rd_len)
		return false;
	return tx_ok(rs) && ext_ok(rs);
}

/* ---- the queue pair ---- */

/* What was framed is only waited for; what was not is without octets of the transmit ring. */
static bool sqe_ok(const struct iw_sqe *e, const struct iw_rs_param *p, bool framed)
{
	const struct iw_wr *wr = &e->wr;
	const struct iw_sge *sink = &wr->sge[0];

	if (e->status > IW_WC_REM_ERR)
		return false;
	if (wr->op == IW_WR_READ)
		return wr->nsge == 1 && sink->stag == p->rd_stag && sink->len == e->len && e->len <= p->rd_len && sink->to >= p->rd_to &&
		       sink->to - p->rd_to <= p->rd_len - e->len && (framed ? e->st == IW_SQE_FRAMED || e->st == IW_SQE_DONE : !e->st);
	if (framed)
		return (wr->op == IW_WR_SEND || wr->op == IW_WR_WRITE || wr->op == IW_WR_IMM) && e->st == IW_SQE_FRAMED;
	if (wr->op == IW_WR_IMM)
		return e->st == IW_SQE_QUEUED;
	return wr->op == IW_WR_SEND && e->st == IW_SQE_QUEUED && !wr->nsge && wr->flags & IW_WR_INLINE && wr->inl_len <= IW_WR_INLINE_MAX &&
	       e->len == wr->inl_len;
}

static bool ords_ok(const struct iw_qp *qp)
{
	uint32_t at = qp->sq_tail, n = qp->ord_head - qp->ord_tail;

	if (n > qp->param.ord)
		return false;
	for (uint32_t i = qp->ord_tail; n; n--, i++) {
		const struct iw_ore *o = &qp->ordq[i % IW_QP_ORD];
		const struct iw_sqe *e = &qp->sq[iw_sq_at(o->sq)];

		/* each after the one before */
		if (o->sq - at >= qp->sq_next - at || o->op != IW_WR_READ || o->rtr || e->wr.op != IW_WR_READ || e->st != IW_SQE_FRAMED ||
		    o->got > e->len)
			return false;
		at = o->sq + 1;
	}
	return true;
}

static bool qp_ok(const struct iw_qp *qp, const struct iw_rs_param *p)
{
	uint32_t rq = qp->rq_head - qp->rq_tail, sq = qp->sq_head - qp->sq_tail, framed = qp->sq_next - qp->sq_tail;
	bool runs = qp->state == IW_QP_RTS;

	if (qp->state == IW_QP_IDLE || qp->state > IW_QP_ERROR || rq > p->bufs || sq > IW_QP_SQ || framed > sq)
		return false;
	/* who runs has no request that failed, and takes others: the end of a queue pair is what tells of that */
	if ((runs && qp->sq_shut) || qp->rtr_due || qp->tx_off || qp->tx_sge || qp->tx_sge_off || qp->tx_cur || qp->ird_head != qp->ird_tail || qp->atomics ||
	    qp->term_due > 2 || qp->term.ddp_len > sizeof(qp->term.ddp))
		return false;
	for (uint32_t i = 0; i < sq; i++)
		if (!sqe_ok(&qp->sq[iw_sq_at(qp->sq_tail + i)], p, i < framed) || (runs && qp->sq[iw_sq_at(qp->sq_tail + i)].status != IW_WC_OK))
			return false;
	return qp->rx_mo[IW_QN_SEND] <= (rq ? p->buf_size : 0) && ords_ok(qp);
}

/* ---- the octets under way ---- */

static bool tx_buf_ok(const struct iw_soft_tx *b)
{
	return b->used ? b->buf <= IW_SOFT_IN_FEW && b->off < b->len && b->len <= iw_soft_tx_room(b) : true;
}

static bool soft_ok(const struct iw_soft *s)
{
	const struct iw_soft_tx *b = s->tx;

	if (s->rx_len > IW_SOFT_RX || s->rx_off > s->rx_len)
		return false;
	return tx_buf_ok(&b[0]) && tx_buf_ok(&b[1]) && (!b[1].used || (b[0].used && b[1].buf != b[0].buf && !b[1].off)) && !s->closing && !s->shut;
}

/* Whatever has ended says how: else nobody would end the stream. An honest ev_abort has one of the other three with it. */
static bool ends_ok(const struct iw_remote *f, const struct iw_qp *qp)
{
	if (f->reset_err < 0 || f->reset_err > ERRNO_MAX || (f->ev_done && !f->rs.done) || (qp->state != IW_QP_RTS && !f->rs.dead && !f->rs.done))
		return false;
	return !f->rs.dead || f->rs.done || f->reset_err || f->aborted;
}

int iw_map_check(const struct iw_map_const *was, const struct iw_map_priv *of)
{
	const struct iw_remote *f = of->f;

	if (!same_const(was, of) || !ends_ok(f, &of->s->qp))
		return -EPROTO;
	return rs_ok(&f->rs) && qp_ok(&of->s->qp, &was->p) && soft_ok(of->s) ? 0 : -EPROTO;
}
