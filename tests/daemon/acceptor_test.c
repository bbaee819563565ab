/* SPDX-License-Identifier: MIT */
/* A listening socket that somebody else keeps, as systemd does: one daemon after another takes connections from it. */
#include "util.h"

#include "daemon/base/acceptor.h"

#define TIMES	20

static int came = -1;

static void take(int fd)
{
	assert_int_equal(came, -1);
	came = fd;
}

static bool has_come(void *arg)
{
	return came >= 0;
}

static bool is_idle(void *arg)
{
	return !((struct acceptor *)arg)->op.busy;
}

static int listener(int family, struct sockaddr_storage *a, socklen_t *len)
{
	int l = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memset(a, 0, sizeof(*a));
	a->ss_family = (sa_family_t)family;
	*len = family == AF_UNIX ? sizeof(sa_family_t) : sizeof(struct sockaddr_in);
	assert_true(l >= 0);
	assert_int_equal(bind(l, (struct sockaddr *)a, *len), 0);
	assert_int_equal(listen(l, 8), 0);
	*len = sizeof(*a);
	assert_int_equal(getsockname(l, (struct sockaddr *)a, len), 0);
	return l;
}

/* Of those who come while nobody is there the next one takes care. */
static void one_after_another(int family)
{
	struct sockaddr_storage a;
	socklen_t len;
	int l = listener(family, &a, &len);

	for (int i = 0; i < TIMES; i++) {
		struct acceptor acc = { .what = "a test", .fn = take, .fd = -1 };
		int c = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (i % 2)
			assert_int_equal(connect(c, (struct sockaddr *)&a, len), 0);
		acceptor_start(&acc, dup(l));
		if (!(i % 2))
			assert_int_equal(connect(c, (struct sockaddr *)&a, len), 0);
		run_until(has_come, NULL);
		close(came);
		came = -1;
		close(c);
		acceptor_stop(&acc);
		acceptor_stop(&acc);
		run_until(is_idle, &acc);
	}
	close(l);
}

static void tcp(void **state)
{
	one_after_another(AF_INET);
}

static void unix_socket(void **state)
{
	one_after_another(AF_UNIX);
}

/* Of a socket that nobody else has nothing is left. */
static void own(void **state)
{
	struct acceptor acc = { .what = "a test", .fn = take, .fd = -1 };
	struct sockaddr_storage a;
	socklen_t len;
	int c = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	acceptor_start(&acc, listener(AF_INET, &a, &len));
	acceptor_stop(&acc);
	run_until(is_idle, &acc);
	assert_int_equal(connect(c, (struct sockaddr *)&a, len), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_int_equal(came, -1);
	close(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(tcp), cmocka_unit_test(unix_socket), cmocka_unit_test(own) };
	int ret;

	log_init(LOG_WARNING, 1);
	if (engine_init())
		return 1;
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	engine_fini();
	return ret;
}
