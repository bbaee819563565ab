// SPDX-License-Identifier: MIT
/* The ring stream, order of reception: a FIFO of extents, each a piece of the ring or an offer to be read. */
#include "rs_priv.h"

#include <string.h>

static struct iw_rs_ext *at(struct iw_rs *rs, uint32_t i)
{
	return &rs->ext[i % IW_RS_EXT];
}

uint32_t rs_ext_count(const struct iw_rs *rs)
{
	return rs->ext_tail - rs->ext_head;
}

static struct iw_rs_ext *push(struct iw_rs *rs, enum iw_rs_ext_kind kind)
{
	struct iw_rs_ext *e;

	if (rs_ext_count(rs) == IW_RS_EXT)
		return NULL;
	e = at(rs, rs->ext_tail++);
	memset(e, 0, sizeof(*e));
	e->kind = kind;
	return e;
}

/* The ring was filled up to `end`. False: no extent is left (the bound of rs_rx_pump() makes that impossible). */
bool rs_ext_ring(struct iw_rs *rs, uint64_t end)
{
	enum iw_rs_ext_kind kind = rs->rx_dropping ? IW_RS_EXT_DROP : IW_RS_EXT_RING;
	struct iw_rs_ext *e = rs_ext_count(rs) ? at(rs, rs->ext_tail - 1) : NULL;

	if (end == rs->rx_prod)
		return true;
	if (!e || e->kind != kind)
		e = push(rs, kind);
	if (!e)
		return false;
	e->end = end;
	if (kind == IW_RS_EXT_RING)
		rs->rx_stream += end - rs->rx_prod;
	rs->rx_prod = end;
	rs_ext_skip(rs);
	return true;
}

bool rs_ext_srcavail(struct iw_rs *rs, uint64_t id, const struct iw_cw_srcavail *sa)
{
	struct iw_rs_ext *e = push(rs, IW_RS_EXT_SA);

	if (!e)
		return false;
	e->id = id;
	e->rstag = sa->stag;
	e->rto = sa->to;
	e->len = (uint32_t)sa->len;
	e->cancel = rs->rd_max ? 0 : 2;
	rs->rx_stream += sa->len;
	rs->rx_nsa++;
	return true;
}

/* The oldest offer without RDDONE, or NULL. */
struct iw_rs_ext *rs_ext_oldest_open(struct iw_rs *rs)
{
	for (uint32_t i = rs->ext_head; i != rs->ext_tail; i++)
		if (at(rs, i)->kind == IW_RS_EXT_SA && !at(rs, i)->released)
			return at(rs, i);
	return NULL;
}

/* The offer that the next Read goes to, or NULL. */
struct iw_rs_ext *rs_ext_to_read(struct iw_rs *rs)
{
	for (uint32_t i = rs->ext_head; i != rs->ext_tail; i++) {
		struct iw_rs_ext *e = at(rs, i);

		if (e->kind != IW_RS_EXT_SA || e->released)
			continue;
		if (e->cancel)
			return NULL;
		if (e->issued < e->len)
			return e;
	}
	return NULL;
}

/* The oldest Read completed: n more octets of the oldest offer that waits for some. */
void rs_ext_read_done(struct iw_rs *rs, uint32_t n)
{
	for (uint32_t i = rs->ext_head; i != rs->ext_tail; i++) {
		struct iw_rs_ext *e = at(rs, i);

		if (e->kind == IW_RS_EXT_SA && e->done < e->issued) {
			e->done += n;
			return;
		}
	}
}

static uint64_t left(const struct iw_rs *rs, const struct iw_rs_ext *e, uint64_t *ring)
{
	uint64_t n = 0;

	if (e->kind == IW_RS_EXT_SA)
		return e->len - e->consumed;
	if (e->kind == IW_RS_EXT_RING)
		n = e->end - *ring;
	*ring = e->end;
	return n;
}

/* An offer ends with what was read of it: everything after it is void, the ring octets of that are skipped. */
void rs_ext_truncate(struct iw_rs *rs, struct iw_rs_ext *e)
{
	uint64_t ring = rs->rx_cons;
	uint32_t i = rs->ext_head;

	e->len = e->done;
	rs->rx_stream = rs->rx_pos;
	for (;; i++) {
		rs->rx_stream += left(rs, at(rs, i), &ring);
		if (at(rs, i) == e)
			break;
	}
	for (uint32_t j = i + 1; j != rs->ext_tail; j++)
		rs->rx_nsa -= at(rs, j)->kind == IW_RS_EXT_SA && !at(rs, j)->released;
	rs->ext_tail = i + 1;
	if (ring != rs->rx_prod)
		push(rs, IW_RS_EXT_DROP)->end = rs->rx_prod;
	rs->rx_fin = 0;
	if (rs->rx_urg_valid && rs->rx_urg >= rs->rx_stream)
		rs->rx_urg_valid = 0;
}

/* Take extents that are used up, or to be dropped, from the head. */
void rs_ext_skip(struct iw_rs *rs)
{
	while (rs_ext_count(rs)) {
		const struct iw_rs_ext *e = at(rs, rs->ext_head);

		if (e->kind == IW_RS_EXT_DROP)
			rs->rx_cons = e->end;
		else if (e->kind == IW_RS_EXT_RING ? rs->rx_cons != e->end : !e->released || e->consumed != e->len)
			return;
		rs->ext_head++;
	}
	rs->ext_head = rs->ext_tail = 0;	/* the same place again, which is in the cache */
}

/* ---- what the owner sees ---- */

static uint32_t contiguous(uint64_t pos, uint64_t n, uint32_t len)
{
	return (uint32_t)rs_min(n, len - (pos & (len - 1)));
}

uint32_t iw_rs_rx_at(const struct iw_rs *rs, uint64_t skip, uint32_t *stag, uint64_t *to)
{
	uint64_t ring = rs->rx_cons, rd = rs->rd_cons;

	for (uint32_t i = rs->ext_head; i != rs->ext_tail && i - rs->ext_head < IW_RS_EXT; i++) {
		const struct iw_rs_ext *e = &rs->ext[i % IW_RS_EXT];
		uint64_t have = e->kind == IW_RS_EXT_RING ? e->end - ring : e->kind == IW_RS_EXT_SA ? e->done - e->consumed : 0;

		if (skip < have && e->kind == IW_RS_EXT_RING) {
			*stag = rs->p.rx_stag;
			*to = rs->p.rx_to + ((ring + skip) & (rs->p.rx_len - 1));
			return contiguous(ring + skip, have - skip, rs->p.rx_len);
		}
		if (skip < have) {
			*stag = rs->p.rd_stag;
			*to = rs->p.rd_to + ((rd + skip) & (rs->p.rd_len - 1));
			return contiguous(rd + skip, have - skip, rs->p.rd_len);
		}
		skip -= have;
		if (e->kind != IW_RS_EXT_SA)
			ring = e->end;
		else if (!have || e->done != e->len)
			return 0;		/* what follows is not next, or not before the RDDONE */
		else
			rd += have;
	}
	return 0;
}

uint32_t iw_rs_rx_peek(const struct iw_rs *rs, uint32_t *stag, uint64_t *to)
{
	return iw_rs_rx_at(rs, 0, stag, to);
}

uint64_t iw_rs_rx_unread(const struct iw_rs *rs)
{
	uint64_t ring = rs->rx_cons, sum = 0;

	for (uint32_t i = rs->ext_head; i != rs->ext_tail && i - rs->ext_head < IW_RS_EXT; i++) {
		const struct iw_rs_ext *e = &rs->ext[i % IW_RS_EXT];

		if (e->kind == IW_RS_EXT_SA) {
			sum += e->done - e->consumed;
			if (e->done == e->consumed || e->done != e->len)
				break;	/* see iw_rs_rx_at() */
			continue;
		}
		if (e->kind == IW_RS_EXT_RING)
			sum += e->end - ring;
		ring = e->end;
	}
	return sum;
}

void iw_rs_rx_consumed(struct iw_rs *rs, uint32_t n)
{
	uint32_t stag, k;
	uint64_t to;

	while ((k = (uint32_t)rs_min(n, iw_rs_rx_peek(rs, &stag, &to)))) {
		struct iw_rs_ext *e = at(rs, rs->ext_head);

		rs->rx_pos += k;
		if (e->kind == IW_RS_EXT_RING) {
			rs->rx_cons += k;
		} else {
			rs->rd_cons += k;
			e->consumed += k;
		}
		rs_ext_skip(rs);
		n -= k;
	}
}

bool iw_rs_rx_fin(const struct iw_rs *rs)
{
	return rs->rx_fin && !rs_ext_count(rs);
}
