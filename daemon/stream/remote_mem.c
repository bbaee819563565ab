// SPDX-License-Identifier: MIT
/* The memory of a stream over RDMAP: its area, and what of it and of the segment is registered. */
#include "remote_mem.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "daemon/base/conf.h"
#include "daemon/rnic/area.h"
#include "daemon/rnic/provider.h"
#include "daemon/rnic/rnic.h"
#include "remote.h"
#include "stream_priv.h"

#define REMOTE_BUFS	256u		/* receive buffers of QN 0: the peer's credits */
#define REMOTE_RD_LEN	(1u << 20)	/* where RDMA Reads go */
#define REMOTE_READ_MAX	(256u << 10)

/* ---- how much ---- */

uint16_t remote_caps(unsigned int can)
{
	return (can & ENDPOINT_IMM ? IW_RS_CAP_IMM : 0) | (can & ENDPOINT_SENDINV ? IW_RS_CAP_SENDINV : 0) |
	       (can & ENDPOINT_EXPOSE && conf.srcavail_min ? IW_RS_CAP_SRCAVAIL : 0) | (can & ENDPOINT_LARGE && conf.large_fpdu ? IW_RS_CAP_LARGE : 0);
}

static void fill_param(struct iw_rs_param *p, uint32_t ring)
{
	*p = (struct iw_rs_param){
		.tx_len = ring, .rx_len = ring, .rd_len = REMOTE_RD_LEN, .bufs = REMOTE_BUFS,
		.buf_size = (uint16_t)((conf.inline_max + IW_CW_LEN + IW_CW_SRCAVAIL_LEN + 63) & ~63u),
		.inline_max = conf.inline_max, .srcavail_min = conf.srcavail_min, .read_max = REMOTE_READ_MAX,
		.caps = remote_caps(provider_caps()),
	};
	p->rq_step = p->buf_size;
}

/* ring_size may have changed since its segment was made. */
static uint32_t ring_len(const struct stream *st)
{
	return (uint32_t)((st->size - IW_PAGE_RINGS) / 2);
}

/* What is exposed for the peer's Reads is part of the transmit ring. */
void remote_needs(struct prm_bill *b)
{
	struct endpoint_needs n;
	struct iw_rs_param p;

	fill_param(&p, conf.ring_size);
	provider_needs(&n);
	*b = n.bill;
	b->n[PRM_MEMORY] += (uint64_t)p.tx_len + p.rx_len + p.rd_len + iw_rs_rq_len(&p);
	b->n[PRM_STAGS] += 4 + IW_RS_SA;
}

/* ---- the area ---- */

static size_t pages(size_t len)
{
	return (len + 4095) & ~(size_t)4095;
}

/* What is kept; the state; the receive buffers next, so that a quiet stream needs no page for the rest of it; the endpoint's; where Reads go. */
static size_t lay_out(struct iw_remote *f, const struct iw_rs_param *p)
{
	struct endpoint_needs n;

	provider_needs(&n);
	f->rq_off = (REMOTE_KEPT + sizeof(*f) + 63) & ~(size_t)63;
	f->ep_off = pages(f->rq_off + iw_rs_rq_len(p));
	f->ep_len = n.area;
	f->rd_off = f->ep_off + pages(f->ep_len);
	return f->rd_off + p->rd_len;
}

int remote_alloc(struct stream *st)
{
	struct iw_remote f = { .magic = IW_REMOTE_MAGIC, .version = IW_REMOTE_VERSION, .stream_id = st->id };
	struct stream_remote *r = calloc(1, sizeof(*r));
	int ret;

	if (!r)
		return -ENOMEM;
	fill_param(&f.p, ring_len(st));
	f.size = lay_out(&f, &f.p);
	ret = area_new(rnic_pd_user(st->pd), f.size, &r->area);
	if (ret) {
		free(r);
		return ret;
	}
	r->st = st;
	r->f = (struct iw_remote *)(r->area->mem + REMOTE_KEPT);
	*r->f = f;
	r->rq = r->area->mem + f.rq_off;
	r->rd = r->area->mem + f.rd_off;
	st->remote = r;
	return 0;
}

/* ---- registrations ---- */

uint8_t *remote_tx_ring(const struct stream *st)
{
	return (uint8_t *)st->page + IW_PAGE_RINGS;
}

static uint8_t *rx_ring(const struct stream *st)
{
	return remote_tx_ring(st) + st->remote->f->p.tx_len;
}

/* Our own ranges only, without the STag table: a registration that the peer invalidated must not take our memory from us. */
void *remote_mem(void *ctx, uint32_t stag, uint64_t to, size_t len)
{
	struct stream *st = ctx;
	struct stream_remote *r = st->remote;
	const struct iw_rs_param *p = &r->f->p;
	const struct { uint32_t stag; uint64_t to, len; uint8_t *mem; } area[] = {
		{ p->rx_stag, p->rx_to, p->rx_len, rx_ring(st) },
		{ p->rq_stag, p->rq_to, iw_rs_rq_len(p), r->rq },
		{ p->rd_stag, p->rd_to, p->rd_len, r->rd },
		{ p->tx_stag, p->tx_to, p->tx_len, remote_tx_ring(st) },
	};

	for (size_t i = 0; i < sizeof(area) / sizeof(area[0]); i++) {
		if (area[i].stag == stag && to >= area[i].to && len <= area[i].len && to - area[i].to <= area[i].len - len)
			return area[i].mem + (to - area[i].to);
	}
	return NULL;
}

/* A random base, so that positions tell nothing of addresses; far from 2^64. */
static int random_to(uint64_t *to)
{
	if (getrandom(to, sizeof(*to), 0) != (ssize_t)sizeof(*to))
		return -EIO;
	*to = (*to >> 1) & ~4095ull;
	return 0;
}

int remote_register(struct stream *st, void *addr, uint64_t len, unsigned int access, struct endpoint_mr *mr)
{
	int ret = mr->stag ? 0 : random_to(&mr->to);

	return ret ? ret : endpoint_register(st->remote->ep, addr, len, mr->to, RNIC_PREPAID | access, mr);
}

/* As it was, if it was. */
static int reg(struct stream *st, unsigned int i, void *addr, uint64_t len, unsigned int access, uint32_t *stag, uint64_t *to)
{
	struct endpoint_mr *mr = &st->remote->own[i];
	int ret;

	mr->stag = *stag;
	mr->to = *to;
	ret = remote_register(st, addr, len, access, mr);
	*stag = mr->stag;
	*to = mr->to;
	return ret;
}

int remote_register_all(struct stream *st)
{
	struct stream_remote *r = st->remote;
	struct iw_rs_param *p = &r->f->p;
	int ret;

	ret = reg(st, 0, remote_tx_ring(st), p->tx_len, IW_ACCESS_LOCAL_READ, &p->tx_stag, &p->tx_to);
	if (!ret)
		ret = reg(st, 1, rx_ring(st), p->rx_len, IW_ACCESS_REMOTE_WRITE, &p->rx_stag, &p->rx_to);
	if (!ret)
		ret = reg(st, 2, r->rd, p->rd_len, IW_ACCESS_READ_SINK, &p->rd_stag, &p->rd_to);
	if (!ret)
		ret = reg(st, 3, r->rq, iw_rs_rq_len(p), IW_ACCESS_LOCAL_WRITE, &p->rq_stag, &p->rq_to);
	return ret;
}

void remote_exposed(const struct stream *st, uint64_t to[IW_RS_SA])
{
	const struct stream_remote *r = st->remote;
	const struct iw_rs *rs = &r->f->rs;

	for (uint32_t i = 0; i < IW_RS_SA; i++) {
		to[i] = 0;
		for (uint32_t k = 0; k < IW_RS_SA && i < rs->tx_nsa; k++)
			if (r->exposed[k].handle && r->exposed[k].stag == rs->tx_sa[i].stag)
				to[i] = r->exposed[k].to;
	}
}

int remote_expose_again(struct stream *st, const uint64_t to[IW_RS_SA])
{
	struct stream_remote *r = st->remote;
	const struct iw_rs *rs = &r->f->rs;
	int ret = rs->tx_nsa > IW_RS_SA ? -EPROTO : 0;

	for (uint32_t i = 0; !ret && i < rs->tx_nsa; i++) {
		uint64_t off = rs->tx_sa[i].start & (r->f->p.tx_len - 1);

		if (off + rs->tx_sa[i].len > r->f->p.tx_len)
			return -EPROTO;
		r->exposed[i] = (struct endpoint_mr){ .stag = rs->tx_sa[i].stag, .to = to[i] };
		ret = remote_register(st, remote_tx_ring(st) + off, rs->tx_sa[i].len, IW_ACCESS_REMOTE_READ, &r->exposed[i]);
	}
	return ret;
}

/*
 * The endpoint is no longer ours, though it may linger. The registrations go first, by their handles: the endpoint takes these with
 * it, and an STag that is free may be somebody else's the next moment.
 */
void remote_forget(struct stream_remote *r)
{
	for (size_t i = 0; i < sizeof(r->exposed) / sizeof(r->exposed[0]); i++)
		endpoint_deregister(r->ep, &r->exposed[i]);
	for (size_t i = 0; i < sizeof(r->own) / sizeof(r->own[0]); i++)
		endpoint_deregister(r->ep, &r->own[i]);
	r->ep = NULL;
}
