// SPDX-License-Identifier: MIT
/* Single rules of MPA, DDP and RDMAP that a golden vector, or a few of them in a row, can show. */
#include "vec_dut.h"

#include "proto/crc32c.h"

#include <errno.h>

static void play(struct dut *d, const char *name)
{
	const struct vec *v = vec_get(name);

	end_feed(d->e, v->p, v->n);
}

static void sends(struct dut *d, const char *want)
{
	uint8_t out[256];

	same(want, out, end_drain(d->e, out, sizeof(out)));
}

/* An FPDU with a good CRC around any ULPDU. */
static void feed_ulpdu(struct dut *d, const uint8_t *u, size_t n)
{
	static uint8_t f[IW_FPDU_MAX];
	size_t body = 2 + n + iw_mpa_pad((uint16_t)n);

	iw_put16(f, (uint16_t)n);
	memcpy(f + 2, u, n);
	memset(f + 2 + n, 0, body - 2 - n);
	iw_crc32c_put(f + body, iw_crc32c(0, f, body));
	end_feed(d->e, f, body + 4);
}

static void write_to(struct dut *d, uint32_t stag, uint64_t to, const void *p, uint32_t n, bool last)
{
	static uint8_t u[65535];

	u[0] = last ? 0xc1 : 0x81;
	u[1] = 0x40;
	iw_put32(u + 2, stag);
	iw_put64(u + 6, to);
	memcpy(u + 14, p, n);
	feed_ulpdu(d, u, 14 + n);
}

/* ---- MPA ---- */

/* LLP-3-11, DDP-5.3-04: a message that came already is refused, not delivered again. */
static void replay(void **state)
{
	struct dut d;

	dut_new(&d);
	play(&d, "fpdu.send.5");
	assert_int_equal(d.e->ncq, 1);
	play(&d, "fpdu.send.5");
	assert_true(d.e->qp.term.layer == 1 && d.e->qp.term.etype == 2 && d.e->qp.term.code == 3);
	assert_true(d.e->ncq == 2 && d.e->cq[1].status == IW_WC_FLUSH);
	dut_canaries(&d, 5, 5);
	dut_free(&d);
}

/* MPA-6-01: nothing is placed before the last octet of the FPDU is there. */
static void last_octet_missing(void **state)
{
	const struct vec *v = vec_get("fpdu.write.16");
	struct dut d;

	dut_new(&d);
	end_feed(d.e, v->p, v->n - 1);
	dut_canaries(&d, 0, 0);
	assert_int_equal(d.e->nin, v->n - 1);
	end_feed(d.e, v->p + v->n - 1, 1);
	assert_memory_equal(d.mem[0] + GUARD, v->p + 16, 16);
	dut_canaries(&d, 0, 16);
	dut_free(&d);
}

/* MPA-4.4-06: a Write with any bit of its CRC wrong changes nothing. */
static void bad_crc_places_nothing(void **state)
{
	const struct vec *v = vec_get("fpdu.write.16");

	for (unsigned int bit = 0; bit < 8 * v->n; bit++) {
		uint8_t bad[64];
		struct dut d;

		if (bit < 16)
			continue;	/* another length: another FPDU, not whole yet */
		memcpy(bad, v->p, v->n);
		bad[bit / 8] ^= (uint8_t)(1 << bit % 8);
		dut_new(&d);
		end_feed(d.e, bad, v->n);
		sends(&d, "want.crc");
		dut_canaries(&d, 0, 0);
		dut_free(&d);
	}
}

/* MPA-8-02, LLP-3-08: with a Send behind it in the same piece. */
static void nothing_after_an_error(void **state)
{
	const struct vec *a = vec_get("neg.crc"), *b = vec_get("fpdu.send.5");
	uint8_t both[128];
	struct dut d;

	memcpy(both, a->p, a->n);
	memcpy(both + a->n, b->p, b->n);
	dut_new(&d);
	end_feed(d.e, both, a->n + b->n);
	sends(&d, "want.crc");
	assert_true(d.e->ncq == 2 && d.e->cq[0].status == IW_WC_FLUSH && d.e->cq[1].status == IW_WC_FLUSH);
	dut_canaries(&d, 0, 0);
	dut_free(&d);
}

/* MPA-3-05: a receiver takes ULPDUs as long as the field allows, whatever its own MULPDU. */
static void largest_ulpdu(void **state)
{
	static uint8_t u[65535], big[70000];

	for (uint32_t n = 65535; n > 65531; n--) {
		struct dut d;

		dut_new(&d);
		end_reg(d.e, 0x999, 0, big, sizeof(big), IW_ACCESS_REMOTE_WRITE);
		for (uint32_t i = 0; i < n; i++)
			u[i] = (uint8_t)(i * 7 + n);
		write_to(&d, 0x999, 1000, u, n - 14, true);
		assert_int_equal(d.e->qp.state, IW_QP_RTS);
		assert_memory_equal(big + 1000, u, n - 14);
		dut_free(&d);
	}
}

/* EMPA-9.2-02: the RTR is an ordinary message of no octets, all of it but names and numbers 0, and counts as one (DDP-4.3-04). */
static void rtr_octets(void **state)
{
	static const char *const names[] = { "fpdu.write.zero", "fpdu.rreq.zero", "fpdu.send.zero" };

	for (uint8_t i = 0; i < 3; i++) {
		struct iw_qp_param p = param_default;
		uint8_t out[128];
		struct end *e;

		p.rtr = i + 1;
		e = end_new(&p);
		same(names[i], out, end_drain(e, out, sizeof(out)));
		post(e, &(struct iw_wr){ .op = i == 1 ? IW_WR_READ : IW_WR_SEND });
		assert_true(end_drain(e, out, sizeof(out)) > 0);
		assert_int_equal(iw_get32(out + 12), i ? 2 : 1);		/* its MSN */
		end_free(e);
	}
}

/* ---- DDP ---- */

/* DDP-7.1-04, -08, RDMAP-7.2-03: what just fits is accepted; the first octet, the last and all of them. */
static void exact_fits(void **state)
{
	static const struct {
		uint64_t to;
		uint32_t len;
	} c[] = { { 0x1000, 1 }, { 0x1fff, 1 }, { 0x1000, 4096 }, { 0x1001, 4095 }, { 0x1000, 4095 } };
	static uint8_t data[4096], u[18 + 64] = { 0x41, 0x43, [13] = 1 };
	struct dut d;

	memset(data, 0x77, sizeof(data));
	for (unsigned int i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		uint8_t r[46] = { 0x41, 0x41, [9] = 1, [13] = 1 };

		dut_new(&d);
		write_to(&d, STAG, c[i].to, data, c[i].len, true);
		assert_int_equal(d.e->qp.state, IW_QP_RTS);
		assert_memory_equal(d.mem[0] + GUARD + (c[i].to - 0x1000), data, c[i].len);
		dut_canaries(&d, 0, 4096);
		iw_put32(r + 18, SINK);
		iw_put32(r + 30, c[i].len);
		iw_put32(r + 34, STAG);
		iw_put64(r + 38, c[i].to);
		feed_ulpdu(&d, r, sizeof(r));
		assert_int_equal(d.e->qp.stat.rx_read, 1);
		end_drain(d.e, NULL, 0);
		assert_int_equal(d.e->qp.stat.tx_read_octets, c[i].len);
		dut_free(&d);
	}
	dut_new(&d);
	memset(u + 18, 0x33, 64);
	feed_ulpdu(&d, u, sizeof(u));
	assert_true(d.e->ncq == 1 && d.e->cq[0].len == 64);
	dut_canaries(&d, 5, 64);
	dut_free(&d);
}

/* A Write that runs over the end in its third segment: two are placed, of the third not even the legal part (DDP-7.1-09). */
static void third_segment(void **state)
{
	static uint8_t data[100];
	struct dut d;

	memset(data, 0x66, sizeof(data));
	dut_new(&d);
	write_to(&d, STAG, 0x1f00, data, 100, false);
	write_to(&d, STAG, 0x1f64, data, 100, false);
	write_to(&d, STAG, 0x1fc8, data, 100, true);
	assert_true(d.e->qp.term.layer == 1 && d.e->qp.term.etype == 1 && d.e->qp.term.code == 1);
	assert_memory_equal(d.mem[0] + GUARD + 0xf00, data, 100);
	assert_memory_equal(d.mem[0] + GUARD + 0xf64, data, 100);
	memcpy(d.before[0] + GUARD + 0xf00, d.mem[0] + GUARD + 0xf00, 200);
	dut_canaries(&d, 0, 0);
	dut_free(&d);
}

/* DDP-4.1-03: the first of two FPDUs does not deliver. */
static void delivery_with_the_last_segment(void **state)
{
	const struct vec *v = vec_get("seg.send.2048");
	struct iw_sge s = { .stag = RECV + 1, .len = 4096 };
	size_t first = iw_mpa_fpdu_len(iw_get16(v->p));
	struct dut d;

	dut_new(&d);
	d.e->qp.rq_tail++;		/* the 64-octet buffer is out of the way */
	assert_int_equal(iw_qp_post_recv(&d.e->qp, 3, &s), 0);
	end_feed(d.e, v->p, first);
	assert_int_equal(d.e->ncq, 0);
	end_feed(d.e, v->p + first, v->n - first);
	assert_true(d.e->ncq == 1 && d.e->cq[0].len == 2048 && d.e->cq[0].status == IW_WC_OK);
	for (unsigned int i = 0; i < 2048; i++)
		assert_int_equal(d.mem[6][GUARD + i], i & 255);
	dut_free(&d);
}

/* The buffer of a Send is open to everything that comes for it but to nothing else: DDP-7.1-02, no buffer at all. */
static void no_buffer(void **state)
{
	struct dut d;

	dut_new(&d);
	d.e->qp.rq_tail = d.e->qp.rq_head;
	play(&d, "fpdu.send.5");
	assert_true(d.e->qp.term.layer == 1 && d.e->qp.term.etype == 2 && d.e->qp.term.code == 2);
	dut_free(&d);
}

/* ---- RDMAP ---- */

/* RDMAP-7.1-05: of two errors the first is told. */
static void first_error_only(void **state)
{
	static const char *const pairs[][2] = { { "neg.write.high", "neg.qn4" }, { "neg.qn4", "neg.write.high" }, { "neg.rv0", "neg.crc" } };

	for (unsigned int i = 0; i < 3; i++) {
		char want[40];
		struct dut d;

		dut_new(&d);
		play(&d, pairs[i][0]);
		play(&d, pairs[i][1]);
		snprintf(want, sizeof(want), "want.%s", pairs[i][0] + 4);
		sends(&d, want);
		dut_free(&d);
	}
}

/* RDMAP-5.4-01: without receive buffers and with all Read slots in use a Terminate is taken; another one is ignored. */
static void terminate_always_has_room(void **state)
{
	struct dut d;

	dut_new(&d);
	d.e->qp.rq_tail = d.e->qp.rq_head;
	for (uint8_t msn = 1; msn <= 2; msn++) {
		uint8_t r[46] = { 0x41, 0x41, [9] = 1, [13] = msn };

		feed_ulpdu(&d, r, sizeof(r));
	}
	assert_int_equal(d.e->qp.ird_head - d.e->qp.ird_tail, 2);
	play(&d, "term.ddp.local");
	assert_true(end_had(d.e, IW_QP_EV_TERM_RECEIVED));
	assert_true(d.e->qp.term.layer == 1 && d.e->qp.term.etype == 0);
	play(&d, "term.llp.crc");
	assert_int_equal(d.e->nev, 2);
	assert_int_equal(d.e->qp.term.layer, 1);
	assert_int_equal(end_drain(d.e, NULL, 0), 0);
	dut_free(&d);
}

/* RDMAP-4.8-07: a local catastrophic error may have any code. */
static void catastrophic_with_any_code(void **state)
{
	uint8_t u[22] = { 0x41, 0x47, [9] = 2, [13] = 1, [18] = 0x00, [19] = 0x5a };
	struct dut d;

	dut_new(&d);
	feed_ulpdu(&d, u, sizeof(u));
	assert_true(end_had(d.e, IW_QP_EV_TERM_RECEIVED));
	assert_true(d.e->qp.term.layer == 0 && d.e->qp.term.etype == 0 && d.e->qp.term.code == 0x5a && !d.e->qp.term.cut);
	assert_true(strstr(iw_term_text(0, 0, 0x5a), "catastrophic"));
	dut_free(&d);
}

/* RDMAP-5.3-04: an empty Send eats a buffer: the next has MSN 2. */
static void empty_send_eats_a_buffer(void **state)
{
	uint8_t u[19] = { 0x41, 0x43, [13] = 2, [18] = 'y' };
	struct dut d;

	dut_new(&d);
	play(&d, "fpdu.send.zero");
	assert_true(d.e->ncq == 1 && d.e->cq[0].len == 0 && d.e->cq[0].wr_id == 1);
	feed_ulpdu(&d, u, sizeof(u));
	assert_true(d.e->ncq == 2 && d.e->cq[1].len == 1 && d.e->cq[1].wr_id == 2);
	dut_free(&d);
}

/* RDMAP-5.3-07: in the handler of a Send with Invalidate the STag is invalid already. */
static void invalid_before_it_completes(void *ctx, const struct iw_cqe *c)
{
	void *p;

	end_complete(ctx, c);
	if (c->has_inv)
		assert_int_equal(end_access(ctx, c->inv_stag, 0x1000, 1, IW_ACCESS_REMOTE_WRITE, &p), IW_ACC_STAG);
}

static void invalidate_then_complete(void **state)
{
	static const char *const names[] = { "fpdu.sendinv", "fpdu.sendseinv" };
	struct iw_qp_ops ops = end_ops;

	ops.complete = invalid_before_it_completes;
	for (unsigned int i = 0; i < 2; i++) {
		const struct vec *v = vec_get(names[i]);
		uint8_t buf[64];
		struct dut d;

		dut_new(&d);
		memcpy(buf, v->p, v->n);
		assert_int_equal(iw_qp_rx(&d.e->qp, &ops, d.e, buf, v->n), v->n);
		assert_true(d.e->ncq == 1 && d.e->cq[0].has_inv && d.e->cq[0].inv_stag == STAG && d.e->cq[0].se == i);
		play(&d, "fpdu.write.16");
		assert_true(d.e->qp.term.layer == 1 && d.e->qp.term.etype == 1 && d.e->qp.term.code == 0);
		dut_canaries(&d, 5, 4);
		dut_free(&d);
	}
}

/* EXT-4.1-01, EXT-8.2-01: versions of the extension's messages are looked at like all others. */
static void extension_versions(void **state)
{
	static const char *const names[] = { "fpdu.imm", "fpdu.immse", "fpdu.at.fetchadd", "fpdu.at.cmpswap", "fpdu.at.resp" };

	for (unsigned int i = 0; i < 5; i++)
		for (unsigned int bad = 0; bad < 6; bad++) {
			const struct vec *v = vec_get(names[i]);
			uint8_t u[128];
			struct dut d;

			memcpy(u, v->p + 2, iw_get16(v->p));
			if (bad < 3)
				u[1] = (uint8_t)((u[1] & 0x3f) | (bad ? bad + 1 : 0) << 6);
			else
				u[0] = (uint8_t)((u[0] & ~3) | (bad == 3 ? 0 : bad - 2));
			dut_new(&d);
			feed_ulpdu(&d, u, iw_get16(v->p));
			assert_int_equal(d.e->qp.state, IW_QP_TERMINATE);
			assert_int_equal(d.e->qp.term.layer, bad < 3 ? 0 : 1);
			assert_int_equal(d.e->qp.term.code, bad < 3 ? 5 : 6);
			dut_canaries(&d, 0, 0);
			dut_free(&d);
		}
}

/* All 65536 values of the first two octets of a ULPDU: never a crash, never a changed octet that nobody may change (R24). */
static void first_two_octets(void **state)
{
	struct iw_qp fresh;
	struct dut d;

	dut_new(&d);
	fresh = d.e->qp;		/* flat: a copy is all it takes to begin again */
	for (unsigned int v = 0; v < 65536; v++) {
		uint8_t u[18 + 28] = { (uint8_t)(v >> 8), (uint8_t)v };
		uint8_t op = v & 15;
		bool ok = (v >> 6 & 3) == 1 && (v >> 8 & 3) == 1;

		for (unsigned int i = 2; i < sizeof(u); i++)
			u[i] = 0xee;
		if (v % 257 == 0 || !ok)
			iw_put32(u + 6, 0);
		d.e->qp = fresh;
		d.e->ncq = 0;
		d.e->nev = 1;
		feed_ulpdu(&d, u, sizeof(u));
		if (!ok) {
			assert_int_equal(d.e->qp.state, IW_QP_TERMINATE);
			assert_int_equal(d.e->qp.term.code, (v >> 8 & 3) != 1 ? (v & 0x8000 ? 4 : 6) : 5);
		} else if (op > 11) {
			assert_true(d.e->qp.term.layer == 0 && d.e->qp.term.etype == 2 && d.e->qp.term.code == 6);
		}
		assert_int_equal(d.e->ncq ? d.e->cq[0].status : IW_WC_FLUSH, IW_WC_FLUSH);
		dut_canaries(&d, 0, 0);
	}
	dut_free(&d);
}

/* DDP-6.2.1-03, -04: after the peer's FIN we still send; reception does not end by what we do with our half. */
static void half_closed(void **state)
{
	struct iw_wr wr = { .wr_id = 9, .op = IW_WR_WRITE, .nsge = 1, .rstag = 1, .sge = { { .stag = 0xa05, .len = 1 << 20 } } };
	uint8_t *mem = calloc(1, 1 << 20);
	struct dut d;

	dut_new(&d);
	end_reg(d.e, 0xa05, 0, mem, 1 << 20, IW_ACCESS_LOCAL_READ);
	iw_qp_rx_eof(&d.e->qp, &end_ops, d.e, 0);
	assert_true(end_had(d.e, IW_QP_EV_EOF));
	post(d.e, &wr);
	assert_true(end_drain(d.e, NULL, 0) > 1 << 20);
	assert_true(d.e->ncq == 1 && d.e->cq[0].wr_id == 9 && d.e->cq[0].status == IW_WC_OK);
	assert_int_equal(d.e->qp.state, IW_QP_RTS);
	dut_free(&d);
	free(mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replay), cmocka_unit_test(last_octet_missing), cmocka_unit_test(bad_crc_places_nothing),
		cmocka_unit_test(nothing_after_an_error), cmocka_unit_test(largest_ulpdu), cmocka_unit_test(rtr_octets),
		cmocka_unit_test(exact_fits),
		cmocka_unit_test(third_segment), cmocka_unit_test(delivery_with_the_last_segment), cmocka_unit_test(no_buffer),
		cmocka_unit_test(first_error_only), cmocka_unit_test(terminate_always_has_room),
		cmocka_unit_test(catastrophic_with_any_code), cmocka_unit_test(empty_send_eats_a_buffer),
		cmocka_unit_test(invalidate_then_complete), cmocka_unit_test(extension_versions), cmocka_unit_test(first_two_octets),
		cmocka_unit_test(half_closed),
	};
	int r;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	vec_load();
	r = cmocka_run_group_tests_name("qp_rules", tests, NULL, NULL);
	vec_unload();
	return r;
}
