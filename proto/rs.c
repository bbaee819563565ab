// SPDX-License-Identifier: MIT
/* The ring stream: start, end, credits, and the posting of messages; rs_tx.c and rs_rx.c are its two directions. */
#include "rs_priv.h"

#include <errno.h>
#include <string.h>

#define RS_TX_MIN	4096u
#define RS_RX_MIN	(64u << 10)
#define RS_LEN_MAX	(64u << 20)
#define RS_READ_MIN	512u
#define RS_CHUNK_MAX	(256u << 10)

static bool pow2_within(uint32_t v, uint32_t lo, uint32_t hi)
{
	return v >= lo && v <= hi && !(v & (v - 1));
}

static int check_param(const struct iw_rs_param *p)
{
	if (!pow2_within(p->tx_len, RS_TX_MIN, RS_LEN_MAX) || !pow2_within(p->rx_len, RS_RX_MIN, RS_LEN_MAX))
		return -EINVAL;
	if (p->rd_len && (!pow2_within(p->rd_len, RS_TX_MIN, RS_LEN_MAX) || p->read_max < RS_READ_MIN || p->read_max > p->rd_len))
		return -EINVAL;
	if (p->bufs < 8 || p->bufs > IW_QP_RQ || p->buf_size < 64 || (p->rq_step && p->rq_step < p->buf_size))
		return -EINVAL;
	return 0;
}

int iw_rs_init(struct iw_rs *rs, const struct iw_rs_param *p, struct iw_rs_pd *pd)
{
	int ret = check_param(p);

	if (ret)
		return ret;
	memset(rs, 0, sizeof(*rs));
	rs->version = IW_RS_VERSION;
	rs->p = *p;
	pd->ver_lo = pd->ver_hi = IW_RS_VERSION;
	pd->caps = p->caps;
	pd->ring_stag = p->rx_stag;
	pd->ring_to = p->rx_to;
	pd->ring_len = p->rx_len;
	pd->bufs = p->bufs;
	pd->buf_size = p->buf_size;
	pd->srcavail_max = p->caps & IW_RS_CAP_SRCAVAIL ? IW_RS_SA : 0;
	return 0;
}

static int post_recv(const struct rs_io *io, uint32_t idx)
{
	const struct iw_rs_param *p = &io->rs->p;
	struct iw_sge sge = { .to = p->rq_to + iw_rs_buf(p, idx), .stag = p->rq_stag, .len = p->buf_size };

	return io->ops->post_recv(io->ctx, RS_WR_ID(RS_TAG_RECV, idx), &sge);
}

int iw_rs_post_all(struct iw_rs *rs, const struct iw_rs_ops *ops, void *ctx)
{
	const struct rs_io io = { rs, ops, ctx };

	for (uint32_t i = 0; i < rs->p.bufs; i++) {
		int ret = post_recv(&io, i);

		if (ret)
			return ret;
	}
	return 0;
}

int iw_rs_start(struct iw_rs *rs, const struct iw_rs_pd *peer)
{
	if (peer->ver_lo > IW_RS_VERSION || peer->ver_hi < IW_RS_VERSION)
		return -EPROTO;
	if (!pow2_within(peer->ring_len, RS_RX_MIN, RS_LEN_MAX) || peer->ring_to + (peer->ring_len - 1) < peer->ring_to)
		return -EPROTO;
	if (peer->bufs < 8 || peer->buf_size < 64)
		return -EPROTO;
	rs->caps = rs->p.caps & peer->caps;
	rs->peer_stag = peer->ring_stag;
	rs->peer_to = peer->ring_to;
	rs->peer_len = peer->ring_len;
	rs->peer_bufs = rs->credits = peer->bufs;
	rs->peer_sa = (uint32_t)rs_min(peer->srcavail_max, IW_RS_SA);
	rs->inline_max = (uint32_t)rs_min(rs->p.inline_max, peer->buf_size - IW_CW_LEN);
	rs->chunk = (uint32_t)rs_min(peer->ring_len / 8, RS_CHUNK_MAX);
	rs->rd_max = rs->p.rd_len ? IW_RS_RD : 0;
	rs->started = 1;
	return 0;
}

void iw_rs_depths(struct iw_rs *rs, unsigned int ird, unsigned int ord)
{
	rs->rd_max = (uint32_t)rs_min(rs->rd_max, ord);
	if (!ird)
		rs->peer_sa = 0;
}

void rs_event(const struct rs_io *io, enum iw_rs_event ev)
{
	io->ops->event(io->ctx, ev);
}

/*
 * The last two credits are kept (docs/ringstream.md 4): the last but one for what keeps the peer going (ACK, ABORT, credits), the
 * last for such a message when it returns credits.
 */
bool rs_may_send(const struct rs_io *io, unsigned int type)
{
	const struct iw_rs *rs = io->rs;
	bool keeps_going = type == IW_CW_ACK || type == IW_CW_ABORT || type == IW_CW_CREDIT;

	if (io->ops->sq_free(io->ctx) < RS_SQ_ROOM)
		return false;
	if (rs->credits > 2)
		return true;
	if (!keeps_going || !rs->credits)
		return false;
	return rs->unreturned || (rs->credits == 2 && type != IW_CW_CREDIT);
}

/* Types that a Send must carry; the others are Immediate Data where both ends have it. */
static bool needs_send(unsigned int type)
{
	return type == IW_CW_INLINE || type == IW_CW_SRCAVAIL || type == IW_CW_RDDONE;
}

static void fill_wr(const struct iw_rs *rs, const struct rs_msg *m, unsigned int credits, struct iw_wr *wr)
{
	const struct iw_cw cw = { .type = m->type, .flags = m->flags, .credits = (uint8_t)credits, .value = m->value };

	memset(wr, 0, offsetof(struct iw_wr, inl));
	wr->wr_id = m->wr_id;
	wr->flags = m->se ? IW_WR_SE : 0;
	if (rs->caps & IW_RS_CAP_IMM && !needs_send(m->type)) {
		wr->op = IW_WR_IMM;
		iw_cw_encode(&cw, wr->imm);
		return;
	}
	wr->op = IW_WR_SEND;
	wr->flags |= IW_WR_INLINE | (m->inv ? IW_WR_INVALIDATE : 0);
	wr->inv_stag = m->inv_stag;
	iw_cw_encode(&cw, wr->inl);
	memcpy(wr->inl + IW_CW_LEN, m->body, m->body_len);
	wr->inl_len = IW_CW_LEN + m->body_len;
	wr->nsge = m->nsge;
	memcpy(wr->sge, m->sge, m->nsge * sizeof(m->sge[0]));
}

bool rs_post(const struct rs_io *io, const struct rs_msg *m)
{
	struct iw_rs *rs = io->rs;
	unsigned int credits = (unsigned int)rs_min(rs->unreturned, 255);
	struct iw_wr wr;
	int ret;

	fill_wr(rs, m, credits, &wr);
	ret = io->ops->post_send(io->ctx, &wr);
	if (ret == -EAGAIN)
		return false;
	if (ret) {
		rs_die(io, ECONNRESET, ret != -ENOTCONN);
		return false;
	}
	rs->credits--;
	rs->unreturned -= credits;
	if (!rs->unreturned)
		rs->credit_due = 0;
	return true;
}

void rs_die(const struct rs_io *io, int err, bool event)
{
	struct iw_rs *rs = io->rs;

	if (rs->dead)
		return;
	rs->dead = 1;
	rs->err = err;
	rs_tx_unexpose_all(io);
	if (event)
		rs_event(io, IW_RS_EV_ABORT);
}

static void post_abort(const struct rs_io *io)
{
	struct iw_rs *rs = io->rs;
	const struct rs_msg m = { .type = IW_CW_ABORT, .value = (uint64_t)rs->err, .wr_id = RS_WR_ID(RS_TAG_CTL, 0), .se = true };

	rs_tx_unexpose_all(io);
	if (rs->abort_posted || !rs->started || !rs_may_send(io, IW_CW_ABORT))
		return;
	if (rs_post(io, &m)) {
		rs->abort_posted = 1;
		rs->stat.tx_ctl++;
	}
}

void rs_fail(const struct rs_io *io, int err)
{
	if (io->rs->dead)
		return;
	io->rs->dead = 1;
	io->rs->err = err;
	post_abort(io);
	rs_event(io, IW_RS_EV_ABORT);
}

void iw_rs_abort(struct iw_rs *rs, int err)
{
	if (rs->dead)
		return;
	rs->dead = 1;
	rs->err = err > 0 ? err : ECONNRESET;
}

static void check_done(const struct rs_io *io)
{
	struct iw_rs *rs = io->rs;

	if (rs->done || rs->dead || !rs->tx_fin_acked || !rs->rx_fin_acked)
		return;
	rs->done = 1;
	rs_event(io, IW_RS_EV_DONE);
}

bool iw_rs_due(const struct iw_rs *rs)
{
	if (!rs->started || rs->dead)
		return rs->started && !rs->abort_posted;
	return rs->tx_pos != rs->tx_sent || rs->credit_due || (rs->tx_fin && !rs->tx_fin_sent) || rs->rx_nsa || rs->rx_ack_now ||
	       rs->tx_urg_mark || rs->tx_urg_word || rs->tx_mark || rs->tx_cancel || rs->ping_sent || rs->ping_due || rs_ack_due(rs);
}

void iw_rs_pump(struct iw_rs *rs, const struct iw_rs_ops *ops, void *ctx)
{
	const struct rs_io io = { rs, ops, ctx };

	if (!iw_rs_due(rs))
		return;
	if (!rs->dead)
		rs_rx_pump(&io);
	if (!rs->dead)
		rs_tx_pump(&io);
	if (!rs->dead)
		rs_rx_credit(&io);
	if (rs->dead)
		post_abort(&io);
	check_done(&io);
}

static void receive_done(const struct rs_io *io, const struct iw_cqe *cqe)
{
	struct iw_rs *rs = io->rs;
	uint32_t idx = (uint32_t)cqe->wr_id;
	uint8_t type;

	if (rs->dead)
		return;
	if (!rs->started) {
		rs_fail(io, EPROTO);	/* the owner starts before it feeds: nothing may be lost silently */
		return;
	}
	type = rs_rx_message(io, cqe);
	if (rs->dead || post_recv(io, idx))
		return;
	rs->unreturned++;
	/* CREDIT does not provoke CREDIT (2.4), except where the peer could be at its reserve */
	if (type != IW_CW_CREDIT ? rs->unreturned * 2 >= rs->p.bufs : rs->unreturned + 2 >= rs->p.bufs)
		rs->credit_due = 1;
}

void iw_rs_complete(struct iw_rs *rs, const struct iw_rs_ops *ops, void *ctx, const struct iw_cqe *cqe)
{
	const struct rs_io io = { rs, ops, ctx };
	uint64_t n = cqe->wr_id & 0xffffffffffffffull;

	if (cqe->status == IW_WC_FLUSH || cqe->status == IW_WC_REM_ERR) {
		rs_die(&io, ECONNRESET, false);	/* the QP's own event says why */
		return;
	}
	if (cqe->status != IW_WC_OK) {
		rs_fail(&io, ECONNRESET);
		return;
	}
	switch (cqe->wr_id >> 56) {
	case RS_TAG_RECV:
		receive_done(&io, cqe);
		break;
	case RS_TAG_DATA:
		rs_tx_data_done(&io, n);
		break;
	case RS_TAG_READ:
		rs_rx_read_done(&io, n);
		break;
	}
	check_done(&io);
}
