// SPDX-License-Identifier: MIT
/* Connections between two hosts that gain by losing TCP's pacing only: as many go as can, the others wait, and go when any of those is done with, however. */
#include "hosts_util.h"
#include "daemon/stream/tcp.h"

#define CROWD	(TCP_UNPACED + 2)
#define LAST	(CROWD - 1)
#define LAST_1	(CROWD - 2)

static struct { int c, s; } crowd[CROWD];

/* c and s are those of that one from here on, and so are their names. */
static void on(unsigned int i)
{
	crowd[nth].c = c;
	crowd[nth].s = s;
	nth = i;
	c = crowd[nth].c;
	s = crowd[nth].s;
}

static int crowd_setup(void **state)
{
	int ret = setup(state);

	for (unsigned int i = 1; i < CROWD && !geteuid(); i++) {
		on(i);
		connected();
	}
	return ret;
}

static int crowd_teardown(void **state)
{
	for (unsigned int i = LAST; i; i--) {
		on(i);
		if (!geteuid() && c >= 0)
			close(c);
		if (!geteuid() && s >= 0)
			close(s);
	}
	on(0);
	return teardown(state);
}

static void propose_as(enum iw_gain gain)
{
	struct iw_ctl_propose m = proposal(c, CID, true);

	m.gain = gain;
	lib_tell(at(0), &m, -1);
	lib_sync(at(0));
}

static void propose_paced(void)
{
	propose_as(IW_GAIN_PACED);
}

static void both_go(unsigned int i)
{
	on(i);
	go(0);
	go(1);
}

static void stays(unsigned int i)
{
	on(i);
	becomes(0, IW_REASON_NO_GAIN);
	becomes(1, IW_REASON_OTHER_END);
	assert_false(may(0) || may(1));
}

/* All are proposed, by either end first: as many as there is room for may go. */
static void crowd_proposes(void)
{
	for (unsigned int i = 0; i < CROWD; i++) {
		on(i);
		if (i % 2)
			propose(1);
		propose_paced();
		if (!(i % 2))
			propose(1);
	}
	for (unsigned int i = 0; i < TCP_UNPACED; i++)
		both_go(i);
	stays(LAST_1);
	stays(LAST);
}

static void paced_ends(void **state)
{
	struct answer a;

	if (geteuid())
		skip();
	crowd_proposes();
	on(0);
	lib_id(at(0), IW_CTL_CLOSED, CID, -1);
	both_go(LAST_1);		/* it has waited longer */
	stays(LAST);
	on(1);
	plain(0, IW_REASON_URGENT);
	both_go(LAST);
	on(0);
	propose_paced();
	stays(0);
	on(2);
	lib_abandons(at(0), CID, c);
	both_go(0);
	/* who waits, and is closed, is nobody's turn */
	on(1);
	propose_paced();
	stays(1);
	on(2);
	lib_id(at(0), IW_CTL_CLOSED, CID, -1);
	propose_paced();
	stays(2);
	on(1);
	lib_id(at(0), IW_CTL_CLOSED, CID, -1);
	on(3);
	a = lib_switch(at(0), CID, c);
	assert_int_equal(a.m.result, 0);
	answer_close(&a);
	lib_id(at(0), IW_CTL_CLOSED, CID, -1);
	both_go(2);
	/* the program ends, and another one comes */
	for (int i = 0; i < 3; i++) {
		lib_free(at(0));
		hosts[0].lib = lib_new();
		crowd_proposes();
	}
}

/* It is of another kind now. */
static void paced_no_longer(void **state)
{
	if (geteuid())
		skip();
	crowd_proposes();
	on(LAST);
	lib_id(at(0), IW_CTL_CLOSED, CID, -1);
	propose(0);
	both_go(LAST);
	stays(LAST_1);
}

/* What is relayed comes back, what is upgraded ends: then others go. */
static void paced_streams(void **state)
{
	struct answer a, b, alone;
	struct iw_page *page;

	if (geteuid())
		skip();
	crowd_proposes();
	on(1);
	alone = switch_to(0);
	on(0);
	both_upgraded(&a, &b);
	stays(LAST_1);
	on(1);
	page = page_of(&alone);
	for (uint64_t until = now_ms() + 20000; !(atomic_load(&page->want) & IW_WANT_BACK); poll(NULL, 0, 1)) {
		both_ways(s, alone.fds[0]);
		assert_true(now_ms() < until);
	}
	c = lib_back(at(0), alone.m.stream_id);
	assert_true(c >= 0);
	answer_close(&alone);
	munmap(page, IW_PAGE_SIZE);
	both_go(LAST_1);
	stays(LAST);
	close_both(&a, &b);
	both_go(LAST);
}

/* By whoever is first; and it goes when it is of another kind. */
static void no_gain(void **state)
{
	if (geteuid())
		skip();
	for (unsigned int i = 0; i < 2; i++) {
		on(i);
		if (i)
			propose(1);
		propose_as(IW_GAIN_NONE);
		if (!i)
			propose(1);
		stays(i);
	}
	on(0);
	propose_paced();
	both_go(0);
	propose_as(IW_GAIN_NONE);
	stays(0);
	on(1);
	propose(0);
	both_go(1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, crowd_setup, crowd_teardown)
int main(void)
{
	const struct CMUnitTest tests[] = { T(no_gain), T(paced_ends), T(paced_no_longer), T(paced_streams) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
