// SPDX-License-Identifier: MIT
/* One end of a stream on its map: what the application sends, framed in the call. */
#include "end_priv.h"

#include <errno.h>
#include <string.h>

#define FRAME_KEPT	4096u			/* of the frame buffer: for ACKs and the like, which have to go whatever waits */
#define FPDU_MORE	64u			/* of an FPDU, beside its payload: length, headers, padding, CRC, Markers */
#define SQ_KEPT		32u			/* entries of the send queue, for the same */
#define FRAME_MIN	(IW_SOFT_TX / 8)	/* with less no octets are framed */

/* FPDUs go behind what T has not taken. */
static struct iw_soft_tx *last_tx(const struct iw_end *e)
{
	return &e->s->tx[e->s->tx[1].used ? 1 : 0];
}

static uint32_t frame_room(const struct iw_end *e)
{
	const struct iw_soft_tx *b = last_tx(e);

	return b->used ? IW_SOFT_TX - b->len : IW_SOFT_TX;
}

/* FPDUs of all that is posted take no more than n octets. */
static bool few(const struct iw_qp *qp, uint32_t n)
{
	uint32_t sum = 0;

	if (qp->ird_head != qp->ird_tail || qp->term_due || qp->rtr_due || qp->param.mulpdu < n)
		return false;
	for (uint32_t i = qp->sq_next, k = qp->sq_head - i; k && sum <= n; k--, i++) {
		uint32_t len = qp->sq[iw_sq_at(i)].len;

		sum += (len > n ? n : len) + FPDU_MORE;
	}
	return sum <= n;
}

/* Where the next FPDUs go: small ones beside the state, as long as they have room there. */
static void place_tx(struct iw_soft *s, struct iw_soft_tx *b)
{
	const uint8_t *was = iw_soft_tx_at(s, b);

	if (!b->used) {
		*b = (struct iw_soft_tx){ .pos = s->qp.tx_pos, .buf = few(&s->qp, IW_SOFT_FEW) ? IW_SOFT_IN_FEW : 0 };
	} else if (b->buf == IW_SOFT_IN_FEW && !few(&s->qp, IW_SOFT_FEW - b->len)) {
		b->buf = 0;
		memcpy(iw_soft_tx_at(s, b), was, b->len);
	}
}

static void frame(struct iw_end *e)
{
	struct iw_soft *s = e->s;
	struct iw_soft_tx *b = last_tx(e);
	size_t n;

	if (!iw_qp_tx_pending(&s->qp))
		return;
	place_tx(s, b);
	n = iw_qp_tx(&s->qp, &end_qp_ops, e, iw_soft_tx_at(s, b) + b->len, iw_soft_tx_room(b) - b->len, 0);
	b->len += (uint32_t)n;
	b->used = b->used || n;
}

static bool put_gathered(struct iw_end *e);

void iw_end_pump(struct iw_end *e)
{
	struct iw_rs *rs = &e->f->rs;

	put_gathered(e);
	if (!iw_rs_due(rs) && !rs->rx_fin && !iw_qp_tx_pending(&e->s->qp))
		return;
	end_change(e);
	if (iw_rs_rx_fin(rs))
		iw_rs_rx_fin_consumed(rs);
	iw_rs_pump(rs, &end_rs_ops, e);
	frame(e);
	end_changed(e);
}

/* Octets that can be framed now, with all that goes around them: headers of the smallest segments, messages, Markers. */
static uint32_t put_max(const struct iw_end *e)
{
	uint32_t room = frame_room(e);

	if (room < FRAME_MIN || iw_qp_sq_free(&e->s->qp) < SQ_KEPT || !iw_qp_sq_framed(&e->s->qp) || e->f->aborted)
		return 0;
	return (room - FRAME_KEPT) / 4 * 3;
}

/*
 * The octets go through the transmit ring's positions, but not through its memory: what cannot be sent at once is not taken, what is sent is
 * framed before the call returns.
 */
static size_t put(struct iw_end *e, const struct iovec *v, size_t n, size_t skip, size_t len)
{
	struct iw_rs *rs = &e->f->rs;
	uint64_t max = put_max(e), ring = rs->p.tx_len - (rs->tx_pos - rs->tx_freed);

	if (rs->tx_fin || rs->dead || !max || !ring)
		return 0;
	if (len > max)
		len = max;
	if (len > ring)
		len = ring;
	e->v = v;
	e->nv = n;
	e->skip = skip;
	e->src_pos = rs->tx_pos;
	end_change(e);
	iw_rs_tx_produced(rs, (uint32_t)len);
	iw_rs_push(rs);
	iw_rs_pump(rs, &end_rs_ops, e);
	len = (size_t)(iw_rs_tx_recall(rs) - e->src_pos);
	frame(e);
	e->nv = 0;
	e->data_end = len ? e->s->qp.tx_pos : e->data_end;
	end_changed(e);
	return len;
}

/* Of it nothing is left. How much there is follows from the two ends, so that no change of it is ever half done. */
static bool put_gathered(struct iw_end *e)
{
	size_t n;

	while ((n = iw_end_gathered(e))) {
		size_t off = e->f->rs.tx_pos & (IW_MAP_GATHER - 1), first = n < IW_MAP_GATHER - off ? n : IW_MAP_GATHER - off;
		const struct iovec v[2] = { { e->tx + off, first }, { e->tx, n - first } };

		if (!put(e, v, 2, 0, n))
			return false;
	}
	return true;
}

size_t iw_end_put(struct iw_end *e, const struct iovec *v, size_t n, size_t skip, size_t len)
{
	return put_gathered(e) ? put(e, v, n, skip, len) : 0;
}

/* In no step, so that the agent may take it meanwhile: then what was copied is behind the end that it saw. */
bool iw_end_gather(struct iw_end *e, const void *p, size_t len)
{
	const struct iw_rs *rs = &e->f->rs;
	uint64_t w = atomic_load_explicit(&e->m->owner, memory_order_relaxed), pos = rs->tx_pos, end = IW_MAP_END(w);
	uint64_t room = rs->p.tx_len - (pos - rs->tx_freed);
	size_t off, first;

	if (end < pos)
		end = pos;
	if (room > IW_MAP_GATHER)
		room = IW_MAP_GATHER;
	if ((w & IW_MAP_OWNER) == IW_MAP_AGENT || end - pos > room || len > room - (end - pos) || rs->tx_fin || rs->dead)
		return false;
	off = end & (IW_MAP_GATHER - 1);
	first = len < IW_MAP_GATHER - off ? len : IW_MAP_GATHER - off;
	memcpy(e->tx + off, p, first);
	if (first < len)
		memcpy(e->tx, (const uint8_t *)p + first, len - first);
	return atomic_compare_exchange_strong(&e->m->owner, &w, (end + len) << 2 | IW_MAP_BURST);
}

bool iw_end_room(const struct iw_end *e)
{
	return !iw_end_gathered(e) && put_max(e) && iw_rs_tx_open(&e->f->rs);
}

unsigned int iw_end_blocked(const struct iw_end *e)
{
	return iw_end_room(e) ? 0 : IW_END_IN | (e->s->tx[0].used ? IW_END_OUT : 0);
}

void iw_end_fin(struct iw_end *e)
{
	if (!put_gathered(e)) {
		iw_end_abort(e, ECONNRESET);
		return;
	}
	end_change(e);
	e->f->tx_eof = 1;
	iw_rs_tx_fin(&e->f->rs);
	end_changed(e);
}

void iw_end_abort(struct iw_end *e, int err)
{
	end_change(e);
	e->f->aborted = 1;
	iw_rs_abort(&e->f->rs, err);
	end_changed(e);
}

void iw_end_out_done(struct iw_end *e, size_t n)
{
	struct iw_soft_tx *b = e->s->tx;

	end_change(e);
	b[0].off += (uint32_t)n;
	iw_qp_tx_done(&e->s->qp, &end_qp_ops, e, n);
	if (b[0].off == b[0].len) {
		b[0] = b[1];
		b[1].used = 0;
	}
	end_changed(e);
}
