// SPDX-License-Identifier: MIT
/*
 * An end on its map (proto/end.h) with another one, and with the plain composition that a daemon makes: random writes, reads, peeks and partial
 * takes, credits and small rings, and every way a stream ends. IW_SEED, IW_RUNS.
 */
#include "end_pair.h"

#include "proto/mpa.h"

static uint64_t first_seed, runs;

static struct pair *start(uint64_t seed, const struct priv_param *pp)
{
	struct pair *m = pair_new(seed, pp);
	int first = (int)below(m, 2);

	side_map(&m->s[first]);
	if (pp || below(m, 2))
		side_map(&m->s[!first]);
	return m;
}

static struct pair *start_default(void)
{
	const struct priv_param pp[2] = { priv_default(), priv_default() };

	return start(first_seed, pp);
}

static void traffic(struct pair *m, unsigned int n)
{
	m->hasty = m->lazy = true;
	while (n--) {
		act(&m->s[below(m, 2)]);
		if (below(m, 300))
			continue;
		finish_writing(m);
		m->s[0].limit = m->s[1].limit = UINT64_MAX / 2;
	}
}

static void both_ways(uint64_t seed)
{
	struct pair *m = start(seed, NULL);
	int first = (int)below(m, 2);

	traffic(m, 100 + below(m, 1500));
	if (below(m, 2))
		finish_writing(m);
	do_fin(&m->s[first]);
	for (unsigned int n = below(m, 400); n--; )
		act(&m->s[below(m, 2)]);
	do_fin(&m->s[!first]);
	settled(m);
	for (int i = 0; i < 2; i++) {
		struct side *s = &m->s[i];

		check(m, s->fin_seen && side_f(s)->rs.done && side_f(s)->ev_done && !side_f(s)->ev_abort);
		if (!s->mapped)
			continue;
		check(m, iw_end_state(&s->e) == (IW_END_FIN | IW_END_SHUT | IW_END_DONE));
		check(m, write_mapped(s, 1) == 0 && iw_end_unread(&s->e) == 0);
		iw_end_in_eof(&s->e);
		check(m, iw_end_state(&s->e) == (IW_END_FIN | IW_END_SHUT | IW_END_DONE));
	}
	pair_free(m);
}

static void test_random(void **state)
{
	for (uint64_t i = 0; i < runs; i++)
		both_ways(first_seed + i);
	assert_true(left_later && sunk);
}

static struct side *mapped_one(struct pair *m)
{
	return &m->s[m->s[0].mapped ? 0 : 1];
}

/* The peer learns of an abort behind what it was sent, or of nothing when there is no credit; ours takes no more. */
static void test_abort(void **state)
{
	for (uint64_t i = 0; i < runs / 2; i++) {
		struct pair *m = start(first_seed + i, NULL);
		struct side *s = mapped_one(m);

		traffic(m, below(m, 500));
		iw_end_abort(&s->e, ECONNRESET);
		m->s[0].limit = m->s[0].produced;
		m->s[1].limit = m->s[1].produced;
		settle(m);
		check(m, iw_end_state(&s->e) & IW_END_DEAD && iw_end_err(&s->e) == ECONNRESET && write_mapped(s, 1) == 0);
		if (s->e.f->rs.abort_posted) {
			check(m, side_f(s->peer)->rs.dead && side_f(s->peer)->rs.err == ECONNRESET && s->peer->consumed == s->produced);
			check(m, !s->peer->mapped || (iw_end_state(&s->peer->e) & IW_END_DEAD && iw_end_err(&s->peer->e) == ECONNRESET));
		}
		pair_free(m);
	}
}

/* What is not said to be on its way has arrived: whatever becomes of T and of us, the peer can read it. */
static void test_arrived(void **state)
{
	for (uint64_t i = 0; i < runs; i++) {
		struct pair *m = start(first_seed + i, NULL);
		struct side *s = &m->s[below(m, 2)], *peer = s->peer;
		uint64_t left, arrived;
		size_t on_way, len;

		traffic(m, below(m, 800));
		while (below(m, 4) && do_write(s, 1u << 20))
			do_take(s, WIRE);
		on_way = below(m, 2) ? 0 : below(m, (uint32_t)(s->head - s->tail) + 1);
		if (s->mapped) {
			iw_end_out(&s->e, &len);
			left = iw_end_unacked(&s->e, len + on_way);
		} else {
			left = iw_rs_tx_left(&s->v.p.f->rs, s->v.p.f->rs.tx_pos - s->v.p.f->rs.tx_done + on_way);
		}
		check(m, left <= s->produced);
		arrived = s->produced - left;
		s->head -= on_way;		/* and nothing comes after that */
		do {
			while (do_read(peer, 1u << 20))
				;
		} while (do_receive(peer, WIRE));
		while (do_read(peer, 1u << 20))
			;
		check(m, peer->consumed >= arrived);
		pair_free(m);
	}
}

/* T ends, or fails, though nobody announced it: what came can be read, and then it is a reset. */
static void test_lost(void **state)
{
	static const int errs[][2] = { { 0, ECONNRESET }, { ETIMEDOUT, ETIMEDOUT }, { EPIPE, ECONNRESET }, { EHOSTUNREACH, EHOSTUNREACH } };

	for (uint64_t i = 0; i < runs / 2; i++) {
		struct pair *m = start(first_seed + i, NULL);
		struct side *s = mapped_one(m);
		const int *err = errs[below(m, 4)];
		size_t unread, len;

		traffic(m, below(m, 500));
		iw_end_settle(&s->e);
		unread = iw_end_unread(&s->e);
		if (err[0])
			iw_end_lost(&s->e, err[0]);
		else
			iw_end_in_eof(&s->e);
		check(m, iw_end_state(&s->e) == IW_END_DEAD && iw_end_err(&s->e) == err[1]);
		check(m, write_mapped(s, 1) == 0 && iw_end_unread(&s->e) == unread);
		while (do_read(s, 1 + below(m, 10000)))
			;
		check(m, !err[0] || !iw_end_out(&s->e, &len));
		check(m, iw_end_state(&s->e) == IW_END_DEAD);
		pair_free(m);
	}
}

/* Octets that are no FPDUs: a Terminate goes out, and both ends are reset. */
static void test_terminate(void **state)
{
	for (uint64_t i = 0; i < runs / 2; i++) {
		struct pair *m = start(first_seed + i, NULL);
		struct side *s = mapped_one(m), *p = s->peer;

		traffic(m, below(m, 500));
		while (p->head == p->tail && do_write(p, 1))
			do_take(p, WIRE);
		if (p->head != p->tail && p->v.p.s->qp.param.crc) {
			p->wire[p->tail + below(m, (uint32_t)(p->head - p->tail))] ^= 0xff;
			m->s[0].limit = m->s[0].produced;
			m->s[1].limit = m->s[1].produced;
			settle(m);
			/* a length that says more than there is leaves it waiting */
			check(m, !s->e.s->qp.term_due || iw_end_state(&s->e) & IW_END_DEAD);
			check(m, !s->e.s->qp.term_due || s->e.s->qp.state == IW_QP_CLOSING);
			check(m, !s->e.s->qp.term_due || side_soft(p)->qp.state == IW_QP_CLOSING);
			check(m, !s->e.s->qp.term_due || !p->mapped || iw_end_state(&p->e) & IW_END_DEAD);
		}
		pair_free(m);
	}
}

/* What it waits for: with everything with T the peer alone, else T too; and it ends when that comes. */
static void test_blocked(void **state)
{
	struct pair *m = start_default();
	struct side *a = &m->s[0], *b = &m->s[1];

	assert_int_equal(iw_end_blocked(&a->e), 0);
	while (do_write(a, 100000))
		;
	assert_int_equal(iw_end_blocked(&a->e), IW_END_IN | IW_END_OUT);
	while (do_write(a, 100000) || do_take(a, WIRE))
		do_receive(b, WIRE);
	while (do_receive(b, WIRE))
		;
	do_pump(b);
	assert_int_equal(iw_end_blocked(&a->e), IW_END_IN);
	assert_true(a->produced > 7u << 17);	/* not in dribs */
	assert_int_equal(iw_end_unread(&b->e), a->produced);
	assert_int_equal(iw_end_unacked(&a->e, UINT64_MAX), a->produced);
	while (do_read(b, 10000))
		;
	do_take(b, WIRE);
	do_receive(a, WIRE);
	assert_int_equal(iw_end_blocked(&a->e), 0);
	pair_free(m);
}

/* Small ones without an answer: credits end, one CREDIT or ACK gives half of them back. */
static void test_credits(void **state)
{
	struct pair *m = start_default();
	struct side *a = &m->s[0], *b = &m->s[1];
	unsigned int n = 0;

	a->wire_max = b->wire_max = WIRE;
	while (do_write(a, 1)) {
		do_take(a, WIRE);
		n++;
	}
	assert_int_equal(n, b->e.f->p.bufs - 2u);
	assert_int_equal(iw_end_blocked(&a->e), IW_END_IN);
	do_receive(b, WIRE);
	do_read(b, 100);
	do_take(b, WIRE);
	do_receive(a, WIRE);
	for (n = 0; do_write(a, 1); n++)
		do_take(a, WIRE);
	assert_true(n > 30);
	settled((a->limit = a->produced, b->limit = b->produced, m));
	pair_free(m);
}

/* Small messages are read where they came: the receive ring's memory is for those that nobody reads in time. */
static void test_small(void **state)
{
	struct pair *m = start_default();
	struct side *a = &m->s[0], *b = &m->s[1];
	unsigned int touched = 0;

	for (unsigned int i = 0; i < 100; i++) {
		unsigned int n = 1 + i % 4;

		for (unsigned int k = 0; k < n; k++)
			assert_true(do_write(a, 64) && do_take(a, WIRE));
		while (do_receive(b, WIRE))
			;
		assert_int_equal(iw_end_unread(&b->e), 64 * n);
		assert_int_equal(b->e.m->late.n, n);
		while (do_read(b, 40))
			;
		do_pump(b);
		while (do_take(b, WIRE))
			do_receive(a, WIRE);
	}
	for (size_t i = 0; i < b->e.f->p.rx_len; i++)
		touched += b->e.rx_ring[i] != 0;
	assert_int_equal(touched, 0);
	for (unsigned int k = 0; k < 20; k++)	/* too many: all are where they belong, or few are not */
		assert_true(do_write(a, 64) && do_take(a, WIRE));
	while (do_receive(b, WIRE))
		;
	assert_true(b->e.m->late.n <= 4 && iw_end_unread(&b->e) == 20 * 64);
	settled((a->limit = a->produced, b->limit = b->produced, m));
	pair_free(m);
}

/* FPDUs of a large write are of about the same length, and all octets of it are in one go. */
static void test_even(void **state)
{
	static const uint32_t sizes[] = { 64754, 64755, 65536, 100000, 130000, 131072 };

	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct pair *m = start_default();
		struct side *s = &m->s[0];
		uint16_t least = UINT16_MAX, most = 0;
		const uint8_t *p;
		size_t len;

		m->s[0].limit = sizes[i];
		m->s[1].limit = 0;
		assert_int_equal(write_mapped(s, sizes[i]), sizes[i]);
		s->produced = sizes[i];
		p = iw_end_out(&s->e, &len);
		for (size_t at = 0; at < len; at += iw_mpa_fpdu_len(iw_get16(p + at))) {
			uint16_t ulpdu = iw_get16(p + at);

			if (ulpdu < 100)
				continue;	/* the word DATA */
			least = ulpdu < least ? ulpdu : least;
			most = ulpdu > most ? ulpdu : most;
		}
		assert_true(most - least < 32);
		settled(m);
		pair_free(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocked),
		cmocka_unit_test(test_credits),
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_even),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_abort),
		cmocka_unit_test(test_arrived),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_terminate),
	};
	const char *seed = getenv("IW_SEED"), *n = getenv("IW_RUNS");

	first_seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 100000;
	runs = n ? strtoull(n, NULL, 0) : 100;
	printf("# end_test: IW_SEED=%llu IW_RUNS=%llu\n", (unsigned long long)first_seed, (unsigned long long)runs);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
