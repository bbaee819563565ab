// SPDX-License-Identifier: MIT
/* One end of a stream on its map: the ring stream on a queue pair, and the octets of T between calls. */
#include "end.h"

#include <errno.h>
#include <string.h>

#include "mpa.h"
#include "wire.h"

#define FRAME_KEPT	4096u			/* of the frame buffer: for ACKs and the like, which have to go whatever waits */
#define FPDU_MORE	64u			/* of an FPDU, beside its payload: length, headers, padding, CRC, Markers */
#define SQ_KEPT		32u			/* entries of the send queue, for the same */
#define FRAME_MIN	(IW_SOFT_TX / 8)	/* with less no octets are framed */
#define LATE_SMALL	4u			/* messages that are left where they came */
#define FRONT		4096u			/* of an FPDU that was begun, to be moved */

/* ---- a change: its owner may die at any instruction ---- */

static void change(struct iw_end *e)
{
	atomic_store_explicit(&e->m->changing, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
}

static void changed(struct iw_end *e)
{
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&e->m->changing, 0, memory_order_relaxed);
}

/* ---- what queue pair and ring stream ask for ---- */

/* The application learns of what TCP would have said. */
static void lost(struct iw_end *e, int err)
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

static void *mem(const struct iw_end *e, uint32_t stag, uint64_t to, size_t len)
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

/* ---- payload that is not yet where it belongs ---- */

/* Its i-th piece, of *n octets. Somebody may write into the map meanwhile. */
static const uint8_t *late_at(const struct iw_end *e, uint32_t i, uint32_t *n)
{
	uint32_t off = e->m->late.v[i].off;

	*n = e->m->late.v[i].len;
	if (off > IW_SOFT_RX)
		off = IW_SOFT_RX;
	if (*n > IW_SOFT_RX - off)
		*n = IW_SOFT_RX - off;
	return e->s->rx + off;
}

static uint32_t lates(const struct iw_end *e)
{
	return e->m->late.n < IW_MAP_LATE ? e->m->late.n : IW_MAP_LATE;
}

static void place_late(struct iw_end *e)
{
	const struct iw_rs *rs = &e->f->rs;
	uint64_t pos = e->m->late.pos;
	uint32_t len;

	for (uint32_t i = 0, n = lates(e); i < n; i++, pos += len) {
		const uint8_t *src = late_at(e, i, &len);
		uint32_t read = pos >= rs->rx_cons ? 0 : rs->rx_cons - pos < len ? (uint32_t)(rs->rx_cons - pos) : len;
		void *to = mem(e, rs->p.rx_stag, rs->p.rx_to + ((pos + read) & (rs->p.rx_len - 1)), len - read);

		if (to && read < len)
			memcpy(to, src + read, len - read);
	}
	e->m->late.n = 0;
}

/* What follows in the stream, and lies there. Anything else is placed as it came, in order. */
static bool deferred(struct iw_end *e, uint64_t to, const uint8_t *src, uint32_t n)
{
	const struct iw_rs *rs = &e->f->rs;
	struct iw_map_late *l = &e->m->late;
	uint32_t have = lates(e);
	uint64_t pos = have ? l->end : rs->rx_prod;

	if (!e->defers || have == IW_MAP_LATE || pos < rs->rx_prod || to - rs->p.rx_to != (pos & (rs->p.rx_len - 1)) ||
	    pos + n - rs->rx_cons > rs->p.rx_len)
		return false;
	if (!have)
		l->pos = pos;
	l->v[have].off = (uint32_t)(src - e->s->rx);
	l->v[have].len = n;
	l->end = pos + n;
	l->n = have + 1;
	return true;
}

/* Where octets of the ring that are not read yet are, at most *n. */
static const uint8_t *ring_at(const struct iw_end *e, uint64_t to, size_t *n)
{
	const struct iw_rs_param *p = &e->f->rs.p;
	uint64_t cons = e->f->rs.rx_cons, at = cons + ((to - p->rx_to - cons) & (p->rx_len - 1)), pos = e->m->late.pos;
	uint32_t have = lates(e), len;

	if (have && at < pos && *n > pos - at)
		*n = pos - at;
	for (uint32_t i = 0; i < have && at >= pos; i++, pos += len) {
		const uint8_t *src = late_at(e, i, &len);

		if (at - pos >= len)
			continue;
		if (*n > len - (at - pos))
			*n = len - (at - pos);
		return src + (at - pos);
	}
	return mem(e, p->rx_stag, to, *n);
}

static void *rs_mem(void *ctx, uint32_t stag, uint64_t to, size_t len)
{
	struct iw_end *e = ctx;

	if (stag == e->f->rs.p.rx_stag)
		place_late(e);
	return mem(e, stag, to, len);
}

/* Few of them: many small ones are read faster in one piece. */
static void rs_place(void *ctx, uint64_t to, const uint8_t *src, uint32_t n)
{
	struct iw_end *e = ctx;
	void *ptr;

	if (e->msg && lates(e) < LATE_SMALL && deferred(e, to, src, n))
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
	lost(e, e->f->rs.err);
}

/* Nothing of a mapped end is offered to the peer's Reads, unless somebody writes into the map. */
static int rs_expose(void *ctx, uint64_t off, uint32_t len, uint32_t *stag, uint64_t *to)
{
	return -ENOSPC;
}

static void rs_unexpose(void *ctx, uint32_t stag)
{
}

static const struct iw_rs_ops rs_ops = {
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
	*ptr = mem(ctx, stag, to, len);
	return *ptr ? IW_ACC_OK : IW_ACC_BOUNDS;
}

static enum iw_access_err qp_place(void *ctx, uint32_t stag, uint64_t to, const uint8_t *src, uint32_t n)
{
	struct iw_end *e = ctx;
	void *ptr;
	enum iw_access_err err = qp_access(e, stag, to, n, IW_ACCESS_REMOTE_WRITE, &ptr);

	if (err == IW_ACC_OK && !deferred(e, to, src, n)) {
		iw_end_unwant(e);	/* it may lie over what was taken for the next */
		place_late(e);
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

/* Until it is completed, which comes next. Of an agent's receive buffers each lies apart: see mem(). */
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

	iw_rs_complete(&e->f->rs, &rs_ops, e, cqe);
	if (cqe->op == IW_WR_RECV)
		e->msg = NULL;
}

static void qp_event(void *ctx, enum iw_qp_event ev)
{
	struct iw_end *e = ctx;

	switch (ev) {
	case IW_QP_EV_TERM_RECEIVED:
		iw_soft_cut(e->s);
		lost(e, EPROTO);
		break;
	case IW_QP_EV_TERM_SENT:
		lost(e, EPROTO);
		break;
	case IW_QP_EV_LOST:
		lost(e, e->s->qp.err);
		break;
	default:
		break;
	}
}

static const struct iw_qp_ops qp_ops = {
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

/* ---- sending ---- */

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
	n = iw_qp_tx(&s->qp, &qp_ops, e, iw_soft_tx_at(s, b) + b->len, iw_soft_tx_room(b) - b->len, 0);
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
	change(e);
	if (iw_rs_rx_fin(rs))
		iw_rs_rx_fin_consumed(rs);
	iw_rs_pump(rs, &rs_ops, e);
	frame(e);
	changed(e);
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
	change(e);
	iw_rs_tx_produced(rs, (uint32_t)len);
	iw_rs_push(rs);
	iw_rs_pump(rs, &rs_ops, e);
	len = (size_t)(iw_rs_tx_recall(rs) - e->src_pos);
	frame(e);
	e->nv = 0;
	e->data_end = len ? e->s->qp.tx_pos : e->data_end;
	changed(e);
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
	change(e);
	e->f->tx_eof = 1;
	iw_rs_tx_fin(&e->f->rs);
	changed(e);
}

void iw_end_abort(struct iw_end *e, int err)
{
	change(e);
	e->f->aborted = 1;
	iw_rs_abort(&e->f->rs, err);
	changed(e);
}

void iw_end_out_done(struct iw_end *e, size_t n)
{
	struct iw_soft_tx *b = e->s->tx;

	change(e);
	b[0].off += (uint32_t)n;
	iw_qp_tx_done(&e->s->qp, &qp_ops, e, n);
	if (b[0].off == b[0].len) {
		b[0] = b[1];
		b[1].used = 0;
	}
	changed(e);
}

/* ---- receiving ---- */

uint8_t *iw_end_in(struct iw_end *e, size_t *room)
{
	struct iw_soft *s = e->s;
	bool late;

	iw_end_settle(e);
	late = lates(e) && e->f->rs.rx_cons < e->m->late.end;
	/* the rest of a partial FPDU may not fit any more behind what there is; and what little there is goes where the processor's cache has been */
	if (IW_SOFT_RX - s->rx_len < IW_FPDU_MAX_MARKERS || (!late && s->rx_len - s->rx_off <= FRONT)) {
		change(e);
		place_late(e);
		iw_soft_rx_front(s);
		changed(e);
	}
	*room = IW_SOFT_RX - s->rx_len;
	return s->rx + s->rx_len;
}

void iw_end_in_done(struct iw_end *e, size_t n)
{
	struct iw_soft *s = e->s;

	e->later = false;
	change(e);
	s->rx_len += (uint32_t)n;
	s->rx_off += (uint32_t)iw_qp_rx(&s->qp, &qp_ops, e, s->rx + s->rx_off, s->rx_len - s->rx_off);
	changed(e);
}

void iw_end_settle(struct iw_end *e)
{
	if (e->later)
		iw_end_in_done(e, 0);
}

/* The word that announces octets of Writes, and no end behind them. */
static bool announces(const uint8_t *u, uint16_t ulpdu)
{
	uint8_t op = u[1] & IW_RDMAP_OP;
	struct iw_cw cw;

	return ulpdu == IW_DDP_UNTAGGED + IW_CW_LEN && !(u[0] & IW_DDP_T) && (op == IW_OP_IMM || op == IW_OP_IMM_SE || op == IW_OP_SEND || op == IW_OP_SEND_SE) &&
	       !iw_cw_decode(&cw, u + IW_DDP_UNTAGGED) && cw.type == IW_CW_DATA && !(cw.flags & (IW_CW_FIN | IW_CW_URG));
}

/* Octets of the ring that are announced next can be read then: no offer is before them, and none was refused. */
static bool ring_next(const struct iw_rs *rs)
{
	return rs->ext_head == rs->ext_tail && !rs->rx_dropping;
}

/* Writes, some of them large, and their words: nothing else in len octets, but a part behind them. */
static bool only_large(const uint8_t *p, size_t len)
{
	bool large = false, word = false;

	for (size_t wire; len > IW_MPA_LEN + IW_DDP_TAGGED; p += wire, len -= wire) {
		const uint8_t *u = p + IW_MPA_LEN;
		uint16_t ulpdu = iw_get16(p);

		wire = iw_mpa_fpdu_len(ulpdu);
		if (len < wire)
			break;
		if (announces(u, ulpdu))
			word = true;
		else if (ulpdu > IW_DDP_TAGGED && u[0] & IW_DDP_T && (u[1] & IW_RDMAP_OP) == IW_OP_WRITE)
			large |= ulpdu >= IW_DDP_TAGGED + IW_QP_SINK;
		else
			return false;
	}
	return large && word;
}

bool iw_end_in_later(struct iw_end *e, size_t n)
{
	struct iw_soft *s = e->s;

	if (s->qp.state != IW_QP_RTS || s->qp.param.rx_markers || !s->qp.param.crc || !ring_next(&e->f->rs) || !only_large(s->rx + s->rx_off, s->rx_len + n - s->rx_off)) {
		iw_end_in_done(e, n);
		return false;
	}
	change(e);
	s->rx_len += (uint32_t)n;
	changed(e);
	e->later = true;
	return true;
}

void iw_end_want(struct iw_end *e, const struct iovec *v, size_t skip, size_t len)
{
	uint64_t next = lates(e) && e->m->late.end > e->f->rs.rx_prod ? e->m->late.end : e->f->rs.rx_prod;

	e->want.v = v;
	e->want.skip = skip;
	e->want.len = len;
	e->want.pos = e->f->rs.rx_cons;
	e->want.sunk = e->want.end = next;
	e->want.open = ring_next(&e->f->rs);
}

/* Only after the ring stream is done is a FIN of T a good end. */
void iw_end_in_eof(struct iw_end *e)
{
	iw_end_settle(e);
	change(e);
	e->s->peer_eof = 1;
	iw_qp_rx_eof(&e->s->qp, &qp_ops, e, e->s->rx_len - e->s->rx_off);
	changed(e);
	if (e->s->qp.state == IW_QP_RTS && !e->f->rs.done && !e->f->aborted)
		iw_end_lost(e, ECONNRESET);
}

void iw_end_lost(struct iw_end *e, int err)
{
	iw_end_settle(e);
	change(e);
	iw_qp_lost(&e->s->qp, &qp_ops, e, err);
	lost(e, err);
	e->s->tx[0].used = e->s->tx[1].used = 0;
	changed(e);
}

size_t iw_end_count(const struct iw_end *e)
{
	return (size_t)iw_rs_rx_unread(&e->f->rs);
}

/* The next *n octets of the ring lie where they are wanted; or *n is how many do not. */
static bool sunk(const struct iw_end *e, const struct iovec *v, size_t skip, size_t *n)
{
	uint64_t pos = e->f->rs.rx_cons;

	if (!e->want.v || e->want.v != v || pos >= e->want.end || skip - e->want.skip != pos - e->want.pos)
		return false;
	if (pos < e->want.sunk) {
		*n = *n < e->want.sunk - pos ? *n : (size_t)(e->want.sunk - pos);
		return false;
	}
	*n = *n < e->want.end - pos ? *n : (size_t)(e->want.end - pos);
	return true;
}

/* Copies n octets to v at *skip, which moves on. */
static void scatter(const struct iovec *v, size_t *skip, const uint8_t *src, size_t n)
{
	size_t off = *skip, k;

	for (*skip += n; n; n -= k, src += k, off = 0, v++) {
		for (; off >= v->iov_len; v++)
			off -= v->iov_len;
		k = v->iov_len - off < n ? v->iov_len - off : n;
		memcpy((uint8_t *)v->iov_base + off, src, k);
	}
}

size_t iw_end_get(struct iw_end *e, const struct iovec *v, size_t n, size_t skip, size_t len, bool peek, size_t peek_off)
{
	struct iw_rs *rs = &e->f->rs;
	size_t done = 0, k;
	uint32_t stag;
	uint64_t to;

	while (done < len && (k = iw_rs_rx_at(rs, peek ? peek_off + done : 0, &stag, &to))) {
		const uint8_t *src;

		if (k > len - done)
			k = len - done;
		if (!peek && stag == rs->p.rx_stag && sunk(e, v, skip, &k)) {
			skip += k;
		} else {
			src = stag == rs->p.rx_stag ? ring_at(e, to, &k) : mem(e, stag, to, k);
			if (!src)	/* somebody writes into the map meanwhile */
				break;
			scatter(v, &skip, src, k);
		}
		if (!peek) {
			change(e);
			iw_rs_rx_consumed(rs, (uint32_t)k);
			changed(e);
		}
		done += k;
	}
	return done;
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
	change(e);
	iw_qp_set_mulpdu(qp, iw_mpa_mulpdu(mss, qp->param.tx_markers));
	changed(e);
}

uint64_t iw_end_unacked(const struct iw_end *e, uint64_t queued)
{
	uint64_t control = e->s->qp.tx_pos - e->data_end;

	queued -= queued < control ? queued : control;
	return iw_rs_tx_left(&e->f->rs, queued) + iw_end_gathered(e);
}
