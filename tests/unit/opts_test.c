// SPDX-License-Identifier: MIT
/* Options, names, ioctl and waiting: what TCP answers, a stream answers. See data_test.c. */
#include "data_env.h"

static void x_get(int level, int name, const char *text, int how)
{
	unsigned char v[256] = { 0 };
	socklen_t l = sizeof(v);
	int r = getsockopt(a, level, name, v, &l), first;

	step(text, r);
	if (r < 0)
		return;
	memcpy(&first, v, sizeof(first));
	if (how)
		say("\tlen %u value %d\n", l, how > 1 ? !!first : first);
}

static void x_set(int level, int name, const char *text, int v)
{
	char what[64];

	snprintf(what, sizeof(what), "set %s %d", text, v);
	step(what, setsockopt(a, level, name, &v, sizeof(v)));
	x_get(level, name, text, 1);
}

#define GET(level, name) x_get(level, name, #name, 1)
#define SET(level, name, v) x_set(level, name, #name, v)

static void options(void)
{
	GET(SOL_SOCKET, SO_TYPE);
	GET(SOL_SOCKET, SO_DOMAIN);
	GET(SOL_SOCKET, SO_PROTOCOL);
	GET(SOL_SOCKET, SO_ACCEPTCONN);
	GET(SOL_SOCKET, SO_ERROR);
	GET(SOL_SOCKET, SO_PEERCRED);
	GET(SOL_SOCKET, SO_PEERGROUPS);
	GET(SOL_SOCKET, SO_PASSCRED);
	GET(SOL_SOCKET, SO_LINGER);
	GET(SOL_SOCKET, SO_TIMESTAMP);
	GET(SOL_SOCKET, SO_ZEROCOPY);
	GET(SOL_SOCKET, SO_OOBINLINE);
	GET(SOL_SOCKET, SO_RCVLOWAT);
	GET(SOL_SOCKET, SO_SNDLOWAT);
	GET(SOL_SOCKET, 9999);
	GET(9999, 1);
	GET(IPPROTO_TCP, 9999);
	GET(IPPROTO_TCP, TCP_NODELAY);
	GET(IPPROTO_TCP, TCP_CORK);
	GET(IPPROTO_TCP, TCP_NOTSENT_LOWAT);
	x_get(IPPROTO_TCP, TCP_MAXSEG, "TCP_MAXSEG", 2);
	x_get(IPPROTO_TCP, TCP_CONGESTION, "TCP_CONGESTION", 1);
	GET(IPPROTO_TCP, TCP_ULP);
	GET(IPPROTO_IP, IP_TTL);
	GET(IPPROTO_IPV6, IPV6_V6ONLY);
	SET(SOL_SOCKET, SO_KEEPALIVE, 1);
	SET(SOL_SOCKET, SO_REUSEADDR, 1);
	SET(SOL_SOCKET, SO_BROADCAST, 1);
	SET(SOL_SOCKET, SO_PRIORITY, 3);
	SET(SOL_SOCKET, SO_OOBINLINE, 1);
	SET(SOL_SOCKET, SO_OOBINLINE, 0);
	SET(SOL_SOCKET, SO_SNDBUF, 20000);
	SET(SOL_SOCKET, SO_SNDBUF, 1);
	SET(SOL_SOCKET, SO_RCVBUF, 30000);
	SET(SOL_SOCKET, SO_RCVLOWAT, 5);
	SET(SOL_SOCKET, SO_RCVLOWAT, 1);
	SET(SOL_SOCKET, SO_TYPE, 1);
	SET(SOL_SOCKET, SO_ERROR, 1);
	SET(SOL_SOCKET, 9999, 1);
	SET(IPPROTO_TCP, TCP_NODELAY, 1);
	SET(IPPROTO_TCP, TCP_NODELAY, 0);
	SET(IPPROTO_TCP, TCP_CORK, 7);
	SET(IPPROTO_TCP, TCP_CORK, 0);
	SET(IPPROTO_TCP, TCP_KEEPIDLE, 33);
	SET(IPPROTO_TCP, TCP_KEEPIDLE, 0);
	SET(IPPROTO_TCP, TCP_USER_TIMEOUT, 12345);
	SET(IPPROTO_TCP, TCP_NOTSENT_LOWAT, 4096);
	SET(IPPROTO_IP, IP_TOS, 0x10);
	SET(IPPROTO_IP, IP_TTL, 0);
	step("ulp", setsockopt(a, IPPROTO_TCP, TCP_ULP, "nonesuch", 8));
	step("congestion", setsockopt(a, IPPROTO_TCP, TCP_CONGESTION, "nonesuch", 8));
	step("short", setsockopt(a, IPPROTO_TCP, TCP_NODELAY, "a", 1));
	step("short", setsockopt(a, SOL_SOCKET, SO_KEEPALIVE, "a", 1));
	step("null", setsockopt(a, IPPROTO_TCP, TCP_NODELAY, NULL, 4));
	step("null", setsockopt(a, SOL_SOCKET, SO_KEEPALIVE, NULL, 4));
}

static void option_lengths(void)
{
	static int heap[4];	/* not on the stack */
	struct timeval tv = { 1, 500000 }, got;
	struct tcp_info ti = { 0 };
	socklen_t l = 2;

	step("get 2", getsockopt(a, IPPROTO_TCP, TCP_NODELAY, heap, &l));
	say("\t%u\n", l);
	l = 0;
	step("get 0", getsockopt(a, SOL_SOCKET, SO_TYPE, heap, &l));
	say("\t%u\n", l);
	l = (socklen_t)-1;
	step("get -1", getsockopt(a, SOL_SOCKET, SO_PROTOCOL, heap, &l));
	l = 4;
	step("null", getsockopt(a, SOL_SOCKET, SO_DOMAIN, NULL, &l));
	step("null len", getsockopt(a, SOL_SOCKET, SO_DOMAIN, heap, NULL));
	step("bad", getsockopt(a, SOL_SOCKET, SO_DOMAIN, (void *)-4096, &l));
	step("set timeo", setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	l = sizeof(got);
	step("get timeo", getsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &got, &l));
	say("\t%u %ld %ld\n", l, (long)got.tv_sec, (long)got.tv_usec);
	l = sizeof(ti);
	step("info", getsockopt(a, IPPROTO_TCP, TCP_INFO, &ti, &l));
	say("\t%u state %u\n", l, ti.tcpi_state);
	x_shut(a, SHUT_WR);
	until(b, POLLRDHUP);
	l = sizeof(ti);
	getsockopt(a, IPPROTO_TCP, TCP_INFO, &ti, &l);
	say("\tstate %u\n", ti.tcpi_state == 4 ? 5 : ti.tcpi_state);	/* FIN_WAIT1 until the FIN is acknowledged */
	l = sizeof(ti);
	getsockopt(b, IPPROTO_TCP, TCP_INFO, &ti, &l);
	say("\tstate %u\n", ti.tcpi_state);
}

static void names(void)
{
	static char room[64];
	socklen_t l = sizeof(room);

	x_name(a);
	x_name(b);
	l = 4;
	step("short", getsockname(a, (void *)room, &l));
	say("\t%u %d\n", l, room[0]);
	l = (socklen_t)-1;
	step("negative", getpeername(a, (void *)room, &l));
	l = 16;
	step("null", getpeername(a, NULL, &l));
	step("null len", getsockname(a, (void *)room, NULL));
	l = 0;
	step("zero", getpeername(a, NULL, &l));
	say("\t%u\n", l);
}

static void x_ioctl(int fd, unsigned long req, const char *text, int in)
{
	int v = in;

	step(text, ioctl(fd, req, &v));
	say("\t%d\n", v);
}

static void ioctls(void)
{
	char ifr[40] = "lo";

	x_ioctl(a, FIONREAD, "FIONREAD", -1);
	x_ioctl(a, TIOCOUTQ, "SIOCOUTQ", -1);
	x_ioctl(a, 0x894b, "SIOCOUTQNSD", -1);
	x_ioctl(a, 0x8905, "SIOCATMARK", -1);
	x_send(b, "abcd", 0);
	until(a, POLLIN);
	x_ioctl(a, FIONREAD, "FIONREAD", -1);
	x_ioctl(b, TIOCOUTQ, "SIOCOUTQ", -1);
	x_ioctl(a, FIONBIO, "FIONBIO", 1);
	say("\tflags %d\n", fcntl(a, F_GETFL) & O_NONBLOCK);
	x_ioctl(a, FIONBIO, "FIONBIO", 0);
	x_ioctl(a, 0x8901, "FIOSETOWN", getpid());
	x_ioctl(a, 0x5401, "TCGETS", 0);
	step("isatty", isatty(a));
	step("SIOCGIFINDEX", ioctl(a, 0x8933, ifr));
	step("SIOCGIFADDR", ioctl(a, 0x8915, ifr));
	step("SIOCGIFADDR bad", ioctl(a, 0x8915, NULL));
	step("SIOCGSTAMP", ioctl(a, 0x8906, ifr));
	x_ioctl(a, 0x89e0, "SIOCUNIXFILE", 0);
	x_ioctl(a, 0x1234, "no such", 0);
	step("FIONREAD null", ioctl(a, FIONREAD, NULL));
	step("SIOCOUTQ null", ioctl(a, TIOCOUTQ, NULL));
	x_shut(b, SHUT_WR);
	until(a, POLLRDHUP);
	x_ioctl(a, FIONREAD, "FIONREAD", -1);
	x_recv(a, 9, 0);
	x_ioctl(a, FIONREAD, "FIONREAD", -1);
}

static void urgent(void)
{
	int v;

	x_send(b, "abcX", MSG_OOB);
	until(a, POLLPRI);
	events(a);
	x_ioctl(a, 0x8905, "SIOCATMARK", -1);
	x_recv(a, 9, 0);
	x_ioctl(a, 0x8905, "SIOCATMARK", -1);
	events(a);
	x_recv(a, 1, MSG_OOB);
	x_recv(a, 1, MSG_OOB);
	x_send(b, "def", 0);
	until(a, POLLIN);
	events(a);
	x_recv(a, 9, 0);
	v = 1;
	step("inline", setsockopt(a, SOL_SOCKET, SO_OOBINLINE, &v, sizeof(v)));
	x_send(b, "ghiY", MSG_OOB);
	x_send(b, "jk", 0);
	until(a, POLLPRI);
	x_recv(a, 9, 0);
	x_recv(a, 9, MSG_OOB);
	x_recv(a, 9, 0);
	events(a);
}

/* A wait for nothing but POLLHUP, or for POLLPRI: TCP does not end it when the peer closes. */
static void quiet_wait(void)
{
	struct pollfd p = { .fd = a };
	struct timespec t = { 0, 20000000 };

	drop(&b);
	until(a, POLLRDHUP);
	step("poll 0", poll(&p, 1, 20));
	step("ppoll 0", ppoll(&p, 1, &t, NULL));
	p.events = POLLPRI;
	step("poll PRI", poll(&p, 1, 0));
	p.events = POLLOUT;
	step("poll OUT", poll(&p, 1, -1));
	say("\t%x\n", p.revents);
	x_shut(a, SHUT_WR);
	until(a, POLLHUP);
	p.events = 0;
	step("poll 0", poll(&p, 1, -1));
	say("\t%x\n", p.revents);
}

/* poll with SO_RCVLOWAT wakes up for enough octets, or for the end. */
static void low_water(void)
{
	struct pollfd p = { .fd = a, .events = POLLIN | POLLRDHUP };
	int low = 6;

	step("lowat", setsockopt(a, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
	x_send(b, "abc", 0);
	until(a, POLLOUT);
	step("poll 3", poll(&p, 1, 30));
	p.events |= POLLOUT;
	step("poll 3", poll(&p, 1, 30));
	say("\t%x\n", p.revents);
	p.events = POLLIN | POLLRDHUP;
	x_send(b, "def", 0);
	step("poll 6", poll(&p, 1, 5000));
	say("\t%x\n", p.revents);
	x_recv(a, 6, 0);
	x_send(b, "g", 0);
	step("poll 1", poll(&p, 1, 30));
	x_shut(b, SHUT_WR);
	step("poll end", poll(&p, 1, 5000));
	say("\t%x\n", p.revents);
}

static void *send_twice(void *arg)
{
	for (int i = 0; i < 2; i++) {
		struct timespec t = { 0, 20000000 };

		nanosleep(&t, NULL);
		iw_real.send(b, "abc", 3, 0);
	}
	return NULL;
}

static void low_water_sleeps(void)
{
	struct pollfd p = { .fd = a, .events = POLLIN };
	int low = 6, have = 0;
	pthread_t t;

	step("lowat", setsockopt(a, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
	assert_false(pthread_create(&t, NULL, send_twice, NULL));
	step("poll", poll(&p, 1, 10000));
	ioctl(a, FIONREAD, &have);
	say("\t%x %d\n", p.revents, have);
	pthread_join(t, NULL);
}

static void selects(void)
{
	struct timeval t = { 0, 0 };
	fd_set r, w, e;
	int top = (a > b ? a : b) + 1;

#define ALL do { FD_ZERO(&r); FD_SET(a, &r); w = e = r; } while (0)
#define SHOW say("\t%d %d %d\n", !!FD_ISSET(a, &r), !!FD_ISSET(a, &w), !!FD_ISSET(a, &e))
	ALL;
	step("select", select(top, &r, &w, &e, &t));
	SHOW;
	x_send(b, "x", 0);
	until(a, POLLIN);
	ALL;
	step("select", select(top, &r, &w, &e, &t));
	SHOW;
	drop(&b);
	until(a, POLLRDHUP);
	ALL;
	step("pselect", pselect(top, &r, &w, &e, &(struct timespec){ 0, 0 }, NULL));
	SHOW;
	x_send(a, "x", 0);
	until(a, POLLHUP);
	ALL;
	step("select", select(top, &r, &w, &e, &t));
	SHOW;
}

static void remote_outq(void **state)
{
	int q = -1;

	remote_open();
	want(ioctl(a, TIOCOUTQ, &q), 0, 0);
	assert_int_equal(q, 0);
	want(send(a, "abc", 3, 0), 3, 0);
	want(ioctl(a, TIOCOUTQ, &q), 0, 0);
	assert_true(q > 0);
	assert_int_equal(iw_real.recv(d, &q, 3, 0), 3);
	atomic_store(&page->end[0].tx_taken, 3);
	want(ioctl(a, TIOCOUTQ, &q), 0, 0);
	assert_int_equal(q, 3);
	atomic_store(&page->end[0].tx_acked, 3);
	want(ioctl(a, TIOCOUTQ, &q), 0, 0);
	assert_int_equal(q, 0);
	remote_close();
}

/* What cannot be given is an error; what is asked often costs no message. */
static void remote_options(void **state)
{
	int v = 1;
	socklen_t l = sizeof(v);

	remote_open();
	want(setsockopt(a, SOL_SOCKET, SO_ZEROCOPY, &v, l), -1, EOPNOTSUPP);
	want(setsockopt(a, SOL_SOCKET, SO_TIMESTAMP, &v, l), -1, EOPNOTSUPP);
	want(setsockopt(a, IPPROTO_TCP, TCP_ULP, "tls", 3), -1, ENOENT);
	want(setsockopt(a, IPPROTO_TCP, TCP_REPAIR, &v, l), -1, EPERM);
	rpcs = 0;
	want(setsockopt(a, IPPROTO_TCP, TCP_NODELAY, &v, l), 0, 0);
	want(setsockopt(a, IPPROTO_TCP, TCP_CORK, &v, l), 0, 0);
	want(getsockopt(a, SOL_SOCKET, SO_ERROR, &v, &l), 0, 0);
	want(getsockopt(a, SOL_SOCKET, SO_DOMAIN, &v, &l), 0, 0);
	assert_int_equal(v, AF_INET);
	assert_int_equal(rpcs, 0);
	v = 1;
	want(setsockopt(a, SOL_SOCKET, SO_KEEPALIVE, &v, l), 0, 0);
	assert_int_equal(rpcs, 1);
	v = 0;
	iw_real.getsockopt(ta, SOL_SOCKET, SO_KEEPALIVE, &v, &l);
	assert_int_equal(v, 1);
	/* without a daemon: the kernel's verdict and initial values */
	no_daemon = true;
	want(getsockopt(a, IPPROTO_TCP, TCP_KEEPIDLE, &v, &l), 0, 0);
	assert_true(v > 0);
	want(getsockopt(a, IPPROTO_TCP, 9999, &v, &l), -1, ENOPROTOOPT);
	want(setsockopt(a, IPPROTO_TCP, TCP_KEEPIDLE, &v, 2), -1, EINVAL);
	no_daemon = false;
	remote_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DUAL(options), DUAL(option_lengths), DUAL(names), DUAL(ioctls), DUAL(urgent), DUAL(quiet_wait), DUAL(low_water),
		DUAL(low_water_sleeps), DUAL(selects), cmocka_unit_test(remote_outq), cmocka_unit_test(remote_options),
	};

	return data_main("opts", tests, sizeof(tests) / sizeof(tests[0]));
}
