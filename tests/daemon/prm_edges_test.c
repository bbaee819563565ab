// SPDX-License-Identifier: MIT
/* The PRM at its edges: records, names, domains that are shared, memory and queues that cannot be had and leave nothing behind. */
#include "verbs_util.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

static struct rnic_pd *pd;
static struct prm_user *user;

static int setup(void **state)
{
	conf_default(&conf);
	conf.log_level = 0;
	prm_strict = true;
	pd = rnic_pd_get(1000);
	user = rnic_pd_user(pd);
	return 0;
}

static int teardown(void **state)
{
	rnic_pd_put(pd);
	for (enum prm_kind k = 0; k < PRM_KINDS; k++) {
		if (prm_total(k) || user->used[k])
			return -1;
	}
	return rnic_mr_count() ? -1 : 0;
}

/* ---- books ---- */
static void records_are_bounded(void **state)
{
	for (unsigned int i = 0; i < PRM_RECORDS; i++)
		assert_true(prm_record(1000));
	assert_false(prm_record(1000));
	assert_true(prm_record(1001));		/* of another user that says nothing */
	prm_forget(1000);
	assert_true(prm_record(1000));
	assert_false(prm_record(1000));
	for (unsigned int i = 0; i < PRM_RECORDS; i++)
		prm_forget(1000);
	prm_forget(1001);
	assert_int_equal(user->records, 0);
	assert_int_equal(prm_user_get(1001)->records, 0);
}

static uint64_t cpu_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Who has subordinate ids can be 65536 users, and stays so: looking one up is part of every set-up of everybody. */
static void many_users(void **state)
{
	enum { RANGE = 65536, FIRST = 100000 };
	static struct prm_user *u[RANGE];
	uint64_t start = cpu_ms();

	for (uint32_t i = 0; i < RANGE; i++)
		u[i] = prm_user_get(FIRST + i);
	for (uint32_t i = 0; i < RANGE; i++) {
		assert_int_equal(u[i]->uid, FIRST + i);
		assert_ptr_equal(prm_user_get(FIRST + i), u[i]);
	}
	assert_ptr_equal(prm_user_get(1000), user);
	assert_ptr_equal(prm_user_get(PRM_DAEMON), prm_user_get(PRM_DAEMON));
	assert_int_equal(prm_user_get(PRM_DAEMON)->uid, PRM_DAEMON);
	assert_true(cpu_ms() - start < 1500);	/* 15 ms; a list of them takes 9 s */
}

static void kinds(void **state)
{
	static const char *const names[] = { "streams", "memory", "stags", "reads", "cq_entries" };

	for (enum prm_kind k = 0; k < PRM_KINDS; k++) {
		assert_string_equal(prm_name(k), names[k]);
		assert_true(prm_limit(prm_user_get(PRM_DAEMON), k) == UINT64_MAX);
	}
	conf.max_streams = 1;
	conf.max_memory = 2;
	conf.max_stags = 3;
	conf.max_reads = 4;
	conf.max_cq_entries = 5;
	for (enum prm_kind k = 0; k < PRM_KINDS; k++)
		assert_int_equal(prm_limit(user, k), k + 1);
}

/* A domain of a user that is asked for by number is one and the same, for as long as somebody has it. */
static void one_domain_of_a_user(void **state)
{
	struct rnic_pd *again = rnic_pd_get(1000), *other = rnic_pd_get(1001), *own = rnic_pd_new(1000, 0);
	struct prm_bill b = { .n = { 0, 4096, 2 } };
	struct rnic_mr *mr;
	void *mem;

	assert_ptr_equal(again, pd);
	assert_ptr_not_equal(other, pd);
	assert_ptr_not_equal(own, pd);
	assert_int_equal(prm_mem_create(user, 4096, &mem, NULL), 0);
	mr = new_mr(again, NULL, mem, 4096, IW_ACCESS_REMOTE_READ);
	rnic_pd_put(again);
	rnic_pd_put(other);
	again = rnic_pd_get(1000);		/* the neighbours in the list went, not this one */
	assert_ptr_equal(again, pd);
	rnic_pd_put(again);
	assert_int_equal(user->used[PRM_STAGS], 1);
	rnic_mr_dereg(mr);
	prm_mem_destroy(mem);
	assert_int_equal(prm_take(user, &b), 0);
	rnic_pd_bill(own, &b);			/* goes with the domain */
	assert_int_equal(user->used[PRM_STAGS], 2);
	rnic_pd_put(own);
	assert_int_equal(user->used[PRM_STAGS], 0);
	rnic_pd_put(NULL);
	rnic_mr_dereg(NULL);
	rnic_qp_destroy(NULL);
	assert_int_equal(rnic_cq_destroy(NULL), 0);
}

/* ---- what cannot be had ---- */
static unsigned int files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void memory_that_cannot_be_had(void **state)
{
	unsigned int before = files();
	struct rlimit was, none;
	void *mem;
	int fd;

	assert_int_equal(prm_mem_create(user, (size_t)1 << 63, &mem, &fd), -EINVAL);	/* no file is so long */
	assert_int_equal(files(), before);
	assert_int_equal(prm_mem_create(user, (size_t)1 << 56, &mem, &fd), -ENOMEM);	/* nor the address space */
	assert_int_equal(files(), before);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ 0, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(prm_mem_create(user, 4096, &mem, &fd), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(files(), before);
}

/* Found is what lies in one piece of memory as a whole, and the file of it can neither shrink nor grow. */
static void memory_is_found_exactly(void **state)
{
	uint8_t *a, *b;
	int fd;

	assert_int_equal(prm_mem_create(user, 8192, (void **)&a, &fd), 0);
	assert_int_equal(prm_mem_create(NULL, 4096, (void **)&b, NULL), 0);
	assert_ptr_equal(prm_mem_find(a, 8192)->user, user);
	assert_ptr_equal(prm_mem_find(a, 1)->addr, a);
	assert_ptr_equal(prm_mem_find(a + 8191, 1)->addr, a);
	assert_ptr_equal(prm_mem_find(a + 1, 8191)->addr, a);
	assert_null(prm_mem_find(a + 1, 8192));
	assert_null(prm_mem_find(a, 0));
	assert_null(prm_mem_find(a, SIZE_MAX));
	assert_null(prm_mem_find(a + 8191, SIZE_MAX - 8190));
	assert_ptr_equal(prm_mem_find(b, 4096)->addr, b);
	assert_int_equal(ftruncate(fd, 4096), -1);
	assert_int_equal(ftruncate(fd, 16384), -1);
	assert_int_equal(fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_true(a[0] == 0 && a[8191] == 0);
	assert_int_equal(pwrite(fd, "x", 1, 8191), 1);
	assert_int_equal(a[8191], 'x');
	close(fd);
	prm_mem_destroy(a);
	assert_null(prm_mem_find(a, 1));
	assert_ptr_equal(prm_mem_find(b, 1)->addr, b);
	prm_mem_destroy(b);
	prm_mem_destroy(NULL);
	prm_mem_destroy(&a);		/* none of ours: left alone */
}

/* As Linux before 6.3, which does not know the flag. */
static int no_noexec_seal(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 8, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog p = { .len = sizeof(f) / sizeof(f[0]), .filter = f };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p) ? -1 : 0;
}

static void on_an_older_kernel(void **state)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		int fd, bad = no_noexec_seal() || memfd_create("x", 8) >= 0 || errno != EINVAL;
		void *mem;

		if (bad)
			_exit(2);
		if (prm_mem_create(user, 4096, &mem, &fd))
			_exit(3);
		_exit(fcntl(fd, F_GETFD) != FD_CLOEXEC || !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) ? 4 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Pieces that lie side by side, as the kernel likes to put them, are not taken for each other. */
static void neighbours(void **state)
{
	enum { N = 32 };
	uint8_t *p[N];

	for (int i = 0; i < N; i++)
		assert_int_equal(prm_mem_create(user, 4096, (void **)&p[i], NULL), 0);
	for (int i = 0; i < N; i++) {
		assert_ptr_equal(prm_mem_find(p[i], 4096)->addr, p[i]);
		assert_ptr_equal(prm_mem_find(p[i], 1)->addr, p[i]);
		assert_ptr_equal(prm_mem_find(p[i] + 4095, 1)->addr, p[i]);
		assert_null(prm_mem_find(p[i] + 4095, 2));
	}
	for (int i = 0; i < N; i += 2)
		prm_mem_destroy(p[i]);
	for (int i = 0; i < N; i++) {
		struct prm_mem *m = prm_mem_find(p[i], 4096);

		assert_true(i % 2 ? m && m->addr == p[i] : !m);
		prm_mem_destroy(p[i]);
	}
}

/* Without address space for them nothing is made, and nothing is counted. */
static void queues_that_cannot_be_had(void **state)
{
	const struct rnic_cq_attr attr = { .size = RNIC_CQ_MAX };
	struct rnic_cq *cq = new_cq(pd, 1024), *big;
	struct rnic_qp_attr a = { .pd = pd, .send_cq = cq, .recv_cq = cq, .max_send = 10, .max_recv = 10, .max_reads = 8 };
	uint64_t cqes = user->used[PRM_CQES];
	struct rlimit was, none;
	struct rnic_qp *qp;
	int ret[2];

	conf.max_cq_entries = UINT32_MAX;
	/* a sanitizer's allocator ends the program when it has no space: with one made before it has room for what is small */
	assert_int_equal(rnic_qp_create(&a, &qp), 0);
	rnic_qp_destroy(qp);
	assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
	none = (struct rlimit){ 0, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	ret[0] = rnic_cq_create(pd, &attr, &big);
	ret[1] = rnic_qp_create(&a, &qp);
	assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
	assert_int_equal(ret[0], -ENOMEM);
	assert_int_equal(ret[1], -ENOMEM);
	assert_int_equal(user->used[PRM_CQES], cqes);
	assert_int_equal(user->used[PRM_READS], 0);
	assert_int_equal(rnic_cq_destroy(cq), 0);
}

static unsigned long address_space(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	return pages;
}

/* What goes takes its address space along, and what cannot be made leaves none. */
static void queues_and_memory_go(void **state)
{
	unsigned int nfiles = files();
	unsigned long before = 0;

	conf.max_cq_entries = UINT32_MAX;
	for (unsigned int i = 0; i < 100; i++) {
		struct rnic_cq *cq = new_cq(pd, 1u << 16);
		struct rnic_qp_attr a = { .pd = pd, .send_cq = cq, .recv_cq = cq, .max_send = 10, .max_recv = 10, .max_reads = 8 };
		struct rnic_qp *qp;
		void *mem;

		assert_int_equal(rnic_qp_create(&a, &qp), 0);
		a.max_send = IW_QP_SQ + 1;
		assert_int_equal(rnic_qp_create(&a, &(struct rnic_qp *){ NULL }), -EINVAL);
		assert_int_equal(prm_mem_create(user, 1 << 20, &mem, NULL), 0);
		rnic_qp_destroy(qp);
		assert_int_equal(rnic_cq_destroy(cq), 0);
		prm_mem_destroy(mem);
		if (i == 9)
			before = address_space();
	}
	assert_int_equal(files(), nfiles);
	assert_true(address_space() < before + 1024);	/* 90 queue pairs, the smallest of the three, are more */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(records_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(many_users, setup, teardown),
		cmocka_unit_test_setup_teardown(kinds, setup, teardown),
		cmocka_unit_test_setup_teardown(one_domain_of_a_user, setup, teardown),
		cmocka_unit_test_setup_teardown(memory_that_cannot_be_had, setup, teardown),
		cmocka_unit_test_setup_teardown(memory_is_found_exactly, setup, teardown),
		cmocka_unit_test_setup_teardown(on_an_older_kernel, setup, teardown),
		cmocka_unit_test_setup_teardown(neighbours, setup, teardown),
		cmocka_unit_test_setup_teardown(queues_that_cannot_be_had, setup, teardown),
		cmocka_unit_test_setup_teardown(queues_and_memory_go, setup, teardown),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	log_init(0, 1);
	return cmocka_run_group_tests_name("prm_edges", tests, NULL, NULL);
}
