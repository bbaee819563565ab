// SPDX-License-Identifier: MIT
/*
 * Random conversations of two queue pairs against a model: every message arrives whole, once and in order, whatever the mix of
 * operations, FPDU sizes, Markers, CRC and cuts of the octet stream. IW_SEED repeats a run, IW_RUNS sets its length.
 */
#include "qp_util.h"

#include <time.h>

#define AREA	(256u << 10)
#define SRC	0u		/* TOs: never changed, what everything is sent from */
#define DST	AREA		/* where the peer's Writes go */
#define SINK	(2 * AREA)	/* slots for Reads */
#define RECV	(3 * AREA)	/* slots for receives */
#define WORD	(4 * AREA)
#define MEMSZ	(4 * AREA + 64)
#define SLOTS	64u
#define SLOT	4096u
#define RBUFS	32u
#define RBUF	8192u

struct expect {			/* a message under way to the peer's receive queue */
	uint32_t src, len;
	uint8_t flags, imm_valid;
	uint8_t imm[8];
	uint32_t inl;		/* octets before src that came inline */
};

struct node {
	struct end *end;
	struct node *peer;
	uint32_t stag;
	uint8_t *mem;
	uint8_t *shadow;	/* what the peer's DST will hold */
	struct expect want[RBUFS];
	uint32_t want_head, want_tail;	/* sent by this node, seen by the peer */
	uint32_t slot_len[SLOTS], slot_src[SLOTS], slots;	/* Reads posted, counted up */
	uint64_t adds, adds_seen;
	uint64_t next_id, done_id;	/* completions come in order of posting; quiet ones are skipped */
	uint8_t quiet[1 << 16];
	uint8_t *wire;		/* made by iw_qp_tx(), not yet delivered */
	size_t nwire, unacked;
};

static unsigned int rnd(unsigned int n)
{
	return n ? (unsigned int)random() % n : 0;
}

static unsigned int rnd_len(unsigned int max)
{
	unsigned int kind = rnd(4);

	return kind == 0 ? rnd(max < 20 ? max + 1 : 20) : kind == 1 ? rnd(max < 600 ? max + 1 : 600) : rnd(max + 1);
}

static struct node *node_of(void *ctx)
{
	return ctx;
}

static enum iw_access_err n_access(void *ctx, uint32_t stag, uint64_t to, uint64_t len, unsigned int right, void **ptr)
{
	return end_access(node_of(ctx)->end, stag, to, len, right, ptr);
}

static enum iw_access_err n_invalidate(void *ctx, uint32_t stag)
{
	return end_invalidate(node_of(ctx)->end, stag);
}

static void post_recv(struct node *n, uint64_t slot)
{
	struct iw_sge s = { .stag = n->stag, .to = RECV + slot * RBUF, .len = RBUF };

	assert_int_equal(iw_qp_post_recv(&n->end->qp, slot, &s), 0);
}

static void got_message(struct node *n, const struct iw_cqe *c)
{
	struct node *from = n->peer;
	const struct expect *e = &from->want[from->want_tail % RBUFS];
	const uint8_t *buf = n->mem + RECV + c->wr_id * RBUF;

	assert_true(from->want_tail != from->want_head);
	assert_int_equal(c->wr_id, from->want_tail % RBUFS);
	assert_int_equal(c->len, e->len);
	assert_int_equal(c->se, !!(e->flags & IW_WR_SE));
	assert_int_equal(c->has_imm, e->imm_valid);
	if (e->imm_valid) {
		assert_memory_equal(c->imm, e->imm, 8);
	} else {
		for (uint32_t i = 0; i < e->inl; i++)
			assert_int_equal(buf[i], (uint8_t)(e->src + i));
		if (e->len > e->inl)
			assert_memory_equal(buf + e->inl, from->mem + SRC + e->src, e->len - e->inl);
	}
	from->want_tail++;
	post_recv(n, c->wr_id);
}

static void n_complete(void *ctx, const struct iw_cqe *c)
{
	struct node *n = node_of(ctx);
	uint64_t id;

	assert_int_equal(c->status, IW_WC_OK);
	if (c->op == IW_WR_RECV) {
		got_message(n, c);
		return;
	}
	id = c->wr_id & 0xffff;
	while (n->quiet[n->done_id & 0xffff])
		n->done_id++;
	assert_int_equal(id, n->done_id & 0xffff);
	n->done_id++;
	if (c->op == IW_WR_READ) {
		uint32_t slot = (uint32_t)(c->wr_id >> 16);

		assert_int_equal(c->len, n->slot_len[slot]);
		assert_memory_equal(n->mem + SINK + slot * SLOT, n->peer->mem + SRC + n->slot_src[slot], c->len);
		n->slot_len[slot] = UINT32_MAX;		/* free */
	} else if (c->op == IW_WR_FETCHADD) {
		assert_true(c->orig == n->adds_seen);
		n->adds_seen += 3;
	}
}

static void n_event(void *ctx, enum iw_qp_event ev)
{
	if (ev != IW_QP_EV_FIRST_FPDU)
		fail_msg("event %d: %s", ev, iw_term_text(node_of(ctx)->end->qp.term.layer, node_of(ctx)->end->qp.term.etype,
							 node_of(ctx)->end->qp.term.code));
}

static const struct iw_qp_ops n_ops = {
	.access = n_access, .invalidate = n_invalidate, .complete = n_complete, .event = n_event,
};

/* Up to four pieces that follow one another in SRC, so that the result is one run of it. */
static void gather(struct node *n, struct iw_wr *wr, uint32_t src, uint32_t len)
{
	wr->nsge = (uint8_t)(1 + rnd(IW_QP_SGE));
	for (unsigned int i = 0; i < wr->nsge; i++) {
		uint32_t k = i + 1 == wr->nsge ? len : rnd(len + 1);

		wr->sge[i] = (struct iw_sge){ .stag = n->stag, .to = SRC + src, .len = k };
		src += k;
		len -= k;
	}
}

static bool make_send(struct node *n, struct iw_wr *wr)
{
	struct expect *e = &n->want[n->want_head % RBUFS];

	if (n->want_head - n->want_tail == RBUFS)
		return false;
	memset(e, 0, sizeof(*e));
	wr->op = rnd(3) ? IW_WR_SEND : IW_WR_IMM;
	if (rnd(2))
		wr->flags |= IW_WR_SE;
	e->flags = wr->flags;
	if (wr->op == IW_WR_IMM) {
		e->imm_valid = 1;
		e->len = 8;
		for (int i = 0; i < 8; i++)
			e->imm[i] = wr->imm[i] = (uint8_t)random();
	} else {
		e->len = rnd_len(RBUF - IW_WR_INLINE_MAX);
		e->src = rnd(AREA - e->len);
		gather(n, wr, e->src, e->len);
		if (rnd(2)) {
			wr->flags |= IW_WR_INLINE;
			e->inl = wr->inl_len = (uint8_t)rnd(IW_WR_INLINE_MAX + 1);
			for (uint32_t i = 0; i < e->inl; i++)
				wr->inl[i] = (uint8_t)(e->src + i);
			e->len += e->inl;
		}
	}
	n->want_head++;
	return true;
}

static void make_write(struct node *n, struct iw_wr *wr)
{
	uint32_t len = rnd_len(rnd(8) ? 4000 : 150000), src = rnd(AREA - len), dst = rnd(AREA - len);

	wr->op = IW_WR_WRITE;
	wr->rstag = n->peer->stag;
	wr->rto = DST + dst;
	gather(n, wr, src, len);
	memcpy(n->shadow + dst, n->mem + SRC + src, len);
}

static bool make_read(struct node *n, struct iw_wr *wr)
{
	uint32_t slot = n->slots % SLOTS, len = rnd_len(SLOT), src = rnd(AREA - len);

	if (n->slot_len[slot] != UINT32_MAX)
		return false;
	n->slots++;
	n->slot_len[slot] = len;
	n->slot_src[slot] = src;
	wr->op = IW_WR_READ;
	wr->flags &= (uint8_t)~IW_WR_QUIET;	/* the slot is given back by the completion */
	wr->wr_id |= (uint64_t)slot << 16;
	wr->rstag = n->peer->stag;
	wr->rto = SRC + src;
	wr->nsge = 1;
	wr->sge[0] = (struct iw_sge){ .stag = n->stag, .to = SINK + slot * SLOT, .len = len };
	return true;
}

static void act_post(struct node *n)
{
	struct iw_wr wr = { .wr_id = n->next_id & 0xffff };
	bool ok = true;

	if (!iw_qp_sq_free(&n->end->qp))
		return;
	if (!rnd(3))
		wr.flags |= IW_WR_QUIET;
	if (!rnd(10))
		wr.flags |= IW_WR_FENCE;
	switch (rnd(8)) {
	case 0: case 1: case 2:
		ok = make_send(n, &wr);
		break;
	case 3: case 4:
		make_write(n, &wr);
		break;
	case 5: case 6:
		ok = make_read(n, &wr);
		break;
	default:
		wr.op = IW_WR_FETCHADD;
		wr.flags &= (uint8_t)~IW_WR_QUIET;
		wr.rstag = n->peer->stag;
		wr.rto = WORD;
		wr.add_swap = 3;
		n->adds++;
	}
	if (!ok)
		return;
	n->quiet[n->next_id & 0xffff] = !!(wr.flags & IW_WR_QUIET);
	n->next_id++;
	assert_int_equal(iw_qp_post_send(&n->end->qp, &wr), 0);
}

#define WIRE (1u << 20)

static void act_tx(struct node *n, bool all)
{
	size_t k;

	if (n->nwire + 2 * IW_FPDU_MAX_MARKERS > WIRE)
		return;
	k = iw_qp_tx(&n->end->qp, &n_ops, n, n->wire + n->nwire, IW_FPDU_MAX_MARKERS + rnd(IW_FPDU_MAX_MARKERS), all ? 0 : rnd(5000));
	n->nwire += k;
	n->unacked += k;
}

static void act_ack(struct node *n, bool all)
{
	size_t k = all ? n->unacked : rnd((unsigned int)n->unacked + 1);

	n->unacked -= k;
	iw_qp_tx_done(&n->end->qp, &n_ops, n, k);
}

/* Deliver some octets to the peer, cut anywhere. Only what TCP took can arrive, but the test is stricter: any order will do. */
static void act_deliver(struct node *n, bool all)
{
	struct end *to = n->peer->end;
	size_t k = all ? n->nwire : rnd(4) ? rnd((unsigned int)n->nwire + 1) : rnd(n->nwire < 9 ? (unsigned int)n->nwire + 1 : 9), used;
	uint8_t *exact;

	memcpy(to->in + to->nin, n->wire, k);
	to->nin += k;
	memmove(n->wire, n->wire + k, n->nwire - k);
	n->nwire -= k;
	exact = malloc(to->nin ? to->nin : 1);
	memcpy(exact, to->in, to->nin);
	used = iw_qp_rx(&to->qp, &n_ops, n->peer, exact, to->nin);
	memmove(to->in, to->in + used, to->nin - used);
	to->nin -= used;
	free(exact);
}

static void node_new(struct node *n, struct node *peer, uint32_t stag, const struct iw_qp_param *p)
{
	memset(n, 0, sizeof(*n));
	n->end = end_new(p);
	n->peer = peer;
	n->stag = stag;
	n->mem = kept_get(MEMSZ);
	n->shadow = memset(kept_get(AREA), 0, AREA);
	n->wire = kept_get(WIRE);
	for (unsigned int i = 0; i < AREA; i++)
		n->mem[i] = (uint8_t)((i * 2654435761u) >> 13 ^ stag);
	memset(n->mem + AREA, 0, MEMSZ - AREA);
	memset(n->slot_len, 0xff, sizeof(n->slot_len));
	end_reg(n->end, stag, 0, n->mem, MEMSZ, 63);
	for (unsigned int i = 0; i < RBUFS; i++)
		post_recv(n, i);
}

static void node_free(struct node *n)
{
	end_free(n->end);
	kept_put(n->mem);
	kept_put(n->shadow);
	kept_put(n->wire);
}

static void params(struct iw_qp_param *a, struct iw_qp_param *b)
{
	static const uint16_t mulpdu[] = { 128, 131, 530, 1442, 1442, 8942, 64768 };
	bool crc = rnd(4), ma = !rnd(3), mb = !rnd(3);

	*a = (struct iw_qp_param){ .initiator = 1, .crc = crc, .tx_markers = ma, .rx_markers = mb, .rtr = (uint8_t)rnd(3),
				   .mulpdu = mulpdu[rnd(7)], .ird = (uint16_t)(1 + rnd(32)), .ord = (uint16_t)(1 + rnd(32)),
				   .recv_min = 8 };
	*b = *a;
	b->initiator = b->rtr = 0;
	b->tx_markers = mb;
	b->rx_markers = ma;
	b->mulpdu = mulpdu[rnd(7)];
	b->ird = a->ord;
	b->ord = a->ird;
}

static void step(struct node *n)
{
	switch (rnd(10)) {
	case 0: case 1: case 2: case 3:
		act_post(n);
		break;
	case 4: case 5:
		act_tx(n, false);
		break;
	case 6:
		act_ack(n, false);
		break;
	case 7: case 8:
		act_deliver(n, false);
		break;
	default:
		if (!rnd(10))
			iw_qp_set_mulpdu(&n->end->qp, (uint16_t)(128 + rnd(9000)));
	}
}

static void finish(struct node *n)
{
	const struct iw_qp *qp = &n->end->qp;
	uint64_t word;

	while (n->quiet[n->done_id & 0xffff] && n->done_id != n->next_id)
		n->done_id++;
	assert_int_equal(n->done_id, n->next_id);
	assert_int_equal(qp->state, IW_QP_RTS);
	assert_int_equal(iw_qp_sq_free(qp), IW_QP_SQ);
	assert_int_equal(n->want_head, n->want_tail);
	assert_int_equal(n->end->nin, 0);
	assert_int_equal(qp->tx_pos, n->peer->end->qp.rx_pos);
	assert_memory_equal(n->peer->mem + DST, n->shadow, AREA);
	memcpy(&word, n->peer->mem + WORD, 8);
	assert_true(word == 3 * n->adds && n->adds_seen == word);
	for (unsigned int i = 0; i < AREA; i++)
		if (n->mem[i] != (uint8_t)((i * 2654435761u) >> 13 ^ n->stag))
			fail_msg("source memory changed at %u", i);
}

static void conversation(unsigned int steps)
{
	static struct node a, b;
	struct iw_qp_param pa, pb;

	params(&pa, &pb);
	node_new(&a, &b, 0x1234 + rnd(100), &pa);
	node_new(&b, &a, 0x5678 + rnd(100), &pb);
	for (unsigned int i = 0; i < steps; i++)
		step(rnd(2) ? &a : &b);
	act_post(&a);		/* without RTR the Initiator has to say something */
	do {
		act_tx(&a, true);
		act_tx(&b, true);
		act_ack(&a, true);
		act_ack(&b, true);
		act_deliver(&a, true);
		act_deliver(&b, true);
	} while (a.nwire || b.nwire || iw_qp_tx_pending(&a.end->qp) || iw_qp_tx_pending(&b.end->qp));
	/* a Responder whose Initiator had nothing to say keeps silent */
	if (b.end->qp.first_seen) {
		finish(&a);
		finish(&b);
	}
	node_free(&a);
	node_free(&b);
}

static void conversations(void **state)
{
	const char *s = getenv("IW_SEED"), *r = getenv("IW_RUNS");
	unsigned int seed = s ? (unsigned int)strtoul(s, NULL, 0) : (unsigned int)time(NULL);
	unsigned int runs = r ? (unsigned int)strtoul(r, NULL, 0) : 2000;

	printf("# IW_SEED=%u IW_RUNS=%u\n", seed, runs);
	fflush(stdout);
	for (unsigned int i = 0; i < runs; i++) {
		srandom(seed + i);		/* run i alone: IW_SEED=seed+i IW_RUNS=1 */
		conversation(20 + rnd(300));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(conversations) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("qp_random", tests, NULL, NULL);
}
