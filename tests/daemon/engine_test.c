/* SPDX-License-Identifier: MIT */
/* The event loop: whose turn it is. */
#include <fcntl.h>
#include <sys/socket.h>

#include "util.h"

static struct {
	struct timer again, other[64];
	struct work work;
	unsigned int fired, rounds;
	char order[8];
} t;

static void round_work(struct work *w)
{
	if (++t.rounds == 10)
		engine_stop();
	else
		work_queue(w, round_work);
}

static void fire_again(struct timer *again)
{
	t.fired++;
	timer_start(again, 0, fire_again);
}

static void never(struct timer *other)
{
	fail_msg("a timer of an hour fired");
}

/* One that starts itself anew with 0 ms runs once per pass, however many others there are: completions and work are not kept waiting. */
static void restarted_at_once(void **state)
{
	for (size_t i = 0; i < sizeof(t.other) / sizeof(t.other[0]); i++)
		timer_start(&t.other[i], 3600000, never);
	timer_start(&t.again, 0, fire_again);
	work_queue(&t.work, round_work);
	engine_run();
	timer_stop(&t.again);
	for (size_t i = 0; i < sizeof(t.other) / sizeof(t.other[0]); i++)
		timer_stop(&t.other[i]);
	assert_in_range(t.fired, t.rounds - 1, t.rounds + 1);
}

static void note(struct timer *which)
{
	size_t n = strlen(t.order);

	t.order[n] = (char)('a' + (which - t.other));
	if (n == 4)
		engine_stop();
}

/* Those due at the same time come in the order started; one stopped does not come. */
static void order_of_start(void **state)
{
	static const int start[] = { 3, 1, 5, 0, 2, 4 };

	for (size_t i = 0; i < sizeof(start) / sizeof(start[0]); i++)
		timer_start(&t.other[start[i]], 1, note);
	timer_stop(&t.other[5]);
	engine_run();
	assert_string_equal(t.order, "dbace");
}

static int setup(void **state)
{
	memset(&t, 0, sizeof(t));
	return 0;
}

#define T(f) cmocka_unit_test_setup(f, setup)

/* Some kernels give -EAGAIN for a file with O_NONBLOCK; who shares it may set that again. */
static void nonblocking_again_and_again(void **state)
{
	unsigned int spun = 0, n = 0;
	int v[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, v), 0);
	assert_true(engine_file_again(v[0], -EINTR, &spun));
	assert_false(engine_file_again(v[0], -EPIPE, &spun));
	assert_int_equal(spun, 0);
	assert_true(fcntl(v[0], F_GETFL) & O_NONBLOCK);
	while (engine_file_again(v[0], -EAGAIN, &spun) && n++ < 1000)
		assert_false(fcntl(v[0], F_GETFL) & O_NONBLOCK);
	assert_in_range(n, 10, 100);
	close(v[0]);
	close(v[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { T(restarted_at_once), T(order_of_start), T(nonblocking_again_and_again) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, engine_setup, engine_teardown);
}
