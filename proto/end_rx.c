// SPDX-License-Identifier: MIT
/* One end of a stream on its map: what arrives on T, and where the application reads it. */
#include "end_priv.h"

#include <errno.h>
#include <string.h>

#include "mpa.h"
#include "wire.h"

#define FRONT	4096u	/* of an FPDU that was begun, to be moved */

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

void end_place_late(struct iw_end *e)
{
	const struct iw_rs *rs = &e->f->rs;
	uint64_t pos = e->m->late.pos;
	uint32_t len;

	for (uint32_t i = 0, n = end_lates(e); i < n; i++, pos += len) {
		const uint8_t *src = late_at(e, i, &len);
		uint32_t read = pos >= rs->rx_cons ? 0 : rs->rx_cons - pos < len ? (uint32_t)(rs->rx_cons - pos) : len;
		void *to = end_mem(e, rs->p.rx_stag, rs->p.rx_to + ((pos + read) & (rs->p.rx_len - 1)), len - read);

		if (to && read < len)
			memcpy(to, src + read, len - read);
	}
	e->m->late.n = 0;
}

/* What follows in the stream, and lies there. Anything else is placed as it came, in order. */
bool end_deferred(struct iw_end *e, uint64_t to, const uint8_t *src, uint32_t n)
{
	const struct iw_rs *rs = &e->f->rs;
	struct iw_map_late *l = &e->m->late;
	uint32_t have = end_lates(e);
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
	uint32_t have = end_lates(e), len;

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
	return end_mem(e, p->rx_stag, to, *n);
}

/* ---- receiving ---- */

uint8_t *iw_end_in(struct iw_end *e, size_t *room)
{
	struct iw_soft *s = e->s;
	bool late;

	iw_end_settle(e);
	late = end_lates(e) && e->f->rs.rx_cons < e->m->late.end;
	/* the rest of a partial FPDU may not fit any more behind what there is; and what little there is goes where the processor's cache has been */
	if (IW_SOFT_RX - s->rx_len < IW_FPDU_MAX_MARKERS || (!late && s->rx_len - s->rx_off <= FRONT)) {
		end_change(e);
		end_place_late(e);
		iw_soft_rx_front(s);
		end_changed(e);
	}
	*room = IW_SOFT_RX - s->rx_len;
	return s->rx + s->rx_len;
}

void iw_end_in_done(struct iw_end *e, size_t n)
{
	struct iw_soft *s = e->s;

	e->later = false;
	end_change(e);
	s->rx_len += (uint32_t)n;
	s->rx_off += (uint32_t)iw_qp_rx(&s->qp, &end_qp_ops, e, s->rx + s->rx_off, s->rx_len - s->rx_off);
	end_changed(e);
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
	end_change(e);
	s->rx_len += (uint32_t)n;
	end_changed(e);
	e->later = true;
	return true;
}

void iw_end_want(struct iw_end *e, const struct iovec *v, size_t skip, size_t len)
{
	uint64_t next = end_lates(e) && e->m->late.end > e->f->rs.rx_prod ? e->m->late.end : e->f->rs.rx_prod;

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
	end_change(e);
	e->s->peer_eof = 1;
	iw_qp_rx_eof(&e->s->qp, &end_qp_ops, e, e->s->rx_len - e->s->rx_off);
	end_changed(e);
	if (e->s->qp.state == IW_QP_RTS && !e->f->rs.done && !e->f->aborted)
		iw_end_lost(e, ECONNRESET);
}

void iw_end_lost(struct iw_end *e, int err)
{
	iw_end_settle(e);
	end_change(e);
	iw_qp_lost(&e->s->qp, &end_qp_ops, e, err);
	end_lost(e, err);
	e->s->tx[0].used = e->s->tx[1].used = 0;
	end_changed(e);
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
			src = stag == rs->p.rx_stag ? ring_at(e, to, &k) : end_mem(e, stag, to, k);
			if (!src)	/* somebody writes into the map meanwhile */
				break;
			scatter(v, &skip, src, k);
		}
		if (!peek) {
			end_change(e);
			iw_rs_rx_consumed(rs, (uint32_t)k);
			end_changed(e);
		}
		done += k;
	}
	return done;
}
