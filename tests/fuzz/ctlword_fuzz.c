// SPDX-License-Identifier: MIT
/*
 * libFuzzer: octets become private data, then messages to a ring stream and acts of its owner; bounds are asserted after each.
 * clang -g -O1 -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined tests/fuzz/ctlword_fuzz.c proto/rs*.c proto/ctlword.c
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/rs.h"

#define RING	65536u
#define BUFS	16u
#define BUF	128u
enum { TX = 1, RX, RD, RQ };

#define must(cond) do { if (!(cond)) abort(); } while (0)

static struct iw_rs rs;
static uint8_t *tx, *rx, *rd, *rq;
static uint32_t posted, exposed;
static struct { uint64_t id; uint32_t op; } sq[256];
static uint32_t head, tail;
static uint8_t next_buf[BUFS];
static uint32_t rq_head, rq_tail;

static void *mem(void *ctx, uint32_t stag, uint64_t to, size_t len)
{
	uint8_t *const base[] = { [TX] = tx, [RX] = rx, [RD] = rd, [RQ] = rq };
	const uint64_t size[] = { [TX] = RING, [RX] = RING, [RD] = RING, [RQ] = BUFS * BUF };

	must(stag >= TX && stag <= RQ && to <= size[stag] && len <= size[stag] - to);
	return base[stag] + to;
}

static int post_send(void *ctx, const struct iw_wr *wr)
{
	must(head - tail < 256);
	for (unsigned int i = 0; i < wr->nsge; i++)
		mem(ctx, wr->sge[i].stag, wr->sge[i].to, wr->sge[i].len);
	if (!(wr->flags & IW_WR_QUIET)) {
		sq[head % 256].id = wr->wr_id;
		sq[head++ % 256].op = wr->op;
	}
	posted++;
	return 0;
}

static int post_recv(void *ctx, uint64_t wr_id, const struct iw_sge *sge)
{
	must(sge->stag == RQ && rq_head - rq_tail < BUFS);
	next_buf[rq_head++ % BUFS] = (uint8_t)wr_id;
	return 0;
}

static unsigned int sq_free(void *ctx)
{
	return 256 - (head - tail);
}

static int expose(void *ctx, uint64_t off, uint32_t len, uint32_t *stag, uint64_t *to)
{
	mem(ctx, TX, off, len);
	*stag = 100 + exposed++;
	*to = off;
	return 0;
}

static void unexpose(void *ctx, uint32_t stag)
{
}

static void event(void *ctx, enum iw_rs_event ev)
{
}

static const struct iw_rs_ops ops = {
	.post_send = post_send, .post_recv = post_recv, .sq_free = sq_free, .mem = mem, .expose = expose, .unexpose = unexpose,
	.event = event,
};

static void complete_all(void)
{
	while (head != tail) {
		struct iw_cqe c = { .wr_id = sq[tail % 256].id, .op = (uint8_t)sq[tail % 256].op };

		tail++;
		iw_rs_complete(&rs, &ops, NULL, &c);
	}
}

static void message(const uint8_t *in, size_t len, uint8_t how)
{
	struct iw_cqe c = { .op = IW_WR_RECV, .len = (uint32_t)len };

	if (rq_head == rq_tail)
		return;
	c.wr_id = 1ull << 56 | next_buf[rq_tail++ % BUFS];
	if (how & 1) {
		c.has_imm = 1;
		memcpy(c.imm, in, len < 8 ? len : 8);
	} else {
		memcpy(rq + (c.wr_id & 255) * BUF, in, len);
	}
	c.has_inv = how >> 1 & 1;
	c.inv_stag = rs.tx_sa[0].stag;
	iw_rs_complete(&rs, &ops, NULL, &c);
}

static void check(void)
{
	uint32_t stag, n;
	uint64_t to;

	must(rs.rx_cons <= rs.rx_prod && rs.rx_prod - rs.rx_cons <= RING);
	must(rs.credits <= rs.peer_bufs && rs.unreturned <= BUFS);
	must(rs.ext_tail - rs.ext_head <= IW_RS_EXT && rs.rx_nsa <= IW_RS_SA && rs.tx_nsa <= IW_RS_SA);
	must(rs.tx_freed <= rs.tx_sent && rs.tx_sent <= rs.tx_pos && rs.ring_sent - rs.ring_acked <= rs.peer_len);
	n = iw_rs_rx_peek(&rs, &stag, &to);
	if (n)
		mem(NULL, stag, to, n);
}

static void act(uint8_t what, uint32_t n)
{
	switch (what & 7) {
	case 0:
		iw_rs_rx_consumed(&rs, n * 257);
		break;
	case 1:
		iw_rs_tx_produced(&rs, n * 257);
		break;
	case 2:
		complete_all();
		break;
	case 3:
		iw_rs_tx_cancel(&rs);
		break;
	case 4:
		iw_rs_tx_fin(&rs);
		break;
	case 5:
		iw_rs_rx_fin_consumed(&rs);
		break;
	case 6:
		iw_rs_tx_urgent(&rs);
		break;
	default:
		iw_rs_push(&rs);
	}
	iw_rs_pump(&rs, &ops, NULL);
}

static void reset(void)
{
	const struct iw_rs_param p = {
		.tx_len = RING, .rx_len = RING, .rd_len = RING, .tx_stag = TX, .rx_stag = RX, .rd_stag = RD, .rq_stag = RQ,
		.bufs = BUFS, .buf_size = BUF, .inline_max = 64, .srcavail_min = 2048, .read_max = 8192, .caps = 31,
	};
	struct iw_rs_pd pd = { 0 };

	if (!tx) {
		tx = calloc(1, RING);
		rx = calloc(1, RING);
		rd = calloc(1, RING);
		rq = calloc(1, BUFS * BUF);
	}
	posted = exposed = head = tail = rq_head = rq_tail = 0;
	must(!iw_rs_init(&rs, &p, &pd));
	must(!iw_rs_post_all(&rs, &ops, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t len)
{
	struct iw_rs_pd pd;

	reset();
	if (!iw_rs_pd_decode(&pd, in, len)) {
		must(!iw_rs_start(&rs, &pd));
		in += IW_RS_PD_LEN;
		len -= IW_RS_PD_LEN;
	} else {
		pd = (struct iw_rs_pd){ .ver_lo = 1, .ver_hi = 1, .caps = 31, .ring_len = RING, .bufs = 16, .buf_size = 128, .srcavail_max = 4 };
		must(!iw_rs_start(&rs, &pd));
	}
	while (len >= 2 && !rs.dead) {
		uint8_t how = in[0], n = in[1];

		in += 2;
		len -= 2;
		if (how & 0x80) {
			act(how, n);
		} else {
			size_t k = how & 1 ? 8 : n % (BUF + 1);

			if (k > len)
				break;
			message(in, k, how);
			in += k;
			len -= k;
		}
		check();
	}
	iw_rs_pump(&rs, &ops, NULL);
	check();
	return 0;
}
