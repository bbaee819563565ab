// SPDX-License-Identifier: MIT
/* Promises to lose TCP's pacing (daemon/cm/pace.c): never more than there is room for, in order, and nobody keeps one for good. */
#include "util.h"

#include "daemon/cm/match.h"
#include "daemon/stream/stream.h"

static uint64_t now;
static unsigned int promised_now, room_for;	/* what the streams count; and how many can have it */
static struct timer *running;

static void start(struct timer *t, unsigned int ms, void (*fn)(struct timer *))
{
	t->fn = fn;
	t->due = now + ms;
	running = t;
}

static bool has_room(void)
{
	return promised_now < room_for;
}

static void may_go(struct proposal *q);
static void lapsed(struct proposal *q);

static void promise_count(bool more)
{
	promised_now += more ? 1 : -1u;
}

#define engine_now_ms()		now
#define timer_start		start
#define stream_unpaced_room	has_room
#define stream_promise_unpaced	promise_count
#define match_promised		may_go
#define match_lapsed		lapsed
#define pace_take		take
#define pace_leave		leave
#define pace_look		look
#include "daemon/cm/pace.c"

#define MANY	300u

static struct proposal p[MANY];
static struct proposal *turned[4 * MANY];
static unsigned int nturned, nlapsed;

static void may_go(struct proposal *q)
{
	assert_int_equal(q->pacing, PACE_PROMISED);
	if (nturned < 4 * MANY)
		turned[nturned++] = q;
}

/* As match.c: it waits again. */
static void lapsed(struct proposal *q)
{
	assert_int_equal(q->pacing, PACE_PROMISED);
	nlapsed++;
	leave(q);
	assert_false(take(q));
}

static void counted(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < MANY; i++)
		n += p[i].pacing == PACE_PROMISED;
	assert_int_equal(n, promised_now);
}

/* The time of the timer has come, if it runs. */
static void later(unsigned int ms)
{
	for (uint64_t end = now + ms; running && running->due && running->due <= end;) {
		struct timer *t = running;

		now = t->due;
		t->due = 0;
		t->fn(t);
		run_rounds(2);
	}
	now += ms;
}

static int begin(void **state)
{
	memset(p, 0, sizeof(p));
	for (unsigned int i = 0; i < MANY; i++)
		p[i].gain = IW_GAIN_PACED;
	nturned = nlapsed = 0;
	room_for = 8;
	return 0;
}

static int end(void **state)
{
	for (unsigned int i = 0; i < MANY; i++)
		leave(&p[i]);
	run_rounds(3);
	assert_int_equal(promised_now, 0);
	assert_true(list_empty(list_bucket(&waiting)) && list_empty(list_bucket(&promised)) && list_empty(list_bucket(&in_vain)));
	later(2 * PACE_MS);	/* nobody waits: the timer rests */
	assert_int_equal(timer.due, 0);
	return 0;
}

static void in_order(void **state)
{
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(take(&p[i]), i < 8);
	assert_true(take(&p[0]));		/* again */
	assert_false(take(&p[8]));
	leave(&p[9]);				/* it waits, and goes away */
	leave(&p[3]);
	leave(&p[5]);
	assert_false(take(&p[200]));		/* before those that wait nobody comes */
	run_rounds(2);
	assert_int_equal(nturned, 2);
	assert_ptr_equal(turned[0], &p[8]);
	assert_ptr_equal(turned[1], &p[10]);
	counted();
	/* one was kept: the stream counts from now on */
	room_for--;
	leave(&p[8]);
	run_rounds(2);
	assert_int_equal(nturned, 2);
	/* and has ended */
	room_for++;
	look();
	run_rounds(2);
	assert_int_equal(nturned, 3);
	assert_ptr_equal(turned[2], &p[11]);
}

static void others(void **state)
{
	room_for = 0;
	p[0].gain = IW_GAIN_YES;
	assert_true(take(&p[0]));
	p[1].local = true;
	assert_true(take(&p[1]));
	p[2].state = PROPOSAL_DONE;
	assert_true(take(&p[2]));
	assert_false(take(&p[3]));
	counted();
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(p[i].pacing, PACE_NONE);
}

static void not_for_good(void **state)
{
	for (unsigned int i = 0; i < 11; i++)
		take(&p[i]);
	p[0].st = (struct stream *)&p[0];	/* that one is on its way */
	later(2 * PACE_MS - 1);
	assert_int_equal(nlapsed, 3);
	assert_int_equal(nturned, 3);
	for (unsigned int i = 0; i < 3; i++)
		assert_ptr_equal(turned[i], &p[8 + i]);
	assert_int_equal(p[0].pacing, PACE_PROMISED);
	for (unsigned int i = 1; i < 4; i++)
		assert_int_equal(p[i].pacing, PACE_WAITS);
	counted();
	later(PACE_MS);
	for (unsigned int i = 1; i < 4; i++)
		assert_ptr_equal(turned[2 + i], &p[i]);
	/* where nobody waits, it may last */
	for (unsigned int i = 0; i < 11; i++)
		if (p[i].pacing == PACE_WAITS)
			leave(&p[i]);
	nlapsed = 0;
	later(10 * PACE_MS);
	assert_int_equal(nlapsed, 0);
	counted();
}

/* There is room, and that is nothing to them. */
static void no_gain(void **state)
{
	for (unsigned int i = 0; i < 20; i += 2)
		p[i].gain = IW_GAIN_NONE;
	p[2].local = true;
	for (unsigned int i = 0; i < 20; i++)
		assert_int_equal(take(&p[i]), (i % 2 && i < 16) || i == 2);
	leave(&p[1]);
	run_rounds(2);
	assert_int_equal(nturned, 1);
	assert_ptr_equal(turned[0], &p[17]);
	leave(&p[19]);
	assert_int_equal(nlapsed, 0);
	later(PACE_MS);		/* nobody waits for whose turn it might be */
	assert_int_equal(timer.due, 0);
	counted();
}

/* There is room again, and nobody has said so (the setting has changed). */
static void looks_by_itself(void **state)
{
	room_for = 0;
	assert_false(take(&p[0]));
	room_for = 1;
	later(PACE_MS);
	assert_int_equal(p[0].pacing, PACE_PROMISED);
}

/* Whatever they do: counted as they are, and all have their turn. */
static void at_random(void **state)
{
	const char *env = getenv("IW_SEED");
	unsigned int seed = env ? (unsigned int)strtoul(env, NULL, 0) : (unsigned int)getpid();
	unsigned int r = seed, waits = 0;

	print_message("# IW_SEED=%u\n", seed);
	for (unsigned int n = 0; n < 20000; n++) {
		struct proposal *q = &p[rand_r(&r) % MANY];
		unsigned int what = rand_r(&r) % 16;

		if (what < 8)
			assert_int_equal(q->pacing, take(q) ? PACE_PROMISED : PACE_WAITS);
		else if (what < 15)
			leave(q);
		else if (rand_r(&r) % 8)
			run_rounds(2);
		else
			later(rand_r(&r) % PACE_MS);
		assert_true(promised_now <= room_for);
		nturned = 0;
	}
	counted();
	for (unsigned int i = 0; i < MANY; i++)
		waits += p[i].pacing == PACE_WAITS;
	for (unsigned int i = 0; i < MANY && waits; i++) {
		if (p[i].pacing == PACE_PROMISED)
			leave(&p[i]);
		run_rounds(2);
		i = i + 1 == MANY ? -1u : i;
		waits = 0;
		for (unsigned int k = 0; k < MANY; k++)
			waits += p[k].pacing == PACE_WAITS;
	}
	assert_int_equal(waits, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = { TEST(in_order), TEST(others), TEST(not_for_good), TEST(no_gain), TEST(looks_by_itself), TEST(at_random) };

	return cmocka_run_group_tests(tests, engine_setup, engine_teardown);
}
