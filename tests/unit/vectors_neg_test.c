// SPDX-License-Identifier: MIT
/*
 * Every golden vector that must be refused, and every Terminate, at a queue pair and at a mapped end (proto/end.h): the exact answer, and memory
 * left alone.
 */
#include <errno.h>

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

/* A mapped end knows no STag but its ring's, which can only be written to: where the vector's STags are such, its answer says that. */
static void want_mapped(const char *neg, uint8_t *want, size_t n)
{
	static const struct {
		const char *neg;
		uint8_t layer_type, code;
	} other[] = {
		{ "neg.write.pd", 0x11, 0 }, { "neg.write.stream", 0x11, 0 }, { "neg.rreq.wo", 0x01, 0 }, { "neg.rreq.pd", 0x01, 0 },
		{ "neg.rreq.stream", 0x01, 0 }, { "neg.rreq.low", 0x01, 2 }, { "neg.rreq.high", 0x01, 2 }, { "neg.rreq.huge", 0x01, 2 },
		{ "neg.at.right", 0x01, 0 }, { "neg.at.pd", 0x01, 0 }, { "neg.at.bounds", 0x01, 2 },
		{ "neg.at.unaligned", 0x01, 2 }, { "neg.at.unaligned1", 0x01, 2 },
	};

	for (unsigned int i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		if (strcmp(neg, other[i].neg))
			continue;
		want[20] = other[i].layer_type;
		want[21] = other[i].code;
		iw_crc32c_put(want + n - 4, iw_crc32c(0, want, n - 4));
	}
}

static void check_answer(struct dut *d, const struct vec *neg, const struct vec *want)
{
	uint8_t out[256], exact[256];
	size_t n = dut_drain(d, out, sizeof(out));

	memcpy(exact, want->p, want->n);
	if (!d->e)
		want_mapped(neg->name, exact, want->n);
	if (n != want->n || memcmp(out, exact, n))
		print_error("%s: %zu octets, %02x%02x, want %02x%02x\n", neg->name, n, out[20], out[21], exact[20], exact[21]);
	assert_int_equal(n, want->n);
	assert_memory_equal(out, exact, n);
	assert_int_equal(dut_qp(d)->state, IW_QP_CLOSING);
	if (!d->e)
		return;
	assert_true(end_had(d->e, IW_QP_EV_TERM_SENT));
	assert_int_equal(d->e->nev, 2);
}

/* The daemon can take over what a mapped end is left as. */
static void check_sound(struct dut *d)
{
	d->v.p.f->rs.p.rx_len = d->m.f->rs.p.rx_len;
	assert_int_equal(iw_map_import(d->m.m, &d->v.p), 0);
	assert_int_equal(d->v.p.f->reset_err, ECONNRESET);
	assert_int_equal(d->v.p.s->qp.state, dut_qp(d)->state);
}

/* The application of a mapped end: a reset, and nothing to be read or sent any more. */
static void check_reset(struct dut *d)
{
	struct iovec v = { .iov_base = "x", .iov_len = 1 };

	check_sound(d);
	assert_int_equal(iw_end_state(&d->m), IW_END_DEAD);
	assert_int_equal(iw_end_err(&d->m), ECONNRESET);
	assert_int_equal(iw_end_unread(&d->m), 0);
	assert_int_equal(iw_end_put(&d->m, &v, 1, 0, 1), 0);
	iw_end_in_eof(&d->m);
	assert_int_equal(dut_drain(d, NULL, 0), 0);
	assert_int_equal(iw_end_state(&d->m), IW_END_DEAD);
}

static void check_flushed(struct end *e)
{
	assert_int_equal(e->ncq, 2);
	for (unsigned int i = 0; i < 2; i++)
		assert_true(e->cq[i].op == IW_WR_RECV && e->cq[i].status == IW_WC_FLUSH && e->cq[i].wr_id == i + 1);
}

static void play_neg(const struct vec *v, const struct vec *want, bool mapped, enum feed how, size_t cut)
{
	const struct vec *after = vec_get("fpdu.send.5"), *after2 = vec_get("fpdu.write.16");
	struct iw_sge s = { .stag = RECV, .len = 64 };
	struct iw_wr wr = { .op = IW_WR_SEND };
	struct dut d;

	dut_new_at(&d, mapped);
	if (!mapped && !strcmp(v->name, "neg.rreq.ird"))
		two_reads(&d);
	feed(&d, v->p, v->n, how, cut);
	dut_feed(&d, after->p, after->n);	/* dropped silently from here on (DDP-7.1-10) */
	dut_feed(&d, after2->p, after2->n);
	if (mapped)
		check_sound(&d);	/* with the Terminate still to go */
	check_answer(&d, v, want);
	if (!strcmp(v->name, "neg2.stagchg"))
		dut_canaries(&d, 0, 32);
	else	/* an undelivered receive buffer may hold what came; a Send is placed before its Invalidate is refused */
		dut_canaries(&d, 5, starts(v->name, "neg2.") ? 60 : starts(v->name, "neg.inv.") ? 1 : 0);
	if (mapped) {
		check_reset(&d);
		dut_free(&d);
		return;
	}
	check_flushed(d.e);
	assert_int_equal(iw_qp_post_send(&d.e->qp, &wr), -107);
	assert_int_equal(iw_qp_post_recv(&d.e->qp, 1, &s), -107);
	iw_qp_rx_eof(&d.e->qp, &end_ops, d.e, 0);
	assert_int_equal(d.e->nev, 2);
	dut_free(&d);
}

static void negative_at(bool mapped)
{
	unsigned int seen = 0;
	char name[48];

	for (unsigned int i = 0; i < nvecs; i++) {
		struct vec *v = &vecs[i], *want;

		if ((!starts(v->name, "neg.") && !starts(v->name, "neg2.")) || starts(v->name, "neg.term."))
			continue;
		want_name(name, sizeof(name), v->name);
		want = vec_get(name);
		play_neg(v, want, mapped, WHOLE, 0);
		play_neg(v, want, mapped, OCTETS, 0);
		for (size_t cut = 1; cut < v->n; cut++)
			play_neg(v, want, mapped, CUT, cut);
		v->used = 1;
		seen++;
	}
	assert_int_equal(seen, 78);
}

static void negative(void **state)
{
	negative_at(false);
}

static void negative_mapped(void **state)
{
	negative_at(true);
}

/* A Terminate, good or bad, is never answered. */
static void play_term(const struct vec *v, bool mapped, enum feed how, size_t cut)
{
	const struct iw_qp *qp;
	struct dut d;

	dut_new_at(&d, mapped);
	qp = dut_qp(&d);
	feed(&d, v->p, v->n, how, cut);
	assert_int_equal(qp->state, IW_QP_CLOSING);
	assert_int_equal(dut_drain(&d, NULL, 0), 0);
	if (mapped) {
		check_reset(&d);
	} else {
		assert_true(end_had(d.e, IW_QP_EV_TERM_RECEIVED));
		assert_int_equal(d.e->nev, 2);
		check_flushed(d.e);
	}
	dut_canaries(&d, 0, 0);
	if (!starts(v->name, "neg.")) {
		assert_int_equal(qp->term.layer, v->p[20] >> 4);
		assert_int_equal(qp->term.etype, v->p[20] & 15);
		assert_int_equal(qp->term.code, v->p[21]);
		assert_false(qp->term.siw_swapped);
	}
	assert_int_equal(qp->term.cut, starts(v->name, "neg.") && !starts(v->name, "neg.term.msn2"));
	assert_int_equal(qp->term.bad, starts(v->name, "neg.term.msn2"));
	dut_free(&d);
}

static void terminates_received_at(bool mapped)
{
	for (unsigned int i = 0; i < nvecs; i++) {
		struct vec *v = &vecs[i];

		if (!starts(v->name, "term.") && !starts(v->name, "want") && !starts(v->name, "neg.term.") &&
		    !starts(v->name, "ign.term."))
			continue;
		play_term(v, mapped, WHOLE, 0);
		play_term(v, mapped, OCTETS, 0);
		for (size_t cut = 1; cut < v->n; cut++)
			play_term(v, mapped, CUT, cut);
		v->used = 1;
	}
}

static void terminates_received(void **state)
{
	terminates_received_at(false);
}

static void terminates_received_mapped(void **state)
{
	terminates_received_at(true);
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
		feed(&(struct dut){ .e = e }, v->p, v->n, CUT, cut);
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
		cmocka_unit_test(negative), cmocka_unit_test(negative_mapped), cmocka_unit_test(terminates_received),
		cmocka_unit_test(terminates_received_mapped), cmocka_unit_test(terminates_sent),
		cmocka_unit_test(read_revoked), cmocka_unit_test(read_shrunk), cmocka_unit_test(bad_marker), cmocka_unit_test(all_used),
	};
	int r;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	vec_load();
	r = cmocka_run_group_tests_name("vectors_neg", tests, NULL, NULL);
	vec_unload();
	return r;
}
