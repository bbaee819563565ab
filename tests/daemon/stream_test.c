/* SPDX-License-Identifier: MIT */
/* Remote streams: octets exact in both directions, and every end as TCP would have it. */
#include "daemon/stream/stream_priv.h"
#include "stream_util.h"

#include "proto/mpa.h"
#include "proto/rs.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define BULK (64u << 20)

static void bulk(uint64_t octets, unsigned int max)
{
	struct job w[2], r[2];

	remote_pair();
	for (int i = 0; i < 2; i++) {
		w[i] = (struct job){ .a = &app[i], .out = octets, .seed_out = (uint32_t)i + 1, .shut = true, .max = max };
		r[i] = (struct job){ .a = &app[i], .in = UINT64_MAX, .seed_in = 2 - (uint32_t)i, .max = max };
		start(&w[i], job_write);
		start(&r[i], job_read);
	}
	for (int i = 0; i < 2; i++) {
		finish(&w[i]);
		finish(&r[i]);
		assert_int_equal(w[i].err, 0);
		assert_int_equal(r[i].err, 0);
		assert_int_equal(r[i].got, octets);
	}
}

static void bulk_both_ways(void **state)
{
	bulk(BULK, 1 << 20);
}

static void small_writes_both_ways(void **state)
{
	bulk(1 << 20, 200);
}

static void bulk_in_small_fpdus(void **state)
{
	conf.large_fpdu = false;
	bulk(BULK / 4, 1 << 17);
}

static void bulk_through_a_small_ring(void **state)
{
	conf.ring_size = 64 << 10;
	conf.srcavail_min = 0;
	bulk(BULK / 4, 1 << 17);
}

static void bulk_with_markers(void **state)
{
	conf.markers = true;
	bulk(BULK / 8, 1 << 17);
}

struct sum {
	struct endpoint_stat stat;
	uint64_t tx, rx;
};

static void add_info(void *arg, const struct stream_info *i)
{
	struct sum *s = arg;

	if (!i->client)
		return;
	s->stat = i->stat;
	s->tx = i->tx_bytes;
	s->rx = i->rx_bytes;
	assert_int_equal(i->pid, 4711);
	assert_string_equal(i->program, "test");
	assert_int_equal(i->reason, IW_REASON_ACCELERATED);
}

/* A backlog that the peer does not read: the rest is offered for RDMA Read. */
static void large_backlog_goes_by_read(void **state)
{
	struct job w, r;
	struct sum s = { 0 };

	remote_pair();
	w = (struct job){ .a = &app[0], .out = 8 << 20, .seed_out = 9, .max = 1 << 20 };
	start(&w, job_write);
	run_rounds(20);
	r = (struct job){ .a = &app[1], .in = 8 << 20, .seed_in = 9 };
	start(&r, job_read);
	finish(&r);
	finish(&w);
	assert_int_equal(r.err, 0);
	stream_foreach(add_info, &s);
	assert_int_equal(s.tx, (8 << 20) + 1);
	assert_true(s.stat.tx_write > 0);
	assert_true(s.stat.tx_imm > 0);
	assert_true(s.stat.rx_read > 0);
	assert_true(s.stat.tx_rresp > 0);
}

static void small_write_is_a_send(void **state)
{
	struct sum s = { 0 };

	remote_pair();
	say(app[0].fd, "hello");
	expect_octets(&app[1], "hello");
	say(app[1].fd, "yes?");
	expect_octets(&app[0], "yes?");
	stream_foreach(add_info, &s);
	assert_int_equal(s.stat.tx_send, 2);
	assert_int_equal(s.stat.rx_send, 1);
	assert_int_equal(s.tx, 6);
	assert_int_equal(s.rx, 4);
	assert_int_equal(atomic_load(&app[0].page->end[0].tx_taken), 6);
	assert_int_equal(atomic_load(&app[0].page->end[0].rx_given), 4);
}

static bool acked(void *arg)
{
	return atomic_load(&app[0].page->end[0].tx_acked) == 6;
}

/* SIOCOUTQ falls to 0 on an idle stream. */
static void idle_stream_is_acknowledged(void **state)
{
	remote_pair();
	say(app[0].fd, "hello");
	expect_octets(&app[1], "hello");
	run_until(acked, NULL);
}

/* Who asks need not wait for that: an answer has acknowledged what was asked, for TCP. */
static void answered_is_acknowledged(void **state)
{
	int v;
	socklen_t len = sizeof(v);

	remote_pair();
	say(app[0].fd, "hello");
	expect_octets(&app[1], "hello");
	say(app[1].fd, "yes?");
	expect_octets(&app[0], "yes?");
	assert_int_not_equal(atomic_load(&app[0].page->end[0].tx_acked), 6);
	assert_int_equal(stream_getsockopt(stream_id(app[0].st), 0, SOL_SOCKET, SO_TYPE, &v, &len), 0);
	assert_true(acked(NULL));
	say(app[1].fd, "and?");
	expect_octets(&app[0], "and?");
	assert_true(acked(NULL));
}

static int slowly(const struct said *s)
{
	return 2;
}

static bool saying(void *arg)
{
	return nsaid;
}

/* What was written before the Request arrives; so does an end that came before it. */
static void octets_in_hand_arrive(void **state)
{
	char b[8] = { 0 };

	relayed(0);
	relayed(1);
	stream_upgrade(app[0].st);
	say_delay = slowly;
	upgrade_least_ms = 10000;
	run_rounds(2);
	say(app[0].fd, "ear");
	run_until(saying, NULL);
	say(app[0].fd, "ly");
	shutdown(app[0].fd, SHUT_WR);
	run_until(running, NULL);
	for (int n = 0; n < 5;)
		n += next_octets(&app[1], b + n, sizeof(b) - (size_t)n);
	assert_string_equal(b, "early");
	expect_end(&app[1], 0);
	say(app[1].fd, "late");
	expect_octets(&app[0], "late");
}

static void half_close(int first)
{
	int other = 1 - first;

	remote_pair();
	say(app[first].fd, "question");
	shutdown(app[first].fd, SHUT_WR);
	expect_octets(&app[other], "question");
	expect_end(&app[other], 0);
	say(app[other].fd, "answer");
	expect_octets(&app[first], "answer");
	say(app[other].fd, "more");
	shutdown(app[other].fd, SHUT_WR);
	expect_octets(&app[first], "more");
	expect_end(&app[first], 0);
}

static void client_half_closes_first(void **state)
{
	half_close(0);
}

static void server_half_closes_first(void **state)
{
	half_close(1);
}

/* Closed without a word: the other end reads everything and then the end. */
static void orderly_close(void **state)
{
	remote_pair();
	say(app[0].fd, "bye");
	close_app(0);
	expect_octets(&app[1], "bye");
	expect_end(&app[1], 0);
}

static void close_with_unread_is_a_reset(void **state)
{
	remote_pair();
	say(app[1].fd, "never read");
	run_until(readable, &app[0].fd);
	close_app(0);
	expect_end(&app[1], -ECONNRESET);
}

/* The application has read all that it could find: what the daemons still have for it is unread all the same. */
static void close_with_unread_behind_is_a_reset(void **state)
{
	remote_pair();
	all_but_ours(app[1].fd, app[0].fd);
	close_app(0);
	run_until(hung_up, &app[1].fd);
	assert_int_equal(atomic_load(&app[1].page->end[0].close_state), IW_CLOSE_RESET);
	assert_int_equal(atomic_load(&app[1].page->end[0].close_errno), ECONNRESET);
}

static void octets_for_a_closed_end_are_a_reset(void **state)
{
	remote_pair();
	close_app(0);
	expect_end(&app[1], 0);
	say(app[1].fd, "anybody there?");
	run_until(hung_up, &app[1].fd);
	assert_int_equal(atomic_load(&app[1].page->end[0].close_state), IW_CLOSE_RESET);
	assert_int_equal(atomic_load(&app[1].page->end[0].close_errno), EPIPE);	/* the FIN came first: TCP in CLOSE_WAIT */
}

/* shutdown(SHUT_WR) and then octets from the peer are no reset: only a close is. */
static void octets_for_a_half_closed_end_are_not(void **state)
{
	remote_pair();
	shutdown(app[0].fd, SHUT_WR);
	expect_end(&app[1], 0);
	say(app[1].fd, "still here");
	expect_octets(&app[0], "still here");
	say(app[1].fd, "and here");
	expect_octets(&app[0], "and here");
}

static void linger_zero_is_a_reset(void **state)
{
	struct linger l = { .l_onoff = 1 };

	remote_pair();
	assert_int_equal(stream_setsockopt(stream_id(app[0].st), 0, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	close_app(0);
	expect_end(&app[1], -ECONNRESET);
}

/* What was received before the reset is still read, as with TCP. */
static void octets_before_a_reset_are_read(void **state)
{
	struct linger l = { .l_onoff = 1 };

	remote_pair();
	say(app[0].fd, "last words");
	run_until(readable, &app[1].fd);
	assert_int_equal(stream_setsockopt(stream_id(app[0].st), 0, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	close_app(0);
	run_until(hung_up, &app[1].fd);
	expect_octets(&app[1], "last words");
	expect_end(&app[1], -ECONNRESET);
}

/* What the daemon was too slow to hear of stands in the page. */
static void unheard(void)
{
	atomic_fetch_or(&app[0].page->end[0].opts, IW_SOPT_LINGER0);
	say(app[0].fd, "last words");
	run_until(readable, &app[1].fd);
	close_app(0);
	run_until(hung_up, &app[1].fd);
	expect_octets(&app[1], "last words");
	expect_end(&app[1], -ECONNRESET);
}

static void linger_unheard(void **state)
{
	remote_pair();
	unheard();
}

static void linger_unheard_relayed(void **state)
{
	relayed(0);
	relayed(1);
	unheard();
}

static void lost_connection_is_a_reset(void **state)
{
	struct sockaddr un = { .sa_family = AF_UNSPEC };
	struct job w;

	remote_pair();
	w = (struct job){ .a = &app[1], .out = BULK, .seed_out = 1 };
	start(&w, job_write);	/* will be blocked: the client does not read */
	run_rounds(20);
	assert_false(w.done);
	connect(app[0].st->end[0].tcp, &un, sizeof(un));
	finish(&w);
	assert_true(w.err == ECONNRESET || w.err == EPIPE);	/* the library makes it ECONNRESET from the page */
	assert_int_equal(atomic_load(&app[1].page->end[0].close_errno), ECONNRESET);
	expect_end(&app[1], -ECONNRESET);
}

/* A FIN on TCP that no FIN of the stream announced: the peer's daemon died. */
static void dead_peer_daemon_is_a_reset(void **state)
{
	remote_pair();
	say(app[0].fd, "x");
	expect_octets(&app[1], "x");
	shutdown(app[0].st->end[0].tcp, SHUT_WR);
	expect_end(&app[1], -ECONNRESET);
}

static void terminate_is_a_reset(void **state)
{
	static const uint8_t junk[128] = { 0, 60, 1, 2, 3 };

	remote_pair();
	say(app[0].fd, "x");
	expect_octets(&app[1], "x");
	assert_int_equal(send(app[0].st->end[0].tcp, junk, sizeof(junk), 0), sizeof(junk));
	expect_end(&app[1], -ECONNRESET);
	expect_end(&app[0], -ECONNRESET);
}

static size_t octets_of_reply;
static uint8_t reply[IW_MPA_FRAME_MAX];

static bool answered(void *arg)
{
	return said_last.answer;
}

static bool replied(void *arg)
{
	ssize_t n = recv(tcp[0], reply + octets_of_reply, sizeof(reply) - octets_of_reply, MSG_DONTWAIT);

	octets_of_reply += n > 0 ? (size_t)n : 0;
	return octets_of_reply >= IW_MPA_HDR + 4 + IW_RS_PD_LEN;
}

/* How many offers at once a server takes from a client that answers so many Reads. */
static unsigned int offers_taken(uint16_t ird)
{
	struct iw_mpa_frame f = { .rev = 2, .crc = 1, .enhanced = 1, .p2p = 1, .rtr_write = 1, .ird = ird, .ord = 4, .pd_len = IW_RS_PD_LEN };
	struct iw_rs_pd pd = {
		.ver_lo = 1, .ver_hi = 1, .caps = IW_RS_CAP_IMM | IW_RS_CAP_SRCAVAIL, .ring_stag = 1, .ring_len = 1 << 16, .bufs = 8,
		.buf_size = 64, .srcavail_max = 8, .dst = addr_of(tcp[0], true), .src = addr_of(tcp[0], false), .nonce = 0xbadcafe,
	};
	uint8_t out[IW_MPA_FRAME_MAX];
	int n;

	iw_rs_pd_encode(&pd, f.pd);
	n = iw_mpa_encode(&f, out);
	relayed(1);
	memset(&said_last, 0, sizeof(said_last));
	stream_their_hold(app[1].st, pd.nonce, 0, 0);
	run_until(answered, NULL);
	assert_true(said_last.yes && said_last.nonce == pd.nonce && said_last.pos == 0);
	assert_int_equal(send(tcp[0], out, (size_t)n, 0), n);
	octets_of_reply = 0;
	run_until(replied, NULL);
	assert_true(iw_mpa_decode(&f, reply, octets_of_reply, true) > 0);
	assert_false(f.reject);
	assert_int_equal(f.ord, ird);
	assert_int_equal(iw_rs_pd_decode(&pd, f.pd, f.pd_len), 0);
	assert_true(pd.caps & IW_RS_CAP_SRCAVAIL);
	assert_true(pd.nonce == said_last.nonce);
	return pd.srcavail_max;
}

static void offers_that_cannot_be_read(void **state)
{
	assert_int_equal(offers_taken(0), 0);
}

static void offers_that_can_be_read(void **state)
{
	assert_int_equal(offers_taken(1), IW_RS_SA);
}

/* ---- a daemon is killed ---- */

static void send_fd(int s, int fd)
{
	char c = 0, ctl[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &c, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof(ctl) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(h), &fd, sizeof(int));
	assert_int_equal(sendmsg(s, &m, 0), 1);
}

static int recv_fd(int s)
{
	char c, ctl[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { &c, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof(ctl) };
	int fd;

	assert_int_equal(recvmsg(s, &m, MSG_CMSG_CLOEXEC), 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	return fd;
}

static bool never(void *arg)
{
	return false;
}

static struct timer from_child;

/* A process that is the client's daemon: it gives the application's end away and goes on until it is killed. */
static pid_t client_daemon(int *carrier, bool upgrade)
{
	static struct timer listen_timer;
	int s[2], wire[2];
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, wire), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(s[0]);
		close(tcp[1]);
		close(wire[0]);
		said_wire = wire[1];
		engine_init();
		said_listen(&listen_timer);
		relayed(0);
		if (upgrade)
			stream_upgrade(app[0].st);
		send_fd(s[1], app[0].fd);
		close_app(0);
		run_until(never, NULL);
		_exit(1);
	}
	close(s[1]);
	close(wire[1]);
	close(tcp[0]);
	tcp[0] = -1;
	said_wire = wire[0];
	said_listen(&from_child);
	*carrier = recv_fd(s[0]);
	close(s[0]);
	return pid;
}

static void no_client_daemon(pid_t pid, int carrier)
{
	waitpid(pid, NULL, 0);
	close(carrier);
	timer_stop(&from_child);
	close(said_wire);
	said_wire = -1;
}

static bool server_running(void *arg)
{
	return stream_state(app[1].st) == STREAM_RUNNING;
}

/* Milliseconds in which we had a processor: a busy machine makes them fewer, never more. */
static unsigned int ours_ms;

static void ours_tick(struct timer *t)
{
	ours_ms++;
	timer_start(t, 1, ours_tick);
}

/* Both applications hear it: the far one by its daemon, the near one by its carrier and the page. Within a second of its death? */
static bool killed(bool upgrade)
{
	int carrier;
	pid_t pid = client_daemon(&carrier, upgrade);
	struct timer tick = { 0 };
	siginfo_t dead;
	char c;

	relayed(1);
	stream_upgrade(app[1].st);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(send(carrier, "hello", 5, 0), 5);
		expect_octets(&app[1], "hello");
		run_rounds(30);
	}
	if (upgrade)
		run_until(server_running, NULL);
	else
		assert_int_equal(stream_state(app[1].st), STREAM_RELAY);
	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, &dead, WEXITED | WNOWAIT), 0);	/* the death of a sanitized process takes its time */
	ours_ms = 0;
	timer_start(&tick, 1, ours_tick);
	expect_end(&app[1], -ECONNRESET);
	run_until(readable, &carrier);
	assert_true(recv(carrier, &c, 1, MSG_DONTWAIT) <= 0);
	timer_stop(&tick);
	no_client_daemon(pid, carrier);
	return ours_ms <= 1000;
}

/* What its rings of io_uring had is closed by a thread of the kernel's, which on a busy machine may take longer. */
static void killed_soon(bool upgrade)
{
	for (int i = 0; i < 5; i++) {
		if (i)
			next_pair();
		if (killed(upgrade))
			return;
	}
	fail_msg("five times nobody heard of it within a second");
}

static void killed_daemon_is_a_reset(void **state)
{
	killed_soon(true);
}

/* There plain octets were relayed: a FIN by the kernel that closes for the dead would be a clean end. */
static void killed_relay_is_a_reset(void **state)
{
	killed_soon(false);
}

static void over_ipv6(void **state)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int s = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), none = s < 0 || bind(s, (struct sockaddr *)&a, sizeof(a));

	if (s >= 0)
		close(s);
	if (none) {
		print_message("# no IPv6 here\n");
		skip();
	}
	close(tcp[0]);
	close(tcp[1]);
	tcp_pair_family(tcp, AF_INET6);
	bulk(1 << 20, 1 << 16);
}

/* Request and answer of random sizes, one octet to three rings. */
static void ping_pong(void **state)
{
	unsigned int seed = (unsigned int)getpid(), r = seed;

	print_message("# seed %u\n", seed);
	remote_pair();
	for (int i = 0; i < 300; i++) {
		uint64_t n = 1 + (uint64_t)rand_r(&r) % (i % 10 ? 2000 : 3 << 20);
		int from = i & 1;
		struct job w = { .a = &app[from], .out = n, .seed_out = (uint32_t)i, .max = 1 << 20 };
		struct job rd = { .a = &app[1 - from], .in = n, .seed_in = (uint32_t)i };

		start(&w, job_write);
		start(&rd, job_read);
		finish(&rd);
		finish(&w);
		assert_int_equal(rd.err, 0);
		assert_int_equal(rd.got, n);
	}
}


int main(void)
{
	const struct CMUnitTest tests[] = {
		T(bulk_both_ways), T(small_writes_both_ways), T(bulk_in_small_fpdus), T(bulk_through_a_small_ring),
		T(bulk_with_markers), T(large_backlog_goes_by_read), T(small_write_is_a_send), T(idle_stream_is_acknowledged), T(answered_is_acknowledged),
		T(octets_in_hand_arrive), T(client_half_closes_first), T(server_half_closes_first), T(orderly_close),
		T(close_with_unread_is_a_reset), T(close_with_unread_behind_is_a_reset), T(octets_for_a_closed_end_are_a_reset), T(octets_for_a_half_closed_end_are_not),
		T(linger_zero_is_a_reset), T(octets_before_a_reset_are_read), T(linger_unheard), T(linger_unheard_relayed), T(lost_connection_is_a_reset),
		T(dead_peer_daemon_is_a_reset), T(terminate_is_a_reset), 		T(offers_that_cannot_be_read), T(offers_that_can_be_read),
		T(killed_daemon_is_a_reset), T(killed_relay_is_a_reset), T(over_ipv6), T(ping_pong),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
