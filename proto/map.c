// SPDX-License-Identifier: MIT
/* The map of a stream: where things are in it, and handing over in both directions. map_check.c says what is sound. */
#include "map.h"

#include <errno.h>
#include <string.h>

#include "end.h"
#include "map_priv.h"
#include "rs_priv.h"
#include "wire.h"

static uint64_t pages(uint64_t n)
{
	return (n + IW_MAP_PAGE - 1) & ~(uint64_t)(IW_MAP_PAGE - 1);
}

static uint64_t state_size(const struct iw_rs_param *p)
{
	return pages(IW_MAP_REMOTE + sizeof(struct iw_remote) + (p->buf_size > IW_MAP_RQ ? p->buf_size : 0));
}

void iw_map_at(struct iw_map *m, const struct iw_rs_param *p, struct iw_map_priv *at)
{
	uint8_t *f = (uint8_t *)m + IW_MAP_REMOTE;

	at->f = (struct iw_remote *)f;
	at->rq = p->buf_size > IW_MAP_RQ ? f + sizeof(*at->f) : f - IW_MAP_RQ;
	at->s = (struct iw_soft *)((uint8_t *)m + state_size(p));
	at->rd = (uint8_t *)at->s + pages(sizeof(*at->s));
	at->rx_ring = at->rd + pages(p->rd_len);
	at->tx = at->rx_ring + pages(p->rx_len);
}

uint64_t iw_map_size(const struct iw_rs_param *p)
{
	return state_size(p) + pages(sizeof(struct iw_soft)) + pages(p->rd_len) + pages(p->rx_len) + IW_MAP_GATHER;
}

bool iw_map_ready(const struct iw_map_priv *from)
{
	const struct iw_rs *rs = &from->f->rs;
	const struct iw_soft *s = from->s;
	const struct iw_qp *qp = &s->qp;

	return from->f->running && rs->started && !rs->dead && !rs->tx_fin && !rs->rx_fin && rs->tx_pos == rs->tx_sent && !rs->tx_nsa &&
	       !rs->tx_cancel && qp->state == IW_QP_RTS && (qp->param.initiator || qp->first_seen) && !qp->rtr_due && !qp->sq_shut &&
	       iw_qp_sq_framed(qp) && qp->ird_head == qp->ird_tail && (qp->ord_head == qp->ord_tail || !qp->ordq[qp->ord_tail % IW_QP_ORD].rtr) &&
	       !qp->atomics && !s->closing && !s->shut && !s->peer_eof && !s->cut && !from->f->reset_err && !from->f->aborted &&
	       !from->f->tx_eof;
}

/* ---- what is in use ---- */

/* [pos, end) of a ring of len octets, at most all of it. */
static void copy_ring(uint8_t *to, const uint8_t *from, uint32_t len, uint64_t pos, uint64_t end)
{
	while (pos < end) {
		uint32_t off = (uint32_t)(pos & (len - 1));
		size_t n = end - pos < len - off ? (size_t)(end - pos) : len - off;

		memcpy(to + off, from + off, n);
		pos += n;
	}
}

/* n octets to position pos of a ring of len. */
static void put_ring(uint8_t *to, uint32_t len, uint64_t pos, const uint8_t *from, uint32_t n)
{
	uint32_t off = (uint32_t)(pos & (len - 1)), first = n < len - off ? n : len - off;

	memcpy(to + off, from, first);
	memcpy(to, from + first, n - first);
}

/* The entries of the queues that are in use; for those of the receive queue see post(). */
static void copy_queues(struct iw_qp *to, const struct iw_qp *from)
{
	for (uint32_t i = to->ord_tail, n = to->ord_head - to->ord_tail; n && n <= IW_QP_ORD; n--, i++)
		to->ordq[i % IW_QP_ORD] = from->ordq[i % IW_QP_ORD];
	for (uint32_t i = to->sq_tail, n = to->sq_head - to->sq_tail; n && n <= IW_QP_SQ; n--, i++)
		to->sq[iw_sq_at(i)] = from->sq[iw_sq_at(i)];
}

/*
 * Octets, by the lengths and positions in `to`, which are sound. Of the receive ring also what RDMA Writes have placed and no word has announced
 * yet: what was written at all, less what was announced as written.
 */
static void copy_octets(const struct iw_map_priv *to, const struct iw_map_priv *from, uint64_t to_buf, uint64_t from_buf)
{
	const struct iw_rs *rs = &to->f->rs;
	const struct iw_rs_param *p = &rs->p;
	const struct iw_soft *s = to->s;
	const struct iw_qp *qp = &s->qp;
	uint64_t ahead = qp->stat.rx_write_octets - rs->stat.rx_data_octets, free = p->rx_len - (rs->rx_prod - rs->rx_cons);

	memcpy(to->s->rx + s->rx_off, from->s->rx + s->rx_off, s->rx_len - s->rx_off);
	for (unsigned int i = 0; i < 2; i++)
		if (s->tx[i].used)
			memcpy(iw_soft_tx_at(to->s, &s->tx[i]), iw_soft_tx_at(from->s, &s->tx[i]), s->tx[i].len);
	if (qp->rx_mo[IW_QN_SEND])
		memcpy(to->rq + to_buf, from->rq + from_buf, qp->rx_mo[IW_QN_SEND]);
	if (p->rd_len)
		copy_ring(to->rd, from->rd, p->rd_len, rs->rd_cons, rs->rd_issued);
	copy_ring(to->rx_ring, from->rx_ring, p->rx_len, rs->rx_cons, rs->rx_prod + (ahead < free ? ahead : free));
}

static void copy_soft(struct iw_soft *to, const struct iw_soft *from)
{
	memcpy(&to->qp.version, &from->qp.version, offsetof(struct iw_soft, few) - offsetof(struct iw_soft, qp.version));
	copy_queues(&to->qp, &from->qp);
}

static void copy_rs(struct iw_rs *to, const struct iw_rs *from)
{
	memcpy(to, from, offsetof(struct iw_rs, ext));
	for (uint32_t i = to->ext_head, n = to->ext_tail - to->ext_head; n && n <= IW_RS_EXT; n--, i++)
		to->ext[i % IW_RS_EXT] = from->ext[i % IW_RS_EXT];
}

/* ---- receive buffers ---- */

static struct iw_rqe buffer(const struct iw_rs_param *p, uint32_t i)
{
	return (struct iw_rqe){
		.wr_id = RS_WR_ID(RS_TAG_RECV, i), .sge = { .to = p->rq_to + iw_rs_buf(p, i), .stag = p->rq_stag, .len = p->buf_size },
	};
}

/*
 * So many as are posted, each another. With no step, in a map, all are one: an end deals with each message before it looks at the octets behind
 * it, so that at most one is begun. What that costs does not grow with the credits that the peer was given.
 */
static void post(const struct iw_map_priv *at, uint16_t step)
{
	struct iw_rs_param *p = &at->f->rs.p;
	struct iw_qp *qp = &at->s->qp;
	uint32_t n = qp->rq_head - qp->rq_tail;

	p->rq_step = at->f->p.rq_step = step;
	qp->rq_alike = !step;
	qp->rq_one = buffer(p, 0);
	for (uint32_t i = 0; step && n <= IW_QP_RQ && i < n; i++)
		qp->rq[(qp->rq_tail + i) % IW_QP_RQ] = buffer(p, i);
}

/* Where the message lies that is begun, if one is. */
static uint64_t begun(const struct iw_map_priv *at)
{
	const struct iw_qp *qp = &at->s->qp;

	return iw_rs_buf(&at->f->p, qp->rq[qp->rq_tail % IW_QP_RQ].wr_id & UINT32_MAX);
}

/* ---- handing over ---- */

void iw_map_export(struct iw_map *m, const struct iw_map_priv *from)
{
	struct iw_map_priv at;

	iw_map_at(m, &from->f->p, &at);
	m->magic = IW_MAP_MAGIC;
	m->version = IW_MAP_VERSION;
	m->size = iw_map_size(&from->f->p);
	m->stream_id = from->f->stream_id;
	m->late.n = 0;
	memcpy(at.f, from->f, offsetof(struct iw_remote, rs));
	copy_rs(&at.f->rs, &from->f->rs);
	copy_soft(at.s, from->s);
	copy_octets(&at, from, 0, begun(from));
	post(&at, 0);
}

/* What the owner of a map has to say of it, besides queue pair and ring stream. */
static void copy_remote(struct iw_remote *to, const struct iw_remote *from)
{
	to->ev_abort = !!from->ev_abort;
	to->ev_done = !!from->ev_done;
	to->tx_eof = !!from->tx_eof;
	to->aborted = !!from->aborted;
	to->reset_err = from->reset_err;
	copy_rs(&to->rs, &from->rs);
}

/* The library had room for it in the transmit ring, too. */
static int import_gathered(const struct iw_map_priv *to, const struct iw_map_priv *from, uint64_t end)
{
	struct iw_rs *rs = &to->f->rs;
	uint32_t len = rs->p.tx_len;
	uint64_t pos = rs->tx_pos;

	if (end <= pos || rs->dead)
		return 0;
	if (end - pos > IW_MAP_GATHER || end - pos > len - (pos - rs->tx_freed) || rs->tx_fin)
		return -EPROTO;
	for (size_t n; pos < end; pos += n) {
		uint32_t off = (uint32_t)(pos & (len - 1)), at = (uint32_t)(pos & (IW_MAP_GATHER - 1));

		n = end - pos < len - off ? (size_t)(end - pos) : len - off;
		n = n < IW_MAP_GATHER - at ? n : IW_MAP_GATHER - at;
		memcpy(to->tx + off, from->tx + at, n);
	}
	iw_rs_tx_produced(rs, (uint32_t)(end - rs->tx_pos));
	iw_rs_push(rs);
	return 0;
}

/* Payload that the library has left where it came. */
static int import_late(const struct iw_map *m, const struct iw_map_priv *to, const struct iw_map_priv *from)
{
	const struct iw_rs *rs = &to->f->rs;
	struct iw_map_late l;
	uint64_t pos;

	memcpy(&l, &m->late, sizeof(l));
	if (l.n > IW_MAP_LATE)
		return -EPROTO;
	pos = l.pos;
	for (uint32_t i = 0; i < l.n; pos += l.v[i++].len) {
		uint32_t off = l.v[i].off, len = l.v[i].len;
		uint64_t read = pos >= rs->rx_cons ? 0 : rs->rx_cons - pos < len ? rs->rx_cons - pos : len;

		if (read == len)
			continue;
		if (off > IW_SOFT_RX || len > IW_SOFT_RX - off || len - read > rs->p.rx_len || pos + len - rs->rx_cons > rs->p.rx_len)
			return -EPROTO;
		put_ring(to->rx_ring, rs->p.rx_len, pos + read, from->s->rx + off + read, len - (uint32_t)read);
	}
	return 0;
}

/* An end on what was imported; somebody may still write into the other map. */
static struct iw_end own_end(const struct iw_map_priv *to, struct iw_map *own)
{
	return (struct iw_end){ .m = own, .f = to->f, .s = to->s, .rq = to->rq, .rd = to->rd, .rx_ring = to->rx_ring, .tx = to->tx };
}

/* FPDUs that the library has left as they came: see iw_end_in_later(). */
static void parse(const struct iw_map_priv *to)
{
	struct iw_map own = { 0 };
	struct iw_end e = own_end(to, &own);

	if (to->s->rx_len != to->s->rx_off)
		iw_end_in_done(&e, 0);
}

int iw_map_import(const struct iw_map *m, const struct iw_map_priv *to)
{
	uint64_t end = IW_MAP_END(atomic_load(&m->owner));
	struct iw_map_const was;
	struct iw_map_priv at;

	iw_map_at((struct iw_map *)m, &to->f->p, &at);
	iw_map_keep(&was, to);
	copy_remote(to->f, at.f);
	copy_soft(to->s, at.s);
	post(to, to->f->p.rq_step);
	if (iw_map_check(&was, to))
		return -EPROTO;
	copy_octets(to, &at, begun(to), 0);
	if (import_late(m, to, &at) || import_gathered(to, &at, end))
		return -EPROTO;
	parse(to);
	return 0;
}

/* ---- after a death ---- */

uint64_t iw_map_sent(const struct iw_map_priv *of)
{
	return of->s->qp.tx_acked;
}

uint64_t iw_map_read(const struct iw_map_priv *of)
{
	return of->s->qp.rx_pos + (of->s->rx_len - of->s->rx_off);
}

/* What it received lies behind what it had: nobody will read it, but credits and ACKs are in it. */
int iw_map_recover(struct iw_map *m, const struct iw_map_priv *to, uint64_t sent, uint64_t read)
{
	struct iw_map own = { 0 };
	struct iw_end e = own_end(to, &own);
	struct iw_soft *s = to->s;
	struct iw_map_priv at;
	size_t out;

	if (atomic_load(&m->changing) || iw_map_import(m, to) || s->qp.state != IW_QP_RTS)
		return -EPROTO;
	sent -= m->tcp_sent + iw_map_sent(to);
	read -= m->tcp_read + iw_map_read(to);
	iw_end_out(&e, &out);
	if (sent > out || read > IW_SOFT_RX - s->rx_len)
		return -EPROTO;
	iw_map_at(m, &to->f->p, &at);
	memcpy(s->rx + s->rx_len, at.s->rx + s->rx_len, read);
	if (sent)
		iw_end_out_done(&e, sent);
	if (read)
		iw_end_in_done(&e, read);
	return 0;
}
