/* SPDX-License-Identifier: MIT */
/* The STag table: who may touch which octets, and that nothing outlives its registration. */
#include "util.h"

#include "daemon/rnic/rnic.h"

#define LEN	4096u
#define TO	0x10000u

static void on_event(void *ctx, enum iw_qp_event ev)
{
}

static uint32_t invalidated;

static void on_invalidated(void *ctx, uint32_t stag)
{
	invalidated = stag;
}

struct world {
	struct rnic_pd *pd, *other;
	struct rnic_qp *qp, *qp2, *foreign;
	uint8_t mem[LEN];
};

static struct rnic_qp *new_qp(struct rnic_pd *pd)
{
	struct rnic_qp_attr attr = { .pd = pd, .event = on_event, .invalidated = on_invalidated };
	const struct rnic_cq_attr cq = { .size = IW_QP_SQ + IW_QP_RQ };
	struct rnic_qp *qp;

	assert_int_equal(rnic_cq_create(pd, &cq, &attr.send_cq), 0);
	attr.recv_cq = attr.send_cq;
	attr.ctx = attr.send_cq;
	assert_int_equal(rnic_qp_create(&attr, &qp), 0);
	return qp;
}

static void end_qp(struct rnic_qp *qp)
{
	struct rnic_cq *cq = rnic_qp_ctx(qp);

	assert_int_equal(rnic_cq_destroy(cq), -EBUSY);
	rnic_qp_destroy(qp);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	conf_default(&conf);
	prm_strict = false;
	w->pd = rnic_pd_get(1000);
	w->other = rnic_pd_get(1001);
	w->qp = new_qp(w->pd);
	w->qp2 = new_qp(w->pd);
	w->foreign = new_qp(w->other);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	end_qp(w->qp);
	end_qp(w->qp2);
	end_qp(w->foreign);
	rnic_pd_put(w->pd);
	rnic_pd_put(w->other);
	free(w);
	return rnic_mr_count() ? -1 : 0;
}

static enum iw_access_err ask(struct rnic_qp *qp, uint32_t stag, uint64_t to, uint64_t len, unsigned int right)
{
	void *p = NULL;
	enum iw_access_err e = rnic_qp_ops.access(qp, stag, to, len, right, &p);

	if (e == IW_ACC_OK)
		assert_non_null(p);
	return e;
}

static struct rnic_mr *reg(struct world *w, struct rnic_qp *scope, unsigned int access)
{
	struct rnic_mr *mr;

	assert_int_equal(rnic_mr_reg(w->pd, scope, w->mem, LEN, TO, access, &mr), 0);
	return mr;
}

static void bounds_are_exact(void **state)
{
	struct world *w = *state;
	struct rnic_mr *mr = reg(w, w->qp, IW_ACCESS_REMOTE_WRITE);
	uint32_t stag = rnic_mr_stag(mr);
	const unsigned int right = IW_ACCESS_REMOTE_WRITE;
	void *p;

	assert_int_equal(ask(w->qp, stag, TO, LEN, right), IW_ACC_OK);
	assert_int_equal(ask(w->qp, stag, TO, 1, right), IW_ACC_OK);
	assert_int_equal(ask(w->qp, stag, TO + LEN - 1, 1, right), IW_ACC_OK);
	assert_int_equal(ask(w->qp, stag, TO - 1, 1, right), IW_ACC_BOUNDS);
	assert_int_equal(ask(w->qp, stag, TO - 1, LEN, right), IW_ACC_BOUNDS);
	assert_int_equal(ask(w->qp, stag, TO + LEN, 1, right), IW_ACC_BOUNDS);
	assert_int_equal(ask(w->qp, stag, TO + 1, LEN, right), IW_ACC_BOUNDS);
	assert_int_equal(ask(w->qp, stag, TO, LEN + 1, right), IW_ACC_BOUNDS);
	assert_int_equal(ask(w->qp, stag, TO, UINT64_MAX - TO, right), IW_ACC_BOUNDS);
	assert_int_equal(ask(w->qp, stag, 0, 1, right), IW_ACC_BOUNDS);
	assert_int_equal(ask(w->qp, stag, UINT64_MAX, 1, right), IW_ACC_WRAP);
	assert_int_equal(ask(w->qp, stag, UINT64_MAX - 1, 4, right), IW_ACC_WRAP);
	assert_int_equal(rnic_qp_ops.access(w->qp, stag, TO + 5, 1, right, &p), IW_ACC_OK);
	assert_ptr_equal(p, w->mem + 5);
	rnic_mr_dereg(mr);
}

static void order_of_checks(void **state)
{
	struct world *w = *state;
	struct rnic_mr *mr = reg(w, w->qp, IW_ACCESS_REMOTE_WRITE);
	uint32_t stag = rnic_mr_stag(mr);

	/* wrap before STag, STag before scope, scope before right, right before bounds */
	assert_int_equal(ask(w->foreign, stag ^ 1, UINT64_MAX, 2, IW_ACCESS_REMOTE_READ), IW_ACC_WRAP);
	assert_int_equal(ask(w->foreign, stag ^ 1, TO + LEN, 2, IW_ACCESS_REMOTE_READ), IW_ACC_STAG);
	assert_int_equal(ask(w->foreign, stag, TO + LEN, 2, IW_ACCESS_REMOTE_READ), IW_ACC_SCOPE);
	assert_int_equal(ask(w->qp2, stag, TO + LEN, 2, IW_ACCESS_REMOTE_READ), IW_ACC_SCOPE);
	assert_int_equal(ask(w->qp, stag, TO + LEN, 2, IW_ACCESS_REMOTE_READ), IW_ACC_RIGHTS);
	assert_int_equal(ask(w->qp, stag, TO + LEN, 2, IW_ACCESS_REMOTE_WRITE), IW_ACC_BOUNDS);
	rnic_mr_dereg(mr);
}

static void rights_are_separate(void **state)
{
	static const unsigned int right[] = { IW_ACCESS_LOCAL_WRITE, IW_ACCESS_REMOTE_READ, IW_ACCESS_REMOTE_WRITE,
					      IW_ACCESS_REMOTE_ATOMIC, IW_ACCESS_LOCAL_READ, IW_ACCESS_READ_SINK };
	struct world *w = *state;

	for (size_t i = 0; i < 6; i++) {
		struct rnic_mr *mr = reg(w, w->qp, right[i]);

		for (size_t j = 0; j < 6; j++)
			assert_int_equal(ask(w->qp, rnic_mr_stag(mr), TO, 8, right[j]), i == j ? IW_ACC_OK : IW_ACC_RIGHTS);
		assert_int_equal(ask(w->qp, rnic_mr_stag(mr), TO, 8, 0), IW_ACC_RIGHTS);	/* nothing asked is nothing granted */
		rnic_mr_dereg(mr);
	}
}

static void shared_in_the_domain_only(void **state)
{
	struct world *w = *state;
	struct rnic_mr *mr = reg(w, NULL, IW_ACCESS_REMOTE_READ);

	assert_int_equal(ask(w->qp, rnic_mr_stag(mr), TO, 8, IW_ACCESS_REMOTE_READ), IW_ACC_OK);
	assert_int_equal(ask(w->qp2, rnic_mr_stag(mr), TO, 8, IW_ACCESS_REMOTE_READ), IW_ACC_OK);
	assert_int_equal(ask(w->foreign, rnic_mr_stag(mr), TO, 8, IW_ACCESS_REMOTE_READ), IW_ACC_SCOPE);
	/* R22: valid on more than one stream, so none may take it from the others */
	assert_int_equal(rnic_qp_ops.invalidate(w->qp, rnic_mr_stag(mr)), IW_ACC_SCOPE);
	rnic_mr_dereg(mr);
}

/* SEC-U05: what another domain may write can be read here, now and with other rights later, but not written. */
static void read_what_others_write(void **state)
{
	struct world *w = *state;
	struct rnic_mr *theirs, *mr;

	assert_int_equal(rnic_mr_reg(w->other, NULL, w->mem, LEN, TO, IW_ACCESS_REMOTE_WRITE, &theirs), 0);
	mr = reg(w, w->qp, IW_ACCESS_REMOTE_READ);
	assert_int_equal(rnic_mr_set_access(mr, IW_ACCESS_LOCAL_READ), 0);
	assert_int_equal(rnic_mr_set_access(mr, IW_ACCESS_REMOTE_WRITE), -EBUSY);
	assert_int_equal(ask(w->qp, rnic_mr_stag(mr), TO, 8, IW_ACCESS_REMOTE_WRITE), IW_ACC_RIGHTS);
	assert_int_equal(ask(w->qp, rnic_mr_stag(mr), TO, 8, IW_ACCESS_LOCAL_READ), IW_ACC_OK);
	rnic_mr_dereg(theirs);
	assert_int_equal(rnic_mr_set_access(mr, IW_ACCESS_REMOTE_WRITE), 0);
	rnic_mr_dereg(mr);
}

static void invalidate_is_final(void **state)
{
	struct world *w = *state;
	uint32_t stag = rnic_mr_stag(reg(w, w->qp, IW_ACCESS_REMOTE_READ));

	invalidated = 0;
	assert_int_equal(rnic_qp_ops.invalidate(w->qp2, stag), IW_ACC_SCOPE);
	assert_int_equal(rnic_qp_ops.invalidate(w->foreign, stag), IW_ACC_SCOPE);
	assert_int_equal(rnic_qp_ops.invalidate(w->qp, stag), IW_ACC_OK);
	assert_int_equal(invalidated, stag);
	assert_int_equal(ask(w->qp, stag, TO, 1, IW_ACCESS_REMOTE_READ), IW_ACC_STAG);
	assert_int_equal(rnic_qp_ops.invalidate(w->qp, stag), IW_ACC_STAG);
	assert_null(rnic_mr_find(stag));
}

static void registration_limits(void **state)
{
	struct world *w = *state;
	struct rnic_mr *mr, *mr2;

	assert_int_equal(rnic_mr_reg(w->pd, NULL, w->mem, 0, TO, IW_ACCESS_REMOTE_READ, &mr), -EINVAL);
	/* R25: base + length may not reach 2^64 */
	assert_int_equal(rnic_mr_reg(w->pd, NULL, w->mem, LEN, UINT64_MAX - LEN + 1, IW_ACCESS_REMOTE_READ, &mr), -EINVAL);
	assert_int_equal(rnic_mr_reg(w->pd, NULL, w->mem, LEN, UINT64_MAX - LEN, IW_ACCESS_REMOTE_READ, &mr), 0);
	assert_int_equal(ask(w->qp, rnic_mr_stag(mr), UINT64_MAX - LEN, LEN, IW_ACCESS_REMOTE_READ), IW_ACC_OK);
	rnic_mr_dereg(mr);
	conf.max_memory = LEN + 1;
	assert_int_equal(rnic_mr_reg(w->pd, NULL, w->mem, LEN, TO, IW_ACCESS_REMOTE_READ, &mr), 0);
	assert_int_equal(rnic_mr_reg(w->pd, NULL, w->mem, 2, TO, IW_ACCESS_REMOTE_READ, &mr2), -EDQUOT);
	assert_int_equal(rnic_mr_reg(w->other, NULL, w->mem, 2, TO, IW_ACCESS_REMOTE_READ, &mr2), 0);
	rnic_mr_dereg(mr2);
	rnic_mr_dereg(mr);
	assert_int_equal(rnic_mr_reg(w->pd, NULL, w->mem, LEN + 1, TO, IW_ACCESS_REMOTE_READ, &mr), 0);
	rnic_mr_dereg(mr);
	conf_default(&conf);
	/* memory that would reach past the end of the address space, rights that do not exist */
	assert_int_equal(rnic_mr_reg(w->pd, NULL, (void *)(UINTPTR_MAX - 9), 11, TO, IW_ACCESS_REMOTE_READ, &mr), -EINVAL);
	assert_int_equal(rnic_mr_reg(w->pd, NULL, w->mem, LEN, TO, IW_ACCESS_REMOTE_READ | 64, &mr), -EINVAL);
	assert_int_equal(rnic_mr_reg(w->pd, NULL, w->mem, LEN, TO, IW_ACCESS_REMOTE_READ, &mr), 0);
	assert_int_equal(rnic_mr_set_access(mr, 64), -EINVAL);
	assert_int_equal(ask(w->qp, rnic_mr_stag(mr), TO, LEN, IW_ACCESS_REMOTE_READ), IW_ACC_OK);
	rnic_mr_dereg(mr);
}

static void chosen_stag(void **state)
{
	struct world *w = *state;
	struct rnic_mr *mr, *mr2;

	assert_int_equal(rnic_mr_reg_stag(w->pd, NULL, w->mem, LEN, TO, IW_ACCESS_REMOTE_READ, 0x5a17c301, &mr), 0);
	assert_int_equal(rnic_mr_reg_stag(w->pd, NULL, w->mem, LEN, TO, IW_ACCESS_REMOTE_READ, 0x5a17c301, &mr2), -EEXIST);
	/* the key octet is part of the name */
	assert_int_equal(ask(w->qp, 0x5a17c302, TO, 1, IW_ACCESS_REMOTE_READ), IW_ACC_STAG);
	rnic_mr_dereg(mr);
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Freed STags do not come back soon, the table grows, and nothing of one registration answers for another. */
static void reuse_and_growth(void **state)
{
	enum { N = 20000 };
	struct world *w = *state;
	struct rnic_mr **mr = calloc(N, sizeof(struct rnic_mr *));
	uint32_t *seen = calloc(2 * N, sizeof(*seen));

	for (unsigned int i = 0; i < N; i++) {
		mr[i] = reg(w, i % 2 ? w->qp : NULL, IW_ACCESS_REMOTE_READ);
		seen[i] = rnic_mr_stag(mr[i]);
	}
	assert_int_equal(rnic_mr_count(), N);
	for (unsigned int i = 0; i < N; i++)
		assert_ptr_equal(rnic_mr_find(seen[i]), mr[i]);
	for (unsigned int i = 0; i < N; i++) {
		rnic_mr_dereg(mr[i]);
		assert_null(rnic_mr_find(seen[i]));
	}
	for (unsigned int i = 0; i < N; i++) {
		struct rnic_mr *m = reg(w, w->qp, IW_ACCESS_REMOTE_READ);

		seen[N + i] = rnic_mr_stag(m);
		rnic_mr_dereg(m);
	}
	qsort(seen, 2 * N, sizeof(*seen), by_value);
	for (unsigned int i = 1; i < 2 * N; i++)
		assert_int_not_equal(seen[i], seen[i - 1]);
	assert_int_equal(rnic_mr_count(), 0);
	free(seen);
	free(mr);
}

/* A queue pair takes the registrations of its scope with it. */
static void scope_ends_with_the_qp(void **state)
{
	struct world *w = *state;
	struct rnic_qp *qp = new_qp(w->pd);
	uint32_t stag = rnic_mr_stag(reg(w, qp, IW_ACCESS_REMOTE_WRITE));

	end_qp(qp);
	assert_null(rnic_mr_find(stag));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bounds_are_exact, setup, teardown),
		cmocka_unit_test_setup_teardown(order_of_checks, setup, teardown),
		cmocka_unit_test_setup_teardown(rights_are_separate, setup, teardown),
		cmocka_unit_test_setup_teardown(shared_in_the_domain_only, setup, teardown),
		cmocka_unit_test_setup_teardown(read_what_others_write, setup, teardown),
		cmocka_unit_test_setup_teardown(invalidate_is_final, setup, teardown),
		cmocka_unit_test_setup_teardown(registration_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(chosen_stag, setup, teardown),
		cmocka_unit_test_setup_teardown(reuse_and_growth, setup, teardown),
		cmocka_unit_test_setup_teardown(scope_ends_with_the_qp, setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
