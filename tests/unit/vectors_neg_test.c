// SPDX-License-Identifier: MIT
/* Every golden vector that must be refused, and every Terminate: the exact answer, and memory left alone. */
#include "vec_dut.h"

/* neg.rreq.ird wants two Reads unanswered. */
static void two_reads(struct dut *d)
{
	struct iw_qp_param p = param_default;
	struct end *asker = end_new(&p);
	static uint8_t sink[64], buf[256];
	struct iw_wr wr = { .op = IW_WR_READ, .nsge = 1, .rstag = STAG, .rto = 0x1000, .sge = { { .stag = SINK, .len = 4 } } };

	end_reg(asker, SINK, 0, sink, sizeof(sink), IW_ACCESS_READ_SINK);
	post(asker, &wr);
	post(asker, &wr);
	end_feed(d->e, buf, end_drain(asker, buf, sizeof(buf)));
	assert_int_equal(d->e->qp.stat.rx_read, 2);
	end_free(asker);
}

static void want_name(char *want, size_t cap, const char *neg)
{
	if (starts(neg, "neg.crc"))
		snprintf(want, cap, "want.crc");
	else if (starts(neg, "neg.short"))
		snprintf(want, cap, "want.short");
	else if (starts(neg, "neg2."))
		snprintf(want, cap, "want2.%s", neg + 5);
	else
		snprintf(want, cap, "want.%s", neg + 4);
}

static void check_answer(struct end *e, const struct vec *want)
{
	uint8_t out[256];
	size_t n = end_drain(e, out, sizeof(out));

	assert_int_equal(n, want->n);
	assert_memory_equal(out, want->p, n);
	assert_int_equal(e->qp.state, IW_QP_CLOSING);
	assert_true(end_had(e, IW_QP_EV_TERM_SENT));
	assert_int_equal(e->nev, 2);
}

static void check_flushed(struct end *e)
{
	assert_int_equal(e->ncq, 2);
	for (unsigned int i = 0; i < 2; i++)
		assert_true(e->cq[i].op == IW_WR_RECV && e->cq[i].status == IW_WC_FLUSH && e->cq[i].wr_id == i + 1);
}

static void play_neg(const struct vec *v, const struct vec *want, enum feed how, size_t cut)
{
	const struct vec *after = vec_get("fpdu.send.5"), *after2 = vec_get("fpdu.write.16");
	struct iw_sge s = { .stag = RECV, .len = 64 };
	struct iw_wr wr = { .op = IW_WR_SEND };
	struct dut d;

	dut_new(&d);
	if (!strcmp(v->name, "neg.rreq.ird"))
		two_reads(&d);
	feed(d.e, v->p, v->n, how, cut);
	end_feed(d.e, after->p, after->n);	/* dropped silently from here on (DDP-7.1-10) */
	end_feed(d.e, after2->p, after2->n);
	check_answer(d.e, want);
	check_flushed(d.e);
	if (!strcmp(v->name, "neg2.stagchg"))
		dut_canaries(&d, 0, 32);
	else	/* an undelivered receive buffer may hold what came; a Send is placed before its Invalidate is refused */
		dut_canaries(&d, 5, starts(v->name, "neg2.") ? 60 : starts(v->name, "neg.inv.") ? 1 : 0);
	assert_int_equal(iw_qp_post_send(&d.e->qp, &wr), -107);
	assert_int_equal(iw_qp_post_recv(&d.e->qp, 1, &s), -107);
	iw_qp_rx_eof(&d.e->qp, &end_ops, d.e, 0);
	assert_int_equal(d.e->nev, 2);
	dut_free(&d);
}

static void negative(void **state)
{
	unsigned int seen = 0;
	char name[48];

	for (unsigned int i = 0; i < nvecs; i++) {
		struct vec *v = &vecs[i], *want;

		if ((!starts(v->name, "neg.") && !starts(v->name, "neg2.")) || starts(v->name, "neg.term."))
			continue;
		want_name(name, sizeof(name), v->name);
		want = vec_get(name);
		play_neg(v, want, WHOLE, 0);
		play_neg(v, want, OCTETS, 0);
		for (size_t cut = 1; cut < v->n; cut++)
			play_neg(v, want, CUT, cut);
		v->used = 1;
		seen++;
	}
	assert_int_equal(seen, 78);
}

/* A Terminate, good or bad, is never answered. */
static void play_term(const struct vec *v, enum feed how, size_t cut)
{
	struct dut d;

	dut_new(&d);
	feed(d.e, v->p, v->n, how, cut);
	assert_int_equal(d.e->qp.state, IW_QP_CLOSING);
	assert_true(end_had(d.e, IW_QP_EV_TERM_RECEIVED));
	assert_int_equal(d.e->nev, 2);
	assert_int_equal(end_drain(d.e, NULL, 0), 0);
	check_flushed(d.e);
	dut_canaries(&d, 0, 0);
	if (!starts(v->name, "neg.")) {
		assert_int_equal(d.e->qp.term.layer, v->p[20] >> 4);
		assert_int_equal(d.e->qp.term.etype, v->p[20] & 15);
		assert_int_equal(d.e->qp.term.code, v->p[21]);
		assert_false(d.e->qp.term.siw_swapped);
	}
	assert_int_equal(d.e->qp.term.cut, starts(v->name, "neg.") && !starts(v->name, "neg.term.msn2"));
	assert_int_equal(d.e->qp.term.bad, starts(v->name, "neg.term.msn2"));
	dut_free(&d);
}

static void terminates_received(void **state)
{
	for (unsigned int i = 0; i < nvecs; i++) {
		struct vec *v = &vecs[i];

		if (!starts(v->name, "term.") && !starts(v->name, "want") && !starts(v->name, "neg.term.") &&
		    !starts(v->name, "ign.term."))
			continue;
		play_term(v, WHOLE, 0);
		play_term(v, OCTETS, 0);
		for (size_t cut = 1; cut < v->n; cut++)
			play_term(v, CUT, cut);
		v->used = 1;
	}
}

/* Decoded and encoded again; and the ones without headers through a queue pair. */
static void terminates_sent(void **state)
{
	for (unsigned int i = 0; i < nvecs; i++) {
		const struct vec *v = &vecs[i];
		uint8_t out[IW_TERM_MAX], wire[128];
		struct iw_term t;
		size_t ulpdu;
		struct end *e;

		if (!starts(v->name, "term.") && !starts(v->name, "want"))
			continue;
		ulpdu = iw_get16(v->p);
		iw_term_decode(&t, v->p + 20, ulpdu - 18);
		assert_int_equal(iw_term_encode(&t, out), ulpdu - 18);
		assert_memory_equal(out, v->p + 20, ulpdu - 18);
		assert_string_not_equal(iw_term_text(t.layer, t.etype, t.code), "unknown error");
		if (t.has_len)
			continue;
		e = end_new(&param_default);
		iw_qp_terminate(&e->qp, &end_ops, e, t.layer, t.etype, t.code);
		assert_int_equal(end_drain(e, wire, sizeof(wire)), v->n);
		assert_memory_equal(wire, v->p, v->n);
		end_free(e);
	}
}

/* A Read fails after 2048 of 4096 octets because the right was taken away. */
static void read_revoked(void **state)
{
	const struct vec *rreq = vec_get("fpdu.rreq"), *want = vec_get("term.rreq.partial");
	uint8_t out[256];
	struct dut d;
	size_t n;

	dut_new(&d);
	iw_qp_set_mulpdu(&d.e->qp, 14 + 2048);
	end_feed(d.e, rreq->p, rreq->n);
	n = iw_qp_tx(&d.e->qp, &end_ops, d.e, d.e->out, IW_FPDU_MAX_MARKERS, 1);
	assert_int_equal(n, 2 + 14 + 2048 + 4);
	iw_qp_tx_done(&d.e->qp, &end_ops, d.e, n);
	d.e->regs[0].access &= ~IW_ACCESS_REMOTE_READ;
	n = end_drain(d.e, out, sizeof(out));
	assert_int_equal(n, want->n);
	assert_memory_equal(out, want->p, n);
	assert_int_equal(d.e->qp.state, IW_QP_CLOSING);
	dut_free(&d);
}

/* The same when the registration shrinks: not one octet beyond it leaves, and the answer says bounds. */
static void read_shrunk(void **state)
{
	const struct vec *rreq = vec_get("fpdu.rreq");
	uint8_t out[256];
	struct dut d;
	size_t n;

	dut_new(&d);
	iw_qp_set_mulpdu(&d.e->qp, 14 + 2048);
	end_feed(d.e, rreq->p, rreq->n);
	n = iw_qp_tx(&d.e->qp, &end_ops, d.e, d.e->out, IW_FPDU_MAX_MARKERS, 1);
	iw_qp_tx_done(&d.e->qp, &end_ops, d.e, n);
	d.e->regs[0].len = 4000;
	n = end_drain(d.e, out, sizeof(out));
	assert_int_equal(n, 2 + 18 + 52 + 4);
	assert_int_equal(out[3], 0x47);
	assert_memory_equal(out + 20, "\x01\x01\xe0\x00", 4);
	dut_free(&d);
}

static void bad_marker(void **state)
{
	const struct vec *v = vec_get("stream.neg.fpduptr"), *want = vec_get("term.llp.marker");
	struct iw_qp_param p = param_default;
	static uint8_t buf[8192];
	uint8_t out[256];

	p.rx_markers = 1;
	for (size_t cut = 0; cut < v->n; cut++) {
		struct end *e = end_new(&p);

		end_reg(e, RECV, 0, buf, sizeof(buf), IW_ACCESS_LOCAL_WRITE);
		for (unsigned int i = 0; i < 4; i++)
			assert_int_equal(iw_qp_post_recv(&e->qp, i, &(struct iw_sge){ .stag = RECV, .len = 2048 }), 0);
		feed(e, v->p, v->n, CUT, cut);
		assert_int_equal(end_drain(e, out, sizeof(out)), want->n);
		assert_memory_equal(out, want->p, want->n);
		end_free(e);
	}
}

/* None was forgotten; the others are crc_test's, mpa_test's and the other vectors test's. */
static void all_used(void **state)
{
	static const char *const others[] = { "crc.", "mpa.", "mulpdu.", "wirelen.", "fpdu.", "seg.", "stream.m.", "stream.nm.", "conv.", "sem." };

	for (unsigned int i = 0; i < nvecs; i++) {
		const char *n = vecs[i].name;
		bool other = false;

		for (unsigned int k = 0; k < sizeof(others) / sizeof(others[0]); k++)
			other |= starts(n, others[k]);
		if (!other && !vecs[i].used)
			fail_msg("%s was not used", n);
	}
	assert_int_equal(nvecs, 304);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(negative), cmocka_unit_test(terminates_received), cmocka_unit_test(terminates_sent),
		cmocka_unit_test(read_revoked), cmocka_unit_test(read_shrunk), cmocka_unit_test(bad_marker), cmocka_unit_test(all_used),
	};
	int r;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	vec_load();
	r = cmocka_run_group_tests_name("vectors_neg", tests, NULL, NULL);
	vec_unload();
	return r;
}
