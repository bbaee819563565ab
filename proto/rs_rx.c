// SPDX-License-Identifier: MIT
/* The ring stream, receive side: checks every message completely, reads what is offered, acknowledges. */
#include "rs_priv.h"

#include <errno.h>
#include <string.h>

#define ERRNO_MAX	4095

void iw_rs_rx_fin_consumed(struct iw_rs *rs)
{
	if (iw_rs_rx_fin(rs))
		rs->rx_fin_consumed = 1;
}

void iw_rs_rx_waiting(struct iw_rs *rs, bool waiting)
{
	rs->rx_waiting = waiting;
}

void iw_rs_ack(struct iw_rs *rs)
{
	rs->rx_ack_now = 1;
}

/* ---- what goes back to the peer ---- */

static void send_ack(const struct rs_io *io)
{
	struct iw_rs *rs = io->rs;
	bool fin = rs->rx_fin_consumed && !rs->rx_nsa;
	const struct rs_msg m = {
		.type = IW_CW_ACK,
		.flags = (fin ? IW_CW_FIN : 0) | (rs->rx_waiting ? IW_CW_WAITING : 0),
		.value = rs->rx_cons,
		.wr_id = RS_WR_ID(RS_TAG_CTL, 0),
	};

	if (!rs_may_send(io, IW_CW_ACK) || !rs_post(io, &m))
		return;
	rs->rx_acked = rs->rx_cons;
	rs->rx_told_waiting = rs->rx_waiting;
	rs->rx_fin_acked = fin;
	rs->stat.tx_ack++;
}

/* Give buffers back when nothing else does; an ACK does it too, if there is something to acknowledge. */
void rs_rx_credit(const struct rs_io *io)
{
	struct iw_rs *rs = io->rs;
	const struct rs_msg m = { .type = IW_CW_CREDIT, .wr_id = RS_WR_ID(RS_TAG_CTL, 0) };

	if (!rs->credit_due)
		return;
	if (rs->rx_cons != rs->rx_acked) {
		send_ack(io);
		return;
	}
	if (rs_may_send(io, IW_CW_CREDIT) && rs_post(io, &m))
		rs->stat.tx_credit++;
}

static bool post_read(const struct rs_io *io, struct iw_rs_ext *e)
{
	struct iw_rs *rs = io->rs;
	uint32_t off = (uint32_t)(rs->rd_issued & (rs->p.rd_len - 1));
	uint64_t space = rs->p.rd_len - (rs->rd_issued - rs->rd_cons);
	uint32_t want = (uint32_t)rs_min(e->len - e->issued, rs->p.read_max);
	uint32_t n = (uint32_t)rs_min(rs_min(want, space), rs->p.rd_len - off);
	struct iw_wr wr = {
		.wr_id = RS_WR_ID(RS_TAG_READ, rs->rd_tail),
		.op = IW_WR_READ,
		.nsge = 1,
		.rstag = e->rstag,
		.rto = e->rto + e->issued,
	};

	if (space < rs_min(want, rs->p.rd_len / 4))	/* not in dribs; what is in the area will be consumed */
		return false;
	wr.sge[0] = (struct iw_sge){ .to = rs->p.rd_to + off, .stag = rs->p.rd_stag, .len = n };
	if (io->ops->post_send(io->ctx, &wr))
		return false;
	rs->rd_len[rs->rd_tail++ % IW_RS_RD] = n;
	rs->rd_issued += n;
	e->issued += n;
	rs->stat.tx_read++;
	return true;
}

static void post_reads(const struct rs_io *io)
{
	struct iw_rs *rs = io->rs;

	while (rs->rd_tail - rs->rd_head < rs->rd_max && io->ops->sq_free(io->ctx) >= RS_SQ_ROOM) {
		struct iw_rs_ext *e = rs_ext_to_read(rs);

		if (!e || !post_read(io, e))
			return;
	}
}

void rs_rx_read_done(const struct rs_io *io, uint64_t seq)
{
	struct iw_rs *rs = io->rs;
	uint32_t n;

	if (rs->dead)
		return;
	if (rs->rd_head == rs->rd_tail || seq != rs->rd_head) {
		rs_fail(io, ECONNRESET);	/* Reads complete in order */
		return;
	}
	n = rs->rd_len[rs->rd_head++ % IW_RS_RD];
	rs->rd_ready += n;
	rs->stat.rx_read_octets += n;
	rs_ext_read_done(rs, n);
	rs_event(io, IW_RS_EV_READABLE);
}

/* RDDONE for the oldest offer, if it is finished. False: nothing to do now. */
static bool send_rddone(const struct rs_io *io)
{
	struct iw_rs *rs = io->rs;
	struct iw_rs_ext *e = rs_ext_oldest_open(rs);
	bool whole = e && e->done == e->len;
	struct rs_msg m = { .type = IW_CW_RDDONE, .wr_id = RS_WR_ID(RS_TAG_CTL, 0), .body_len = IW_CW_RDDONE_LEN };

	if (!e || !(whole || (e->cancel && e->issued == e->done)))
		return false;
	/* Extents are bounded: a released offer that nobody consumes holds the next one back. */
	if (rs_ext_count(rs) > IW_RS_EXT - 3 * (IW_RS_SA + 1) || !rs_may_send(io, m.type))
		return false;
	m.flags = whole ? 0 : IW_CW_REFUSED;
	m.value = e->id;
	m.inv = rs->caps & IW_RS_CAP_SENDINV;
	m.inv_stag = e->rstag;
	iw_cw_encode_rddone(e->done, m.body);
	if (!rs_post(io, &m))
		return false;
	e->released = 1;
	rs->rx_nsa--;
	rs->stat.tx_rddone++;
	if (!whole) {
		/* With cancel == 2 the CANCEL that marks the new start is still to come. */
		rs->rx_dropping = e->cancel == 2;
		rs->rx_resync = e->id;
		rs_ext_truncate(rs, e);
	}
	rs_ext_skip(rs);
	return true;
}

static void send_pong(const struct rs_io *io)
{
	struct iw_rs *rs = io->rs;
	const struct rs_msg m = {
		.type = IW_CW_PING,
		.flags = IW_CW_ANSWER,
		.value = rs->ping_value,
		.wr_id = RS_WR_ID(RS_TAG_CTL, 0),
	};

	if (rs->ping_due && rs_may_send(io, IW_CW_PING) && rs_post(io, &m)) {
		rs->ping_due = 0;
		rs->stat.tx_ctl++;
	}
}

void rs_rx_pump(const struct rs_io *io)
{
	struct iw_rs *rs = io->rs;

	if (rs->rx_nsa)
		post_reads(io);
	while (rs->rx_nsa && !rs->dead && send_rddone(io))
		;
	if (!rs->dead && rs_ack_due(rs))
		send_ack(io);
	rs->rx_ack_now = rs->rx_ack_now && rs->rx_cons != rs->rx_acked;
	if (!rs->dead)
		send_pong(io);
}

/* ---- messages: check_* look at one completely, then it takes effect ---- */

struct rs_rcv {
	struct iw_cw cw;
	const struct iw_cqe *cqe;
	const uint8_t *body;		/* after the word */
	size_t len;
};

/* FIN and URG of a data message whose octets are in the order now. */
static int data_flags(const struct rs_io *io, const struct iw_cw *cw)
{
	struct iw_rs *rs = io->rs;

	if (cw->flags & IW_CW_URG) {
		if (!rs->rx_stream || !(rs->caps & IW_RS_CAP_URGENT))
			return -EPROTO;
		rs->rx_urg = rs->rx_stream - 1;
		rs->rx_urg_valid = 1;
		rs_event(io, IW_RS_EV_URGENT);
	}
	if (cw->flags & IW_CW_FIN) {
		rs->rx_fin = 1;
		rs_event(io, IW_RS_EV_FIN);
	}
	return 0;
}

static void copy_inline(const struct rs_io *io, const uint8_t *src, uint32_t n)
{
	const struct iw_rs_param *p = &io->rs->p;

	for (uint64_t pos = io->rs->rx_prod; n; ) {
		uint32_t off = (uint32_t)(pos & (p->rx_len - 1));
		uint32_t part = (uint32_t)rs_min(n, p->rx_len - off);

		if (io->ops->place)
			io->ops->place(io->ctx, p->rx_to + off, src, part);
		else
			memcpy(io->ops->mem(io->ctx, p->rx_stag, p->rx_to + off, part), src, part);
		src += part;
		pos += part;
		n -= part;
	}
}

/* DATA and INLINE: the ring is filled up to a new position. */
static int rcv_data(const struct rs_io *io, const struct rs_rcv *r)
{
	struct iw_rs *rs = io->rs;
	uint64_t n = (r->cw.value - rs->rx_prod) & RS_MASK48;
	bool inl = r->cw.type == IW_CW_INLINE;

	if (rs->rx_fin || n > rs->p.rx_len - (rs->rx_prod - rs->rx_cons))
		return -EPROTO;
	if (inl ? r->len != n : r->len)
		return -EPROTO;
	if (inl) {
		copy_inline(io, r->body, (uint32_t)n);
		rs->stat.rx_inline++;
		rs->stat.rx_inline_octets += n;
	} else {
		rs->stat.rx_data++;
		rs->stat.rx_data_octets += n;
	}
	if (!rs_ext_ring(rs, rs->rx_prod + n))
		return -EPROTO;
	if (rs->rx_dropping)
		return 0;
	if (n)
		rs_event(io, IW_RS_EV_READABLE);
	return data_flags(io, &r->cw);
}

static int rcv_srcavail(const struct rs_io *io, const struct rs_rcv *r)
{
	struct iw_rs *rs = io->rs;
	struct iw_cw_srcavail sa;

	if (!(rs->caps & IW_RS_CAP_SRCAVAIL) || r->len != IW_CW_SRCAVAIL_LEN)
		return -EPROTO;
	iw_cw_decode_srcavail(&sa, r->body);
	if (!sa.len || sa.len > RS_SA_LEN_MAX || sa.to + (sa.len - 1) < sa.to)
		return -EPROTO;
	if (r->cw.value <= rs->rx_sa_id || rs->rx_fin || rs->rx_nsa >= IW_RS_SA)
		return -EPROTO;
	rs->rx_sa_id = r->cw.value;
	rs->stat.rx_srcavail++;
	if (rs->rx_dropping)
		return 0;
	if (!rs_ext_srcavail(rs, r->cw.value, &sa))
		return -EPROTO;
	return data_flags(io, &r->cw);
}

/* The source takes an offer back, or marks where it goes on after a refusal. One that crossed its RDDONE means nothing. */
static int rcv_cancel(const struct rs_io *io, const struct rs_rcv *r)
{
	struct iw_rs *rs = io->rs;
	struct iw_rs_ext *e = rs_ext_oldest_open(rs);

	if (r->len || r->cw.value > rs->rx_sa_id)
		return -EPROTO;
	rs->stat.rx_ctl++;
	if (rs->rx_dropping && r->cw.value == rs->rx_resync) {
		rs->rx_dropping = 0;
		return 0;
	}
	if (!e || r->cw.value < e->id)
		return 0;
	if (r->cw.value != e->id)
		return -EPROTO;
	e->cancel = 1;
	return 0;
}

static int rcv_abort(const struct rs_io *io, const struct rs_rcv *r)
{
	if (r->len || !r->cw.value || r->cw.value > ERRNO_MAX)
		return -EPROTO;
	io->rs->stat.rx_ctl++;
	io->rs->abort_posted = 1;
	rs_die(io, (int)r->cw.value, true);
	return 0;
}

static int rcv_ping(const struct rs_io *io, const struct rs_rcv *r)
{
	struct iw_rs *rs = io->rs;

	if (r->len)
		return -EPROTO;
	rs->stat.rx_ctl++;
	if (!(r->cw.flags & IW_CW_ANSWER)) {
		rs->ping_due = 1;
		rs->ping_value = r->cw.value;
	}
	return 0;
}

static int rcv_urgent(const struct rs_io *io, const struct rs_rcv *r)
{
	if (r->len || r->cw.value || !(io->rs->caps & IW_RS_CAP_URGENT))
		return -EPROTO;
	io->rs->stat.rx_ctl++;
	rs_event(io, IW_RS_EV_URGENT);
	return 0;
}

static int dispatch(const struct rs_io *io, const struct rs_rcv *r)
{
	struct iw_rs *rs = io->rs;

	switch (r->cw.type) {
	case IW_CW_DATA:
	case IW_CW_INLINE:
		return rcv_data(io, r);
	case IW_CW_ACK:
		if (r->len)
			return -EPROTO;
		rs->stat.rx_ack++;
		rs_tx_ack(io, &r->cw);
		return 0;
	case IW_CW_CREDIT:
		rs->stat.rx_credit++;
		return r->len || r->cw.value ? -EPROTO : 0;
	case IW_CW_SRCAVAIL:
		return rcv_srcavail(io, r);
	case IW_CW_RDDONE:
		rs->stat.rx_rddone++;
		rs_tx_rddone(io, &r->cw, r->body, r->len, r->cqe);
		return 0;
	case IW_CW_CANCEL:
		return rcv_cancel(io, r);
	case IW_CW_URGENT:
		return rcv_urgent(io, r);
	case IW_CW_ABORT:
		return rcv_abort(io, r);
	case IW_CW_PING:
		return rcv_ping(io, r);
	default:
		return -EPROTO;
	}
}

/* Take the message apart. Immediate Data carries a word alone; INLINE, SRCAVAIL and RDDONE have more and are Sends. */
static int parse(const struct rs_io *io, const struct iw_cqe *cqe, struct rs_rcv *r)
{
	struct iw_rs *rs = io->rs;
	const struct iw_rs_param *p = &rs->p;
	uint32_t idx = (uint32_t)cqe->wr_id;
	const uint8_t *buf;

	r->cqe = cqe;
	r->body = NULL;
	r->len = 0;
	if (cqe->has_imm) {
		if (!(rs->caps & IW_RS_CAP_IMM) || iw_cw_decode(&r->cw, cqe->imm))
			return -EPROTO;
		return r->cw.type == IW_CW_INLINE || r->cw.type == IW_CW_SRCAVAIL || r->cw.type == IW_CW_RDDONE ? -EPROTO : 0;
	}
	if (idx >= p->bufs || cqe->len < IW_CW_LEN || cqe->len > p->buf_size)
		return -EPROTO;
	buf = io->ops->mem(io->ctx, p->rq_stag, p->rq_to + iw_rs_buf(p, idx), cqe->len);
	if (!buf || iw_cw_decode(&r->cw, buf))
		return -EPROTO;
	/* R23: only an RDDONE may invalidate, and only what it is about */
	if (cqe->has_inv && r->cw.type != IW_CW_RDDONE)
		return -EPROTO;
	r->body = buf + IW_CW_LEN;
	r->len = cqe->len - IW_CW_LEN;
	return 0;
}

uint8_t rs_rx_message(const struct rs_io *io, const struct iw_cqe *cqe)
{
	struct iw_rs *rs = io->rs;
	struct rs_rcv r = { .cw.type = 0xff };

	/* R16: buffers are posted again at once, so a message without credit is found here, not by the QP */
	if (rs->unreturned == rs->p.bufs || parse(io, cqe, &r))
		goto eproto;
	if (r.cw.credits > rs->peer_bufs - rs->credits)
		goto eproto;
	rs->credits += r.cw.credits;
	if (dispatch(io, &r))
		goto eproto;
	return r.cw.type;
eproto:
	rs_fail(io, EPROTO);
	return r.cw.type;
}
