// SPDX-License-Identifier: MIT
/* The octets on the wire of one tiny conversation of the ring stream, frozen. They were made from the documents by another program. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/mpa.h"
#include "proto/qp.h"
#include "proto/rs.h"

enum { G_REQ, G_REP, G_RTR, G_WAITING, G_INLINE, G_WRITE, G_DATA, G_FIN, G_ACK, G_BYE, G_ACK_FIN };

static const struct {
	const char *what, *hex;
} golden[] = {
	[G_REQ] = { "MPA Request",
		"4d504120494420526571204672616d65500200508010c0105253544d01010007a1a1a1a1000000000000100000010000"
		"00080040000818eb00000000000000000000ffff0a01000200000000000000000000ffff0a010001c35000000000000000000000" },
	[G_REP] = { "MPA Reply",
		"4d504120494420526570204672616d6550020050801080105253544d01010007b2b2b2b2000000000000200000010000"
		"00080040000818eb00000000000000000000ffff0a01000200000000000000000000ffff0a010001c35000000000000000000000" },
	[G_RTR] = { "RTR: zero-length Write",
		"000ec140000000000000000000000000a30572ab" },
	[G_WAITING] = { "ACK 0, reader is waiting",
		"001a4148000000000000000000000001000000002200000000000000daf0f150" },
	[G_INLINE] = { "INLINE \"hello\" with SE, returns one credit",
		"001f414500000000000000000000000100000000100100000000000568656c6c6f0000005beb4419" },
	[G_WRITE] = { "Write of \"RDMA Write\"",
		"0018c140b2b2b2b2000000000000200552444d4120577269746500009812164e" },
	[G_DATA] = { "DATA 15 with SE",
		"001a414900000000000000000000000200000000000000000000000f1bd0d8ee" },
	[G_FIN] = { "DATA 15, FIN",
		"001a414900000000000000000000000300000000010000000000000f59953697" },
	[G_ACK] = { "ACK 15, FIN consumed, waiting, three credits",
		"001a414800000000000000000000000200000000230300000000000f2e8cadae" },
	[G_BYE] = { "INLINE \"bye\", FIN",
		"001d4143000000000000000000000003000000001100000000000003627965003b540d44" },
	[G_ACK_FIN] = { "ACK 3, FIN consumed, two credits",
		"001a4148000000000000000000000004000000002102000000000003260479bb" },
};

#define RING	65536u
enum { TX = 1, RX = 2, RQ = 3 };

struct end {
	struct iw_qp qp;
	struct iw_rs rs;
	struct iw_rs_param p;
	struct iw_rs_pd pd;
	uint32_t ring_stag;
	uint64_t ring_to;
	uint8_t tx[4096], rx[RING], rq[8 * 64];
	uint8_t out[IW_FPDU_MAX_MARKERS];
	struct end *peer;
	bool done;
};

static struct end a, b;

static uint8_t *range(struct end *e, uint32_t stag, uint64_t to, uint64_t len)
{
	const struct { uint32_t stag; uint64_t to, len; uint8_t *mem; } r[] = {
		{ TX, 0, sizeof(e->tx), e->tx }, { e->ring_stag, e->ring_to, RING, e->rx }, { RQ, 0, sizeof(e->rq), e->rq },
	};

	for (int i = 0; i < 3; i++)
		if (r[i].stag == stag && to >= r[i].to && len <= r[i].len && to - r[i].to <= r[i].len - len)
			return r[i].mem + (to - r[i].to);
	return NULL;
}

static enum iw_access_err qp_access(void *ctx, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	*ptr = range(ctx, stag, to, len);
	return *ptr ? IW_ACC_OK : IW_ACC_STAG;
}

static enum iw_access_err qp_invalidate(void *ctx, uint32_t stag)
{
	return IW_ACC_STAG;
}

static int post_send(void *ctx, const struct iw_wr *wr)
{
	return iw_qp_post_send(&((struct end *)ctx)->qp, wr);
}

static int post_recv(void *ctx, uint64_t wr_id, const struct iw_sge *sge)
{
	return iw_qp_post_recv(&((struct end *)ctx)->qp, wr_id, sge);
}

static unsigned int sq_free(void *ctx)
{
	return iw_qp_sq_free(&((struct end *)ctx)->qp);
}

static void *mem(void *ctx, uint32_t stag, uint64_t to, size_t len)
{
	return range(ctx, stag, to, len);
}

static void rs_event(void *ctx, enum iw_rs_event ev)
{
	assert_int_not_equal(ev, IW_RS_EV_ABORT);
	if (ev == IW_RS_EV_DONE)
		((struct end *)ctx)->done = true;
}

static const struct iw_rs_ops rs_ops = {
	.post_send = post_send, .post_recv = post_recv, .sq_free = sq_free, .mem = mem, .event = rs_event,
};

static void qp_complete(void *ctx, const struct iw_cqe *cqe)
{
	iw_rs_complete(&((struct end *)ctx)->rs, &rs_ops, ctx, cqe);
}

static void qp_event(void *ctx, enum iw_qp_event ev)
{
	assert_int_equal(ev, IW_QP_EV_FIRST_FPDU);
}

static const struct iw_qp_ops qp_ops = {
	.access = qp_access, .invalidate = qp_invalidate, .complete = qp_complete, .event = qp_event,
};

static size_t unhex(const char *hex, uint8_t *out)
{
	size_t n = 0;

	for (unsigned int v; sscanf(hex, "%2x", &v) == 1; hex += 2)
		out[n++] = (uint8_t)v;
	return n;
}

static void expect_octets(const uint8_t *got, size_t n, int g)
{
	uint8_t want[512];

	if (n != unhex(golden[g].hex, want) || memcmp(got, want, n)) {
		printf("# %s: got ", golden[g].what);
		for (size_t i = 0; i < n; i++)
			printf("%02x", got[i]);
		printf("\n");
		fail();
	}
}

/* The end makes exactly these FPDUs now, and the other takes them. */
static void says(struct end *e, int first, int last)
{
	size_t n, off = 0;

	if (e->rs.started)
		iw_rs_pump(&e->rs, &rs_ops, e);
	n = iw_qp_tx(&e->qp, &qp_ops, e, e->out, sizeof(e->out), 0);
	for (int g = first; g <= last; g++) {
		size_t len = strlen(golden[g].hex) / 2;

		assert_true(off + len <= n);
		expect_octets(e->out + off, len, g);
		off += len;
	}
	assert_int_equal(off, n);
	iw_qp_tx_done(&e->qp, &qp_ops, e, n);
	assert_int_equal(iw_qp_rx(&e->peer->qp, &qp_ops, e->peer, e->out, n), n);
}

static void silent(struct end *e)
{
	iw_rs_pump(&e->rs, &rs_ops, e);
	assert_false(iw_qp_tx_pending(&e->qp));
}

static void set_up(struct end *e, struct end *peer, uint32_t stag, uint64_t to)
{
	e->peer = peer;
	e->ring_stag = stag;
	e->ring_to = to;
	e->p = (struct iw_rs_param){
		.tx_len = sizeof(e->tx), .rx_len = RING, .tx_stag = TX, .rx_stag = stag, .rq_stag = RQ, .rx_to = to,
		.bufs = 8, .buf_size = 64, .inline_max = 5, .caps = IW_RS_CAP_IMM | IW_RS_CAP_SRCAVAIL | IW_RS_CAP_SENDINV,
	};
	assert_int_equal(iw_rs_init(&e->rs, &e->p, &e->pd), 0);
	e->pd.dst = (struct iw_addr){ .ip = { [10] = 0xff, [11] = 0xff, 10, 1, 0, 2 }, .port = 6379, .family = AF_INET };
	e->pd.src = (struct iw_addr){ .ip = { [10] = 0xff, [11] = 0xff, 10, 1, 0, 1 }, .port = 50000, .family = AF_INET };
	iw_qp_init(&e->qp);
	assert_int_equal(iw_rs_post_all(&e->rs, &rs_ops, e), 0);
}

static void hand_over(struct end *from, uint8_t reply, int g)
{
	struct iw_mpa_frame f = {
		.reply = reply, .rev = 2, .crc = 1, .enhanced = 1, .p2p = 1, .rtr_write = 1, .rtr_read = !reply,
		.ird = 16, .ord = 16, .pd_len = IW_RS_PD_LEN,
	}, got;
	uint8_t out[IW_MPA_FRAME_MAX];
	struct iw_rs_pd pd;
	int n;

	iw_rs_pd_encode(&from->pd, f.pd);
	n = iw_mpa_encode(&f, out);
	assert_true(n > 0);
	expect_octets(out, (size_t)n, g);
	assert_int_equal(iw_mpa_decode(&got, out, (size_t)n, reply), n);
	assert_int_equal(iw_rs_pd_decode(&pd, got.pd, got.pd_len), 0);
	assert_int_equal(iw_rs_start(&from->peer->rs, &pd), 0);
}

static void produce(struct end *e, const char *s)
{
	uint32_t off, len;

	iw_rs_tx_space(&e->rs, 0, &off, &len);
	assert_true(len >= strlen(s));
	memcpy(e->tx + off, s, strlen(s));
	iw_rs_tx_produced(&e->rs, (uint32_t)strlen(s));
}

static void consume(struct end *e, const char *want)
{
	uint32_t stag, n;
	uint64_t to;

	n = iw_rs_rx_peek(&e->rs, &stag, &to);
	assert_int_equal(n, strlen(want));
	assert_memory_equal(range(e, stag, to, n), want, n);
	iw_rs_rx_consumed(&e->rs, n);
}

static void test_conversation(void **state)
{
	struct iw_qp_param p = { .initiator = 1, .crc = 1, .rtr = 1, .mulpdu = 1442, .ird = 16, .ord = 16, .recv_min = 8 };

	set_up(&a, &b, 0xa1a1a1a1, 0x1000);
	set_up(&b, &a, 0xb2b2b2b2, 0x2000);
	hand_over(&a, 0, G_REQ);
	hand_over(&b, 1, G_REP);
	assert_int_equal(iw_qp_start(&a.qp, &p), 0);
	p.initiator = p.rtr = 0;
	assert_int_equal(iw_qp_start(&b.qp, &p), 0);

	says(&a, G_RTR, G_RTR);
	iw_rs_rx_waiting(&b.rs, true);
	says(&b, G_WAITING, G_WAITING);
	produce(&a, "hello");
	says(&a, G_INLINE, G_INLINE);
	produce(&a, "RDMA Write");
	says(&a, G_WRITE, G_DATA);
	consume(&b, "helloRDMA Write");
	silent(&b);		/* not a quarter of the ring yet */
	iw_rs_tx_fin(&a.rs);
	says(&a, G_FIN, G_FIN);
	assert_true(iw_rs_rx_fin(&b.rs));
	iw_rs_rx_fin_consumed(&b.rs);
	says(&b, G_ACK, G_ACK);
	produce(&b, "bye");
	iw_rs_tx_fin(&b.rs);
	says(&b, G_BYE, G_BYE);
	consume(&a, "bye");
	iw_rs_rx_fin_consumed(&a.rs);
	says(&a, G_ACK_FIN, G_ACK_FIN);
	assert_true(a.done && b.done);
	silent(&a);
	silent(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_conversation) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
