// SPDX-License-Identifier: MIT
/*
 * libFuzzer: a live ring stream on a live queue pair, and a hostile peer that knows its positions, STags and open Reads, so that it
 * gets past the first checks. The owner acts in between. Bounds, credits and the fate of every exposed STag are asserted.
 */
#include <errno.h>

#include "fuzz.h"

#include "proto/qp.h"
#include "proto/rs.h"
#include "proto/wire.h"

#define RING	65536u
#define RD	16384u
#define BUFS	12u
#define BUF	128u
#define TX_TO	0x10000000ull
#define RX_TO	(UINT64_MAX - RING - 1)
enum { TX = 0x11, RX, RDA, RQ, EXPOSED = 0x100 };

static struct {
	struct iw_qp qp;
	struct iw_rs rs;
	uint8_t *tx, *rx, *rd, *rq;
	struct { uint32_t stag, len; uint64_t off; } exposed[IW_RS_SA];
	unsigned int nexposed, stags, aborts;
	struct { uint32_t stag, size; uint64_t to; } read[IW_QP_ORD];	/* of the victim, not answered */
	unsigned int nread;
	uint32_t msn[4];
	bool ended;
	uint8_t out[IW_FPDU_MAX_MARKERS];
} z;

/* ---- the victim's memory ---- */
static void *local(uint32_t stag, uint64_t to, uint64_t len)
{
	const struct { uint8_t *p; uint64_t to, len; } m[] = { { z.tx, TX_TO, RING }, { z.rx, RX_TO, RING }, { z.rd, 0, RD }, { z.rq, 0, BUFS * BUF } };

	if (stag < TX || stag > RQ || to < m[stag - TX].to || len > m[stag - TX].len || to - m[stag - TX].to > m[stag - TX].len - len)
		return NULL;
	return m[stag - TX].p + (to - m[stag - TX].to);
}

static void *rs_mem(void *ctx, uint32_t stag, uint64_t to, size_t len)
{
	void *p = local(stag, to, len);

	must(p);
	return p;
}

static enum iw_access_err qp_access(void *ctx, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	static const unsigned int rights[] = { IW_ACCESS_LOCAL_READ, IW_ACCESS_REMOTE_WRITE, IW_ACCESS_READ_SINK, IW_ACCESS_LOCAL_WRITE };

	if (to > UINT64_MAX - len)
		return IW_ACC_WRAP;
	for (unsigned int i = 0; i < z.nexposed; i++) {
		if (z.exposed[i].stag != stag)
			continue;
		if (right != IW_ACCESS_REMOTE_READ)
			return IW_ACC_RIGHTS;
		if (to > z.exposed[i].len || len > z.exposed[i].len - to)
			return IW_ACC_BOUNDS;
		*ptr = z.tx + z.exposed[i].off + to;
		return IW_ACC_OK;
	}
	if (stag < TX || stag > RQ)
		return IW_ACC_STAG;
	if (right != rights[stag - TX])
		return IW_ACC_RIGHTS;
	*ptr = local(stag, to, len);
	return *ptr ? IW_ACC_OK : IW_ACC_BOUNDS;
}

static void rs_unexpose(void *ctx, uint32_t stag)
{
	for (unsigned int i = 0; i < z.nexposed; i++)
		if (z.exposed[i].stag == stag)
			z.exposed[i] = z.exposed[--z.nexposed];
}

static enum iw_access_err qp_invalidate(void *ctx, uint32_t stag)
{
	unsigned int n = z.nexposed;

	rs_unexpose(ctx, stag);
	return n != z.nexposed ? IW_ACC_OK : IW_ACC_STAG;
}

static int rs_expose(void *ctx, uint64_t off, uint32_t len, uint32_t *stag, uint64_t *to)
{
	must(z.nexposed < IW_RS_SA && off <= RING && len <= RING - off);
	*stag = EXPOSED + z.stags++;
	*to = 0;
	z.exposed[z.nexposed].stag = *stag;
	z.exposed[z.nexposed].off = off;
	z.exposed[z.nexposed++].len = len;
	return 0;
}

static int rs_post_send(void *ctx, const struct iw_wr *wr)
{
	return iw_qp_post_send(&z.qp, wr);
}

static int rs_post_recv(void *ctx, uint64_t wr_id, const struct iw_sge *sge)
{
	return iw_qp_post_recv(&z.qp, wr_id, sge);
}

static unsigned int rs_sq_free(void *ctx)
{
	return iw_qp_sq_free(&z.qp);
}

static void rs_event(void *ctx, enum iw_rs_event ev)
{
	z.aborts += ev == IW_RS_EV_ABORT;
	must(z.aborts <= 1);
}

static const struct iw_rs_ops rs_ops = {
	.post_send = rs_post_send, .post_recv = rs_post_recv, .sq_free = rs_sq_free, .mem = rs_mem, .expose = rs_expose,
	.unexpose = rs_unexpose, .event = rs_event,
};

static void qp_complete(void *ctx, const struct iw_cqe *cqe)
{
	iw_rs_complete(&z.rs, &rs_ops, NULL, cqe);
}

static void qp_event(void *ctx, enum iw_qp_event ev)
{
	if (ev != IW_QP_EV_FIRST_FPDU && ev != IW_QP_EV_EOF)
		z.ended = true;
}

static const struct iw_qp_ops qp_ops = {
	.access = qp_access, .invalidate = qp_invalidate, .complete = qp_complete, .event = qp_event,
};

/* ---- what the victim sends: the peer looks for Read Requests only ---- */
static void look(const uint8_t *u, size_t n)
{
	if ((u[1] & 15) != IW_OP_READ_REQ)
		return;
	must(n == 18 + 28 && z.nread < IW_QP_ORD);
	z.read[z.nread].stag = iw_get32(u + 18);
	z.read[z.nread].to = iw_get64(u + 22);
	z.read[z.nread++].size = iw_get32(u + 30);
	must(iw_get32(u + 30) && iw_get32(u + 30) <= RD);
}

static void drain(void)
{
	size_t n;

	iw_rs_pump(&z.rs, &rs_ops, NULL);
	while ((n = iw_qp_tx(&z.qp, &qp_ops, NULL, z.out, sizeof(z.out), 0))) {
		for (size_t i = 0; i < n; i += (2u + iw_get16(z.out + i) + 3u) / 4 * 4 + 4)
			look(z.out + i + 2, iw_get16(z.out + i));
		iw_qp_tx_done(&z.qp, &qp_ops, NULL, n);
		iw_rs_pump(&z.rs, &rs_ops, NULL);
	}
}

static void check(bool pumped)
{
	const struct iw_rs *rs = &z.rs;
	uint32_t stag, n;
	uint64_t to;

	must(rs->rx_cons <= rs->rx_prod && rs->rx_prod - rs->rx_cons <= RING);
	must(rs->credits <= rs->peer_bufs && rs->unreturned <= BUFS);
	must(rs->ext_tail - rs->ext_head <= IW_RS_EXT && rs->rx_nsa <= IW_RS_SA && rs->tx_nsa <= IW_RS_SA);
	must(rs->tx_freed <= rs->tx_sent && rs->tx_sent <= rs->tx_pos && rs->ring_sent - rs->ring_acked <= rs->peer_len);
	must(z.nexposed <= rs->tx_nsa);
	must(!rs->dead || !z.nexposed || !pumped || z.ended);
	n = iw_rs_rx_peek(rs, &stag, &to);
	must(!n || local(stag, to, n));
}

/* ---- the peer ---- */
static void give(uint8_t *fpdu, size_t ulpdu)
{
	size_t n = fpdu_close(fpdu, ulpdu);
	uint8_t *exact = malloc(n);

	memcpy(exact, fpdu, n);
	must(iw_qp_rx(&z.qp, &qp_ops, NULL, exact, n) == n);
	free(exact);
}

static void untagged(uint8_t op, uint32_t qn, uint32_t inv, const uint8_t *payload, size_t n)
{
	uint8_t f[2048] = { 0 };

	f[2] = 0x41;
	f[3] = 0x40 | op;
	iw_put32(f + 4, inv);
	iw_put32(f + 8, qn);
	iw_put32(f + 12, z.msn[qn]++);
	memcpy(f + 20, payload, n);
	give(f, 18 + n);
}

static void tagged(uint8_t op, bool last, uint32_t stag, uint64_t to, const uint8_t *payload, size_t n)
{
	static uint8_t f[IW_FPDU_MAX];

	f[2] = last ? 0xc1 : 0x81;
	f[3] = 0x40 | op;
	iw_put32(f + 4, stag);
	iw_put64(f + 8, to);
	memcpy(f + 16, payload, n);
	give(f, 14 + n);
}

/* A control word: type and flags as they come, the value relative to what the victim expects, or any. */
static void word(struct input *in, uint8_t out[8])
{
	uint8_t how = in8(in), tf = in8(in);
	uint64_t v;

	switch (how & 3) {
	case 0:
		v = z.rs.rx_prod + in16(in);
		break;
	case 1:
		v = z.rs.ring_acked + in16(in) % (z.rs.ring_sent - z.rs.ring_acked + 2);
		break;
	case 2:
		v = z.rs.tx_nsa ? z.rs.tx_sa[0].id + in8(in) % 3 : z.rs.rx_sa_id + in8(in) % 3;
		break;
	default:
		v = in48(in);
	}
	iw_put64(out, (uint64_t)tf << 56 | (uint64_t)(how >> 4) << 48 | (v & 0xffffffffffffull));
}

static void peer_send(struct input *in, bool inv)
{
	uint8_t body[BUF + 8];
	size_t n;

	word(in, body);
	n = 8 + in_octets(in, body + 8, in8(in) % (BUF - 7));
	untagged(inv ? IW_OP_SEND_INV : IW_OP_SEND, 0, inv && z.nexposed ? z.exposed[0].stag : 0, body, n);
}

static void peer_inline(struct input *in)
{
	uint8_t body[BUF];
	uint32_t n = in8(in) % (BUF - 8) + 1;

	iw_put64(body, 1ull << 60 | (uint64_t)(in8(in) & 7) << 56 | ((z.rs.rx_prod + n) & 0xffffffffffffull));
	in_octets(in, body + 8, n);
	untagged(IW_OP_SEND_SE, 0, 0, body, 8 + n);
}

static void peer_srcavail(struct input *in)
{
	uint8_t body[28];

	iw_put64(body, 4ull << 60 | (uint64_t)(in8(in) & 3) << 56 | ((z.rs.rx_sa_id + 1 + in8(in) % 2) & 0xffffffffffffull));
	iw_put32(body + 8, 0x99);
	iw_put64(body + 12, in16(in));
	iw_put64(body + 20, in16(in) * 16);
	untagged(IW_OP_SEND, 0, 0, body, sizeof(body));
}

static void peer_rddone(struct input *in)
{
	uint8_t body[16];
	const struct iw_rs_tx_sa *sa = &z.rs.tx_sa[0];
	uint8_t how = in8(in);

	iw_put64(body, 5ull << 60 | (uint64_t)(how & 1) << 56 | (z.rs.tx_nsa ? sa->id : 1));
	iw_put64(body + 8, how & 1 ? in16(in) : z.rs.tx_nsa ? sa->len : 0);
	untagged(how & 2 ? IW_OP_SEND : IW_OP_SEND_INV, 0, z.rs.tx_nsa ? sa->stag : 0, body, sizeof(body));
}

static void peer_write(struct input *in)
{
	static uint8_t data[4096];
	size_t n = in16(in) % sizeof(data);

	in_octets(in, data, n < 64 ? n : 64);
	tagged(IW_OP_WRITE, !(in8(in) & 1), RX, RX_TO + in16(in), data, n);
}

static void peer_answer(struct input *in)
{
	static const uint8_t data[RD];
	uint8_t how = in8(in);
	uint32_t n;

	if (!z.nread)
		return;
	n = how & 1 ? z.read[0].size : in16(in) % (z.read[0].size + 2);
	tagged(IW_OP_READ_RESP, n >= z.read[0].size || how & 2, z.read[0].stag, z.read[0].to, data, n);
	z.read[0].to += n;
	z.read[0].size -= n < z.read[0].size ? n : z.read[0].size;
	if (!z.read[0].size)
		memmove(&z.read[0], &z.read[1], --z.nread * sizeof(z.read[0]));
}

static void peer_read(struct input *in)
{
	uint8_t h[28];

	iw_put32(h, 0x77);
	iw_put64(h + 4, in16(in));
	iw_put32(h + 12, in16(in));
	iw_put32(h + 16, z.nexposed ? z.exposed[in8(in) % z.nexposed].stag : TX);
	iw_put64(h + 20, in16(in));
	untagged(IW_OP_READ_REQ, 1, 0, h, sizeof(h));
}

static void peer_raw(struct input *in)
{
	uint8_t f[300] = { 0 };
	size_t n = in8(in);

	in_octets(in, f + 2, n);
	give(f, n);
}

static void peer(struct input *in, uint8_t op)
{
	uint8_t w[8];

	switch (op) {
	case 0: case 1:
		word(in, w);
		untagged(op ? IW_OP_IMM_SE : IW_OP_IMM, 0, 0, w, 8);
		break;
	case 2: case 3:
		peer_send(in, op == 3);
		break;
	case 4:
		peer_inline(in);
		break;
	case 5:
		peer_srcavail(in);
		break;
	case 6:
		peer_rddone(in);
		break;
	case 7:
		peer_write(in);
		break;
	case 8: case 9:
		peer_answer(in);
		break;
	case 10:
		peer_read(in);
		break;
	default:
		peer_raw(in);
	}
}

/* ---- the owner ---- */
static void owner(struct input *in, uint8_t what)
{
	uint32_t off, n, stag;
	uint64_t to;

	switch (what) {
	case 0:
		n = iw_rs_rx_peek(&z.rs, &stag, &to);
		off = in16(in) * 4;
		if (n)
			iw_rs_rx_consumed(&z.rs, off < n ? off : n);
		break;
	case 1:
		iw_rs_tx_space(&z.rs, &off, &n);
		must(off < RING && n <= RING - off);
		if (n && !z.rs.tx_fin)
			iw_rs_tx_produced(&z.rs, in16(in) * 4 % n + 1);
		break;
	case 2:
		iw_rs_tx_cancel(&z.rs);
		break;
	case 3:
		iw_rs_tx_fin(&z.rs);
		break;
	case 4:
		if (iw_rs_rx_fin(&z.rs))
			iw_rs_rx_fin_consumed(&z.rs);
		break;
	case 5:
		if (z.rs.tx_pos)
			iw_rs_tx_urgent(&z.rs);
		break;
	case 6:
		iw_rs_rx_waiting(&z.rs, in8(in) & 1);
		break;
	case 7:
		if (in8(in) == 1)
			iw_rs_abort(&z.rs, ECONNABORTED);
		iw_rs_push(&z.rs);
		break;
	case 8:
		iw_rs_ack(&z.rs);
		break;
	default:
		iw_rs_ping(&z.rs);
	}
}

static void setup(struct input *in)
{
	const struct iw_rs_param p = {
		.tx_len = RING, .rx_len = RING, .rd_len = RD, .tx_stag = TX, .rx_stag = RX, .rd_stag = RDA, .rq_stag = RQ, .tx_to = TX_TO,
		.rx_to = RX_TO, .bufs = BUFS, .buf_size = BUF, .rq_step = BUF, .inline_max = 64, .srcavail_min = 2048, .read_max = 4096, .caps = 31,
	};
	const struct iw_qp_param q = { .initiator = 1, .mulpdu = 1442, .ird = 4, .ord = 4, .recv_min = 8 };
	struct iw_rs_pd pd;

	if (!z.tx) {
		z.tx = calloc(1, RING);
		z.rx = calloc(1, RING);
		z.rd = calloc(1, RD);
		z.rq = calloc(1, BUFS * BUF);
	}
	z.nexposed = z.aborts = z.nread = 0;
	z.ended = false;
	for (int i = 0; i < 4; i++)
		z.msn[i] = 1;
	iw_qp_init(&z.qp);
	must(!iw_rs_init(&z.rs, &p, &pd) && !iw_rs_post_all(&z.rs, &rs_ops, NULL) && !iw_qp_start(&z.qp, &q));
	pd = (struct iw_rs_pd){ .ver_lo = 1, .ver_hi = 1, .caps = in8(in) & 31, .ring_len = RING, .bufs = (uint16_t)(8 + in8(in)), .buf_size = 128,
				.srcavail_max = in8(in) & 15 };
	must(!iw_rs_start(&z.rs, &pd));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	if (size < 4 || size > 8192)
		return 0;
	setup(&in);
	while (in.n && !z.ended) {
		uint8_t op = in8(&in);

		if (op & 0x80)
			owner(&in, op & 15);
		else
			peer(&in, op & 15);
		if (!(op & 0x40))
			drain();
		check(!(op & 0x40));
	}
	drain();
	check(true);
	iw_qp_lost(&z.qp, &qp_ops, NULL, ECONNRESET);
	check(false);
	return 0;
}
