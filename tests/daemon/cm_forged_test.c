/* SPDX-License-Identifier: MIT */
/* Offers whose library says where they go to, while the kernel does not know yet: what it says is nobody else's connection. */
#include "cm_util.h"

struct world {
	struct lib server, client, attacker;
	int listener, hole, keep[3];
	uint16_t port, hole_port;
};
static struct world w;

static int begin(uint16_t from, uint16_t to)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(from) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	assert_int_equal(bind(fd, (void *)&a, sizeof(a)), 0);
	a.sin_port = htons(to);
	connect(fd, (void *)&a, sizeof(a));
	return fd;
}

static int setup(void **state)
{
	w.server = lib_new();
	w.client = lib_new();
	w.attacker = lib_new();
	w.listener = tcp_listen(&w.port);
	assert_int_equal(lib_listen(&w.server, w.listener).result, 0);
	w.hole = tcp_listen(&w.hole_port);
	listen(w.hole, 0);
	for (int i = 0; i < 3; i++)	/* from now on nobody's connect gets an answer there */
		w.keep[i] = begin(0, w.hole_port);
	return 0;
}

static int teardown(void **state)
{
	lib_free(&w.server);
	lib_free(&w.client);
	lib_free(&w.attacker);
	close(w.listener);
	close(w.hole);
	for (int i = 0; i < 3; i++)
		close(w.keep[i]);
	return 0;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	assert_int_equal(getsockname(fd, (void *)&a, &len), 0);
	return ntohs(a.sin_port);
}

/* The victim's connection, and a socket of the attacker's with the same local name, which gets nowhere. */
static void pair(int *c, int *s, int *t)
{
	struct pollfd p = { .events = POLLOUT };

	*c = begin(0, w.port);
	p.fd = *c;
	assert_int_equal(poll(&p, 1, 20000), 1);
	*s = accept(w.listener, NULL, NULL);
	assert_true(*s >= 0);
	*t = begin(port_of(*c), w.hole_port);
}

static struct answer forge(int t)
{
	struct iw_ctl_conn m;

	iw_ctl_init(&m, IW_CTL_OFFER, 0);
	m.conn_id = 1;
	m.peer = loopback(w.port);
	m.flags = IW_CONN_CLIENT;
	m.fd = t;
	lib_tell(&w.attacker, &m, t);
	return lib_answer(&w.attacker);
}

static void close_all(int c, int s, int t)
{
	close(c);
	close(s);
	close(t);
}

/* A client without the library: its connection is plain, whoever says that it is his. */
static void committed(void **state)
{
	struct answer f, k;
	int c, s, t;

	pair(&c, &s, &t);
	f = forge(t);
	if (!f.m.result)
		lib_id(&w.attacker, IW_CTL_COMMIT, f.m.stream_id);
	lib_sync(&w.attacker);
	k = lib_conn(&w.server, IW_CTL_CLAIM, s);
	assert_int_equal(k.m.result, 1);
	assert_string_equal(iw_reason_name(k.m.reason), iw_reason_name(IW_REASON_TUPLE_UNKNOWN));
	answer_close(&f);
	close_all(c, s, t);
}

/* A client with the library: nothing of its own set-up is in the way. */
static void does_not_block(bool commit)
{
	struct answer f, o, k;
	char buf[8];
	int c, s, t;

	pair(&c, &s, &t);
	f = forge(t);
	if (commit && !f.m.result) {
		lib_id(&w.attacker, IW_CTL_COMMIT, f.m.stream_id);
		lib_sync(&w.attacker);
	}
	o = lib_conn(&w.client, IW_CTL_OFFER, c);
	assert_int_equal(o.m.result, 0);
	lib_id(&w.client, IW_CTL_COMMIT, o.m.stream_id);
	lib_sync(&w.client);
	k = lib_conn(&w.server, IW_CTL_CLAIM, s);
	assert_int_equal(k.m.result, 0);
	assert_int_equal(k.m.stream_id, o.m.stream_id);
	assert_int_equal(send(o.fds[0], "mine", 4, 0), 4);
	assert_int_equal(recv(k.fds[0], buf, sizeof(buf), 0), 4);
	assert_memory_equal(buf, "mine", 4);
	answer_close(&f);
	answer_close(&o);
	answer_close(&k);
	close_all(c, s, t);
}

static void offered_in_its_name(void **state)
{
	does_not_block(false);
}

static void committed_in_its_name(void **state)
{
	does_not_block(true);
}

/* A claim does not wait for it, as it does for an offer that is about to be committed. */
static void claim_does_not_wait(void **state)
{
	struct answer f, k;
	int c, s, t;

	pair(&c, &s, &t);
	f = forge(t);
	k = lib_conn(&w.server, IW_CTL_CLAIM, s);
	assert_int_equal(k.m.result, 1);
	assert_string_equal(iw_reason_name(k.m.reason), iw_reason_name(IW_REASON_TUPLE_UNKNOWN));
	answer_close(&f);
	close_all(c, s, t);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(committed), T(offered_in_its_name), T(committed_in_its_name), T(claim_does_not_wait),
	};

	own_net();
	d.option = "answer_timeout=200";
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, daemon_start, daemon_stop);
}
