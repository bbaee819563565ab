/* SPDX-License-Identifier: MIT */
/* Completion queues: room that is promised, overflow that stays at home, events, and who may use what. */
#include "verbs_util.h"

#include "daemon/rnic/soft.h"

#define LEN	65536u
#define RIGHTS	(IW_ACCESS_LOCAL_READ | IW_ACCESS_LOCAL_WRITE)

static struct rnic_pd *pd, *foreign;
static struct rnic_mr *mr;
static uint8_t mem[LEN];

static int setup(void **state)
{
	conf_default(&conf);
	pd = rnic_pd_get(1000);
	foreign = rnic_pd_get(1001);
	mr = new_mr(pd, NULL, mem, LEN, RIGHTS);
	return 0;
}

static int teardown(void **state)
{
	bool clean;

	rnic_mr_dereg(mr);
	clean = !prm_total(PRM_CQES) && !prm_total(PRM_STAGS) && !prm_total(PRM_MEMORY) && !prm_total(PRM_READS);
	rnic_pd_put(pd);
	rnic_pd_put(foreign);
	return clean ? 0 : -1;
}

/* a is the Initiator; both in pd. */
struct joined { struct vqp a, b; struct rnic_cq *acq, *bcq; };

static void join(struct joined *j, unsigned int entries, struct rnic_cq *bcq)
{
	j->acq = new_cq(pd, 2 * IW_QP_SQ);
	j->bcq = bcq ? bcq : new_cq(pd, 2 * entries);
	assert_int_equal(vqp_new(&j->a, pd, j->acq, j->acq, 0, 0), 0);
	assert_int_equal(vqp_new(&j->b, pd, j->bcq, j->bcq, entries, entries), 0);
	vqp_start(&j->a, true);
	vqp_start(&j->b, false);
}

static void part(struct joined *j, bool own_bcq)
{
	rnic_qp_destroy(j->a.qp);
	rnic_qp_destroy(j->b.qp);
	assert_int_equal(rnic_cq_destroy(j->acq), 0);
	if (own_bcq)
		assert_int_equal(rnic_cq_destroy(j->bcq), 0);
}

static void sizes(void **state)
{
	struct rnic_cq_attr attr = { .size = 0 };
	struct rnic_cq *cq;

	assert_int_equal(rnic_cq_create(pd, &attr, &cq), -EINVAL);
	attr.size = RNIC_CQ_MAX + 1;
	assert_int_equal(rnic_cq_create(pd, &attr, &cq), -EINVAL);
	conf.max_cq_entries = 100;
	attr.size = 101;
	assert_int_equal(rnic_cq_create(pd, &attr, &cq), -EDQUOT);
	attr.size = 100;
	assert_int_equal(rnic_cq_create(pd, &attr, &cq), 0);
	attr.size = 1;
	{
		struct rnic_cq *other;

		assert_int_equal(rnic_cq_create(pd, &attr, &other), -EDQUOT);
		assert_int_equal(rnic_cq_create(foreign, &attr, &other), 0);	/* another user's quota is his own */
		rnic_cq_destroy(other);
	}
	rnic_cq_destroy(cq);
}

/* SEC-P05: what is not promised at creation cannot be had. */
static void room_is_promised(void **state)
{
	struct rnic_cq *cq = new_cq(pd, 64), *other = new_cq(pd, 64);
	struct vqp v[3];

	assert_int_equal(vqp_new(&v[0], pd, cq, cq, 16, 16), 0);
	assert_int_equal(vqp_new(&v[1], pd, cq, other, 32, 16), 0);
	assert_int_equal(vqp_new(&v[2], pd, cq, other, 1, 16), -ENOSPC);
	assert_int_equal(vqp_new(&v[2], pd, other, cq, 48, 1), -ENOSPC);
	assert_int_equal(vqp_new(&v[2], pd, other, other, 24, 24), 0);	/* the refusals took nothing */
	assert_int_equal(rnic_cq_destroy(cq), -EBUSY);
	rnic_qp_destroy(v[0].qp);
	assert_int_equal(vqp_new(&v[0], pd, cq, cq, 16, 16), 0);
	for (int i = 0; i < 3; i++)
		rnic_qp_destroy(v[i].qp);
	assert_int_equal(rnic_cq_destroy(cq), 0);
	assert_int_equal(rnic_cq_destroy(other), 0);
}

/* SEC-R09, L5: another user's queue is not for us. */
static void foreign_queue(void **state)
{
	struct rnic_cq *cq = new_cq(foreign, 1024), *own = new_cq(pd, 1024);
	struct vqp v;

	assert_int_equal(vqp_new(&v, pd, cq, cq, 0, 0), -EPERM);
	assert_int_equal(vqp_new(&v, pd, own, cq, 0, 0), -EPERM);
	rnic_cq_destroy(cq);
	rnic_cq_destroy(own);
}

/* What is missing, and what is one too many. */
static void attributes(void **state)
{
	struct rnic_cq *cq = new_cq(pd, IW_QP_SQ + IW_QP_RQ);
	struct vqp v;

	assert_int_equal(vqp_new(&v, NULL, cq, cq, 1, 1), -EINVAL);
	assert_int_equal(vqp_new(&v, pd, NULL, cq, 1, 1), -EINVAL);
	assert_int_equal(vqp_new(&v, pd, cq, NULL, 1, 1), -EINVAL);
	assert_int_equal(vqp_new(&v, pd, cq, cq, IW_QP_SQ + 1, 1), -EINVAL);
	assert_int_equal(vqp_new(&v, pd, cq, cq, 1, IW_QP_RQ + 1), -EINVAL);
	assert_int_equal(vqp_new(&v, pd, cq, cq, IW_QP_SQ, IW_QP_RQ), 0);
	rnic_qp_destroy(v.qp);
	rnic_cq_destroy(cq);
}

static void queues_are_as_long_as_asked(void **state)
{
	struct joined j;

	join(&j, 4, NULL);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(post_recv(&j.b, i, mr, i * 64, 64), 0);
	assert_int_equal(post_recv(&j.b, 4, mr, 0, 64), -EAGAIN);
	assert_int_equal(post_text(&j.a, 1, "first", 0), 0);
	exchange(&j.a, &j.b);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(post_text(&j.b, i, "x", 0), 0);
	assert_int_equal(post_text(&j.b, 4, "x", 0), -EAGAIN);
	part(&j, true);
}

/* Before it starts a queue pair takes receives, as many as it will then have, and no sends. */
static void not_yet_started(void **state)
{
	struct rnic_cq *cq = new_cq(pd, 4);
	struct vqp v;

	assert_int_equal(vqp_new(&v, pd, cq, cq, 2, 2), 0);
	assert_int_equal(post_text(&v, 1, "x", 0), -ENOTCONN);
	assert_int_equal(post_recv(&v, 1, mr, 0, 64), 0);
	assert_int_equal(post_recv(&v, 2, mr, 0, 64), 0);
	assert_int_equal(post_recv(&v, 3, mr, 0, 64), -EAGAIN);
	rnic_qp_destroy(v.qp);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

/* One of its two queues is enough: what could be posted would complete in the other one and look whole. */
static void one_of_two_in_error(void **state)
{
	for (unsigned int sends = 0; sends < 2; sends++) {
		struct rnic_cq *cq[2] = { new_cq(pd, 2), new_cq(pd, 512) };
		struct joined j = { .acq = new_cq(pd, 512) };
		struct iw_qp_param p = { .initiator = 1, .crc = 1, .mulpdu = 4096, .recv_min = 8 };
		struct vqp late;

		assert_int_equal(vqp_new(&j.a, pd, j.acq, j.acq, 0, 0), 0);
		assert_int_equal(vqp_new(&j.b, pd, cq[!sends], cq[sends], 1, 1), 0);
		assert_int_equal(vqp_new(&late, pd, cq[!sends], cq[sends], 1, 1), 0);
		assert_int_equal(post_recv(&late, 1, mr, 0, 64), 0);
		vqp_start(&j.a, true);
		vqp_start(&j.b, false);
		for (unsigned int i = 0; i < 8 && !j.b.gone; i++) {
			struct rnic_wc wc[8];

			post_recv(&j.a, i, mr, 0, 64);
			post_recv(&j.b, i, mr, 0, 64);
			if (!sends || !i)	/* the first FPDU is the Initiator's */
				post_text(&j.a, i, "flood", 0);
			exchange(&j.a, &j.b);
			if (sends)
				post_text(&j.b, i, "flood", 0);
			exchange(&j.a, &j.b);
			while (rnic_cq_poll(j.acq, wc, 8) > 0 || rnic_cq_poll(cq[1], wc, 8) > 0)
				;
		}
		assert_true(j.b.gone);
		assert_int_equal(post_recv(&j.b, 1, mr, 0, 64), -EOVERFLOW);
		assert_int_equal(post_text(&j.b, 1, "x", 0), -EOVERFLOW);
		assert_int_equal(rnic_qp_start(late.qp, &p), -EOVERFLOW);
		assert_int_equal(post_recv(&late, 2, mr, 0, 64), -EOVERFLOW);	/* full is not what is wrong */
		rnic_qp_destroy(late.qp);
		part(&j, false);
		assert_int_equal(rnic_cq_destroy(cq[0]) | rnic_cq_destroy(cq[1]), 0);
	}
}

static unsigned int posts;

static void on_posted(void *ctx)
{
	posts++;
}

/* The provider hears of what was posted, and of nothing else. */
static void posted_is_told(void **state)
{
	struct rnic_cq *cq = new_cq(pd, 4);
	struct rnic_qp_attr attr = { .pd = pd, .send_cq = cq, .recv_cq = cq, .max_send = 2, .max_recv = 2, .posted = on_posted };
	struct vqp v = { 0 };

	posts = 0;
	assert_int_equal(rnic_qp_create(&attr, &v.qp), 0);
	assert_int_equal(post_text(&v, 1, "x", 0), -ENOTCONN);
	assert_int_equal(posts, 0);
	vqp_start(&v, true);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(post_text(&v, i, "x", 0), i < 2 ? 0 : -EAGAIN);
	assert_int_equal(posts, 2);
	rnic_qp_destroy(v.qp);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

/* A peer's invalidation is told when it was one. */
static void invalidation_is_told(void **state)
{
	static uint8_t own[64];
	struct rnic_cq *cq = new_cq(pd, 4);
	struct rnic_qp_attr attr = { .pd = pd, .send_cq = cq, .recv_cq = cq, .max_send = 1, .max_recv = 1 };
	struct vqp v, deaf;
	struct rnic_mr *m;

	assert_int_equal(vqp_new(&v, pd, cq, cq, 1, 1), 0);
	assert_int_equal(rnic_qp_ops.invalidate(v.qp, rnic_mr_stag(mr)), IW_ACC_SCOPE);
	assert_int_equal(v.invalidated, 0);
	m = new_mr(pd, v.qp, own, sizeof(own), IW_ACCESS_REMOTE_READ);
	assert_int_equal(rnic_qp_ops.invalidate(v.qp, rnic_mr_stag(m)), IW_ACC_OK);
	assert_int_equal(v.invalidated, rnic_mr_stag(m));
	assert_int_equal(rnic_qp_create(&attr, &deaf.qp), 0);
	m = new_mr(pd, deaf.qp, own, sizeof(own), IW_ACCESS_REMOTE_READ);
	assert_int_equal(rnic_qp_ops.invalidate(deaf.qp, rnic_mr_stag(m)), IW_ACC_OK);
	rnic_qp_destroy(v.qp);
	rnic_qp_destroy(deaf.qp);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

/* Nobody has to want events. */
static void without_events(void **state)
{
	struct rnic_cq *cq = new_cq(pd, 512);
	struct rnic_qp_attr attr = { .pd = pd, .send_cq = cq, .recv_cq = cq };
	struct vqp a, b = { 0 };

	assert_int_equal(vqp_new(&a, pd, cq, cq, 8, 8), 0);
	attr.max_send = attr.max_recv = 8;
	assert_int_equal(rnic_qp_create(&attr, &b.qp), 0);
	vqp_start(&a, true);
	vqp_start(&b, false);
	assert_int_equal(post_text(&a, 1, "no buffer for it", 0), 0);
	exchange(&a, &b);
	assert_true(a.gone);
	assert_int_equal(rnic_qp_state(b.qp)->state, IW_QP_CLOSING);
	rnic_qp_destroy(a.qp);
	rnic_qp_destroy(b.qp);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

/* 64 queue pairs of one user with all queues full at one CQ: every completion is there (SEC-U09). */
static void full_queues_fit(void **state)
{
	enum { N = 64, DEEP = 16 };
	struct rnic_cq *cq = new_cq(pd, N * DEEP * 2);
	static struct joined j[N];
	struct rnic_wc wc[100];
	int n, sum = 0;

	for (unsigned int i = 0; i < N; i++) {
		join(&j[i], DEEP, cq);
		for (unsigned int k = 0; k < DEEP; k++)
			assert_int_equal(post_recv(&j[i].b, k, mr, k * 64, 64), 0);
		assert_int_equal(post_recv(&j[i].a, 0, mr, 0, 64), 0);
		for (unsigned int k = 1; k < DEEP; k++)
			assert_int_equal(post_recv(&j[i].a, k, mr, k * 64, 64), 0);
		for (unsigned int k = 0; k < DEEP; k++)
			assert_int_equal(post_text(&j[i].a, k, "flood", 0), 0);
	}
	for (unsigned int i = 0; i < N; i++) {
		exchange(&j[i].a, &j[i].b);
		for (unsigned int k = 0; k < DEEP; k++)
			assert_int_equal(post_text(&j[i].b, k, "back", 0), 0);
		exchange(&j[i].a, &j[i].b);
		assert_false(j[i].b.gone);
	}
	while ((n = rnic_cq_poll(cq, wc, 100)) > 0)
		sum += n;
	assert_int_equal(n, 0);
	assert_int_equal(sum, N * DEEP * 2);
	for (unsigned int i = 0; i < N; i++)
		part(&j[i], false);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

static unsigned int overflows;

static void on_overflow(void *ctx, struct rnic_cq *cq)
{
	overflows++;
	engine_stop();
}

static bool overflowed(void *arg)
{
	return overflows;
}

/* SEC-R10: an owner posts anew without ever polling. Its streams end, and nobody else's. */
static void overflow_is_confined(void **state)
{
	const struct rnic_cq_attr attr = { .size = 16, .overflow = on_overflow };
	struct joined lazy, mate, good;
	struct rnic_wc wc[32];
	struct rnic_cq *cq;
	unsigned int i;
	int n;

	overflows = 0;
	assert_int_equal(rnic_cq_create(pd, &attr, &cq), 0);
	join(&lazy, 4, cq);
	join(&mate, 4, cq);	/* its neighbour at the same CQ */
	join(&good, 4, NULL);
	assert_int_equal(post_recv(&mate.b, 77, mr, 0, 64), 0);
	assert_int_equal(post_text(&mate.a, 1, "hello", 0), 0);
	exchange(&mate.a, &mate.b);
	for (i = 0; i < 100 && !lazy.b.gone; i++) {
		post_recv(&lazy.b, 1000 + i, mr, 0, 64);
		post_text(&lazy.a, i, "flood", 0);
		exchange(&lazy.a, &lazy.b);

		assert_int_equal(post_recv(&good.b, i, mr, 64, 64), 0);
		assert_int_equal(post_text(&good.a, i, "good", 0), 0);
		exchange(&good.a, &good.b);
		assert_int_equal(rnic_cq_poll(good.bcq, wc, 32), 1);
		assert_int_equal(wc[0].cqe.wr_id, i);
		assert_int_equal(wc[0].cqe.status, IW_WC_OK);
		assert_ptr_equal(wc[0].qp, good.b.qp);
		while (rnic_cq_poll(lazy.acq, wc, 32) > 0 || rnic_cq_poll(good.acq, wc, 32) > 0)
			;
	}
	assert_int_equal(i, 16);	/* mate's 1 and 15 of them fit */
	assert_true(lazy.b.gone);
	assert_true(mate.b.gone);
	assert_false(good.b.gone);
	exchange(&lazy.a, &lazy.b);
	exchange(&mate.a, &mate.b);
	for (unsigned int k = 0; k < 2; k++) {
		const struct iw_qp *peer = rnic_qp_state(k ? mate.a.qp : lazy.a.qp);

		assert_int_equal(peer->state, IW_QP_CLOSING);
		assert_int_equal(peer->term.layer << 16 | peer->term.etype << 8 | peer->term.code, 0);
	}
	run_until(overflowed, NULL);
	assert_int_equal(overflows, 1);
	n = rnic_cq_poll(cq, wc, 32);
	assert_int_equal(n, 16);
	assert_int_equal(wc[0].cqe.wr_id, 77);
	assert_int_equal(rnic_cq_poll(cq, wc, 32), -EOVERFLOW);
	assert_true(rnic_cq_arm(cq, RNIC_CQ_NEXT));
	assert_int_equal(post_recv(&mate.b, 1, mr, 0, 64), -EOVERFLOW);
	assert_int_equal(post_text(&mate.b, 1, "x", 0), -EOVERFLOW);
	{
		struct vqp v;

		assert_int_equal(vqp_new(&v, pd, cq, cq, 1, 1), -EOVERFLOW);
	}
	part(&lazy, false);
	part(&mate, false);
	part(&good, true);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

/* The overflow of a queue of sends happens while octets are handed to the LLP. */
static void overflow_by_sends(void **state)
{
	struct rnic_cq *cq = new_cq(pd, 8);
	struct joined j;

	join(&j, 4, cq);
	assert_int_equal(post_recv(&j.b, 0, mr, 0, 64), 0);
	for (unsigned int i = 0; i < 40; i++)
		assert_int_equal(post_recv(&j.a, i, mr, 64, 64), 0);
	assert_int_equal(post_text(&j.a, 1, "start", 0), 0);
	exchange(&j.a, &j.b);
	for (unsigned int i = 0; i < 40 && !j.b.gone; i++) {
		post_text(&j.b, i, "never polled", 0);
		exchange(&j.a, &j.b);
	}
	assert_true(j.b.gone);
	assert_int_equal(rnic_qp_state(j.a.qp)->state, IW_QP_CLOSING);
	part(&j, false);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

static unsigned int notified;

static void on_notify(void *ctx, struct rnic_cq *cq)
{
	notified++;
}

static void events(void **state)
{
	const struct rnic_cq_attr attr = { .size = 64, .notify = on_notify };
	struct rnic_cq *cq;
	struct rnic_wc wc[64];
	struct joined j;

	notified = 0;
	assert_int_equal(rnic_cq_create(pd, &attr, &cq), 0);
	join(&j, 16, cq);
	for (unsigned int i = 0; i < 16; i++)
		assert_int_equal(post_recv(&j.b, i, mr, i * 64, 64), 0);
	post_text(&j.a, 1, "not armed", IW_WR_SE);
	exchange(&j.a, &j.b);
	run_rounds(3);
	assert_int_equal(notified, 0);
	assert_true(rnic_cq_arm(cq, RNIC_CQ_NEXT));	/* there is one already */
	assert_int_equal(rnic_cq_poll(cq, wc, 64), 1);
	assert_int_equal(rnic_cq_poll(cq, wc, 64), 0);
	assert_false(rnic_cq_arm(cq, RNIC_CQ_NEXT));
	post_text(&j.a, 2, "one", 0);
	post_text(&j.a, 3, "two", 0);
	exchange(&j.a, &j.b);
	run_rounds(3);
	assert_int_equal(notified, 1);			/* once, and it is disarmed */
	post_text(&j.a, 4, "three", IW_WR_SE);
	exchange(&j.a, &j.b);
	run_rounds(3);
	assert_int_equal(notified, 1);
	assert_int_equal(rnic_cq_poll(cq, wc, 64), 3);
	rnic_cq_arm(cq, RNIC_CQ_SOLICITED);
	post_text(&j.a, 5, "plain", 0);
	exchange(&j.a, &j.b);
	run_rounds(3);
	assert_int_equal(notified, 1);
	post_text(&j.a, 6, "wanted", IW_WR_SE);
	exchange(&j.a, &j.b);
	run_rounds(3);
	assert_int_equal(notified, 2);
	assert_int_equal(rnic_cq_poll(cq, wc, 64), 2);
	assert_int_equal(wc[1].cqe.se, 1);
	rnic_cq_arm(cq, RNIC_CQ_SOLICITED);		/* what failed is an event as well */
	iw_qp_terminate(rnic_qp_state(j.a.qp), &rnic_qp_ops, j.a.qp, 0, 0, 0);
	exchange(&j.a, &j.b);
	run_rounds(3);
	assert_int_equal(notified, 3);
	assert_int_equal(rnic_cq_poll(cq, wc, 64), 16 - 6);
	assert_int_equal(wc[0].cqe.status, IW_WC_FLUSH);
	part(&j, false);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

static void count_overflow(void *ctx, struct rnic_cq *cq)
{
	overflows++;
}

static void flood(struct joined *j)
{
	for (unsigned int i = 0; i < 40 && !j->b.gone; i++) {
		post_recv(&j->b, i, mr, 0, 64);
		post_text(&j->a, i, "flood", 0);
		exchange(&j->a, &j->b);
	}
	assert_true(j->b.gone);
	run_rounds(3);
}

/* Each of the two comes for what it is about, when it is asked for, and once. */
static void the_right_event(void **state)
{
	static const struct { bool notify, overflow, arm; unsigned int want[2]; } t[] = {
		{ true, true, true, { 1, 1 } }, { true, false, true, { 1, 0 } }, { false, true, true, { 0, 1 } }, { false, false, true, { 0, 0 } },
		{ true, false, false, { 0, 0 } }, { true, true, false, { 0, 1 } },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const struct rnic_cq_attr attr = {
			.size = 8, .notify = t[i].notify ? on_notify : NULL, .overflow = t[i].overflow ? count_overflow : NULL,
		};
		struct rnic_cq *cq;
		struct joined j;

		notified = overflows = 0;
		assert_int_equal(rnic_cq_create(pd, &attr, &cq), 0);
		join(&j, 4, cq);
		if (t[i].arm)
			assert_false(rnic_cq_arm(cq, RNIC_CQ_NEXT));
		post_recv(&j.b, 0, mr, 0, 64);
		post_text(&j.a, 0, "one", 0);
		exchange(&j.a, &j.b);
		run_rounds(3);
		assert_int_equal(notified, t[i].want[0]);
		assert_int_equal(overflows, 0);
		flood(&j);		/* not armed again: only overflow() is told */
		assert_int_equal(notified, t[i].want[0]);
		assert_int_equal(overflows, t[i].want[1]);
		part(&j, false);
		assert_int_equal(rnic_cq_destroy(cq), 0);
	}
}

/* The ring goes round: what was polled makes room although something is left. */
static void polled_in_part(void **state)
{
	struct rnic_cq *cq = new_cq(pd, 8);
	struct rnic_wc wc[8];
	struct joined j;
	unsigned int next = 0;

	join(&j, 4, cq);
	for (unsigned int round = 0; round < 6; round++) {
		for (unsigned int i = 0; i < 3; i++) {
			assert_int_equal(post_recv(&j.b, 3 * round + i, mr, 0, 64), 0);
			post_text(&j.a, i, "x", 0);
			exchange(&j.a, &j.b);
			while (rnic_cq_poll(j.acq, wc, 8) > 0)
				;
		}
		assert_int_equal(rnic_cq_poll(cq, wc, round ? 3 : 2), round ? 3 : 2);
		for (unsigned int i = 0; i < (round ? 3 : 2); i++)
			assert_int_equal(wc[i].cqe.wr_id, next++);
	}
	assert_false(j.b.gone);
	part(&j, false);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

/* In error for good: what still ends is not told there, even when it has been polled empty. */
static void nothing_after_an_overflow(void **state)
{
	struct rnic_cq *cq = new_cq(pd, 12);
	struct rnic_wc wc[16];
	struct vqp late;
	struct joined j;

	join(&j, 4, cq);
	assert_int_equal(vqp_new(&late, pd, cq, cq, 1, 1), 0);
	assert_int_equal(post_recv(&late, 7, mr, 0, 64), 0);
	flood(&j);
	assert_int_equal(rnic_cq_poll(cq, wc, 16), 12);
	assert_int_equal(rnic_cq_poll(cq, wc, 16), -EOVERFLOW);
	iw_qp_end(rnic_qp_state(late.qp), &rnic_qp_ops, late.qp);
	assert_int_equal(rnic_cq_poll(cq, wc, 16), -EOVERFLOW);
	rnic_qp_destroy(late.qp);
	part(&j, false);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

/* What was paid for in advance is not counted again, nor given back. */
static void prepaid(void **state)
{
	const struct rnic_cq_attr attr = { .size = 8, .flags = RNIC_PREPAID };
	uint64_t before = prm_total(PRM_CQES);
	struct rnic_cq *cq;

	assert_int_equal(rnic_cq_create(pd, &attr, &cq), 0);
	assert_int_equal(prm_total(PRM_CQES), before);
	assert_int_equal(rnic_cq_destroy(cq), 0);
	assert_int_equal(prm_total(PRM_CQES), before);
}

/* A domain goes with the last thing that is in it, and not before. */
static void held_by_what_is_in_it(void **state)
{
	static uint8_t own[64];
	struct prm_user *u = rnic_pd_user(pd);
	const struct prm_bill b = { .n = { [PRM_STAGS] = 5 } };
	uint64_t before = u->used[PRM_STAGS];

	for (unsigned int last = 0; last < 2; last++) {
		struct rnic_pd *dom = rnic_pd_new(1000, 0);
		struct rnic_cq *cq = new_cq(dom, 4), *far = new_cq(pd, 4);
		struct rnic_mr *m;
		struct vqp v;

		assert_int_equal(prm_take(u, &b), 0);
		rnic_pd_bill(dom, &b);
		assert_int_equal(vqp_new(&v, dom, last ? far : cq, last ? far : cq, 1, 1), 0);
		m = new_mr(dom, NULL, own, sizeof(own), IW_ACCESS_REMOTE_READ);
		rnic_pd_put(dom);
		assert_int_equal(u->used[PRM_STAGS], before + 6);
		rnic_mr_dereg(m);
		assert_int_equal(u->used[PRM_STAGS], before + 5);
		if (last)
			rnic_cq_destroy(cq);
		else
			rnic_qp_destroy(v.qp);
		assert_int_equal(u->used[PRM_STAGS], before + 5);
		if (last)
			rnic_qp_destroy(v.qp);
		else
			rnic_cq_destroy(cq);
		assert_int_equal(u->used[PRM_STAGS], before);
		rnic_cq_destroy(far);
	}
}

/* An owner that has no overflow() and sleeps until something solicited comes is woken, or it would sleep for ever. */
static void overflow_wakes_the_sleeper(void **state)
{
	const struct rnic_cq_attr attr = { .size = 8, .notify = on_notify };
	struct rnic_cq *cq;
	struct rnic_wc wc[8];
	struct joined j;

	notified = 0;
	assert_int_equal(rnic_cq_create(pd, &attr, &cq), 0);
	join(&j, 4, cq);
	assert_false(rnic_cq_arm(cq, RNIC_CQ_SOLICITED));
	for (unsigned int i = 0; i < 40 && !j.b.gone; i++) {
		post_recv(&j.b, i, mr, 0, 64);
		post_text(&j.a, i, "not solicited", 0);
		exchange(&j.a, &j.b);
	}
	assert_true(j.b.gone);
	run_rounds(3);
	assert_int_equal(notified, 1);
	assert_int_equal(rnic_cq_poll(cq, wc, 8), 8);
	assert_int_equal(rnic_cq_poll(cq, wc, 8), -EOVERFLOW);
	part(&j, false);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

/* SEC-P02: a queue pair has the Read slots that were counted for it, and no more; and none starts on a queue that is in error. */
static void starts_within_what_it_has(void **state)
{
	struct iw_qp_param p = { .initiator = 1, .crc = 1, .mulpdu = 4096, .ird = 2, .ord = 2, .recv_min = 8 };
	struct rnic_cq *cq = new_cq(pd, 10);
	struct rnic_qp_attr a = { .pd = pd, .send_cq = cq, .recv_cq = cq, .max_send = 1, .max_recv = 1, .max_reads = 3, .event = vqp_event };
	struct rnic_qp *qp, *late, *all_in;
	struct vqp v = { 0 };
	struct joined j;

	a.ctx = &v;
	assert_int_equal(rnic_qp_create(&a, &qp), 0);
	assert_int_equal(rnic_qp_create(&a, &late), 0);
	assert_int_equal(rnic_qp_start(qp, &p), -EINVAL);
	p.ord = 0;
	p.ird = 4;
	assert_int_equal(rnic_qp_start(qp, &p), -EINVAL);
	p.ird = IW_QP_IRD + 1;
	assert_int_equal(rnic_qp_start(qp, &p), -EINVAL);
	p.ird = 1;
	p.ord = 2;
	assert_int_equal(rnic_qp_start(qp, &p), 0);
	assert_int_equal(rnic_qp_start(qp, &p), -EINVAL);	/* once */
	assert_int_equal(rnic_qp_create(&a, &all_in), 0);
	p.ird = 3;
	p.ord = 0;
	assert_int_equal(rnic_qp_start(all_in, &p), 0);
	rnic_qp_destroy(all_in);
	join(&j, 2, cq);
	for (unsigned int i = 0; i < 40 && !j.b.gone; i++) {
		post_recv(&j.b, i, mr, 0, 64);
		post_text(&j.a, i, "flood", 0);
		exchange(&j.a, &j.b);
	}
	assert_true(j.b.gone);
	assert_int_equal(rnic_qp_start(late, &p), -EOVERFLOW);
	part(&j, false);
	rnic_qp_destroy(qp);
	rnic_qp_destroy(late);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

/* A queue pair takes what it has in the queue with it; its neighbour's stays, in order. */
static void destroyed_with_completions(void **state)
{
	struct rnic_cq *cq = new_cq(pd, 64);
	struct joined j[2];
	struct rnic_wc wc[64];

	for (unsigned int i = 0; i < 2; i++)
		join(&j[i], 16, cq);
	for (unsigned int k = 0; k < 10; k++) {
		for (unsigned int i = 0; i < 2; i++) {
			assert_int_equal(post_recv(&j[i].b, 100 * i + k, mr, k * 64, 64), 0);
			post_text(&j[i].a, k, "text", 0);
			exchange(&j[i].a, &j[i].b);
		}
	}
	part(&j[0], false);
	assert_int_equal(rnic_cq_poll(cq, wc, 64), 10);
	for (unsigned int k = 0; k < 10; k++) {
		assert_int_equal(wc[k].cqe.wr_id, 100 + k);
		assert_ptr_equal(wc[k].qp, j[1].b.qp);
	}
	part(&j[1], false);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

static void two_queues(void **state)
{
	struct rnic_cq *scq = new_cq(pd, 16), *rcq = new_cq(pd, 16), *acq = new_cq(pd, 512);
	struct rnic_wc wc[16];
	struct vqp a, b;

	assert_int_equal(vqp_new(&a, pd, acq, acq, 0, 0), 0);
	assert_int_equal(vqp_new(&b, pd, scq, rcq, 16, 16), 0);
	vqp_start(&a, true);
	vqp_start(&b, false);
	assert_int_equal(post_recv(&a, 1, mr, 0, 64), 0);
	assert_int_equal(post_recv(&b, 2, mr, 64, 64), 0);
	post_text(&a, 3, "question", 0);
	exchange(&a, &b);
	post_text(&b, 4, "answer", 0);
	exchange(&a, &b);
	assert_int_equal(rnic_cq_poll(scq, wc, 16), 1);
	assert_int_equal(wc[0].cqe.op, IW_WR_SEND);
	assert_int_equal(wc[0].cqe.wr_id, 4);
	assert_int_equal(rnic_cq_poll(rcq, wc, 16), 1);
	assert_int_equal(wc[0].cqe.op, IW_WR_RECV);
	assert_int_equal(wc[0].cqe.len, 8);
	assert_memory_equal(mem + 64, "question", 8);
	rnic_qp_destroy(a.qp);
	rnic_qp_destroy(b.qp);
	assert_int_equal(rnic_cq_destroy(scq) | rnic_cq_destroy(rcq) | rnic_cq_destroy(acq), 0);
}

/* L8: a work request that names memory of another domain. The stream ends, and not one octet of it went out. */
static void foreign_lkey(void **state)
{
	static uint8_t theirs[64] = "secret";
	struct rnic_mr *other = new_mr(foreign, NULL, theirs, sizeof(theirs), RIGHTS);
	const struct { uint8_t op; struct rnic_mr *mr; unsigned int access; } how[] = {
		{ IW_WR_SEND, other, 0 }, { IW_WR_WRITE, other, 0 }, { IW_WR_SEND, NULL, IW_ACCESS_LOCAL_WRITE },
	};

	for (unsigned int i = 0; i < 3; i++) {
		static uint8_t own[64];
		struct rnic_mr *local = how[i].mr ? how[i].mr : new_mr(pd, NULL, own, sizeof(own), how[i].access);
		struct iw_wr wr = { .wr_id = 9, .op = how[i].op, .nsge = 1, .rstag = rnic_mr_stag(mr) };
		struct rnic_wc wc[4];
		struct joined j;

		join(&j, 4, NULL);
		wr.sge[0] = sge_of(local, 0, 6);
		assert_int_equal(post_recv(&j.b, 1, mr, 0, 64), 0);
		assert_int_equal(rnic_post_send(j.a.qp, &wr), 0);
		exchange(&j.a, &j.b);
		assert_int_equal(rnic_cq_poll(j.acq, wc, 4), 1);
		assert_int_equal(wc[0].cqe.status, IW_WC_LOC_PROT);
		assert_int_equal(rnic_qp_state(j.b.qp)->stat.rx_send + rnic_qp_state(j.b.qp)->stat.rx_write, 0);
		assert_int_equal(j.b.events[IW_QP_EV_TERM_RECEIVED], 1);
		part(&j, true);
		if (!how[i].mr)
			rnic_mr_dereg(local);
	}
	rnic_mr_dereg(other);
}

/* And one that names foreign memory as the place to receive or read into. */
static void foreign_sink(void **state)
{
	static uint8_t theirs[64] = "untouched";
	struct rnic_mr *other = new_mr(foreign, NULL, theirs, sizeof(theirs), RIGHTS | IW_ACCESS_READ_SINK);
	struct iw_wr wr = { .wr_id = 9, .op = IW_WR_READ, .nsge = 1, .rstag = rnic_mr_stag(mr) };
	struct joined j;

	join(&j, 4, NULL);
	assert_int_equal(post_recv(&j.b, 1, other, 0, 64), 0);
	post_text(&j.a, 1, "overwritten", 0);
	exchange(&j.a, &j.b);
	assert_true(j.b.gone);
	assert_memory_equal(theirs, "untouched", 10);
	part(&j, true);
	join(&j, 4, NULL);
	wr.sge[0] = sge_of(other, 0, 6);
	assert_int_equal(rnic_post_send(j.a.qp, &wr), 0);
	exchange(&j.a, &j.b);
	assert_true(j.a.gone);
	assert_memory_equal(theirs, "untouched", 10);
	part(&j, true);
	rnic_mr_dereg(other);
}

/* ---- over TCP: a ULP with completion queues of its own ---- */

struct side { struct endpoint *c; bool up, closed; };

static void on_request(void *ctx, const struct endpoint_said *said)
{
	assert_int_equal(endpoint_accept(((struct side *)ctx)->c, NULL, 0), 0);
}

static void on_established(void *ctx, const struct endpoint_said *said)
{
	((struct side *)ctx)->up = true;
}

static void no_complete(void *ctx, const struct iw_cqe *cqe)
{
	fail_msg("a completion came by callback");
}

static void on_closed(void *ctx, int err, const struct endpoint_said *said)
{
	((struct side *)ctx)->closed = true;
}

static const struct endpoint_ulp ops = { .request = on_request, .established = on_established, .complete = no_complete, .closed = on_closed };

static bool both_up(void *arg)
{
	struct side *s = arg;

	return s[0].up && s[1].up;
}

static bool both_closed(void *arg)
{
	struct side *s = arg;

	return s[0].closed && s[1].closed && !endpoint_count();
}

static bool was_notified(void *arg)
{
	return notified;
}

static void over_tcp(void **state)
{
	const struct rnic_cq_attr attr = { .size = 32, .notify = on_notify };
	struct soft_queues q = { .max_send = 16, .max_recv = 16 };
	struct side s[2] = { 0 };
	struct rnic_wc wc[32];
	struct rnic_cq *cq[2];
	struct iw_sge sge = sge_of(mr, 128, 64);
	struct iw_wr wr = { .wr_id = 5, .op = IW_WR_SEND, .flags = IW_WR_SE, .nsge = 1, .sge = { sge_of(mr, 0, 20) } };
	int tcp[2];

	notified = 0;
	tcp_pair(tcp);
	memcpy(mem, "from end to end, ok", 20);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rnic_cq_create(pd, &attr, &cq[i]), 0);
		q.send_cq = q.recv_cq = cq[i];
		assert_int_equal(soft_create_queues(tcp[i], &(struct endpoint_attr){ .pd = pd, .ulp = &ops, .ctx = &s[i] }, &q, &s[i].c), 0);
		assert_int_equal(endpoint_post_recv(s[i].c, 50, &sge), 0);
	}
	endpoint_respond(s[1].c);
	endpoint_initiate(s[0].c, NULL, 0);
	run_until(both_up, s);
	assert_false(rnic_cq_arm(cq[1], RNIC_CQ_SOLICITED));
	assert_int_equal(endpoint_post_send(s[0].c, &wr), 0);	/* nothing else: it leaves by itself */
	run_until(was_notified, NULL);
	assert_int_equal(rnic_cq_poll(cq[1], wc, 32), 1);
	assert_int_equal(wc[0].cqe.len, 20);
	assert_ptr_equal(rnic_qp_ctx(wc[0].qp), s[1].c);
	assert_memory_equal(mem + 128, "from end to end, ok", 20);
	endpoint_close(s[0].c);
	endpoint_close(s[1].c);
	run_until(both_closed, s);
	assert_int_equal(rnic_cq_destroy(cq[0]) | rnic_cq_destroy(cq[1]), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(sizes), T(room_is_promised), T(foreign_queue), T(attributes), T(queues_are_as_long_as_asked), T(not_yet_started),
		T(one_of_two_in_error), T(posted_is_told), T(invalidation_is_told), T(without_events), T(full_queues_fit),
		T(overflow_is_confined), T(overflow_by_sends), T(events), T(overflow_wakes_the_sleeper),
		T(the_right_event), T(polled_in_part), T(nothing_after_an_overflow), T(prepaid), T(held_by_what_is_in_it),
		T(starts_within_what_it_has), T(destroyed_with_completions), T(two_queues), T(foreign_lkey),
		T(foreign_sink), T(over_tcp),
	};

	conf_default(&conf);
	prm_strict = false;
	log_init(LOG_CRIT, 1);
	if (engine_init())
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
