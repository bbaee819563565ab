/* SPDX-License-Identifier: MIT */
/* The PRM: quotas per user, the reserve for those who come later, and which memory may be registered by whom. */
#include "verbs_util.h"

#include <sys/mman.h>

#include "daemon/rnic/soft.h"

#define FILES	1408u		/* (1408 - 256) / 6 = 192 streams fit */
#define ROOM	192u
#define FILES_ROOM (FILES - 256u)

static struct rnic_pd *pd, *foreign;
static struct prm_user *user, *other;
static bool strict_at_start;

static int setup(void **state)
{
	conf_default(&conf);
	prm_strict = true;
	prm_files(FILES);
	pd = rnic_pd_get(1000);
	foreign = rnic_pd_get(1001);
	user = rnic_pd_user(pd);
	other = rnic_pd_user(foreign);
	return 0;
}

static int teardown(void **state)
{
	rnic_pd_put(pd);
	rnic_pd_put(foreign);
	for (enum prm_kind k = 0; k < PRM_KINDS; k++) {
		if (prm_total(k) || user->used[k] || other->used[k])
			return -1;
	}
	return rnic_mr_count() ? -1 : 0;
}

/* L3: iwarpd does not say that it wants it; a daemon that forgot would let users name each other's memory. */
static void strict_unless_told_otherwise(void **state)
{
	assert_true(strict_at_start);
}

static void all_or_nothing(void **state)
{
	struct prm_bill b = { .n = { 1, 4096, 12, 64, 1024 } };
	uint64_t refused = prm_refused(PRM_READS);

	conf.max_reads = 100;
	assert_int_equal(prm_take(user, &b), 0);
	assert_int_equal(prm_take(user, &b), -EDQUOT);
	assert_int_equal(prm_refused(PRM_READS), refused + 1);
	for (enum prm_kind k = 0; k < PRM_KINDS; k++)
		assert_int_equal(user->used[k], b.n[k]);
	assert_int_equal(prm_take(other, &b), 0);	/* of another user that says nothing */
	assert_int_equal(prm_total(PRM_MEMORY), 8192);
	conf.max_stags = 1;				/* what is not wanted is no reason to refuse the rest */
	assert_int_equal(prm_take_one(user, PRM_READS, 1), 0);
	prm_give_one(user, PRM_READS, 1);
	conf.max_stags = 1000;
	prm_give(user, &b);
	assert_int_equal(prm_take(user, &b), 0);
	prm_give(user, &b);
	prm_give(other, &b);
}

static void each_kind_has_its_limit(void **state)
{
	for (enum prm_kind k = 0; k < PRM_KINDS; k++) {
		conf_default(&conf);
		conf.max_streams = conf.max_stags = conf.max_reads = conf.max_cq_entries = 7;
		conf.max_memory = 7;
		assert_int_equal(prm_take_one(user, k, 8), -EDQUOT);
		assert_int_equal(prm_take_one(user, k, UINT64_MAX), -EDQUOT);
		assert_int_equal(prm_take_one(user, k, 7), 0);
		assert_int_equal(prm_take_one(user, k, 1), -EDQUOT);
		assert_int_equal(prm_take_one(other, k, 7), 0);
		prm_give_one(user, k, 7);
		prm_give_one(other, k, 7);
	}
}

/* L2: whoever comes later finds room, however many have taken what they could. */
static void reserve_for_others(void **state)
{
	struct prm_user *u[8];
	unsigned int left = ROOM;

	conf.max_streams = 1u << 20;
	for (unsigned int i = 0; i < 8; i++) {
		u[i] = prm_user_get(2000 + i);
		while (!prm_take_one(u[i], PRM_STREAMS, 1))
			left--;
		assert_true(u[i]->used[PRM_STREAMS] > 0);
		assert_true(left >= u[i]->used[PRM_STREAMS] - 1 && left <= u[i]->used[PRM_STREAMS]);
	}
	assert_int_equal(u[0]->used[PRM_STREAMS], ROOM / 2);
	assert_int_equal(prm_take_one(u[0], PRM_STREAMS, 1), -EDQUOT);
	for (unsigned int i = 0; i < 8; i++)
		prm_give_one(u[i], PRM_STREAMS, u[i]->used[PRM_STREAMS]);
}

/* L2: nor are the files of streams all that a user can take: his programs have one each. */
static void programs_leave_room(void **state)
{
	unsigned int n[2] = { 0 };

	while (prm_program(1000))
		n[0]++;
	assert_int_equal(n[0], FILES_ROOM / 2);
	assert_int_equal(prm_take_one(user, PRM_STREAMS, 1), -EDQUOT);
	assert_true(prm_program(1001));
	assert_int_equal(prm_take_one(other, PRM_STREAMS, 1), 0);
	while (prm_program(1001))
		n[1]++;
	assert_true(n[1] > FILES_ROOM / 8);
	prm_give_one(other, PRM_STREAMS, 1);
	for (n[1]++; n[1]; n[1]--)
		prm_program_gone(1001);
	for (; n[0]; n[0]--)
		prm_program_gone(1000);
	assert_int_equal(prm_take_one(user, PRM_STREAMS, 1), 0);
	prm_give_one(user, PRM_STREAMS, 1);
}

/* L2: the sockets of requests under way count as well, although they come unasked: there can be more of them than there is room. */
static void passed_leave_room(void **state)
{
	uint64_t refused = prm_refused(PRM_STREAMS);
	unsigned int n = 0;

	prm_files(510);		/* 255 */
	while (prm_passed(1000))
		n++;
	assert_int_equal(n, 128);
	assert_int_equal(user->passed, 129);
	assert_int_equal(prm_refused(PRM_STREAMS), refused + 1);
	assert_false(prm_program(1000));
	assert_int_equal(prm_take_one(user, PRM_STREAMS, 1), -EDQUOT);
	assert_true(prm_program(1001));
	prm_program_gone(1001);
	assert_int_equal(prm_take_one(other, PRM_STREAMS, 1), 0);
	prm_give_one(other, PRM_STREAMS, 1);
	while (user->passed < 300)
		assert_false(prm_passed(1000));
	assert_false(prm_program(1001));
	assert_int_equal(prm_take_one(other, PRM_STREAMS, 1), -EDQUOT);
	while (user->passed)
		prm_passed_gone(1000);
	assert_true(prm_passed(1000));
	prm_passed_gone(1000);
}

/* The log names what was exhausted: the setting, or what is kept for others. */
static void refusals_are_named(void **state)
{
	int was = dup(2), file = memfd_create("log", MFD_CLOEXEC);
	char text[2000] = "";

	assert_true(was >= 0 && dup2(file, 2) == 2);
	log_init(LOG_WARNING, 1);
	conf.max_stags = 0;
	prm_take_one(user, PRM_STAGS, 1);
	prm_files(0);
	prm_take_one(user, PRM_STREAMS, 1);
	log_init(LOG_CRIT, 1);
	dup2(was, 2);
	close(was);
	assert_true(pread(file, text, sizeof(text) - 1, 0) > 0);
	close(file);
	assert_non_null(strstr(text, "user 1000: quota of stags: has 0, wants 1 more, may have 0 (max_stags): plain TCP\n"));
	assert_non_null(strstr(text, "user 1000: has 0 streams; what is left of the open files is kept for others: plain TCP. See LimitNOFILE=\n"));
}

/* What the daemon needs for itself is no part of what is shared; where there is little of all, half. */
static void room_is_what_is_left(void **state)
{
	static const struct { uint64_t most, room; } t[] = { { 1024, 768 }, { 514, 258 }, { 512, 256 }, { 510, 255 }, { 100, 50 }, { 3, 1 }, { 0, 0 } };

	conf.max_streams = UINT32_MAX;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		unsigned int n = 0;

		prm_files(t[i].most);
		while (prm_program(1000))
			n++;
		assert_int_equal(n, (t[i].room + 1) / 2);
		for (; n; n--)
			prm_program_gone(1000);
	}
	prm_files(UINT64_MAX);		/* RLIM_INFINITY */
	assert_int_equal(prm_take_one(user, PRM_STREAMS, UINT32_MAX), 0);
	assert_int_equal(prm_take_one(other, PRM_STREAMS, UINT32_MAX), 0);
	prm_give_one(user, PRM_STREAMS, UINT32_MAX);
	prm_give_one(other, PRM_STREAMS, UINT32_MAX);
}

static void queue_pairs_and_queues_count(void **state)
{
	struct rnic_cq *cq = new_cq(pd, 512);
	struct rnic_qp_attr a = { .pd = pd, .send_cq = cq, .recv_cq = cq, .max_send = 10, .max_recv = 10, .max_reads = 64 };
	struct rnic_qp *qp, *qp2;

	conf.max_reads = 100;
	assert_int_equal(user->used[PRM_CQES], 512);
	assert_int_equal(rnic_qp_create(&a, &qp), 0);
	assert_int_equal(rnic_qp_create(&a, &qp2), -EDQUOT);
	a.max_reads = 36;
	assert_int_equal(rnic_qp_create(&a, &qp2), 0);
	rnic_qp_destroy(qp);
	rnic_qp_destroy(qp2);
	assert_int_equal(rnic_cq_destroy(cq), 0);
	/* the daemon itself has no quota, or a user could starve its sessions by nothing at all */
	assert_int_equal(prm_take_one(prm_user_get(PRM_DAEMON), PRM_READS, 1000), 0);
	prm_give_one(prm_user_get(PRM_DAEMON), PRM_READS, 1000);
}

static void stags_count(void **state)
{
	struct rnic_mr *mr[4], *extra;
	void *mem;

	conf.max_stags = 3;
	assert_int_equal(prm_mem_create(user, 8192, &mem, NULL), 0);
	for (int i = 0; i < 3; i++)
		mr[i] = new_mr(pd, NULL, mem, 4096, IW_ACCESS_REMOTE_READ);
	assert_int_equal(rnic_mr_reg(pd, NULL, mem, 4096, 0, IW_ACCESS_REMOTE_READ, &extra), -EDQUOT);
	assert_int_equal(rnic_mr_reg(pd, NULL, mem, 4096, 0, RNIC_PREPAID | IW_ACCESS_REMOTE_READ, &mr[3]), 0);
	for (int i = 0; i < 4; i++)
		rnic_mr_dereg(mr[i]);
	prm_mem_destroy(mem);
}

static void invalidated_is_given_back(void **state)
{
	struct rnic_cq *cq = new_cq(pd, 512);
	struct rnic_mr *mr;
	struct vqp v;
	void *mem;

	assert_int_equal(prm_mem_create(user, 8192, &mem, NULL), 0);
	assert_int_equal(vqp_new(&v, pd, cq, cq, 0, 0), 0);
	assert_int_equal(rnic_qp_ops.invalidate(v.qp, rnic_mr_stag(new_mr(pd, v.qp, mem, 8192, IW_ACCESS_REMOTE_READ))), IW_ACC_OK);
	assert_int_equal(user->used[PRM_STAGS] + user->used[PRM_MEMORY], 0);
	/* the owner's handle outlives what the peer does */
	mr = new_mr(pd, v.qp, mem, 8192, IW_ACCESS_REMOTE_WRITE);
	assert_int_equal(rnic_qp_ops.invalidate(v.qp, rnic_mr_stag(mr)), IW_ACC_OK);
	assert_null(rnic_mr_find(rnic_mr_stag(mr)));
	rnic_mr_revoke(mr);
	rnic_mr_dereg(mr);
	/* what was never the peer's to use is not the peer's to take */
	for (unsigned int right = 1; right < 64; right *= 2) {
		bool peers = right & (IW_ACCESS_REMOTE_READ | IW_ACCESS_REMOTE_WRITE | IW_ACCESS_REMOTE_ATOMIC);

		mr = new_mr(pd, v.qp, mem, 8192, right);
		assert_int_equal(rnic_qp_ops.invalidate(v.qp, rnic_mr_stag(mr)), peers ? IW_ACC_OK : IW_ACC_SCOPE);
		rnic_mr_dereg(mr);
	}
	rnic_qp_destroy(v.qp);
	rnic_cq_destroy(cq);
	prm_mem_destroy(mem);
}

/* ---- memory ---- */

/* L3: only what the PRM made, only by the user it was made for, only within its bounds. */
static void only_own_sealed_memory(void **state)
{
	static uint8_t stray[4096];
	struct rnic_mr *mr;
	uint8_t *mem;
	void *p;
	int fd;

	assert_int_equal(prm_mem_create(user, 8192, &p, &fd), 0);
	mem = p;
	for (int i = 0; i < 8192; i++)
		assert_int_equal(mem[i], 0);
	assert_int_equal(rnic_mr_reg(pd, NULL, stray, sizeof(stray), 0, IW_ACCESS_REMOTE_READ, &mr), -EPERM);
	assert_int_equal(rnic_mr_reg(foreign, NULL, mem, 8192, 0, IW_ACCESS_REMOTE_READ, &mr), -EPERM);
	assert_int_equal(rnic_mr_reg(pd, NULL, mem + 1, 8192, 0, IW_ACCESS_REMOTE_READ, &mr), -EPERM);
	assert_int_equal(rnic_mr_reg(pd, NULL, mem - 1, 8, 0, IW_ACCESS_REMOTE_READ, &mr), -EPERM);
	assert_int_equal(rnic_mr_reg(pd, NULL, mem + 8191, 1, 0, IW_ACCESS_REMOTE_READ, &mr), 0);
	rnic_mr_dereg(mr);
	assert_int_equal(rnic_mr_reg(pd, NULL, mem, 8192, 0, IW_ACCESS_REMOTE_READ, &mr), 0);
	/* nobody who gets the file can take the memory from under us */
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, 1 << 20), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	mem[8191] = 1;
	rnic_mr_dereg(mr);
	prm_mem_destroy(p);
	assert_int_equal(rnic_mr_reg(pd, NULL, mem, 8192, 0, IW_ACCESS_REMOTE_READ, &mr), -EPERM);
	close(fd);
}

static void memory_that_goes_takes_its_stags_along(void **state)
{
	struct rnic_mr *mr;
	uint32_t stag;
	void *mem;

	assert_int_equal(prm_mem_create(user, 8192, &mem, NULL), 0);
	mr = new_mr(pd, NULL, mem, 4096, IW_ACCESS_REMOTE_WRITE);
	stag = rnic_mr_stag(mr);
	prm_mem_destroy(mem);
	assert_null(rnic_mr_find(stag));
	assert_int_equal(rnic_mr_set_access(mr, IW_ACCESS_REMOTE_READ), -EINVAL);
	rnic_mr_dereg(mr);
}

/* R14: the same octets never get a second writer of another domain. */
static void no_aliases(void **state)
{
	static const unsigned int writes[] = { IW_ACCESS_REMOTE_WRITE, IW_ACCESS_REMOTE_ATOMIC, IW_ACCESS_READ_SINK, IW_ACCESS_LOCAL_WRITE };
	static uint8_t mem[12288];
	struct rnic_mr *mr, *mr2, *mr3;

	prm_strict = false;	/* memory that domains of two users could name at all */
	for (unsigned int i = 0; i < 4; i++) {
		mr = new_mr(pd, NULL, mem + 4096, 4096, writes[i]);
		for (unsigned int k = 0; k < 4; k++) {
			assert_int_equal(rnic_mr_reg(foreign, NULL, mem, 4097, 0, writes[k], &mr2), -EBUSY);
			assert_int_equal(rnic_mr_reg(foreign, NULL, mem + 8191, 1, 0, writes[k], &mr2), -EBUSY);
			assert_int_equal(rnic_mr_reg(foreign, NULL, mem, 12288, 0, writes[k], &mr2), -EBUSY);
			assert_int_equal(rnic_mr_reg(foreign, NULL, mem, 4096, 0, writes[k], &mr2), 0);
			assert_int_equal(rnic_mr_reg(foreign, NULL, mem + 8192, 1, 0, writes[k], &mr3), 0);
			rnic_mr_dereg(mr2);
			rnic_mr_dereg(mr3);
		}
		/* readers, and the domain itself */
		assert_int_equal(rnic_mr_reg(foreign, NULL, mem + 4096, 4096, 0, IW_ACCESS_REMOTE_READ, &mr2), 0);
		assert_int_equal(rnic_mr_set_access(mr2, IW_ACCESS_REMOTE_READ | writes[i]), -EBUSY);
		assert_int_equal(rnic_mr_reg(pd, NULL, mem + 4096, 4096, 0, writes[i], &mr3), 0);
		rnic_mr_dereg(mr3);
		/* the first writer goes: then it may */
		assert_int_equal(rnic_mr_set_access(mr, IW_ACCESS_REMOTE_READ), 0);
		assert_int_equal(rnic_mr_set_access(mr2, writes[i]), 0);
		assert_int_equal(rnic_mr_set_access(mr, writes[i]), -EBUSY);
		rnic_mr_dereg(mr2);
		rnic_mr_dereg(mr);
	}
}

/* SEC-R05: rights change under a living stream. */
static void rights_change(void **state)
{
	struct rnic_cq *cq = new_cq(pd, 512);
	struct rnic_mr *mr;
	struct vqp v;
	void *mem, *p;

	assert_int_equal(prm_mem_create(user, 4096, &mem, NULL), 0);
	assert_int_equal(vqp_new(&v, pd, cq, cq, 0, 0), 0);
	mr = new_mr(pd, v.qp, mem, 4096, IW_ACCESS_REMOTE_READ | IW_ACCESS_REMOTE_WRITE);
	for (int i = 0; i < 8; i++) {
		unsigned int access = (i & 1 ? IW_ACCESS_REMOTE_READ : 0) | (i & 2 ? IW_ACCESS_REMOTE_WRITE : 0) | (i & 4 ? IW_ACCESS_REMOTE_ATOMIC : 0);

		assert_int_equal(rnic_mr_set_access(mr, access), 0);
		for (unsigned int right = IW_ACCESS_REMOTE_READ; right <= IW_ACCESS_REMOTE_ATOMIC; right *= 2)
			assert_int_equal(rnic_qp_ops.access(v.qp, rnic_mr_stag(mr), 0, 8, right, &p), access & right ? IW_ACC_OK : IW_ACC_RIGHTS);
	}
	rnic_mr_dereg(mr);
	rnic_qp_destroy(v.qp);
	rnic_cq_destroy(cq);
	prm_mem_destroy(mem);
}

static void only_in_its_domain(const struct rnic_mr *mr, const struct vqp *in, const struct vqp *out)
{
	void *p;

	for (unsigned int right = 1; right < 64; right *= 2) {
		assert_int_equal(rnic_qp_ops.access(in->qp, rnic_mr_stag(mr), 0, 8, right, &p), IW_ACC_OK);
		assert_int_equal(rnic_qp_ops.access(out->qp, rnic_mr_stag(mr), 0, 8, right, &p), IW_ACC_SCOPE);
	}
}

/* Two users: nothing of one can be named by the other's streams, whatever the right (SEC-R01). */
static void users_do_not_meet(void **state)
{
	struct rnic_cq *cq = new_cq(pd, 512), *cq2 = new_cq(foreign, 512);
	struct rnic_mr *mr;
	struct vqp v, w;
	void *mem, *p;

	assert_int_equal(prm_mem_create(user, 4096, &mem, NULL), 0);
	assert_int_equal(vqp_new(&v, pd, cq, cq, 0, 0), 0);
	assert_int_equal(vqp_new(&w, foreign, cq2, cq2, 0, 0), 0);
	mr = new_mr(pd, NULL, mem, 4096, 63);
	only_in_its_domain(mr, &v, &w);
	assert_int_equal(rnic_qp_ops.invalidate(w.qp, rnic_mr_stag(mr)), IW_ACC_SCOPE);
	assert_null(rnic_qp_mem(w.qp, rnic_mr_stag(mr), 0, 8));
	assert_int_equal(rnic_mr_reg(pd, w.qp, mem, 8, 0, IW_ACCESS_REMOTE_READ, &mr), -EINVAL);	/* scope of another domain */
	conf.hide_stag_errors = true;	/* R3: as if it did not exist */
	mr = rnic_mr_find(rnic_mr_stag(mr));
	assert_int_equal(rnic_qp_ops.access(w.qp, rnic_mr_stag(mr), 0, 8, IW_ACCESS_REMOTE_READ, &p), IW_ACC_STAG);
	assert_int_equal(rnic_qp_ops.invalidate(w.qp, rnic_mr_stag(mr)), IW_ACC_STAG);
	rnic_mr_dereg(mr);
	rnic_qp_destroy(v.qp);
	rnic_qp_destroy(w.qp);
	assert_int_equal(rnic_cq_destroy(cq) | rnic_cq_destroy(cq2), 0);
	prm_mem_destroy(mem);
}

/* Two processes of one user, or two streams of one process: a domain each, one quota (SEC-P03, SEC-U10). */
static void domains_of_one_user(void **state)
{
	struct rnic_pd *a = rnic_pd_new(1000, 0), *b = rnic_pd_new(1000, 0);
	struct rnic_cq *cq = new_cq(a, 512), *cq2 = new_cq(b, 512);
	struct rnic_mr *mr, *mr2;
	struct vqp v, w;
	void *mem;

	assert_ptr_not_equal(a, b);
	assert_ptr_equal(rnic_pd_user(a), user);
	assert_ptr_equal(rnic_pd_user(b), user);
	assert_int_equal(user->used[PRM_CQES], 1024);
	assert_int_equal(prm_mem_create(user, 4096, &mem, NULL), 0);
	assert_int_equal(vqp_new(&v, a, cq, cq, 0, 0), 0);
	assert_int_equal(vqp_new(&w, b, cq2, cq2, 0, 0), 0);
	mr = new_mr(a, NULL, mem, 4096, 63);
	only_in_its_domain(mr, &v, &w);
	assert_int_equal(rnic_mr_reg(b, NULL, mem, 8, 0, IW_ACCESS_REMOTE_WRITE, &mr2), -EBUSY);
	rnic_mr_dereg(mr);
	rnic_qp_destroy(v.qp);
	rnic_qp_destroy(w.qp);
	assert_int_equal(rnic_cq_destroy(cq) | rnic_cq_destroy(cq2), 0);
	prm_mem_destroy(mem);
	rnic_pd_put(a);
	rnic_pd_put(b);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(strict_unless_told_otherwise), T(all_or_nothing), T(each_kind_has_its_limit), T(reserve_for_others), T(programs_leave_room), T(passed_leave_room),
		T(refusals_are_named), T(room_is_what_is_left),
		T(queue_pairs_and_queues_count), T(stags_count),
		T(invalidated_is_given_back), T(only_own_sealed_memory), T(memory_that_goes_takes_its_stags_along), T(no_aliases),
		T(rights_change), T(users_do_not_meet), T(domains_of_one_user),
	};

	strict_at_start = prm_strict;
	log_init(LOG_CRIT, 1);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
