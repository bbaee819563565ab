// SPDX-License-Identifier: MIT
/* Every golden vector of FPDUs, segmentation, streams, conversations and Atomics, byte for byte, sent and received. */
#include "vec_dut.h"

/* ---- an independent reader of FPDUs ---- */
struct msg {
	uint8_t op;
	bool tagged;
	uint32_t stag, qn, msn;
	uint64_t to;
	uint8_t *p;
	size_t n;
};

struct reader {
	const uint8_t *in;
	size_t left;
	uint64_t pos;
	bool markers;
};

static void rd(struct reader *r, uint8_t *out, size_t n)
{
	while (n--) {
		if (r->markers && r->pos % 512 == 0) {
			assert_true(r->left >= 4);
			r->in += 4;
			r->left -= 4;
			r->pos += 4;
		}
		assert_true(r->left > 0);
		*out++ = *r->in++;
		r->left--;
		r->pos++;
	}
}

/* Segments of one message are put together. Returns messages. */
static unsigned int read_msgs(const uint8_t *in, size_t n, bool markers, struct msg *m, unsigned int max)
{
	struct reader r = { .in = in, .left = n, .markers = markers };
	static uint8_t u[65536 + 8];
	unsigned int count = 0;
	bool open = false;

	while (r.left) {
		size_t ulpdu, hdr;

		rd(&r, u, 2);
		ulpdu = (size_t)u[0] << 8 | u[1];
		rd(&r, u, ulpdu + (-(2 + ulpdu) & 3) + 4);
		hdr = u[0] & 0x80 ? 14 : 18;
		assert_true(ulpdu >= hdr);
		if (!open) {
			assert_true(count < max);
			m[count] = (struct msg){ .op = u[1] & 15, .tagged = u[0] & 0x80, .stag = iw_get32(u + 2),
						 .p = calloc(1, 1 << 17) };
			if (m[count].tagged) {
				m[count].to = iw_get64(u + 6);
			} else {
				m[count].qn = iw_get32(u + 6);
				m[count].msn = iw_get32(u + 10);
			}
		}
		memcpy(m[count].p + m[count].n, u + hdr, ulpdu - hdr);
		m[count].n += ulpdu - hdr;
		open = !(u[0] & 0x40);
		count += !open;
	}
	return count + open;
}

static void free_msgs(struct msg *m, unsigned int n)
{
	while (n)
		free(m[--n].p);
}

/* ---- sent: what the vector holds is posted, what comes out must be the vector ---- */
/* Make e answer with a Response as in m: somebody asks, and the memory holds what is to be answered. */
static void provoke_response(struct end *e, const struct msg *m, uint8_t *mem)
{
	struct iw_qp_param p = param_default;
	struct end *asker = end_new(&p);
	static uint8_t buf[4096];
	struct iw_wr wr = { .rstag = LOCAL };
	size_t n;

	if (m->op == IW_OP_READ_RESP) {
		end_reg(asker, m->stag, m->to, buf, sizeof(buf), IW_ACCESS_READ_SINK);
		wr.op = IW_WR_READ;
		wr.nsge = 1;
		wr.sge[0] = (struct iw_sge){ .stag = m->stag, .to = m->to, .len = (uint32_t)m->n };
		memcpy(mem, m->p, m->n);
	} else {
		uint64_t orig = iw_get64(m->p + 4);

		wr.op = IW_WR_FETCHADD;
		memcpy(mem, &orig, 8);
		asker->qp.tx_rid = iw_get32(m->p);
	}
	post(asker, &wr);
	n = end_drain(asker, buf, sizeof(buf));
	end_feed(e, buf, n);
	end_free(asker);
}

static void post_msg(struct end *e, const struct msg *m, uint8_t *mem)
{
	struct iw_wr wr = { .wr_id = 1 };

	memcpy(mem, m->p, m->n);
	wr.nsge = 1;
	wr.sge[0] = (struct iw_sge){ .stag = LOCAL, .to = 0, .len = (uint32_t)m->n };
	switch (m->op) {
	case IW_OP_WRITE:
		wr.op = IW_WR_WRITE;
		wr.rstag = m->stag;
		wr.rto = m->to;
		break;
	case IW_OP_SEND:
	case IW_OP_SEND_SE:
	case IW_OP_SEND_INV:
	case IW_OP_SEND_SE_INV:
		wr.op = IW_WR_SEND;
		wr.inv_stag = m->stag;
		wr.flags = (m->op == IW_OP_SEND_SE || m->op == IW_OP_SEND_SE_INV ? IW_WR_SE : 0) |
			   (m->op == IW_OP_SEND_INV || m->op == IW_OP_SEND_SE_INV ? IW_WR_INVALIDATE : 0);
		break;
	case IW_OP_IMM:
	case IW_OP_IMM_SE:
		wr.op = IW_WR_IMM;
		wr.nsge = 0;
		wr.flags = m->op == IW_OP_IMM_SE ? IW_WR_SE : 0;
		memcpy(wr.imm, m->p, 8);
		break;
	case IW_OP_READ_REQ:
		wr.op = IW_WR_READ;
		wr.sge[0] = (struct iw_sge){ .stag = iw_get32(m->p), .to = iw_get64(m->p + 4), .len = iw_get32(m->p + 12) };
		wr.rstag = iw_get32(m->p + 16);
		wr.rto = iw_get64(m->p + 20);
		break;
	case IW_OP_ATOMIC_REQ:
		wr.op = (m->p[3] & 15) == 0 ? IW_WR_FETCHADD : IW_WR_CMPSWAP;
		wr.nsge = 0;
		wr.rstag = iw_get32(m->p + 8);
		wr.rto = iw_get64(m->p + 12);
		wr.add_swap = iw_get64(m->p + 20);
		wr.add_swap_mask = iw_get64(m->p + 28);
		wr.compare = iw_get64(m->p + 36);
		wr.compare_mask = iw_get64(m->p + 44);
		e->qp.tx_rid = iw_get32(m->p + 4);
		break;
	default:
		fail_msg("opcode %u", m->op);
	}
	post(e, &wr);
}

static void send_vector(const struct vec *v, bool markers, uint16_t mulpdu)
{
	struct iw_qp_param p = param_default;
	static uint8_t mem[1 << 17] __attribute__((aligned(8))), sink[4096], out[1 << 17];
	struct msg m[32];
	unsigned int n = read_msgs(v->p, v->n, markers, m, 32);
	struct end *e;
	size_t len = 0;

	p.tx_markers = markers;
	p.mulpdu = mulpdu;
	e = end_new(&p);
	end_reg(e, LOCAL, 0, mem, sizeof(mem), 63);
	end_reg(e, SINK, 0x2000, sink, sizeof(sink), IW_ACCESS_READ_SINK);
	for (unsigned int i = 0; i < n; i++) {
		if (!m[i].tagged)
			e->qp.tx_msn[m[i].qn] = m[i].msn;
		if (m[i].op == IW_OP_READ_RESP || m[i].op == IW_OP_ATOMIC_RESP)
			provoke_response(e, &m[i], mem);
		else
			post_msg(e, &m[i], mem);
		len += end_drain(e, out + len, sizeof(out) - len);
	}
	if (len != v->n || memcmp(out, v->p, len)) {
		print_error("%s: %zu octets, want %zu\n", v->name, len, v->n);
		fail();
	}
	free_msgs(m, n);
	end_free(e);
}

static void sent(void **state)
{
	unsigned int seen = 0;

	for (unsigned int i = 0; i < nvecs; i++) {
		struct vec *v = &vecs[i];

		if (starts(v->name, "fpdu.ign.") || starts(v->name, "stream.neg."))
			continue;
		/* never made by us: a short segment that is not the last; Swap; a CRC field that is not 0 with CRCs off */
		if (!strcmp(v->name, "fpdu.write.more") || !strcmp(v->name, "fpdu.at.swap") || !strcmp(v->name, "fpdu.nocrc"))
			continue;
		if (starts(v->name, "fpdu.") || starts(v->name, "stream.nm."))
			send_vector(v, false, 64768);
		else if (starts(v->name, "seg."))
			send_vector(v, false, 1500);
		else if (starts(v->name, "stream.m."))
			send_vector(v, true, 64768);
		else
			continue;
		v->used = 1;
		seen++;
	}
	assert_int_equal(seen, 23 + 4 + 7 + 1);
}

/* ---- received ---- */
static const struct iw_cqe *recv_ok(struct end *e, const struct msg *m, const uint8_t *buf)
{
	const struct iw_cqe *c = end_cqe(e);

	assert_non_null(c);
	assert_int_equal(c->op, IW_WR_RECV);
	assert_int_equal(c->status, IW_WC_OK);
	assert_int_equal(c->len, m->n);
	assert_int_equal(c->se, m->op == IW_OP_SEND_SE || m->op == IW_OP_SEND_SE_INV || m->op == IW_OP_IMM_SE);
	assert_int_equal(c->has_inv, m->op == IW_OP_SEND_INV || m->op == IW_OP_SEND_SE_INV);
	if (c->has_inv)
		assert_int_equal(c->inv_stag, m->stag);
	if (m->op == IW_OP_IMM || m->op == IW_OP_IMM_SE) {
		assert_true(c->has_imm);
		assert_memory_equal(c->imm, m->p, 8);
		for (int i = 0; i < 16; i++)
			assert_int_equal(buf[i], 0xee);		/* eaten, not touched */
	} else {
		assert_false(c->has_imm);
		assert_memory_equal(buf, m->p, m->n);
		assert_int_equal(buf[m->n], 0xee);
	}
	return c;
}

#define BUFSZ 16384u
static uint8_t bufs[24 * BUFSZ], target[65536] __attribute__((aligned(8)));

/* The work request that a Response in m answers. */
static void ask(struct end *e, const struct msg *m)
{
	struct iw_wr wr = { .wr_id = 77, .rstag = STAG };

	if (m->op == IW_OP_READ_RESP) {
		wr.op = IW_WR_READ;
		wr.nsge = 1;
		wr.sge[0] = (struct iw_sge){ .stag = m->stag, .to = m->to, .len = (uint32_t)m->n };
	} else if (m->op == IW_OP_ATOMIC_RESP) {
		wr.op = IW_WR_FETCHADD;
		e->qp.tx_rid = iw_get32(m->p);
		e->qp.rx_msn[IW_QN_ATOMIC] = m->msn;
	} else {
		return;
	}
	post(e, &wr);
	end_drain(e, NULL, 0);
}

static void check_msg(struct end *e, const struct msg *m, unsigned int *nrecv, bool crc)
{
	const struct iw_cqe *c;

	switch (m->op) {
	case IW_OP_WRITE:
		assert_memory_equal(target + (m->n ? m->to - 0x1000 : 0), m->p, m->n);
		break;
	case IW_OP_READ_REQ:
		assert_int_equal(e->qp.stat.rx_read, 1);
		assert_true(iw_qp_tx_pending(&e->qp));
		break;
	case IW_OP_ATOMIC_REQ:
		assert_int_equal(e->qp.stat.rx_atomic, 1);
		break;
	case IW_OP_READ_RESP:
		c = end_cqe(e);
		assert_true(c && c->wr_id == 77 && c->op == IW_WR_READ && c->status == IW_WC_OK && c->len == m->n);
		assert_memory_equal(target, m->p, m->n);
		break;
	case IW_OP_ATOMIC_RESP:
		c = end_cqe(e);
		assert_true(c && c->op == IW_WR_FETCHADD && c->status == IW_WC_OK && c->orig == iw_get64(m->p + 4));
		break;
	default:
		recv_ok(e, m, bufs + (*nrecv)++ * BUFSZ);
	}
}

static void receive_vector(const struct vec *v, bool markers, bool crc, enum feed how, size_t cut)
{
	struct iw_qp_param p = param_default;
	struct msg m[32];
	unsigned int n = read_msgs(v->p, v->n, markers, m, 32), nrecv = 0;
	struct end *e;

	p.rx_markers = markers;
	p.crc = crc;
	e = end_new(&p);
	memset(bufs, 0xee, sizeof(bufs));
	memset(target, 0x11, sizeof(target));
	end_reg(e, RECV, 0, bufs, sizeof(bufs), IW_ACCESS_LOCAL_WRITE);
	end_reg(e, STAG, 0x1000, target, sizeof(target), IW_ACCESS_REMOTE_WRITE | IW_ACCESS_REMOTE_READ | IW_ACCESS_REMOTE_ATOMIC);
	end_reg(e, SINK, 0x2000, target, 4096, IW_ACCESS_READ_SINK);
	for (unsigned int i = 0; i < 24; i++) {
		struct iw_sge s = { .stag = RECV, .to = i * BUFSZ, .len = BUFSZ };

		assert_int_equal(iw_qp_post_recv(&e->qp, i, &s), 0);
	}
	if (!m[0].tagged)
		e->qp.rx_msn[m[0].qn] = m[0].msn;
	ask(e, &m[0]);
	feed(&(struct dut){ .e = e }, v->p, v->n, how, cut);
	assert_int_equal(e->qp.state, IW_QP_RTS);
	assert_int_equal(e->nin, 0);
	for (unsigned int i = 0; i < n; i++)
		check_msg(e, &m[i], &nrecv, crc);
	assert_null(end_cqe(e));
	free_msgs(m, n);
	end_free(e);
}

static void received(void **state)
{
	unsigned int seen = 0;

	for (unsigned int i = 0; i < nvecs; i++) {
		struct vec *v = &vecs[i];
		bool markers = starts(v->name, "stream.m."), crc = strcmp(v->name, "fpdu.nocrc");

		if (!starts(v->name, "fpdu.") && !starts(v->name, "seg.") && !markers && !starts(v->name, "stream.nm."))
			continue;
		if (!strcmp(v->name, "fpdu.at.swap"))
			continue;	/* refused: neg.at.aop1 */
		receive_vector(v, markers, crc, WHOLE, 0);
		receive_vector(v, markers, crc, OCTETS, 0);
		for (size_t cut = 0; cut <= v->n; cut += v->n > 600 ? 7 : 1)
			receive_vector(v, markers, crc, CUT, cut);
		v->used = 1;
		seen++;
	}
	assert_int_equal(seen, 30 + 4 + 7 + 1);
}

/* ---- whole half connections ---- */
static size_t mpa_frame(const char *name, uint8_t *out)
{
	const struct vec *v = vec_get(name);
	struct iw_mpa_frame f;

	assert_int_equal(iw_mpa_decode(&f, v->p, v->n, v->p[9] == 0x70), (int)v->n);
	return (size_t)iw_mpa_encode(&f, out);
}

static void post_inline(struct end *e, const char *s)
{
	struct iw_wr wr = { .op = IW_WR_SEND, .flags = IW_WR_INLINE, .inl_len = (uint8_t)strlen(s) };

	memcpy(wr.inl, s, strlen(s));
	post(e, &wr);
}

static void conversations(void **state)
{
	struct iw_qp_param p = param_default;
	const struct vec *i2r = vec_get("conv.p2p.i2r"), *r2i = vec_get("conv.p2p.r2i");
	struct end *a, *b;
	uint8_t out[1024], buf[64];
	size_t n, m;

	p.rtr = 1;
	a = end_new(&p);
	n = mpa_frame("mpa.req.r2.p2p", out);
	post_inline(a, "ping");
	n += end_drain(a, out + n, sizeof(out) - n);
	same("conv.p2p.i2r", out, n);

	/* the Responder holds its Send back until the RTR is whole and good, octet by octet */
	p.rtr = p.initiator = 0;
	b = end_new(&p);
	end_reg(b, RECV, 0, buf, sizeof(buf), IW_ACCESS_LOCAL_WRITE);
	assert_int_equal(iw_qp_post_recv(&b->qp, 1, &(struct iw_sge){ .stag = RECV, .len = 64 }), 0);
	post_inline(b, "pong");
	n = mpa_frame("mpa.rep.r2.p2p", out);
	for (size_t i = n; i < n + 20; i++) {
		assert_false(iw_qp_tx_pending(&b->qp));
		assert_int_equal(iw_qp_tx(&b->qp, &end_ops, b, b->out, IW_FPDU_MAX_MARKERS, 0), 0);
		end_feed(b, i2r->p + i, 1);
	}
	assert_true(end_had(b, IW_QP_EV_FIRST_FPDU));
	m = end_drain(b, out + n, sizeof(out) - n);
	same("conv.p2p.r2i", out, n + m);
	end_feed(b, i2r->p + n + 20, i2r->n - n - 20);
	assert_int_equal(b->cq[b->ncq - 1].len, 4);
	assert_memory_equal(buf, "ping", 4);
	end_reg(a, RECV, 0, buf, sizeof(buf), IW_ACCESS_LOCAL_WRITE);
	assert_int_equal(iw_qp_post_recv(&a->qp, 1, &(struct iw_sge){ .stag = RECV, .len = 64 }), 0);
	end_feed(a, r2i->p + n, r2i->n - n);
	assert_memory_equal(buf, "pong", 4);
	end_free(a);
	end_free(b);

	p = param_default;
	p.tx_markers = 1;
	a = end_new(&p);
	n = mpa_frame("mpa.req.r1.c", out);
	post_inline(a, "ping");
	n += end_drain(a, out + n, sizeof(out) - n);
	same("conv.m.i2r", out, n);
	end_free(a);

	/* a failed negotiation: the Terminate goes ahead of the RTR */
	p = param_default;
	p.rtr = 1;
	a = end_new(&p);
	n = mpa_frame("mpa.req.r2.cs", out);
	iw_qp_terminate(&a->qp, &end_ops, a, 2, 0, 6);
	n += end_drain(a, out + n, sizeof(out) - n);
	same("conv.ird.i2r", out, n);
	end_free(a);
}

/* ---- Atomic arithmetic, by itself and over the wire ---- */
static void sem_wire(const struct iw_wr *wr, uint64_t orig, uint64_t result)
{
	uint64_t word[3] = { 0x1111111111111111, orig, 0x2222222222222222 };
	struct iw_qp_param p = param_default;
	struct end *a = end_new(&p), *b;

	p.initiator = 0;
	b = end_new(&p);
	end_reg(b, STAG, 0x1000, word, sizeof(word), IW_ACCESS_REMOTE_ATOMIC);
	post(a, wr);
	end_settle(a, b);
	assert_true(a->ncq == 1 && a->cq[0].status == IW_WC_OK && a->cq[0].op == wr->op);
	assert_true(a->cq[0].orig == orig);
	assert_true(word[1] == result);
	assert_true(word[0] == 0x1111111111111111 && word[2] == 0x2222222222222222);
	assert_int_equal(b->ncq, 0);
	end_free(a);
	end_free(b);
}

static void atomics(void **state)
{
	unsigned int seen = 0;

	for (unsigned int i = 0; i < nvecs; i++) {
		struct vec *v = &vecs[i];
		struct iw_wr wr = { .rstag = STAG, .rto = 0x1008 };
		uint64_t x[6] = { 0 };

		if (!starts(v->name, "sem."))
			continue;
		for (unsigned int k = 0; k < v->n / 8; k++)
			x[k] = iw_get64(v->p + 8 * k);
		if (starts(v->name, "sem.fadd.")) {
			assert_int_equal(v->n, 32);
			assert_true(iw_fetchadd(x[0], x[1], x[2]) == x[3]);
			wr.op = IW_WR_FETCHADD;
			wr.add_swap = x[1];
			wr.add_swap_mask = x[2];
			sem_wire(&wr, x[0], x[3]);
		} else {
			assert_int_equal(v->n, 48);
			assert_true(iw_cmpswap(x[0], x[1], x[2], x[3], x[4]) == x[5]);
			wr.op = IW_WR_CMPSWAP;
			wr.compare = x[1];
			wr.compare_mask = x[2];
			wr.add_swap = x[3];
			wr.add_swap_mask = x[4];
			sem_wire(&wr, x[0], x[5]);
		}
		v->used = 1;
		seen++;
	}
	assert_int_equal(seen, 14);
}

/* fpdu.at.fetchadd against a word that holds 10, and the zero-length Reads: the exact answers. */
static void answers(void **state)
{
	static const char *const pair[][2] = { { "fpdu.at.fetchadd", "fpdu.at.resp" }, { "fpdu.rreq.zero", "fpdu.rresp.zero" },
					       { "fpdu.rreq.zero.junk", "fpdu.rresp.zero.junk" } };

	for (unsigned int i = 0; i < 3; i++) {
		const struct vec *v = vec_get(pair[i][0]);
		uint64_t word = 10;
		uint8_t out[128];
		struct dut d;

		dut_new(&d);
		memcpy(d.mem[0] + GUARD + 8, &word, 8);
		end_feed(d.e, v->p, v->n);
		same(pair[i][1], out, end_drain(d.e, out, sizeof(out)));
		memcpy(&word, d.mem[0] + GUARD + 8, 8);
		assert_true(word == (i ? 10 : 15));
		assert_int_equal(d.e->ncq, 0);
		dut_free(&d);
	}
	vec_get("fpdu.at.swap");
}

/* CRC agreed: the vector without one is refused. Not agreed: nothing is looked at, and 0 is sent. */
static void crc_off(void **state)
{
	const struct vec *v = vec_get("fpdu.nocrc"), *want = vec_get("want.crc");
	struct iw_qp_param p = param_default;
	struct end *e = end_new(&p);
	uint8_t out[128];

	end_feed(e, v->p, v->n);
	assert_int_equal(end_drain(e, out, sizeof(out)), want->n);
	assert_memory_equal(out, want->p, want->n);
	end_free(e);
	p.crc = 0;
	e = end_new(&p);
	post_inline(e, "hello");
	assert_int_equal(end_drain(e, out, sizeof(out)), v->n);
	assert_memory_equal(out, v->p, v->n - 4);
	assert_memory_equal(out + v->n - 4, "\0\0\0\0", 4);
	end_free(e);
}

/* None was forgotten; the others are crc_test's, mpa_test's and the other vectors test's. */
static void all_used(void **state)
{
	static const char *const others[] = { "crc.", "mpa.", "mulpdu.", "wirelen.", "neg", "want", "term.", "ign.", "stream.neg." };

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
		cmocka_unit_test(sent), cmocka_unit_test(received), cmocka_unit_test(conversations), cmocka_unit_test(atomics),
		cmocka_unit_test(answers), cmocka_unit_test(crc_off), cmocka_unit_test(all_used),
	};
	int r;

	cmocka_set_message_output(CM_OUTPUT_TAP);
	vec_load();
	r = cmocka_run_group_tests_name("vectors", tests, NULL, NULL);
	vec_unload();
	return r;
}
