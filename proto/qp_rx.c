// SPDX-License-Identifier: MIT
/*
 * Queue pair, receive side: finds FPDUs, checks each one completely in one fixed order, and only then places and delivers.
 * The order (all of MPA, then versions and opcode, then DDP's checks, then RDMAP's) keeps the payload of a message that
 * RDMAP will refuse out of user memory; but a reader that waits for it may have asked for it while the CRC is taken (sink() of qp.h).
 */
#include <errno.h>
#include <string.h>

#include "crc32c.h"
#include "mpa.h"
#include "qp_priv.h"

struct seg {			/* one ULPDU */
	struct iw_qp *qp;
	const struct iw_qp_ops *ops;
	void *ctx;
	const uint8_t *u;	/* it starts with its DDP header */
	const uint8_t *p;	/* payload */
	uint32_t n;		/* of the payload */
	uint16_t ulpdu;
	uint8_t op;		/* enum iw_opcode */
	bool tagged, last;
	uint32_t stag;		/* tagged: STag; untagged: Invalidate STag */
	uint64_t to;
	uint32_t qn, msn, mo;
	const uint8_t *read_req;	/* a Read Request whose header a Terminate may quote */
};

/* ---- checks of the header ---- */
static const struct {
	uint8_t known, tagged, qn;
} opcodes[16] = {
	[IW_OP_WRITE] = { 1, 1, 0 },
	[IW_OP_READ_REQ] = { 1, 0, IW_QN_READ },
	[IW_OP_READ_RESP] = { 1, 1, 0 },
	[IW_OP_SEND] = { 1, 0, IW_QN_SEND },
	[IW_OP_SEND_INV] = { 1, 0, IW_QN_SEND },
	[IW_OP_SEND_SE] = { 1, 0, IW_QN_SEND },
	[IW_OP_SEND_SE_INV] = { 1, 0, IW_QN_SEND },
	[IW_OP_TERMINATE] = { 1, 0, IW_QN_TERM },
	[IW_OP_IMM] = { 1, 0, IW_QN_SEND },
	[IW_OP_IMM_SE] = { 1, 0, IW_QN_SEND },
	[IW_OP_ATOMIC_REQ] = { 1, 0, IW_QN_READ },
	[IW_OP_ATOMIC_RESP] = { 1, 0, IW_QN_ATOMIC },
};

static bool is_imm(uint8_t op)
{
	return op == IW_OP_IMM || op == IW_OP_IMM_SE;
}

static enum iw_terr check_header(struct seg *s)
{
	uint32_t hdr;

	s->tagged = s->ulpdu && s->u[0] & IW_DDP_T;
	hdr = s->tagged ? IW_DDP_TAGGED : IW_DDP_UNTAGGED;
	if (s->ulpdu < hdr)
		return IW_TE_DDP_LOCAL;
	s->last = s->u[0] & IW_DDP_L;
	s->op = s->u[1] & IW_RDMAP_OP;
	s->p = s->u + hdr;
	s->n = s->ulpdu - hdr;
	if ((s->u[0] & IW_DDP_DV) != IW_DDP_VERSION)
		return s->tagged ? IW_TE_T_VERSION : IW_TE_U_VERSION;
	if ((s->u[1] & IW_RDMAP_RV) != IW_RDMAP_VERSION)
		return IW_TE_RO_VERSION;
	if (!opcodes[s->op].known || opcodes[s->op].tagged != s->tagged)
		return IW_TE_RO_OPCODE;
	s->stag = iw_get32(s->u + 2);
	if (s->tagged) {
		s->to = iw_get64(s->u + offsetof(struct iw_ddp_tagged, to));
		return IW_TE_OK;
	}
	s->qn = iw_get32(s->u + offsetof(struct iw_ddp_untagged, qn));
	s->msn = iw_get32(s->u + offsetof(struct iw_ddp_untagged, msn));
	s->mo = iw_get32(s->u + offsetof(struct iw_ddp_untagged, mo));
	return IW_TE_OK;
}

/* Buffers of a queue, that of the open message included. */
static uint32_t buffers(const struct iw_qp *qp, uint32_t qn)
{
	switch (qn) {
	case IW_QN_SEND:
		return qp->rq_head - qp->rq_tail;
	case IW_QN_READ:
		return qp->param.ird - (qp->ird_head - qp->ird_tail);
	default:
		return qp->atomics;
	}
}

static uint32_t buffer_len(struct iw_qp *qp, uint32_t qn)
{
	switch (qn) {
	case IW_QN_SEND:
		return iw_rqe(qp, qp->rq_tail)->sge.len;
	case IW_QN_READ:
		return IW_QP_UBUF;
	default:
		return sizeof(struct iw_atomic_resp);
	}
}

/* Zero-length segments go through all of it too. */
static enum iw_terr check_untagged(struct seg *s)
{
	struct iw_qp *qp = s->qp;
	uint32_t ahead, have;

	if (s->qn >= IW_QN_COUNT)
		return IW_TE_U_QN;
	if (opcodes[s->op].qn != s->qn)
		return IW_TE_RO_OPCODE;
	if (s->op == IW_OP_TERMINATE)
		return IW_TE_OK;	/* never answered, whatever its MSN and MO */
	ahead = s->msn - qp->rx_msn[s->qn];
	have = buffers(qp, s->qn);
	if ((int32_t)ahead < 0)
		return IW_TE_U_MSN;
	if (ahead >= have)
		return IW_TE_U_NOBUF;
	if (ahead)
		return IW_TE_U_MSN;	/* in DDP's range, but TCP never reorders: a message was skipped */
	if (qp->rx_open[s->qn] && qp->rx_open[s->qn] != s->op + 1)
		return IW_TE_RO_OPCODE;
	if (s->mo != qp->rx_mo[s->qn])
		return IW_TE_U_MO;
	if ((uint64_t)s->mo + s->n > buffer_len(qp, s->qn))
		return (uint64_t)s->mo + s->n > UINT32_MAX ? IW_TE_U_MO : IW_TE_U_TOOLONG;
	return IW_TE_OK;
}

/* ---- Send, Immediate ---- */
static void pop_untagged(struct iw_qp *qp, uint32_t qn)
{
	qp->rx_msn[qn]++;
	qp->rx_mo[qn] = 0;
	qp->rx_open[qn] = 0;
}

static enum iw_terr deliver_qn0(struct seg *s)
{
	struct iw_qp *qp = s->qp;
	struct iw_cqe cqe = { .wr_id = iw_rqe(qp, qp->rq_tail)->wr_id, .op = IW_WR_RECV, .len = qp->rx_mo[IW_QN_SEND] };

	cqe.se = s->op == IW_OP_SEND_SE || s->op == IW_OP_SEND_SE_INV || s->op == IW_OP_IMM_SE;
	if (is_imm(s->op)) {
		if (cqe.len != IW_IMM_LEN)
			return IW_TE_RO_UNSPEC;
		cqe.has_imm = 1;
		memcpy(cqe.imm, qp->imm, IW_IMM_LEN);
		qp->stat.rx_imm++;
	} else {
		if (s->op == IW_OP_SEND_INV || s->op == IW_OP_SEND_SE_INV) {
			if (s->ops->invalidate(s->ctx, s->stag) != IW_ACC_OK)
				return IW_TE_RP_INV;
			cqe.has_inv = 1;
			cqe.inv_stag = s->stag;
		}
		qp->stat.rx_send++;
	}
	pop_untagged(qp, IW_QN_SEND);
	qp->rq_tail++;
	s->ops->complete(s->ctx, &cqe);
	return IW_TE_OK;
}

/* A receive buffer that is no longer registered is our own fault: local catastrophic, and the receive says why. */
static enum iw_terr recv_lost(struct seg *s)
{
	struct iw_cqe cqe = { .wr_id = iw_rqe(s->qp, s->qp->rq_tail)->wr_id, .op = IW_WR_RECV, .status = IW_WC_LOC_PROT };

	s->qp->rq_tail++;
	s->ops->complete(s->ctx, &cqe);
	return IW_TE_DDP_LOCAL;
}

static enum iw_terr place_qn0(struct seg *s)
{
	struct iw_qp *qp = s->qp;
	const struct iw_sge *b = &iw_rqe(qp, qp->rq_tail)->sge;
	void *ptr;

	if (is_imm(s->op)) {
		if (s->mo < IW_IMM_LEN)
			memcpy(qp->imm + s->mo, s->p, s->n < IW_IMM_LEN - s->mo ? s->n : IW_IMM_LEN - s->mo);
	} else if (s->n && !(s->last && !s->mo && s->ops->whole && s->ops->whole(s->ctx, s->p, s->n))) {
		if (s->ops->access(s->ctx, b->stag, b->to + s->mo, s->n, IW_ACCESS_LOCAL_WRITE, &ptr) != IW_ACC_OK)
			return recv_lost(s);
		memcpy(ptr, s->p, s->n);
	}
	qp->rx_mo[IW_QN_SEND] += s->n;
	qp->rx_open[IW_QN_SEND] = s->op + 1;
	return s->last ? deliver_qn0(s) : IW_TE_OK;
}

/* ---- Read and Atomic Requests ---- */
static struct iw_ire *ird_push(struct seg *s)
{
	struct iw_ire *r = iw_ire(s->qp, s->qp->ird_head++);

	memset(r, 0, sizeof(*r));
	r->ulpdu = s->ulpdu;
	memcpy(r->ddp, s->u, sizeof(r->ddp));
	return r;
}

static enum iw_terr deliver_read(struct seg *s, const uint8_t *h)
{
	uint32_t size = iw_get32(h + offsetof(struct iw_read_req, size));
	uint32_t stag = iw_get32(h + offsetof(struct iw_read_req, src_stag));
	uint64_t to = iw_get64(h + offsetof(struct iw_read_req, src_to));
	enum iw_access_err acc;
	struct iw_ire *r;
	void *ptr;

	s->read_req = h;
	if (size) {
		acc = s->ops->access(s->ctx, stag, to, size, IW_ACCESS_REMOTE_READ, &ptr);
		if (acc != IW_ACC_OK)
			return iw_terr_rdmap(acc);
	}
	r = ird_push(s);
	r->sink_stag = iw_get32(h + offsetof(struct iw_read_req, sink_stag));
	r->sink_to = iw_get64(h + offsetof(struct iw_read_req, sink_to));
	r->size = size;
	r->src_stag = stag;
	r->src_to = to;
	s->qp->stat.rx_read++;
	return IW_TE_OK;
}

/* Host atomic instructions, so local threads and every other stream see it as one step too (EXT-5.3). */
static uint64_t atomic_run(uint64_t *word, bool add, const uint8_t *h)
{
	uint64_t v = iw_get64(h + offsetof(struct iw_atomic_req, add_swap));
	uint64_t vmask = iw_get64(h + offsetof(struct iw_atomic_req, add_swap_mask));
	uint64_t cmp = iw_get64(h + offsetof(struct iw_atomic_req, compare));
	uint64_t cmask = iw_get64(h + offsetof(struct iw_atomic_req, compare_mask));
	uint64_t old = __atomic_load_n(word, __ATOMIC_SEQ_CST), new;

	do {
		new = add ? iw_fetchadd(old, v, vmask) : iw_cmpswap(old, cmp, cmask, v, vmask);
	} while (!__atomic_compare_exchange_n(word, &old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	return old;
}

/*
 * Alignment is that of the buffer's address (EXT-5.1-02), so the STag has to be looked up first; the order wanted,
 * alignment before bounds, is kept by looking at the first octet when all eight are not there.
 */
static enum iw_terr atomic_target(struct seg *s, uint32_t stag, uint64_t to, void **word)
{
	enum iw_access_err acc = s->ops->access(s->ctx, stag, to, 8, IW_ACCESS_REMOTE_ATOMIC, word);
	void *first;

	if (acc == IW_ACC_OK)
		return (uintptr_t)*word & 7 ? IW_TE_RO_STREAM : IW_TE_OK;
	if (acc == IW_ACC_BOUNDS && s->ops->access(s->ctx, stag, to, 1, IW_ACCESS_REMOTE_ATOMIC, &first) == IW_ACC_OK &&
	    (uintptr_t)first & 7)
		return IW_TE_RO_STREAM;
	return iw_terr_rdmap(acc);
}

static enum iw_terr deliver_atomic(struct seg *s, const uint8_t *h)
{
	uint32_t aop = iw_get32(h + offsetof(struct iw_atomic_req, aop)) & IW_AOP_MASK;
	enum iw_terr e;
	struct iw_ire *r;
	void *word;

	if (aop != IW_AOP_FETCHADD && aop != IW_AOP_CMPSWAP)
		return IW_TE_RO_OPCODE;
	e = atomic_target(s, iw_get32(h + offsetof(struct iw_atomic_req, stag)), iw_get64(h + offsetof(struct iw_atomic_req, to)), &word);
	if (e)
		return e;
	r = ird_push(s);
	r->atomic = 1;
	r->rid = iw_get32(h + offsetof(struct iw_atomic_req, rid));
	r->orig = atomic_run(word, aop == IW_AOP_FETCHADD, h);
	s->qp->stat.rx_atomic++;
	return IW_TE_OK;
}

static enum iw_terr deliver_atomic_resp(struct seg *s, const uint8_t *h)
{
	struct iw_qp *qp = s->qp;
	struct iw_ore *o = iw_ore(qp, qp->ord_tail);
	struct iw_sqe *e;

	/* a Response is due in the order of the Requests, Reads and Atomics in one run (EXT-5.2.2-03) */
	if (o->op == IW_WR_READ)
		return IW_TE_RO_OPCODE;
	if (iw_get32(h + offsetof(struct iw_atomic_resp, rid)) != o->rid)
		return IW_TE_RO_UNSPEC;
	e = iw_sqe(qp, o->sq);
	e->orig = iw_get64(h + offsetof(struct iw_atomic_resp, orig));
	e->st = IW_SQE_DONE;
	qp->ord_tail++;
	qp->atomics--;
	return IW_TE_OK;
}

/* QN 1 and QN 3: messages of a fixed size, put together in the QP when they come in pieces. */
static enum iw_terr place_fixed(struct seg *s)
{
	struct iw_qp *qp = s->qp;
	uint8_t *buf = qp->ubuf[s->qn == IW_QN_ATOMIC];
	const uint8_t *h = s->p;
	enum iw_terr e;
	uint32_t len;

	if (s->mo || !s->last) {
		memcpy(buf + s->mo, s->p, s->n);
		h = buf;
	}
	len = qp->rx_mo[s->qn] += s->n;
	qp->rx_open[s->qn] = s->op + 1;
	if (!s->last)
		return IW_TE_OK;
	switch (s->op) {
	case IW_OP_READ_REQ:
		e = len == sizeof(struct iw_read_req) ? deliver_read(s, h) : IW_TE_RO_UNSPEC;
		break;
	case IW_OP_ATOMIC_REQ:
		e = len == sizeof(struct iw_atomic_req) ? deliver_atomic(s, h) : IW_TE_RO_UNSPEC;
		break;
	default:
		e = len == sizeof(struct iw_atomic_resp) ? deliver_atomic_resp(s, h) : IW_TE_RO_UNSPEC;
		break;
	}
	if (e)
		return e;
	pop_untagged(qp, s->qn);
	if (s->op == IW_OP_ATOMIC_RESP)
		iw_qp_complete_sq(qp, s->ops, s->ctx);
	return IW_TE_OK;
}

/* ---- Terminate received ---- */
static bool quotes_request(const struct iw_term *t)
{
	uint8_t op = t->ddp[1] & IW_RDMAP_OP;

	return t->has_rdmap || (t->has_ddp && (op == IW_OP_READ_REQ || op == IW_OP_ATOMIC_REQ));
}

static void terminate_received(struct seg *s)
{
	struct iw_qp *qp = s->qp;

	iw_term_decode(&qp->term, s->p, s->n);
	qp->term.bad = s->msn != qp->rx_msn[IW_QN_TERM] || s->mo;
	/* the Read or Atomic it complains of is the oldest one without its Response */
	if (qp->ord_tail != qp->ord_head && quotes_request(&qp->term) && !iw_ore(qp, qp->ord_tail)->rtr)
		iw_sqe(qp, iw_ore(qp, qp->ord_tail)->sq)->status = IW_WC_REM_ERR;
	qp->state = IW_QP_CLOSING;
	s->ops->event(s->ctx, IW_QP_EV_TERM_RECEIVED);
	iw_qp_flush(qp, s->ops, s->ctx);
}

/* ---- tagged ---- */
static enum iw_terr place_read_resp(struct seg *s)
{
	static const struct iw_sge none;
	struct iw_qp *qp = s->qp;
	struct iw_ore *o = iw_ore(qp, qp->ord_tail);
	const struct iw_sge *sink = &none;
	enum iw_access_err acc;
	uint32_t size = 0;
	void *ptr;

	if (qp->ord_tail == qp->ord_head || o->op != IW_WR_READ)
		return IW_TE_RO_OPCODE;
	if (!o->rtr) {
		struct iw_sqe *e = iw_sqe(qp, o->sq);

		size = e->len;
		if (e->wr.nsge)
			sink = &e->wr.sge[0];
	}
	if (s->n) {
		if (s->stag != sink->stag)
			return IW_TE_T_STAG;
		if (s->to != sink->to + o->got)
			return IW_TE_T_BOUNDS;
	}
	if (s->n > size - o->got || (s->last && s->n != size - o->got))
		return IW_TE_T_BOUNDS;
	if (s->n) {
		acc = s->ops->access(s->ctx, sink->stag, s->to, s->n, IW_ACCESS_READ_SINK, &ptr);
		if (acc != IW_ACC_OK)
			return iw_terr_ddp(acc);
		memcpy(ptr, s->p, s->n);
		qp->stat.rx_read_octets += s->n;
	}
	o->got += s->n;
	o->open = !s->last;
	if (!s->last)
		return IW_TE_OK;
	qp->stat.rx_rresp++;
	if (!o->rtr)
		iw_sqe(qp, o->sq)->st = IW_SQE_DONE;
	qp->ord_tail++;
	iw_qp_complete_sq(qp, s->ops, s->ctx);
	return IW_TE_OK;
}

static enum iw_access_err place(struct seg *s)
{
	enum iw_access_err acc;
	void *ptr;

	if (s->ops->place)
		return s->ops->place(s->ctx, s->stag, s->to, s->p, s->n);
	acc = s->ops->access(s->ctx, s->stag, s->to, s->n, IW_ACCESS_REMOTE_WRITE, &ptr);
	if (acc == IW_ACC_OK)
		memcpy(ptr, s->p, s->n);
	return acc;
}

static enum iw_terr place_write(struct seg *s)
{
	struct iw_qp *qp = s->qp;
	enum iw_access_err acc;

	if (s->n) {
		acc = place(s);
		if (acc != IW_ACC_OK)
			return iw_terr_ddp(acc);
		qp->stat.rx_write_octets += s->n;
	} else {
		qp->stat.rx_zero_tagged++;	/* STag and TO are not looked at (DDP-5.2-07) */
	}
	qp->write_open = !s->last;
	qp->stat.rx_write += s->last;
	return IW_TE_OK;
}

/* ---- one ULPDU ---- */
static void rx_ulpdu(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, const uint8_t *u, uint16_t ulpdu)
{
	struct seg s = { .qp = qp, .ops = ops, .ctx = ctx, .u = u, .ulpdu = ulpdu };
	struct iw_quoted q = { .ulpdu = ulpdu };
	enum iw_terr e;

	e = check_header(&s);
	if (e)
		goto fail;
	if (!s.last && ulpdu < IW_MULPDU_MIN)
		qp->stat.rx_tiny++;	/* nobody has a reason to cut so small */
	if (s.tagged) {
		e = s.op == IW_OP_WRITE ? place_write(&s) : place_read_resp(&s);
	} else {
		e = check_untagged(&s);
		if (e)
			goto fail;
		if (s.op == IW_OP_TERMINATE)
			terminate_received(&s);
		else
			e = s.qn == IW_QN_SEND ? place_qn0(&s) : place_fixed(&s);
	}
	if (!e)
		return;
fail:
	q.ddp = s.p ? u : NULL;		/* with p the header is whole */
	q.read_req = s.read_req;
	iw_qp_fail(qp, ops, ctx, e, &q);
}

/* ---- FPDUs ---- */
struct fpdu {
	uint32_t wire;		/* octets on the wire; 0: not all there */
	uint16_t ulpdu;
	uint8_t *u;		/* the ULPDU */
};

static bool crc_ok(const struct iw_qp *qp, const uint8_t *in, uint32_t wire)
{
	return !qp->param.crc || iw_crc32c(0, in, wire - IW_MPA_CRC) == iw_crc32c_get(in + wire - IW_MPA_CRC);
}

/* The same in one pass with a copy for who waits for the payload. */
static bool crc_ok_sink(const struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, const uint8_t *in, const struct fpdu *f)
{
	uint32_t head = IW_MPA_LEN + IW_DDP_TAGGED, n = f->ulpdu - IW_DDP_TAGGED, crc;
	uint8_t *to = NULL;

	if (qp->param.crc && ops->sink && f->ulpdu >= IW_DDP_TAGGED + IW_QP_SINK && f->u[0] & IW_DDP_T && (f->u[1] & IW_RDMAP_OP) == IW_OP_WRITE)
		to = ops->sink(ctx, iw_get32(f->u + 2), iw_get64(f->u + offsetof(struct iw_ddp_tagged, to)), n);
	if (!to)
		return crc_ok(qp, in, f->wire);
	crc = iw_crc32c_copy(iw_crc32c(0, in, head), to, in + head, n);
	crc = iw_crc32c(crc, in + head + n, f->wire - IW_MPA_CRC - head - n);
	return crc == iw_crc32c_get(in + f->wire - IW_MPA_CRC);
}

static enum iw_terr find_plain(const struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, uint8_t *in, size_t len, struct fpdu *f)
{
	uint32_t wire;

	if (len < IW_MPA_LEN)
		return IW_TE_OK;
	f->ulpdu = iw_get16(in);
	wire = iw_mpa_fpdu_len(f->ulpdu);
	if (len < wire)
		return IW_TE_OK;
	f->wire = wire;
	f->u = in + IW_MPA_LEN;
	return crc_ok_sink(qp, ops, ctx, in, f) ? IW_TE_OK : IW_TE_LLP_CRC;
}

/* Check every Marker of a whole FPDU and close the gaps. The low two bits of FPDUPTR count as 0 (MPA-4.2-02). */
static enum iw_terr take_markers(const struct iw_qp *qp, uint8_t *in, uint32_t wire, uint32_t lenpos)
{
	uint32_t first = (uint32_t)(-qp->rx_pos & (IW_MARKER_IV - 1)), m;
	uint8_t *w = NULL;

	for (m = first; m < wire; m += IW_MARKER_IV) {
		uint32_t next = m + IW_MARKER_IV < wire ? m + IW_MARKER_IV : wire;
		uint32_t want = m < lenpos ? 0 : m - lenpos;

		if ((iw_get16(in + m + 2) & ~3u) != want)
			return IW_TE_LLP_MARKER;
		if (m < lenpos)
			continue;	/* before the length field: nothing to close */
		if (!w)
			w = in + m;
		memmove(w, in + m + IW_MARKER_LEN, next - m - IW_MARKER_LEN);
		w += next - m - IW_MARKER_LEN;
	}
	return IW_TE_OK;
}

static enum iw_terr find_markers(const struct iw_qp *qp, uint8_t *in, size_t len, struct fpdu *f)
{
	uint32_t lenpos = qp->rx_pos % IW_MARKER_IV ? 0 : IW_MARKER_LEN, wire;

	if (len < lenpos + IW_MPA_LEN)
		return IW_TE_OK;
	f->ulpdu = iw_get16(in + lenpos);
	wire = iw_mpa_fpdu_len_markers(qp->rx_pos, f->ulpdu);
	if (len < wire)
		return IW_TE_OK;
	f->wire = wire;
	f->u = in + lenpos + IW_MPA_LEN;
	if (!crc_ok(qp, in, wire))
		return IW_TE_LLP_CRC;
	return take_markers(qp, in, wire, lenpos);
}

/* One FPDU. Returns its octets, 0 when it is not whole. */
static size_t rx_fpdu(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, uint8_t *in, size_t len)
{
	struct fpdu f = { 0 };
	enum iw_terr e = qp->param.rx_markers ? find_markers(qp, in, len, &f) : find_plain(qp, ops, ctx, in, len, &f);

	if (!f.wire)
		return 0;
	qp->rx_pos += f.wire;
	qp->stat.rx_fpdu++;
	if (e) {
		iw_qp_fail(qp, ops, ctx, e, NULL);
		return f.wire;
	}
	if (!qp->first_seen) {
		qp->first_seen = 1;
		ops->event(ctx, IW_QP_EV_FIRST_FPDU);
	}
	if (qp->state == IW_QP_RTS)
		rx_ulpdu(qp, ops, ctx, f.u, f.ulpdu);
	return f.wire;
}

size_t iw_qp_rx(struct iw_qp *qp, const struct iw_qp_ops *ops, void *ctx, uint8_t *in, size_t len)
{
	size_t used = 0, n;

	if (qp->state == IW_QP_IDLE)
		return 0;
	if (qp->rx_eof && len)		/* DDP-6.2.1-02 */
		iw_qp_lost(qp, ops, ctx, EPROTO);
	while (qp->state == IW_QP_RTS && used < len) {
		n = rx_fpdu(qp, ops, ctx, in + used, len - used);
		if (!n)
			break;
		used += n;
	}
	if (qp->state != IW_QP_RTS)
		used = len;
	qp->stat.rx_octets += used;
	return used;
}
