/* SPDX-License-Identifier: MIT */
/* Proposals on one host: who is told GO and when, the switch, the join of the two ends, and every way back to plain TCP. */
#include "cm_util.h"

#include <linux/sockios.h>

struct world {
	struct lib server, client;
	int listener;
	uint16_t port;
	int c, s;		/* a connection */
};
static struct world w;

#define OPTION	"answer_timeout=200"	/* on a busy machine nothing that is not about it shall run into it */

/* Their names for it. */
#define CID	0x500000007ull
#define SID	0x600000009ull

static int setup(void **state)
{
	w.server = lib_new();
	w.client = lib_new();
	w.listener = tcp_listen(&w.port);
	w.c = tcp_connect(w.port);
	w.s = accept(w.listener, NULL, NULL);
	return w.s < 0;
}

static int teardown(void **state)
{
	lib_free(&w.server);
	lib_free(&w.client);
	close(w.listener);
	if (w.c >= 0)
		close(w.c);
	if (w.s >= 0)
		close(w.s);
	return 0;
}

/* The daemon says GO to whoever proposes. */
static int setup_at_once(void **state)
{
	daemon_stop(NULL);
	d.option = "go=at-once";
	return daemon_start(NULL) || setup(NULL);
}

static int teardown_at_once(void **state)
{
	teardown(NULL);
	daemon_stop(NULL);
	d.option = OPTION;
	return daemon_start(NULL);
}

static void refused(struct answer a, enum iw_reason reason)
{
	assert_int_equal(a.m.result, 1);
	assert_string_equal(iw_reason_name(a.m.reason), iw_reason_name(reason));
}

static void propose_both(void)
{
	lib_propose(&w.client, w.c, CID, true);
	lib_propose(&w.server, w.s, SID, false);
}

/* Whatever was said has been done, and no GO came of it. */
static void no_go(void)
{
	lib_sync(&w.client);
	lib_sync(&w.server);
	assert_false(lib_may(&w.client, CID) || lib_may(&w.server, SID));
}

/* The accepting end, switched. */
static struct answer first(void)
{
	struct answer a = lib_switch_to(&w.server, SID, w.s);

	w.s = -1;
	return a;
}

/* ---- GO ---- */

static void accepting_end_first(void **state)
{
	lib_propose(&w.client, w.c, CID, true);
	no_go();
	lib_propose(&w.server, w.s, SID, false);
	lib_go(&w.server, SID);
	assert_false(lib_may(&w.client, CID));
}

static void whoever_proposes_first(void **state)
{
	lib_propose(&w.server, w.s, SID, false);
	no_go();
	lib_propose(&w.client, w.c, CID, true);
	lib_go(&w.server, SID);
	assert_false(lib_may(&w.client, CID));
}

/* On one host all gain, whatever they say. */
static void no_gain_elsewhere(void **state)
{
	struct iw_ctl_propose m = proposal(w.c, CID, true);

	m.gain = IW_GAIN_NONE;
	lib_tell(&w.client, &m, -1);
	no_go();
	lib_propose(&w.server, w.s, SID, false);
	lib_go(&w.server, SID);
}

static void closed_before(void **state)
{
	lib_propose(&w.client, w.c, CID, true);
	lib_id(&w.client, IW_CTL_CLOSED, CID, -1);
	lib_sync(&w.client);
	lib_propose(&w.server, w.s, SID, false);
	no_go();
	/* nor of a program that has ended */
	lib_propose(&w.client, w.c, CID, true);
	lib_go(&w.server, SID);
	lib_id(&w.server, IW_CTL_CLOSED, SID, -1);
	lib_sync(&w.server);
	assert_false(lib_may(&w.server, SID));
	lib_free(&w.client);
	w.client = lib_new();
	lib_propose(&w.server, w.s, SID, false);
	for (uint64_t end = now_ms() + 50; now_ms() < end;)
		no_go();
	/* one that was said is taken back */
	lib_propose(&w.client, w.c, CID, true);
	lib_go(&w.server, SID);
	lib_id(&w.client, IW_CTL_CLOSED, CID, -1);
	lib_sync(&w.client);
	assert_false(lib_may(&w.server, SID));
	lib_propose(&w.client, w.c, CID, true);
	lib_go(&w.server, SID);
}

static void plain(struct lib *l, uint64_t conn_id, enum iw_reason reason, uint32_t flags)
{
	struct iw_ctl_conn m;

	iw_ctl_init(&m, IW_CTL_PLAIN, 0);
	m.conn_id = conn_id;
	m.reason = reason;
	m.flags = flags;
	lib_tell(l, &m, -1);
	lib_sync(l);
}

static void never(void **state)
{
	lib_propose(&w.client, w.c, CID, true);
	plain(&w.client, CID, IW_REASON_INHERITED, 0);
	lib_propose(&w.server, w.s, SID, false);
	no_go();
	refused(lib_switch(&w.server, SID, w.s), IW_REASON_OTHER_END);
	refused(lib_switch(&w.client, CID, w.c), IW_REASON_INHERITED);
	/* what is proposed anew is a proposal */
	lib_propose(&w.client, w.c, CID, true);
	lib_go(&w.server, SID);
	/* and what cannot be after GO does not get it any more */
	plain(&w.server, SID, IW_REASON_ALIAS, 0);
	assert_false(lib_may(&w.server, SID));
	refused(lib_switch(&w.server, SID, w.s), IW_REASON_ALIAS);
	both_ways(w.c, w.s);
}

/* One end was not proposed and stays plain; the other one was proposed before, or is later. */
static void plain_told(void **state)
{
	struct iw_ctl_propose p = proposal(w.s, SID, false);
	struct iw_ctl_conn m;

	lib_propose(&w.client, w.c, CID, true);
	refused(lib_switch(&w.client, CID, w.c), IW_REASON_UNANSWERED);
	iw_ctl_init(&m, IW_CTL_PLAIN, 0);
	m.conn_id = SID;
	m.local = p.local;
	m.peer = p.peer;
	m.reason = IW_REASON_POLICY;
	lib_tell(&w.server, &m, -1);
	lib_sync(&w.server);
	refused(lib_switch(&w.client, CID, w.c), IW_REASON_OTHER_END);
	lib_id(&w.client, IW_CTL_CLOSED, CID, -1);
	lib_propose(&w.client, w.c, CID, true);
	refused(lib_switch(&w.client, CID, w.c), IW_REASON_OTHER_END);
	no_go();
	lib_propose(&w.server, w.s, SID + 1, false);
	lib_go(&w.server, SID + 1);
	m.conn_id = SID + 2;	/* another program says so of the same */
	lib_tell(&w.client, &m, -1);
	lib_sync(&w.client);
	assert_true(lib_may(&w.server, SID + 1));
	refused(lib_switch(&w.client, CID, w.c), IW_REASON_MATCHED);
	both_ways(w.c, w.s);
}

static void busy_for_now(void **state)
{
	struct answer a;

	propose_both();
	lib_go(&w.server, SID);
	plain(&w.server, SID, IW_REASON_BUSY, IW_CONN_FOR_NOW);
	assert_true(lib_may(&w.server, SID));
	a = first();
	answer_close(&a);
}

/* ---- the switch ---- */

static void relayed(void **state)
{
	struct answer a;

	propose_both();
	lib_go(&w.server, SID);
	assert_int_equal(send(w.c, "before", 6, 0), 6);
	a = lib_switch(&w.server, SID, w.s);
	assert_int_equal(a.m.result, 0);
	assert_int_equal(a.m.end, 0);
	assert_int_equal(a.m.flags & ~(uint32_t)IW_PAGE_NEAR, 0);
	assert_int_equal(a.m.local.port, w.port);
	close(w.s);
	w.s = -1;
	lib_switched(&w.server, a.m.stream_id, 9);
	/* what was unread in the socket lies in the carrier by the ACK */
	assert_int_equal(recv(a.fds[0], (char[8]){ 0 }, 8, MSG_PEEK | MSG_DONTWAIT), 6);
	expect(a.fds[0], "before");
	both_ways(w.c, a.fds[0]);
	lib_go(&w.client, CID);
	shutdown(w.c, SHUT_WR);
	expect(a.fds[0], "");
	assert_int_equal(send(a.fds[0], "rest", 4, 0), 4);
	close(a.fds[0]);
	expect(w.c, "rest");
	expect(w.c, "");
	close(a.fds[1]);
}

static void joined(void **state)
{
	struct answer a, b;

	propose_both();
	a = first();
	both_ways(w.c, a.fds[0]);
	b = lib_switch_to(&w.client, CID, w.c);
	w.c = -1;
	assert_int_equal(b.m.stream_id, a.m.stream_id);
	assert_int_equal(b.m.end, 1);
	assert_int_equal(b.m.flags, IW_PAGE_LOCAL | IW_PAGE_NEAR);
	assert_int_equal(b.m.peer.port, w.port);
	both_ways(a.fds[0], b.fds[0]);
	close(b.fds[0]);
	expect(a.fds[0], "");
	close(a.fds[0]);
	close(a.fds[1]);
	close(b.fds[1]);
}

/* Both ends ask before either is relayed: two relays would not be joined any more, so the second one waits for the first. */
static void both_at_once(void **state)
{
	struct answer a, b;

	propose_both();
	lib_go(&w.server, SID);
	lib_go(&w.client, CID);
	a = lib_switch(&w.client, CID, w.c);
	assert_int_equal(a.m.result, 0);
	refused(lib_switch(&w.server, SID, w.s), IW_REASON_BUSY);
	assert_false(daemon_holds(w.s));
	close(w.c);
	w.c = -1;
	lib_switched(&w.client, a.m.stream_id, a.fds[0]);
	b = lib_switch_to(&w.server, SID, w.s);
	w.s = -1;
	assert_int_equal(b.m.stream_id, a.m.stream_id);
	both_ways(a.fds[0], b.fds[0]);
	answer_close(&a);
	answer_close(&b);
}

/* Each end rests when it was alone, and not at the same time: it follows the other one, or they would miss each other for ever. */
static void both_at_once_by_turns(void **state)
{
	struct answer a, b;

	propose_both();
	lib_go(&w.server, SID);
	lib_go(&w.client, CID);
	lib_abandons(&w.server, SID, w.s);		/* for a second */
	a = lib_switch_to(&w.client, CID, w.c);
	lib_sync(&w.server);
	assert_true(lib_may(&w.server, SID));
	w.c = -1;
	b = first();
	both_ways(a.fds[0], b.fds[0]);
	answer_close(&a);
	answer_close(&b);
}

/* Who keeps its socket after all is waited for no more. */
static void both_at_once_one_abandons(void **state)
{
	struct answer a, b;

	propose_both();
	lib_go(&w.client, CID);
	a = lib_switch(&w.client, CID, w.c);
	assert_int_equal(a.m.result, 0);
	refused(lib_switch(&w.server, SID, w.s), IW_REASON_BUSY);
	lib_id(&w.client, IW_CTL_ABANDON, a.m.stream_id, -1);
	lib_sync(&w.client);
	answer_close(&a);
	b = lib_switch_to(&w.server, SID, w.s);
	w.s = -1;
	assert_int_not_equal(b.m.stream_id, a.m.stream_id);
	both_ways(w.c, b.fds[0]);
	answer_close(&b);
}

/* A second process that says it is the same end, with the same socket: what it holds is not its alone. */
static void same_socket_twice(void **state)
{
	struct lib other = lib_new();
	struct answer a;

	propose_both();
	lib_propose(&other, w.s, SID, false);
	lib_go(&w.server, SID);
	lib_go(&other, SID);
	a = lib_switch(&w.server, SID, w.s);
	assert_int_equal(a.m.result, 0);
	refused(lib_switch(&other, SID, w.s), IW_REASON_BUSY);
	lib_switched(&w.server, a.m.stream_id, a.fds[0]);
	refused(lib_switch(&other, SID, w.s), IW_REASON_BUSY);
	answer_close(&a);
	lib_free(&other);
}

static void without_go(void **state)
{
	struct answer a;

	refused(lib_switch(&w.server, SID, w.s), IW_REASON_TUPLE_UNKNOWN);
	lib_propose(&w.server, w.s, SID, false);
	refused(lib_switch(&w.server, SID, w.s), IW_REASON_UNANSWERED);
	lib_propose(&w.client, w.c, CID, true);
	lib_go(&w.server, SID);
	/* the client's turn is when the server's end is switched */
	refused(lib_switch(&w.client, CID, w.c), IW_REASON_MATCHED);
	assert_false(daemon_holds(w.c));
	a = lib_switch(&w.server, SID, w.s);
	assert_int_equal(a.m.result, 0);
	refused(lib_switch(&w.server, SID, w.s), IW_REASON_BUSY);
	answer_close(&a);
	both_ways(w.c, w.s);
}

/* What was closed is no proposal, though its program had GO; nor does the other end wait for it. */
static void closed_after_go(void **state)
{
	propose_both();
	lib_go(&w.server, SID);
	lib_id(&w.server, IW_CTL_CLOSED, SID, -1);
	lib_sync(&w.server);
	assert_false(lib_may(&w.server, SID));
	refused(lib_switch(&w.server, SID, w.s), IW_REASON_TUPLE_UNKNOWN);
	refused(lib_switch(&w.client, CID, w.c), IW_REASON_UNANSWERED);
	/* after the grant: the carrier's end tells */
	lib_propose(&w.server, w.s, SID, false);
	lib_go(&w.server, SID);
	assert_int_equal(lib_switch(&w.server, SID, w.s).m.result, 0);
	lib_id(&w.server, IW_CTL_CLOSED, SID, -1);
	lib_sync(&w.server);
	assert_false(daemon_holds(w.s));
	both_ways(w.c, w.s);
}

static void abandoned(void **state)
{
	struct answer a;

	propose_both();
	lib_go(&w.server, SID);
	a = lib_switch(&w.server, SID, w.s);
	assert_int_equal(a.m.result, 0);
	assert_true(daemon_holds(w.s));
	lib_id(&w.server, IW_CTL_ABANDON, a.m.stream_id, -1);
	lib_sync(&w.server);
	assert_false(daemon_holds(w.s));
	assert_false(lib_may(&w.server, SID));
	answer_close(&a);
	both_ways(w.c, w.s);
	lib_go(&w.server, SID);		/* again, after a while */
}

static void dies_before_switched(void **state)
{
	struct lib other = lib_new();
	struct answer a;

	lib_propose(&w.client, w.c, CID, true);
	lib_propose(&other, w.s, SID, false);
	lib_go(&other, SID);
	a = lib_switch(&other, SID, w.s);
	assert_int_equal(a.m.result, 0);
	lib_free(&other);
	answer_close(&a);
	for (uint64_t until = now_ms() + 20000; daemon_holds(w.s); sched_yield())
		assert_true(now_ms() < until);
	both_ways(w.c, w.s);
	lib_propose(&w.server, w.s, SID, false);
	lib_go(&w.server, SID);
}

/* Its stream is that of whoever has the carrier. */
static void dies_after_switched(void **state)
{
	struct lib other = lib_new();
	struct answer a, b;

	lib_propose(&w.client, w.c, CID, true);
	lib_propose(&other, w.s, SID, false);
	a = lib_switch_to(&other, SID, w.s);
	w.s = -1;
	lib_free(&other);
	both_ways(w.c, a.fds[0]);
	b = lib_switch_to(&w.client, CID, w.c);
	w.c = -1;
	both_ways(b.fds[0], a.fds[0]);
	answer_close(&a);
	expect(b.fds[0], "");
	answer_close(&b);
}

static struct iw_page *page_of(const struct answer *a);

/* As the library says it, whatever becomes of its messages. */
static void take(const struct answer *a)
{
	struct iw_page *page = page_of(a);

	atomic_store(&page->end[a->m.end].hand, IW_HAND_TAKEN);
	munmap(page, IW_PAGE_SIZE);
}

/* Its control connection breaks between its exchange and SWITCHED: it has no other socket than the carrier. */
static void breaks_before_switched(void **state)
{
	struct lib other = lib_new();
	struct answer a;

	lib_propose(&w.client, w.c, CID, true);
	lib_propose(&other, w.s, SID, false);
	lib_go(&other, SID);
	a = lib_switch(&other, SID, w.s);
	assert_int_equal(a.m.result, 0);
	take(&a);
	close(w.s);
	w.s = -1;
	lib_free(&other);
	both_ways(w.c, a.fds[0]);
	answer_close(&a);
	expect(w.c, "");
}

/* The second end of a pair is granted, and then its program does not switch, or cannot say so. */
static void second_abandons(void **state)
{
	struct answer a, b;

	propose_both();
	a = first();
	lib_go(&w.client, CID);
	b = lib_switch(&w.client, CID, w.c);
	assert_int_equal(b.m.result, 0);
	take(&b);			/* as the first one may write it */
	answer_close(&b);
	lib_id(&w.client, IW_CTL_ABANDON, b.m.stream_id, -1);
	lib_sync(&w.client);
	assert_false(daemon_holds(w.c));
	both_ways(w.c, a.fds[0]);
	lib_go(&w.client, CID);		/* again, after a while */
	b = lib_switch_to(&w.client, CID, w.c);
	w.c = -1;
	both_ways(b.fds[0], a.fds[0]);
	answer_close(&a);
	answer_close(&b);
}

/* The second end has what it was offered, which the first one sees: it is given away before the second one's program has said so. */
static void rest_before_switched(void **state)
{
	struct iw_ctl_fdmsg m;
	struct answer a, b, c;

	propose_both();
	a = first();
	lib_go(&w.client, CID);
	b = lib_switch(&w.client, CID, w.c);
	assert_int_equal(b.m.result, 0);
	take(&b);
	iw_ctl_init(&m, IW_CTL_REST, 0);
	m.conn_id = 0;
	m.fd = a.fds[0];
	m.pad = 0;
	lib_tell(&w.server, &m, a.fds[0]);
	c = lib_answer(&w.server);
	assert_int_equal(c.m.result, 0);
	assert_int_equal(c.m.stream_id, a.m.stream_id);
	close(a.fds[0]);
	lib_switched(&w.client, b.m.stream_id, b.fds[0]);
	close(w.c);
	w.c = -1;
	both_ways(b.fds[0], c.fds[0]);
	close(a.fds[1]);
	answer_close(&c);
	expect(b.fds[0], "");
	answer_close(&b);
}

/* ---- relayed, and direct again ---- */

static struct answer ask_carrier(struct lib *l, enum iw_ctl_type type, int carrier)
{
	struct iw_ctl_fdmsg m;

	iw_ctl_init(&m, type, 0);
	m.conn_id = 0;
	m.fd = carrier;
	m.pad = 0;
	lib_tell(l, &m, carrier);
	return lib_answer(l);
}

static bool relay_change(const struct answer *a, uint32_t from, uint32_t to)
{
	struct iw_page *page = page_of(a);
	bool done = atomic_compare_exchange_strong(&page->end[a->m.end].relay, &from, to);

	munmap(page, IW_PAGE_SIZE);
	return done;
}

/* A pair of which the second end is relayed: that of the first, and the new one of the second. */
static void relayed_pair(struct answer *a, struct answer *b)
{
	struct answer old;

	propose_both();
	*a = first();
	old = lib_switch_to(&w.client, CID, w.c);
	w.c = -1;
	*b = ask_carrier(&w.client, IW_CTL_REST, old.fds[0]);
	assert_int_equal(b->m.result, 0);
	assert_int_equal(b->m.end, 1);
	answer_close(&old);
	both_ways(a->fds[0], b->fds[0]);
}

/* A daemon before this one had begun, and died: what it took of the ring nobody has. The end is not relayed without it. */
static void rest_begun_before(void **state)
{
	struct answer a, b, old;

	propose_both();
	a = first();
	old = lib_switch_to(&w.client, CID, w.c);
	w.c = -1;
	assert_true(relay_change(&old, IW_RELAY_NONE, IW_RELAY_ON));
	b = ask_carrier(&w.client, IW_CTL_REST, old.fds[0]);
	assert_int_equal(b.m.result, 1);
	answer_close(&b);
	answer_close(&old);
	expect(a.fds[0], "");
	answer_close(&a);
}

/* As the library does, again when it is not now: the daemon may not know yet that what it has sent was taken. */
static struct answer ask_direct_of(struct lib *l, const struct answer *b)
{
	uint64_t until = now_ms() + 20000;
	struct answer c;

	do {
		assert_true(relay_change(b, IW_RELAY_ON, IW_RELAY_ASKED));
		c = ask_carrier(l, IW_CTL_DIRECT, b->fds[0]);
	} while (c.m.result && now_ms() < until);
	assert_int_equal(c.m.result, 0);
	return c;
}

static struct answer ask_direct(const struct answer *b)
{
	return ask_direct_of(&w.client, b);
}

static void let_go(int fd)
{
	for (uint64_t until = now_ms() + 20000; daemon_holds(fd); sched_yield())
		if (now_ms() > until)
			fail_msg("the daemon keeps it");
}

static void direct_again(void **state)
{
	struct answer a, b, c;

	relayed_pair(&a, &b);
	c = ask_direct(&b);
	assert_int_equal(c.m.stream_id, a.m.stream_id);
	assert_int_equal(c.m.end, 1);
	assert_int_equal(send(a.fds[0], "new", 3, 0), 3);	/* that is in it already */
	assert_true(relay_change(&c, IW_RELAY_OFFERED, IW_RELAY_NONE));
	lib_switched(&w.client, c.m.stream_id, c.fds[0]);
	let_go(c.fds[0]);
	expect(b.fds[0], "");
	answer_close(&b);
	expect(c.fds[0], "new");
	both_ways(a.fds[0], c.fds[0]);
	/* and relayed once more */
	b = ask_carrier(&w.client, IW_CTL_REST, c.fds[0]);
	assert_int_equal(b.m.result, 0);
	answer_close(&c);
	both_ways(a.fds[0], b.fds[0]);
	close(b.fds[0]);
	expect(a.fds[0], "");
	close(b.fds[1]);
	answer_close(&a);
}

/* Octets are on their way: to the end that asks, and from it. */
static void direct_not_now(void **state)
{
	struct answer a, b, c;

	relayed_pair(&a, &b);
	assert_int_equal(send(a.fds[0], "more", 4, 0), 4);
	assert_int_equal(recv(b.fds[0], (char[8]){ 0 }, 8, MSG_PEEK), 4);
	assert_true(relay_change(&b, IW_RELAY_ON, IW_RELAY_ASKED));
	c = ask_carrier(&w.client, IW_CTL_DIRECT, b.fds[0]);
	assert_int_equal(c.m.result, 1);
	assert_true(relay_change(&b, IW_RELAY_ON, IW_RELAY_ON));
	expect(b.fds[0], "more");
	both_ways(a.fds[0], b.fds[0]);
	c = ask_carrier(&w.client, IW_CTL_DIRECT, b.fds[0]);	/* it has not said so in the page */
	assert_int_equal(c.m.result, 1);
	c = ask_carrier(&w.server, IW_CTL_DIRECT, a.fds[0]);	/* nobody relays that end */
	assert_int_equal(c.m.result, 1);
	c = ask_carrier(&w.server, IW_CTL_DIRECT, w.server.s);
	assert_int_equal(c.m.result, 1);
	both_ways(a.fds[0], b.fds[0]);
	answer_close(&a);
	expect(b.fds[0], "");
	answer_close(&b);
}

/* It is offered, and not taken: all that was sent meanwhile is passed on. */
static void direct_not_taken(void **state)
{
	struct answer a, b, c;

	relayed_pair(&a, &b);
	for (int i = 0; i < 3; i++) {
		c = ask_direct(&b);
		assert_int_equal(send(a.fds[0], "there", 5, 0), 5);
		assert_int_equal(send(b.fds[0], "back", 4, 0), 4);
		answer_close(&c);
		if (i == 1)
			lib_switched(&w.client, b.m.stream_id, b.fds[0]);	/* a lie */
		else
			lib_id(&w.client, IW_CTL_ABANDON, b.m.stream_id, -1);
		expect(a.fds[0], "back");
		expect(b.fds[0], "there");
		assert_false(relay_change(&b, IW_RELAY_OFFERED, IW_RELAY_NONE));
		both_ways(a.fds[0], b.fds[0]);
	}
	answer_close(&a);
	expect(b.fds[0], "");
	answer_close(&b);
}

/* How many entries its sets have. */
static int watched(void)
{
	char dir[40], path[340], line[200];
	struct dirent *e;
	int n = 0;
	DIR *p;

	snprintf(dir, sizeof(dir), "/proc/%d/fdinfo", (int)d.pid);
	p = opendir(dir);
	assert_non_null(p);
	while ((e = readdir(p))) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		f = fopen(path, "r");
		while (f && fgets(line, sizeof(line), f))
			n += !strncmp(line, "tfd:", 4);
		if (f)
			fclose(f);
	}
	closedir(p);
	return n;
}

/* A pair changes its carrier as often as its program likes: the daemon knows both ends all the time, and nothing grows. */
static void direct_often(void **state)
{
	struct answer a, b, c;
	int before;

	relayed_pair(&a, &b);
	before = watched();
	assert_true(before > 0);
	for (int i = 0; i < 100; i++) {
		c = ask_direct(&b);
		assert_true(relay_change(&c, IW_RELAY_OFFERED, IW_RELAY_NONE));
		lib_switched(&w.client, c.m.stream_id, c.fds[0]);
		answer_close(&b);
		b = ask_carrier(&w.client, IW_CTL_REST, c.fds[0]);
		assert_int_equal(b.m.result, 0);
		answer_close(&c);
		both_ways(a.fds[0], b.fds[0]);
	}
	for (uint64_t until = now_ms() + 20000; watched() > before; sched_yield())	/* descriptors that came are closed apart */
		if (now_ms() > until)
			fail_msg("%d entries, and %d before", watched(), before);
	answer_close(&a);
	expect(b.fds[0], "");
	answer_close(&b);
}

/* It is taken, and passed on to a program that is here before who took it has said so: for its segment, or to have it relayed again. */
static void direct_passed_on(void **state)
{
	struct lib other = lib_new();
	struct answer a, b, c, o;

	for (int i = 0; i < 2; i++) {
		if (!i)
			relayed_pair(&a, &b);
		c = ask_direct(&b);
		assert_true(relay_change(&c, IW_RELAY_OFFERED, IW_RELAY_NONE));
		answer_close(&b);
		o = ask_carrier(&other, i ? IW_CTL_OPEN : IW_CTL_REST, c.fds[0]);
		assert_int_equal(o.m.result, 0);
		assert_int_equal(o.m.stream_id, a.m.stream_id);
		assert_int_equal(o.m.end, 1);
		if (i) {
			close(o.fds[0]);	/* the segment, twice */
			lib_switched(&w.client, c.m.stream_id, c.fds[0]);
			both_ways(a.fds[0], c.fds[0]);
			answer_close(&c);
		} else {
			lib_switched(&w.client, c.m.stream_id, c.fds[0]);
			answer_close(&c);
			b = o;
			both_ways(a.fds[0], b.fds[0]);
		}
	}
	lib_free(&other);
	expect(a.fds[0], "");
	answer_close(&a);
}

/* The connection of who asked breaks before it has said what it did: the page says it. */
static void direct_breaks(bool taken)
{
	struct lib other = lib_new();
	struct answer a, b, c;

	relayed_pair(&a, &b);
	c = ask_direct_of(&other, &b);
	if (taken)
		assert_true(relay_change(&c, IW_RELAY_OFFERED, IW_RELAY_NONE));
	lib_free(&other);
	if (taken) {
		expect(b.fds[0], "");
		both_ways(a.fds[0], c.fds[0]);
		let_go(c.fds[0]);
	} else {
		close(c.fds[0]);
		c.fds[0] = -1;
		both_ways(a.fds[0], b.fds[0]);
	}
	answer_close(&b);
	if (taken)
		both_ways(c.fds[0], a.fds[0]);
	answer_close(&c);
	expect(a.fds[0], "");
	answer_close(&a);
}

static void direct_breaks_before(void **state)
{
	direct_breaks(false);
}

static void direct_breaks_behind(void **state)
{
	direct_breaks(true);
}

static void second_breaks(bool taken)
{
	struct lib other = lib_new();
	struct answer a, b;

	lib_propose(&other, w.c, CID, true);
	lib_propose(&w.server, w.s, SID, false);
	a = first();
	lib_go(&other, CID);
	b = lib_switch(&other, CID, w.c);
	assert_int_equal(b.m.result, 0);
	if (taken) {
		take(&b);
		close(w.c);
		w.c = b.fds[0];
		close(b.fds[1]);
	} else {
		answer_close(&b);
	}
	lib_free(&other);
	both_ways(w.c, a.fds[0]);
	close(a.fds[0]);
	expect(w.c, "");
	close(a.fds[1]);
}

static void second_dies_before_switched(void **state)
{
	second_breaks(false);
}

static void second_breaks_before_switched(void **state)
{
	second_breaks(true);
}

/* T is on its way back, and its program does not get it, does not take it, or cannot say that it has. */
static void back_breaks(bool answered, bool taken)
{
	struct lib other = lib_new();
	struct linger off = { 0 };
	struct answer a;
	int tcp = -1;

	lib_propose(&w.client, w.c, CID, true);
	lib_propose(&other, w.s, SID, false);
	a = lib_switch_to(&other, SID, w.s);
	w.s = -1;
	both_ways(w.c, a.fds[0]);
	if (answered) {
		while ((tcp = lib_ask_back(&other, a.m.stream_id)) < 0)
			;
	} else {
		kill(d.pid, SIGSTOP);
		lib_id(&other, IW_CTL_BACK, a.m.stream_id, -1);
	}
	if (taken) {
		take(&a);
		setsockopt(tcp, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
	} else if (answered) {
		close(tcp);
	}
	lib_free(&other);
	kill(d.pid, SIGCONT);
	if (taken) {
		answer_close(&a);
		for (uint64_t until = now_ms() + 20000; daemon_holds(tcp); sched_yield())
			assert_true(now_ms() < until);
		both_ways(w.c, tcp);
		close(tcp);
	} else {
		both_ways(w.c, a.fds[0]);
		answer_close(&a);
	}
	expect(w.c, "");
}

static void back_asked_and_gone(void **state)
{
	back_breaks(false, false);
}

static void back_not_taken(void **state)
{
	back_breaks(true, false);
}

static void back_taken_and_gone(void **state)
{
	back_breaks(true, true);
}

static void back_abandoned(void **state)
{
	struct answer a;
	int tcp;

	propose_both();
	a = first();
	while ((tcp = lib_ask_back(&w.server, a.m.stream_id)) < 0)
		;
	close(tcp);
	lib_id(&w.server, IW_CTL_ABANDON, a.m.stream_id, -1);
	both_ways(w.c, a.fds[0]);
	answer_close(&a);
}

static struct iw_page *page_of(const struct answer *a)
{
	void *p = mmap(NULL, IW_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, a->fds[1], 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* The other end has GO and uses the connection, and does not switch. */
static void alone(void **state)
{
	struct answer a;
	struct iw_page *page;
	uint64_t began;
	int back;

	propose_both();
	a = first();
	page = page_of(&a);
	began = now_ms();
	/* not while nothing is sent */
	poll(NULL, 0, 200);
	assert_int_equal(atomic_load(&page->want), 0);
	while (!(atomic_load(&page->want) & IW_WANT_BACK)) {
		both_ways(w.c, a.fds[0]);
		poll(NULL, 0, 1);
		assert_true(now_ms() < began + 20000);
	}
	back = lib_back(&w.server, a.m.stream_id);
	assert_true(back >= 0);
	answer_close(&a);
	munmap(page, IW_PAGE_SIZE);
	both_ways(w.c, back);
	assert_false(lib_may(&w.client, CID));
	refused(lib_switch(&w.client, CID, w.c), IW_REASON_MATCHED);
	/* again, after a while, also when it was proposed anew meanwhile */
	assert_false(lib_may(&w.server, SID));
	lib_go(&w.server, SID);
	assert_in_range(now_ms() - began, 1000, 20000);
	w.s = back;
	began = now_ms();
	a = first();
	page = page_of(&a);
	while (!(atomic_load(&page->want) & IW_WANT_BACK)) {
		both_ways(w.c, a.fds[0]);
		poll(NULL, 0, 1);
	}
	munmap(page, IW_PAGE_SIZE);
	back = lib_back(&w.server, a.m.stream_id);
	answer_close(&a);
	lib_propose(&w.server, back, SID + 1, false);
	lib_sync(&w.server);
	assert_false(lib_may(&w.server, SID + 1));
	lib_go(&w.server, SID + 1);
	assert_in_range(now_ms() - began, 2000, 20000);
	close(back);
}

/* A bulk transfer does not wait so long. */
static void alone_in_bulk(void **state)
{
	static char buf[1 << 16];
	struct answer a;
	struct iw_page *page;

	propose_both();
	a = first();
	page = page_of(&a);
	for (size_t n = 0; n < 24 << 20; n += sizeof(buf)) {
		assert_int_equal(send(w.c, buf, sizeof(buf), 0), sizeof(buf));
		assert_int_equal(recv(a.fds[0], buf, sizeof(buf), MSG_WAITALL), sizeof(buf));
	}
	for (uint64_t until = now_ms() + 20000; !(atomic_load(&page->want) & IW_WANT_BACK); sched_yield())
		assert_true(now_ms() < until);
	munmap(page, IW_PAGE_SIZE);
	answer_close(&a);
}

/* ---- what is no harm to anybody ---- */

static void not_a_stream(void **state)
{
	int un[2], udp = socket(AF_INET, SOCK_DGRAM, 0), fresh = socket(AF_INET, SOCK_STREAM, 0);
	struct lib l;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, un), 0);
	int bad[] = { un[0], udp, w.client.peers_fd, fresh, w.listener };

	lib_propose(&w.client, w.c, CID, true);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		l = lib_new();
		lib_propose(&l, w.s, 1, false);
		lib_go(&l, 1);
		refused(lib_switch(&l, 1, bad[i]), IW_REASON_NOT_STREAM);
		assert_false(lib_may(&l, 1));
		lib_free(&l);
	}
	l = lib_new();
	lib_propose(&l, w.s, 1, false);
	lib_go(&l, 1);
	shutdown(w.c, SHUT_WR);
	expect(w.s, "");
	refused(lib_switch(&l, 1, w.s), IW_REASON_HALF_CLOSED);
	lib_free(&l);
	close(un[0]);
	close(un[1]);
	close(udp);
	close(fresh);
}

/* Somebody else's connection: whoever has the socket is the one. */
static void forged(void **state)
{
	struct lib attacker = lib_new();
	int c = tcp_connect(w.port), s = accept(w.listener, NULL, NULL);
	struct iw_ctl_propose m = proposal(w.s, 1, false);
	struct answer a, b;

	/* before the victims, by the right cookie and by a wrong one, of both ends */
	lib_tell(&attacker, &m, -1);
	m = proposal(w.c, 2, true);
	m.cookie++;
	lib_tell(&attacker, &m, -1);
	lib_propose(&attacker, w.s, 3, false);		/* takes the place of the first */
	lib_go(&attacker, 3);
	propose_both();
	refused(lib_switch(&attacker, 1, s), IW_REASON_TUPLE_UNKNOWN);
	refused(lib_switch(&attacker, 3, s), IW_REASON_TUPLE_UNKNOWN);
	/* and after them */
	lib_propose(&attacker, w.s, 4, false);
	lib_propose(&attacker, w.c, 5, true);
	lib_sync(&attacker);
	a = first();
	lib_go(&attacker, 5);
	refused(lib_switch(&attacker, 5, c), IW_REASON_TUPLE_UNKNOWN);
	lib_id(&attacker, IW_CTL_CLOSED, 4, -1);
	assert_true(lib_may(&w.client, CID));
	b = lib_switch_to(&w.client, CID, w.c);
	w.c = -1;
	assert_int_equal(b.m.stream_id, a.m.stream_id);
	both_ways(a.fds[0], b.fds[0]);
	answer_close(&a);
	answer_close(&b);
	close(c);
	close(s);
	lib_free(&attacker);
}

/* One who says that he has the other end, again and again, delays nobody's join. */
static void forged_all_the_time(void **state)
{
	const struct iw_ctl_propose real = proposal(w.s, 0, false);
	struct iw_ctl_propose m;
	struct lib attacker[12];
	struct answer a, b;

	for (int i = 0; i < 12; i++) {		/* more than are kept of a user */
		attacker[i] = lib_new();
		lib_propose(&attacker[i], w.s, 1, false);
		lib_propose(&attacker[i], w.c, 2, true);
		lib_sync(&attacker[i]);
	}
	propose_both();
	a = first();
	for (int i = 0; i < 12; i++) {
		m = real;
		m.conn_id = m.slot = 3;
		lib_tell(&attacker[i], &m, -1);
		plain(&attacker[i], 3, IW_REASON_INHERITED, 0);
		m.conn_id = m.slot = 4;
		lib_tell(&attacker[i], &m, -1);
		lib_id(&attacker[i], IW_CTL_SWITCH, 4, w.listener);
		assert_int_equal(lib_answer(&attacker[i]).m.result, 1);
	}
	b = lib_switch_to(&w.client, CID, w.c);
	w.c = -1;
	both_ways(a.fds[0], b.fds[0]);
	answer_close(&a);
	answer_close(&b);
	for (int i = 0; i < 12; i++)
		lib_free(&attacker[i]);
}

/* A connection of a socket with itself has one end. */
static void with_itself(void **state)
{
	struct sockaddr_in sa = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(sa);

	assert_int_equal(bind(fd, (void *)&sa, len), 0);
	getsockname(fd, (void *)&sa, &len);
	assert_int_equal(connect(fd, (void *)&sa, len), 0);
	lib_propose(&w.client, fd, CID, true);
	no_go();
	close(fd);
}

static void of_other_namespace(enum iw_reason alone)
{
	struct iw_ctl_propose m = proposal(w.c, CID, true);
	int p[2];
	char byte;

	if (geteuid())
		skip();
	m.netns++;
	lib_tell(&w.client, &m, -1);
	lib_propose(&w.server, w.s, SID, false);
	no_go();
	refused(lib_switch(&w.client, CID, w.c), alone);
	/* the same addresses, and a lie about the namespace */
	assert_int_equal(pipe(p), 0);
	if (!fork()) {
		struct lib l = lib_new();
		uint16_t port;
		int c;

		own_net();
		close(tcp_listen(&port));
		tcp_listen(&port);
		c = tcp_connect(port);
		m = proposal(c, 1, true);
		m.netns = sock_u64(w.c, SO_NETNS_COOKIE);
		lib_tell(&l, &m, -1);
		m = proposal(c, 2, false);
		m.netns = sock_u64(w.c, SO_NETNS_COOKIE);
		m.local = proposal(c, 2, true).peer;
		m.peer = proposal(c, 2, true).local;
		lib_tell(&l, &m, -1);
		lib_go(&l, 2);
		refused(lib_switch(&l, 2, c), IW_REASON_NETNS);
		_exit(write(p[1], "", 1) != 1);
	}
	close(p[1]);
	assert_int_equal(read(p[0], &byte, 1), 1);
	close(p[0]);
	wait(NULL);
}

static void other_namespace(void **state)
{
	of_other_namespace(IW_REASON_NETNS);
}

/* They may be joined: one's loopback address is still not another one's, and nobody is believed who says that he is of another one. */
static void other_namespace_joins(void **state)
{
	of_other_namespace(IW_REASON_UNANSWERED);
}

static int setup_joins(void **state)
{
	daemon_stop(NULL);
	d.option = "join_namespaces=yes";
	return daemon_start(NULL) || setup(NULL);
}

/* ---- quotas ---- */

#define MANY	66000u		/* more than a program may have proposed */

static void too_many(void **state)
{
	struct iw_ctl_propose m = proposal(w.c, 1, true);

	for (unsigned int i = 0; i < MANY; i++) {
		m.conn_id = i + 1;
		m.slot = i;
		m.peer.port = (uint16_t)(1 + i % 60000);
		m.peer.ip[15] = (uint8_t)(7 + i / 60000);
		lib_tell(&w.client, &m, -1);
	}
	lib_propose(&w.client, w.c, CID, true);
	lib_propose(&w.server, w.s, SID, false);
	no_go();
	lib_id(&w.client, IW_CTL_CLOSED, 1, -1);
	lib_propose(&w.client, w.c, CID, true);
	lib_go(&w.server, SID);
}

/* A user whose book is full proposes nothing more; what is under way goes its way. */
static void full_book(void **state)
{
	struct iw_ctl_propose m = proposal(w.c, 1, true);
	struct lib flood[2] = { lib_new(), lib_new() };
	struct answer a;
	int s;

	propose_both();
	lib_go(&w.server, SID);
	for (unsigned int i = 0; i < 2 * MANY; i++) {
		m.conn_id = i + 1;
		m.slot = i;
		m.peer.port = (uint16_t)(1 + i % 60000);
		m.peer.ip[15] = (uint8_t)(7 + i / 60000);
		lib_tell(&flood[i % 2], &m, -1);
	}
	lib_sync(&flood[0]);
	lib_sync(&flood[1]);
	a = lib_switch_to(&w.server, SID, w.s);
	w.s = -1;
	both_ways(w.c, a.fds[0]);
	s = lib_back(&w.server, a.m.stream_id);
	assert_true(s >= 0);
	answer_close(&a);
	both_ways(w.c, s);
	/* none is left when they are gone; how soon that is heard nobody says */
	lib_free(&flood[0]);
	lib_free(&flood[1]);
	for (uint64_t id = SID + 1, until = now_ms() + 20000; !lib_may(&w.server, id); poll(NULL, 0, 1)) {
		lib_propose(&w.server, s, id, false);
		lib_sync(&w.server);
		assert_true(now_ms() < until);
	}
	close(s);
}

/* ---- options, pages, strangers ---- */

/* What another process has been given is not for this one to move on: not its stream, nor its socket. */
static void stranger(void **state)
{
	struct answer a, b;
	int status;

	propose_both();
	lib_go(&w.server, SID);
	a = lib_switch(&w.server, SID, w.s);
	assert_int_equal(a.m.result, 0);
	if (!fork()) {
		struct lib other = lib_new();

		lib_switched(&other, a.m.stream_id, 9);
		lib_id(&other, IW_CTL_ABANDON, a.m.stream_id, -1);
		lib_id(&other, IW_CTL_CLOSED, SID, -1);
		_exit(lib_back(&other, a.m.stream_id) == -1 && lib_switch(&other, SID, w.s).m.result ? 0 : 1);
	}
	wait(&status);
	assert_int_equal(status, 0);
	assert_int_equal(send(w.c, "T's", 3, 0), 3);
	expect(w.s, "T's");		/* nobody else reads it: it is not relayed yet */
	assert_true(daemon_holds(w.s));
	close(w.s);
	w.s = -1;
	lib_switched(&w.server, a.m.stream_id, a.fds[0]);
	if (!fork()) {
		struct lib other = lib_new();

		_exit(lib_back(&other, a.m.stream_id) == -1 ? 0 : 1);
	}
	wait(&status);
	assert_int_equal(status, 0);
	both_ways(w.c, a.fds[0]);
	b = lib_switch_to(&w.client, CID, w.c);
	w.c = -1;
	both_ways(a.fds[0], b.fds[0]);
	answer_close(&a);
	answer_close(&b);
}

static int option(struct lib *l, bool set, uint64_t id, int level, int name, int value)
{
	struct iw_ctl_opt m, r;
	int fds[2];

	iw_ctl_init(&m, set ? IW_CTL_SETSOCKOPT : IW_CTL_GETSOCKOPT, 0);
	m.stream_id = id;
	m.level = level;
	m.optname = name;
	m.optlen = sizeof(value);
	memcpy(m.val, &value, sizeof(value));
	lib_tell(l, &m, -1);
	lib_reply(l, l->seq, &r, IW_CTL_OPT, fds);
	if (!r.error && !set)
		memcpy(&value, r.val, sizeof(value));
	return r.error ? -r.error : set ? 0 : value;
}

static void options(void **state)
{
	struct lib *l = &w.server;
	struct answer a;
	int status;

	propose_both();
	a = first();
	assert_int_equal(option(l, true, a.m.stream_id, IPPROTO_TCP, 1, 1), 0);
	assert_int_equal(option(l, false, a.m.stream_id, IPPROTO_TCP, 1, 0), 1);
	assert_int_equal(option(l, true, a.m.stream_id, SOL_SOCKET, SO_KEEPALIVE, 1), 0);
	assert_int_equal(option(l, false, a.m.stream_id, SOL_SOCKET, SO_KEEPALIVE, 0), 1);
	assert_int_equal(option(l, true, a.m.stream_id, SOL_SOCKET, SO_MARK, 1), -EPERM);
	assert_int_equal(option(l, true, a.m.stream_id, SOL_SOCKET, SO_PRIORITY, 7), -EPERM);
	assert_int_equal(option(l, true, a.m.stream_id, SOL_SOCKET, SO_ATTACH_FILTER, 1), -ENOPROTOOPT);
	assert_int_equal(option(l, true, a.m.stream_id, SOL_SOCKET, SO_RCVTIMEO, 1), -ENOPROTOOPT);
	assert_int_equal(option(l, true, a.m.stream_id, IPPROTO_TCP, 31 /* TCP_ULP */, 1), -ENOPROTOOPT);
	/* a stream that another process was given */
	if (!fork()) {
		struct lib other = lib_new();

		_exit(option(&other, false, a.m.stream_id, IPPROTO_TCP, 1, 0) == -ENOTCONN ? 0 : 1);
	}
	wait(&status);
	assert_int_equal(status, 0);
	answer_close(&a);
}

static void plain_pages(void **state)
{
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, w.client.peers_fd, 0), MAP_FAILED);
	assert_int_equal(write(w.client.peers_fd, "x", 1), -1);
	assert_int_equal(ftruncate(w.client.peers_fd, 0), -1);
	assert_int_equal(fallocate(w.client.peers_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
	assert_int_equal(w.client.peers->magic, IW_PEERS_MAGIC);
	assert_int_equal(w.client.peers->dead, 0);
	assert_int_equal(w.client.proc->magic, IW_PROC_MAGIC);
}

static void open_by_carrier(void **state)
{
	struct lib other = lib_new();
	struct iw_ctl_fdmsg m;
	struct answer a, r;
	int un[2];

	propose_both();
	a = first();
	iw_ctl_init(&m, IW_CTL_OPEN, 0);
	lib_tell(&other, &m, a.fds[0]);
	r = lib_answer(&other);
	assert_int_equal(r.m.result, 0);
	assert_int_equal(r.m.stream_id, a.m.stream_id);
	assert_true(r.fds[0] >= 0 && r.fds[1] < 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, un), 0);
	lib_tell(&other, &m, un[0]);
	refused(lib_answer(&other), IW_REASON_NOT_STREAM);
	answer_close(&a);
	answer_close(&r);
	close(un[0]);
	close(un[1]);
	lib_free(&other);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(accepting_end_first), T(whoever_proposes_first), T(no_gain_elsewhere), T(closed_before), T(never), T(plain_told), T(busy_for_now), T(relayed), T(joined), T(rest_before_switched), T(rest_begun_before), T(direct_again), T(direct_not_now), T(direct_not_taken), T(direct_often), T(direct_passed_on), T(direct_breaks_before), T(direct_breaks_behind),
		T(without_go), T(closed_after_go), T(abandoned), T(dies_before_switched), T(dies_after_switched), T(breaks_before_switched),
		T(second_abandons), T(second_dies_before_switched), T(second_breaks_before_switched), T(back_asked_and_gone), T(back_not_taken),
		T(back_taken_and_gone), T(back_abandoned), T(alone), T(alone_in_bulk), T(not_a_stream),
		cmocka_unit_test_setup_teardown(both_at_once, setup_at_once, teardown_at_once),
		cmocka_unit_test_setup_teardown(both_at_once_by_turns, setup_at_once, teardown_at_once),
		cmocka_unit_test_setup_teardown(both_at_once_one_abandons, setup_at_once, teardown_at_once), T(same_socket_twice),
		T(forged), T(forged_all_the_time), T(with_itself), T(other_namespace),
		cmocka_unit_test_setup_teardown(other_namespace_joins, setup_joins, teardown_at_once), T(too_many), T(full_book), T(stranger), T(options), T(plain_pages), T(open_by_carrier),
	};

	own_net();
	d.option = OPTION;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, daemon_start, daemon_stop);
}
