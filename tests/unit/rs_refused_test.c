// SPDX-License-Identifier: MIT
/* The ring stream on a queue pair that refuses a work request, completes out of order, or is not there yet. IW_SEED repeats. */
#include "rs_model.h"

/* ---- one post of side 1 is refused ---- */
static unsigned int posts, refuse_at;
static int refusal;
static struct iw_wr refused;
static bool settling;

static int refusing_post_send(void *ctx, const struct iw_wr *wr)
{
	struct side *s = ctx;

	if (s == &s->m->s[1] && !settling && posts++ == refuse_at) {
		refused = *wr;
		return refusal;
	}
	return fake_post_send(ctx, wr);
}

static struct iw_rs_ops refusing_ops;
static struct model_transport refusing;

static bool is_data(const struct iw_wr *wr)
{
	struct iw_cw cw;

	if (wr->op != IW_WR_SEND && wr->op != IW_WR_IMM)
		return false;
	assert_int_equal(iw_cw_decode(&cw, wr->op == IW_WR_IMM ? wr->imm : wr->inl), 0);
	return cw.type == IW_CW_DATA;
}

/* A full queue is waited for, but not between the Writes of a message and its word: room for all of it was looked for before. */
static bool must_die(void)
{
	if (refused.op == IW_WR_READ)
		return false;		/* tried again; when the queue pair is lost, its event tells */
	return refusal != -EAGAIN || refused.op == IW_WR_WRITE || is_data(&refused);
}

static void check_dead(struct model *m, struct side *s)
{
	struct iw_cw cw;

	m_check(m, s->rs.err == ECONNRESET);
	m_check(m, s->ev_abort == (refusal != -ENOTCONN));	/* then the event of the queue pair tells the owner */
	m_check(m, s->nexposed == 0);
	m_check(m, !m_produce(s, 1));
	if (s->rs.abort_posted) {
		const struct iw_wr *wr = &s->sq[(s->sq_head - 1) % M_SQ];

		m_check(m, !iw_cw_decode(&cw, wr->op == IW_WR_IMM ? wr->imm : wr->inl));
		m_check(m, cw.type == IW_CW_ABORT && cw.value == ECONNRESET);
	}
}

static void one_refusal(uint64_t seed)
{
	struct model *m;
	struct side *s;

	posts = 0;
	settling = false;
	m = m_new(seed, &refusing, NULL);
	s = &m->s[1];
	refuse_at = m_below(m, 60);
	for (unsigned int i = 0; i < 3000 && posts <= refuse_at; i++)
		m_action(&m->s[m_below(m, 2)]);
	settling = true;
	if (posts > refuse_at && must_die()) {
		m_check(m, s->rs.dead);
		m_settle(m, true);
		check_dead(m, s);
		m_check(m, !s->rs.abort_posted || m->s[0].rs.dead);
	} else {
		m_check(m, !s->rs.dead);
		m_settle(m, true);	/* everything arrives */
	}
	m_free(m);
}

static void refusals(void **state)
{
	static const int errors[] = { -EAGAIN, -EAGAIN, -ENOTCONN, -EINVAL, -ENOMEM };
	const char *s = getenv("IW_SEED");
	uint64_t seed = s ? strtoull(s, NULL, 0) : (uint64_t)time(NULL);

	print_message("# IW_SEED=%llu\n", (unsigned long long)seed);
	refusing_ops = fake_ops;
	refusing_ops.post_send = refusing_post_send;
	refusing = fake_transport;
	refusing.ops = &refusing_ops;
	for (unsigned int i = 0; i < 1500; i++) {
		refusal = errors[i % 5];
		one_refusal(seed + i);
	}
}

/* ---- completions nobody waits for ---- */
static void out_of_order(void **state)
{
	for (unsigned int tag = 2; tag <= 4; tag += 2) {	/* of a data message, of a Read */
		struct model *m = m_new(3, &fake_transport, NULL);
		struct side *s = &m->s[1];
		struct iw_cqe c = { .wr_id = (uint64_t)tag << 56 | 5, .op = tag == 2 ? IW_WR_IMM : IW_WR_READ };

		iw_rs_complete(&s->rs, &fake_ops, s, &c);
		assert_true(s->rs.dead && s->rs.err == ECONNRESET && s->ev_abort == 1 && s->rs.abort_posted);
		iw_rs_complete(&s->rs, &fake_ops, s, &c);
		iw_rs_abort(&s->rs, EPIPE);
		m_pump(s);
		assert_true(s->rs.err == ECONNRESET && s->ev_abort == 1);
		assert_int_equal(s->sq_head, 1);	/* one ABORT */
		m_free(m);
	}
}

/* ---- before the peer's values are known ---- */
static int posted;

static int no_room(void *ctx, uint64_t wr_id, const struct iw_sge *sge)
{
	return posted++ == 5 ? -EAGAIN : 0;
}

static void not_started(void **state)
{
	struct iw_rs_ops ops = fake_ops;
	struct model *m = m_new(4, &fake_transport, NULL);
	struct side *s = &m->s[1];
	struct iw_cqe c = { .wr_id = 1ull << 56, .op = IW_WR_RECV, .has_imm = 1 };

	ops.post_recv = no_room;
	posted = 0;
	assert_int_equal(iw_rs_init(&s->rs, &s->p, &s->pd), 0);
	assert_int_equal(iw_rs_post_all(&s->rs, &ops, s), -EAGAIN);
	assert_int_equal(posted, 6);
	assert_int_equal(iw_rs_init(&s->rs, &s->p, &s->pd), 0);
	m_pump(s);
	assert_true(!s->rs.dead && s->sq_head == 0);
	iw_rs_complete(&s->rs, &fake_ops, s, &c);
	assert_true(s->rs.dead && s->rs.err == EPROTO && s->ev_abort == 1 && s->sq_head == 0);
	m_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refusals), cmocka_unit_test(out_of_order), cmocka_unit_test(not_started),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("rs_refused", tests, NULL, NULL);
}
