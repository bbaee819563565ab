/* SPDX-License-Identifier: MIT */
/* Control sessions whose other end is slow, hostile or a stranger: what waits is answered as soon as it can be, and is bounded. */
#include "util.h"

#include "daemon/session/ask.h"
#include "daemon/session/answer.h"

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
	list_init(&s->proving);
	list_init(&s->asked);
	list_init(&s->strangers);
	memcpy(s->me.ip, ours, 16);
	memcpy(s->them.ip, theirs, 16);
	s->window = SESS_WINDOW;
	list_add_tail(dialled ? &p->out : &p->in, &s->node);
	sess_in += !dialled;
	return s;
}

static bool ended(void *arg)
{
	struct peer *p = peer_find(theirs);

	return list_empty(&p->in) && list_empty(&p->out);
}

static void end(struct sess *s)
{
	if (s)
		sess_fail(s, IW_REASON_DAEMON_GONE, NULL);
}

/* All of them are over, and none is dialled again. */
static void until_ended(void)
{
	run_until(ended, NULL);
	timer_stop(&peer_find(theirs)->redial);
}

static unsigned int yes, no, broken;

static void answered(struct sess_ask *q, const struct iw_sm *m, enum iw_reason reason)
{
	yes += m && m->yes;
	no += m && !m->yes;
	broken += !m;
}

static struct iw_sm about(enum iw_sm_type type, const uint8_t a[16], const uint8_t b[16])
{
	struct iw_sm m = { .type = type, .a = { .port = 5000, .family = AF_INET }, .b = { .port = 80, .family = AF_INET } };

	memcpy(m.a.ip, a, 16);
	memcpy(m.b.ip, b, 16);
	return m;
}

static struct sess_ask question(enum iw_sm_type type)
{
	return (struct sess_ask){ .fn = answered, .m = about(type, ours, theirs) };
}

static void answer_it(struct sess *s, unsigned int slot, bool say_yes)
{
	struct iw_sm m = { .type = IW_SM_ANSWER, .seq = s->slot[slot].seq, .yes = say_yes, .reason = say_yes ? 0 : IW_REASON_UNANSWERED };

	ask_received(s, &m);
}

static int counters(void **state)
{
	yes = no = broken = 0;
	return 0;
}

/* So many questions at a time; what is answered makes room. */
static void the_window(void **state)
{
	struct sess *s = session(true);
	struct sess_ask q[6];

	s->window = 4 + 1;	/* see proofs_have_room() */
	for (int i = 0; i < 6; i++) {
		q[i] = question(IW_SM_PROPOSE);
		sess_ask(&q[i], 0);
		assert_int_equal(q[i].sent, i < 4);
	}
	answer_it(s, 1, true);
	assert_int_equal(yes, 1);
	assert_true(q[4].sent && !q[5].sent);
	sess_ask_cancel(&q[0]);		/* its place is taken until the answer comes */
	assert_false(q[5].sent);
	answer_it(s, 0, false);
	assert_int_equal(no, 0);
	assert_true(q[5].sent);
	answer_it(s, 2, false);
	assert_int_equal(no, 1);
	/* the end of the session answers what is left, sent or not */
	for (int i = 0; i < 3; i++)
		sess_ask(&q[i], 0);
	end(s);
	until_ended();
	assert_int_equal(yes + no, 2);
	assert_int_equal(broken, 6);
}

/* The other daemon may keep all questions about connections until it knows whose session it is: that is asked whatever is open. */
static void proofs_have_room(void **state)
{
	struct sess *s = session(true);
	struct sess_ask q[6], v[2] = { question(IW_SM_VOUCH), question(IW_SM_VOUCH) };

	s->window = 5;
	for (int i = 0; i < 6; i++) {
		q[i] = question(IW_SM_PROPOSE);
		sess_ask(&q[i], 0);
	}
	sess_ask(&v[0], SESS_NO_DIAL);
	sess_ask(&v[1], SESS_NO_DIAL);
	assert_true(v[0].sent && !v[1].sent && !q[4].sent);
	answer_it(s, 4, true);
	assert_int_equal(yes, 1);
	assert_true(v[1].sent && !q[4].sent);
	answer_it(s, 4, true);
	assert_false(q[4].sent);
	answer_it(s, 0, true);
	assert_true(q[4].sent && !q[5].sent);
	end(s);
	until_ended();
	assert_int_equal(yes, 3);
	assert_int_equal(broken, 5);
}

/* They are answered when it pleases; there is always room for others. */
static void holds_leave_room(void **state)
{
	struct sess *s = session(true);
	struct sess_ask q[6], p = question(IW_SM_PROPOSE);

	s->window = 8;
	for (int i = 0; i < 6; i++) {
		q[i] = question(IW_SM_HOLD);
		sess_ask(&q[i], SESS_NO_DIAL);
	}
	assert_int_equal(broken, 2);
	sess_ask(&p, 0);
	assert_true(p.sent);
	answer_it(s, 0, true);
	sess_ask(&q[5], SESS_NO_DIAL);
	assert_true(q[5].sent);
	end(s);
	until_ended();
	assert_int_equal(broken, 2 + 5);
}

/* Where nobody is dialled the answer is no at once. */
static void nobody_dials(void **state)
{
	struct sess_ask q = question(IW_SM_HOLD);

	sess_ask(&q, SESS_NO_DIAL);
	assert_int_equal(broken, 1);
	assert_true(list_empty(&peer_find(theirs)->out));
}

/* ---- questions of others ---- */

static unsigned int proposed, held, lost, ups, gones;
static struct sess_question *kept;

static void propose(const struct iw_tuple *t, const struct iw_sm *m, struct iw_sm *answer)
{
	assert_true(iw_ip_same(t->local.ip, ours) && iw_ip_same(t->peer.ip, theirs));
	proposed++;
	answer->yes = 1;
}

static void hold(struct sess_question *q, const struct iw_tuple *t)
{
	held++;
	kept = q;
}

static void hold_gone(struct sess_question *q)
{
	assert_ptr_equal(q, kept);
	lost++;
}

static void up(const uint8_t ip[16])
{
	ups++;
}

static void gone(const uint8_t ip[16])
{
	gones++;
}

static const struct session_ops ops = { .propose = propose, .hold = hold, .hold_gone = hold_gone, .peer_up = up, .peer_gone = gone };

static int above(void **state)
{
	proposed = held = lost = ups = gones = 0;
	session_ops = &ops;
	return counters(state);
}

static void they_ask(struct sess *s, enum iw_sm_type type)
{
	struct iw_sm m = about(type, theirs, ours);

	answer_received(s, &m);
}

/* Whose session it is the daemon says that we dialled: until then nothing is answered, and from then on everything. */
static void of_the_daemon(void **state)
{
	struct sess *in = session(false), *out = session(true);

	they_ask(in, IW_SM_PROPOSE);
	they_ask(in, IW_SM_HOLD);
	they_ask(in, IW_SM_PROPOSE);
	assert_int_equal(in->nquestions, 3);
	assert_int_equal(proposed + held, 0);
	assert_int_equal(out->nslots, 1);
	assert_int_equal(out->slot[0].type, IW_SM_VOUCH);
	assert_int_not_equal(in->peer->state, IW_PEER_POSITIVE);
	answer_it(out, 0, true);
	assert_int_equal(proposed, 2);
	assert_int_equal(held, 1);
	assert_int_equal(in->nquestions, 1);
	assert_int_equal(in->peer->state, IW_PEER_POSITIVE);
	assert_int_equal(ups, 1);
	sess_answer(kept, &(struct iw_sm){ .yes = 1, .pos = 7 });
	assert_int_equal(in->nquestions, 0);
	/* an address that speaks for itself only */
	for (int i = 0; i < 2; i++) {
		struct iw_sm m = about(IW_SM_PROPOSE, theirs, ours);

		(i ? &m.a : &m.b)->ip[15]++;
		answer_received(in, &m);
	}
	assert_int_equal(proposed, 2);
	assert_int_equal(in->nquestions, 0);
	/* what waits for an answer is told of the end */
	they_ask(in, IW_SM_HOLD);
	end(in);
	run_rounds(3);
	assert_int_equal(lost, 1);
	assert_int_not_equal(peer_find(theirs)->state, IW_PEER_POSITIVE);
	end(out);
	until_ended();
	assert_int_equal(gones, 1);
}

static void of_strangers(void **state)
{
	struct sess *in = session(false), *out = session(true);

	they_ask(in, IW_SM_PROPOSE);
	they_ask(in, IW_SM_HOLD);
	answer_it(out, 0, false);
	assert_int_equal(in->nquestions, 0);
	they_ask(in, IW_SM_PROPOSE);
	assert_int_equal(in->nquestions, 0);
	assert_int_equal(out->nslots, 0);	/* that was answered once */
	assert_int_equal(proposed + held + ups, 0);
	assert_int_not_equal(in->peer->state, IW_PEER_POSITIVE);
	end(in);
	end(out);
	until_ended();
}

/* They wait while the session that we dialled is replaced by another. */
static void proved_on_the_next(void **state)
{
	struct sess *in = session(false), *out = session(true);
	struct sess *next;

	they_ask(in, IW_SM_PROPOSE);
	next = session(true);
	end(out);
	run_rounds(3);
	assert_int_equal(in->nquestions, 1);
	assert_int_equal(next->slot[0].type, IW_SM_VOUCH);
	answer_it(next, 0, true);
	assert_int_equal(proposed, 1);
	end(in);
	end(next);
	until_ended();
}

static void they_are_bounded(void **state)
{
	struct sess *in = session(false), *out = session(true);

	for (unsigned int i = 0; i < SESS_WINDOW; i++)
		they_ask(in, i % 2 ? IW_SM_HOLD : IW_SM_PROPOSE);
	assert_int_equal(in->state, SESS_UP);
	they_ask(in, IW_SM_PROPOSE);
	assert_int_equal(in->state, SESS_DEAD);
	end(out);
	until_ended();
	assert_int_equal(lost + held, 0);
}

/* They cannot reach us, they say: nothing to that address is accelerated until it is otherwise. */
static void they_do_not_trust_us(void **state)
{
	struct sess *in, *out = session(true);
	struct sess_ask q = question(IW_SM_PROPOSE);
	struct iw_sm m = { .type = IW_SM_ANSWER, .reason = IW_REASON_PEER_UNTRUSTED };

	sess_ask(&q, 0);
	m.seq = out->slot[0].seq;
	ask_received(out, &m);
	assert_int_equal(broken, 1);
	assert_true(peer_negative(out->peer));
	assert_int_equal(out->peer->reason, IW_REASON_PEER_UNTRUSTED);
	sess_ask(&q, 0);
	assert_int_equal(broken, 2);
	in = session(false);
	answer_dialled(in->peer, ours, true);
	answer_it(out, 0, true);
	assert_int_equal(in->peer->state, IW_PEER_POSITIVE);
	assert_int_equal(ups, 1);
	end(in);
	end(out);
	until_ended();
}

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

/* Whoever names hundreds of hosts that do not answer takes neither the table of peers nor files from those who name others. */
static void dials_are_bounded(void **state)
{
	static const uint8_t any[16];
	struct peer *quiet = NULL;
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
		if (!sess_dial(p, any, i == 10 ? 1001 : 1000, &reason))
			fail_msg("dial %d: reason %d", i, (int)reason);
		quiet = i == 10 ? p : quiet;
		if (i % 100 == 99)
			run_rounds(3);
	}
	peers_each(count_dials, &dials);
	assert_in_range(dials, 1, 300);
	/* another user's is still under way */
	assert_non_null(quiet);
	assert_false(list_empty(&quiet->out));
	assert_int_not_equal(list_entry(quiet->out.next, struct sess, node)->state, SESS_DEAD);
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
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_window, counters), cmocka_unit_test_setup(proofs_have_room, counters), cmocka_unit_test_setup(holds_leave_room, counters),
		cmocka_unit_test_setup(nobody_dials, counters), cmocka_unit_test_setup(of_the_daemon, above),
		cmocka_unit_test_setup(of_strangers, above), cmocka_unit_test_setup(proved_on_the_next, above),
		cmocka_unit_test_setup(they_are_bounded, above), cmocka_unit_test_setup(they_do_not_trust_us, above),
		cmocka_unit_test(strangers_give_way), cmocka_unit_test(dials_are_bounded),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
