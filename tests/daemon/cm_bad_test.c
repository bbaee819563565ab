/* SPDX-License-Identifier: MIT */
/* Bad input on the control socket and the control port closes that one peer, with a log line, and nobody else notices. */
#include "cm_util.h"

#include <sys/random.h>
#include <sys/resource.h>

#include "proto/crc32c.h"
#include "proto/mpa.h"
#include "proto/session.h"

/* ---- the control socket ---- */

static void expect_closed(int s)
{
	uint8_t buf[IW_CTL_MAX];
	int fds[2];

	assert_true(recv_fds(s, buf, sizeof(buf), fds) <= 0);
	assert_true(errno != EAGAIN);
	close(s);
}

static void alive(void)
{
	struct lib l = lib_new();

	lib_sync(&l);
	lib_free(&l);
}

static void hello_make(struct iw_ctl_hello *m)
{
	iw_ctl_init(m, IW_CTL_HELLO, 1);
	strcpy(m->program, "bad");
}

static void malformed_first(void **state)
{
	uint8_t junk[2000];
	struct iw_ctl_hello m;
	struct iw_ctl_hdr p;
	struct lib good = lib_new();
	int s;

	memset(junk, 0x5a, sizeof(junk));
	for (size_t len = 1; len <= sizeof(junk); len += 333) {
		s = lib_connect();
		send_fds(s, junk, len, NULL, 0);
		expect_closed(s);
	}
	hello_make(&m);
	s = lib_connect();
	send_fds(s, &m, sizeof(m) - 1, NULL, 0);
	expect_closed(s);

	memset(m.program, 'x', sizeof(m.program));	/* not terminated */
	s = lib_connect();
	send_fds(s, &m, sizeof(m), NULL, 0);
	expect_closed(s);

	iw_ctl_init(&p, IW_CTL_SYNC, 1);		/* before HELLO */
	s = lib_connect();
	send_fds(s, &p, sizeof(p), NULL, 0);
	expect_closed(s);
	assert_true(log_has("malformed message"));
	assert_true(log_has("SYNC out of order"));
	lib_sync(&good);
	lib_free(&good);
}

static void other_version(void **state)
{
	struct iw_ctl_hello m;
	struct iw_ctl_hello_ack a;
	int s = lib_connect(), fds[2];

	hello_make(&m);
	m.h.version++;
	send_fds(s, &m, sizeof(m), NULL, 0);
	assert_int_equal(recv_fds(s, &a, sizeof(a), fds), sizeof(a));
	assert_int_equal(a.result, IW_REASON_VERSION);
	expect_closed(s);
	alive();
}

static void second_hello(void **state)
{
	struct lib l = lib_new();
	struct iw_ctl_hello m;

	hello_make(&m);
	send_fds(l.s, &m, sizeof(m), NULL, 0);
	expect_closed(dup(l.s));
	lib_free(&l);
	alive();
}

static unsigned int daemon_fds(void)
{
	char path[64];
	unsigned int n = 0;

	for (int i = 0; i < 1024; i++) {
		struct stat st;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)d.pid, i);
		n += !lstat(path, &st);
	}
	return n;
}

/* Every descriptor that came with a bad message is closed again. */
static void too_many_fds(void **state)
{
	int fds[253], p[2];
	struct iw_ctl_hello m;
	struct iw_ctl_hdr q;
	char c;

	assert_int_equal(pipe(p), 0);
	for (int i = 0; i < 253; i++)
		fds[i] = p[1];
	for (unsigned int n = 1; n <= 253; n += n < 3 ? 1 : 250) {
		int s = lib_connect();
		struct lib l = lib_new();

		hello_make(&m);
		send_fds(s, &m, sizeof(m), fds, n);
		expect_closed(s);
		iw_ctl_init(&q, IW_CTL_SYNC, 1);
		send_fds(l.s, &q, sizeof(q), fds, n);
		expect_closed(dup(l.s));
		lib_free(&l);
	}
	close(p[1]);
	/* EOF comes when the last copy is closed */
	assert_int_equal(read(p[0], &c, 1), 0);
	close(p[0]);
	assert_true(log_has("too many descriptors"));
	alive();
}

static void until_files(unsigned int most)
{
	for (uint64_t until = now_ms() + 20000; daemon_fds() > most; sched_yield())
		assert_true(now_ms() < until);
}

static void random_messages(void **state)
{
	unsigned int seed, before;

	assert_int_equal(getrandom(&seed, sizeof(seed), 0), sizeof(seed));
	print_message("# seed %u\n", seed);
	alive();
	before = daemon_fds();
	for (int i = 0; i < 2000; i++) {
		struct lib l = lib_new();
		uint8_t msg[IW_CTL_MAX];
		unsigned int type = (unsigned int)rand_r(&seed) % 16;
		size_t len = iw_ctl_size(type);
		int fd = rand_r(&seed) % 2 ? l.peers_fd : -1;

		if (!len) {
			len = sizeof(struct iw_ctl_hdr);
			iw_ctl_init(msg, IW_CTL_SYNC, 1);
		} else {
			iw_ctl_init(msg, type, 1);
		}
		for (size_t k = sizeof(struct iw_ctl_hdr); k < len; k++)
			msg[k] = (uint8_t)(rand_r(&seed) % 3 ? 0 : rand_r(&seed));
		until_files(before + 32);	/* of those who pass more files than get closed, new programs are refused */
		send_fds(l.s, msg, len, &fd, fd >= 0);
		lib_free(&l);
	}
	alive();
	until_files(before + 2);
}

/* A client that asks and never reads its answers is closed before it costs anything. */
static void never_reads(void **state)
{
	struct lib l = lib_new();
	struct iw_ctl_hdr m;

	iw_ctl_init(&m, IW_CTL_SYNC, 1);
	while (send(l.s, &m, sizeof(m), MSG_NOSIGNAL) > 0)
		;
	assert_true(errno == EPIPE || errno == ECONNRESET);
	lib_free(&l);
	alive();
	assert_true(log_has("does not read its replies"));
}

/* One user's programs are as many as they are: the daemon's memory and its walks over them are everybody's. */
static void too_many_clients(void **state)
{
	enum { MAX = 8192 };		/* MAX_CLIENTS of daemon/cm/ctl.c */
	struct rlimit rl, was;
	static int s[MAX];
	unsigned int before = daemon_fds(), room;
	struct pollfd p = { .events = POLLIN };
	char refused[40];
	int n;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	rl = was;
	rl.rlim_cur = rl.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &rl), 0);
	/* where the daemon may have few files, half of what is not for itself (prm.c) is for one user */
	room = (unsigned int)(rl.rlim_max < 2 * MAX + 1024 ? (rl.rlim_max - 256 + 1) / 2 : MAX);
	n = (int)(room < MAX ? room : MAX);
	for (int i = 0; i < n; i++)
		s[i] = lib_connect();
	expect_closed(lib_connect());
	snprintf(refused, sizeof(refused), "has %d clients", n);
	assert_true(log_has(refused));
	p.fd = s[n - 1];
	assert_int_equal(poll(&p, 1, 0), 0);
	for (int i = 0; i < n; i++)
		close(s[i]);
	for (uint64_t until = now_ms() + 60000; daemon_fds() > before + 2; sched_yield())
		assert_true(now_ms() < until);
	setrlimit(RLIMIT_NOFILE, &was);
	alive();
}

/* ---- the control port ---- */

static int dial(void)
{
	struct timeval tv = { .tv_sec = 20 };
	int s = tcp_connect(d.port);

	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	return s;
}

static void expect_eof(int s)
{
	uint8_t buf[2000];
	ssize_t n;

	do	/* a Terminate may come first */
		n = recv(s, buf, sizeof(buf), 0);
	while (n > 0);
	assert_true(!n || errno == ECONNRESET);
	close(s);
}

static int request(const void *pd, size_t len, struct iw_mpa_frame *reply)
{
	struct iw_mpa_frame f = { .rev = 2, .crc = 1, .enhanced = 1, .p2p = 1, .rtr_write = 1, .ird = 1, .ord = 1, .pd_len = (uint16_t)len };
	uint8_t buf[IW_MPA_FRAME_MAX];
	size_t have = 0;
	int s = dial(), n;

	memcpy(f.pd, pd, len);
	n = iw_mpa_encode(&f, buf);
	assert_int_equal(send(s, buf, (size_t)n, MSG_NOSIGNAL), n);
	for (;;) {
		ssize_t r = recv(s, buf + have, sizeof(buf) - have, 0);

		if (r <= 0) {
			close(s);
			return -1;
		}
		have += (size_t)r;
		if (iw_mpa_decode(reply, buf, have, true) > 0)
			return s;
	}
}

static void fpdu(int s, const uint8_t *ulpdu, size_t len)
{
	uint8_t buf[1000] = { (uint8_t)(len >> 8), (uint8_t)len };
	size_t n = 2 + len + (-(2 + len) & 3);

	memcpy(buf + 2, ulpdu, len);
	iw_crc32c_put(buf + n, iw_crc32c(0, buf, n));
	assert_int_equal(send(s, buf, n + 4, MSG_NOSIGNAL), n + 4);
}

static void post(int s, uint32_t msn, const void *payload, size_t len)
{
	uint8_t u[900] = { 0x41, 0x43, [13] = (uint8_t)msn };

	memcpy(u + 18, payload, len);
	fpdu(s, u, 18 + len);
}

static void post_msg(int s, uint32_t msn, struct iw_sm m)
{
	uint8_t out[IW_SM_MAX];

	m.seq = msn;
	post(s, msn, out, (size_t)iw_sm_encode(&m, out));
}

/* The next message of the daemon. */
static struct iw_sm next_msg(int s)
{
	uint8_t buf[1000];
	struct iw_sm m;
	size_t len;

	assert_int_equal(recv(s, buf, 2, MSG_WAITALL), 2);
	len = (size_t)(buf[0] << 8 | buf[1]);
	assert_true(len < 900);
	assert_int_equal(recv(s, buf + 2, len + (-(2 + len) & 3) + 4, MSG_WAITALL), len + (-(2 + len) & 3) + 4);
	assert_int_equal(iw_sm_decode(&m, buf + 2 + 18, len - 18, false), 0);
	return m;
}

#define GENERATION 42

static int session(bool hello)
{
	static const uint8_t rtr[14] = { 0xc1, 0x40 };
	struct iw_sm_pd pd = { .ver_lo = IW_SM_VERSION, .ver_hi = IW_SM_VERSION, .bufs = 128, .buf_size = 256, .generation = GENERATION };
	struct iw_mpa_frame reply;
	uint8_t out[IW_SM_PD_LEN];
	int s;

	iw_sm_pd_encode(&pd, out);
	s = request(out, sizeof(out), &reply);
	assert_true(s >= 0);
	assert_int_equal(reply.reject, 0);
	assert_int_equal(iw_sm_pd_decode(&pd, reply.pd, reply.pd_len), 0);
	fpdu(s, rtr, sizeof(rtr));
	if (hello) {
		post_msg(s, 1, (struct iw_sm){ .type = IW_SM_HELLO, .generation = GENERATION });
		assert_int_equal(next_msg(s).yes, 1);
	}
	return s;
}

static void garbage_on_the_port(void **state)
{
	uint8_t junk[600];
	int s = dial();

	memset(junk, 'G', sizeof(junk));
	send(s, junk, sizeof(junk), MSG_NOSIGNAL);
	expect_eof(s);
	assert_true(log_has("MPA startup"));
	s = dial();			/* silence */
	expect_eof(s);
	s = dial();
	assert_int_equal(send(s, "MPA ID Req Frame", 16, MSG_NOSIGNAL), 16);
	expect_eof(s);
	alive();
}

static void other_private_data(void **state)
{
	struct iw_sm_pd pd = { .ver_lo = IW_SM_VERSION + 1, .ver_hi = IW_SM_VERSION + 1, .bufs = 128, .buf_size = 256 };
	struct iw_mpa_frame reply;
	uint8_t out[IW_SM_PD_LEN];
	int s;

	assert_int_equal(request("RSTM and more", 13, &reply), -1);
	assert_true(log_has("not that of an iwarpd"));
	iw_sm_pd_encode(&pd, out);
	s = request(out, sizeof(out), &reply);
	assert_true(s >= 0);
	assert_int_equal(reply.reject, 1);
	assert_int_equal(iw_sm_reject_decode(reply.pd, reply.pd_len), IW_REASON_VERSION);
	expect_eof(s);
}

/* We dialled from an address of that host, which its daemon never dials: whose session it is nobody will say. */
static void questions(void **state)
{
	struct lib l = lib_new();
	int listener, c, a, s = session(true);
	struct iw_addr here, there;
	uint16_t port;
	struct iw_sm m;

	listener = tcp_listen(&port);
	c = tcp_connect(port);
	a = accept(listener, NULL, NULL);
	lib_propose(&l, a, 1, false);
	lib_sync(&l);
	sock_names(c, &here, &there);
	post_msg(s, 2, (struct iw_sm){ .type = IW_SM_PING });
	m = next_msg(s);
	assert_int_equal(m.type, IW_SM_ANSWER);
	assert_int_equal(m.seq, 2);
	assert_int_equal(m.yes, 1);
	post_msg(s, 3, (struct iw_sm){ .type = IW_SM_PROPOSE, .flags = IW_SM_F_CLIENT, .a = here, .b = there });
	assert_int_equal(next_msg(s).reason, IW_REASON_PEER_UNTRUSTED);
	post_msg(s, 4, (struct iw_sm){ .type = IW_SM_HOLD, .a = here, .b = there, .nonce = 1 });
	assert_int_equal(next_msg(s).reason, IW_REASON_PEER_UNTRUSTED);
	assert_false(lib_may(&l, 1));
	/* between addresses that are not both of this session */
	m.a = here;
	m.a.ip[15] = 9;
	post_msg(s, 5, (struct iw_sm){ .type = IW_SM_PROPOSE, .flags = IW_SM_F_CLIENT, .a = m.a, .b = there });
	assert_int_equal(next_msg(s).reason, IW_REASON_TUPLE_UNKNOWN);
	post_msg(s, 6, (struct iw_sm){ .type = IW_SM_HOLD, .a = here, .b = m.a, .nonce = 1 });
	assert_int_equal(next_msg(s).reason, IW_REASON_TUPLE_UNKNOWN);
	/* nobody here has dialled that */
	post_msg(s, 7, (struct iw_sm){ .type = IW_SM_VOUCH, .a = here, .b = there });
	assert_int_equal(next_msg(s).reason, IW_REASON_TUPLE_UNKNOWN);
	close(s);
	close(a);
	close(c);
	close(listener);
	lib_free(&l);
}

static void bad_messages(void **state)
{
	int good = session(true), s;
	uint8_t buf[400] = { IW_SM_PING, 0, 0, 12 };

	s = session(false);
	post_msg(s, 1, (struct iw_sm){ .type = IW_SM_PING });		/* before HELLO */
	expect_eof(s);
	s = session(false);
	post_msg(s, 1, (struct iw_sm){ .type = IW_SM_HELLO, .generation = 1 });
	expect_eof(s);
	s = session(true);
	post_msg(s, 2, (struct iw_sm){ .type = IW_SM_HELLO, .generation = GENERATION });
	expect_eof(s);
	s = session(true);
	post_msg(s, 2, (struct iw_sm){ .type = IW_SM_ANSWER, .yes = 1 });	/* the acceptor's */
	expect_eof(s);
	s = session(true);
	post_msg(s, 2, (struct iw_sm){ .type = IW_SM_ACK });		/* of no notice */
	expect_eof(s);
	s = session(true);
	post(s, 2, buf, 13);						/* one octet too long */
	expect_eof(s);
	s = session(true);
	post(s, 2, buf, 0);
	expect_eof(s);
	s = session(true);
	post(s, 2, buf, 300);						/* longer than a receive buffer: Terminate */
	expect_eof(s);
	s = session(true);
	post(s, 9, buf, 12);						/* MSN out of order: Terminate */
	expect_eof(s);
	assert_true(log_has("malformed message; closed"));
	assert_true(log_has("no HELLO; closed"));
	assert_true(log_has("Terminate sent"));
	post_msg(good, 2, (struct iw_sm){ .type = IW_SM_PING });
	assert_int_equal(next_msg(good).yes, 1);
	close(good);
	alive();
}

static void too_many_sessions(void **state)
{
	int s[9];

	for (int i = 0; i < 9; i++)
		s[i] = session(true);
	assert_true(log_has("too many sessions"));
	expect_eof(s[0]);
	for (int i = 1; i < 9; i++) {
		post_msg(s[i], 2, (struct iw_sm){ .type = IW_SM_PING });
		assert_int_equal(next_msg(s[i]).yes, 1);
		close(s[i]);
	}
	alive();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(malformed_first), cmocka_unit_test(other_version), cmocka_unit_test(second_hello),
		cmocka_unit_test(too_many_fds), cmocka_unit_test(random_messages), cmocka_unit_test(never_reads),
		cmocka_unit_test(too_many_clients), cmocka_unit_test(garbage_on_the_port), cmocka_unit_test(other_private_data), cmocka_unit_test(questions),
		cmocka_unit_test(bad_messages), cmocka_unit_test(too_many_sessions),
	};

	own_net();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, daemon_start, daemon_stop);
}
