// SPDX-License-Identifier: MIT
/* The ring stream over two real queue pairs, joined by octet pipes that are cut anywhere: random traffic, both ends. IW_SEED, IW_RUNS. */
#include "rs_model.h"

#include "proto/qp.h"

#define PIPE	(8u << 20)

struct qp_end {
	struct iw_qp qp;
	uint8_t *pipe;			/* octets towards the peer, oldest first */
	size_t head, tail;		/* made; taken by the peer */
	uint64_t made, told;		/* by iw_qp_tx(); to iw_qp_tx_done() */
	uint8_t *out, *in;
	bool first;
	unsigned int bad;
};

static uint64_t first_seed, runs;

static struct qp_end *end_of(struct side *s)
{
	return s->qp;
}

static enum iw_access_err qp_access(void *ctx, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	struct side *s = ctx;
	struct m_exposed *e = m_find_exposed(s, stag);
	static const struct { uint32_t stag; unsigned int rights; } rights[] = {
		{ M_TX, IW_ACCESS_LOCAL_READ }, { M_RX, IW_ACCESS_REMOTE_WRITE }, { M_RD, IW_ACCESS_READ_SINK },
		{ M_RQ, IW_ACCESS_LOCAL_WRITE },
	};

	if (to + (len - 1) < to)
		return IW_ACC_WRAP;
	if (e) {
		if (right != IW_ACCESS_REMOTE_READ)
			return IW_ACC_RIGHTS;
		if (to < e->to || len > e->len || to - e->to > e->len - len)
			return IW_ACC_BOUNDS;
		*ptr = s->tx + e->off + (to - e->to);
		return IW_ACC_OK;
	}
	for (unsigned int i = 0; i < 4; i++) {
		if (rights[i].stag != stag)
			continue;
		if (right != rights[i].rights)
			return IW_ACC_RIGHTS;
		*ptr = m_local(s, stag, to, len);
		return *ptr ? IW_ACC_OK : IW_ACC_BOUNDS;
	}
	return IW_ACC_STAG;
}

static enum iw_access_err qp_invalidate(void *ctx, uint32_t stag)
{
	if (!m_find_exposed(ctx, stag))
		return IW_ACC_STAG;
	m_unexpose(ctx, stag);
	return IW_ACC_OK;
}

static void qp_complete(void *ctx, const struct iw_cqe *cqe)
{
	struct side *s = ctx;

	iw_rs_complete(&s->rs, s->m->t->ops, s, cqe);
}

static void qp_event(void *ctx, enum iw_qp_event ev)
{
	struct side *s = ctx;

	if (ev == IW_QP_EV_FIRST_FPDU)
		end_of(s)->first = true;
	else
		end_of(s)->bad++;
}

static const struct iw_qp_ops qp_ops = {
	.access = qp_access, .invalidate = qp_invalidate, .complete = qp_complete, .event = qp_event,
};

static int post_send(void *ctx, const struct iw_wr *wr)
{
	return iw_qp_post_send(&end_of(ctx)->qp, wr);
}

static int post_recv(void *ctx, uint64_t wr_id, const struct iw_sge *sge)
{
	return iw_qp_post_recv(&end_of(ctx)->qp, wr_id, sge);
}

static unsigned int sq_free(void *ctx)
{
	return iw_qp_sq_free(&end_of(ctx)->qp);
}

static const struct iw_rs_ops rs_ops = {
	.post_send = post_send, .post_recv = post_recv, .sq_free = sq_free,
	.mem = m_mem, .expose = m_expose, .unexpose = m_unexpose, .event = m_event,
};

static void open_qp(struct side *s)
{
	struct model *m = s->m;
	struct qp_end *e = calloc(1, sizeof(*e));
	struct iw_qp_param p = {
		.initiator = s == &m->s[0],
		.mulpdu = m_below(m, 3) ? 1442 : (uint16_t)(128 + m_below(m, 64768 - 128 + 1)),
		.recv_min = 8,
	};

	/* both ends must agree on these */
	p.ird = p.ord = (uint16_t)(m->seed % 6);
	s->ord = p.ord;
	p.crc = m->seed % 8 != 0;
	p.tx_markers = m->seed % (s == &m->s[0] ? 3 : 5) == 0;
	p.rx_markers = m->seed % (s == &m->s[0] ? 5 : 3) == 0;
	p.rtr = s == &m->s[0] ? 1 + m->seed % 2 : 0;
	e->pipe = malloc(PIPE);
	e->out = malloc(IW_FPDU_MAX_MARKERS);
	e->in = malloc(PIPE);
	s->qp = e;
	iw_qp_init(&e->qp);
	assert_int_equal(iw_qp_start(&e->qp, &p), 0);
}

static void close_qp(struct side *s)
{
	struct qp_end *e = end_of(s);

	free(e->pipe);
	free(e->out);
	free(e->in);
	free(e);
}

static bool step_tx(struct side *s, bool all)
{
	struct qp_end *e = end_of(s);
	size_t n;

	if (PIPE - e->head < IW_FPDU_MAX_MARKERS) {
		memmove(e->pipe, e->pipe + e->tail, e->head - e->tail);
		e->head -= e->tail;
		e->tail = 0;
		if (PIPE - e->head < IW_FPDU_MAX_MARKERS)
			return false;
	}
	if (!all && e->head - e->tail > 200000)
		return false;		/* the LLP takes no more for now */
	n = iw_qp_tx(&e->qp, &qp_ops, s, e->out, IW_FPDU_MAX_MARKERS, all ? 0 : m_below(s->m, 5000));
	memcpy(e->pipe + e->head, e->out, n);
	e->head += n;
	e->made += n;
	return n;
}

static bool step_done(struct side *s, bool all)
{
	struct qp_end *e = end_of(s);
	uint64_t n = e->made - e->told;

	if (!n)
		return false;
	if (!all)
		n = 1 + m_below(s->m, (uint32_t)n);
	e->told += n;
	iw_qp_tx_done(&e->qp, &qp_ops, s, (size_t)n);
	return true;
}

static bool step_rx(struct side *s, bool all)
{
	struct qp_end *from = end_of(s->peer), *e = end_of(s);
	size_t n = from->head - from->tail, used;

	if (!n)
		return false;
	if (!all)
		n = 1 + m_below(s->m, (uint32_t)n);
	memcpy(e->in, from->pipe + from->tail, n);
	used = iw_qp_rx(&e->qp, &qp_ops, s, e->in, n);
	m_check(s->m, used <= n && !e->bad);
	from->tail += used;
	return used;
}

static bool step(struct side *s, bool all)
{
	bool any;

	if (!all) {
		switch (m_below(s->m, 3)) {
		case 0:
			return step_tx(s, false);
		case 1:
			return step_done(s, false);
		default:
			return step_rx(s, false);
		}
	}
	any = step_done(s, true);
	while (step_tx(s, true))
		any = true;
	any |= step_done(s, true);
	return step_rx(s, true) || any;
}

static const struct model_transport transport = { .open = open_qp, .close = close_qp, .ops = &rs_ops, .step = step };

static void run(uint64_t seed)
{
	struct model *m = m_new(seed, &transport, NULL);
	unsigned int n = 200 + m_below(m, 1500);

	while (n--) {
		m_action(&m->s[m_below(m, 2)]);
		if (!m_below(m, 200))
			m_settle(m, m_below(m, 2));
	}
	for (int i = 0; i < 2; i++) {
		struct side *s = &m->s[i ^ (int)(seed & 1)];

		s->fin = true;
		iw_rs_tx_fin(&s->rs);
		for (n = m_below(m, 300); n--; )
			m_action(&m->s[m_below(m, 2)]);
	}
	m_settle(m, true);
	for (int i = 0; i < 2; i++) {
		struct side *s = &m->s[i];

		m_check(m, s->fin_seen && s->rs.done && s->ev_done == 1 && !s->ev_abort && !s->rs.err);
		m_check(m, end_of(s)->qp.state == IW_QP_RTS && end_of(s)->qp.stat.rx_send == end_of(s->peer)->qp.stat.tx_send);
	}
	m_free(m);
}

static void test_random(void **state)
{
	for (uint64_t i = 0; i < runs; i++)
		run(first_seed + i);
}

static void tune_bulk(struct side *s)
{
	s->no_reads = false;
	s->p.tx_len = s->p.rx_len = s->p.rd_len = 1u << 20;
	s->p.read_max = 256u << 10;
	s->p.bufs = 64;
	s->p.buf_size = s->p.rq_step = 576;
	s->p.inline_max = 512;
	s->p.srcavail_min = 256u << 10;
	s->p.caps = IW_RS_CAP_IMM | IW_RS_CAP_SRCAVAIL | IW_RS_CAP_SENDINV;
	s->limit = s == &s->m->s[0] ? 32u << 20 : 0;
}

/* A slow reader: Writes and Reads both carry a good part; the counts of both layers agree. */
static void test_paths(void **state)
{
	struct model *m = m_new(11, &transport, tune_bulk);
	struct side *a = &m->s[0], *b = &m->s[1];
	const struct iw_qp_stat *q = &end_of(a)->qp.stat;

	for (unsigned int i = 0; b->consumed < a->limit; i++) {
		m_produce(a, 65536);
		m_pump(a);
		step(a, true);
		step(b, true);
		if (i % 3 == 0)
			m_consume(b, 100000);
		m_pump(b);
		m_check(m, i < 100000);
	}
	m_settle(m, true);
	m_check(m, q->tx_write_octets == a->rs.stat.tx_write_octets && q->tx_write_octets > (4u << 20));
	m_check(m, a->rs.stat.tx_srcavail_octets > (4u << 20));
	m_check(m, a->rs.stat.tx_write_octets + a->rs.stat.tx_srcavail_octets + a->rs.stat.tx_inline_octets == 32u << 20);
	m_check(m, end_of(b)->qp.stat.tx_read >= b->rs.stat.tx_read && b->rs.stat.rx_read_octets == a->rs.stat.tx_srcavail_octets);
	printf("# Writes %llu, Reads %llu octets %llu/%llu\n", (unsigned long long)q->tx_write,
	       (unsigned long long)b->rs.stat.tx_read, (unsigned long long)q->tx_write_octets,
	       (unsigned long long)b->rs.stat.rx_read_octets);
	m_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_random),
	};
	const char *seed = getenv("IW_SEED"), *n = getenv("IW_RUNS");

	first_seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 100000;
	runs = n ? strtoull(n, NULL, 0) : 400;
	printf("# rs_qp_test: IW_SEED=%llu IW_RUNS=%llu\n", (unsigned long long)first_seed, (unsigned long long)runs);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
