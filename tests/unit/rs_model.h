/* SPDX-License-Identifier: MIT */
/*
 * Two ends of a ring stream, joined by a model of a queue pair that keeps work requests in order and checks every access.
 * rs_test.c drives it; a second transport (two real QPs) plugs in through struct model_transport.
 */
#ifndef TESTS_RS_MODEL_H
#define TESTS_RS_MODEL_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "proto/rs.h"
#include "octets.h"

#define M_SQ	256u
#define M_WIRE	4096u
#define M_URG	64u
#define M_EXP	32u

enum { M_TX = 0x11, M_RX = 0x22, M_RD = 0x33, M_RQ = 0x44, M_EXPOSED = 0x1000 };

struct m_msg {			/* one message on the wire of the fake */
	enum { M_SEND, M_IMM, M_WRITE, M_RREQ, M_RRESP } kind;
	uint8_t se, inv, imm[8];
	uint32_t inv_stag, stag, len;
	uint64_t to, rto;
	uint32_t rstag;
	uint8_t *data;
};

struct m_done {			/* a work request that waits for its completion */
	struct iw_cqe cqe;
	uint8_t quiet, read, done;
};

struct m_exposed {
	uint32_t stag, len;
	uint64_t to, off;
};

struct model;
struct side {
	struct model *m;
	struct side *peer;
	struct iw_rs rs;
	struct iw_rs_param p;
	struct iw_rs_pd pd;
	uint8_t *tx, *rx, *rd, *rq;
	struct m_exposed exposed[M_EXP];
	uint32_t nexposed, next_stag;

	/* fake QP */
	struct iw_wr sq[M_SQ];
	uint32_t sq_head, sq_next, sq_tail, sq_depth, reads, ord;	/* posted, framed, completed */
	bool no_reads;			/* ORD is 0 */
	bool ord_secret;		/* and the peer offers all the same */
	struct m_done done[M_SQ];
	struct { uint64_t wr_id; struct iw_sge sge; } rq_ent[IW_QP_RQ];
	uint32_t rq_head, rq_tail;
	struct m_msg wire[M_WIRE];	/* towards the peer */
	uint32_t wire_head, wire_tail;
	void *qp;			/* other transports */

	/* application */
	uint64_t produced, consumed, limit;
	uint64_t urg[M_URG];
	uint32_t nurg;
	bool fin, fin_seen, paused;
	unsigned int ev_abort, ev_done, ev_fin, ev_urgent, msgs;
};

struct model_transport {
	void (*open)(struct side *s);
	void (*close)(struct side *s);
	const struct iw_rs_ops *ops;
	/* Move something on: 1 if anything happened. Amounts are random, or everything when all is set. */
	bool (*step)(struct side *s, bool all);
};

struct model {
	uint64_t seed, rng;
	struct side s[2];
	const struct model_transport *t;
	bool hostile;		/* side 0 is the test's own hand */
};

static inline uint64_t m_rand(struct model *m)
{
	m->rng ^= m->rng << 13;
	m->rng ^= m->rng >> 7;
	m->rng ^= m->rng << 17;
	return m->rng * 0x2545f4914f6cdd1dull >> 16;
}

static inline uint32_t m_below(struct model *m, uint32_t n)
{
	return (uint32_t)(m_rand(m) % n);
}

#define m_check(m, cond) do { \
	if (!(cond)) { \
		fprintf(stderr, "# seed %llu: %s:%d: %s\n", (unsigned long long)(m)->seed, __func__, __LINE__, #cond); \
		m_dump(m); \
		fail(); \
	} } while (0)

static inline void m_dump(const struct model *m)
{
	for (int i = 0; i < 2; i++) {
		const struct iw_rs *r = &m->s[i].rs;

		fprintf(stderr, "# side %d: err %d caps %x pos %llu sent %llu freed %llu ring %llu/%llu credits %u unret %u "
			"nsa %u cancel %u mark %u | rx prod %llu cons %llu acked %llu ext %u nsa %u drop %u rxpos %llu fin %u/%u/%u inflight %u\n",
			i, r->err, r->caps, (unsigned long long)r->tx_pos, (unsigned long long)r->tx_sent,
			(unsigned long long)r->tx_freed, (unsigned long long)r->ring_sent, (unsigned long long)r->ring_acked,
			r->credits, r->unreturned, r->tx_nsa, r->tx_cancel, r->tx_mark, (unsigned long long)r->rx_prod,
			(unsigned long long)r->rx_cons, (unsigned long long)r->rx_acked, r->ext_tail - r->ext_head, r->rx_nsa,
			r->rx_dropping, (unsigned long long)r->rx_pos, r->rx_fin, r->rx_fin_consumed, r->rx_fin_acked,
			r->txq_tail - r->txq_head);
	}
}

/* The seed of what it sends. */
static inline uint64_t m_octets_of(const struct side *s)
{
	return 2 * s->m->seed + (s != &s->m->s[0]);
}

/* ---- memory ---- */

static inline void *m_local(struct side *s, uint32_t stag, uint64_t to, uint64_t len)
{
	const struct { uint32_t stag; uint64_t to, len; uint8_t *mem; } a[] = {
		{ M_TX, s->p.tx_to, s->p.tx_len, s->tx }, { M_RX, s->p.rx_to, s->p.rx_len, s->rx },
		{ M_RD, s->p.rd_to, s->p.rd_len, s->rd }, { M_RQ, s->p.rq_to, iw_rs_rq_len(&s->p), s->rq },
	};

	for (unsigned int i = 0; i < 4; i++)
		if (a[i].stag == stag && to >= a[i].to && to - a[i].to <= a[i].len && len <= a[i].len - (to - a[i].to))
			return a[i].mem + (to - a[i].to);
	return NULL;
}

static inline void *m_mem(void *ctx, uint32_t stag, uint64_t to, size_t len)
{
	struct side *s = ctx;
	void *p = m_local(s, stag, to, len);

	m_check(s->m, p);
	return p;
}

static inline struct m_exposed *m_find_exposed(struct side *s, uint32_t stag)
{
	for (uint32_t i = 0; i < s->nexposed; i++)
		if (s->exposed[i].stag == stag)
			return &s->exposed[i];
	return NULL;
}

static inline int m_expose(void *ctx, uint64_t off, uint32_t len, uint32_t *stag, uint64_t *to)
{
	struct side *s = ctx;

	m_check(s->m, len && off < s->p.tx_len && len <= s->p.tx_len - off);
	if (s->nexposed == M_EXP || !m_below(s->m, 10))
		return -ENOMEM;
	*stag = M_EXPOSED + s->next_stag++;
	*to = 0x7700000000ull + off;
	s->exposed[s->nexposed++] = (struct m_exposed){ *stag, len, *to, off };
	return 0;
}

static inline void m_unexpose(void *ctx, uint32_t stag)
{
	struct side *s = ctx;
	struct m_exposed *e = m_find_exposed(s, stag);

	m_check(s->m, e || s->m->hostile);
	if (e)
		*e = s->exposed[--s->nexposed];
}

static inline void m_event(void *ctx, enum iw_rs_event ev)
{
	struct side *s = ctx;

	s->ev_abort += ev == IW_RS_EV_ABORT;
	s->ev_done += ev == IW_RS_EV_DONE;
	s->ev_fin += ev == IW_RS_EV_FIN;
	s->ev_urgent += ev == IW_RS_EV_URGENT;
}

/* ---- the fake QP ---- */

static inline int fake_post_send(void *ctx, const struct iw_wr *wr)
{
	struct side *s = ctx;

	if (wr->op == IW_WR_READ && !s->ord)
		return -EINVAL;
	if (s->sq_head - s->sq_tail == s->sq_depth)
		return -EAGAIN;
	for (unsigned int i = 0; i < wr->nsge; i++)
		m_check(s->m, m_local(s, wr->sge[i].stag, wr->sge[i].to, wr->sge[i].len));
	s->sq[s->sq_head++ % M_SQ] = *wr;
	return 0;
}

static inline int fake_post_recv(void *ctx, uint64_t wr_id, const struct iw_sge *sge)
{
	struct side *s = ctx;

	m_check(s->m, s->rq_head - s->rq_tail < s->p.bufs);
	s->rq_ent[s->rq_head % IW_QP_RQ].wr_id = wr_id;
	s->rq_ent[s->rq_head++ % IW_QP_RQ].sge = *sge;
	return 0;
}

static inline unsigned int fake_sq_free(void *ctx)
{
	const struct side *s = ctx;

	return s->sq_depth - (s->sq_head - s->sq_tail);
}

static inline void fake_put(struct side *s, struct m_msg *msg)
{
	m_check(s->m, s->wire_head - s->wire_tail < M_WIRE);
	s->wire[s->wire_head++ % M_WIRE] = *msg;
}

/* Frame the next work request: its octets are copied now, as iw_qp_tx() does. */
static inline bool fake_frame(struct side *s)
{
	const struct iw_wr *wr = &s->sq[s->sq_next % M_SQ];
	struct m_msg msg = { 0 };
	uint32_t n = 0;

	if (s->sq_next == s->sq_head || s->wire_head - s->wire_tail > M_WIRE / 2 || (wr->op == IW_WR_READ && s->reads == s->ord))
		return false;
	if (wr->flags & IW_WR_INLINE)
		n = wr->inl_len;
	for (unsigned int i = 0; wr->op != IW_WR_READ && i < wr->nsge; i++)
		n += wr->sge[i].len;
	msg.len = n;
	msg.data = malloc(n + 1);
	n = 0;
	if (wr->flags & IW_WR_INLINE) {
		memcpy(msg.data, wr->inl, wr->inl_len);
		n = wr->inl_len;
	}
	for (unsigned int i = 0; wr->op != IW_WR_READ && i < wr->nsge; i++) {
		memcpy(msg.data + n, m_mem(s, wr->sge[i].stag, wr->sge[i].to, wr->sge[i].len), wr->sge[i].len);
		n += wr->sge[i].len;
	}
	msg.se = wr->flags & IW_WR_SE;
	msg.stag = wr->rstag;
	msg.to = wr->rto;
	switch (wr->op) {
	case IW_WR_SEND:
		msg.kind = M_SEND;
		msg.inv = !!(wr->flags & IW_WR_INVALIDATE);
		msg.inv_stag = wr->inv_stag;
		break;
	case IW_WR_IMM:
		msg.kind = M_IMM;
		memcpy(msg.imm, wr->imm, 8);
		break;
	case IW_WR_WRITE:
		msg.kind = M_WRITE;
		break;
	default:
		msg.kind = M_RREQ;
		msg.len = wr->sge[0].len;
		msg.rstag = wr->sge[0].stag;
		msg.rto = wr->sge[0].to;
		s->reads++;
	}
	s->done[s->sq_next % M_SQ] = (struct m_done){
		.cqe = { .wr_id = wr->wr_id, .op = wr->op }, .quiet = !!(wr->flags & IW_WR_QUIET), .read = wr->op == IW_WR_READ,
	};
	s->sq_next++;
	fake_put(s, &msg);
	return true;
}

/* Complete the oldest framed work request (a Read only when its Response came). */
static inline bool fake_complete(struct side *s)
{
	struct m_done *d = &s->done[s->sq_tail % M_SQ];

	if (s->sq_tail == s->sq_next || (d->read && !d->done))
		return false;
	s->sq_tail++;
	if (!d->quiet)
		iw_rs_complete(&s->rs, s->m->t->ops, s, &d->cqe);
	return true;
}

static inline void fake_recv(struct side *s, const struct m_msg *msg)
{
	struct iw_cqe c = { .op = IW_WR_RECV, .se = msg->se, .has_inv = msg->inv, .inv_stag = msg->inv_stag };
	uint32_t i = s->rq_tail % IW_QP_RQ;

	m_check(s->m, s->rs.dead || s->rq_head != s->rq_tail);	/* a message without credit */
	if (s->rq_head == s->rq_tail)
		return;
	s->rq_tail++;
	c.wr_id = s->rq_ent[i].wr_id;
	if (msg->kind == M_IMM) {
		c.has_imm = 1;
		memcpy(c.imm, msg->imm, 8);
	} else {
		m_check(s->m, msg->len <= s->rq_ent[i].sge.len);
		memcpy(m_mem(s, s->rq_ent[i].sge.stag, s->rq_ent[i].sge.to, msg->len), msg->data, msg->len);
		c.len = msg->len;
	}
	if (msg->inv && (m_find_exposed(s, msg->inv_stag) || (!s->rs.dead && !s->m->hostile)))
		m_unexpose(s, msg->inv_stag);
	s->msgs++;
	iw_rs_complete(&s->rs, s->m->t->ops, s, &c);
}

static inline void fake_answer_read(struct side *s, const struct m_msg *q)
{
	struct m_exposed *e = m_find_exposed(s, q->stag);
	struct m_msg msg = { .kind = M_RRESP, .len = q->len, .stag = q->rstag, .to = q->rto };

	if (s->rs.dead)
		return;		/* a real QP would say Terminate */
	m_check(s->m, e && q->to >= e->to && q->len <= e->len && q->to - e->to <= e->len - q->len);
	msg.data = malloc(q->len + 1);
	memcpy(msg.data, s->tx + e->off + (q->to - e->to), q->len);
	fake_put(s, &msg);
}

/* Deliver the next message that the peer sent. */
static inline bool fake_deliver(struct side *s)
{
	struct side *from = s->peer;
	struct m_msg msg;

	if (from->wire_tail == from->wire_head || s->wire_head - s->wire_tail > M_WIRE - 8)
		return false;
	msg = from->wire[from->wire_tail++ % M_WIRE];
	switch (msg.kind) {
	case M_WRITE:
		m_check(s->m, msg.stag == M_RX);
		memcpy(m_mem(s, M_RX, msg.to, msg.len), msg.data, msg.len);
		break;
	case M_RREQ:
		fake_answer_read(s, &msg);
		break;
	case M_RRESP:
		memcpy(m_mem(s, msg.stag, msg.to, msg.len), msg.data, msg.len);
		for (uint32_t i = s->sq_tail; i != s->sq_next; i++) {
			if (!s->done[i % M_SQ].read || s->done[i % M_SQ].done)
				continue;
			s->done[i % M_SQ].done = 1;
			s->reads--;
			break;
		}
		break;
	default:
		fake_recv(s, &msg);
	}
	free(msg.data);
	return true;
}

static inline bool fake_step(struct side *s, bool all)
{
	bool any = false;
	uint32_t n = all ? M_WIRE : 1 + m_below(s->m, 8);
	bool (*const fn[])(struct side *) = { fake_frame, fake_complete, fake_deliver };

	if (!all) {
		bool (*f)(struct side *) = fn[m_below(s->m, 3)];

		while (n-- && f(s))
			any = true;
		return any;
	}
	for (int i = 0; i < 3; i++)
		for (uint32_t k = n; k-- && fn[i](s); )
			any = true;
	return any;
}

static inline void fake_open(struct side *s)
{
	s->sq_depth = 8u << m_below(s->m, 6);
	s->ord = s->no_reads ? 0 : 1 + m_below(s->m, 4);
}

static inline void fake_close(struct side *s)
{
	while (s->wire_tail != s->wire_head)
		free(s->wire[s->wire_tail++ % M_WIRE].data);
}

static const struct iw_rs_ops fake_ops = {
	.post_send = fake_post_send, .post_recv = fake_post_recv, .sq_free = fake_sq_free,
	.mem = m_mem, .expose = m_expose, .unexpose = m_unexpose, .event = m_event,
};
static const struct model_transport fake_transport __attribute__((unused)) = {
	.open = fake_open, .close = fake_close, .ops = &fake_ops, .step = fake_step,
};

/* ---- the two applications ---- */

static inline void m_params(struct side *s)
{
	struct model *m = s->m;
	struct iw_rs_param *p = &s->p;

	p->tx_len = 4096u << m_below(m, 7);
	p->rx_len = (64u << 10) << m_below(m, 3);
	p->rd_len = m_below(m, 6) ? 4096u << m_below(m, 6) : 0;
	p->read_max = p->rd_len ? 512 + m_below(m, p->rd_len - 511) : 0;
	p->tx_stag = M_TX;
	p->rx_stag = M_RX;
	p->rd_stag = M_RD;
	p->rq_stag = M_RQ;
	p->tx_to = m_rand(m) << 8;
	p->rx_to = m_rand(m) << 8;
	p->rd_to = m_rand(m) << 8;
	p->rq_to = m_rand(m) << 8;
	p->bufs = m_below(m, 3) ? 8 : (uint16_t)(8 + m_below(m, 200));
	p->buf_size = m_below(m, 2) ? 64 : (uint16_t)(64 + m_below(m, 1000));
	p->rq_step = p->buf_size;
	p->inline_max = m_below(m, 4) ? m_below(m, 600) : 0;
	p->srcavail_min = m_below(m, 3) ? 512u << m_below(m, 6) : 0;
	p->caps = (uint16_t)m_below(m, 32);
	if (m_below(m, 2))
		p->caps |= IW_RS_CAP_IMM | IW_RS_CAP_SRCAVAIL;
	s->no_reads = !m_below(m, 6);
	s->ord_secret = m_below(m, 2);
}

static inline void m_alloc(struct side *s)
{
	s->tx = malloc(s->p.tx_len);
	s->rx = malloc(s->p.rx_len);
	s->rd = malloc(s->p.rd_len + 1);
	s->rq = malloc(iw_rs_rq_len(&s->p));
}

/* Ring positions near 2^48 on both sides, as after a very long time. */
static inline void m_move_positions(struct model *m)
{
	uint64_t base[2];

	if (m_below(m, 2))
		return;
	base[0] = (1ull << 48) - m_below(m, 1u << 20);
	base[1] = (1ull << 48) - m_below(m, 1u << 20);
	for (int i = 0; i < 2; i++) {
		struct iw_rs *a = &m->s[i].rs, *b = &m->s[!i].rs;

		a->ring_sent = a->ring_acked = b->rx_prod = b->rx_cons = b->rx_acked = base[i];
	}
}

static inline struct model *m_new(uint64_t seed, const struct model_transport *t, void (*tune)(struct side *s))
{
	struct model *m = calloc(1, sizeof(*m));

	m->seed = seed;
	m->rng = (seed + 1) * 0x9e3779b97f4a7c15ull;
	m->t = t;
	for (int i = 0; i < 2; i++) {
		struct side *s = &m->s[i];

		s->m = m;
		s->peer = &m->s[!i];
		m_params(s);
		s->limit = m_below(m, 4) ? m_below(m, 1u << 20) : m_below(m, 2000);
		if (tune)
			tune(s);
		m_alloc(s);
		assert_int_equal(iw_rs_init(&s->rs, &s->p, &s->pd), 0);
		t->open(s);
		assert_int_equal(iw_rs_post_all(&s->rs, t->ops, s), 0);
	}
	for (int i = 0; i < 2; i++) {
		uint8_t octets[IW_RS_PD_LEN];
		struct iw_rs_pd pd;

		iw_rs_pd_encode(&m->s[!i].pd, octets);
		assert_int_equal(iw_rs_pd_decode(&pd, octets, sizeof(octets)), 0);
		assert_int_equal(iw_rs_start(&m->s[i].rs, &pd), 0);
		iw_rs_depths(&m->s[i].rs, m->s[!i].ord_secret ? IW_RS_RD : m->s[!i].ord, m->s[i].ord);
	}
	m_move_positions(m);
	return m;
}

static inline void m_free(struct model *m)
{
	for (int i = 0; i < 2; i++) {
		struct side *s = &m->s[i];

		m->t->close(s);
		free(s->tx);
		free(s->rx);
		free(s->rd);
		free(s->rq);
	}
	free(m);
}

static inline bool m_produce(struct side *s, uint32_t max)
{
	uint32_t off, n;

	iw_rs_tx_space(&s->rs, 0, &off, &n);
	if (n > max)
		n = max;
	if (n > s->limit - s->produced)
		n = (uint32_t)(s->limit - s->produced);
	if (!n || s->rs.dead)
		return false;
	octets_fill(s->tx + off, n, m_octets_of(s), s->produced);
	s->produced += n;
	iw_rs_tx_produced(&s->rs, n);
	m_check(s->m, s->rs.tx_pos == s->produced);
	return true;
}

static inline bool m_consume(struct side *s, uint32_t max)
{
	uint32_t stag, n;
	uint64_t to;
	const uint8_t *p;

	n = iw_rs_rx_peek(&s->rs, &stag, &to);
	if (n > max)
		n = max;
	if (n) {
		p = m_mem(s, stag, to, n);
		m_check(s->m, octets_are(p, n, m_octets_of(s->peer), s->consumed));
		s->consumed += n;
		iw_rs_rx_consumed(&s->rs, n);
		m_check(s->m, s->rs.rx_pos == s->consumed);
		return true;
	}
	if (!iw_rs_rx_fin(&s->rs) || s->fin_seen || s->rs.dead)
		return false;
	m_check(s->m, s->peer->fin && s->consumed == s->peer->produced && s->ev_fin);
	s->fin_seen = true;
	iw_rs_rx_fin_consumed(&s->rs);
	return true;
}

static inline void m_pump(struct side *s)
{
	iw_rs_pump(&s->rs, s->m->t->ops, s);
}

static inline void m_urgent(struct side *s)
{
	if (s->produced == 0 || s->nurg == M_URG || s->fin || !(s->rs.caps & IW_RS_CAP_URGENT))
		return;
	s->urg[s->nurg++] = s->produced - 1;
	iw_rs_tx_urgent(&s->rs);
}

static inline void m_action(struct side *s)
{
	struct model *m = s->m;

	switch (m_below(m, 16)) {
	case 0 ... 2:
		m_produce(s, m_below(m, 3) ? 1 + m_below(m, 700) : 1 + m_below(m, 300000));
		break;
	case 3 ... 5:
		if (!s->paused)
			m_consume(s, 1 + m_below(m, m_below(m, 2) ? 100 : 200000));
		break;
	case 6:
		s->paused = m_below(m, 2);
		break;
	case 7:
		iw_rs_push(&s->rs);
		break;
	case 8:
		iw_rs_rx_waiting(&s->rs, m_below(m, 2));
		break;
	case 9:
		if (!m_below(m, 4))
			iw_rs_tx_cancel(&s->rs);
		else if (!m_below(m, 4))
			iw_rs_ping(&s->rs);
		else if (!m_below(m, 4))
			m_urgent(s);
		break;
	case 10 ... 12:
		m_pump(s);
		break;
	default:
		m->t->step(s, false);
	}
}

/* Everybody does all that can be done. Then all that was produced must have arrived: the liveness of the protocol. */
static inline void m_settle(struct model *m, bool consume)
{
	unsigned int rounds = 0;
	bool any;

	do {
		any = false;
		for (int i = 0; i < 2; i++) {
			struct side *s = &m->s[i];

			m_pump(s);
			any |= m->t->step(s, true);
			while (consume && m_consume(s, UINT32_MAX))
				any = true;
			m_pump(s);
		}
		m_check(m, ++rounds < 20000);
	} while (any);
	for (int i = 0; i < 2; i++) {
		struct side *s = &m->s[i];

		if (s->rs.dead || s->peer->rs.dead || !consume)
			continue;
		m_check(m, s->peer->consumed == s->produced);
		m_check(m, s->rs.tx_freed == s->produced);
		m_check(m, s->nexposed == 0);
		m_check(m, s->rs.credits + s->peer->rs.unreturned == s->peer->p.bufs);
		m_check(m, s->rs.credits > 2);
		m_check(m, iw_rs_tx_unacked(&s->rs) < s->peer->p.rx_len / 4);
	}
}

#endif
