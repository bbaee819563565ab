// SPDX-License-Identifier: MIT
/* Places (daemon/cm/place.c): so many connections at a time are on their way, users take turns, and nobody waits for good. */
#include "util.h"

#include "daemon/rnic/prm.h"

#define match_turn	turn
#define match_may_switch	not_here
#define place_take	take
#define place_leave	leave
#include "daemon/cm/place.c"

#define MANY	300u

static struct proposal p[MANY];
static struct proposal *turned[8 * MANY];
static unsigned int nturned;

void turn(struct proposal *q)
{
	assert_int_equal(q->placed, PLACE_HELD);
	if (nturned < 8 * MANY)
		turned[nturned++] = q;
}

static unsigned int holding(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < MANY; i++)
		n += p[i].placed == PLACE_HELD;
	assert_int_equal(n, nheld);
	return n;
}

static unsigned int wanted;

static bool so_many(void *arg)
{
	return nturned >= wanted;
}

static int begin(void **state)
{
	memset(p, 0, sizeof(p));
	nturned = 0;
	return 0;
}

/* Nothing is left, of whoever had a place or waited. */
static int end(void **state)
{
	for (unsigned int i = 0; i < MANY; i++)
		leave(&p[i]);
	assert_int_equal(holding(), 0);
	run_rounds(3);
	assert_true(list_empty(list_bucket(&users)) && list_empty(list_bucket(&held)));
	return 0;
}

static void all_take(uint32_t uid, unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i < to; i++) {
		p[i].uid = uid;
		take(&p[i], false);
	}
}

static void in_order(void **state)
{
	all_take(1, 0, 100);
	assert_int_equal(holding(), PLACES);
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(p[i].placed, i < PLACES ? PLACE_HELD : PLACE_WAITS);
	assert_true(take(&p[0], false));
	assert_false(take(&p[PLACES], false));
	for (unsigned int i = 0; i < 10; i++)
		leave(&p[2 * i]);
	leave(&p[PLACES + 1]);		/* it waits, and goes away */
	wanted = 10;
	run_until(so_many, NULL);
	assert_int_equal(nturned, 10);
	assert_int_equal(holding(), PLACES);
	for (unsigned int i = 0; i < 10; i++)
		assert_ptr_equal(turned[i], &p[PLACES + i + (i >= 1)]);
}

/* Who has a place, and does nothing. */
static void not_for_good(void **state)
{
	all_take(1, 0, 100);
	wanted = 100 - PLACES;
	run_until(so_many, NULL);
	assert_in_range(holding(), 1, PLACES);
	for (unsigned int i = 0; i < wanted; i++)
		assert_ptr_equal(turned[i], &p[PLACES + i]);
}

static void users_take_turns(void **state)
{
	all_take(1, 0, 200);
	all_take(2, 200, 203);
	for (unsigned int i = 0; i < 6; i++)
		leave(&p[i]);
	wanted = 6;
	run_until(so_many, NULL);
	for (unsigned int i = 0; i < 6; i++)
		assert_int_equal(turned[i]->uid, 1 + i % 2);
	for (unsigned int i = 6; i < 9; i++)
		leave(&p[i]);
	wanted = 9;
	run_until(so_many, NULL);
	for (unsigned int i = 6; i < 9; i++)
		assert_int_equal(turned[i]->uid, 1);
}

/* One whose other end has gone costs both daemons until it follows. */
static void the_other_has_gone(void **state)
{
	all_take(1, 0, MANY - 1);
	for (unsigned int i = PLACES; i < PLACES_MOST; i++)
		assert_true(take(&p[i], true));
	assert_int_equal(holding(), PLACES_MOST);
	assert_false(take(&p[PLACES_MOST + 7], true));
	p[MANY - 1].uid = 1;
	assert_false(take(&p[MANY - 1], true));
	for (unsigned int i = 0; i < PLACES_MOST - PLACES; i++)		/* above the others' number nobody follows */
		leave(&p[i]);
	run_rounds(3);
	assert_int_equal(nturned, 0);
	leave(&p[PLACES_MOST - PLACES]);
	leave(&p[PLACES_MOST - PLACES + 1]);
	leave(&p[PLACES_MOST - PLACES + 2]);
	wanted = 3;
	run_until(so_many, NULL);
	assert_ptr_equal(turned[0], &p[MANY - 1]);
	assert_ptr_equal(turned[1], &p[PLACES_MOST + 7]);
	assert_ptr_equal(turned[2], &p[PLACES_MOST]);
}

/* Whatever they do: never more than may be, nobody is lost, all have their turn. */
static void at_random(void **state)
{
	const char *env = getenv("IW_SEED");
	unsigned int seed = env ? (unsigned int)strtoul(env, NULL, 0) : (unsigned int)(engine_now_ms() + (uint64_t)getpid());
	unsigned int r = seed;

	print_message("# IW_SEED=%u\n", seed);
	for (unsigned int n = 0; n < 20000; n++) {
		struct proposal *q = &p[rand_r(&r) % MANY];
		unsigned int what = rand_r(&r) % 8;

		if (what < 4) {
			bool has;

			if (q->placed == PLACE_NONE)
				q->uid = rand_r(&r) % 4;
			has = take(q, !what);
			assert_int_equal(q->placed, has ? PLACE_HELD : PLACE_WAITS);
		} else if (what < 7) {
			leave(q);
			assert_int_equal(q->placed, PLACE_NONE);
		} else if (!(rand_r(&r) % 64)) {
			run_rounds(2);
		}
		assert_true(nheld <= PLACES_MOST);
		nturned = 0;
	}
	holding();
	wanted = 0;
	for (unsigned int i = 0; i < MANY; i++)
		wanted += p[i].placed == PLACE_WAITS;
	run_until(so_many, NULL);
	for (unsigned int i = 0; i < MANY; i++)
		assert_true(p[i].placed != PLACE_WAITS);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(in_order), TEST(not_for_good), TEST(users_take_turns), TEST(the_other_has_gone), TEST(at_random),
	};

	return cmocka_run_group_tests(tests, engine_setup, engine_teardown);
}
