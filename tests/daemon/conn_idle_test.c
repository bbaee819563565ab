/* SPDX-License-Identifier: MIT */
/* A connection that received much and is quiet gives its staging pages back, loses no octet by it, and goes on. */
#include "stream_util.h"

#include "daemon/rnic/soft_priv.h"
#include "daemon/stream/remote.h"
#include "daemon/stream/stream_priv.h"

#define BULK	(8u << 20)

static void bulk(uint32_t seed)
{
	struct job w = { .a = &app[0], .out = BULK, .seed_out = seed }, r = { .a = &app[1], .in = BULK, .seed_in = seed };

	start(&w, job_write);
	start(&r, job_read);
	finish(&w);
	finish(&r);
	assert_int_equal(w.err, 0);
	assert_int_equal(r.err, 0);
	assert_int_equal(r.got, BULK);
}

static size_t resident(const struct soft *c)
{
	unsigned char in[IW_SOFT_RX / 4096 + 2];
	size_t n = 0;

	assert_int_equal(mincore((uint8_t *)c->s + IW_SOFT_HOT, offsetof(struct iw_soft, txbuf) - IW_SOFT_HOT, in), 0);
	for (size_t i = 0; i < (offsetof(struct iw_soft, txbuf) - IW_SOFT_HOT) / 4096; i++)
		n += in[i] & 1;
	return n * 4096;
}

static bool given_back(void *arg)
{
	return resident(arg) <= 16384;
}

static void staging_is_given_back(void **state)
{
	struct soft *c;

	remote_pair();
	c = soft_of(app[1].st->remote->ep);
	for (uint32_t seed = 1; seed <= 2; seed++) {
		bulk(seed);
		assert_true(resident(c) > 65536);
		run_until(given_back, c);
	}
	say(app[0].fd, "and on");
	expect_octets(&app[1], "and on");
}

static bool trimmed(void *arg)
{
	return ((struct soft *)arg)->rx_peak < 4096;
}

static bool taken(void *arg)
{
	return ((struct soft *)arg)->s->qp.stat.rx_zero_tagged == 2;	/* the RTR was the first */
}

/* The first half of an FPDU waits for the other. */
static void partial_fpdu_stays(void **state)
{
	static const uint8_t fpdu[20] = "\x00\x0e\xc1\x40\0\0\0\0\0\0\0\0\0\0\0\0\xa3\x05\x72\xab";
	int kept = fcntl(tcp[0], F_DUPFD_CLOEXEC, 0);
	struct soft *c;

	remote_pair();
	c = soft_of(app[1].st->remote->ep);
	bulk(3);
	run_until(given_back, c);		/* and both ends are quiet: octets can be put between theirs */
	c->rx_peak = IW_SOFT_RX;
	assert_int_equal(send(kept, fpdu, 11, MSG_NOSIGNAL), 11);
	run_until(trimmed, c);
	assert_int_equal(c->s->rx_len, 11);
	assert_int_equal(send(kept, fpdu + 11, 9, MSG_NOSIGNAL), 9);
	run_until(taken, c);
	close(kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = { T(staging_is_given_back), T(partial_fpdu_stays) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
