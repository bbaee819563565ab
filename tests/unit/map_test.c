// SPDX-License-Identifier: MIT
/*
 * The map of a stream handed over at random moments, both ways, while octets, FINs and aborts are under way; and maps whose owner has written
 * anything into them: refused, or a state that goes on within its own memory. IW_SEED, IW_RUNS.
 */
#include <sys/mman.h>

#include "end_pair.h"

static uint64_t first_seed, runs;

/* Whoever takes over has only what was handed to him. */
static void forget(const struct iw_map_priv *at, const struct iw_rs_param *p, uint64_t rq_len)
{
	memset(at->s->rx, 0xdd, sizeof(at->s->rx));
	memset(at->s->few, 0xdd, sizeof(at->s->few));
	memset(at->s->txbuf, 0xdd, sizeof(at->s->txbuf));
	memset(at->rq, 0xdd, rq_len);
	memset(at->rd, 0xdd, p->rd_len);
	memset(at->rx_ring, 0xdd, p->rx_len);
}

static void take(struct side *s)
{
	struct iw_map_priv at;

	iw_map_at(s->v.map, &s->v.p.f->p, &at);
	forget(&at, &s->v.p.f->p, s->v.p.f->p.buf_size);
	side_map(s);
	forget(&s->v.p, &s->v.p.f->p, iw_rs_rq_len(&s->v.p.f->p));
}

static void give(struct side *s)
{
	check(s->m, !iw_map_import(s->v.map, &s->v.p));
	s->mapped = false;
}

static unsigned int hands;

static void maybe_hand(struct side *s)
{
	if (!s->mapped && !iw_map_ready(&s->v.p))
		return;
	hands++;
	if (s->mapped)
		give(s);
	else
		take(s);
}

static void traffic(struct pair *m, unsigned int n)
{
	m->lazy = true;
	while (n--) {
		struct side *s = &m->s[below(m, 2)];

		act(s);
		if (!below(m, 20))
			maybe_hand(s);
		if (below(m, 300))
			continue;
		finish_writing(m);
		m->s[0].limit = m->s[1].limit = UINT64_MAX / 2;
	}
}

static void test_handover(void **state)
{
	for (uint64_t i = 0; i < runs; i++) {
		struct pair *m = pair_new(first_seed + i, NULL);
		int first = (int)below(m, 2);

		traffic(m, 100 + below(m, 1500));
		finish_writing(m);
		do_fin(&m->s[first]);
		for (unsigned int n = below(m, 300); n--; ) {
			act(&m->s[below(m, 2)]);
			if (!below(m, 20))
				maybe_hand(&m->s[below(m, 2)]);
		}
		do_fin(&m->s[!first]);
		settled(m);
		for (int k = 0; k < 2; k++) {
			if (m->s[k].mapped)
				give(&m->s[k]);
			check(m, m->s[k].fin_seen && m->s[k].v.p.f->rs.done && m->s[k].v.p.f->ev_done);
		}
		pair_free(m);
	}
	assert_true(hands > runs && left_later && sunk);
}

/* What ended while it was mapped is handed back as it ended. */
static void test_ends(void **state)
{
	for (uint64_t i = 0; i < runs; i++) {
		struct pair *m = pair_new(first_seed + i, NULL);
		struct side *s = &m->s[below(m, 2)];
		unsigned int how = below(m, 3);
		int err = ECONNRESET;

		traffic(m, below(m, 300));
		finish_writing(m);
		if (!s->mapped && !iw_map_ready(&s->v.p)) {
			pair_free(m);
			continue;
		}
		if (!s->mapped)
			take(s);
		if (how == 0) {
			iw_end_abort(&s->e, ECONNRESET);
			iw_end_pump(&s->e);
		} else if (how == 1) {
			iw_end_lost(&s->e, err = ETIMEDOUT);
		} else {
			iw_end_in_eof(&s->e);
		}
		give(s);
		check(m, s->v.p.f->aborted == !how && s->v.p.f->reset_err == (how ? err : 0));
		check(m, !iw_map_ready(&s->v.p));
		if (!how) {
			settle(m);
			check(m, side_f(s->peer)->rs.dead && side_f(s->peer)->rs.err == ECONNRESET);
		}
		pair_free(m);
	}
}

/* ---- a map that somebody has written to ---- */

static uint32_t value(struct pair *m, uint32_t was)
{
	static const uint32_t some[] = { 0, 1, 2, 255, 256, 257, 0xffff, 0x10000, 1u << 20, (1u << 20) + 1, 0x7fffffff, 0x80000000, UINT32_MAX };

	switch (below(m, 4)) {
	case 0:
		return some[below(m, sizeof(some) / sizeof(some[0]))];
	case 1:
		return was + below(m, 9) - 4;
	case 2:
		return was ^ 1u << below(m, 32);
	default:
		return below(m, UINT32_MAX);
	}
}

static unsigned int refused, gone_on;

/* What is dead was told of, or is by the end of its queue pair: nobody would end it else. */
static bool said_how(const struct side *s)
{
	const struct iw_remote *f = s->v.p.f;

	return !f->rs.dead || f->rs.done || f->ev_abort || f->reset_err || f->aborted || s->v.p.s->qp.state != IW_QP_RTS;
}

/* Whoever imports it goes on for a while, with whatever it says. */
static void import_spoiled(struct side *s)
{
	struct pair *m = s->m;

	if (iw_map_import(s->v.map, &s->v.p)) {
		refused++;
		return;
	}
	gone_on++;
	s->mapped = false;
	m->spoiled = true;
	s->produced = s->v.p.f->rs.tx_pos;
	for (unsigned int i = 0; i < 60; i++) {
		const struct iw_rs *rs = &s->v.p.f->rs;

		act(&m->s[below(m, 2)]);
		check(m, rs->tx_freed <= rs->tx_sent && rs->tx_sent <= rs->tx_pos && rs->tx_pos - rs->tx_freed <= rs->p.tx_len);
	}
	check(m, said_how(s));
}

static struct pair *under_way(uint64_t seed, struct side **s)
{
	struct pair *m = pair_new(seed, NULL);
	bool mapped = false;

	m->lazy = true;
	*s = &m->s[below(m, 2)];
	for (unsigned int n = 50 + below(m, 500); n || !mapped; n -= !!n) {
		act(&m->s[below(m, 2)]);
		mapped = (*s)->mapped;
		if (!mapped && (iw_map_ready(&(*s)->v.p) || !below(m, 1000))) {
			if (!iw_map_ready(&(*s)->v.p))
				finish_writing(m);
			m->s[0].limit = m->s[1].limit = UINT64_MAX / 2;
			if (iw_map_ready(&(*s)->v.p))
				side_map(*s);
		}
	}
	return m;
}

static uint32_t *word(struct pair *m, void *p, size_t len)
{
	return (uint32_t *)p + below(m, (uint32_t)(len / 4));
}

/* Of the state, of an entry of one of the queues that is in use, or of octets under way. */
static uint32_t *some_word(struct side *s)
{
	struct iw_soft *soft = s->e.s;
	struct iw_qp *qp = &soft->qp;
	struct pair *m = s->m;

	switch (below(m, 5)) {
	case 0:
		return word(m, s->e.f, sizeof(*s->e.f));
	case 1:
		return word(m, &qp->version, offsetof(struct iw_soft, few) - offsetof(struct iw_soft, qp.version));
	case 2:
		return word(m, &qp->rq_one, sizeof(qp->rq_one));
	case 3:
		return word(m, &qp->sq[iw_sq_at(qp->sq_tail + below(m, qp->sq_head - qp->sq_tail + 1))], sizeof(qp->sq[0]));
	default:
		return below(m, 2) ? word(m, soft->rx, soft->rx_len + 4) : word(m, iw_soft_tx_at(soft, &soft->tx[0]), soft->tx[0].len + 4);
	}
}

/* It would die of them without a word. */
static void test_failed_requests(void **state)
{
	unsigned int seen = 0;

	for (uint64_t i = 0; i < runs; i++) {
		struct side *s;
		struct pair *m = under_way(first_seed + i, &s);
		struct iw_qp *qp = &s->e.s->qp;

		if (qp->sq_head != qp->sq_tail && seen++ % 2)
			qp->sq[iw_sq_at(qp->sq_tail)].status = IW_WC_FLUSH;
		else
			qp->sq_shut = 1;
		if (qp->state == IW_QP_RTS)
			assert_int_equal(iw_map_import(s->v.map, &s->v.p), -EPROTO);
		pair_free(m);
	}
	assert_true(seen > 1);
}

static void test_anything(void **state)
{
	for (uint64_t i = 0; i < 10 * runs; i++) {
		struct side *s;
		struct pair *m = under_way(first_seed + i, &s);
		unsigned int n = 1 + below(m, 3);
		uint32_t *w[3];

		/* all of them are looked for by lengths that nothing was written over yet */
		for (unsigned int k = 0; k < n; k++)
			w[k] = some_word(s);
		for (unsigned int k = 0; k < n; k++)
			*w[k] = value(m, *w[k]);
		import_spoiled(s);
		pair_free(m);
	}
}

/* A ring stream or a queue pair that has ended, and nothing that says how: whoever took it over would wait for ever. */
static void test_ended_without_a_word(void **state)
{
	for (unsigned int how = 0; how < 3; how++) {
		struct side *s;
		struct pair *m = under_way(first_seed, &s);

		switch (how) {
		case 0:
			s->e.f->rs.dead = 1;
			s->e.f->rs.err = ECONNRESET;
			break;
		case 1:
			s->e.s->qp.state = IW_QP_ERROR;
			break;
		case 2:
			s->e.f->ev_done = 1;
			break;
		}
		assert_int_equal(iw_map_import(s->v.map, &s->v.p), -EPROTO);
		pair_free(m);
	}
}

/* Every word of the state that holds no queue's entries, with several values each. */
static void test_every_word(void **state)
{
	static const size_t soft_words = (offsetof(struct iw_soft, few) - offsetof(struct iw_soft, qp.version)) / 4, f_words = sizeof(struct iw_remote) / 4;
	struct side *s;
	struct pair *m = under_way(first_seed, &s);
	const struct pair was = *m;
	const struct iw_map_priv *p = &s->v.p;
	struct iw_remote *f = malloc(sizeof(*f));
	struct iw_soft *soft = malloc(offsetof(struct iw_soft, rx));
	struct side *peer = s->peer;
	/* the other end's, since it goes on too */
	struct iw_remote *pf = malloc(sizeof(*pf));
	struct iw_soft *ps = malloc(sizeof(*ps));

	memcpy(f, p->f, sizeof(*f));
	memcpy(soft, p->s, offsetof(struct iw_soft, rx));
	memcpy(pf, side_f(peer), sizeof(*pf));
	memcpy(ps, side_soft(peer), sizeof(*ps));
	for (size_t i = 0; i < 2 * (f_words + soft_words); i++) {
		size_t k = i / 2;
		uint32_t *w = k < f_words ? (uint32_t *)s->e.f + k : &s->e.s->qp.version + (k - f_words), old = *w;
		uint64_t rng = m->rng;

		*w = value(m, old);
		import_spoiled(s);
		*w = old;
		*m = was;
		m->rng = rng;
		memcpy(p->f, f, sizeof(*f));
		memcpy(p->s, soft, offsetof(struct iw_soft, rx));
		memcpy(side_f(peer), pf, sizeof(*pf));
		memcpy(side_soft(peer), ps, sizeof(*ps));
	}
	printf("# %u refused, %u went on\n", refused, gone_on);
	free(f);
	free(soft);
	free(pf);
	free(ps);
	pair_free(m);
}

/* A mark ahead of all that was produced would have octets sent that nobody wrote. */
static void test_urgent_ahead(void **state)
{
	for (uint64_t i = 0; i < 4; i++) {
		struct side *s;
		struct pair *m = under_way(first_seed + i, &s);

		s->e.f->rs.tx_urg_mark = 1;
		s->e.f->rs.tx_urg = s->e.f->rs.tx_pos + 1 + i * 100000;
		check(m, iw_map_import(s->v.map, &s->v.p) == -EPROTO);
		pair_free(m);
	}
}

/* Payload that is said to lie anywhere; and more of it than the ring has, where the sum of place and length is small. */
static void test_late_anything(void **state)
{
	for (uint64_t i = 0; i < 10 * runs; i++) {
		struct side *s;
		struct pair *m = under_way(first_seed + i, &s);
		const struct iw_rs *rs = &s->e.f->rs;
		struct iw_map_late *l = &s->v.map->late;

		if (below(m, 2) && rs->rx_cons + rs->p.rx_len < IW_SOFT_RX) {
			*l = (struct iw_map_late){ .pos = rs->rx_cons + below(m, rs->p.rx_len) - IW_SOFT_RX, .n = 1, .v[0].len = IW_SOFT_RX };
			check(m, iw_map_import(s->v.map, &s->v.p));
		} else {
			for (unsigned int n = 1 + below(m, 8); n--; ) {
				uint32_t *w = word(m, l, sizeof(*l));

				*w = value(m, *w);
			}
			import_spoiled(s);
		}
		pair_free(m);
	}
}

/* ---- what is gathered ---- */

static size_t gather(struct side *s, size_t n)
{
	uint8_t buf[2048];

	octets_fill(buf, n, octets_of(s), s->produced);
	if (!iw_end_gather(&s->e, buf, n))
		return 0;
	s->produced += n;
	return n;
}

/* It goes before what follows, and if the map is taken meanwhile it is what the agent sends first: once with what the owner had framed, too. */
static void test_gathered(void **state)
{
	for (uint64_t i = 0; i < runs; i++) {
		struct pair *m = pair_new(first_seed + i, NULL);
		struct side *s = &m->s[0];
		const struct iw_rs *rs;
		uint64_t sent, read;
		int n = (int)below(m, 200);

		finish_writing(m);
		if (!iw_map_ready(&s->v.p)) {
			pair_free(m);
			continue;
		}
		take(s);
		rs = &s->e.f->rs;
		atomic_store(&s->v.map->owner, IW_MAP_LIBRARY);
		m->s[0].limit = m->s[1].limit = UINT64_MAX / 2;
		while (n--) {
			size_t before = iw_end_gathered(&s->e), len = 1 + below(m, 2048);

			check(m, gather(s, len) ? iw_end_gathered(&s->e) == before + len : before + len > IW_MAP_GATHER || before + len > rs->p.tx_len - (rs->tx_pos - rs->tx_freed));
			if (below(m, 8))
				continue;
			check(m, iw_end_own(&s->e) && iw_map_owner(s->v.map) == IW_MAP_LIBRARY);
			do_write(s, 1 + below(m, 5000));
			act(s->peer);
			act(s);
		}
		sent = s->v.map->tcp_sent + iw_map_sent(&(struct iw_map_priv){ .s = s->e.s });
		read = s->v.map->tcp_read + iw_map_read(&(struct iw_map_priv){ .s = s->e.s });
		check(m, !(below(m, 2) ? iw_map_recover(s->v.map, &s->v.p, sent, read) : iw_map_import(s->v.map, &s->v.p)));
		s->mapped = false;
		finish_writing(m);
		pair_free(m);
	}
}

/* Its owner died with octets of T received and nothing noted of them: messages, payload and a part of what follows. They reach the reader all the same. */
static void test_received(void **state)
{
	for (uint64_t i = 0; i < runs; i++) {
		struct side *s;
		struct pair *m = under_way(first_seed + i, &s);
		struct side *peer = s->peer;
		uint64_t read;
		size_t room, n;
		uint8_t *to;

		do_write(peer, 1 + below(m, below(m, 2) ? 400 : 200000));
		do_take(peer, WIRE);
		read = s->v.map->tcp_read + iw_map_read(&(struct iw_map_priv){ .s = s->e.s });
		to = iw_end_in(&s->e, &room);
		n = peer->head - peer->tail;
		n = n > room ? room : n;
		if (n)
			n = 1 + below(m, (uint32_t)n);
		memcpy(to, peer->wire + peer->tail, n);
		peer->tail += n;
		check(m, !iw_map_recover(s->v.map, &s->v.p, s->v.map->tcp_sent + iw_map_sent(&(struct iw_map_priv){ .s = s->e.s }), read + n));
		s->mapped = false;
		finish_writing(m);
		pair_free(m);
	}
}

/* Wherever its end is said to be. */
static void test_gathered_anything(void **state)
{
	for (uint64_t i = 0; i < 10 * runs; i++) {
		struct side *s;
		struct pair *m = under_way(first_seed + i, &s);
		uint64_t pos = s->e.f->rs.tx_pos, end = below(m, 2) ? pos + below(m, 1 << 18) : (uint64_t)m->rng;
		uint64_t room = s->e.f->rs.p.tx_len - (pos - s->e.f->rs.tx_freed), n = (end & UINT64_MAX >> 2) - pos;
		bool none = (end & UINT64_MAX >> 2) <= pos;

		atomic_store(&s->v.map->owner, end << 2 | IW_MAP_BURST);
		check(m, !iw_map_import(s->v.map, &s->v.p) == (none || (n <= room && n <= IW_MAP_GATHER)));
		s->mapped = false;
		pair_free(m);
	}
}

/* ---- what is ready, and what it takes ---- */

static void test_ready(void **state)
{
	const struct priv_param pp[2] = { priv_default(), priv_default() };
	struct pair *m = pair_new(first_seed, pp);
	struct side *s = &m->s[0];

	assert_true(iw_map_ready(&s->v.p));
	while (do_write(s, 100000))
		;
	assert_false(iw_map_ready(&s->v.p));	/* octets in the transmit ring */
	m->s[0].limit = m->s[0].produced;
	m->s[1].limit = m->s[1].produced;
	settle(m);
	assert_true(iw_map_ready(&s->v.p));
	do_fin(s);
	assert_false(iw_map_ready(&s->v.p));
	do_pump(s);
	do_take(s, WIRE);
	do_receive(s->peer, WIRE);
	assert_false(iw_map_ready(&s->peer->v.p));
	pair_free(m);
}

/* A peer that counts on what was read and not yet acknowledged harms nobody: what is handed back is sound. */
static void test_ahead(void **state)
{
	struct priv_param pp[2] = { priv_default(), priv_default() };
	struct side *s, *peer;
	struct pair *m;

	pp[1].rs.srcavail_min = 0;
	m = pair_new(first_seed, pp);
	s = &m->s[0];
	peer = s->peer;
	take(s);
	s->limit = 0;
	peer->limit = pp[0].rs.rx_len;
	while (do_write(peer, 1000000) || do_take(peer, WIRE) || do_receive(s, WIRE))
		do_pump(peer);
	assert_int_equal(iw_end_unread(&s->e), pp[0].rs.rx_len);
	assert_int_equal(read_mapped(s, 100), 100);
	s->consumed += 100;
	peer->v.p.f->rs.ring_acked += 100;
	peer->limit += 100;
	do_write(peer, 100);
	do_take(peer, WIRE);
	do_receive(s, WIRE);
	assert_int_equal(iw_end_unread(&s->e), pp[0].rs.rx_len);
	give(s);
	assert_false(s->v.p.f->rs.dead);
	pair_free(m);
}

/* A quiet stream's map takes few pages, and one of another version, or cut short, is refused. */
static void test_open(void **state)
{
	const struct priv_param pp[2] = { priv_default(), priv_default() };
	struct pair *m = pair_new(first_seed, pp);
	struct priv *v = &m->s[0].v;
	uint64_t len = iw_map_size(&v->p.f->p);
	struct iw_map *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned char *in = malloc(len / IW_MAP_PAGE);
	unsigned int n = 0;
	struct iw_end e;

	assert_true(map != MAP_FAILED && len % IW_MAP_PAGE == 0);
	iw_map_export(map, &v->p);
	assert_int_equal(mincore(map, len, in), 0);
	for (size_t i = 0; i < len / IW_MAP_PAGE; i++)
		n += in[i] & 1;
	printf("# %u pages of %llu\n", n, (unsigned long long)len / IW_MAP_PAGE);
	assert_true(n <= 5);
	assert_int_equal(iw_end_open(&e, map, len), 0);
	assert_int_equal(iw_end_open(&e, map, len - 1), -EPROTO);
	assert_int_equal(iw_end_open(&e, map, IW_MAP_PAGE), -EPROTO);
	map->version++;
	assert_int_equal(iw_end_open(&e, map, len), -EPROTO);
	munmap(map, len);
	free(in);
	pair_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open),
		cmocka_unit_test(test_ready),
		cmocka_unit_test(test_ahead),
		cmocka_unit_test(test_handover),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_failed_requests), cmocka_unit_test(test_anything),
		cmocka_unit_test(test_every_word),
		cmocka_unit_test(test_ended_without_a_word),
		cmocka_unit_test(test_urgent_ahead),
		cmocka_unit_test(test_late_anything),
		cmocka_unit_test(test_gathered),
		cmocka_unit_test(test_received),
		cmocka_unit_test(test_gathered_anything),
	};
	const char *seed = getenv("IW_SEED"), *n = getenv("IW_RUNS");

	first_seed = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL) * 100000;
	runs = n ? strtoull(n, NULL, 0) : 100;
	printf("# map_test: IW_SEED=%llu IW_RUNS=%llu\n", (unsigned long long)first_seed, (unsigned long long)runs);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
