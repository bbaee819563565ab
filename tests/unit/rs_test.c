// SPDX-License-Identifier: MIT
/* The ring stream between two ends: random traffic over a model of a queue pair, its liveness, its ends. IW_SEED, IW_RUNS. */
#include "rs_model.h"

static uint64_t first_seed, runs;

static void traffic(struct model *m, unsigned int actions)
{
	while (actions--) {
		m_action(&m->s[m_below(m, 2)]);
		if (!m_below(m, 400))
			m_settle(m, true);
		else if (!m_below(m, 400))
			m_settle(m, false);
	}
}

/* Produce the rest, in random pieces. */
static void finish(struct model *m)
{
	for (unsigned int i = 0; i < 100000 && (m->s[0].produced < m->s[0].limit || m->s[1].produced < m->s[1].limit); i++) {
		m_produce(&m->s[0], 1 + m_below(m, 100000));
		m_produce(&m->s[1], 1 + m_below(m, 100000));
		m_action(&m->s[m_below(m, 2)]);
		if (m_below(m, 8))
			m_settle(m, m_below(m, 4));
	}
	m_settle(m, true);
	m_check(m, m->s[0].produced == m->s[0].limit && m->s[1].produced == m->s[1].limit);
}

static void send_fin(struct side *s)
{
	if (m_below(s->m, 2))
		m_produce(s, 100000);
	s->fin = true;
	s->limit = s->produced;
	iw_rs_tx_fin(&s->rs);
}

static void check_urgent(const struct side *s)
{
	bool known = !s->rs.rx_urg_valid;

	for (uint32_t i = 0; i < s->peer->nurg; i++)
		known |= s->peer->urg[i] == s->rs.rx_urg;
	m_check(s->m, known);
	m_check(s->m, !s->peer->nurg || s->ev_urgent);
}

static void both_ways(uint64_t seed, const struct model_transport *t)
{
	struct model *m = m_new(seed, t, NULL);
	int first = (int)m_below(m, 2);

	traffic(m, 200 + m_below(m, 1500));
	if (m_below(m, 2))
		finish(m);
	send_fin(&m->s[first]);
	if (m_below(m, 2))
		traffic(m, m_below(m, 500));
	send_fin(&m->s[!first]);
	traffic(m, m_below(m, 300));
	m_settle(m, true);
	for (int i = 0; i < 2; i++) {
		struct side *s = &m->s[i];

		m_check(m, s->fin_seen && s->rs.done && s->ev_done == 1 && !s->ev_abort && !s->rs.err);
		m_check(m, s->peer->consumed == s->produced);
		check_urgent(s);
	}
	m_free(m);
}

static void test_random(void **state)
{
	for (uint64_t i = 0; i < runs; i++)
		both_ways(first_seed + i, &fake_transport);
}

/* After iw_rs_ack() an idle stream has nothing unacknowledged (SIOCOUTQ). */
static void test_ack_now(void **state)
{
	for (uint64_t i = 0; i < 50; i++) {
		struct model *m = m_new(first_seed + i, &fake_transport, NULL);

		traffic(m, 500);
		m_settle(m, true);
		for (int k = 0; k < 2; k++)
			iw_rs_ack(&m->s[k].rs);
		m_settle(m, true);
		for (int k = 0; k < 2; k++)
			m_check(m, iw_rs_tx_unacked(&m->s[k].rs) == 0);
		m_free(m);
	}
}

static void test_abort(void **state)
{
	for (uint64_t i = 0; i < runs / 4 + 1; i++) {
		struct model *m = m_new(first_seed + i, &fake_transport, NULL);
		struct side *s = &m->s[m_below(m, 2)];

		traffic(m, 50 + m_below(m, 800));
		iw_rs_abort(&s->rs, ECONNRESET);
		m_settle(m, m_below(m, 2));
		m_check(m, s->rs.dead && s->rs.err == ECONNRESET && s->ev_abort == 0);
		m_check(m, s->nexposed == 0);
		if (s->rs.abort_posted) {
			m_check(m, s->peer->rs.dead && s->peer->rs.err == ECONNRESET && s->peer->ev_abort == 1);
			m_check(m, s->peer->nexposed == 0);
		}
		m_free(m);
	}
}

/* ---- bulk: the paths that a transfer takes ---- */

static void tune_bulk(struct side *s)
{
	s->no_reads = false;
	s->p.tx_len = s->p.rx_len = s->p.rd_len = 1u << 20;
	s->p.read_max = 256u << 10;
	s->p.bufs = 64;
	s->p.buf_size = s->p.rq_step = 1024;
	s->p.inline_max = 512;
	s->p.srcavail_min = 256u << 10;
	s->p.caps = IW_RS_CAP_IMM | IW_RS_CAP_SRCAVAIL | IW_RS_CAP_SENDINV;
	s->limit = s == &s->m->s[0] ? 64u << 20 : 0;
}

static void bulk(struct model *m, uint32_t rounds_per_read)
{
	struct side *a = &m->s[0], *b = &m->s[1];

	for (uint32_t i = 0; b->consumed < a->limit; i++) {
		while (m_produce(a, 65536))
			;
		m_pump(a);
		m->t->step(a, true);
		m->t->step(b, true);
		if (i % rounds_per_read == 0)
			m_consume(b, 65536);
		m_pump(b);
		m_check(m, i < 1000000);
	}
}

static void tune_keeps_up(struct side *s)
{
	tune_bulk(s);
	s->p.tx_len = 65536;
	s->limit /= 8;
}

/* A reader that keeps up is served by Writes; one that does not, by Reads as well. */
static void test_paths(void **state)
{
	struct model *m = m_new(1, &fake_transport, tune_bulk);
	const struct iw_rs_stat *st = &m->s[0].rs.stat;

	bulk(m, 4);
	m_check(m, st->tx_srcavail > 4 && st->tx_write > 4);
	m_check(m, st->tx_srcavail_octets > (8u << 20) && st->tx_write_octets > (8u << 20));
	m_check(m, m->s[1].rs.stat.tx_read >= st->tx_srcavail && m->s[1].rs.stat.tx_rddone == st->tx_srcavail);
	m_free(m);
	m = m_new(1, &fake_transport, tune_keeps_up);
	st = &m->s[0].rs.stat;
	while (m->s[1].consumed < m->s[0].limit) {
		m_produce(&m->s[0], 65536);
		m_settle(m, true);
	}
	m_check(m, st->tx_srcavail == 0 && st->tx_write >= 128);
	m_check(m, m->s[1].rs.stat.tx_ack >= 31 && m->s[1].rs.stat.tx_ack <= 64);	/* one per quarter of the ring, and credits */
	m_free(m);
}

static void tune_no_reads(struct side *s)
{
	tune_bulk(s);
	s->no_reads = s->ord_secret = true;
	s->limit /= 8;
}

/*
 * The peer answers no Reads (ORD is 0), and offers. It is told once that its offer will not be read, and everything comes by the ring; nor
 * does it hear of offers when it cannot read them.
 */
static void test_no_reads(void **state)
{
	struct model *m = m_new(1, &fake_transport, tune_no_reads);
	const struct iw_rs_stat *a = &m->s[0].rs.stat, *b = &m->s[1].rs.stat;

	bulk(m, 4);
	m_check(m, b->rx_srcavail >= 1 && b->tx_rddone == 1 && b->tx_read == 0 && b->rx_read_octets == 0);
	m_check(m, a->tx_srcavail <= IW_RS_SA && a->tx_write_octets + a->tx_inline_octets == m->s[0].limit);
	m_settle(m, true);
	m_check(m, !m->s[0].nexposed && !m->s[0].rs.dead && !m->s[1].rs.dead);
	m_free(m);
	m = m_new(1, &fake_transport, tune_no_reads);
	a = &m->s[0].rs.stat;
	iw_rs_depths(&m->s[0].rs, 0, 0);
	bulk(m, 4);
	m_check(m, a->tx_srcavail == 0);
	m_free(m);
}

static void tune_keeps(struct side *s)
{
	tune_bulk(s);
	s->p.caps = 0;
	s->p.tx_keeps = 1;
	s->limit /= 8;
	if (s == &s->m->s[0])
		s->p.tx_len = s->p.rx_len = 65536;
}

static void test_kept(const struct side *a, const struct side *b)
{
	m_check(a->m, a->rs.tx_freed <= b->consumed && a->rs.tx_pos - a->rs.tx_freed <= a->p.tx_len);
}

/*
 * What was sent can be sent again until the peer has used it, though it completed; and the peer, whose ring is larger by far, says so before the other
 * one's is full.
 */
static void test_keeps(void **state)
{
	struct model *m = m_new(1, &fake_transport, tune_keeps);
	struct side *a = &m->s[0], *b = &m->s[1];
	bool completed = false;

	for (uint32_t i = 0; b->consumed < a->limit; i++) {
		while (m_produce(a, 65536))
			test_kept(a, b);
		m_pump(a);
		m->t->step(a, true);
		test_kept(a, b);
		completed |= a->rs.tx_done > a->rs.tx_freed;
		m->t->step(b, true);
		m_consume(b, 1 + m_below(m, 20000));
		m_pump(b);
		m_check(m, i < 1000000);
	}
	m_check(m, completed && !a->rs.stat.tx_srcavail);
	m_free(m);
}

static void tune_small(struct side *s)
{
	tune_bulk(s);
	s->limit = 1u << 20;
}

/* Small messages go as one Send each, SE when the reader waits. */
static void test_small(void **state)
{
	struct model *m = m_new(2, &fake_transport, tune_small);
	struct side *a = &m->s[0], *b = &m->s[1];

	iw_rs_rx_waiting(&b->rs, true);
	m_settle(m, true);
	assert_int_equal(b->rs.stat.tx_ack, 1);
	for (int i = 0; i < 1000; i++) {
		struct iw_wr *wr = &a->sq[a->sq_head % M_SQ];

		m_produce(a, 64);
		m_pump(a);
		assert_int_equal(wr->op, IW_WR_SEND);
		assert_int_equal(wr->flags, IW_WR_SE | IW_WR_INLINE);
		m_settle(m, true);
	}
	assert_int_equal(a->rs.stat.tx_inline, 1000);
	assert_int_equal(b->consumed, 64000);
	/* nothing but credits went back: one message per half of the buffers at most */
	assert_true(b->rs.stat.tx_ack + b->rs.stat.tx_credit <= 1000 / 32 + 1);
	assert_true(a->rs.stat.tx_credit + a->rs.stat.tx_ack == 0);
	m_free(m);
}

/* Without push short tails wait for what is in flight; with it they do not. */
static void test_coalesce(void **state)
{
	struct model *m = m_new(3, &fake_transport, tune_small);
	struct side *a = &m->s[0];

	for (int i = 0; i < 4; i++) {
		m_produce(a, 100);
		m_pump(a);
	}
	assert_int_equal(a->rs.stat.tx_inline, 1);
	m->t->step(a, true);
	m_pump(a);
	assert_int_equal(a->rs.stat.tx_inline, 2);
	assert_int_equal(a->rs.stat.tx_inline_octets, 400);
	m_produce(a, 100);
	iw_rs_push(&a->rs);
	m_pump(a);
	assert_int_equal(a->rs.stat.tx_inline, 3);
	m_settle(m, true);
	m_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_coalesce),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_no_reads),
		cmocka_unit_test(test_keeps),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_ack_now),
		cmocka_unit_test(test_abort),
	};
	const char *seed = getenv("IW_SEED"), *n = getenv("IW_RUNS");

	first_seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 100000;
	runs = n ? strtoull(n, NULL, 0) : 1000;
	printf("# rs_test: IW_SEED=%llu IW_RUNS=%llu\n", (unsigned long long)first_seed, (unsigned long long)runs);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
