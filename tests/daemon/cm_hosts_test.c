/* SPDX-License-Identifier: MIT */
/* Proposals between two hosts, which are namespaces with a daemon each: who asks whom, what comes of the answers, and of daemons that end. */
#include "cm_util.h"
#include "map_util.h"
#include "hosts_util.h"

static void nothing_for(unsigned int ms)
{
	for (uint64_t end = now_ms() + ms; now_ms() < end; poll(NULL, 0, 1))
		assert_false(may(0) || may(1));
}

/* Both go on to be told. */
static void nothing_for_go(unsigned int ms)
{
	for (uint64_t end = now_ms() + ms; now_ms() < end; poll(NULL, 0, 1))
		assert_true(may(0) && may(1));
}

/* Of a connection that was not proposed there. */
static void plain_unproposed(int h, enum iw_reason reason)
{
	struct iw_ctl_propose p = proposal(h ? s : c, h ? SID : CID, !h);
	struct iw_ctl_conn m;

	iw_ctl_init(&m, IW_CTL_PLAIN, 0);
	m.conn_id = p.conn_id + 100;
	m.local = p.local;
	m.peer = p.peer;
	m.reason = reason;
	m.flags = h ? 0 : IW_CONN_CLIENT;
	lib_tell(at(h), &m, -1);
	lib_sync(at(h));
}

static uint32_t peer_state(int h)
{
	const struct iw_peers *p = hosts[h].lib.peers;
	struct iw_addr a = { 0 };
	struct in_addr v4;
	uint64_t half[2];

	inet_pton(AF_INET, hosts[!h].ip, &v4);
	iw_ip_from_v4(a.ip, &v4);
	memcpy(half, a.ip, 16);
	for (unsigned int i = 0; i < IW_PEERS_SLOTS; i++)
		if (p->slot[i].ip[0] == half[0] && p->slot[i].ip[1] == half[1])
			return p->slot[i].state;
	return IW_PEER_UNKNOWN;
}

/* ---- */

/* The first connection between the two, and each after it: nobody has dialled yet. */
static void matched(void **state)
{
	if (geteuid())
		skip();
	propose(0);
	becomes(0, IW_REASON_UNANSWERED);
	nothing_for(20);
	propose(1);
	go(0);
	go(1);
	assert_int_equal(peer_state(0), IW_PEER_POSITIVE);
	assert_int_equal(peer_state(1), IW_PEER_POSITIVE);
}

static void server_proposes_first(void **state)
{
	if (geteuid())
		skip();
	propose(1);
	becomes(1, IW_REASON_UNANSWERED);
	propose(0);
	go(0);
	go(1);
}

static void both_at_once(void **state)
{
	if (geteuid())
		skip();
	for (int i = 0; i < 100; i++) {
		lib_propose(at(i % 2), i % 2 ? s : c, i % 2 ? SID : CID, !(i % 2));
		lib_propose(at(!(i % 2)), i % 2 ? c : s, i % 2 ? CID : SID, i % 2);
		go(0);
		go(1);
		nothing_for_go(3);	/* no answer from before the other end was proposed takes it back */
		lib_id(at(0), IW_CTL_CLOSED, CID, -1);
		lib_id(at(1), IW_CTL_CLOSED, SID, -1);
		lib_sync(at(0));
		lib_sync(at(1));
		assert_false(may(0) || may(1));
	}
}

static void other_end(void **state)
{
	if (geteuid())
		skip();
	propose(1);
	plain(1, IW_REASON_INHERITED);
	propose(0);
	becomes(0, IW_REASON_OTHER_END);
	nothing_for(20);
	/* it can after all */
	propose(1);
	go(0);
	go(1);
}

/* One end stays plain, and its daemon was asked before, or is later, or both had been told GO. */
static void plain_told(void **state)
{
	if (geteuid())
		skip();
	propose(0);
	becomes(0, IW_REASON_UNANSWERED);
	plain_unproposed(1, IW_REASON_POLICY);
	becomes(0, IW_REASON_OTHER_END);
	nothing_for(20);
	lib_id(at(0), IW_CTL_CLOSED, CID, -1);
	propose(0);
	becomes(0, IW_REASON_OTHER_END);
	propose(1);		/* it was another program that said so */
	go(0);
	go(1);
	plain_unproposed(1, IW_REASON_POLICY);
	nothing_for_go(20);
	plain(1, IW_REASON_URGENT);
	go_over(0);
	becomes(0, IW_REASON_OTHER_END);
	nothing_for(20);
}

static void closed_before(void **state)
{
	if (geteuid())
		skip();
	propose(1);
	lib_id(at(1), IW_CTL_CLOSED, SID, -1);
	lib_sync(at(1));
	propose(0);
	becomes(0, IW_REASON_UNANSWERED);
	nothing_for(20);
}

/* Both say that they connected, or that they did not. */
static void ends_do_not_agree(void **state)
{
	if (geteuid())
		skip();
	lib_propose(at(0), c, CID, true);
	lib_propose(at(1), s, SID, true);
	lib_sync(at(0));
	nothing_for(50);
}

/* From octet to octet plain, relayed and over iWARP. */
static void upgraded(void **state)
{
	struct answer a, b;

	if (geteuid())
		skip();
	over_iwarp(&a, &b);
	assert_int_equal(lib_back(at(0), b.m.stream_id), -1);
	for (int i = 0; i < 100; i++)
		both_ways(b.fds[0], a.fds[0]);
	/* the programs may end, their streams are others' */
	for (int h = 0; h < 2; h++) {
		lib_free(at(h));
		hosts[h].lib = lib_new();
	}
	both_ways(b.fds[0], a.fds[0]);
	close(b.fds[0]);
	expect(a.fds[0], "");
	close(a.fds[0]);
	close(a.fds[1]);
	close(b.fds[1]);
}

/* ---- the queue pair mapped ---- */

/* 0; 1 not now. */
static int ask_map(struct lib *l, uint64_t id, struct mapped *m)
{
	struct iw_ctl_mapped r;
	int fds[2];

	lib_id(l, IW_CTL_MAP, id, -1);
	lib_reply(l, l->seq, &r, IW_CTL_MAPPED, fds);
	assert_int_equal(r.stream_id, id);
	if (!r.result)
		mapped_get(m, fds[0], fds[1], r.size);
	return r.result;
}

static void get_map(struct lib *l, const struct answer *a, struct mapped *m)
{
	for (uint64_t until = now_ms() + 20000; ask_map(l, a->m.stream_id, m); sched_yield())
		assert_true(now_ms() < until);
	assert_true(daemon_holds(m->tcp));
}

static bool take_map(const struct answer *a)
{
	struct iw_page *page = page_of(a);
	uint32_t offered = IW_HAND_OFFERED;
	bool taken = atomic_compare_exchange_strong(&page->end[0].hand, &offered, IW_HAND_TAKEN);

	munmap(page, IW_PAGE_SIZE);
	return taken;
}

static void unmap(struct lib *l, const struct answer *a, struct mapped *m)
{
	struct iw_ctl_ack k;
	int none[2];

	mapped_end(m);
	lib_id(l, IW_CTL_UNMAP, a->m.stream_id, -1);
	lib_reply(l, l->seq, &k, IW_CTL_ACK, none);
	assert_int_equal(k.result, 0);
	assert_int_equal(k.id, a->m.stream_id);
}

/* The mapped end and the one at fd. */
static void mapped_both_ways(struct mapped *m, int fd)
{
	char b[4];
	ssize_t n;

	assert_int_equal(mapped_send(m, "ping", 4), 4);
	expect(fd, "ping");
	assert_int_equal(send(fd, "pong", 4, 0), 4);
	for (uint64_t until = now_ms() + 20000; (n = mapped_recv(m, b, sizeof(b))) < 0; sched_yield())
		assert_true(errno == EAGAIN && now_ms() < until);
	assert_int_equal(n, 4);
	assert_memory_equal(b, "pong", 4);
}

static void mapped(void **state)
{
	struct answer a, b;
	struct mapped m;

	if (geteuid())
		skip();
	over_iwarp(&a, &b);
	for (int i = 0; i < 3; i++) {
		get_map(at(0), &b, &m);
		assert_true(take_map(&b));
		mapped_begin(&m);
		lib_switched(at(0), b.m.stream_id, b.fds[0]);
		mapped_both_ways(&m, a.fds[0]);
		assert_true(shows(0, "path", "mapped"));
		assert_true(shows(1, "path", "carrier"));
		unmap(at(0), &b, &m);
		assert_true(shows(0, "path", "carrier"));
		both_ways(b.fds[0], a.fds[0]);
	}
	close_both(&a, &b);
}

/* What another process says of that stream: nothing comes of it. */
static void stranger_says(uint64_t id)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		struct lib l = lib_new();
		struct iw_ctl_ack k;
		struct mapped m;
		int none[2], refused = ask_map(&l, id, &m);

		lib_id(&l, IW_CTL_ABANDON, id, -1);
		lib_id(&l, IW_CTL_UNMAP, id, -1);
		lib_reply(&l, l.seq, &k, IW_CTL_ACK, none);
		_exit(refused ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void mapped_by_whom(void **state)
{
	struct answer a, b;
	struct mapped m;

	if (geteuid())
		skip();
	over_iwarp(&a, &b);
	at(0);
	assert_int_equal(ask_map(at(0), b.m.stream_id + 1, &m), 1);
	stranger_says(b.m.stream_id);
	both_ways(b.fds[0], a.fds[0]);
	get_map(at(0), &b, &m);
	stranger_says(b.m.stream_id);
	assert_true(take_map(&b));
	mapped_begin(&m);
	stranger_says(b.m.stream_id);
	lib_switched(at(0), b.m.stream_id, b.fds[0]);
	stranger_says(b.m.stream_id);
	mapped_both_ways(&m, a.fds[0]);
	unmap(at(0), &b, &m);
	close_both(&a, &b);
}

static void map_abandoned(void **state)
{
	struct answer a, b;
	struct mapped m;

	if (geteuid())
		skip();
	over_iwarp(&a, &b);
	get_map(at(0), &b, &m);
	mapped_drop(&m);
	lib_id(at(0), IW_CTL_ABANDON, b.m.stream_id, -1);
	lib_sync(at(0));
	assert_false(take_map(&b));
	both_ways(b.fds[0], a.fds[0]);
	close_both(&a, &b);
}

/* The client is gone before it could say what it has taken, or taken nothing. */
static void map_and_gone(bool taken)
{
	struct answer a, b;
	struct mapped m;

	if (geteuid())
		skip();
	over_iwarp(&a, &b);
	get_map(at(0), &b, &m);
	if (taken)
		assert_true(take_map(&b));
	else
		mapped_drop(&m);
	lib_free(at(0));
	hosts[0].lib = lib_new();
	if (taken) {
		mapped_begin(&m);
		mapped_both_ways(&m, a.fds[0]);
		mapped_end(&m);		/* as at a close */
	} else {
		both_ways(b.fds[0], a.fds[0]);
	}
	close_both(&a, &b);
}

static void map_taken_and_gone(void **state)
{
	map_and_gone(true);
}

static void map_not_taken_and_gone(void **state)
{
	map_and_gone(false);
}

/* The other end does not come: the socket goes back, and its daemon knows. */
static void alone(void **state)
{
	struct iw_page *page;
	struct answer a;

	if (geteuid())
		skip();
	propose(0);
	propose(1);
	go(0);
	a = switch_to(1);
	page = page_of(&a);
	for (uint64_t until = now_ms() + 20000; !(atomic_load(&page->want) & IW_WANT_BACK); poll(NULL, 0, 1)) {
		both_ways(c, a.fds[0]);
		assert_true(now_ms() < until);
	}
	s = lib_back(at(1), a.m.stream_id);
	assert_true(s >= 0);
	answer_close(&a);
	munmap(page, IW_PAGE_SIZE);
	both_ways(c, s);
	assert_false(may(1));
	go(1);			/* again, after a while */
}

/* ---- daemons that end ---- */

static void daemon_again(int h, int sig)
{
	char path[100];

	at(h);
	lib_free(&hosts[h].lib);
	if (sig == SIGKILL) {
		kill(d.pid, SIGKILL);
		waitpid(d.pid, NULL, 0);
		unlink(d.log);
		for (int i = 0; i < 3; i++) {
			snprintf(path, sizeof(path), "%s/%s", d.dir, i ? i > 1 ? "lock" : "ctl.sock" : "bus.sock");
			unlink(path);
		}
		rmdir(d.dir);
	} else {
		daemon_stop(NULL);
	}
	daemon_start(NULL);
	hosts[h].lib = lib_new();
}

/* A proposal that waits is asked about again when the other host's daemon is there again, without anybody saying so here. */
static void other_daemon_again(void **state)
{
	if (geteuid())
		skip();
	for (int i = 0; i < 2; i++) {
		propose(0);
		becomes(0, IW_REASON_UNANSWERED);
		daemon_again(1, i ? SIGKILL : SIGTERM);
		nothing_for(20);
		propose(1);
		go(0);
		go(1);
		lib_id(at(0), IW_CTL_CLOSED, CID, -1);
		lib_id(at(1), IW_CTL_CLOSED, SID, -1);
		lib_sync(at(1));	/* else it may still have it when it is asked about the next */
	}
}

/* Where nobody listens at the control port proposals wait, and it is not tried for each of them. */
static void no_daemon_there(void **state)
{
	if (geteuid())
		skip();
	at(1);
	lib_free(&hosts[1].lib);
	daemon_stop(NULL);
	for (uint64_t until = now_ms() + 20000; peer_state(0) == IW_PEER_POSITIVE; poll(NULL, 0, 1))
		assert_true(now_ms() < until);
	propose(0);
	becomes(0, IW_REASON_PEER_NO_IWARP);
	assert_int_equal(peer_state(0), IW_PEER_NEGATIVE);
	at(1);
	daemon_start(NULL);
	hosts[1].lib = lib_new();
	propose(1);
	go(0);
	go(1);
	assert_int_equal(peer_state(0), IW_PEER_POSITIVE);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(matched), T(server_proposes_first), T(both_at_once), T(other_end), T(plain_told), T(closed_before), T(ends_do_not_agree), T(upgraded), T(mapped), T(mapped_by_whom), T(map_abandoned), T(map_taken_and_gone), T(map_not_taken_and_gone), T(alone),
		T(other_daemon_again), T(no_daemon_there),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
