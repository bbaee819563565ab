/* SPDX-License-Identifier: MIT */
/* Two applications of one host: the relayed stream of the first is joined with the second, and what the daemon notices of the pair. */
#include "stream_util.h"

#include "daemon/stream/relay.h"
#include "proto/ring.h"
#include "daemon/stream/stream_priv.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

static const struct stream_owner other_user = { .pid = 1, .uid = 1001, .fd = 3, .program = "other" };

static bool gone(void *arg)
{
	return ngone;
}

/* ---- joining ---- */

static struct { bool done, leave; int ret; struct iw_tuple t; } joined;	/* leave: it does not take what it is offered */

static void on_joined(void *arg, int ret, const struct stream_grant *g)
{
	assert_false(joined.done);
	joined.done = true;
	joined.ret = ret;
	if (ret)
		return;
	app[1].g = *g;
	take_grant(&app[1]);
	if (joined.leave)
		return;
	assert_int_equal(stream_joined(app[0].st), 0);
	tcp[1] = -1;
}

static void join_begin(unsigned int wait_ms)
{
	joined.done = false;
	joined.t = tuple_of(tcp[1]);
	stream_join(app[0].st, tcp[1], &joined.t, &other_user, wait_ms, on_joined, NULL);
}

static int join(void)
{
	join_begin(1000);
	run_until(is_true, &joined.done);
	return joined.ret;
}

static void is_pair(void)
{
	assert_int_equal(app[1].g.end, 1);
	assert_int_equal(app[1].g.flags, IW_PAGE_LOCAL);
	assert_int_equal(atomic_load(&app[0].page->end[1].hand), IW_HAND_TAKEN);
	assert_memory_equal(&app[1].g.tuple, &joined.t, sizeof(joined.t));
	assert_int_equal(stream_state(app[0].st), STREAM_LOCAL);
}

static void local_pair(void)
{
	relayed(0);
	say(app[0].fd, "plain");
	expect_text(tcp[1], "plain");
	say(tcp[1], "yes");
	expect_octets(&app[0], "yes");
	assert_int_equal(join(), 0);
	is_pair();
	say(app[0].fd, "question");
	expect_octets(&app[1], "question");
	say(app[1].fd, "answer");
	expect_octets(&app[0], "answer");
}

/* The end that accepted may switch first. */
static void server_first(void **state)
{
	int was[2] = { tcp[0], tcp[1] };

	tcp[0] = was[1];
	tcp[1] = was[0];
	{
		struct iw_tuple t = tuple_of(tcp[0]);

		assert_int_equal(stream_grant(tcp[0], &t, &owner, false, 0, &app[0].g, &app[0].st), 0);
		tcp[0] = -1;
		take_grant(&app[0]);
	}
	assert_int_equal(stream_switched(app[0].st, 5), 0);
	say(app[0].fd, "220 ready");
	expect_text(tcp[1], "220 ready");
	assert_int_equal(join(), 0);
	is_pair();
	say(app[1].fd, "HELO");
	expect_octets(&app[0], "HELO");
}

/* What the second application has not read of its socket it reads first; the carrier waits for it a moment. */
static void not_while_octets_are_unread(void **state)
{
	char c[4];

	relayed(0);
	say(app[0].fd, "a");
	run_until(readable, &tcp[1]);
	assert_int_equal(join(), -EAGAIN);
	say(app[0].fd, "b");
	assert_int_equal(recv(tcp[1], c, sizeof(c), MSG_DONTWAIT), 1);
	assert_int_equal(join(), 0);
	expect_octets(&app[1], "b");
}

static void the_relay_goes_on_after_a_refusal(void **state)
{
	relayed(0);
	say(app[0].fd, "a");
	run_until(readable, &tcp[1]);
	assert_int_equal(join(), -EAGAIN);
	say(app[0].fd, "b");
	expect_text(tcp[1], "a");
	expect_text(tcp[1], "b");
	say(tcp[1], "c");
	expect_octets(&app[0], "c");
	close_app(0);		/* nor is it forgotten to look for the end */
	run_until(readable, &tcp[1]);
	assert_int_equal(recv(tcp[1], &joined, 1, 0), 0);
	run_until(gone, NULL);
}

/* For some rounds in a row: the relay and its carrier are full. */
static bool behind(void *arg)
{
	int n, *rounds = arg;

	*rounds = !ioctl(app[0].st->end[0].tcp, SIOCINQ, &n) && n ? *rounds + 1 : 0;
	return *rounds >= 50;
}

/* The second application's octets that the first does not read: the join waits for room in the carrier, not for ever. */
static void what_is_under_way_arrives_first(void **state)
{
	enum { N = 3 << 20 };
	struct job w = { .fd = tcp[1], .out = N, .seed_out = 3 };
	struct job r = { .a = &app[0], .in = N, .seed_in = 3 };
	uint64_t start_ms;
	int rounds = 0;

	relayed(0);
	start(&w, job_write);
	run_until(behind, &rounds);
	start_ms = engine_now_ms();
	join_begin(20);
	run_until(is_true, &joined.done);
	assert_int_equal(joined.ret, -EAGAIN);
	assert_true(engine_now_ms() - start_ms >= 20);
	start(&r, job_read);
	finish(&w);
	join_begin(5000);
	run_until(is_true, &joined.done);
	assert_int_equal(joined.ret, 0);
	finish(&r);
	assert_int_equal(r.err, 0);
	say(app[1].fd, "behind it");
	expect_octets(&app[0], "behind it");
}

static void ends_are_not_joined(void **state)
{
	char c;

	relayed(0);
	shutdown(tcp[1], SHUT_WR);
	expect_end(&app[0], 0);
	assert_int_equal(join(), -ENOTCONN);
	shutdown(app[0].fd, SHUT_WR);
	run_until(readable, &tcp[1]);
	assert_int_equal(recv(tcp[1], &c, 1, 0), 0);
}

static void another_connection_is_not_joined(void **state)
{
	int own = tcp[1], other[2];

	tcp_pair(other);
	assert_int_equal(send(other[0], "x", 1, 0), 1);
	run_until(readable, &other[1]);
	assert_int_equal(recv(other[1], &own, 1, 0), 1);
	own = tcp[1];
	relayed(0);
	tcp[1] = other[1];
	join_begin(20);
	run_until(is_true, &joined.done);
	assert_int_equal(joined.ret, -EAGAIN);
	tcp[1] = own;
	close(other[0]);
	close(other[1]);
	assert_int_equal(join(), 0);
}

static void quota_of_the_second(void **state)
{
	struct prm_user *u = prm_user_get(other_user.uid);

	relayed(0);
	assert_int_equal(prm_take_one(u, PRM_STREAMS, conf.max_streams), 0);
	assert_int_equal(join(), -EDQUOT);
	prm_give_one(u, PRM_STREAMS, conf.max_streams);
	say(app[0].fd, "on");
	expect_text(tcp[1], "on");
	assert_int_equal(join(), 0);
}

static void cancelled(void **state)
{
	relayed(0);
	say(app[0].fd, "a");
	join_begin(1000);
	stream_join_cancel(app[0].st);
	stream_join_cancel(app[0].st);
	run_rounds(10);
	expect_text(tcp[1], "a");
	assert_false(joined.done && !joined.ret);
	assert_int_equal(join(), 0);
	is_pair();
}

/* The second application is offered its end; the octets that come meanwhile are in the carrier. */
static void offered(void)
{
	relayed(0);
	joined.leave = true;
	assert_int_equal(join(), 0);
	joined.leave = false;
	assert_int_equal(stream_state(app[0].st), STREAM_RELAY);
	say(app[0].fd, "waits");
	run_rounds(20);
	assert_false(readable(&tcp[1]));
}

static void offered_and_not_taken(void **state)
{
	offered();
	close_app(1);
	assert_int_equal(stream_close(app[0].g.stream_id), -EBUSY);
	assert_true(stream_join_cancel(app[0].st));
	assert_int_equal(atomic_load(&app[0].page->end[1].hand), IW_HAND_VOID);
	assert_int_equal(stream_joined(app[0].st), -EINVAL);
	run_until(readable, &tcp[1]);
	expect_text(tcp[1], "waits");
	say(tcp[1], "plain");
	expect_octets(&app[0], "plain");
	munmap(app[1].page, app[1].g.size);
	assert_int_equal(join(), 0);
	is_pair();
}

/* It cannot be taken back from one that has it, though nobody said so. */
static void offered_and_taken(void **state)
{
	offered();
	atomic_store(&app[1].page->end[1].hand, IW_HAND_TAKEN);
	assert_false(stream_join_cancel(app[0].st));
	assert_int_equal(stream_joined(app[0].st), 0);
	tcp[1] = -1;
	is_pair();
	expect_octets(&app[1], "waits");
}

/* Octets that the second application wrote into its TCP socket, past its library, before the exchange: before it is answered they are on their way. */
static void joined_late(void **state)
{
	char b[1000];
	uint64_t had;

	offered();
	had = app[0].st->rx_bytes;
	memset(b, 'l', sizeof(b));
	for (int i = 0; i < 100; i++)
		assert_int_equal(send(tcp[1], b, sizeof(b), MSG_DONTWAIT), sizeof(b));
	atomic_store(&app[1].page->end[1].hand, IW_HAND_TAKEN);
	assert_int_equal(stream_joined(app[0].st), 0);
	tcp[1] = -1;
	is_pair();
	assert_int_equal(app[0].st->rx_bytes - had, 100 * sizeof(b));
	say(app[1].fd, "behind them");
	for (int left = 100 * sizeof(b), n; left; left -= n) {
		n = (int)recv(app[0].fd, b, (size_t)left < sizeof(b) ? (size_t)left : sizeof(b), MSG_DONTWAIT);
		assert_true(n > 0);
		for (int k = 0; k < n; k++)
			assert_int_equal(b[k], 'l');
	}
	expect_octets(&app[0], "behind them");
	expect_octets(&app[1], "waits");
}

/* They cannot be put in their order any more, or there is no room: a reset, and nothing wrong is read. */
static void both_are_reset(void)
{
	for (unsigned int e = 0; e < 2; e++) {
		char b[64];
		ssize_t n;

		while ((n = recv(app[e].fd, b, sizeof(b), MSG_DONTWAIT)) > 0)
			assert_null(memchr(b, 'l', (size_t)n));
		assert_int_equal(n, 0);
		assert_int_equal(atomic_load(&app[0].page->end[e].close_state), IW_CLOSE_RESET);
		assert_int_equal(send(app[e].fd, "x", 1, MSG_NOSIGNAL), -1);
	}
}

static void joined_late_and_overtaken(void **state)
{
	offered();
	say(tcp[1], "lost");
	say(app[1].fd, "sooner");
	atomic_store(&app[1].page->end[1].hand, IW_HAND_TAKEN);
	assert_int_equal(stream_joined(app[0].st), 0);
	tcp[1] = -1;
	is_pair();
	both_are_reset();
}

/* The first application closes meanwhile. */
static void offered_by_one_that_closes(void **state)
{
	offered();
	close_app(0);
	run_rounds(20);
	close_app(1);
	assert_true(stream_join_cancel(app[0].st));
	run_until(readable, &tcp[1]);
	expect_text(tcp[1], "waits");
	run_until(readable, &tcp[1]);
	assert_int_equal(recv(tcp[1], &joined, 1, 0), 0);
	run_until(gone, NULL);
	munmap(app[1].page, app[1].g.size);
}

static void the_stream_ends_meanwhile(void **state)
{
	relayed(0);
	join_begin(1000);
	if (!joined.done)
		assert_int_equal(stream_close(app[0].g.stream_id), 0);
	assert_true(joined.done);
	assert_int_equal(joined.ret, -ENOTCONN);
	run_until(gone, NULL);
}

/*
 * Again and again at any moment of two busy applications: the second asks at each of its calls, as the library does, until it is joined;
 * what it reads after that comes by the carrier.
 */
static void at_any_moment(void **state)
{
	unsigned int seed = (unsigned int)getpid(), r = seed, asks = 0;

	print_message("# seed %u\n", seed);
	for (int round = 0; round < 40; round++) {
		struct job w = { .a = &app[0], .out = 1 << 18, .seed_out = 1, .max = 1 + (unsigned int)rand_r(&r) % 20000 };
		struct job rd = { .a = &app[0], .in = 1 << 18, .seed_in = 2, .max = 1 + (unsigned int)rand_r(&r) % 20000 };
		uint64_t in = 0, out = 0;
		bool ours = false;

		if (round)
			next_pair();
		relayed(0);
		start(&w, job_write);
		start(&rd, job_read);
		while (in < w.out || out < rd.in) {
			static uint8_t buf[20000];
			size_t n = 1 + (size_t)rand_r(&r) % sizeof(buf);
			ssize_t k;
			int fd;

			if (!ours && rand_r(&r) % 4 == 0) {
				asks++;
				join_begin((unsigned int)rand_r(&r) % 20);
				run_until(is_true, &joined.done);
				ours = !joined.ret;
				assert_true(ours || joined.ret == -EAGAIN);
			}
			fd = ours ? app[1].fd : tcp[1];
			k = recv(fd, buf, n, MSG_DONTWAIT);
			for (ssize_t i = 0; i < k; i++)
				assert_int_equal(buf[i], octet_at(in + (uint64_t)i, 1));
			in += k > 0 ? (uint64_t)k : 0;
			if (n > rd.in - out)
				n = rd.in - out;
			for (size_t i = 0; i < n; i++)
				buf[i] = octet_at(out + i, 2);
			k = send(fd, buf, n, MSG_DONTWAIT | MSG_NOSIGNAL);
			out += k > 0 ? (uint64_t)k : 0;
			run_rounds(2);
		}
		finish(&w);
		finish(&rd);
		assert_int_equal(w.err, 0);
		assert_int_equal(rd.err, 0);
		if (!ours)
			assert_int_equal(join(), 0);
	}
	assert_in_range(asks, 10, 1u << 30);	/* of some thousand: one round may by chance have none */
}

/* ---- the pair ---- */

/* One end was closed: the other still has its witness, for options, until it is closed too. */
static void other_end_closes(unsigned int other)
{
	int v = -1;
	socklen_t len = sizeof(v);

	run_rounds(20);
	assert_int_equal(ngone, 0);
	assert_int_equal(getsockopt(app[0].st->end[other].tcp, IPPROTO_TCP, TCP_NODELAY, &v, &len), 0);
	close_app(other);
	run_until(gone, NULL);
}

static void count_rows(void *arg, const struct stream_info *i)
{
	*(unsigned int *)arg += i->client ? 1 : 16;
}

static void local_client_closes(void **state)
{
	unsigned int rows = 0;

	local_pair();
	stream_foreach(count_rows, &rows);
	assert_int_equal(rows, 17);
	assert_true(app[0].st->end[0].tcp >= 0);
	assert_true(app[0].st->end[1].tcp >= 0);
	close_app(0);
	expect_end(&app[1], 0);
	other_end_closes(1);
}

static void local_server_closes(void **state)
{
	local_pair();
	close_app(1);
	expect_end(&app[0], 0);
	other_end_closes(0);
}

static uint64_t streams_of(uint32_t uid)
{
	return prm_user_get(uid)->used[PRM_STREAMS];
}

static bool not_counted(void *arg)
{
	return !streams_of(*(const uint32_t *)arg);
}

/* Whoever keeps his end has the stream, not the user who closed the other one. */
static void closes_first(unsigned int end)
{
	uint32_t uid[2] = { owner.uid, other_user.uid };

	local_pair();
	assert_int_equal(streams_of(uid[0]), 1);
	assert_int_equal(streams_of(uid[1]), 1);
	shutdown(app[end].fd, SHUT_RDWR);	/* is not a close */
	run_rounds(20);
	assert_int_equal(streams_of(uid[end]), 1);
	close_app(end);
	run_until(not_counted, &uid[end]);
	assert_int_equal(streams_of(uid[!end]), 1);
	other_end_closes(!end);
	assert_int_equal(streams_of(uid[0]), 0);
	assert_int_equal(streams_of(uid[1]), 0);
}

static void local_counts_for_who_keeps_it(void **state)
{
	closes_first(1);
}

static void local_counts_for_the_server(void **state)
{
	closes_first(0);
}

static void local_half_closes_keep_it(void **state)
{
	local_pair();
	shutdown(app[0].fd, SHUT_WR);
	expect_end(&app[1], 0);
	shutdown(app[1].fd, SHUT_WR);
	expect_end(&app[0], 0);
	run_rounds(10);
	assert_int_equal(ngone, 0);
	close_app(1);
	other_end_closes(0);
}

/* Both holders die at the same moment, before anybody could look. */
static void local_both_killed(void **state)
{
	local_pair();
	close_app(0);
	close_app(1);
	run_until(gone, NULL);
}

static void local_both_half_closed_and_killed(void **state)
{
	local_pair();
	shutdown(app[0].fd, SHUT_WR);
	shutdown(app[1].fd, SHUT_WR);
	close_app(0);
	close_app(1);
	run_until(gone, NULL);
}

/* The server's end is held by another process, which got it as applications get descriptors. */
static void local_other_process_dies(void **state)
{
	int p[2];
	pid_t pid;
	char c;

	local_pair();
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		close(app[0].fd);
		close(p[1]);
		_exit(read(p[0], &c, 1) < 0);
	}
	close(p[0]);
	close_app(1);
	run_rounds(20);
	assert_int_equal(ngone, 0);
	close(p[1]);
	waitpid(pid, NULL, 0);
	expect_end(&app[0], 0);
	other_end_closes(0);
}

static void local_open_by_cookie(void **state)
{
	struct stream_grant g;

	local_pair();
	for (unsigned int e = 0; e < 2; e++) {
		assert_int_equal(stream_open(app[e].fd, &g), 0);
		assert_int_equal(g.end, e);
		assert_int_equal(g.flags, IW_PAGE_LOCAL);
		close(g.segment);
	}
}

/* What the first application said, and its close, are in the carrier when the second gets the other end. */
static void local_client_gone_at_once(void **state)
{
	relayed(0);
	join_begin(1000);
	say(app[0].fd, "testament");
	run_until(is_true, &joined.done);
	if (joined.ret == -EAGAIN) {	/* it was read at the last moment */
		expect_text(tcp[1], "testament");
		assert_int_equal(join(), 0);
		say(app[0].fd, "testament");
	}
	close_app(0);
	expect_octets(&app[1], "testament");
	expect_end(&app[1], 0);
	other_end_closes(1);
}

static void options_of_the_witnesses(void **state)
{
	int v = -1;
	socklen_t len = sizeof(v);
	struct linger l = { .l_onoff = 1 };

	local_pair();
	assert_int_equal(stream_getsockopt(stream_id(app[0].st), 0, IPPROTO_TCP, TCP_NODELAY, &v, &len), 0);
	assert_int_equal(v, 0);
	for (unsigned int e = 0; e < 2; e++) {
		len = sizeof(l);
		assert_int_equal(stream_getsockopt(stream_id(app[0].st), e, SOL_SOCKET, SO_LINGER, &l, &len), 0);
		assert_int_equal(l.l_onoff, 0);
	}
}

/* ---- rings ---- */

static void add_path(void *arg, const struct stream_info *i)
{
	const char **path = arg;

	path[i->client ? 0 : 1] = i->path;
}

static const char *path_of(unsigned int end)
{
	const char *path[2] = { "", "" };

	stream_foreach(add_path, path);
	return path[end];
}

static void is_ring(void *arg, const struct rnic_mr_info *i)
{
	++*(unsigned int *)arg;
	assert_int_equal(i->len, IW_PAGE_RING);
	assert_int_equal(i->access, IW_ACCESS_LOCAL_READ | IW_ACCESS_LOCAL_WRITE);
	assert_int_equal(i->stream_id, app[0].g.stream_id);
	assert_int_equal(i->uid, app[0].st->end[0].uid);
}

static bool unregistered(void *arg)
{
	return !rnic_mr_count();
}

static void rings_are_registered(void **state)
{
	struct prm_user *u;
	unsigned int n = 0;

	local_pair();
	u = rnic_pd_user(app[0].st->pd);
	rnic_mr_foreach(is_ring, &n);
	assert_int_equal(n, 2);
	assert_int_equal(u->used[PRM_STAGS], 2);
	assert_int_equal(u->used[PRM_MEMORY], 2 * IW_PAGE_RING);
	close_app(0);
	run_until(unregistered, NULL);	/* whoever has the other end may keep it for as long as he likes */
	assert_int_equal(ngone, 0);
	assert_int_equal(u->used[PRM_STAGS] + u->used[PRM_MEMORY], 0);
	close_app(1);
	run_until(gone, NULL);
}

/* ---- an end that goes to a stranger, with octets unread in its ring ---- */

/* As its consumer would have left it: octets that end 1 has put. */
static void left_in_ring(uint32_t tail, const char *text)
{
	uint8_t *mem = (uint8_t *)app[0].page;
	struct iw_ring_dir *dir = (struct iw_ring_dir *)(mem + IW_PAGE_DIRS) + 1;
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i++)
		mem[IW_PAGE_RINGS + IW_PAGE_RING + ((tail + i) & (IW_PAGE_RING - 1))] = (uint8_t)text[i];
	atomic_store(&dir->tail, tail);
	atomic_store(&dir->head, (uint64_t)(tail + n) << IW_RING_SHIFT | IW_RING_OPEN | IW_RING_OFFERED);
}

/* Its carrier is another one from now on. */
static int rest(void)
{
	struct stream_grant g;
	int ret = stream_rest(dup(app[0].fd), 0, &g);

	if (ret)
		return ret;
	assert_int_equal(g.end, 0);
	close(g.segment);
	close(app[0].fd);
	app[0].fd = g.carrier;
	return 0;
}

static void local_rest(void **state)
{
	char b[64] = { 0 };

	local_pair();
	assert_string_equal(path_of(0), "carrier");
	left_in_ring(IW_PAGE_RING - 3, "left over");
	atomic_store(&app[0].page->end[1].ringed, 1);
	assert_string_equal(path_of(0), "carrier");
	assert_string_equal(path_of(1), "rings");
	say(app[1].fd, " and behind");
	assert_int_equal(rest(), 0);
	assert_string_equal(path_of(0), "relayed");
	assert_int_equal(recv(app[0].fd, b, sizeof(b), MSG_DONTWAIT), 20);	/* at once, whoever asks */
	assert_string_equal(b, "left over and behind");
	assert_true(iw_page_relayed(app[0].page));
	assert_int_equal(rest(), -EINVAL);	/* once */
	say(app[0].fd, "from it");
	expect_octets(&app[1], "from it");
	say(app[1].fd, "to it");
	expect_octets(&app[0], "to it");
	assert_int_equal(shutdown(app[1].fd, SHUT_WR), 0);
	run_until(readable, &app[0].fd);
	assert_int_equal(recv(app[0].fd, b, 1, 0), 0);
	assert_int_equal(atomic_load(&app[0].page->end[0].close_state), IW_CLOSE_FIN);
	assert_int_equal(atomic_load(&app[0].page->end[1].close_state), IW_CLOSE_OPEN);
	say(app[0].fd, "still");
	expect_octets(&app[1], "still");
	close_app(0);
	run_until(hung_up, &app[1].fd);
	assert_int_equal(atomic_load(&app[0].page->end[1].close_state), IW_CLOSE_FIN);
	close_app(1);
	run_until(gone, NULL);
}

/* It closes with octets unread: the other end is told of a reset. */
static void local_rest_unread(void **state)
{
	local_pair();
	left_in_ring(0, "left over");
	assert_int_equal(rest(), 0);
	close_app(0);
	run_until(hung_up, &app[1].fd);
	assert_int_equal(atomic_load(&app[0].page->end[1].close_state), IW_CLOSE_RESET);
	close_app(1);
	run_until(gone, NULL);
}

/* The end that was not given away closes with octets unread in its own ring: so is the one that is relayed. */
static void local_rest_left_there(void **state)
{
	struct iw_ring_dir *dir;

	local_pair();
	left_in_ring(0, "left over");
	assert_int_equal(rest(), 0);
	expect_octets(&app[0], "left over");
	dir = (struct iw_ring_dir *)((uint8_t *)app[0].page + IW_PAGE_DIRS);
	atomic_store(&dir->head, 5ull << IW_RING_SHIFT);
	close_app(1);
	run_until(hung_up, &app[0].fd);
	assert_int_equal(atomic_load(&app[0].page->end[0].close_state), IW_CLOSE_RESET);
	close_app(0);
	run_until(gone, NULL);
}

static void local_rest_nonsense(void **state)
{
	int un[2];
	struct stream_grant g;

	local_pair();
	left_in_ring(0, "left over");
	atomic_store(&((struct iw_ring_dir *)((uint8_t *)app[0].page + IW_PAGE_DIRS) + 1)->tail, 1ull << 40);
	assert_int_equal(rest(), -EPROTO);
	say(app[1].fd, "goes on");
	expect_octets(&app[0], "goes on");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, un), 0);
	assert_int_equal(stream_rest(un[0], 0, &g), -ENOENT);
	close(un[1]);
	close_app(0);
	close_app(1);
	run_until(gone, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(server_first), T(not_while_octets_are_unread), T(the_relay_goes_on_after_a_refusal), T(what_is_under_way_arrives_first),
		T(ends_are_not_joined), T(another_connection_is_not_joined), T(quota_of_the_second), T(cancelled), T(offered_and_not_taken), T(offered_and_taken), T(joined_late), T(joined_late_and_overtaken), T(offered_by_one_that_closes), T(the_stream_ends_meanwhile),
		T(at_any_moment), T(local_client_closes), T(local_server_closes), T(local_half_closes_keep_it), T(local_both_killed),
		T(local_both_half_closed_and_killed), T(local_other_process_dies), T(local_open_by_cookie), T(local_client_gone_at_once),
		T(local_counts_for_who_keeps_it), T(local_counts_for_the_server), T(options_of_the_witnesses), T(rings_are_registered), T(local_rest), T(local_rest_unread), T(local_rest_left_there), T(local_rest_nonsense),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
