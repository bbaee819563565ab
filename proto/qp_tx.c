// SPDX-License-Identifier: MIT
/* Queue pair, transmit side: segments messages into FPDUs, one at a time, in the order DDP asks for. */
#include <string.h>

#include "crc32c.h"
#include "mpa.h"
#include "qp_priv.h"

enum { CUR_NONE, CUR_SQ, CUR_RESP };

/* An FPDU under construction. Nothing of it counts until fpdu_end(): a failure half way leaves no trace. */
struct fpdu {
	uint8_t *out, *p;
	uint64_t pos;		/* stream position of p */
	uint64_t start;		/* of the ULPDU_Length field */
	uint32_t crc;
	bool markers, do_crc;
};

static void put_raw(struct fpdu *f, const void *src, size_t n)
{
	if (f->do_crc)
		f->crc = iw_crc32c_copy(f->crc, f->p, src, n);
	else if (n)
		memcpy(f->p, src, n);
	f->p += n;
	f->pos += n;
}

static void put_marker(struct fpdu *f)
{
	uint8_t m[IW_MARKER_LEN] = { 0 };

	iw_put16(m + 2, (uint16_t)(f->pos - f->start));
	put_raw(f, m, sizeof(m));
}

static void put(struct fpdu *f, const uint8_t *src, size_t n)
{
	if (!f->markers) {
		put_raw(f, src, n);
		return;
	}
	while (n) {
		size_t k;

		if (f->pos % IW_MARKER_IV == 0)
			put_marker(f);
		k = IW_MARKER_IV - f->pos % IW_MARKER_IV;
		if (k > n)
			k = n;
		put_raw(f, src, k);
		src += k;
		n -= k;
	}
}

/* hdr has two octets of room in front for the ULPDU_Length. */
static void fpdu_begin(struct fpdu *f, const struct iw_qp *qp, uint8_t *out, uint8_t *hdr, size_t hdr_len, uint16_t ulpdu)
{
	*f = (struct fpdu){ .out = out, .p = out, .pos = qp->tx_pos, .start = qp->tx_pos,
			    .markers = qp->param.tx_markers, .do_crc = qp->param.crc };
	if (f->markers && f->pos % IW_MARKER_IV == 0) {
		put_marker(f);		/* before the length field: FPDUPTR 0 (MPA-4.3-04) */
		f->start = f->pos;
	}
	iw_put16(hdr, ulpdu);
	put(f, hdr, IW_MPA_LEN + hdr_len);
}

static size_t fpdu_end(struct fpdu *f, struct iw_qp *qp, uint16_t ulpdu)
{
	static const uint8_t zero[4];
	uint32_t pad = iw_mpa_pad(ulpdu);

	if (pad)
		put(f, zero, pad);
	if (f->markers && f->pos % IW_MARKER_IV == 0)
		put_marker(f);		/* between PAD and CRC: covered by this CRC */
	iw_crc32c_put(f->p, f->crc);	/* 0 with CRCs off */
	f->p += IW_MPA_CRC;
	f->pos += IW_MPA_CRC;
	qp->tx_pos = f->pos;
	qp->stat.tx_fpdu++;
	return (size_t)(f->p - f->out);
}

static uint32_t wire_len(const struct iw_qp *qp, uint16_t ulpdu)
{
	return qp->param.tx_markers ? iw_mpa_fpdu_len_markers(qp->tx_pos, ulpdu) : iw_mpa_fpdu_len(ulpdu);
}

static uint8_t *put_tagged(uint8_t *h, uint8_t op, bool last, uint32_t stag, uint64_t to)
{
	h[0] = IW_DDP_T | (last ? IW_DDP_L : 0) | IW_DDP_VERSION;
	h[1] = IW_RDMAP_VERSION | op;
	iw_put32(h + offsetof(struct iw_ddp_tagged, stag), stag);
	iw_put64(h + offsetof(struct iw_ddp_tagged, to), to);
	return h + IW_DDP_TAGGED;
}

static uint8_t *put_untagged(const struct iw_qp *qp, uint8_t *h, uint8_t op, bool last, uint32_t inv, uint32_t qn, uint32_t mo)
{
	h[0] = (last ? IW_DDP_L : 0) | IW_DDP_VERSION;
	h[1] = IW_RDMAP_VERSION | op;
	iw_put32(h + offsetof(struct iw_ddp_untagged, inv_stag), inv);
	iw_put32(h + offsetof(struct iw_ddp_untagged, qn), qn);
	iw_put32(h + offsetof(struct iw_ddp_untagged, msn), qp->tx_msn[qn]);
	iw_put32(h + offsetof(struct iw_ddp_untagged, mo), mo);
	return h + IW_DDP_UNTAGGED;
}

static uint8_t *put_read_req(uint8_t *h, uint32_t sink_stag, uint64_t sink_to, uint32_t size, uint32_t src_stag, uint64_t src_to)
{
	iw_put32(h + offsetof(struct iw_read_req, sink_stag), sink_stag);
	iw_put64(h + offsetof(struct iw_read_req, sink_to), sink_to);
	iw_put32(h + offsetof(struct iw_read_req, size), size);
	iw_put32(h + offsetof(struct iw_read_req, src_stag), src_stag);
	iw_put64(h + offsetof(struct iw_read_req, src_to), src_to);
	return h + sizeof(struct iw_read_req);
}

static uint8_t *put_atomic_req(uint8_t *h, const struct iw_wr *wr, uint32_t rid)
{
	bool add = wr->op == IW_WR_FETCHADD;

	iw_put32(h + offsetof(struct iw_atomic_req, aop), add ? IW_AOP_FETCHADD : IW_AOP_CMPSWAP);
	iw_put32(h + offsetof(struct iw_atomic_req, rid), rid);
	iw_put32(h + offsetof(struct iw_atomic_req, stag), wr->rstag);
	iw_put64(h + offsetof(struct iw_atomic_req, to), wr->rto);
	iw_put64(h + offsetof(struct iw_atomic_req, add_swap), wr->add_swap);
	iw_put64(h + offsetof(struct iw_atomic_req, add_swap_mask), wr->add_swap_mask);
	iw_put64(h + offsetof(struct iw_atomic_req, compare), add ? 0 : wr->compare);
	iw_put64(h + offsetof(struct iw_atomic_req, compare_mask), add ? UINT64_MAX : wr->compare_mask);
	return h + sizeof(struct iw_atomic_req);
}

#define HDR_MAX (IW_MPA_LEN + IW_DDP_UNTAGGED + (IW_TERM_MAX > IW_WR_INLINE_MAX ? IW_TERM_MAX : IW_WR_INLINE_MAX))

/* An FPDU that is all header. 0 when it does not fit. */
static size_t frame_hdr(struct iw_qp *qp, uint8_t *out, size_t cap, uint8_t *hdr, const uint8_t *end)
{
	uint16_t ulpdu = (uint16_t)(end - hdr - IW_MPA_LEN);
	struct fpdu f;

	if (wire_len(qp, ulpdu) > cap)
		return 0;
	fpdu_begin(&f, qp, out, hdr, ulpdu, ulpdu);
	return fpdu_end(&f, qp, ulpdu);
}

static size_t frame_terminate(struct iw_qp *qp, uint8_t *out, size_t cap)
{
	uint8_t hdr[HDR_MAX], *h;
	size_t n;

	h = put_untagged(qp, hdr + IW_MPA_LEN, IW_OP_TERMINATE, true, 0, IW_QN_TERM, 0);
	h += iw_term_encode(&qp->term, h);
	n = frame_hdr(qp, out, cap, hdr, h);
	if (n) {
		qp->term_due = 2;
		qp->term_end = qp->tx_pos;
	}
	return n;
}

static struct iw_ore *ord_push(struct iw_qp *qp, uint8_t op)
{
	struct iw_ore *o = iw_ore(qp, qp->ord_head++);

	*o = (struct iw_ore){ .op = op };
	return o;
}

/* The Initiator's first FPDU in the peer-to-peer model: an ordinary message of no octets. */
static size_t frame_rtr(struct iw_qp *qp, uint8_t *out, size_t cap)
{
	uint8_t hdr[HDR_MAX], *h = hdr + IW_MPA_LEN;
	size_t n;

	switch (qp->rtr_due) {
	case IW_RTR_WRITE:
		h = put_tagged(h, IW_OP_WRITE, true, 0, 0);
		break;
	case IW_RTR_READ:
		h = put_untagged(qp, h, IW_OP_READ_REQ, true, 0, IW_QN_READ, 0);
		h = put_read_req(h, 0, 0, 0, 0, 0);
		break;
	default:
		h = put_untagged(qp, h, IW_OP_SEND, true, 0, IW_QN_SEND, 0);
		break;
	}
	n = frame_hdr(qp, out, cap, hdr, h);
	if (!n)
		return 0;
	if (qp->rtr_due == IW_RTR_READ) {
		ord_push(qp, IW_WR_READ)->rtr = 1;
		qp->tx_msn[IW_QN_READ]++;
	} else if (qp->rtr_due == IW_RTR_SEND) {
		qp->tx_msn[IW_QN_SEND]++;
	}
	qp->rtr_due = IW_RTR_NONE;
	return n;
}

/* ---- send queue ---- */
static bool sq_ready(const struct iw_qp *qp)
{
	const struct iw_sqe *e = &qp->sq[iw_sq_at(qp->sq_next)];
	uint32_t inflight = qp->ord_head - qp->ord_tail;

	if (qp->sq_next == qp->sq_head)
		return false;
	if (e->wr.flags & IW_WR_FENCE && inflight)
		return false;
	return !iw_op_is_read(e->wr.op) || inflight < qp->param.ord;
}

static uint8_t send_opcode(const struct iw_wr *wr)
{
	if (wr->op == IW_WR_IMM)
		return wr->flags & IW_WR_SE ? IW_OP_IMM_SE : IW_OP_IMM;
	if (wr->flags & IW_WR_INVALIDATE)
		return wr->flags & IW_WR_SE ? IW_OP_SEND_SE_INV : IW_OP_SEND_INV;
	return wr->flags & IW_WR_SE ? IW_OP_SEND_SE : IW_OP_SEND;
}

/* Is all of the message's local memory good? Then a bad one is found before anything of it went out. */
static bool sges_ok(const struct iw_qp_ops *ops, void *ctx, const struct iw_wr *wr, unsigned int right)
{
	void *ptr;

	for (unsigned int i = 0; i < wr->nsge && !(ops->payload && right == IW_ACCESS_LOCAL_READ); i++)
		if (wr->sge[i].len && ops->access(ctx, wr->sge[i].stag, wr->sge[i].to, wr->sge[i].len, right, &ptr) != IW_ACC_OK)
			return false;
	return true;
}

/* The part of the next n octets that is in the work request itself: it comes first, behind the headers. Returns how many. */
static uint32_t put_inline(uint8_t *h, const struct iw_wr *wr, uint32_t off, uint32_t n)
{
	uint32_t k;

	if (!(wr->flags & IW_WR_INLINE) || off >= wr->inl_len)
		return 0;
	k = wr->inl_len - off < n ? wr->inl_len - off : n;
	memcpy(h, wr->inl + off, k);
	return k;
}

/* The next n octets of the message's gather list. The place reached is returned, not stored. */
static bool put_gather(struct fpdu *f, const struct iw_qp_ops *ops, void *ctx, const struct iw_wr *wr, uint32_t n,
		       uint8_t *sge, uint32_t *sge_off)
{
	while (n) {
		const struct iw_sge *s = &wr->sge[*sge];
		uint32_t k = s->len - *sge_off < n ? s->len - *sge_off : n;
		const void *src;
		void *ptr;

		if (k && ops->payload) {
			src = ops->payload(ctx, s->stag, s->to + *sge_off, &k);
			put(f, src, k);
		} else if (k) {
			if (ops->access(ctx, s->stag, s->to + *sge_off, k, IW_ACCESS_LOCAL_READ, &ptr) != IW_ACC_OK)
				return false;
			put(f, ptr, k);
		}
		n -= k;
		*sge_off += k;
		if (*sge_off == s->len) {
			*sge_off = 0;
			(*sge)++;
		}
	}
	return true;
}

/* RDMAP-7.1-02: an error while making a message is told by a Terminate without headers, instead of the message. */
static size_t sq_local_error(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, struct iw_sqe *e)
{
	e->status = IW_WC_LOC_PROT;
	iw_qp_fail(qp, ops, ctx, IW_TE_LOCAL, NULL);
	return 0;
}

static void sq_framed(struct iw_qp *qp, struct iw_sqe *e)
{
	e->st = IW_SQE_FRAMED;
	e->end = qp->tx_pos;
	qp->sq_next++;
	qp->tx_off = qp->tx_sge_off = 0;
	qp->tx_sge = 0;
	qp->tx_cur = CUR_NONE;
	qp->tx_turn = 1;
}

/* A message of so many octets was framed. */
static void sized(struct iw_qp *qp, uint32_t len)
{
	unsigned int b = len <= 64 ? 0 : (25 - (unsigned int)__builtin_clz(len - 1)) / 2 + 1;

	qp->stat.tx_size[b < IW_SIZES ? b : IW_SIZES - 1]++;
}

/* Payload of the next segment when n octets are left. FPDUs of any size are of about the same length: none is small and costs as much as a full one. */
static uint32_t cut(const struct iw_qp *qp, uint32_t n, uint32_t hdr_len)
{
	uint32_t max = qp->param.mulpdu - hdr_len, parts;

	if (n <= max)
		return n;
	if (qp->param.mulpdu < IW_MULPDU_MAX)
		return max;
	parts = n / max + !!(n % max);
	n = (n / parts + 7) & ~3u;
	return n < max ? n : max;
}

/* Send and Write: one segment. */
static size_t frame_payload(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, struct iw_sqe *e, uint8_t *out, size_t cap)
{
	const struct iw_wr *wr = &e->wr;
	bool write = wr->op == IW_WR_WRITE, last;
	uint8_t hdr[HDR_MAX], *h = hdr + IW_MPA_LEN, sge = qp->tx_sge;
	uint32_t hdr_len = write ? IW_DDP_TAGGED : IW_DDP_UNTAGGED, n = cut(qp, e->len - qp->tx_off, hdr_len), sge_off = qp->tx_sge_off, inl;
	struct fpdu f;
	uint16_t ulpdu;
	size_t wire;

	last = qp->tx_off + n == e->len;
	ulpdu = (uint16_t)(hdr_len + n);
	if (wire_len(qp, ulpdu) > cap)
		return 0;
	if (!last && !qp->tx_off && !sges_ok(ops, ctx, wr, IW_ACCESS_LOCAL_READ))
		return sq_local_error(qp, ops, ctx, e);
	if (write)
		put_tagged(h, IW_OP_WRITE, last, wr->rstag, wr->rto + qp->tx_off);
	else
		put_untagged(qp, h, send_opcode(wr), last, wr->flags & IW_WR_INVALIDATE ? wr->inv_stag : 0, IW_QN_SEND, qp->tx_off);
	inl = put_inline(h + hdr_len, wr, qp->tx_off, n);
	fpdu_begin(&f, qp, out, hdr, hdr_len + inl, ulpdu);
	if (!put_gather(&f, ops, ctx, wr, n - inl, &sge, &sge_off))
		return sq_local_error(qp, ops, ctx, e);
	wire = fpdu_end(&f, qp, ulpdu);
	e->st = IW_SQE_ACTIVE;
	qp->tx_cur = CUR_SQ;
	qp->tx_off += n;
	qp->tx_sge = sge;
	qp->tx_sge_off = sge_off;
	if (write)
		qp->stat.tx_write_octets += n;
	if (!last)
		return wire;
	sized(qp, qp->tx_off);
	if (write) {
		qp->stat.tx_write++;
	} else {
		qp->stat.tx_send++;
		qp->tx_msn[IW_QN_SEND]++;
	}
	sq_framed(qp, e);
	return wire;
}

static size_t frame_imm(struct iw_qp *qp, struct iw_sqe *e, uint8_t *out, size_t cap)
{
	uint8_t hdr[HDR_MAX], *h;
	size_t wire;

	h = put_untagged(qp, hdr + IW_MPA_LEN, send_opcode(&e->wr), true, 0, IW_QN_SEND, 0);
	memcpy(h, e->wr.imm, IW_IMM_LEN);
	wire = frame_hdr(qp, out, cap, hdr, h + IW_IMM_LEN);
	if (!wire)
		return 0;
	qp->tx_msn[IW_QN_SEND]++;
	qp->stat.tx_imm++;
	sq_framed(qp, e);
	return wire;
}

static size_t frame_request(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, struct iw_sqe *e, uint8_t *out, size_t cap)
{
	static const struct iw_sge none;
	const struct iw_wr *wr = &e->wr;
	const struct iw_sge *sink = wr->nsge ? &wr->sge[0] : &none;
	bool read = wr->op == IW_WR_READ;
	uint8_t hdr[HDR_MAX], *h;
	struct iw_ore *o;
	size_t wire;

	if (read && !sges_ok(ops, ctx, wr, IW_ACCESS_READ_SINK))
		return sq_local_error(qp, ops, ctx, e);
	h = put_untagged(qp, hdr + IW_MPA_LEN, read ? IW_OP_READ_REQ : IW_OP_ATOMIC_REQ, true, 0, IW_QN_READ, 0);
	if (read)
		h = put_read_req(h, sink->stag, sink->to, e->len, wr->rstag, wr->rto);
	else
		h = put_atomic_req(h, wr, qp->tx_rid);
	wire = frame_hdr(qp, out, cap, hdr, h);
	if (!wire)
		return 0;
	o = ord_push(qp, wr->op);
	o->sq = qp->sq_next;
	qp->tx_msn[IW_QN_READ]++;
	if (read) {
		qp->stat.tx_read++;
	} else {
		o->rid = qp->tx_rid++;
		qp->atomics++;
		qp->stat.tx_atomic++;
	}
	sq_framed(qp, e);
	return wire;
}

static size_t frame_sq(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, uint8_t *out, size_t cap)
{
	struct iw_sqe *e = iw_sqe(qp, qp->sq_next);

	if (e->wr.op == IW_WR_IMM)
		return frame_imm(qp, e, out, cap);
	if (iw_op_is_read(e->wr.op))
		return frame_request(qp, ops, ctx, e, out, cap);
	return frame_payload(qp, ops, ctx, e, out, cap);
}

/* ---- Responses ---- */
static void resp_framed(struct iw_qp *qp)
{
	/* the slot is free now, not when TCP has it: the peer may ask again as soon as it sees the last FPDU */
	qp->ird_tail++;
	qp->tx_cur = CUR_NONE;
	qp->tx_turn = 0;
}

/* A Read that fails part way quotes its Request moved on by what was sent (RDMAP-4.8-06). */
static size_t resp_error(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, enum iw_terr e)
{
	const struct iw_ire *r = iw_ire(qp, qp->ird_tail);
	uint8_t ddp[IW_DDP_UNTAGGED], req[sizeof(struct iw_read_req)];
	struct iw_quoted q = { .ddp = ddp, .ulpdu = r->ulpdu, .read_req = req };

	memcpy(ddp, r->ddp, sizeof(ddp));
	put_read_req(req, r->sink_stag, r->sink_to + r->done, r->size - r->done, r->src_stag, r->src_to + r->done);
	iw_qp_fail(qp, ops, ctx, e, &q);
	return 0;
}

static size_t frame_read_resp(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, struct iw_ire *r, uint8_t *out, size_t cap)
{
	uint8_t hdr[HDR_MAX];
	uint32_t n = cut(qp, r->size - r->done, IW_DDP_TAGGED);
	enum iw_access_err acc;
	struct fpdu f;
	void *ptr;
	uint16_t ulpdu;
	size_t wire;
	bool last;

	last = r->done + n == r->size;
	ulpdu = (uint16_t)(IW_DDP_TAGGED + n);
	if (wire_len(qp, ulpdu) > cap)
		return 0;
	if (n) {
		acc = ops->access(ctx, r->src_stag, r->src_to + r->done, n, IW_ACCESS_REMOTE_READ, &ptr);
		if (acc != IW_ACC_OK)
			return resp_error(qp, ops, ctx, iw_terr_rdmap(acc));
	}
	put_tagged(hdr + IW_MPA_LEN, IW_OP_READ_RESP, last, r->sink_stag, r->sink_to + r->done);
	fpdu_begin(&f, qp, out, hdr, IW_DDP_TAGGED, ulpdu);
	if (n)
		put(&f, ptr, n);
	wire = fpdu_end(&f, qp, ulpdu);
	r->done += n;
	qp->tx_cur = CUR_RESP;
	qp->stat.tx_read_octets += n;
	if (last) {
		qp->stat.tx_rresp++;
		sized(qp, r->size);
		resp_framed(qp);
	}
	return wire;
}

static size_t frame_atomic_resp(struct iw_qp *qp, const struct iw_ire *r, uint8_t *out, size_t cap)
{
	uint8_t hdr[HDR_MAX], *h;
	size_t wire;

	h = put_untagged(qp, hdr + IW_MPA_LEN, IW_OP_ATOMIC_RESP, true, 0, IW_QN_ATOMIC, 0);
	iw_put32(h + offsetof(struct iw_atomic_resp, rid), r->rid);
	iw_put64(h + offsetof(struct iw_atomic_resp, orig), r->orig);
	wire = frame_hdr(qp, out, cap, hdr, h + sizeof(struct iw_atomic_resp));
	if (wire) {
		qp->tx_msn[IW_QN_ATOMIC]++;
		resp_framed(qp);
	}
	return wire;
}

static size_t frame_resp(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, uint8_t *out, size_t cap)
{
	struct iw_ire *r = iw_ire(qp, qp->ird_tail);

	return r->atomic ? frame_atomic_resp(qp, r, out, cap) : frame_read_resp(qp, ops, ctx, r, out, cap);
}

/* ---- what next ---- */

/*
 * Whose FPDU is next. Segments of different messages are never mixed: DDP-5.3-01 wants messages out in the order submitted, and
 * Linux siw takes an interleaved tagged message for an error. Responses and the send queue take turns message by message.
 */
static int next_cur(const struct iw_qp *qp)
{
	bool resp = qp->ird_tail != qp->ird_head, sq;

	if (qp->tx_cur != CUR_NONE)
		return qp->tx_cur;
	sq = sq_ready(qp);
	if (resp && (qp->tx_turn || !sq))
		return CUR_RESP;
	return sq ? CUR_SQ : CUR_NONE;
}

static bool may_send(const struct iw_qp *qp)
{
	return qp->state == IW_QP_RTS && (qp->param.initiator || qp->first_seen);
}

bool iw_qp_tx_waits(const struct iw_qp *qp)
{
	if (qp->state == IW_QP_TERMINATE)
		return qp->term_due == 1;
	return may_send(qp) && (qp->rtr_due || next_cur(qp) != CUR_NONE);
}

static size_t frame_one(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, uint8_t *out, size_t cap)
{
	if (qp->state == IW_QP_TERMINATE)
		return qp->term_due == 1 ? frame_terminate(qp, out, cap) : 0;
	if (!may_send(qp))
		return 0;
	if (qp->rtr_due)
		return frame_rtr(qp, out, cap);
	switch (next_cur(qp)) {
	case CUR_SQ:
		return frame_sq(qp, ops, ctx, out, cap);
	case CUR_RESP:
		return frame_resp(qp, ops, ctx, out, cap);
	default:
		return 0;
	}
}

size_t iw_qp_tx(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, uint8_t *out, size_t cap, size_t budget)
{
	size_t n = 0;

	while (!budget || n < budget) {
		uint32_t state = qp->state;
		size_t k = frame_one(qp, ops, ctx, out + n, cap - n);

		n += k;
		if (!k && qp->state == state)
			break;		/* else a message failed and its Terminate is due */
	}
	qp->stat.tx_octets += n;
	return n;
}

void iw_qp_tx_done(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, size_t n)
{
	qp->tx_acked += n;
	if (qp->state == IW_QP_TERMINATE && qp->term_due == 2 && qp->tx_acked >= qp->term_end)
		qp->state = IW_QP_CLOSING;
	iw_qp_complete_sq(qp, ops, ctx);
}
