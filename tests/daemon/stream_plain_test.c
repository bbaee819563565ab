/* SPDX-License-Identifier: MIT */
/* Streams that do not run over RDMAP: held, withdrawn to a relay, abandoned, joined as a pair of this host. */
#include "stream_util.h"

#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>

/* ---- held ---- */

static void expect_text(int fd, const char *text)
{
	char b[64] = { 0 };

	run_until(readable, &fd);
	assert_int_equal(recv(fd, b, sizeof(b), MSG_DONTWAIT), strlen(text));
	assert_string_equal(b, text);
}

static bool withdrawn(void *arg)
{
	return nwithdrawn;
}

static bool gone(void *arg)
{
	return ngone;
}

static bool told_held(void *arg)
{
	return nheld;
}

static void held_octets_are_told_once(void **state)
{
	held();
	run_rounds(3);
	assert_int_equal(nheld, 0);
	say(app[0].fd, "a");
	run_until(told_held, NULL);
	say(app[0].fd, "b");
	run_rounds(3);
	assert_int_equal(nheld, 1);
	stream_withdraw(app[0].st, IW_REASON_UNCLAIMED);
	expect_text(tcp[1], "ab");
}

static void early_close_is_told(void **state)
{
	held();
	close_app(0);
	run_until(told_held, NULL);
	stream_withdraw(app[0].st, IW_REASON_UNCLAIMED);
	run_until(readable, &tcp[1]);
	char c;

	assert_int_equal(recv(tcp[1], &c, 1, 0), 0);
}

static void server_that_speaks_first_is_plain(void **state)
{
	held();
	say(app[0].fd, "client");
	say(tcp[1], "220 ready");
	run_until(withdrawn, NULL);
	assert_int_equal(withdrawn_reason, IW_REASON_NOT_MPA);
	assert_int_equal(stream_state(app[0].st), STREAM_RELAY);
	expect_octets(&app[0], "220 ready");
	expect_text(tcp[1], "client");
}

static void server_that_closes_is_plain(void **state)
{
	held();
	say(app[0].fd, "for nobody");
	run_rounds(2);
	shutdown(tcp[1], SHUT_WR);
	run_until(withdrawn, NULL);
	assert_int_equal(withdrawn_reason, IW_REASON_UNCLAIMED);
	expect_end(&app[0], 0);
	expect_text(tcp[1], "for nobody");
}

static void reset_peer(void)
{
	struct linger l = { .l_onoff = 1 };

	setsockopt(tcp[1], SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(tcp[1]);
	tcp[1] = -1;
}

static void server_that_resets(void **state)
{
	held();
	reset_peer();
	run_until(withdrawn, NULL);
	expect_end(&app[0], -ECONNRESET);
}

static void octets_before_the_commit(void **state)
{
	offer();
	say(tcp[1], "early");
	run_rounds(3);
	assert_int_equal(nwithdrawn, 0);
	stream_commit(app[0].st, 5);
	run_until(withdrawn, NULL);
	expect_octets(&app[0], "early");
}

/* ---- relay ---- */

static void relay(void)
{
	held();
	stream_withdraw(app[0].st, IW_REASON_UNCLAIMED);
	run_rounds(3);
	assert_int_equal(stream_state(app[0].st), STREAM_RELAY);
}

/* Held octets first, then both directions at full speed. */
static void relay_is_lossless(void **state)
{
	enum { N = 64 << 20 };
	struct job w0 = { .a = &app[0], .out = N, .seed_out = 1, .shut = true, .max = 1 << 18 };
	struct job r0 = { .a = &app[0], .in = UINT64_MAX, .seed_in = 2, .max = 1 << 18 };
	struct job w1 = { .out = N, .seed_out = 2, .shut = true, .max = 1 << 18 };
	struct job r1 = { .in = UINT64_MAX, .seed_in = 1, .max = 1 << 18 };

	held();
	w1.fd = r1.fd = tcp[1];
	start(&w0, job_write);
	run_until(told_held, NULL);
	run_rounds(20);		/* the carrier fills up */
	stream_withdraw(app[0].st, IW_REASON_UNCLAIMED);
	start(&r0, job_read);
	start(&w1, job_write);
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
	setsockopt(stream_tcp(app[0].st, 0), SOL_SOCKET, SO_LINGER, &l, sizeof(l));
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

static bool no_error_waits(void *fd)
{
	struct pollfd p = { .fd = *(int *)fd };

	return !poll(&p, 1, 0);
}

/* A time stamp of one's own segment, in the error queue of a socket whose octets are held: it would end every poll at once. */
static void held_with_an_error_queue(void **state)
{
	int mine = fcntl(tcp[0], F_DUPFD_CLOEXEC, 0), stamps = 2 | 16 | 256;	/* TX_SOFTWARE, SOFTWARE, TX_SCHED */

	held();
	assert_int_equal(setsockopt(mine, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof(stamps)), 0);
	say(mine, "x");
	assert_false(no_error_waits(&mine));
	run_until(no_error_waits, &mine);
	assert_int_equal(stream_state(app[0].st), STREAM_HELD);
	close(mine);
}

/* ---- offered ---- */

static void abandoned_without_a_trace(void **state)
{
	int mine = fcntl(tcp[0], F_DUPFD_CLOEXEC, 0);

	offer();
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

	offer();
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

	offer();
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

	offer();
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
	offer();
	assert_int_equal(stream_offer(tcp[1], &t, &owner, &g, &st), -EDQUOT);
	assert_int_equal(stream_claim(tcp[1], &t, &owner, &g, &st), -EDQUOT);
	assert_int_equal(stream_offer(tcp[1], &t, &other, &g, &st), 0);
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
	assert_int_equal(stream_offer(tcp[1], &t, &owner, &g, &st), -EDQUOT);
	assert_int_equal(stream_claim(tcp[1], &t, &owner, &g, &st), -EDQUOT);
	run_rounds(3);
	say(tcp[0], "still plain");
	expect_text(tcp[1], "still plain");
}

/* The daemon has buffers of its own for a relay: they count until it ends. */
static void relay_counts_its_buffers(void **state)
{
	const uint64_t *used = &prm_user_get(owner.uid)->used[PRM_MEMORY];

	relay();
	assert_in_range(*used, 256 << 10, 512 << 10);
	close_app(0);
	close(tcp[1]);
	tcp[1] = -1;
	run_until(gone, NULL);
	assert_int_equal(*used, 0);
}

/* What one offer set aside is there when it is claimed, and free again, but for the buffers of a relay, when it is withdrawn. */
static void memory_is_set_aside(void **state)
{
	struct iw_tuple t = tuple_of(tcp[1]);
	struct stream_grant g;
	struct stream *st;

	conf.max_memory = 4 * conf.ring_size;
	held();
	assert_int_equal(stream_claim(tcp[1], &t, &owner, &g, &st), -EDQUOT);
	stream_withdraw(app[0].st, IW_REASON_QUOTA);
	run_rounds(3);
	assert_int_equal(stream_claim(tcp[1], &t, &owner, &g, &st), 0);
	tcp[1] = -1;
	close(g.carrier);
	close(g.segment);
}

/* At every number of descriptors left: an error, nothing lost, the sockets still the caller's. */
static void out_of_descriptors(void **state)
{
	struct iw_tuple t0 = tuple_of(tcp[0]), t1 = tuple_of(tcp[1]);
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
	for (int more = 0; more < 8; more++) {
		now = (struct rlimit){ .rlim_cur = (rlim_t)(top + 1 + more), .rlim_max = was.rlim_max };
		setrlimit(RLIMIT_NOFILE, &now);
		int a = stream_offer(tcp[0], &t0, &owner, &g, &st);

		setrlimit(RLIMIT_NOFILE, &was);
		if (!a) {
			tcp[0] = -1;
			close(g.carrier);
			close(g.segment);
			stream_abandon(st);
			break;
		}
		assert_int_equal(a, -EMFILE);
		failed++;
		run_rounds(2);
		assert_int_equal(open_fds(), before);
	}
	assert_true(failed >= 2);
	assert_int_equal(tcp[0], -1);
	for (int more = 0; more < 8; more++) {
		now = (struct rlimit){ .rlim_cur = (rlim_t)(top + 1 + more), .rlim_max = was.rlim_max };
		setrlimit(RLIMIT_NOFILE, &now);
		int a = stream_claim(tcp[1], &t1, &owner, &g, &st);

		setrlimit(RLIMIT_NOFILE, &was);
		if (!a) {
			tcp[1] = -1;
			close(g.carrier);
			close(g.segment);
			while (nholes)
				close(hole[--nholes]);
			return;
		}
		assert_int_equal(a, -EMFILE);
		run_rounds(2);
	}
	fail_msg("no claim succeeded");
}

/* ---- local pairs ---- */

static const struct stream_owner other_user = { .pid = 1, .uid = 1001, .fd = 3, .program = "other" };

static void local_pair(void)
{
	struct iw_tuple t = tuple_of(tcp[1]);

	held();
	say(app[0].fd, "early");
	run_until(told_held, NULL);
	assert_int_equal(stream_claim_local(app[0].st, tcp[1], &t, &other_user, &app[1].g), 0);
	tcp[1] = -1;
	take_grant(&app[1]);
	assert_int_equal(app[1].g.end, 1);
	assert_int_equal(app[1].g.flags, IW_PAGE_LOCAL);
	assert_int_equal(app[0].page->flags, IW_PAGE_LOCAL);
	assert_memory_equal(&app[1].g.tuple, &t, sizeof(t));
	run_rounds(3);
	expect_octets(&app[1], "early");
	say(app[1].fd, "answer");
	expect_octets(&app[0], "answer");
	assert_int_equal(stream_state(app[0].st), STREAM_LOCAL);
}

/* One end was closed: the other still has its witness, for options, until it is closed too. */
static void other_end_closes(unsigned int other)
{
	int v = -1;
	socklen_t len = sizeof(v);

	run_rounds(20);
	assert_int_equal(ngone, 0);
	assert_int_equal(getsockopt(stream_tcp(app[0].st, other), IPPROTO_TCP, TCP_NODELAY, &v, &len), 0);
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
	assert_true(stream_tcp(app[0].st, 0) >= 0);
	assert_true(stream_tcp(app[0].st, 1) >= 0);
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

/* The client was gone before the claim: the server still reads what it said. */
static void local_client_gone_before_the_claim(void **state)
{
	struct iw_tuple t = tuple_of(tcp[1]);

	held();
	say(app[0].fd, "testament");
	close_app(0);
	run_until(told_held, NULL);
	assert_int_equal(stream_claim_local(app[0].st, tcp[1], &t, &owner, &app[1].g), 0);
	tcp[1] = -1;
	take_grant(&app[1]);
	expect_octets(&app[1], "testament");
	expect_end(&app[1], 0);
	other_end_closes(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(held_octets_are_told_once), T(early_close_is_told), T(server_that_speaks_first_is_plain),
		T(server_that_closes_is_plain), T(server_that_resets), T(octets_before_the_commit), T(relay_is_lossless),
		T(relay_half_close_by_client), T(relay_half_close_by_server), T(relay_close_with_unread),
		T(relay_octets_for_a_closed_end), T(relay_linger_zero), T(relay_reset_by_server),
		T(relay_of_a_nonblocking_socket), T(held_with_an_error_queue), T(abandoned_without_a_trace), T(carrier_has_a_name), T(page_is_filled),
		T(segment_is_sealed), T(quota_of_streams), T(quota_of_memory_leaves_the_socket), T(memory_is_set_aside),
		T(out_of_descriptors),
		T(local_client_closes), T(local_server_closes), T(local_half_closes_keep_it), T(local_both_killed),
		T(local_both_half_closed_and_killed), T(local_other_process_dies), T(local_open_by_cookie),
		T(local_client_gone_before_the_claim), T(relay_counts_its_buffers),
		T(local_counts_for_who_keeps_it), T(local_counts_for_the_server),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
