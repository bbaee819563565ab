/* SPDX-License-Identifier: MIT */
/* A soft endpoint that rests, so that somebody else can work its connection: nothing comes from it meanwhile, and nothing is lost. */
#include "util.h"

#include "daemon/rnic/soft.h"

#define LEN	(1u << 20)

struct side {
	struct endpoint *c;
	struct rnic_mr *mr;
	uint8_t *mem;
	bool established, closed, still;
	int err;
	unsigned int calls, done, recvs;
};

static void on_request(void *ctx, const struct endpoint_said *said)
{
	assert_int_equal(endpoint_accept(((struct side *)ctx)->c, NULL, 0), 0);
}

static void on_established(void *ctx, const struct endpoint_said *said)
{
	((struct side *)ctx)->established = true;
}

static void on_complete(void *ctx, const struct iw_cqe *cqe)
{
	struct side *s = ctx;

	s->calls++;
	s->recvs += cqe->status == IW_WC_OK && cqe->op == IW_WR_RECV;
	s->done += cqe->status == IW_WC_OK && cqe->op == IW_WR_WRITE;
}

static void on_event(void *ctx, enum endpoint_event ev)
{
	struct side *s = ctx;

	s->calls++;
	if (ev == ENDPOINT_EV_EOF)
		endpoint_close(s->c);
}

static void on_closed(void *ctx, int err, const struct endpoint_said *rej)
{
	struct side *s = ctx;

	assert_false(s->closed);
	s->calls++;
	s->closed = true;
	s->err = err;
	s->c = NULL;
}

static const struct endpoint_ulp ops = {
	.request = on_request, .established = on_established, .complete = on_complete, .event = on_event, .closed = on_closed,
};

static struct rnic_pd *pd;
static unsigned int fds;
static struct side side[2];

static bool quiet(void *arg)
{
	return open_fds() == fds && !rnic_mr_count();
}

static struct iw_sge sge(int i, uint32_t off, uint32_t len)
{
	return (struct iw_sge){ .stag = rnic_mr_stag(side[i].mr), .to = off, .len = len };
}

static bool up(void *arg)
{
	return side[0].established && side[1].established;
}

static bool got(void *arg)
{
	return ((struct side *)arg)->recvs;
}

static void say(int i)
{
	struct iw_wr wr = { .op = IW_WR_SEND, .nsge = 1, .sge[0] = sge(i, 0, 64) };

	assert_int_equal(endpoint_post_send(side[i].c, &wr), 0);
}

/* Both ends up, and each has heard of the other. */
static int setup(void **state)
{
	int tcp[2];

	conf_default(&conf);
	prm_strict = false;
	conf.log_level = 0;
	pd = rnic_pd_get(1);
	fds = open_fds();
	tcp_pair(tcp);
	memset(side, 0, sizeof(side));
	for (int i = 0; i < 2; i++) {
		struct side *s = &side[i];

		s->mem = calloc(1, LEN);
		assert_int_equal(soft_create(tcp[i], pd, &ops, s, &s->c), 0);
		assert_int_equal(rnic_mr_reg(pd, soft_qp(s->c), s->mem, LEN, 0, IW_ACCESS_LOCAL_READ | IW_ACCESS_LOCAL_WRITE | IW_ACCESS_REMOTE_WRITE, &s->mr), 0);
		for (int n = 0; n < 2; n++) {
			struct iw_sge g = sge(i, 0, 64);

			assert_int_equal(endpoint_post_recv(s->c, 1, &g), 0);
		}
		assert_int_equal(endpoint_rest(s->c, NULL), -EAGAIN);
	}
	assert_int_equal(endpoint_respond(side[1].c), 0);
	assert_int_equal(endpoint_initiate(side[0].c, NULL, 0), 0);
	run_until(up, NULL);
	for (int i = 0; i < 2; i++) {
		say(i);
		run_until(got, &side[!i]);
		side[!i].recvs = 0;
	}
	return 0;
}

static int teardown(void **state)
{
	for (int i = 0; i < 2; i++) {
		if (side[i].c)
			endpoint_abort(side[i].c);
	}
	run_until(quiet, NULL);
	free(side[0].mem);
	free(side[1].mem);
	rnic_pd_put(pd);
	return 0;
}

static void on_still(void *ctx)
{
	struct side *s = ctx;

	assert_false(s->still);
	s->still = true;
}

static void stop(int i, int (*how)(struct endpoint *ep, void (*still)(void *ctx)))
{
	struct side *s = &side[i];
	unsigned int calls;

	s->still = false;
	assert_int_equal(how(s->c, on_still), 0);
	assert_false(s->still);
	run_until(is_true, &s->still);
	calls = s->calls;
	run_rounds(3);
	assert_int_equal(s->calls, calls);
}

static void rest(int i)
{
	stop(i, endpoint_rest);
}

static void resume(int i)
{
	unsigned int calls = side[i].calls;

	endpoint_resume(side[i].c);
	assert_int_equal(side[i].calls, calls);
}

static void post_write(int i, uint32_t off, uint32_t len)
{
	struct iw_wr wr = {
		.op = IW_WR_WRITE, .nsge = 1, .sge[0] = sge(i, off, len), .rstag = rnic_mr_stag(side[!i].mr), .rto = off,
	};

	assert_int_equal(endpoint_post_send(side[i].c, &wr), 0);
}

static bool written(void *arg)
{
	return side[0].done == *(unsigned int *)arg && side[1].done == *(unsigned int *)arg && side[0].recvs && side[1].recvs;
}

/* Each end writes half of the other's memory, in pieces, while one of them rests again and again, after so many rounds. */
static void stopped_in_the_middle(int (*how)(struct endpoint *ep, void (*still)(void *ctx)))
{
	enum { PIECES = 16, PIECE = LEN / 2 / PIECES };
	unsigned int n = 0;

	for (int i = 0; i < 2; i++)
		for (uint32_t k = 0; k < LEN / 2; k++)
			side[i].mem[(uint32_t)i * LEN / 2 + k] = (uint8_t)((k * 2654435761u + (uint32_t)i) >> 11);
	for (; n < PIECES; n++) {
		for (int i = 0; i < 2; i++)
			post_write(i, (uint32_t)i * LEN / 2 + n * PIECE, PIECE);
		if (n % 4)
			run_rounds((int)n % 4);
		stop(n & 1, how);
		resume(n & 1);
	}
	say(0);
	say(1);
	run_until(written, &n);
	assert_memory_equal(side[0].mem + 64, side[1].mem + 64, LEN - 64);
}

static void in_the_middle(void **state)
{
	stopped_in_the_middle(endpoint_rest);
}

static void halted_in_the_middle(void **state)
{
	stopped_in_the_middle(endpoint_halt);
}

/* The peer takes nothing, so one that rests never is still, and one that halts is. */
static void halted_with_a_full_connection(void **state)
{
	unsigned int n = 16, one = 0;

	memset(side[0].mem + 64, 'x', LEN - 64);
	rest(1);
	for (unsigned int i = 0; i < n; i++)
		post_write(0, 64, LEN - 64);
	run_rounds(50);
	assert_int_equal(endpoint_rest(side[0].c, on_still), 0);
	run_rounds(50);
	assert_false(side[0].still);
	resume(0);
	run_rounds(5);
	stop(0, endpoint_halt);
	resume(1);
	run_rounds(50);
	one = side[0].done;
	assert_true(one < n);
	say(0);
	resume(0);
	run_until(got, &side[1]);
	assert_int_equal(side[0].done, n);
	assert_memory_equal(side[0].mem + 64, side[1].mem + 64, LEN - 64);
}

/* What comes meanwhile is there afterwards. */
static void octets_meanwhile(void **state)
{
	rest(0);
	say(1);
	run_rounds(5);
	assert_int_equal(side[0].recvs, 0);
	resume(0);
	run_until(got, &side[0]);
}

/* And what is posted goes out. */
static void posted_meanwhile(void **state)
{
	rest(0);
	say(0);
	run_rounds(5);
	assert_int_equal(side[1].recvs, 0);
	resume(0);
	run_until(got, &side[1]);
}

static void called_off(void **state)
{
	assert_int_equal(endpoint_rest(side[0].c, on_still), 0);
	resume(0);
	run_rounds(5);
	assert_false(side[0].still);
	say(1);
	run_until(got, &side[0]);
}

static void closed_by_the_peer_meanwhile(void **state)
{
	rest(0);
	endpoint_close(side[1].c);
	run_rounds(5);
	assert_false(side[0].closed);
	resume(0);
	run_until(is_true, &side[0].closed);
	run_until(is_true, &side[1].closed);
	assert_int_equal(side[0].err, 0);
	assert_int_equal(side[1].err, 0);
}

static void reset_by_the_peer_meanwhile(void **state)
{
	rest(0);
	endpoint_abort(side[1].c);
	side[1].c = NULL;
	run_rounds(5);
	assert_false(side[0].closed);
	resume(0);
	run_until(is_true, &side[0].closed);
	assert_int_equal(side[0].err, ECONNRESET);
}

static void not_while_it_ends(void **state)
{
	endpoint_close(side[0].c);
	assert_int_equal(endpoint_rest(side[0].c, on_still), -EAGAIN);
	run_until(is_true, &side[0].closed);
}

/* Somebody else has the connection, too, and keeps it. */
static void reset_is_heard(void **state)
{
	int other = dup(soft_fd(side[0].c));

	rest(0);
	endpoint_abort(side[0].c);
	side[0].c = NULL;
	run_until(is_true, &side[1].closed);
	assert_int_equal(side[1].err, ECONNRESET);
	close(other);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(in_the_middle), T(halted_in_the_middle), T(halted_with_a_full_connection), T(octets_meanwhile), T(posted_meanwhile), T(called_off), T(closed_by_the_peer_meanwhile),
		T(reset_by_the_peer_meanwhile), T(not_while_it_ends), T(reset_is_heard),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, engine_setup, engine_teardown);
}
