/* SPDX-License-Identifier: MIT */
/* Endpoints in the middle of a connection: the test reads and writes it until the startup is certain, as a relay does. */
#include "util.h"

#include "daemon/rnic/soft.h"
#include "proto/mpa.h"

struct side {
	struct endpoint *ep;
	bool requested, established, closed;
	char pd[16];
	int err;
};

static struct side side[2];	/* 0 Initiator */
static int tcp[2];
static struct rnic_pd *pd;
static unsigned int fds;

static void note(struct side *s, const struct endpoint_said *said)
{
	memcpy(s->pd, said->pd, said->pd_len < sizeof(s->pd) ? said->pd_len : sizeof(s->pd) - 1);
}

static void on_request(void *ctx, const struct endpoint_said *said)
{
	struct side *s = ctx;

	s->requested = true;
	note(s, said);
	assert_int_equal(endpoint_accept(s->ep, "reply", 5), 0);
}

static void on_established(void *ctx, const struct endpoint_said *said)
{
	struct side *s = ctx;

	s->established = true;
	note(s, said);
}

static void on_complete(void *ctx, const struct iw_cqe *cqe)
{
}

static void on_closed(void *ctx, int err, const struct endpoint_said *reject)
{
	struct side *s = ctx;

	s->closed = true;
	s->err = err;
	s->ep = NULL;
}

static const struct endpoint_ulp ulp = { .request = on_request, .established = on_established, .complete = on_complete, .closed = on_closed };

static int setup(void **state)
{
	conf_default(&conf);
	memset(side, 0, sizeof(side));
	fds = open_fds();
	pd = rnic_pd_get(1);
	tcp_pair(tcp);
	for (int i = 0; i < 2; i++)
		assert_int_equal(soft_create(tcp[i], pd, &ulp, &side[i], &side[i].ep), 0);
	return 0;
}

static bool quiet(void *arg)
{
	return !endpoint_count() && open_fds() == fds;
}

static int teardown(void **state)
{
	for (int i = 0; i < 2; i++)
		if (side[i].ep)
			endpoint_abort(side[i].ep);
	run_until(quiet, NULL);
	rnic_pd_put(pd);
	return 0;
}

static bool up(void *arg)
{
	return side[0].established && side[1].established;
}

static bool heard(void *arg)
{
	struct side *s = arg;

	return s->requested;
}

/* Plain octets both ways, then Request and Reply behind them; an end that takes its time runs into no time-out. */
static void behind_plain_octets(void **state)
{
	uint8_t frame[ENDPOINT_FRAME_MAX], in[ENDPOINT_FRAME_MAX + 100];
	struct endpoint_frame f;
	int n, k;

	conf.startup_timeout = 1;
	assert_int_equal(send(tcp[0], "GET", 3, 0), 3);
	assert_int_equal(recv(tcp[1], in, sizeof(in), 0), 3);
	n = endpoint_request(side[0].ep, "request", 7, frame);
	assert_in_range(n, IW_MPA_HDR + 4 + 7, sizeof(frame));
	assert_int_equal(endpoint_request(side[0].ep, "request", 7, frame), -EINVAL);
	run_rounds(5);
	assert_int_equal(recv(tcp[1], in, sizeof(in), MSG_DONTWAIT), -1);	/* nothing is sent by it */
	assert_int_equal(send(tcp[0], frame, (size_t)n, 0), n);
	assert_int_equal(recv(tcp[1], in, sizeof(in), 0), n);
	for (k = 0; k < n; k++)
		assert_int_equal(endpoint_frame(side[1].ep, in, (size_t)k, false, &f), 0);
	assert_int_equal(endpoint_frame(side[1].ep, in, (size_t)n + 9, false, &f), n);	/* what is behind it is not looked at */
	assert_int_equal(f.pd_len, 7);
	assert_memory_equal(f.pd, "request", 7);
	assert_int_equal(endpoint_frame(side[1].ep, in, (size_t)n, true, &f), -EPROTO);
	assert_int_equal(endpoint_frame(side[1].ep, (const uint8_t *)"MPa", 3, false, &f), -EPROTO);
	assert_int_equal(endpoint_go_on(side[1].ep, in, (size_t)n), 0);
	assert_int_equal(endpoint_go_on(side[1].ep, in, (size_t)n), -EINVAL);
	assert_false(side[1].requested);	/* never from inside a call */
	run_until(heard, &side[1]);
	assert_string_equal(side[1].pd, "request");
	run_rounds(20);
	n = (int)recv(tcp[0], in, sizeof(in), 0);
	assert_int_equal(endpoint_frame(side[0].ep, in, (size_t)n, true, &f), n);
	assert_false(f.reject);
	run_rounds(20);
	assert_false(side[0].closed || side[1].closed);
	assert_int_equal(endpoint_go_on(side[0].ep, in, (size_t)n), 0);
	run_until(up, NULL);
	assert_string_equal(side[0].pd, "reply");
}

static void what_is_no_frame(void **state)
{
	uint8_t frame[ENDPOINT_FRAME_MAX];

	assert_true(endpoint_request(side[0].ep, "x", 1, frame) > 0);
	assert_int_equal(endpoint_go_on(side[0].ep, (const uint8_t *)"rubbish and more of it", 22), 0);
	run_rounds(5);
	assert_true(side[0].closed);
	assert_int_equal(side[0].err, EPROTO);
}

/* The other end went on: what it was made from is as before. */
static void given_up(void **state)
{
	uint8_t frame[ENDPOINT_FRAME_MAX];
	char c[4];

	assert_true(endpoint_request(side[0].ep, "x", 1, frame) > 0);
	for (int i = 0; i < 2; i++) {
		endpoint_unmake(side[i].ep);
		side[i].ep = NULL;
	}
	run_rounds(5);
	assert_int_equal(endpoint_count(), 0);
	assert_int_equal(send(tcp[0], "on", 2, 0), 2);
	assert_int_equal(recv(tcp[1], c, sizeof(c), 0), 2);
	close(tcp[0]);
	close(tcp[1]);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { T(behind_plain_octets), T(what_is_no_frame), T(given_up) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, engine_setup, engine_teardown);
}
