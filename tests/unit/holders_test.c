// SPDX-License-Identifier: MIT
/*
 * Holders (preload/holders.c): who is said to be alone with a socket is; families of processes that make, pass on by fork, close and die at
 * any step, threads that make and close while others fork, and every call that starts a program or a process.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static void step(const char *what);
#define IW_HOLDERS_STEP(what) step(what)
#include "preload/holders.c"

#define WAIT_MS 30000	/* for what has to come */

static struct shared {
	_Atomic uint64_t rnd;
	_Atomic uint32_t wrong, alone, not_alone, killed, processes;
} *sh;

static unsigned int seed;
static _Atomic bool delays, deadly;

static unsigned int rnd(void)
{
	uint64_t x = (atomic_fetch_add(&sh->rnd, 1) + seed) * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
	return (unsigned int)(x >> 33);
}

static void step(const char *what)
{
	unsigned int r;

	if (!atomic_load_explicit(&delays, memory_order_relaxed))
		return;
	r = rnd() % 256;
	if (atomic_load_explicit(&deadly, memory_order_relaxed) && r == 255 && rnd() % 4 == 0) {
		atomic_fetch_add(&sh->killed, 1);
		kill(getpid(), SIGKILL);
	}
	if (r < 8)
		usleep(r * 20);
	else if (r < 64)
		sched_yield();
}

static bool alone(uint32_t idx)
{
	return iw_holders_alone(idx, NULL, 0);
}

static uint32_t in_use(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < IW_HOLDERS; i++)
		n += counts[i] != 0;
	return n;
}

static void forget_all(void)
{
	memset((void *)counts, 0, IW_HOLDERS * sizeof(*counts));
	memset((void *)held, 0, sizeof(held));
	atomic_store(&split, false);
	atomic_store(&relatives, false);
	atomic_store(&delays, false);
	atomic_store(&deadly, false);
}

static int setup(void **state)
{
	forget_all();
	memset((char *)sh + offsetof(struct shared, wrong), 0, sizeof(*sh) - offsetof(struct shared, wrong));
	return 0;
}

/* As proc.c does it. */
static pid_t family_fork(void)
{
	pid_t pid;

	iw_holders_fork();
	pid = fork();
	if (pid)
		iw_holders_forked();
	else
		iw_holders_forked_child(getpid());
	if (!pid)
		atomic_fetch_add(&sh->processes, 1);
	return pid;
}

static void family_exit(int status)
{
	iw_holders_exit();
	_exit(status);
}

static void reap(pid_t pid)
{
	int st;

	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
}

#define child_assert(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "# line %d: %s\n", __LINE__, #cond); \
			_exit(1); \
		} \
	} while (0)

/* ---- one process ---- */

static void one(void **state)
{
	uint32_t a = iw_holders_new(), b = iw_holders_new();

	assert_true(a && b && a != b);
	assert_true(alone(a));
	assert_true(alone(b));
	assert_false(alone(0));
	assert_false(alone(IW_HOLDERS));
	iw_holders_put(a);
	iw_holders_put(a);
	iw_holders_put(0);
	assert_false(alone(a));
	assert_true(alone(b));
	assert_int_equal(in_use(), 1);
	assert_int_equal(iw_holders_new(), a);		/* memory that is warm */
	iw_holders_lose(a);
	assert_false(alone(a));
	iw_holders_put(a);
	iw_holders_put(b);
	assert_int_equal(in_use(), 0);
}

static void none_free(void **state)
{
	uint32_t n = 0;

	for (uint32_t i; (i = iw_holders_new()); n++)
		assert_true(i < IW_HOLDERS);
	assert_true(n > IW_HOLDERS - 2 * PROBES);
	for (uint32_t i = 0; i < IW_HOLDERS; i++)
		iw_holders_put(i);
	assert_int_equal(in_use(), 0);
	assert_true(iw_holders_new());
}

/* ---- fork ---- */

static void two(void **state)
{
	uint32_t a = iw_holders_new(), b = iw_holders_new(), c;
	int go[2];
	pid_t pid;
	char x;

	assert_false(pipe(go));
	pid = family_fork();
	if (!pid) {
		child_assert(!alone(b));
		child_assert(read(go[0], &x, 1) == 1);
		child_assert(alone(a) && !alone(b));
		c = iw_holders_new();
		child_assert(c && c != a && c != b && alone(c));
		family_exit(0);
	}
	assert_false(alone(a));
	c = iw_holders_new();
	assert_true(alone(c));		/* made after it */
	iw_holders_put(a);
	assert_int_equal(write(go[1], "x", 1), 1);
	reap(pid);
	assert_true(alone(b));
	assert_true(alone(c));
	assert_int_equal(in_use(), 2);
	close(go[0]);
	close(go[1]);
}

/* A daemon: the parent ends, the grandchild is alone. A child that is killed is a holder for good, as far as we know. */
static void three(void **state)
{
	uint32_t a = iw_holders_new();
	int done[2];
	pid_t pid;
	char x;

	assert_false(pipe(done));
	pid = family_fork();
	if (!pid) {
		pid = family_fork();
		if (!pid) {
			for (int i = 0; i < WAIT_MS / 2 && !alone(a); i++)
				usleep(2000);
			child_assert(alone(a));
			child_assert(write(done[1], "x", 1) == 1);
			family_exit(0);
		}
		child_assert(!alone(a));
		family_exit(0);
	}
	iw_holders_put(a);
	reap(pid);
	assert_int_equal(read(done[0], &x, 1), 1);
	for (int i = 0; i < WAIT_MS && in_use(); i++)
		usleep(1000);
	assert_int_equal(in_use(), 0);
	a = iw_holders_new();
	pid = family_fork();
	if (!pid)
		raise(SIGKILL);
	waitpid(pid, NULL, 0);
	assert_false(alone(a));
	iw_holders_put(a);
	assert_int_equal(in_use(), 1);
	close(done[0]);
	close(done[1]);
}

static void fork_fails(void **state)
{
	uint32_t a = iw_holders_new(), b = iw_holders_new(), c, d;

	iw_holders_fork();
	assert_false(iw_holders_new());		/* the child would have it or not */
	iw_holders_put(b);
	iw_holders_forked();
	c = iw_holders_new();
	assert_false(alone(a));
	assert_true(alone(c));
	iw_holders_fork_failed();
	assert_true(alone(a));
	assert_true(alone(c));
	/* of two at the same time */
	iw_holders_fork();
	iw_holders_forked();
	d = iw_holders_new();
	assert_true(alone(d));
	iw_holders_fork_failed();
	assert_true(alone(a));
	assert_true(alone(c));
	assert_true(alone(d));
	iw_holders_put(a);
	iw_holders_put(c);
	iw_holders_put(d);
}

static void unseen(void **state)
{
	uint32_t a = iw_holders_new(), b;
	pid_t pid = fork();

	if (!pid) {
		iw_holders_forked_unseen(getpid());
		child_assert(!alone(a));
		b = iw_holders_new();
		child_assert(alone(b));
		iw_holders_put(a);
		family_exit(0);
	}
	reap(pid);
	assert_false(alone(a));
	assert_int_equal(counts[a] & COUNT, 1);
	b = iw_holders_new();
	assert_true(alone(b));
	iw_holders_uncounted();
	assert_false(alone(b));
	assert_true(alone(iw_holders_new()));
}

static void split_tables(void **state)
{
	uint32_t a = iw_holders_new();
	pid_t pid;

	iw_holders_split();
	assert_false(alone(a));
	assert_false(iw_holders_new());
	pid = family_fork();
	if (!pid) {		/* has one table again */
		child_assert(!alone(a));
		child_assert(alone(iw_holders_new()));
		family_exit(0);
	}
	reap(pid);
}

/* ---- programs that are started ---- */

static void programs(void **state)
{
	int kept = open("/dev/null", O_RDONLY), shut = open("/dev/null", O_RDONLY | O_CLOEXEC), both[2] = { shut, kept };
	uint32_t a = iw_holders_new(), b = iw_holders_new(), c = iw_holders_new(), d;

	iw_holders_spawn();
	assert_false(alone(a));			/* nobody says whether it is close-on-exec */
	assert_true(iw_holders_alone(a, &shut, 1));
	assert_true(alone(a));			/* known from now on */
	assert_false(iw_holders_alone(b, &kept, 1));
	assert_false(iw_holders_alone(c, both, 2));
	assert_false(iw_holders_alone(c, &shut, 1));
	assert_true(alone(iw_holders_new()));
	/* that flag changes afterwards */
	d = iw_holders_new();
	iw_holders_spawn();
	iw_holders_settle(d, kept, false);
	fcntl(kept, F_SETFD, FD_CLOEXEC);
	assert_false(iw_holders_alone(d, &kept, 1));
	/* and before */
	d = iw_holders_new();
	iw_holders_settle(d, kept, false);
	iw_holders_spawn();
	assert_true(iw_holders_alone(d, &kept, 1));
	/* and after a duplicate was made: only that was there when the program started */
	d = iw_holders_new();
	iw_holders_spawn();
	iw_holders_settle(d, shut, true);
	iw_holders_settle(d, kept, false);
	assert_true(alone(d));
	/* a number that is closed is not known to have been close-on-exec */
	iw_holders_spawn();
	close(kept);
	assert_false(iw_holders_alone(d, &kept, 1));
	close(shut);
}

/* The parent started a program that may have it, and closes: the child cannot know. */
static void programs_of_parent(void **state)
{
	uint32_t a = iw_holders_new(), b = iw_holders_new();
	int go[2];
	pid_t pid;
	char x;

	assert_false(pipe(go));
	pid = family_fork();
	if (!pid) {
		child_assert(read(go[0], &x, 1) == 1);
		child_assert(!alone(a) && !iw_holders_alone(a, go, 1));
		child_assert(alone(b));
		family_exit(0);
	}
	iw_holders_put(b);
	iw_holders_spawn();
	iw_holders_put(a);
	assert_int_equal(write(go[1], "x", 1), 1);
	reap(pid);
	assert_int_equal(in_use(), 0);
	close(go[0]);
	close(go[1]);
}

/* ---- a family, with real descriptors: who is alone and closes sees the other end hang up ---- */

#define MINE 12

struct sock {
	uint32_t idx;
	int t, witness;		/* t is what is counted */
};

/* The others that held it may be about to close it. */
static void check_last(struct sock *s)
{
	struct pollfd p = { .fd = s->witness };

	if (poll(&p, 1, WAIT_MS) != 1 || !(p.revents & POLLHUP)) {
		atomic_fetch_add(&sh->wrong, 1);
		fprintf(stderr, "# %d was not alone with %u\n", getpid(), s->idx);
	}
}

static bool sock_open(struct sock *s)
{
	int v[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, v))
		return false;
	*s = (struct sock){ iw_holders_new(), v[0], v[1] };
	if (s->idx)
		return true;
	close(v[0]);
	close(v[1]);
	return false;
}

static void sock_close(struct sock *s, bool last)
{
	iw_holders_put(s->idx);
	close(s->t);
	if (last)
		check_last(s);
	close(s->witness);
	s->idx = 0;
}

static void live(struct sock *mine, int depth, int turns)
{
	while (turns-- > 0) {
		struct sock *s = &mine[rnd() % MINE];
		unsigned int what = rnd() % 16;

		if (what < 6 && !s->idx) {
			sock_open(s);
		} else if (what < 9 && s->idx) {
			sock_close(s, false);
		} else if (what < 14 && s->idx) {
			bool last = alone(s->idx);

			atomic_fetch_add(last ? &sh->alone : &sh->not_alone, 1);
			if (last)
				sock_close(s, true);
		} else if (what == 14) {
			iw_holders_fork();
			iw_holders_forked();
			iw_holders_fork_failed();
		} else if (what == 15 && depth < 4 && rnd() % 4 == 0) {
			pid_t pid = family_fork();

			if (!pid) {
				live(mine, depth + 1, 30 + (int)(rnd() % 60));
				if (rnd() % 4 == 0)
					while (waitpid(-1, NULL, 0) > 0)
						;
				family_exit(0);
			}
		}
		waitpid(-1, NULL, WNOHANG);
	}
}

static void family(bool kills)
{
	struct sock mine[MINE] = { { 0 } };
	uint32_t left;

	atomic_store(&delays, true);
	for (int i = 0; i < 8; i++) {
		pid_t pid = family_fork();

		if (!pid) {
			atomic_store(&deadly, kills);
			live(mine, 0, 150);
			while (waitpid(-1, NULL, 0) > 0)
				;
			family_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	while (waitpid(-1, NULL, 0) > 0)
		;
	left = in_use();
	print_message("%u processes, alone %u times and not %u times, %u killed themselves, %u counts left\n", sh->processes, sh->alone,
		      sh->not_alone, sh->killed, left);
	assert_int_equal(sh->wrong, 0);
	assert_true(sh->alone > 0);
	if (!kills)
		assert_int_equal(left, 0);
}

/* Orphans would go on after the count of what is left. */
static void families(void **state)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	family(false);
}

static void families_that_die(void **state)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	family(true);
}

/* ---- threads that make and close while another one forks ---- */

#define THREADS	3
#define TABLE	64

static struct sock table[TABLE];		/* what the program knows of, in parent and child */
static _Atomic int owner[TABLE];		/* 0 free, 1 somebody is at it, 2 there */
static _Atomic bool stop;

static void *thread(void *p)
{
	while (!atomic_load(&stop)) {
		int i = (int)(rnd() % TABLE), none = 0, there = 2;

		if (atomic_compare_exchange_strong(&owner[i], &none, 1)) {
			atomic_store(&owner[i], sock_open(&table[i]) ? 2 : 0);
		} else if (atomic_compare_exchange_strong(&owner[i], &there, 1)) {
			bool last = alone(table[i].idx);

			atomic_fetch_add(last ? &sh->alone : &sh->not_alone, 1);
			sock_close(&table[i], last);
			atomic_store(&owner[i], 0);
		}
		step("turn");
	}
	return NULL;
}

/* Has what the program knew of when it was forked, and nothing else, until it is told to end. */
static void stay(int go)
{
	char x;

	for (int fd = 3; fd < 1024; fd++) {
		bool known = fd == go;

		for (int i = 0; i < TABLE; i++)
			known |= atomic_load(&owner[i]) == 2 && (table[i].t == fd || table[i].witness == fd);
		if (!known)
			close(fd);
	}
	if (read(go, &x, 1) < 0)
		_exit(1);
	family_exit(0);
}

static void threads(void **state)
{
	pthread_t t[THREADS];
	struct timespec end, now;

	atomic_store(&delays, true);
	atomic_store(&stop, false);
	for (int i = 0; i < THREADS; i++)
		assert_false(pthread_create(&t[i], NULL, thread, NULL));
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += 2;
	do {
		pid_t pid[3];
		int go[2];

		assert_false(pipe2(go, O_CLOEXEC));
		for (int i = 0; i < 3; i++) {
			pid[i] = family_fork();
			if (!pid[i]) {
				atomic_store(&delays, false);
				stay(go[0]);
			}
			usleep(rnd() % 2000);
		}
		close(go[0]);
		close(go[1]);
		for (int i = 0; i < 3; i++)
			reap(pid[i]);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec || ((!sh->alone || !sh->not_alone) && now.tv_sec < end.tv_sec + 60));
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < TABLE; i++)
		if (owner[i] == 2)
			sock_close(&table[i], false);
	print_message("%u children, alone %u times and not %u times, %u counts left\n", sh->processes, sh->alone, sh->not_alone, in_use());
	assert_int_equal(sh->wrong, 0);
	assert_true(sh->alone > 0);
	assert_true(sh->not_alone > 0);
	assert_int_equal(in_use(), 0);
}

#define TEST(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one),
		TEST(none_free),
		TEST(two),
		TEST(three),
		TEST(fork_fails),
		TEST(unseen),
		TEST(split_tables),
		TEST(programs),
		TEST(programs_of_parent),
		TEST(families),
		TEST(families_that_die),
		TEST(threads),
	};
	const char *s = getenv("IW_SEED");

	seed = s ? (unsigned int)strtoul(s, NULL, 0) : (unsigned int)time(NULL) * 31 + (unsigned int)getpid();
	printf("# IW_SEED=%u\n", seed);
	fflush(stdout);
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	iw_holders_init(getpid());
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
