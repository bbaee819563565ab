/* SPDX-License-Identifier: MIT */
/*
 * Two ends of a stream with queues of octets between them in the place of T: each is worked on its map (proto/end.h) or by the plain composition
 * of a daemon (end_util.h), in random steps. Octets are known by their position.
 */
#ifndef TESTS_END_PAIR_H
#define TESTS_END_PAIR_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "proto/wire.h"
#include "end_util.h"
#include "octets.h"

#define WIRE (1u << 20)

struct pair;
struct side {
	struct pair *m;
	struct side *peer;
	struct priv v;
	struct iw_end e;
	bool mapped;
	uint8_t *wire;			/* T towards the peer */
	size_t head, tail, wire_max;
	bool wire_fin;

	uint64_t produced, consumed, limit;
	bool fin_seen;
};

struct pair {
	uint64_t seed, rng;
	bool spoiled;		/* what is read may be anything */
	bool hasty;		/* a receiver reads at once, at times */
	bool lazy;		/* or leaves what came, large and unread, as it is */
	struct side s[2];
};

static uint64_t left_later, sunk;	/* how often, octets */

static inline uint32_t below(struct pair *m, uint32_t n)
{
	m->rng ^= m->rng << 13;
	m->rng ^= m->rng >> 7;
	m->rng ^= m->rng << 17;
	return (uint32_t)((m->rng * 0x2545f4914f6cdd1dull >> 16) % n);
}

#define check(m, cond) do { \
	if (!(cond)) { \
		fprintf(stderr, "# seed %llu: %s:%d: %s\n", (unsigned long long)(m)->seed, __func__, __LINE__, #cond); \
		fail(); \
	} } while (0)

/* Often small, sometimes large. */
static inline uint32_t amount(struct pair *m)
{
	return 1 + below(m, 1u << (4 + below(m, 16)));
}

/* The seed of what it sends. */
static inline uint64_t octets_of(const struct side *s)
{
	return 2 * s->m->seed + (s != &s->m->s[0]);
}

static inline struct iw_remote *side_f(struct side *s)
{
	return s->mapped ? s->e.f : s->v.p.f;
}

static inline struct iw_soft *side_soft(struct side *s)
{
	return s->mapped ? s->e.s : s->v.p.s;
}

/* ---- stream octets ---- */

/* v[0..9) of n octets in all, in random pieces, some of none. */
static inline void pieces(struct pair *m, uint8_t *p, size_t n, struct iovec v[9])
{
	for (unsigned int i = 0; i < 9; i++) {
		size_t k = i == 8 ? n : below(m, 3) ? below(m, (uint32_t)n + 1) : 0;

		v[i] = (struct iovec){ .iov_base = p, .iov_len = k };
		p += k;
		n -= k;
	}
}

static inline void pieces_one(uint8_t *p, size_t n, struct iovec v[9])
{
	for (unsigned int i = 0; i < 9; i++)
		v[i] = (struct iovec){ .iov_base = p, .iov_len = i ? 0 : n };
}

static inline size_t write_mapped(struct side *s, size_t n)
{
	struct pair *m = s->m;
	size_t skip = below(m, 2) ? 0 : below(m, 100), k;
	uint8_t *buf = kept_get(skip + n);
	bool room = iw_end_room(&s->e);
	struct iovec v[9];

	octets_fill(buf + skip, n, octets_of(s), s->produced);
	pieces(m, buf, skip + n, v);
	k = iw_end_put(&s->e, v, 9, skip, n);
	kept_put(buf);
	check(m, k <= n && (k || !room || !iw_end_room(&s->e)));	/* an ACK may have taken the credit */
	check(m, k || iw_end_blocked(&s->e) || iw_end_state(&s->e) & (IW_END_SHUT | IW_END_DEAD));
	/* nothing is left for which the caller's memory would be needed */
	check(m, s->e.f->rs.tx_sent == s->e.f->rs.tx_pos && s->e.s->qp.tx_off == 0);
	return k;
}

static inline size_t write_plain(struct side *s, size_t n)
{
	struct iw_rs *rs = &s->v.p.f->rs;
	uint32_t off, len;

	iw_rs_tx_space(rs, 0, &off, &len);
	if (n > len)
		n = len;
	octets_fill(s->v.tx_ring + off, n, octets_of(s), s->produced);
	iw_rs_tx_produced(rs, (uint32_t)n);
	iw_rs_push(rs);
	priv_frame(&s->v);
	return n;
}

static inline bool do_write(struct side *s, size_t n)
{
	size_t k;

	if (n > s->limit - s->produced)
		n = (size_t)(s->limit - s->produced);
	k = !n ? 0 : s->mapped ? write_mapped(s, n) : write_plain(s, n);
	s->produced += k;
	return k;
}

static inline void compare(struct side *s, const uint8_t *p, size_t n, uint64_t pos)
{
	check(s->m, s->m->spoiled || octets_are(p, n, octets_of(s->peer), pos));
}

static inline size_t read_mapped(struct side *s, size_t n)
{
	struct pair *m = s->m;
	size_t unread, k, off;
	size_t skip = below(m, 2) ? 0 : below(m, 100);
	uint8_t *buf = kept_get(skip + n);
	struct iovec v[9];
	bool later;

	if (below(m, 2))
		pieces(m, buf, skip + n, v);
	else
		pieces_one(buf, skip + n, v);
	if (!iw_end_unread(&s->e) && below(m, 4))
		iw_end_want(&s->e, v, skip, n);
	later = s->e.later;
	iw_end_settle(&s->e);
	iw_end_wanted(&s->e);
	sunk += s->e.want.end - s->e.want.sunk;
	unread = iw_end_unread(&s->e);
	check(m, !later || unread || m->spoiled || iw_end_state(&s->e) & IW_END_DEAD);	/* as was promised */
	if (unread && !below(m, 3)) {
		uint8_t *other = kept_get(n);	/* what is wanted lies in buf already */
		struct iovec w[9];

		pieces(m, other, n, w);
		off = below(m, (uint32_t)unread);
		k = iw_end_get(&s->e, w, 9, 0, n, true, off);
		check(m, k == (n < unread - off ? n : unread - off));
		compare(s, other, k, s->consumed + off);
		kept_put(other);
	}
	k = iw_end_get(&s->e, v, 9, skip, n, false, 0);
	check(m, k <= n && k <= unread && !k == !unread);
	compare(s, buf + skip, k, s->consumed);
	iw_end_unwant(&s->e);
	kept_put(buf);
	return k;
}

static inline size_t read_plain(struct side *s, size_t n)
{
	uint32_t stag;
	uint64_t to;
	size_t k = iw_rs_rx_peek(&s->v.p.f->rs, &stag, &to);

	if (k > n)
		k = n;
	if (k)
		compare(s, priv_mem(&s->v, stag, to, k), k, s->consumed);
	iw_rs_rx_consumed(&s->v.p.f->rs, (uint32_t)k);
	return k;
}

static inline void do_pump(struct side *s)
{
	if (iw_rs_rx_fin(&side_f(s)->rs)) {
		s->fin_seen = true;
		iw_rs_rx_fin_consumed(&side_f(s)->rs);
	}
	if (s->mapped)
		iw_end_pump(&s->e);
	else
		priv_frame(&s->v);
}

static inline bool do_read(struct side *s, size_t n)
{
	size_t k = s->mapped ? read_mapped(s, n) : read_plain(s, n);

	s->consumed += k;
	do_pump(s);
	return k;
}

/* ---- T ---- */

static inline bool do_take(struct side *s, size_t n)
{
	struct iw_soft *soft = side_soft(s);
	struct iw_soft_tx *b = soft->tx;
	size_t len = b->used ? b->len - b->off : 0;
	const uint8_t *p = s->mapped ? iw_end_out(&s->e, &len) : iw_soft_tx_at(soft, b) + b->off;

	if (n > len)
		n = len;
	if (n > s->wire_max - (s->head - s->tail))
		n = s->wire_max - (s->head - s->tail);
	if (!n)
		return false;
	if (WIRE - s->head < n) {
		memmove(s->wire, s->wire + s->tail, s->head - s->tail);
		s->head -= s->tail;
		s->tail = 0;
	}
	memcpy(s->wire + s->head, p, n);
	s->head += n;
	if (s->mapped) {
		iw_end_out_done(&s->e, n);
		return true;
	}
	b->off += (uint32_t)n;
	iw_qp_tx_done(&soft->qp, &priv_qp_ops, &s->v, n);
	if (b->off == b->len) {
		b[0] = b[1];
		b[1].used = 0;
	}
	return true;
}

/* From the peer. */
static inline bool do_receive(struct side *s, size_t n)
{
	struct side *from = s->peer;
	struct iw_soft *soft = side_soft(s);
	size_t room;
	uint8_t *p;

	if (!s->mapped && (soft->rx_off == soft->rx_len || IW_SOFT_RX - soft->rx_len < IW_FPDU_MAX_MARKERS))
		iw_soft_rx_front(soft);
	room = IW_SOFT_RX - soft->rx_len;
	p = s->mapped ? iw_end_in(&s->e, &room) : soft->rx + soft->rx_len;
	check(s->m, room > 0 && p == soft->rx + soft->rx_len && room == IW_SOFT_RX - soft->rx_len);
	if (n > room)
		n = room;
	if (n > from->head - from->tail)
		n = from->head - from->tail;
	if (!n)
		return false;
	memcpy(p, from->wire + from->tail, n);
	from->tail += n;
	if (s->mapped) {
		if (!s->m->lazy || iw_end_unread(&s->e) || below(s->m, 2))
			iw_end_in_done(&s->e, n);
		else if (iw_end_in_later(&s->e, n))
			left_later++;
		check(s->m, !atomic_load(&s->e.m->changing));
		for (size_t k = amount(s->m); s->m->hasty && s->e.m->late.n && below(s->m, 3); )
			s->consumed += read_mapped(s, k);
		return true;
	}
	soft->rx_len += (uint32_t)n;
	soft->rx_off += (uint32_t)iw_qp_rx(&soft->qp, &priv_qp_ops, &s->v, soft->rx + soft->rx_off, soft->rx_len - soft->rx_off);
	return true;
}

/* ---- together ---- */

static inline void act(struct side *s)
{
	switch (below(s->m, 6)) {
	case 0:
		do_write(s, amount(s->m));
		break;
	case 1:
		do_read(s, amount(s->m));
		break;
	case 2:
		do_take(s, amount(s->m));
		break;
	case 3:
		do_receive(s, amount(s->m));
		break;
	case 4:
		do_pump(s);
		break;
	default:
		do_take(s, WIRE);
		do_receive(s, WIRE);
		break;
	}
}

/* Until nothing moves any more. */
static inline void settle(struct pair *m)
{
	bool any = true;

	for (unsigned int i = 0; any; i++) {
		any = false;
		for (int k = 0; k < 2; k++) {
			struct side *s = &m->s[k];

			any |= do_write(s, 1u << 20);
			do_pump(s);
			any |= do_take(s, WIRE);
			any |= do_receive(s, WIRE);
			any |= do_read(s, 1u << 20);
			any |= do_take(s, WIRE);
		}
		check(m, i < 100000);
	}
}

/* Everything that may be written is, and has arrived. */
static inline void settled(struct pair *m)
{
	settle(m);
	for (int k = 0; k < 2; k++) {
		check(m, m->s[k].produced == m->s[k].limit);
		check(m, m->s[k].consumed == m->s[!k].produced);
		check(m, !side_f(&m->s[k])->rs.dead && side_soft(&m->s[k])->qp.state == IW_QP_RTS);
	}
}

static inline void do_fin(struct side *s)
{
	s->limit = s->produced;
	if (s->mapped)
		iw_end_fin(&s->e);
	else
		iw_rs_tx_fin(&s->v.p.f->rs);
}

static inline void side_map(struct side *s)
{
	check(s->m, iw_map_ready(&s->v.p));
	iw_map_export(s->v.map, &s->v.p);
	check(s->m, !iw_end_open(&s->e, s->v.map, s->v.map_len));
	s->mapped = true;
}

/* Everything that two ends can differ in; small rings and few credits as often as not. */
static inline void random_param(struct pair *m, struct priv_param pp[2])
{
	bool large = below(m, 2);
	uint16_t ird = (uint16_t)below(m, 6), mulpdu = below(m, 2) ? 1442 : (uint16_t)(128 + below(m, 64768 - 128 + 1));

	for (int i = 0; i < 2; i++) {
		struct iw_rs_param *p = &pp[i].rs;

		pp[i] = priv_default();
		pp[i].large = large;
		if (below(m, 2)) {
			p->tx_len = 4096u << below(m, 6);
			p->rx_len = 65536u << below(m, 3);
			p->rd_len = 4096u << below(m, 6);
			p->read_max = 512 + below(m, p->rd_len - 511);
			p->bufs = (uint16_t)(8 + below(m, 40));
			p->inline_max = below(m, 1000);
			p->buf_size = (uint16_t)(64 + p->inline_max + below(m, 100));
			p->rq_step = below(m, 2) ? p->buf_size : 0;
			p->srcavail_min = 1000 + below(m, 100000);
			p->caps = (uint16_t)(below(m, 8) | IW_RS_CAP_LARGE);
		}
		pp[i].qp.mulpdu = large ? IW_MULPDU_MAX : mulpdu;
		pp[i].qp.ird = pp[i].qp.ord = ird;
		pp[i].qp.crc = m->seed % 8 != 0;
		pp[i].qp.tx_markers = m->seed % 3 == 0;
		pp[i].qp.rx_markers = m->seed % 5 == 0;
	}
}

static inline struct pair *pair_new(uint64_t seed, const struct priv_param given[2])
{
	struct pair *m = calloc(1, sizeof(*m));
	struct priv_param pp[2];

	m->seed = seed;
	m->rng = seed * 0x9e3779b97f4a7c15ull + 1;
	random_param(m, pp);
	for (int i = 0; i < 2; i++) {
		struct side *s = &m->s[i];

		s->m = m;
		s->peer = &m->s[!i];
		s->wire = kept_get(WIRE);
		s->wire_max = below(m, 3) ? WIRE : 1000 + below(m, 100000);
		s->limit = UINT64_MAX / 2;
		priv_new(&s->v, given ? &given[i] : &pp[i], given ? &given[!i] : &pp[!i], !i);
	}
	return m;
}

static inline void pair_free(struct pair *m)
{
	for (int i = 0; i < 2; i++) {
		kept_put(m->s[i].wire);
		priv_free(&m->s[i].v);
	}
	free(m);
}

/* What is still to be written: a random amount. */
static inline void finish_writing(struct pair *m)
{
	for (int i = 0; i < 2; i++)
		m->s[i].limit = m->s[i].produced + below(m, 1u << 20);
	settled(m);
}

#endif
