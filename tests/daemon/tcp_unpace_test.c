// SPDX-License-Identifier: MIT
/* T of a stream over RDMAP: reno in the place of BBR where the path is short, of which the application notices nothing. */
#include "util.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <net/if.h>

#include "daemon/stream/tcp.h"

static bool bbr;	/* this kernel has it */

/* Of the namespace that this program runs in. */
static bool system_has(const char *name)
{
	int fd = open("/proc/sys/net/ipv4/tcp_congestion_control", O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, name, strlen(name)) == (ssize_t)strlen(name);

	close(fd);
	return ok;
}

static void is(int fd, const char *want)
{
	char now[16] = "";
	socklen_t len = sizeof(now);

	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, now, &len), 0);
	assert_string_equal(now, want);
}

static void told(int fd, const struct tcp_kept *k, const char *want)
{
	char now[16];
	socklen_t len = sizeof(now);

	memset(now, 'x', sizeof(now));
	assert_int_equal(tcp_get(fd, k, IPPROTO_TCP, TCP_CONGESTION, now, &len), 0);
	assert_int_equal(len, sizeof(now));
	assert_string_equal(now, want);
}

/* A connection that has measured its path. */
static void connected(int v[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char c = 0;

	assert_int_equal(bind(l, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(l, 1), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
	v[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(v[0], (struct sockaddr *)&a, sizeof(a)), 0);
	v[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	assert_true(v[1] >= 0);
	close(l);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(send(v[i & 1], &c, 1, 0), 1);
		assert_int_equal(recv(v[!(i & 1)], &c, 1, 0), 1);
	}
}

static struct tcp_info info(int fd)
{
	struct tcp_info i = { 0 };
	socklen_t len = sizeof(i);

	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len), 0);
	return i;
}

/* So much that BBR believes to know the path, which is then its threshold. */
static void much(const int v[2])
{
	static char c[65536];

	for (int i = 0; i < 2000 && info(v[0]).tcpi_snd_ssthresh >= 1 << 20; i++) {
		while (send(v[0], c, sizeof(c), MSG_DONTWAIT) > 0)
			;
		while (recv(v[1], c, sizeof(c), MSG_DONTWAIT) > 0)
			;
	}
	print_message("threshold %u\n", info(v[0]).tcpi_snd_ssthresh);
	assert_true(info(v[0]).tcpi_snd_ssthresh < 1 << 20);
}

static void kept(int fd, struct tcp_kept *k)
{
	tcp_look(fd, k);
	tcp_keep(fd, k);
	tcp_unpace(fd, k, false);
}

static void paced(void **state)
{
	struct tcp_kept k;
	char name[4];
	socklen_t len = sizeof(name);
	int v[2];

	if (!bbr) {
		print_message("no BBR in this kernel: nothing to take its place\n");
		return;
	}
	assert_true(system_has("bbr"));
	connected(v);
	much(v);
	kept(v[0], &k);
	print_message("round trip %u us\n", info(v[0]).tcpi_min_rtt);
	is(v[0], "reno");
	assert_true(info(v[0]).tcpi_snd_ssthresh >= 1 << 20);
	told(v[0], &k, "bbr");
	is(v[1], "bbr");
	assert_int_equal(tcp_get(v[0], &k, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);	/* no more room than that */
	assert_memory_equal(name, "bbr", 4);
	assert_int_equal(len, 4);
	/* another option is set, and one that there is not: as before */
	assert_int_equal(tcp_set(v[0], &k, IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int)), 0);
	assert_int_equal(tcp_set(v[0], &k, IPPROTO_TCP, TCP_CONGESTION, "nonesuch", 8), -ENOENT);
	is(v[0], "reno");
	told(v[0], &k, "bbr");
	/* what the application sets is what it has */
	assert_int_equal(tcp_set(v[0], &k, IPPROTO_TCP, TCP_CONGESTION, "bbr", 3), 0);
	is(v[0], "bbr");
	told(v[0], &k, "bbr");
	close(v[0]);
	close(v[1]);
}

/* Of many at a time the others keep what they have, until one of those that have reno ends. */
static void many(void **state)
{
	struct tcp_kept k[TCP_UNPACED + 2];
	int v[TCP_UNPACED + 2][2];

	if (!bbr)
		return;
	assert_true(system_has("bbr"));
	for (unsigned int i = 0; i < TCP_UNPACED + 2; i++) {
		connected(v[i]);
		if (i > TCP_UNPACED)
			tcp_forget(&k[0]);
		kept(v[i][0], &k[i]);
		is(v[i][0], i == TCP_UNPACED ? "bbr" : "reno");
		told(v[i][0], &k[i], "bbr");
	}
	for (unsigned int i = 0; i < TCP_UNPACED + 2; i++) {
		tcp_forget(&k[i]);
		close(v[i][0]);
		close(v[i][1]);
	}
}

/* Places that were promised are nobody else's; and one that has the promise counts, whatever becomes of its algorithm. */
static void promises(void **state)
{
	struct tcp_kept k[2] = { 0 };
	int v[2][2];

	if (!bbr)
		return;
	assert_true(system_has("bbr"));
	for (unsigned int i = 0; i < 2; i++)
		connected(v[i]);
	for (unsigned int i = 0; i < TCP_UNPACED; i++) {
		assert_true(tcp_unpace_room());
		tcp_unpace_promise(true);
	}
	assert_false(tcp_unpace_room());
	kept(v[0][0], &k[0]);
	is(v[0][0], "bbr");
	assert_false(k[0].unpaced);
	tcp_unpace(v[0][0], &k[0], true);
	tcp_unpace_promise(false);
	is(v[0][0], "reno");
	assert_false(tcp_unpace_room());
	setsockopt(v[1][0], IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	tcp_unpace(v[1][0], &k[1], true);
	tcp_unpace_promise(false);
	assert_true(k[1].unpaced);
	told(v[1][0], &k[1], "reno");
	assert_false(tcp_unpace_room());
	for (unsigned int i = 2; i < TCP_UNPACED; i++)
		tcp_unpace_promise(false);
	assert_true(tcp_unpace_room());
	for (unsigned int i = 0; i < 2; i++) {
		tcp_forget(&k[i]);
		close(v[i][0]);
		close(v[i][1]);
	}
}

/* Those of a daemon before us count, too, and only as long as they last. */
static void before_us(void **state)
{
	struct tcp_kept k[TCP_UNPACED + 1] = { 0 };

	for (unsigned int i = 0; i < TCP_UNPACED; i++) {
		assert_true(tcp_unpace_room());
		k[i].unpaced = true;
		tcp_unpaced_before(&k[i]);
	}
	tcp_unpaced_before(&k[TCP_UNPACED]);	/* it was none of them */
	tcp_forget(&k[TCP_UNPACED]);
	assert_false(tcp_unpace_room());
	for (unsigned int i = 0; i < TCP_UNPACED; i++) {
		tcp_forget(&k[i]);
		tcp_forget(&k[i]);
	}
	for (unsigned int i = 0; i < TCP_UNPACED; i++) {
		assert_true(tcp_unpace_room());
		tcp_unpace_promise(true);
	}
	assert_false(tcp_unpace_room());
	for (unsigned int i = 0; i < TCP_UNPACED; i++)
		tcp_unpace_promise(false);
}

static void chosen(void **state)
{
	struct tcp_kept k;
	int v[2];

	if (!bbr)
		return;
	assert_true(system_has("reno"));
	connected(v);
	assert_int_equal(setsockopt(v[0], IPPROTO_TCP, TCP_CONGESTION, "bbr", 3), 0);
	kept(v[0], &k);
	is(v[0], "bbr");
	told(v[0], &k, "bbr");
	close(v[0]);
	close(v[1]);
}

static void not_paced(void **state)
{
	struct tcp_kept k;
	int v[2];

	assert_true(system_has("reno"));
	connected(v);
	kept(v[0], &k);
	is(v[0], "reno");
	told(v[0], &k, "reno");
	assert_int_equal(k.congestion[0], 0);
	close(v[0]);
	close(v[1]);
}

static void not_measured(void **state)
{
	struct tcp_kept k = { 0 };
	int fd;

	if (!bbr)
		return;
	assert_true(system_has("bbr"));
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	tcp_unpace(fd, &k, false);
	is(fd, "bbr");
	assert_int_equal(k.congestion[0], 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paced), cmocka_unit_test(many), cmocka_unit_test(promises), cmocka_unit_test(before_us), cmocka_unit_test(chosen), cmocka_unit_test(not_paced), cmocka_unit_test(not_measured),
	};
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd;

	if (geteuid() || unshare(CLONE_NEWNET)) {
		puts("1..0 # SKIP needs root for a network namespace");
		return 0;
	}
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (ioctl(fd, SIOCSIFFLAGS, &lo))
		return 1;
	close(fd);
	bbr = system_has("bbr");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
