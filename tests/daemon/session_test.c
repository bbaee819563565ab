/* SPDX-License-Identifier: MIT */
/* Control sessions whose other end is slow or hostile: what waits is answered as soon as it can be, and is bounded. */
#include "util.h"

#include <sys/resource.h>

#include "daemon/session/ask.h"
#include "daemon/session/tell.h"

static const uint8_t theirs[16] = { [10] = 0xff, [11] = 0xff, 127, 9, 9, 9 }, ours[16] = { [10] = 0xff, [11] = 0xff, 127, 9, 9, 1 };

static struct sess *session(bool dialled)
{
	struct peer *p = peer_get(theirs, 0);
	struct sess *s = calloc(1, sizeof(*s));

	assert_non_null(p);
	s->peer = p;
	s->dialled = dialled;
	s->state = SESS_UP;
	s->fd = -1;
	memcpy(s->local, ours, 16);
	list_init(&s->dial);
	list_init(&s->waiting);
	list_init(&s->claims);
	list_init(&s->lookups);
	list_init(&s->confirms);
	list_init(&s->strangers);
	list_add_tail(dialled ? &p->out : &p->in, &s->node);
	sess_in += !dialled;
	return s;
}

static bool ended(void *arg)
{
	struct peer *p = peer_find(theirs);

	return list_empty(&p->in) && list_empty(&p->out);
}

static unsigned int answers;
static bool answer;

static void answered(struct sess_ask *q, bool yes, enum iw_reason reason)
{
	answers++;
	answer = yes;
}

/* The window is full of questions that nobody answers. A notice says what the one that waits wants to know. */
static void notice_answers_what_waits(void **state)
{
	struct sess *s = session(true);
	struct iw_sm m = { .type = IW_SM_LISTENER, .yes = 1, .seq = 1, .a.port = 80 };
	struct iw_addr dst = { .port = 80 };
	struct sess_ask q = { .type = IW_SM_LOOKUP, .fn = answered };

	memcpy(m.a.ip, theirs, 16);
	memcpy(dst.ip, theirs, 16);
	memcpy(q.src, ours, 16);
	q.a = dst;
	s->window = s->nslots = 1;
	s->slot[0].used = true;
	sess_ask(&q, &dst, 60000);
	assert_int_equal(answers, 0);
	ask_received(s, &m);
	assert_int_equal(answers, 1);
	assert_true(answer);
	sess_fail(s, IW_REASON_DAEMON_GONE, NULL);
	run_until(ended, NULL);
	timer_stop(&peer_find(theirs)->redial);
	assert_int_equal(answers, 1);
}

/* One that never acknowledges notices is given up; until then what waits for it is bounded. */
static void confirms_are_bounded(void **state)
{
	struct iw_tuple t = { .local.port = 80, .peer.port = 5000 };
	struct sess *s = session(false);
	unsigned int n = 0;

	memcpy(t.local.ip, ours, 16);
	memcpy(t.peer.ip, theirs, 16);
	while (n < 5000 && !sess_confirm(&t, false, IW_REASON_TIMEOUT))
		n++;
	assert_in_range(n, 100, 2000);
	assert_int_equal(s->state, SESS_DEAD);
	run_until(ended, NULL);
}

static bool nobody_listens(const struct iw_addr *a)
{
	return false;
}

/* Any program can ask about all ports. Of changes those hear that their host's daemon vouched for; the others cost nothing at each. */
static void strangers_hear_of_no_changes(void **state)
{
	static const struct session_ops ops = { .listens = nobody_listens };
	const struct session_ops *before = session_ops;
	struct sess *s = session(false);

	session_ops = &ops;
	s->theirs.bufs = 64;
	memset(s->asked, 0xff, sizeof(s->asked));
	memset(s->told, 0xff, sizeof(s->told));
	sess_listener_changed(80);
	tell_dialled(s->peer, ours, false);
	assert_int_equal(s->notices, 0);
	assert_true(port_bit(s->told, 80));
	s->vouched = true;
	sess_listener_changed(80);
	assert_int_equal(s->notices, 1);
	assert_false(port_bit(s->told, 80));
	assert_true(port_bit(s->told, 81));
	tell_vouched(s);
	assert_true(s->notices > 1);
	sess_fail(s, IW_REASON_DAEMON_GONE, NULL);
	run_until(ended, NULL);
	session_ops = before;
}

/* Not with the sanitizers' malloc(), which ends the program instead. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MEMORY_RUNS_OUT	cmocka_unit_test(confirm_without_memory),
/* No memory for anything as large as a CONFIRM, and none to be had. */
static void *exhaust(struct rlimit *old)
{
	struct rlimit none = { 0 };
	void *held = NULL, **p;

	assert_int_equal(getrlimit(RLIMIT_AS, old), 0);
	none.rlim_max = old->rlim_max;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	for (size_t size = 64 << 10; size >= 64; size /= 2)
		while ((p = malloc(size))) {
			*p = held;
			held = p;
		}
	return held;
}

static void refill(void *held, const struct rlimit *old)
{
	for (void *next; held; held = next) {
		next = *(void **)held;
		free(held);
	}
	assert_int_equal(setrlimit(RLIMIT_AS, old), 0);
}

/* Without memory a CONFIRM goes out if it can go at once. If it cannot, the session ends: the other daemon need not wait for its timer. */
static void confirm_without_memory(void **state)
{
	struct iw_tuple t = { .local.port = 80, .peer.port = 5000 };
	struct sess *s = session(false);
	bool ready, could, told;
	struct rlimit old;
	int early, late;
	void *held;

	memcpy(t.local.ip, ours, 16);
	memcpy(t.peer.ip, theirs, 16);
	s->theirs.bufs = 64;
	held = exhaust(&old);
	early = sess_confirm(&t, true, IW_REASON_ACCELERATED);
	refill(held, &old);
	assert_int_equal(early, 0);
	assert_int_equal(s->notices, 1);
	/* the window is full: what was looked at beforehand can be kept for later */
	s->theirs.bufs = 4;
	ready = sess_can_confirm(&t);
	held = exhaust(&old);
	early = sess_confirm(&t, true, IW_REASON_ACCELERATED);
	could = sess_can_confirm(&t);
	told = s->state == SESS_UP;
	late = sess_confirm(&t, false, IW_REASON_TIMEOUT);
	refill(held, &old);
	assert_true(ready);
	assert_int_equal(early, 0);
	assert_int_equal(s->nconfirms, 1);
	assert_false(could || told);
	assert_int_equal(late, -ENOTCONN);
	run_until(ended, NULL);
}
#else
#define MEMORY_RUNS_OUT
#endif

static int port_dial(uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port) };
	struct sockaddr_in from = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f090909) };
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(s, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(s, (struct sockaddr *)&a, sizeof(a)), 0);
	return s;
}

static bool closed(int s)
{
	char c;

	return recv(s, &c, 1, MSG_DONTWAIT) == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

static unsigned int in_count(void)
{
	struct peer *p = peer_find(theirs);
	unsigned int n = 0;

	if (p)
		list_each(l, nxt, &p->in)
			n++;
	return n;
}

static bool in_are(void *arg)
{
	return in_count() == *(unsigned int *)arg;
}

/* All but the first and the last eight. */
static bool gave_way(void *arg)
{
	const int *s = arg;

	for (int i = 1; i < 40 - 8; i++)
		if (!closed(s[i]))
			return false;
	return true;
}

/* Any program of a host can dial: of those that its daemon did not vouch for the oldest gives way, and nothing of it lingers. */
static void strangers_give_way(void **state)
{
	unsigned int one = 1, nine = 9, none = 0;
	int s[40], l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t len = sizeof(a);

	assert_int_equal(bind(l, (struct sockaddr *)&a, len), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
	close(l);
	conf.control_port = ntohs(a.sin_port);
	assert_int_equal(session_start(), 0);
	s[0] = port_dial(conf.control_port);
	run_until(in_are, &one);
	list_entry(peer_find(theirs)->in.next, struct sess, node)->vouched = true;
	for (int i = 1; i < 40; i++)
		s[i] = port_dial(conf.control_port);
	run_until(gave_way, s);
	run_until(in_are, &nine);
	run_rounds(5);
	assert_false(closed(s[0]));
	for (int i = 40 - 8; i < 40; i++)
		assert_false(closed(s[i]));
	assert_int_equal(peer_find(theirs)->in_conns, 9);
	for (int i = 0; i < 40; i++)
		close(s[i]);
	run_until(in_are, &none);
	assert_int_equal(peer_find(theirs)->in_conns, 0);
}

static void count_dials(struct peer *p, void *arg)
{
	list_each(n, nxt, &p->out)
		*(unsigned int *)arg += list_entry(n, struct sess, node)->state != SESS_DEAD;
}

static bool files_are_few(void *arg)
{
	return open_fds() <= *(unsigned int *)arg + 400;
}

/* Whoever asks about hundreds of hosts that do not answer takes neither the table of peers nor files from those who ask about others. */
static void dials_are_bounded(void **state)
{
	static const uint8_t any[16];
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY) };
	socklen_t len = sizeof(a);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fill[4];
	uint8_t ip[16] = { [10] = 0xff, [11] = 0xff, 127, 2 };
	unsigned int before, dials = 0;
	enum iw_reason reason;

	files_like_daemon();
	before = open_fds();
	/* a backlog that is full does not answer */
	assert_int_equal(bind(l, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(l, 0), 0);
	assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (int i = 0; i < 4; i++) {
		fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		connect(fill[i], (struct sockaddr *)&a, sizeof(a));
	}
	conf.control_port = ntohs(a.sin_port);
	for (int i = 0; i < 1200; i++) {
		struct peer *p;

		ip[14] = (uint8_t)(i / 250);
		ip[15] = (uint8_t)(1 + i % 250);
		p = peer_get(ip, 0);
		if (!p)
			fail_msg("no room for peer %d", i);
		if (!sess_dial(p, any, &reason))
			fail_msg("dial %d: reason %d", i, (int)reason);
		if (i % 100 == 99)
			run_rounds(3);
	}
	peers_each(count_dials, &dials);
	assert_in_range(dials, 1, 300);
	run_until(files_are_few, &before);
	for (int i = 0; i < 4; i++)
		close(fill[i]);
	close(l);
}

static int group_setup(void **state)
{
	conf_default(&conf);
	log_init(0, 1);
	return engine_init() || peers_start() ? -1 : 0;
}

static int group_teardown(void **state)
{
	session_stop();
	peers_stop();
	engine_fini();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(notice_answers_what_waits), cmocka_unit_test(confirms_are_bounded),
		cmocka_unit_test(strangers_hear_of_no_changes),
		MEMORY_RUNS_OUT
		cmocka_unit_test(strangers_give_way),
		cmocka_unit_test(dials_are_bounded) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
