// SPDX-License-Identifier: MIT
/*
 * libFuzzer: a live ring stream on a live queue pair, and a hostile peer that knows its positions, STags and open Reads, so that it
 * gets past the first checks. The owner acts in between, as the daemon on memory of its own, or as the library on its map (proto/end.h), and
 * hands over. It may be hostile, too, and write to the map whatever it likes. Bounds, credits and the fate of every exposed STag are asserted; what
 * an honest owner leaves must be sound.
 */
#include <errno.h>

#include "fuzz.h"

#include "proto/end.h"
#include "proto/wire.h"

#define RING	65536u
#define RD	16384u
#define BUFS	12u
#define BUF	128u
#define TX_TO	0x10000000ull
#define RX_TO	(UINT64_MAX - RING - 1)
enum { TX = 0x11, RX, RDA, RQ, EXPOSED = 0x100 };

static struct {
	struct iw_map_priv own, shared, *at;	/* the daemon's, those in the map, and whose turn it is */
	struct iw_map *map;
	struct iw_end e;
	bool spoiled;			/* the map was written to: the stream may be anything, memory must hold */
	uint8_t *tx;
	struct { uint32_t stag, len; uint64_t off; } exposed[IW_RS_SA];
	unsigned int nexposed, stags, aborts;
	struct { uint32_t stag, size; uint64_t to; } read[IW_QP_ORD];	/* of the victim, not answered */
	unsigned int nread;
	uint32_t msn[4], part;		/* part: octets sent of a message that is not whole */
	bool ended;
	uint8_t out[IW_FPDU_MAX_MARKERS];
} z;

#define QP	(&z.at->s->qp)
#define RS	(&z.at->f->rs)

static bool mapped(void)
{
	return z.at == &z.shared;
}

/* ---- the victim's memory ---- */
static void *local(uint32_t stag, uint64_t to, uint64_t len)
{
	const struct { uint8_t *p; uint64_t to, len; } m[] = { { z.tx, TX_TO, RING }, { z.at->rx_ring, RX_TO, RING }, { z.at->rd, 0, RD },
								  { z.at->rq, 0, BUFS * BUF } };

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
	return iw_qp_post_send(QP, wr);
}

static int rs_post_recv(void *ctx, uint64_t wr_id, const struct iw_sge *sge)
{
	return iw_qp_post_recv(QP, wr_id, sge);
}

static unsigned int rs_sq_free(void *ctx)
{
	return iw_qp_sq_free(QP);
}

static void rs_event(void *ctx, enum iw_rs_event ev)
{
	z.aborts += ev == IW_RS_EV_ABORT;
	must(z.aborts <= 1 || z.spoiled);
}

static const struct iw_rs_ops rs_ops = {
	.post_send = rs_post_send, .post_recv = rs_post_recv, .sq_free = rs_sq_free, .mem = rs_mem, .expose = rs_expose,
	.unexpose = rs_unexpose, .event = rs_event,
};

static void qp_complete(void *ctx, const struct iw_cqe *cqe)
{
	iw_rs_complete(RS, &rs_ops, NULL, cqe);
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

static void looks(const uint8_t *out, size_t n)
{
	for (size_t i = 0; i < n && !z.spoiled; i += (2u + iw_get16(out + i) + 3u) / 4 * 4 + 4)
		look(out + i + 2, iw_get16(out + i));
}

static void drain(void)
{
	const uint8_t *p;
	size_t n;

	if (mapped()) {
		for (iw_end_pump(&z.e); (p = iw_end_out(&z.e, &n)); iw_end_pump(&z.e)) {
			looks(p, n);
			iw_end_out_done(&z.e, n);
		}
		z.ended |= QP->state != IW_QP_RTS;
		return;
	}
	iw_rs_pump(RS, &rs_ops, NULL);
	while ((n = iw_qp_tx(QP, &qp_ops, NULL, z.out, sizeof(z.out), 0))) {
		looks(z.out, n);
		iw_qp_tx_done(QP, &qp_ops, NULL, n);
		iw_rs_pump(RS, &rs_ops, NULL);
	}
}

static void check(bool pumped)
{
	const struct iw_rs *rs = RS;
	uint32_t stag, n;
	uint64_t to;

	if (mapped())
		must(iw_end_unread(&z.e) <= RING + (1ull << 30) * IW_RS_SA && !rs->tx_nsa && rs->tx_sent == rs->tx_pos);
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
static void give_mapped(const uint8_t *p, size_t n)
{
	for (size_t room, k; n; p += k, n -= k) {
		uint8_t *to = iw_end_in(&z.e, &room);

		must(room > 0);
		k = n < room ? n : room;
		memcpy(to, p, k);
		if (iw_end_unread(&z.e) || k & 1)
			iw_end_in_done(&z.e, k);
		else
			iw_end_in_later(&z.e, k);
	}
	must(z.e.later || z.e.s->rx_off == z.e.s->rx_len);
	z.ended |= QP->state != IW_QP_RTS;
}

static void give(uint8_t *fpdu, size_t ulpdu)
{
	size_t n = fpdu_close(fpdu, ulpdu);
	uint8_t *exact = malloc(n);

	memcpy(exact, fpdu, n);
	if (mapped()) {
		give_mapped(exact, n);
	} else {
		size_t used = iw_qp_rx(QP, &qp_ops, NULL, exact, n);

		must(used == n || z.spoiled);
	}
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
		v = RS->rx_prod + in16(in);
		break;
	case 1:
		v = RS->ring_acked + in16(in) % (RS->ring_sent - RS->ring_acked + 2);
		break;
	case 2:
		v = RS->tx_nsa ? RS->tx_sa[0].id + in8(in) % 3 : RS->rx_sa_id + in8(in) % 3;
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

/* A message in pieces, which may never be whole. */
static void peer_part(struct input *in)
{
	uint8_t f[256] = { 0 }, how = in8(in);
	size_t n = how % BUF;

	f[2] = how & 0x80 ? 0x41 : 1;
	f[3] = 0x40 | IW_OP_SEND;
	iw_put32(f + 12, z.msn[0]);
	iw_put32(f + 16, z.part);
	in_octets(in, f + 20, n);
	z.part = how & 0x80 ? 0 : z.part + (uint32_t)n;
	z.msn[0] += how >> 7;
	give(f, 18 + n);
}

static void peer_inline(struct input *in)
{
	uint8_t body[BUF];
	uint32_t n = in8(in) % (BUF - 8) + 1;

	iw_put64(body, 1ull << 60 | (uint64_t)(in8(in) & 7) << 56 | ((RS->rx_prod + n) & 0xffffffffffffull));
	in_octets(in, body + 8, n);
	untagged(IW_OP_SEND_SE, 0, 0, body, 8 + n);
}

static void peer_srcavail(struct input *in)
{
	uint8_t body[28];

	iw_put64(body, 4ull << 60 | (uint64_t)(in8(in) & 3) << 56 | ((RS->rx_sa_id + 1 + in8(in) % 2) & 0xffffffffffffull));
	iw_put32(body + 8, 0x99);
	iw_put64(body + 12, in16(in));
	iw_put64(body + 20, in16(in) * 16);
	untagged(IW_OP_SEND, 0, 0, body, sizeof(body));
}

static void peer_rddone(struct input *in)
{
	uint8_t body[16];
	const struct iw_rs_tx_sa *sa = &RS->tx_sa[0];
	uint8_t how = in8(in);

	iw_put64(body, 5ull << 60 | (uint64_t)(how & 1) << 56 | (RS->tx_nsa ? sa->id : 1));
	iw_put64(body + 8, how & 1 ? in16(in) : RS->tx_nsa ? sa->len : 0);
	untagged(how & 2 ? IW_OP_SEND : IW_OP_SEND_INV, 0, RS->tx_nsa ? sa->stag : 0, body, sizeof(body));
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
	case 11:
		peer_part(in);
		break;
	default:
		peer_raw(in);
	}
}

/* ---- the owner ---- */
static bool hand_over(bool honest)
{
	struct iw_soft *s = z.own.s;

	if (!mapped()) {
		if (z.ended || !iw_map_ready(&z.own))
			return true;
		iw_map_export(z.map, &z.own);
		must(!iw_end_open(&z.e, z.map, z.map->size));
		z.at = &z.shared;
		return true;
	}
	if (honest)
		iw_end_pump(&z.e);
	z.at = &z.own;
	if (iw_map_import(z.map, &z.own)) {
		must(!honest || s->qp.ird_head != s->qp.ird_tail);	/* Reads of nothing, and no room for the answers: a reset */
		return false;
	}
	/* T takes what is framed, and what came is parsed */
	for (unsigned int i = 0; i < 2; i++) {
		if (s->tx[i].used)
			iw_qp_tx_done(&s->qp, &qp_ops, NULL, s->tx[i].len - s->tx[i].off);
		s->tx[i].used = 0;
	}
	iw_qp_rx(&s->qp, &qp_ops, NULL, s->rx + s->rx_off, s->rx_len - s->rx_off);
	s->rx_off = s->rx_len = 0;
	z.ended |= s->qp.state != IW_QP_RTS;
	return true;
}

/* The owner of the map writes what it likes where it likes, but where nothing of use is; then the daemon takes over. False: it resets the stream. */
static bool scribble(struct input *in)
{
	struct iw_soft *s = z.shared.s;
	struct iw_qp *qp = &s->qp;
	const struct { void *p; size_t len; } at[] = {
		{ z.map, IW_MAP_PAGE }, { z.shared.f, sizeof(*z.shared.f) }, { (uint8_t *)s + IW_SOFT_HOT, offsetof(struct iw_soft, few) - IW_SOFT_HOT },
		{ &qp->rq_one, sizeof(qp->rq_one) }, { &qp->sq[iw_sq_at(qp->sq_tail)], sizeof(qp->sq[0]) },
	};

	z.spoiled = true;
	for (unsigned int n = 1 + in8(in) % 4; n--; ) {
		uint8_t how = in8(in);
		unsigned int i = (how & 7) % 5;
		uint8_t *p = (uint8_t *)at[i].p + in16(in) % (at[i].len - 8);
		uint64_t x = in48(in);

		if (how & 0x80)
			memcpy(p, &x, 8);
		else
			*p += (uint8_t)x;
	}
	return hand_over(false);
}

/* What the library's calls do. False: the stream is no more. */
static bool library(struct input *in, uint8_t what)
{
	static uint8_t buf[RING];
	struct iovec v[2] = { { .iov_base = buf, .iov_len = 5 }, { .iov_base = buf + 5, .iov_len = sizeof(buf) - 5 } };
	size_t n = in16(in) + 1, unread, k;

	switch (what) {
	case 0: case 1:
		if (!what && !iw_end_unread(&z.e))
			iw_end_want(&z.e, v, in->n & 7, n < RING - 8 ? n : RING - 8);
		iw_end_settle(&z.e);
		iw_end_wanted(&z.e);
		unread = iw_end_unread(&z.e);
		k = iw_end_get(&z.e, v, 2, in->n & 7, n < RING - 8 ? n : RING - 8, what, unread && what ? n % unread : 0);
		must(k <= n && k <= unread && (k || !unread));
		iw_end_unwant(&z.e);
		break;
	case 2: case 3:
		k = iw_end_put(&z.e, v, 2, in->n & 7, n < RING - 8 ? n : RING - 8);
		must(k <= n && (k || iw_end_blocked(&z.e) || iw_end_state(&z.e) & (IW_END_SHUT | IW_END_DEAD) || !iw_end_room(&z.e)));
		break;
	case 4:
		iw_end_fin(&z.e);
		break;
	case 5:
		if (in8(in) == 1)
			iw_end_abort(&z.e, ECONNABORTED);
		break;
	case 6:
		iw_end_emss(&z.e, (uint16_t)n);
		break;
	case 7:
		return scribble(in);
	default:
		return hand_over(true);
	}
	return true;
}

static void owner(struct input *in, uint8_t what)
{
	uint32_t off, n, stag;
	uint64_t to;

	switch (what) {
	case 0:
		n = iw_rs_rx_peek(RS, &stag, &to);
		off = in16(in) * 4;
		if (n)
			iw_rs_rx_consumed(RS, off < n ? off : n);
		break;
	case 1:
		iw_rs_tx_space(RS, 0, &off, &n);
		must(off < RING && n <= RING - off);
		if (n && !RS->tx_fin)
			iw_rs_tx_produced(RS, in16(in) * 4 % n + 1);
		break;
	case 2:
		iw_rs_tx_cancel(RS);
		break;
	case 3:
		iw_rs_tx_fin(RS);
		break;
	case 4:
		if (iw_rs_rx_fin(RS))
			iw_rs_rx_fin_consumed(RS);
		break;
	case 5:
		if (RS->tx_pos)
			iw_rs_tx_urgent(RS);
		break;
	case 6:
		iw_rs_rx_waiting(RS, in8(in) & 1);
		break;
	case 7:
		if (in8(in) == 1)
			iw_rs_abort(RS, ECONNABORTED);
		iw_rs_push(RS);
		break;
	case 8:
		iw_rs_ack(RS);
		break;
	case 9:
		hand_over(true);
		break;
	default:
		iw_rs_ping(RS);
	}
}

static void once(const struct iw_rs_param *p)
{
	z.tx = calloc(1, RING);
	z.own = (struct iw_map_priv){ .f = malloc(sizeof(*z.own.f)), .s = aligned_alloc(IW_SOFT_PAGE, sizeof(*z.own.s)), .rq = calloc(1, BUFS * BUF),
				      .rd = calloc(1, RD), .rx_ring = calloc(1, RING), .tx = z.tx };
	z.map = aligned_alloc(IW_MAP_PAGE, iw_map_size(p));
	memset(z.map, 0, iw_map_size(p));
	iw_map_at(z.map, p, &z.shared);
}

static void setup(struct input *in)
{
	const struct iw_rs_param p = {
		.tx_len = RING, .rx_len = RING, .rd_len = RD, .tx_stag = TX, .rx_stag = RX, .rd_stag = RDA, .rq_stag = RQ, .tx_to = TX_TO,
		.rx_to = RX_TO, .bufs = BUFS, .buf_size = BUF, .rq_step = BUF, .inline_max = 64, .srcavail_min = 2048, .read_max = 4096, .caps = 31,
	};
	const struct iw_qp_param q = { .initiator = 1, .mulpdu = 1442, .ird = 4, .ord = 4, .recv_min = 8 };
	struct iw_rs_pd pd;

	z.at = &z.own;
	if (!z.tx)
		once(&p);
	memset(z.map, 0, IW_MAP_PAGE);	/* the owner before scribbled over it */
	z.nexposed = z.aborts = z.nread = z.part = 0;
	z.ended = z.spoiled = false;
	for (int i = 0; i < 4; i++)
		z.msn[i] = 1;
	*z.own.f = (struct iw_remote){ .magic = IW_REMOTE_MAGIC, .version = IW_REMOTE_VERSION, .running = 1, .p = p };
	memset(&z.own.s->magic, 0, offsetof(struct iw_soft, few) - offsetof(struct iw_soft, magic));
	z.own.s->magic = IW_SOFT_MAGIC;
	z.own.s->version = IW_SOFT_VERSION;
	z.own.s->size = sizeof(*z.own.s);
	iw_qp_init(QP);
	must(!iw_rs_init(RS, &p, &pd) && !iw_rs_post_all(RS, &rs_ops, NULL) && !iw_qp_start(QP, &q));
	pd = (struct iw_rs_pd){ .ver_lo = 1, .ver_hi = 1, .caps = in8(in) & 31, .ring_len = RING, .bufs = (uint16_t)(8 + in8(in)), .buf_size = 128,
				.srcavail_max = in8(in) & 15 };
	must(!iw_rs_start(RS, &pd));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	if (size < 4 || size > 8192)
		return 0;
	setup(&in);
	while (in.n && !z.ended) {
		uint8_t op = in8(&in);

		if (op & 0x80 && mapped()) {
			if (!library(&in, op & 15))
				return 0;
		} else if (op & 0x80) {
			owner(&in, op & 15);
		} else {
			peer(&in, op & 15);
		}
		if (!(op & 0x40))
			drain();
		check(!(op & 0x40));
	}
	drain();
	check(true);
	if (mapped() && !z.spoiled && size & 1 && !hand_over(true))
		return 0;	/* also when it is over it is to be sound */
	if (mapped()) {
		iw_end_lost(&z.e, ECONNRESET);
		must(z.e.f->rs.done || iw_end_state(&z.e) & IW_END_DEAD);
	} else {
		iw_qp_lost(QP, &qp_ops, NULL, ECONNRESET);
	}
	check(false);
	return 0;
}
