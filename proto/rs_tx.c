// SPDX-License-Identifier: MIT
/* The ring stream, transmit side: from the tx ring to INLINE, Write + DATA or SRCAVAIL; what ACK and RDDONE give back. */
#include "rs_priv.h"

#include <errno.h>
#include <string.h>

void iw_rs_tx_space(const struct iw_rs *rs, uint32_t skip, uint32_t *off, uint32_t *len)
{
	uint64_t used = rs->tx_pos - rs->tx_freed + skip;

	*off = (uint32_t)((rs->tx_pos + skip) & (rs->p.tx_len - 1));
	*len = 0;
	if (!rs->tx_fin && !rs->dead && used < rs->p.tx_len)
		*len = (uint32_t)rs_min(rs->p.tx_len - used, rs->p.tx_len - *off);
}

void iw_rs_tx_produced(struct iw_rs *rs, uint32_t n)
{
	rs->tx_pos += rs_min(n, rs->p.tx_len - (rs->tx_pos - rs->tx_freed));
}

uint64_t iw_rs_tx_recall(struct iw_rs *rs)
{
	rs->tx_pos = rs->tx_sent;
	rs->tx_push = rs_min(rs->tx_push, rs->tx_pos);
	return rs->tx_pos;
}

void iw_rs_tx_fin(struct iw_rs *rs)
{
	rs->tx_fin = 1;
}

void iw_rs_tx_urgent(struct iw_rs *rs)
{
	if (!rs->tx_pos || !(rs->caps & IW_RS_CAP_URGENT))
		return;
	rs->tx_urg = rs->tx_pos;
	rs->tx_urg_mark = rs->tx_urg_word = 1;
}

void iw_rs_push(struct iw_rs *rs)
{
	rs->tx_push = rs->tx_pos;
}

void iw_rs_tx_cancel(struct iw_rs *rs)
{
	if (rs->tx_nsa && !rs->tx_cancel)
		rs->tx_cancel = 1;
}

void iw_rs_ping(struct iw_rs *rs)
{
	rs->ping_sent = 1;
}

uint64_t iw_rs_tx_unacked(const struct iw_rs *rs)
{
	uint64_t n = rs->tx_pos - rs->tx_sent + rs->ring_sent - rs->ring_acked;

	for (uint32_t i = 0; i < rs->tx_nsa; i++)
		n += rs->tx_sa[i].len;
	return n;
}

static bool is_offered(const struct iw_rs *rs, uint64_t start)
{
	for (uint32_t i = 0; i < rs->tx_nsa; i++)
		if (rs->tx_sa[i].start == start)
			return true;
	return false;
}

/* Of a message that has come in part nothing can be read, nor of what lies behind an offer that is open; and offered octets do not lie in T. */
uint64_t iw_rs_tx_left(const struct iw_rs *rs, uint64_t queued)
{
	uint64_t all = iw_rs_tx_unacked(rs), offered = rs->tx_nsa ? rs->tx_pos - rs->tx_sa[0].start : 0;
	uint64_t n = queued - rs_min(queued, rs->tx_pos - rs->tx_sent), pos = rs->tx_sent;

	for (uint32_t i = 0, k = rs->txq_tail - 1; n && i < IW_RS_TXQ - 1; i++, k--) {
		uint64_t start = k ? rs->txq_end[(k - 1) % IW_RS_TXQ] : 0;

		if (start > pos)
			break;
		if (!is_offered(rs, start))
			n -= rs_min(n, pos - start);
		pos = start;
	}
	n = rs->tx_pos - pos + n;
	return rs_min(all, n > offered ? n : offered);
}

/* ---- the tx ring is freed in order: up to the last completed work request, not past an open SRCAVAIL; or what the peer has used ---- */

static void update_freed(const struct rs_io *io)
{
	struct iw_rs *rs = io->rs;
	uint64_t to = rs->tx_done;

	if (rs->tx_nsa)
		to = rs_min(to, rs->tx_sa[0].start);
	if (rs->p.tx_keeps)
		to = rs_min(to, rs->tx_sent - (rs->ring_sent - rs->ring_acked));
	if (to <= rs->tx_freed)
		return;
	rs->tx_freed = to;
	rs_event(io, IW_RS_EV_WRITABLE);
}

void rs_tx_data_done(const struct rs_io *io, uint64_t seq)
{
	struct iw_rs *rs = io->rs;

	if (rs->txq_head == rs->txq_tail || seq != rs->txq_head) {
		rs_fail(io, ECONNRESET);	/* completions of one queue come in order */
		return;
	}
	rs->tx_done = rs->txq_end[rs->txq_head++ % IW_RS_TXQ];
	update_freed(io);
}

static uint32_t in_flight(const struct iw_rs *rs)
{
	return rs->txq_tail - rs->txq_head;
}

/* ---- posting ---- */

static uint8_t tx_sge(const struct iw_rs *rs, uint64_t pos, uint32_t n, struct iw_sge sge[2])
{
	uint32_t off = (uint32_t)(pos & (rs->p.tx_len - 1));
	uint32_t first = (uint32_t)rs_min(n, rs->p.tx_len - off);

	if (!n)
		return 0;
	sge[0] = (struct iw_sge){ .to = rs->p.tx_to + off, .stag = rs->p.tx_stag, .len = first };
	if (first == n)
		return 1;
	sge[1] = (struct iw_sge){ .to = rs->p.tx_to, .stag = rs->p.tx_stag, .len = n - first };
	return 2;
}

/* Flags of a data message that ends at stream position `end`. */
static uint8_t data_flags(const struct iw_rs *rs, uint64_t end)
{
	uint8_t flags = 0;

	if (rs->tx_urg_mark && end == rs->tx_urg)
		flags |= IW_CW_URG;
	if (end < rs->tx_pos)
		flags |= IW_CW_MORE;
	else if (rs->tx_fin)
		flags |= IW_CW_FIN;
	return flags;
}

/* A data message was posted: the stream is sent up to `end`. */
static void data_posted(struct iw_rs *rs, uint64_t end, uint8_t flags)
{
	rs->txq_end[rs->txq_tail++ % IW_RS_TXQ] = end;
	rs->tx_sent = end;
	if (flags & IW_CW_FIN)
		rs->tx_fin_sent = 1;
	if (flags & IW_CW_URG)
		rs->tx_urg_mark = 0;
}

static bool send_inline(const struct rs_io *io, uint32_t n)
{
	struct iw_rs *rs = io->rs;
	struct rs_msg m = {
		.type = IW_CW_INLINE,
		.flags = data_flags(rs, rs->tx_sent + n),
		.value = rs->ring_sent + n,
		.wr_id = RS_WR_ID(RS_TAG_DATA, rs->txq_tail),
		.se = rs->peer_waiting,
	};

	m.nsge = tx_sge(rs, rs->tx_sent, n, m.sge);
	if (!rs_post(io, &m))
		return false;
	rs->ring_sent += n;
	data_posted(rs, rs->tx_sent + n, m.flags);
	rs->stat.tx_inline++;
	rs->stat.tx_inline_octets += n;
	return true;
}

/* RDMA Writes of the next n octets; two when they pass the end of the peer's ring. */
static bool post_writes(const struct rs_io *io, uint32_t n)
{
	struct iw_rs *rs = io->rs;
	uint32_t off = (uint32_t)(rs->ring_sent & (rs->peer_len - 1));
	uint32_t done = 0;

	while (done < n) {
		uint32_t part = (uint32_t)rs_min(n - done, rs->peer_len - off);
		struct iw_wr wr = {
			.wr_id = RS_WR_ID(RS_TAG_CTL, 0),
			.op = IW_WR_WRITE,
			.flags = IW_WR_QUIET,
			.rstag = rs->peer_stag,
			.rto = rs->peer_to + off,
		};
		int ret;

		wr.nsge = tx_sge(rs, rs->tx_sent + done, part, wr.sge);
		ret = io->ops->post_send(io->ctx, &wr);
		if (ret) {
			rs_die(io, ECONNRESET, ret != -ENOTCONN);
			return false;
		}
		rs->stat.tx_write++;
		done += part;
		off = 0;
	}
	return true;
}

static bool send_data(const struct rs_io *io, uint32_t n)
{
	struct iw_rs *rs = io->rs;
	struct rs_msg m = {
		.type = IW_CW_DATA,
		.flags = data_flags(rs, rs->tx_sent + n),
		.value = rs->ring_sent + n,
		.wr_id = RS_WR_ID(RS_TAG_DATA, rs->txq_tail),
		.se = rs->peer_waiting,
	};

	if (!post_writes(io, n))
		return false;
	if (!rs_post(io, &m)) {
		rs_die(io, ECONNRESET, true);	/* cannot be: rs_may_send() saw room for all of it */
		return false;
	}
	rs->ring_sent += n;
	data_posted(rs, rs->tx_sent + n, m.flags);
	rs->stat.tx_data++;
	rs->stat.tx_write_octets += n;
	return true;
}

/* Octets to offer for remote read instead of writing them: a backlog that the peer's ring has no room for. */
static uint32_t srcavail_len(const struct rs_io *io, uint64_t avail, uint64_t room)
{
	const struct iw_rs *rs = io->rs;
	uint32_t off = (uint32_t)(rs->tx_sent & (rs->p.tx_len - 1));
	uint64_t n = rs_min(rs_min(avail, rs->p.tx_len - off), rs->p.tx_len / 2);

	if (!(rs->caps & IW_RS_CAP_SRCAVAIL) || !rs->p.srcavail_min || !io->ops->expose)
		return 0;
	if (n < rs->p.srcavail_min || rs->tx_nsa >= rs->peer_sa || room >= rs_min(avail, rs->peer_len / 4))
		return 0;
	return (uint32_t)n;
}

static bool send_srcavail(const struct rs_io *io, uint32_t n)
{
	struct iw_rs *rs = io->rs;
	struct iw_cw_srcavail body = { .len = n };
	struct rs_msg m = {
		.type = IW_CW_SRCAVAIL,
		.flags = data_flags(rs, rs->tx_sent + n),
		.value = rs->tx_sa_id + 1,
		.wr_id = RS_WR_ID(RS_TAG_DATA, rs->txq_tail),
		.se = rs->peer_waiting,
		.body_len = IW_CW_SRCAVAIL_LEN,
	};

	if (io->ops->expose(io->ctx, rs->tx_sent & (rs->p.tx_len - 1), n, &body.stag, &body.to))
		return false;
	iw_cw_encode_srcavail(&body, m.body);
	if (!rs_post(io, &m)) {
		io->ops->unexpose(io->ctx, body.stag);
		return false;
	}
	rs->tx_sa[rs->tx_nsa++] = (struct iw_rs_tx_sa){ .id = ++rs->tx_sa_id, .start = rs->tx_sent, .len = n, .stag = body.stag };
	data_posted(rs, rs->tx_sent + n, m.flags);
	rs->stat.tx_srcavail++;
	rs->stat.tx_srcavail_octets += n;
	return true;
}

/* A short tail waits for more while earlier messages are on their way to the LLP: their completion pumps again. */
static bool hold_back(const struct iw_rs *rs, uint32_t n)
{
	return n < rs->inline_max && in_flight(rs) && !rs->tx_fin && !rs->tx_urg_mark && rs->tx_sent + n > rs->tx_push;
}

/* Send one data message. False: nothing more can go now. */
static bool send_next(const struct rs_io *io)
{
	struct iw_rs *rs = io->rs;
	uint64_t avail = rs->tx_pos - rs->tx_sent;
	uint64_t room = rs->peer_len - (rs->ring_sent - rs->ring_acked);
	uint32_t n;

	if (rs->tx_urg_mark && rs->tx_urg > rs->tx_sent)
		avail = rs->tx_urg - rs->tx_sent;	/* a message ends at the mark */
	if (!avail) {
		if ((rs->tx_fin && !rs->tx_fin_sent) || (rs->tx_urg_mark && rs->tx_urg == rs->tx_sent))
			return send_data(io, 0);
		return false;
	}
	n = srcavail_len(io, avail, room);
	if (n && send_srcavail(io, n))
		return true;
	if (rs->dead)
		return false;
	/* Not in dribs: an ACK is certain while this much of the ring is out (docs/ringstream.md, liveness). */
	if (room < rs_min(avail, rs->peer_len / 8)) {
		rs->stat.no_room++;
		return false;
	}
	n = (uint32_t)rs_min(avail, room);
	if (n <= rs->inline_max)
		return !hold_back(rs, n) && send_inline(io, n);
	return send_data(io, (uint32_t)rs_min(n, rs->chunk));
}

bool iw_rs_tx_open(const struct iw_rs *rs)
{
	return !rs->dead && !rs->tx_fin && !rs->tx_mark && !rs->tx_cancel && in_flight(rs) < IW_RS_TXQ && rs->credits > 2 &&
	       rs->peer_len - (rs->ring_sent - rs->ring_acked) >= rs->peer_len / 8 && rs->tx_pos - rs->tx_freed < rs->p.tx_len;
}

static bool send_ctl(const struct rs_io *io, uint8_t type, uint64_t value)
{
	const struct rs_msg m = { .type = type, .value = value, .wr_id = RS_WR_ID(RS_TAG_CTL, 0), .se = type == IW_CW_URGENT };

	if (!rs_may_send(io, type) || !rs_post(io, &m))
		return false;
	io->rs->stat.tx_ctl++;
	return true;
}

static void send_controls(const struct rs_io *io)
{
	struct iw_rs *rs = io->rs;

	if (rs->tx_urg_word && send_ctl(io, IW_CW_URGENT, 0))
		rs->tx_urg_word = 0;
	if (rs->tx_mark && send_ctl(io, IW_CW_CANCEL, rs->tx_mark_id))
		rs->tx_mark = 0;
	if (rs->tx_cancel == 1 && send_ctl(io, IW_CW_CANCEL, rs->tx_sa[0].id))
		rs->tx_cancel = 2;
	if (rs->ping_sent && send_ctl(io, IW_CW_PING, 0))
		rs->ping_sent = 0;
}

void rs_tx_pump(const struct rs_io *io)
{
	struct iw_rs *rs = io->rs;

	send_controls(io);
	if (rs->tx_urg_mark && rs->tx_urg < rs->tx_sent)
		rs->tx_urg_mark = 0;	/* said too late: more has gone already */
	do {
		if (rs->dead || rs->tx_fin_sent || rs->tx_mark || rs->tx_cancel || in_flight(rs) == IW_RS_TXQ)
			return;
		if (!rs_may_send(io, IW_CW_DATA)) {
			rs->stat.no_credit += rs->credits <= 2;
			return;
		}
	} while (send_next(io));
}

/* ---- what the peer says of it ---- */

void rs_tx_ack(const struct rs_io *io, const struct iw_cw *cw)
{
	struct iw_rs *rs = io->rs;
	uint64_t n = (cw->value - rs->ring_acked) & RS_MASK48;

	if (n > rs->ring_sent - rs->ring_acked) {
		rs_fail(io, EPROTO);
		return;
	}
	rs->ring_acked += n;
	rs->peer_waiting = !!(cw->flags & IW_CW_WAITING);
	if (rs->p.tx_keeps)
		update_freed(io);
	if (!(cw->flags & IW_CW_FIN))
		return;
	if (!rs->tx_fin_sent || rs->ring_acked != rs->ring_sent || rs->tx_nsa) {
		rs_fail(io, EPROTO);
		return;
	}
	rs->tx_fin_acked = 1;
}

void rs_tx_unexpose_all(const struct rs_io *io)
{
	struct iw_rs *rs = io->rs;

	for (uint32_t i = 0; i < rs->tx_nsa && i < IW_RS_SA; i++)
		io->ops->unexpose(io->ctx, rs->tx_sa[i].stag);
	rs->tx_nsa = 0;
	rs->tx_cancel = 0;
}

/* The oldest SRCAVAIL ended after n octets: the stream goes on from there, through the ring. */
static void go_back(const struct rs_io *io, uint64_t id, uint64_t to)
{
	struct iw_rs *rs = io->rs;

	if (rs->tx_cancel != 2) {	/* a CANCEL that went already is the mark */
		rs->tx_mark = 1;
		rs->tx_mark_id = id;
	}
	rs_tx_unexpose_all(io);
	rs->tx_sent = to;
	rs->tx_done = rs_min(rs->tx_done, to);
	for (uint32_t i = rs->txq_head; i != rs->txq_tail; i++)
		rs->txq_end[i % IW_RS_TXQ] = rs_min(rs->txq_end[i % IW_RS_TXQ], to);
	rs->tx_fin_sent = 0;
	if (rs->tx_urg > to)
		rs->tx_urg_mark = 1;
}

void rs_tx_rddone(const struct rs_io *io, const struct iw_cw *cw, const uint8_t *body, size_t len, const struct iw_cqe *cqe)
{
	struct iw_rs *rs = io->rs;
	struct iw_rs_tx_sa sa = rs->tx_sa[0];
	bool refused = cw->flags & IW_CW_REFUSED;
	uint64_t n;

	/* RDDONEs come in the order of the SRCAVAILs */
	if (len != IW_CW_RDDONE_LEN || !rs->tx_nsa || cw->value != (sa.id & RS_MASK48))
		goto eproto;
	n = iw_cw_decode_rddone(body);
	if (refused ? n > sa.len : n != sa.len)
		goto eproto;
	if (cqe->has_inv && cqe->inv_stag != sa.stag)
		goto eproto;
	if (!cqe->has_inv)
		io->ops->unexpose(io->ctx, sa.stag);
	memmove(rs->tx_sa, rs->tx_sa + 1, --rs->tx_nsa * sizeof(sa));
	/* unasked, it means "not by Reads" (SDP's SendSm): another offer would go the same way */
	if (refused && rs->tx_cancel != 2)
		rs->peer_sa = 0;
	if (refused)
		go_back(io, sa.id, sa.start + n);
	rs->tx_cancel = 0;
	update_freed(io);
	return;
eproto:
	rs_fail(io, EPROTO);
}
