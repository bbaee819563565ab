/* SPDX-License-Identifier: MIT */
/* Streams that do not run over RDMAP: granted, switched to a relay, abandoned, given back. */
#include "stream_util.h"

#include "daemon/stream/relay.h"
#include "daemon/stream/stream_priv.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/un.h>

static bool gone(void *arg)
{
	return ngone;
}

static void reset_peer(void)
{
	struct linger l = { .l_onoff = 1 };

	setsockopt(tcp[1], SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(tcp[1]);
	tcp[1] = -1;
}

/* ---- relay ---- */

static void relay(void)
{
	relayed(0);
	run_rounds(3);
	assert_int_equal(stream_state(app[0].st), STREAM_RELAY);
}

/* Plain octets first, by T, then both directions at full speed. */
static void relay_is_lossless(void **state)
{
	enum { N = 64 << 20 };
	struct job w0 = { .a = &app[0], .out = N, .seed_out = 1, .shut = true, .max = 1 << 18 };
	struct job r0 = { .a = &app[0], .in = UINT64_MAX, .seed_in = 2, .max = 1 << 18 };
	struct job w1 = { .out = N, .seed_out = 2, .shut = true, .max = 1 << 18 };
	struct job r1 = { .in = UINT64_MAX, .seed_in = 1, .max = 1 << 18 };

	grant(0);
	w1.fd = r1.fd = tcp[1];
	start(&w0, job_write);
	start(&w1, job_write);
	run_rounds(20);		/* carrier and T fill up */
	assert_int_equal(stream_switched(app[0].st, 5), 0);
	start(&r0, job_read);
	start(&r1, job_read);
	finish(&w0);
	finish(&w1);
	finish(&r0);
	finish(&r1);
	assert_int_equal(r0.err, 0);
	assert_int_equal(r1.err, 0);
	assert_int_equal(r0.got, N);
	assert_int_equal(r1.got, N);
}

static int readable_now(int fd)
{
	int n = -1;

	assert_int_equal(ioctl(fd, SIOCINQ, &n), 0);
	return n;
}

/* When stream_switched() returns, a call on the carrier finds what it would have found in T. */
static void unread_octets_are_there_at_once(void **state)
{
	static char out[50000], in[sizeof(out)];

	memset(out, 'u', sizeof(out));
	say(tcp[1], "before");
	expect_text(tcp[0], "before");
	for (size_t n = 0; n < sizeof(out);)
		n += (size_t)send(tcp[1], out, sizeof(out) - n, 0);
	run_rounds(20);
	assert_int_equal(readable_now(tcp[0]), sizeof(out));
	relayed(0);
	assert_int_equal(recv(app[0].fd, in, sizeof(in), MSG_DONTWAIT), sizeof(out));
	assert_memory_equal(in, out, sizeof(out));
	say(tcp[1], "after");
	expect_octets(&app[0], "after");
	assert_int_equal(app[0].st->relay->down.pos, 6 + sizeof(out) + 5);
}

static bool much_unread(void *arg)
{
	return readable_now(app[0].st->end[0].tcp) > 256 << 10;
}

/* More than the carrier takes: the rest follows, in order. */
static void more_unread_than_a_carrier_takes(void **state)
{
	enum { N = 3 << 20 };
	struct job w1 = { .fd = tcp[1], .out = N, .seed_out = 2 };
	struct job r0 = { .a = &app[0], .in = N, .seed_in = 2 };
	struct iw_tuple t = tuple_of(tcp[0]);
	struct stream_grant g;
	struct stream *st;
	int room = 8 << 20;

	if (setsockopt(tcp[0], SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)))
		skip();
	grant(0);
	start(&w1, job_write);
	run_until(much_unread, NULL);
	assert_int_equal(stream_grant(app[0].st->end[0].tcp, &t, &owner, true, 1 << 20, &g, &st), -EAGAIN);
	assert_in_range(g.size, 64 << 10, (1 << 20) - 1);
	assert_int_equal(stream_switched(app[0].st, 5), 0);
	assert_true(readable_now(app[0].fd) > 200 << 10);
	start(&r0, job_read);
	finish(&r0);
	finish(&w1);
	assert_int_equal(r0.err, 0);
}

static void fin_before_the_switch(void **state)
{
	say(tcp[1], "bye");
	shutdown(tcp[1], SHUT_WR);
	relayed(0);
	expect_octets(&app[0], "bye");
	expect_end(&app[0], 0);
	say(app[0].fd, "still here");
	expect_text(tcp[1], "still here");
	assert_false(app[0].st->relay->counted);
}

static void reset_before_the_switch(void **state)
{
	grant(0);
	say(tcp[1], "lost");
	reset_peer();
	run_rounds(3);
	assert_int_equal(stream_switched(app[0].st, 5), 0);
	expect_octets(&app[0], "lost");		/* as from T */
	expect_end(&app[0], -ECONNRESET);
}

/* Positions are octets since the connection began, as TCP counts them, whoever connected. */
static void positions(int end)
{
	char buf[300] = { 0 };

	for (int i = 0; i < 2; i++) {
		for (int k = 0; k <= i; k++)
			assert_int_equal(send(tcp[i], buf, sizeof(buf), 0), sizeof(buf));
		for (int n = 0; n < (i + 1) * (int)sizeof(buf);)
			n += (int)recv(tcp[1 - i], buf, 100, 0);
	}
	say(tcp[end], "unsent?");
	say(tcp[1 - end], "unread");
	run_rounds(3);
	relayed(end);
	assert_true(app[end].st->relay->counted);
	assert_int_equal(app[end].st->relay->up.pos, 300 * (end + 1) + 7);
	assert_int_equal(app[end].st->relay->down.pos, 300 * (2 - end) + 6);
	expect_text(tcp[1 - end], "unsent?");
	say(app[end].fd, "more");
	expect_text(tcp[1 - end], "more");
	assert_int_equal(app[end].st->relay->up.pos, 300 * (end + 1) + 11);
}

static void positions_of_the_client(void **state)
{
	positions(0);
}

static void positions_of_the_server(void **state)
{
	positions(1);
}

/* The same at both ends, when both have seen the octets; none that is told when not. */
static void crc_of_the_last_octets(void **state)
{
	const struct stream_relay *r[2];
	char text[63];

	relayed(0);
	relayed(1);
	r[0] = app[0].st->relay;
	r[1] = app[1].st->relay;
	assert_int_equal(relay_crc(&r[0]->up), 0);
	for (int i = 0; i < 200; i++) {
		uint64_t want = r[1]->down.pos + 1 + (unsigned int)i % sizeof(text);

		memset(text, i, sizeof(text));
		assert_int_equal(send(app[0].fd, text, 1 + (unsigned int)i % sizeof(text), 0), 1 + (unsigned int)i % sizeof(text));
		while (r[1]->down.pos < want)
			run_rounds(2);
		assert_int_equal(r[0]->up.pos, r[1]->down.pos);
		assert_int_equal(relay_crc(&r[0]->up), relay_crc(&r[1]->down));
		assert_int_not_equal(relay_crc(&r[0]->up), 0);
		recv(app[1].fd, text, sizeof(text), 0);
	}
}

static void crc_needs_all_of_them(void **state)
{
	say(tcp[0], "unseen");
	expect_text(tcp[1], "unseen");
	relayed(0);
	for (int i = 0; i < 8; i++) {
		say(app[0].fd, "12345678");
		run_rounds(3);
		assert_true(!relay_crc(&app[0].st->relay->up) == (i < 7));
	}
}

static void relay_half_close_by_client(void **state)
{
	char c;

	relay();
	say(app[0].fd, "question");
	shutdown(app[0].fd, SHUT_WR);
	expect_text(tcp[1], "question");
	run_until(readable, &tcp[1]);
	assert_int_equal(recv(tcp[1], &c, 1, 0), 0);
	say(tcp[1], "answer");
	expect_octets(&app[0], "answer");
	shutdown(tcp[1], SHUT_WR);
	expect_end(&app[0], 0);
}

static void relay_half_close_by_server(void **state)
{
	relay();
	say(tcp[1], "question");
	shutdown(tcp[1], SHUT_WR);
	expect_octets(&app[0], "question");
	expect_end(&app[0], 0);
	say(app[0].fd, "answer");
	expect_text(tcp[1], "answer");
}

static int plain_error(void)
{
	char c[16];
	int fd = tcp[1];

	run_until(readable, &fd);
	return recv(tcp[1], c, sizeof(c), MSG_DONTWAIT) < 0 ? errno : 0;
}

static void relay_close_with_unread(void **state)
{
	relay();
	say(tcp[1], "never read");
	run_until(readable, &app[0].fd);
	close_app(0);
	assert_int_equal(plain_error(), ECONNRESET);
}

/* The application has read all that it could find: what the relay and T still have for it is unread all the same. */
static void relay_close_with_unread_behind(void **state)
{
	relay();
	all_but_ours(tcp[1], app[0].fd);
	close_app(0);
	assert_int_equal(plain_error(), ECONNRESET);
}

static void relay_octets_for_a_closed_end(void **state)
{
	char c;

	relay();
	close_app(0);
	run_until(readable, &tcp[1]);
	assert_int_equal(recv(tcp[1], &c, 1, 0), 0);
	run_until(gone, NULL);	/* the kernel has the orphan */
	say(tcp[1], "hello?");
	run_until(hung_up, &tcp[1]);
	assert_int_equal(send(tcp[1], "x", 1, MSG_NOSIGNAL), -1);
}

static void relay_linger_zero(void **state)
{
	struct linger l = { .l_onoff = 1 };

	relay();
	assert_int_equal(stream_setsockopt(stream_id(app[0].st), 0, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	close_app(0);
	assert_int_equal(plain_error(), ECONNRESET);
}

static void relay_reset_by_server(void **state)
{
	relay();
	say(tcp[1], "tail");
	run_until(readable, &app[0].fd);
	reset_peer();
	run_until(hung_up, &app[0].fd);
	expect_octets(&app[0], "tail");
	expect_end(&app[0], -ECONNRESET);
}

enum { BEHIND = 1 << 20 };	/* more than carrier and relay take */

static bool all_there(void *arg)
{
	int n;

	return !ioctl(tcp[1], SIOCOUTQ, &n) && !n;
}

static bool recorded(void *arg)
{
	return atomic_load(&app[0].page->end[0].close_state) == IW_CLOSE_RESET;
}

/* The peer sends more than the application has read, and half-closes if told to. */
static void sent_behind(bool fin)
{
	struct job w1 = { .fd = tcp[1], .out = BEHIND, .seed_out = 2, .shut = fin };
	int room = 4 << 20;

	if (setsockopt(tcp[0], SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)))
		skip();
	relay();
	start(&w1, job_write);
	finish(&w1);
	run_until(all_there, NULL);
	run_rounds(20);
}

/* Writers hear it, readers get what came before: all of it, and then `how`. */
static void read_behind(int how)
{
	struct job r0 = { .a = &app[0], .in = UINT64_MAX, .seed_in = 2 };
	char c;

	run_until(recorded, NULL);
	assert_int_equal(send(app[0].fd, "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	assert_int_equal(recv(app[0].fd, &c, 1, MSG_PEEK), 1);
	start(&r0, job_read);
	finish(&r0);
	assert_int_equal(r0.got, BEHIND);
	assert_int_equal(r0.err, how);
	run_until(gone, NULL);
}

static void relay_reset_behind(void **state)
{
	sent_behind(false);
	reset_peer();
	read_behind(ECONNRESET);
}

/* FIN came before it, which is not known before all is read. */
static void relay_reset_behind_fin(void **state)
{
	sent_behind(true);
	reset_peer();
	read_behind(EPIPE);
}

static void write_until_full(struct job *w)
{
	uint64_t had = 1;

	start(w, job_write);
	while (!w->got || had != w->got) {
		had = w->got;
		run_rounds(50);
	}
}

/* The other direction is full, too: its writer wakes up, and the relay's own send takes the error. */
static void reset_behind_both(bool fin)
{
	struct job w0 = { .a = &app[0], .out = UINT64_MAX };

	sent_behind(fin);
	write_until_full(&w0);
	reset_peer();
	finish(&w0);
	assert_int_equal(w0.err, EPIPE);
	read_behind(fin ? EPIPE : ECONNRESET);
}

static void relay_reset_behind_both(void **state)
{
	reset_behind_both(false);
}

static void relay_reset_behind_fin_both(void **state)
{
	reset_behind_both(true);
}

/* Nothing is behind: whichever of the relay's requests takes the error, the reader gets no end instead of it. */
static void relay_reset_of_a_blocked_writer(void **state)
{
	struct job w0 = { .a = &app[0], .out = UINT64_MAX };

	relay();
	write_until_full(&w0);
	reset_peer();
	finish(&w0);
	assert_true(w0.err == EPIPE || w0.err == ECONNRESET);	/* the carrier's own, when it is closed already */
	expect_end(&app[0], -ECONNRESET);
}

/* Nobody reads it: the stream ends when the application closes. */
static void relay_reset_behind_closed(void **state)
{
	sent_behind(false);
	reset_peer();
	run_until(recorded, NULL);
	run_rounds(20);
	assert_int_equal(ngone, 0);
	close_app(0);
	run_until(gone, NULL);
}

/* The TCP socket was made non-blocking by the application: the relay waits all the same. */
static void relay_of_a_nonblocking_socket(void **state)
{
	fcntl(tcp[0], F_SETFL, O_NONBLOCK);
	relay();
	run_rounds(5);
	say(tcp[1], "a");
	expect_octets(&app[0], "a");
	say(app[0].fd, "b");
	expect_text(tcp[1], "b");
}

static void abandoned_without_a_trace(void **state)
{
	int mine = fcntl(tcp[0], F_DUPFD_CLOEXEC, 0);

	grant(0);
	close_app(0);
	stream_abandon(app[0].st);
	run_rounds(3);
	assert_int_equal(stream_count(), 0);
	assert_int_equal(ngone, 1);
	say(mine, "goes on");
	expect_text(tcp[1], "goes on");
	close(mine);
}

static void carrier_has_a_name(void **state)
{
	struct sockaddr_un a;
	socklen_t len = sizeof(a);
	char want[64];

	grant(0);
	assert_int_equal(getpeername(app[0].fd, (struct sockaddr *)&a, &len), 0);
	snprintf(want, sizeof(want), "iwsock.%016llx.", (unsigned long long)app[0].g.stream_id);
	assert_int_equal(a.sun_path[0], 0);
	assert_memory_equal(a.sun_path + 1, want, strlen(want));
	assert_ptr_equal(stream_find(app[0].g.stream_id), app[0].st);
	stream_abandon(app[0].st);
}

static void page_is_filled(void **state)
{
	struct iw_tuple t = tuple_of(tcp[0]);
	const struct iw_page *p;

	grant(0);
	p = app[0].page;
	assert_int_equal(p->magic, IW_PAGE_MAGIC);
	assert_int_equal(p->version, IW_PAGE_VERSION);
	assert_int_equal(p->stream_id, app[0].g.stream_id);
	assert_int_equal(p->size, app[0].g.size);
	assert_int_equal(p->size, IW_PAGE_RINGS + p->tx_len + p->rx_len);
	assert_memory_equal(&app[0].g.tuple, &t, sizeof(t));
	assert_int_equal(atomic_load(&p->end[0].close_state), IW_CLOSE_OPEN);
	stream_abandon(app[0].st);
}

/* The segment can be neither shrunk under the daemon nor grown. */
static void segment_is_sealed(void **state)
{
	struct stream_grant g;

	grant(0);
	assert_int_equal(stream_open(app[0].fd, &g), 0);
	assert_int_equal(g.stream_id, app[0].g.stream_id);
	assert_int_equal(g.carrier, -1);
	assert_int_equal(ftruncate(g.segment, 0), -1);
	assert_int_equal(ftruncate(g.segment, (off_t)g.size * 2), -1);
	assert_int_equal(fcntl(g.segment, F_ADD_SEALS, F_SEAL_WRITE), -1);
	close(g.segment);
	assert_int_equal(stream_open(tcp[1], &g), -ENOENT);
	stream_abandon(app[0].st);
}

static void quota_of_streams(void **state)
{
	struct iw_tuple t = tuple_of(tcp[0]);
	struct stream_owner other = { .pid = 1, .uid = 1001, .fd = 3, .program = "other" };
	struct stream_grant g;
	struct stream *st;

	conf.max_streams = 1;
	grant(0);
	assert_int_equal(stream_grant(tcp[1], &t, &owner, false, 0, &g, &st), -EDQUOT);
	assert_int_equal(stream_grant(tcp[1], &t, &other, false, 0, &g, &st), 0);
	close(g.carrier);
	close(g.segment);
	tcp[1] = -1;
	stream_abandon(st);
	stream_abandon(app[0].st);
}

static void quota_of_memory_leaves_the_socket(void **state)
{
	struct iw_tuple t = tuple_of(tcp[1]);
	struct stream_grant g;
	struct stream *st;

	conf.max_memory = 3 * conf.ring_size;
	assert_int_equal(stream_grant(tcp[1], &t, &owner, false, 0, &g, &st), -EDQUOT);
	run_rounds(3);
	say(tcp[0], "still plain");
	expect_text(tcp[1], "still plain");
}

/* What may become of it is set aside when it is granted, so that nothing fails later; it counts until it ends. */
static void memory_is_set_aside(void **state)
{
	const uint64_t *used = &prm_user_get(owner.uid)->used[PRM_MEMORY];
	struct iw_tuple t = tuple_of(tcp[1]);
	struct stream_grant g;
	struct stream *st;

	conf.max_memory = 6 * conf.ring_size;
	grant(0);
	assert_in_range(*used, 3 * conf.ring_size, 4 * conf.ring_size);
	assert_int_equal(stream_grant(tcp[1], &t, &owner, false, 0, &g, &st), -EDQUOT);
	assert_int_equal(stream_switched(app[0].st, 5), 0);
	assert_in_range(*used, 3 * conf.ring_size, 4 * conf.ring_size);
	close_app(0);
	close(tcp[1]);
	tcp[1] = -1;
	run_until(gone, NULL);
	assert_int_equal(*used, 0);
}

static void memory_of_the_relay_is_given_back(void **state)
{
	const uint64_t *used = &prm_user_get(owner.uid)->used[PRM_MEMORY];
	uint64_t before;

	relayed(0);
	relayed(1);
	before = *used;
	for (int i = 0; i < 2; i++)
		stream_upgrade(app[i].st);
	run_rounds(2);
	say(app[0].fd, "!");
	run_until(running, NULL);
	expect_octets(&app[1], "!");
	run_rounds(3);
	assert_int_equal(*used, before - 2 * relay_memory());
}

/* At every number of descriptors left: an error, nothing lost, the sockets still the caller's. */
static void out_of_descriptors(void **state)
{
	struct iw_tuple t = tuple_of(tcp[0]);
	struct rlimit was, now;
	unsigned int before, failed = 0;
	struct stream_grant g;
	struct stream *st;
	int top = 0, hole[1024], nholes = 0, fd;

	for (fd = 0; fd < 1024; fd++)
		top = fcntl(fd, F_GETFD) >= 0 ? fd : top;
	while ((fd = dup(0)) < top)
		hole[nholes++] = fd;
	close(fd);
	before = open_fds();
	getrlimit(RLIMIT_NOFILE, &was);
	for (int more = 0; more < 8 && tcp[0] >= 0; more++) {
		int ret;

		now = (struct rlimit){ .rlim_cur = (rlim_t)(top + 1 + more), .rlim_max = was.rlim_max };
		setrlimit(RLIMIT_NOFILE, &now);
		ret = stream_grant(tcp[0], &t, &owner, true, 0, &g, &st);
		setrlimit(RLIMIT_NOFILE, &was);
		if (!ret) {
			tcp[0] = -1;
			close(g.carrier);
			close(g.segment);
			stream_abandon(st);
			continue;
		}
		assert_int_equal(ret, -EMFILE);
		failed++;
		run_rounds(2);
		assert_int_equal(open_fds(), before);
	}
	assert_true(failed >= 2);
	assert_int_equal(tcp[0], -1);
	while (nholes)
		close(hole[--nholes]);
}

/* ---- options of T ---- */

static int option(int fd, int level, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	assert_int_equal(getsockopt(fd, level, name, &v, &len), 0);
	return v;
}

static int option_of(int level, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	assert_int_equal(stream_getsockopt(stream_id(app[0].st), 0, level, name, &v, &len), 0);
	assert_int_equal(len, sizeof(v));
	return v;
}

/* The application reads its own values; T has what moves octets at once, and resets should the daemon die. */
static void options_are_kept(void **state)
{
	struct linger l = { .l_onoff = 1, .l_linger = 7 }, got;
	int lowat = 100, zero = 0, one = 1, t;
	socklen_t len = sizeof(got);

	assert_int_equal(setsockopt(tcp[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	assert_int_equal(setsockopt(tcp[0], SOL_SOCKET, SO_RCVLOWAT, &lowat, sizeof(lowat)), 0);
	assert_int_equal(setsockopt(tcp[0], IPPROTO_TCP, TCP_CORK, &one, sizeof(one)), 0);
	relayed(0);
	t = app[0].st->end[0].tcp;
	assert_int_equal(option(t, SOL_SOCKET, SO_RCVLOWAT), 1);
	assert_int_equal(option(t, IPPROTO_TCP, TCP_CORK), 0);
	assert_int_equal(option(t, IPPROTO_TCP, TCP_NODELAY), 1);
	assert_int_equal(option_of(SOL_SOCKET, SO_RCVLOWAT), 100);
	assert_int_equal(option_of(IPPROTO_TCP, TCP_CORK), 1);
	assert_int_equal(option_of(IPPROTO_TCP, TCP_NODELAY), 0);
	assert_int_equal(stream_getsockopt(stream_id(app[0].st), 0, SOL_SOCKET, SO_LINGER, &got, &len), 0);
	assert_memory_equal(&got, &l, sizeof(l));
	assert_int_equal(stream_setsockopt(stream_id(app[0].st), 0, IPPROTO_TCP, TCP_CORK, &zero, sizeof(zero)), 0);
	assert_int_equal(stream_setsockopt(stream_id(app[0].st), 0, IPPROTO_TCP, TCP_NODELAY, &zero, sizeof(zero)), 0);
	l.l_linger = 0;
	assert_int_equal(stream_setsockopt(stream_id(app[0].st), 0, SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	assert_int_equal(option(t, IPPROTO_TCP, TCP_NODELAY), 1);
	assert_int_equal(option_of(IPPROTO_TCP, TCP_CORK), 0);
	assert_int_equal(option_of(SOL_SOCKET, SO_KEEPALIVE), 0);
	assert_int_equal(stream_setsockopt(stream_id(app[0].st), 0, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)), 0);
	assert_int_equal(option(t, SOL_SOCKET, SO_KEEPALIVE), 1);
	assert_int_equal(stream_setsockopt(stream_id(app[0].st), 0, SOL_SOCKET, SO_RCVLOWAT, &one, 1), -EINVAL);
	assert_int_equal(stream_getsockopt(stream_id(app[0].st), 1, SOL_SOCKET, SO_LINGER, &got, &len), -ENOTCONN);
}

/* ---- T back ---- */

static struct { bool done; int ret, tcp; } backed;

static void on_back(void *arg, int ret, int t)
{
	assert_false(backed.done);
	backed.done = true;
	backed.ret = ret;
	backed.tcp = t;
}

static int back(void)
{
	backed.done = false;
	stream_back(app[0].st, on_back, NULL);
	run_until(is_true, &backed.done);
	return backed.ret;
}

/* The application has it in a number of its own. */
static void taken(void)
{
	backed.tcp = dup(backed.tcp);
	atomic_store(&app[0].page->end[0].hand, IW_HAND_TAKEN);
	assert_false(stream_back_cancel(app[0].st));
	assert_int_equal(stream_backed(app[0].st), 0);
	assert_int_equal(stream_backed(app[0].st), -EINVAL);
}

static void back_as_it_was(void **state)
{
	struct linger l = { .l_onoff = 1, .l_linger = 7 }, got;
	int one = 1;
	socklen_t len = sizeof(got);

	assert_int_equal(setsockopt(tcp[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	assert_int_equal(setsockopt(tcp[0], IPPROTO_TCP, TCP_CORK, &one, sizeof(one)), 0);
	fcntl(tcp[0], F_SETFL, O_NONBLOCK);
	relay();
	say(app[0].fd, "one");
	expect_text(tcp[1], "one");
	say(tcp[1], "two");
	expect_octets(&app[0], "two");
	stream_want_back(app[0].st, true);
	assert_int_equal(atomic_load(&app[0].page->want), IW_WANT_BACK);
	say(app[0].fd, "three");
	assert_int_equal(back(), -EAGAIN);
	expect_text(tcp[1], "three");
	assert_int_equal(back(), 0);
	assert_int_equal(stream_close(app[0].g.stream_id), -EBUSY);
	taken();
	assert_int_equal(atomic_load(&app[0].page->want), 0);
	assert_int_equal(stream_close(app[0].g.stream_id), -ENOENT);
	assert_int_equal(option(backed.tcp, IPPROTO_TCP, TCP_CORK), 1);
	assert_int_equal(option(backed.tcp, IPPROTO_TCP, TCP_NODELAY), 0);
	assert_int_equal(getsockopt(backed.tcp, SOL_SOCKET, SO_LINGER, &got, &len), 0);
	assert_true(got.l_onoff && !got.l_linger);	/* whoever took it does that */
	assert_true(fcntl(backed.tcp, F_GETFL) & O_NONBLOCK);
	say(tcp[1], "four");
	run_rounds(5);
	expect_text(backed.tcp, "four");
	assert_int_equal(ngone, 0);	/* nobody sees the carrier hang up before its fd is another's */
	close_app(0);
	run_until(gone, NULL);
	say(tcp[1], "five");
	expect_text(backed.tcp, "five");
	close(backed.tcp);
}

/* What came and was not read is read from T then, in order. */
static void back_with_octets_in_tcp(void **state)
{
	char c;

	relay();
	say(tcp[1], "a");
	run_until(readable, &app[0].fd);
	assert_int_equal(back(), -EAGAIN);
	say(tcp[1], "b");	/* TCP is not read for a moment, so that the application can empty the carrier */
	assert_int_equal(recv(app[0].fd, &c, 1, MSG_DONTWAIT), 1);
	assert_int_equal(back(), 0);
	taken();
	expect_text(backed.tcp, "b");
	close(backed.tcp);
}

static void back_is_not_asked_for_again(void **state)
{
	relay();
	say(tcp[1], "a");
	run_until(readable, &app[0].fd);
	assert_int_equal(back(), -EAGAIN);
	say(tcp[1], "b");
	expect_octets(&app[0], "a");
	expect_octets(&app[0], "b");	/* it goes on */
}

static void back_of_half_a_connection(void **state)
{
	relay();
	shutdown(tcp[1], SHUT_WR);
	expect_end(&app[0], 0);
	assert_int_equal(back(), -ENOTCONN);
	say(app[0].fd, "goes on");
	expect_text(tcp[1], "goes on");
}

static void back_and_the_stream_ends(void **state)
{
	relay();
	backed.done = false;
	stream_back(app[0].st, on_back, NULL);
	assert_int_equal(stream_close(app[0].g.stream_id), 0);
	assert_true(backed.done);
	assert_int_equal(backed.ret, -ENOTCONN);
	run_until(gone, NULL);
}

static void back_taken_back(void **state)
{
	relay();
	backed.done = false;
	stream_back(app[0].st, on_back, NULL);
	stream_back_cancel(app[0].st);
	run_rounds(20);
	assert_false(backed.done);
	say(tcp[1], "goes on");
	expect_octets(&app[0], "goes on");
	say(app[0].fd, "both ways");
	expect_text(tcp[1], "both ways");
}

/* It was offered, and nobody took it: whatever was done to T meanwhile. */
static void back_not_taken(void **state)
{
	struct linger l = { .l_onoff = 1, .l_linger = 7 }, got;
	socklen_t len = sizeof(got);
	int t;

	assert_int_equal(setsockopt(tcp[0], SOL_SOCKET, SO_LINGER, &l, sizeof(l)), 0);
	relay();
	assert_int_equal(back(), 0);
	t = app[0].st->end[0].tcp;
	fcntl(t, F_SETFL, O_NONBLOCK);
	setsockopt(t, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	say(tcp[1], "came");
	say(app[0].fd, "went");
	run_rounds(20);
	assert_false(readable(&app[0].fd));
	assert_true(stream_back_cancel(app[0].st));
	assert_int_equal(atomic_load(&app[0].page->end[0].hand), IW_HAND_VOID);
	expect_octets(&app[0], "came");
	expect_text(tcp[1], "went");
	assert_int_equal(option(t, IPPROTO_TCP, TCP_NODELAY), 1);
	assert_int_equal(getsockopt(t, SOL_SOCKET, SO_LINGER, &got, &len), 0);
	assert_true(got.l_onoff && !got.l_linger);
	assert_int_equal(stream_getsockopt(stream_id(app[0].st), 0, SOL_SOCKET, SO_LINGER, &got, &len), 0);
	assert_memory_equal(&got, &l, sizeof(l));
	assert_int_equal(back(), 0);	/* and again */
	close_app(0);			/* now its application ends */
	run_rounds(20);
	assert_int_equal(ngone, 0);
	assert_true(stream_back_cancel(app[0].st));
	run_until(readable, &tcp[1]);
	assert_int_equal(recv(tcp[1], &l, 1, 0), 0);
	run_until(gone, NULL);
}

/* Octets that the application wrote into the carrier, past its library, before the exchange: before it is answered they are in T. */
static void back_late(void **state)
{
	char b[1000];

	relay();
	assert_int_equal(back(), 0);
	memset(b, 'l', sizeof(b));
	for (int i = 0; i < 50; i++)
		assert_int_equal(send(app[0].fd, b, sizeof(b), MSG_DONTWAIT), sizeof(b));
	taken();
	say(backed.tcp, "behind them");
	for (int left = 50 * sizeof(b), n; left; left -= n) {
		run_until(readable, &tcp[1]);
		n = (int)recv(tcp[1], b, (size_t)left < sizeof(b) ? (size_t)left : sizeof(b), MSG_DONTWAIT);
		assert_true(n > 0);
		for (int k = 0; k < n; k++)
			assert_int_equal(b[k], 'l');
	}
	expect_text(tcp[1], "behind them");
	say(tcp[1], "answer");
	expect_text(backed.tcp, "answer");
	close(backed.tcp);
}

static void back_late_and_overtaken(void **state)
{
	char b[64];

	relay();
	assert_int_equal(back(), 0);
	say(app[0].fd, "lost");
	say(app[0].st->end[0].tcp, "sooner");
	taken();
	run_until(readable, &tcp[1]);
	expect_text(tcp[1], "sooner");
	run_until(readable, &tcp[1]);
	assert_int_equal(recv(tcp[1], b, sizeof(b), 0), -1);
	assert_int_equal(errno, ECONNRESET);
	close(backed.tcp);
}

/* At any moment of a busy stream: either it is refused, or the octets before come by the carrier and those behind by T. */
static void back_at_any_moment(void **state)
{
	unsigned int seed = (unsigned int)getpid(), r = seed, ok = 0;

	print_message("# seed %u\n", seed);
	relay();
	for (int i = 0; i < 2000 && !ok; i++) {
		char out[100], in[100];
		int n = 1 + rand_r(&r) % 100, got = 0, fd = app[0].fd;

		memset(out, i, sizeof(out));
		assert_int_equal(send(tcp[1], out, (size_t)n, 0), n);
		if (rand_r(&r) % 2)
			run_rounds(1 + rand_r(&r) % 3);
		backed.done = false;
		stream_back(app[0].st, on_back, NULL);
		while (got < n) {
			ssize_t k = recv(fd, in, sizeof(in), MSG_DONTWAIT);

			if (k <= 0 && backed.done && !backed.ret)
				fd = backed.tcp;
			if (k <= 0)
				run_rounds(2);
			for (ssize_t p = 0; p < k; p++)
				assert_int_equal(in[p], (char)i);
			got += k > 0 ? (int)k : 0;
		}
		run_until(is_true, &backed.done);
		ok = !backed.ret;
	}
	if (!ok)
		return;
	taken();
	close(backed.tcp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(relay_is_lossless), T(unread_octets_are_there_at_once), T(more_unread_than_a_carrier_takes), T(fin_before_the_switch),
		T(reset_before_the_switch), T(positions_of_the_client), T(positions_of_the_server), T(crc_of_the_last_octets),
		T(crc_needs_all_of_them), T(relay_half_close_by_client), T(relay_half_close_by_server), T(relay_close_with_unread), T(relay_close_with_unread_behind),
		T(relay_octets_for_a_closed_end), T(relay_linger_zero), T(relay_reset_by_server), T(relay_reset_behind), T(relay_reset_behind_fin), T(relay_reset_behind_both),
		T(relay_reset_behind_fin_both), T(relay_reset_behind_closed), T(relay_reset_of_a_blocked_writer), T(relay_of_a_nonblocking_socket),
		T(abandoned_without_a_trace), T(carrier_has_a_name), T(page_is_filled), T(segment_is_sealed), T(quota_of_streams),
		T(quota_of_memory_leaves_the_socket), T(memory_is_set_aside), T(memory_of_the_relay_is_given_back), T(out_of_descriptors),
		T(options_are_kept), T(back_as_it_was), T(back_with_octets_in_tcp), T(back_is_not_asked_for_again), T(back_of_half_a_connection),
		T(back_and_the_stream_ends), T(back_taken_back), T(back_not_taken), T(back_late), T(back_late_and_overtaken), T(back_at_any_moment),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
