/* SPDX-License-Identifier: MIT */
/* What programs ask of the daemon waits for their user's turn: many programs of one user keep nobody else's waiting (SEC-P06). */
#include "cm_util.h"
#include "util.h"

#include "daemon/cm/ctl.h"
#include "daemon/net/peers.h"

#define PROGRAMS	200u
#define EACH		20u	/* questions of each program */
#define OTHER		65534u

static int flood[PROGRAMS], quiet;

static bool readable(void *arg)
{
	struct pollfd p = { .fd = *(int *)arg, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void program(int *s)
{
	struct lib l = { .s = lib_connect() };
	uint8_t buf[IW_CTL_MAX];
	struct iw_ctl_hello m;
	int fds[2];

	iw_ctl_init(&m, IW_CTL_HELLO, 0);
	strcpy(m.program, "turns");
	lib_tell(&l, &m, -1);
	run_until(readable, &l.s);
	assert_int_equal(recv_fds(l.s, buf, sizeof(buf), fds), sizeof(struct iw_ctl_hello_ack));
	for (int i = 0; i < 2; i++)
		close(fds[i]);
	*s = l.s;
}

/* Somebody else's; ours comes to the engine last. */
static void programs(void)
{
	int was = open(".", O_RDONLY | O_CLOEXEC | O_DIRECTORY);

	assert_int_equal(chdir(d.dir) | chmod(".", 0711) | seteuid(OTHER), 0);
	strcpy(d.dir, ".");
	for (unsigned int i = 0; i < PROGRAMS; i++)
		program(&flood[i]);
	strcpy(d.dir, conf.rundir);
	assert_int_equal(seteuid(0) | fchdir(was), 0);
	close(was);
	program(&quiet);
}

static void ask(int s)
{
	struct lib l = { .s = s };
	struct iw_ctl_hdr m;

	for (unsigned int i = 0; i < EACH; i++) {
		iw_ctl_init(&m, IW_CTL_SYNC, 0);
		lib_tell(&l, &m, -1);
	}
}

static unsigned int answers(int s)
{
	uint8_t buf[IW_CTL_MAX];
	unsigned int n = 0;

	while (recv(s, buf, sizeof(buf), MSG_DONTWAIT) > 0)
		n++;
	return n;
}

static unsigned int answered;

static bool all_answered(void *arg)
{
	answered += answers(quiet);
	return answered == EACH;
}

static bool none_is_left(void *arg)
{
	return !client_count();
}

static void many_programs_of_one_user(void **state)
{
	unsigned int n = 0;

	if (geteuid())
		skip();
	programs();
	for (unsigned int i = 0; i < PROGRAMS; i++)
		ask(flood[i]);
	ask(quiet);
	run_until(all_answered, NULL);
	for (unsigned int i = 0; i < PROGRAMS; i++)
		n += answers(flood[i]);
	/* without turns: as many of each program's as of ours; with them what one has time for in a turn, which is half of that where it takes 0.5 us */
	if (n > PROGRAMS * EACH * 9 / 10)
		fail_msg("%u questions of another user's programs were answered before %u of ours", n, EACH);
	close(quiet);
	for (unsigned int i = 0; i < PROGRAMS; i++)	/* with questions that wait for their turn */
		close(flood[i]);
	run_until(none_is_left, NULL);
	assert_int_equal(prm_user_get(OTHER)->programs, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(many_programs_of_one_user) };
	int ret;

	files_like_daemon();
	snprintf(d.dir, sizeof(d.dir), "%s/iwt-turns.XXXXXX", tmp_dir());
	conf_default(&conf);
	log_init(0, 1);
	if (!mkdtemp(d.dir) || engine_init())
		return 1;
	snprintf(conf.rundir, sizeof(conf.rundir), "%s", d.dir);
	if (peers_start() || ctl_listen())
		return 1;
	ctl_start();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	ctl_stop();
	peers_stop();
	rmdir(d.dir);
	return ret;
}
