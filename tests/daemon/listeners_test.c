/* SPDX-License-Identifier: MIT */
/* Registered listeners: whose connections each of them takes; that what one user registers makes no look-up longer. */
#include "cm_util.h"
#include "util.h"

#include <time.h>

#include "daemon/cm/listeners.h"

#define EACH	4096u	/* of one program (daemon/cm/listeners.c) */
#define LOOKS	2000u

static struct client c;
static struct client_priv priv;

static int setup(void **state)
{
	priv = (struct client_priv){ .self = &c };
	c = (struct client){ .pid = getpid(), .uid = 1000, .priv = &priv };
	list_init(&priv.listeners);
	return 0;
}

static int teardown(void **state)
{
	listeners_client_gone(&c);
	return prm_user_get(1000)->records || priv.nlisteners ? -1 : 0;
}

static struct iw_addr address(const char *text, uint16_t port)
{
	struct iw_addr a = { .port = port, .family = strchr(text, ':') ? AF_INET6 : AF_INET };
	uint8_t v4[4];

	if (a.family == AF_INET6) {
		assert_int_equal(inet_pton(AF_INET6, text, a.ip), 1);
	} else {
		assert_int_equal(inet_pton(AF_INET, text, v4), 1);
		iw_ip_from_v4(a.ip, v4);
	}
	return a;
}

/* Binds, registers and closes: the table has what was said to it. */
static uint64_t registered(const struct iw_addr *a, int v6only)
{
	struct sockaddr_storage ss;
	socklen_t len = iw_addr_to_sockaddr(a, &ss);
	int fd = socket(a->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint64_t cookie;

	assert_true(fd >= 0);
	if (a->family == AF_INET6)
		assert_int_equal(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)), 0);
	assert_int_equal(bind(fd, (void *)&ss, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(listener_add(&c, fd, &cookie), IW_REASON_ACCELERATED);
	close(fd);
	return cookie;
}

static bool match(const char *text, uint16_t port)
{
	struct iw_addr a = address(text, port);

	return listener_match(&a);
}

/* Which of these a listener there takes. */
static const char *const to[] = { "127.0.0.1", "127.0.0.2", "::1", "::2", "0.0.0.0", "::" };

static void takes(const char *text, int v6only, const char *want)
{
	struct iw_addr a = address(text, 7000);
	uint64_t first = registered(&a, v6only), second = registered(&a, v6only);

	for (unsigned int gone = 0; gone < 3; gone++) {
		for (unsigned int i = 0; i < sizeof(to) / sizeof(*to); i++) {
			if (match(to[i], 7000) != (gone < 2 && want[i] == 'y'))
				fail_msg("%s, v6only %d, %u of two gone: %s", text, v6only, gone, to[i]);
			assert_false(match(to[i], 7001));
			assert_false(match(to[i], 7000 + 1024));
		}
		listener_del(&c, gone ? second : first);
	}
}

static void whose_connections(void **state)
{
	takes("127.0.0.1", 0, "ynnnnn");
	takes("0.0.0.0", 0, "yynnyn");
	if (access("/proc/net/if_inet6", F_OK))
		return;
	takes("::ffff:127.0.0.1", 0, "ynnnnn");
	takes("::ffff:0.0.0.0", 0, "yynnyn");
	takes("::1", 0, "nnynnn");
	takes("::", 1, "nnyyny");
	takes("::", 0, "yyyyyy");
}

/* Of what the engine does for a question about another address and port. The least of some tries: others use the processor, too. */
static uint64_t cost(const struct iw_addr *a)
{
	struct timespec from, until;
	uint64_t least = UINT64_MAX, ns;

	for (unsigned int try = 0; try < 10; try++) {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
		for (unsigned int i = 0; i < LOOKS; i++)
			assert_false(listener_match(a));
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &until);
		ns = (uint64_t)(until.tv_sec - from.tv_sec) * 1000000000 + (uint64_t)until.tv_nsec - (uint64_t)from.tv_nsec;
		least = ns < least ? ns : least;
	}
	return least;
}

static void many(void (*next)(struct iw_addr *a, unsigned int k), const struct iw_addr *looked, int v6only)
{
	struct iw_addr a = { 0 };
	uint64_t few = 0, all;

	for (unsigned int k = 1; k <= EACH; k++) {
		next(&a, k);
		registered(&a, v6only);
		if (k == EACH / 64)
			few = cost(looked);
	}
	all = cost(looked);
	if (all > 10 * few + 100000)
		fail_msg("%u questions take %llu ns among %u listeners, %llu among %u", LOOKS, (unsigned long long)all, EACH, (unsigned long long)few, EACH / 64);
}

static void other_addresses(struct iw_addr *a, unsigned int k)
{
	*a = address("127.1.0.0", 7012);
	a->ip[14] = (uint8_t)(k >> 8);
	a->ip[15] = (uint8_t)k;
}

static void at_one_port(void **state)
{
	const struct iw_addr other = address("127.0.0.1", 7012);

	many(other_addresses, &other, 0);
}

static void the_same(struct iw_addr *a, unsigned int k)
{
	*a = address(k % 2 ? "::" : "::1", 7012);
}

/* One address over and over, of the other family than what is looked for. */
static void at_one_address(void **state)
{
	const struct iw_addr other = address("127.0.0.1", 7012);

	if (access("/proc/net/if_inet6", F_OK))
		skip();
	many(the_same, &other, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = { T(whose_connections), T(at_one_port), T(at_one_address) };

	own_net();
	conf_default(&conf);
	log_init(0, 1);
	if (engine_init())
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
