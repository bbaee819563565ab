// SPDX-License-Identifier: MIT
/* Waits that look again before they sleep: only where that paid, never for long, and with a clock that the test has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>
#include <cmocka.h>

static int64_t now_ns;
static int64_t look_ns;		/* what one look takes */
static unsigned int cpus;
static long taken;		/* times that the processor was taken from us */
static long sleeps;

static int fake_clock(struct timespec *t)
{
	now_ns += 10;
	*t = (struct timespec){ now_ns / 1000000000, now_ns % 1000000000 };
	return 0;
}

static long fake_sched_getaffinity(int pid, size_t size, void *set)
{
	*(uint64_t *)set = cpus == 1 ? 2 : 3;
	return 8;
}

static long fake_getrusage(int who, struct rusage *u)
{
	u->ru_nivcsw = taken;
	u->ru_nvcsw = sleeps;
	return 0;
}

static long fake_ppoll(void *p, unsigned long n, const void *t, const void *mask, size_t size)
{
	return 0;
}

#define clock_gettime(clock, t) fake_clock(t)
#include "preload/deadline.h"
#include "preload/sys.h"
#undef IW_SYS
#define IW_SYS(name, ...) fake_##name(__VA_ARGS__)
#include "preload/spin.c"
#undef clock_gettime

_Atomic uint8_t iw_conf_spin;
_Atomic uint32_t iw_streams_carried;
_Atomic uint32_t iw_handlers, iw_handlers_unseen;
__thread struct iw_handlers_step iw_handlers_step __attribute__((tls_model("initial-exec")));
static unsigned int late;

void iw_handlers_late(void)
{
	late++;
	iw_handlers_step.came = false;
}

/* A wait for what is there after ns: found by a look, or woken, which takes so long. Returns how often it looked. */
static unsigned int wait_wake_ns(int64_t ns, int64_t wake)
{
	int64_t end = now_ns + ns;
	unsigned int looks = 0;
	struct iw_spin z;

	iw_spin_begin(&z);
	while (iw_spin_on(&z)) {
		looks++;
		now_ns += look_ns;
		if (now_ns >= end)
			break;
	}
	if (now_ns < end) {
		now_ns = end + wake;
		sleeps++;
	}
	iw_spin_over(&z);
	iw_spin_end(&z);
	return looks;
}

static unsigned int wait_ns(int64_t ns)
{
	return wait_wake_ns(ns, 0);
}

static int begin(void **state)
{
	now_ns = 1000000000000;
	look_ns = APART_NS;
	cpus = 2;
	habit = (struct habit){ 0 };
	atomic_store(&iw_conf_spin, IW_SPIN_ADAPTIVE);
	return 0;
}

static void short_waits(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		wait_ns(10000);
}

static void not_before_it_would_have_paid(void **state)
{
	for (unsigned int i = 0; i < SHORT; i++)
		assert_int_equal(wait_ns(10000), 0);
	assert_in_range(wait_ns(10000), 9, 11);
	assert_int_equal(wait_ns(0), 1);
}

static void not_where_waits_are_long(void **state)
{
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(wait_ns(1000000), 0);
	short_waits(SHORT);
	assert_true(wait_ns(10000) > 0);
	wait_ns(1000000);		/* the first long one: it looked in vain */
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(wait_ns(1000000), 0);
}

static void at_most_so_long(void **state)
{
	int64_t began;

	for (unsigned int i = 0; i < 50; i++)
		wait_ns(LONGEST_NS - 2000);
	began = now_ns;
	assert_in_range(wait_ns(60000), LONGEST_NS / look_ns - 2, LONGEST_NS / look_ns + 1);
	assert_in_range(now_ns - began, 60000, 61000);

	begin(state);		/* and hardly longer than the others were, if none has paid for more */
	short_waits(50);
	assert_true(habit.credit > 0);
	habit.credit = 0;
	assert_in_range(wait_ns(60000), 1, (2 * 10000 + SPARE_NS) / look_ns + 1);
}

/* Whoever is to answer has no processor while we look: what looking costs becomes nothing. */
static void less_often_in_vain(void **state)
{
	int64_t end = now_ns + 10000000000;
	unsigned int looked = 0, waits = 0;

	for (; now_ns < end; waits++) {
		struct iw_spin z;
		bool any = false;

		iw_spin_begin(&z);
		while (iw_spin_on(&z)) {
			any = true;
			now_ns += look_ns;
		}
		now_ns += 10000;	/* it came as soon as we slept */
		iw_spin_over(&z);
		iw_spin_end(&z);
		looked += any;
	}
	assert_true(waits > 900000);
	assert_in_range(looked, 2, 40);
}

/* Looks that paid pay for as much time of others: those that follow are not slept through. No more than that, in the long run. */
static void some_in_vain(void **state)
{
	unsigned int looked = 0;

	short_waits(SHORT + 10);
	for (int i = 0; i < 1000; i++)
		looked += wait_ns(i % 10 ? 10000 : 60000) > 0;
	assert_int_equal(looked, 1000);
	looked = 0;
	for (int i = 0; i < 1000; i++)
		looked += wait_ns(i % 10 ? 60000 : 10000) > 0;
	assert_in_range(looked, 2, 200);
}

/* Two ends of requests and answers, each of which looks or has to be woken. */
struct end {
	struct habit habit;
	int64_t sent;
	unsigned int looked;
};

/* What it waits for since it has sent comes at that time. Returns when it has sent again. */
static int64_t answers(struct end *e, int64_t comes, int64_t wake)
{
	habit = e->habit;
	now_ns = e->sent;
	e->looked += wait_wake_ns(comes - e->sent, wake) > 0;
	e->sent = now_ns + 1000;
	e->habit = habit;
	return e->sent;
}

static int64_t round_trip(struct end *e, int64_t wake, int64_t way)
{
	int64_t t = e[0].sent;

	t = answers(&e[1], t + way, wake);
	return answers(&e[0], t + way, wake);
}

static void both_had_to_be_woken(void **state)
{
	struct end e[2] = { { .sent = now_ns }, { .sent = now_ns } };
	int64_t t = now_ns;

	for (int i = 0; i < 10; i++)
		t = round_trip(e, 70000, 2000);
	assert_int_equal(e[0].looked + e[1].looked, 0);
	for (int i = 0; i < 100; i++)
		t = round_trip(e, 70000, 2000);
	assert_in_range(round_trip(e, 70000, 2000) - t, 5000, 10000);
}

static void or_it_is_far(void **state)
{
	struct end e[2] = { { .sent = now_ns }, { .sent = now_ns } };

	for (int i = 0; i < 100000; i++)
		round_trip(e, 5000, 60000);
	assert_in_range(e[0].looked, TRIAL, 40 * TRIAL);
	assert_in_range(e[1].looked, TRIAL, 40 * TRIAL);
}

static void busy_processor(void **state)
{
	for (unsigned int i = 0; i < 50; i++)
		wait_ns(LONGEST_NS - 2000);
	look_ns = GAP_NS + 1000;	/* an interrupt */
	assert_int_equal(wait_ns(30000), 2);
	taken++;			/* somebody else ran meanwhile */
	assert_int_equal(wait_ns(30000), 1);
	look_ns = APART_NS;
	short_waits(SHORT);
	assert_int_equal(wait_ns(10000), 0);
	now_ns += 10 * PAUSE_NS;
	assert_true(wait_ns(10000) > 1);
}

static void one_processor(void **state)
{
	cpus = 1;
	short_waits(SHORT);
	assert_int_equal(wait_ns(10000), 0);
	cpus = 2;
	now_ns += 2 * PAUSE_MOST_NS;
	assert_true(wait_ns(10000) > 0);
}

static void as_the_file_says(void **state)
{
	atomic_store(&iw_conf_spin, IW_SPIN_ALWAYS);
	assert_in_range(wait_ns(1000000), LONGEST_NS / look_ns - 2, LONGEST_NS / look_ns + 1);
	assert_in_range(wait_ns(1000000), LONGEST_NS / look_ns - 2, LONGEST_NS / look_ns + 1);
	atomic_store(&iw_conf_spin, IW_SPIN_NO);
	short_waits(50);
	assert_int_equal(wait_ns(10000), 0);
}

/* It would take the processor from the daemon that it waits for. */
static void daemon_is_between(void **state)
{
	short_waits(50);
	atomic_store(&iw_streams_carried, 1);
	assert_int_equal(wait_ns(10000), 0);
	atomic_store(&iw_streams_carried, 0);
	assert_true(wait_ns(10000) > 0);
}

/* They are put off, and run when nothing is looked at any more; those that the library does not see would come in between. */
static void handlers(void **state)
{
	struct iw_spin z;

	short_waits(SHORT);
	iw_spin_begin(&z);
	assert_true(iw_spin_on(&z));
	assert_int_equal(iw_handlers_step.n, 1);
	iw_handlers_step.came = true;
	assert_false(iw_spin_on(&z));
	assert_int_equal(late, 0);
	assert_true(iw_spin_over(&z));
	assert_int_equal(late, 1);
	iw_spin_end(&z);
	iw_spin_begin(&z);
	assert_true(iw_spin_on(&z));
	assert_false(iw_spin_over(&z));
	iw_spin_end(&z);
	assert_int_equal(iw_handlers_step.n, 0);
	atomic_store(&iw_handlers_unseen, 1);
	assert_int_equal(wait_ns(10000), 0);
	atomic_store(&iw_handlers_unseen, 0);
}

/* How long of the time it does not sleep, of waits that are short, each for an answer of who is where `there` is. */
static int64_t awake_ns(uint32_t there, int64_t time)
{
	int64_t end = now_ns + time, sum = 0;

	while (now_ns < end) {
		int64_t began = now_ns;
		long before = sleeps;

		iw_spin_met(1, there);
		wait_ns(10000);
		sum += sleeps == before ? now_ns - began : 0;
	}
	return sum;
}

/* Both on one processor: looks are in vain, but one long one gets the other a processor of its own. */
static void together(void **state)
{
	assert_in_range(awake_ns(1, PART_NS / 2), PART_NS / 2 - 100000, PART_NS);
	assert_in_range(awake_ns(1, PART_PAUSE_NS - PART_NS), PART_NS / 2 - 100000, PART_NS / 2 + 100000);
	/* of no use, so twice as long from one to the next */
	assert_int_equal(awake_ns(1, PART_NS / 4), 0);
	assert_in_range(awake_ns(1, 2 * PART_NS), PART_NS - 100000, PART_NS + 100000);
	assert_in_range(awake_ns(1, 100 * PART_NS), 2 * PART_NS - 100000, 4 * PART_NS);
	/* apart looks pay, and it is tried sooner once that is over */
	assert_in_range(awake_ns(2, PART_NS), PART_NS - 100000, PART_NS + 100000);
}

static void together_by_their_word_for_ever(void **state)
{
	for (unsigned int i = 0; i < 400; i++)
		awake_ns(1, PART_PAUSE_NS);
	assert_in_range(habit.part_pause, PART_MOST_NS / 2, PART_MOST_NS);
	assert_in_range(awake_ns(1, PART_MOST_NS), 0, PART_NS + 100000);
}

static void together_on_a_busy_machine(void **state)
{
	for (unsigned int i = 0; i < 40; i++) {
		taken += 1 + (sleeps - habit.slept) / PART_TAKEN;
		assert_int_equal(awake_ns(1, PART_NS / 2), 0);
	}
}

static void together_on_one_processor(void **state)
{
	cpus = 1;
	assert_int_equal(awake_ns(1, 10 * PART_PAUSE_NS), 0);
}

static void together_but_never(void **state)
{
	atomic_store(&iw_conf_spin, IW_SPIN_NO);
	assert_int_equal(awake_ns(1, 10 * PART_PAUSE_NS), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(not_before_it_would_have_paid, begin),
		cmocka_unit_test_setup(not_where_waits_are_long, begin),
		cmocka_unit_test_setup(at_most_so_long, begin),
		cmocka_unit_test_setup(less_often_in_vain, begin),
		cmocka_unit_test_setup(some_in_vain, begin),
		cmocka_unit_test_setup(daemon_is_between, begin),
		cmocka_unit_test_setup(both_had_to_be_woken, begin),
		cmocka_unit_test_setup(or_it_is_far, begin),
		cmocka_unit_test_setup(busy_processor, begin),
		cmocka_unit_test_setup(one_processor, begin),
		cmocka_unit_test_setup(as_the_file_says, begin),
		cmocka_unit_test_setup(together, begin),
		cmocka_unit_test_setup(together_by_their_word_for_ever, begin),
		cmocka_unit_test_setup(together_on_a_busy_machine, begin),
		cmocka_unit_test_setup(together_on_one_processor, begin),
		cmocka_unit_test_setup(together_but_never, begin),
		cmocka_unit_test_setup(handlers, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
