/* SPDX-License-Identifier: MIT */
/*
 * The daemon of this test is root's: no option that the kernel refuses to an ordinary user for want of a right can be set through it. All
 * numbers of options, with values of all kinds, and every congestion control there is.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>

#include "cm_util.h"

#define NAMES	100
static const int levels[] = { SOL_SOCKET, IPPROTO_TCP, IPPROTO_IP, IPPROTO_IPV6 };
static const int values[] = { -1, 0, 1, 6, 7, 255, 1 << 20, INT_MAX };
#define NLEVELS	(sizeof(levels) / sizeof(levels[0]))
#define NVALUES	(sizeof(values) / sizeof(values[0]))

static struct { int alone[NLEVELS][NAMES][NVALUES], congestion[64]; } *seen;
static char names[64][16];
static unsigned int nnames;

static struct lib server, client;
static struct answer switched;

static void names_read(void)
{
	FILE *f = fopen("/proc/sys/net/ipv4/tcp_available_congestion_control", "re");

	while (f && nnames < 60 && fscanf(f, "%15s", names[nnames]) == 1)
		nnames++;
	if (f)
		fclose(f);
	strcpy(names[nnames++], "nosuchthing");
}

static int connected(void)
{
	uint16_t port;
	int l = tcp_listen(&port), c = tcp_connect(port);

	assert_true(accept(l, NULL, NULL) >= 0);
	close(l);
	return c;
}

/* What an ordinary user gets from the kernel. */
static void alone(void)
{
	int fd;

	if (setresgid(2001, 2001, 2001) || setresuid(2001, 2001, 2001))
		_exit(1);
	fd = connected();
	for (unsigned int l = 0; l < NLEVELS; l++)
		for (int n = 0; n < NAMES; n++)
			for (unsigned int v = 0; v < NVALUES; v++)
				seen->alone[l][n][v] = setsockopt(fd, levels[l], n, &values[v], sizeof(int)) ? errno : 0;
	for (unsigned int i = 0; i < nnames; i++)
		seen->congestion[i] = setsockopt(fd, IPPROTO_TCP, 13, names[i], (socklen_t)strlen(names[i])) ? errno : 0;
	_exit(0);
}

static int set(int level, int name, const void *val, size_t len)
{
	struct iw_ctl_opt m, r;
	int fds[2];

	iw_ctl_init(&m, IW_CTL_SETSOCKOPT, 0);
	m.stream_id = switched.m.stream_id;
	m.level = level;
	m.optname = name;
	m.optlen = (uint32_t)len;
	memcpy(m.val, val, len);
	lib_tell(&client, &m, -1);
	lib_reply(&client, client.seq, &r, IW_CTL_OPT, fds);
	return r.error;
}

static int setup_alone(void)
{
	int status;

	names_read();
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(seen, MAP_FAILED);
	if (!fork())
		alone();
	return wait(&status) < 0 || status;
}

static int setup(void **state)
{
	uint16_t port;
	int l, c, s;

	if (geteuid())
		return 0;
	l = tcp_listen(&port);
	if (!seen)
		assert_int_equal(setup_alone(), 0);
	server = lib_new();
	client = lib_new();
	c = tcp_connect(port);
	s = accept(l, NULL, NULL);
	lib_propose(&server, s, 1, true);
	lib_propose(&client, c, 1, false);	/* so it goes first */
	switched = lib_switch_to(&client, 1, c);
	close(l);
	return 0;
}

static bool for_want_of_a_right(int err)
{
	return err == EPERM || err == EACCES;
}

static void no_option_is_lent(void **state)
{
	unsigned int refused = 0;

	if (geteuid())
		skip();
	for (unsigned int l = 0; l < NLEVELS; l++)
		for (int n = 0; n < NAMES; n++)
			for (unsigned int v = 0; v < NVALUES; v++) {
				int err;

				if (!for_want_of_a_right(seen->alone[l][n][v]))
					continue;
				refused++;
				err = set(levels[l], n, &values[v], sizeof(int));
				if (!err)
					fail_msg("level %d, option %d, value %d: an ordinary user may not, the daemon does", levels[l], n, values[v]);
			}
	assert_true(refused > 0);	/* SO_MARK at least */
}

static void no_congestion_control_is_lent(void **state)
{
	if (geteuid())
		skip();
	for (unsigned int i = 0; i < nnames; i++) {
		int err = set(IPPROTO_TCP, 13, names[i], strlen(names[i]));

		if (err != seen->congestion[i])
			fail_msg("%s: %s for an ordinary user, %s by the daemon", names[i], strerror(seen->congestion[i]), strerror(err));
	}
}

/* As in the shipped unit: without capabilities, and without /proc/sys. */
static int bare_start(void **state)
{
	if (setup_alone() || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("proc", "/proc", "proc", 0, "subset=pid") || !access("/proc/sys", F_OK) || prctl(PR_CAPBSET_DROP, CAP_NET_ADMIN) ||
	    prctl(PR_CAPBSET_DROP, CAP_NET_RAW))
		return -1;
	return daemon_start(state);
}

static pid_t bare;

/* A process of its own, since it does not come back from there. */
static void bare_run(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_setup(no_congestion_control_is_lent, setup) };
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	bare = fork();
	if (bare)
		return;
	dup2(null, STDOUT_FILENO);
	exit(cmocka_run_group_tests(tests, bare_start, daemon_stop));
}

static void nor_withheld(void **state)
{
	int status;

	if (geteuid())
		skip();
	assert_int_equal(waitpid(bare, &status, 0), bare);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(no_option_is_lent, setup), cmocka_unit_test(no_congestion_control_is_lent),
		cmocka_unit_test(nor_withheld),
	};

	own_net();
	if (!geteuid())
		bare_run();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, daemon_start, daemon_stop);
}
