// SPDX-License-Identifier: MIT
/* A queue pair mapped into the application and back: the test is the library of one end or of both. */
#include "stream_util.h"

#include <inttypes.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "map_util.h"
#include "daemon/rnic/area.h"
#include "daemon/stream/map_priv.h"
#include "daemon/stream/remote.h"
#include "daemon/stream/stream_priv.h"

/* ---- the library of an end ---- */

static struct mapped lib[2];
static int life[2];	/* in the place of their pidfds */

static struct {
	bool done;
	int ret;
	struct stream_mapping m;
} said_map;

static void on_map(void *arg, int ret, const struct stream_mapping *m)
{
	assert_false(said_map.done);
	said_map.done = true;
	said_map.ret = ret;
	if (!ret)
		said_map.m = (struct stream_mapping){ .tcp = dup(m->tcp), .map = dup(m->map), .size = m->size };
}

static int ask(int i)
{
	said_map.done = false;
	stream_map(app[i].st, dup(life[i]), on_map, NULL);
	run_until(is_true, &said_map.done);
	return said_map.ret;
}

/* What was passed is the library's, whatever becomes of it. */
static void receive(int i)
{
	mapped_get(&lib[i], said_map.m.tcp, said_map.m.map, said_map.m.size);
}

static bool take(int i)
{
	uint32_t offered = IW_HAND_OFFERED;

	return atomic_compare_exchange_strong(&app[i].page->end[0].hand, &offered, IW_HAND_TAKEN);
}

/* As a library does: again, as long as it is not now. */
static void granted(int i)
{
	for (int n = 0; n < 1000 && ask(i); n++) {
		assert_int_equal(said_map.ret, -EAGAIN);
		run_rounds(1);
	}
	assert_int_equal(said_map.ret, 0);
}

/* It was taken, and nobody said so. */
static void take_silently(int i)
{
	granted(i);
	receive(i);
	assert_true(take(i));
}

static void use(int i)
{
	assert_int_equal(stream_mapped(app[i].st), 0);
	assert_int_equal(stream_mapped(app[i].st), -EINVAL);
	mapped_begin(&lib[i]);
}

static void map(int i)
{
	granted(i);
	receive(i);
	assert_int_equal(atomic_load(&lib[i].map->owner), IW_MAP_LIBRARY);
	assert_true(take(i));
	use(i);
}

/* As a kernel does it: the pidfd tells last. */
static void die(int i)
{
	mapped_drop(&lib[i]);
	close_app(i);
	run_rounds(10);
	eventfd_write(life[i], 1);
}

static void unmap(int i)
{
	mapped_end(&lib[i]);
	assert_int_equal(stream_unmap(app[i].st), 0);
	assert_int_equal(atomic_load(&app[i].page->end[0].hand), IW_HAND_VOID);
}

/* As send() and recv() with MSG_DONTWAIT, by whatever path the end is on. */
static ssize_t end_send(int i, const void *buf, size_t len)
{
	return lib[i].map ? mapped_send(&lib[i], buf, len) : send(app[i].fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static ssize_t end_recv(int i, void *buf, size_t len)
{
	return lib[i].map ? mapped_recv(&lib[i], buf, len) : app_recv(&app[i], buf, len, MSG_DONTWAIT);
}

struct text {
	int i;
	char b[64];
	ssize_t n;
	int err;
};

static bool something(void *arg)
{
	struct text *t = arg;

	if (t->n < 0 && t->err == EAGAIN) {
		t->n = end_recv(t->i, t->b, sizeof(t->b) - 1);
		t->err = errno;
	}
	return t->n >= 0 || t->err != EAGAIN;
}

/* Octets, or 0 for the end, or -errno. */
static int next(int i, char b[64])
{
	struct text t = { .i = i, .n = -1, .err = EAGAIN };

	run_until(something, &t);
	memcpy(b, t.b, sizeof(t.b));
	return t.n < 0 ? -t.err : (int)t.n;
}

static void expect(int i, const char *text)
{
	char b[64];

	assert_int_equal(next(i, b), strlen(text));
	assert_string_equal(b, text);
}

static void tell(int i, const char *text)
{
	assert_int_equal(end_send(i, text, strlen(text)), strlen(text));
}

static void both_ways(void)
{
	tell(0, "there");
	expect(1, "there");
	tell(1, "and back");
	expect(0, "and back");
}

static struct stream_info info_of(int i)
{
	struct stream_info info = { 0 };

	assert_true(stream_look(app[i].g.stream_id, &info));
	return info;
}

static bool wanted(void *arg)
{
	return atomic_load(&((struct app *)arg)->page->want) & IW_WANT_MAP;
}

static bool gone(void *arg)
{
	return ngone >= *(unsigned int *)arg;
}

static void all_gone(void)
{
	run_until(gone, &(unsigned int){ 2 });
}

static int map_setup(void **state)
{
	memset(lib, 0, sizeof(lib));
	for (int i = 0; i < 2; i++)
		life[i] = eventfd(0, EFD_CLOEXEC);
	return setup(state);
}

static int map_teardown(void **state)
{
	mapped_drop(&lib[0]);
	mapped_drop(&lib[1]);
	eventfd_write(life[0], 1);
	eventfd_write(life[1], 1);
	teardown(state);
	close(life[0]);
	close(life[1]);
	return 0;
}

/* ---- mapped, and back ---- */

static void one_end(void **state)
{
	remote_pair();
	assert_true(wanted(&app[0]) && wanted(&app[1]));
	map(0);
	assert_false(wanted(&app[0]));
	for (int i = 0; i < 3; i++)
		both_ways();
	unmap(0);
	both_ways();
}

static void the_other_end(void **state)
{
	remote_pair();
	map(1);
	both_ways();
	unmap(1);
	both_ways();
}

static void both_ends(void **state)
{
	remote_pair();
	map(0);
	map(1);
	both_ways();
	both_ways();
	unmap(0);
	both_ways();
	unmap(1);
	both_ways();
}

static void again_and_again(void **state)
{
	remote_pair();
	for (int i = 0; i < 20; i++) {
		map(i & 1);
		both_ways();
		unmap(i & 1);
		both_ways();
	}
}

static void shown(void **state)
{
	remote_pair();
	assert_string_equal(info_of(0).path, "carrier");
	map(0);
	both_ways();
	assert_string_equal(info_of(0).path, "mapped");
	assert_int_equal(info_of(0).tx_bytes, 6);
	assert_int_equal(info_of(0).rx_bytes, 8);
	assert_int_equal(info_of(0).stat.tx_send, 2);
	unmap(0);
	assert_string_equal(info_of(0).path, "carrier");
	assert_int_equal(info_of(0).tx_bytes, 6);
	assert_int_equal(info_of(0).rx_bytes, 8);
	assert_int_equal(atomic_load(&app[0].page->end[0].tx_taken), 6);
	assert_int_equal(atomic_load(&app[0].page->end[0].rx_given), 8);
}

/* ---- what is told of all streams ---- */

static struct stream_counts totals(void)
{
	struct stream_tally t;

	stream_tally(&t);
	return t.counts;
}

/* Nothing has gone back, nor on by more than TCP can have carried. */
static void on_from(struct stream_counts *was)
{
	struct stream_counts now = totals();

	for (size_t i = 0; i < sizeof(now) / sizeof(uint64_t); i++) {
		uint64_t a = ((uint64_t *)was)[i], b = ((uint64_t *)&now)[i];

		assert_true(b >= a && b - a <= 128 << 20);
	}
	*was = now;
}

static void counted(void **state)
{
	struct stream_counts was = totals(), now;

	remote_pair();
	map(0);
	both_ways();
	now = totals();
	assert_int_equal(now.tx_bytes - was.tx_bytes, 14);
	assert_int_equal(now.rx_bytes - was.rx_bytes, 14);
	on_from(&was);
	unmap(0);
	on_from(&was);
	both_ways();
	map(0);
	both_ways();
	on_from(&was);
	assert_int_equal(was.tx_bytes - now.tx_bytes, 26);
	assert_int_equal(was.rx_bytes - now.rx_bytes, 26);
	stream_close(app[0].g.stream_id);
	mapped_drop(&lib[0]);
	close_app(0);
	eventfd_write(life[0], 1);
	close_app(1);
	all_gone();
	now = totals();
	assert_int_equal(was.tx_bytes, now.tx_bytes);
	on_from(&was);
}

/* Its application writes there what it likes. */
static void lie(int i, unsigned int how)
{
	struct iw_map_priv at;

	iw_map_at(lib[i].map, &app[i].st->remote->f->p, &at);
	at.s->qp.stat.tx_send = how & 1 ? 0 : UINT64_MAX >> (how & 7);
	at.s->qp.stat.rx_fpdu = how & 2 ? 0 : (uint64_t)INT64_MAX << (how & 1);
	at.s->qp.stat.tx_octets += how & 4 ? 1ull << 62 : 1ull << 20;
}

static void a_map_that_counts_wrong(void **state)
{
	struct stream_counts was = totals();

	remote_pair();
	for (unsigned int n = 0; n < 16; n++) {
		map(0);
		both_ways();
		on_from(&was);
		lie(0, n);
		on_from(&was);
		lie(0, n + 5);
		on_from(&was);
		unmap(0);
		on_from(&was);
		both_ways();
		on_from(&was);
	}
	assert_true(info_of(0).stat.tx_send >= 64 && info_of(0).stat.tx_send < 1ull << 40);
}

static void a_map_that_carried_wrong(void **state)
{
	struct stream_counts was = totals();
	struct iw_map_priv at;

	remote_pair();
	map(0);
	both_ways();
	on_from(&was);
	iw_map_at(lib[0].map, &app[0].st->remote->f->p, &at);
	at.f->rs.tx_pos -= 3;
	at.f->rs.rx_pos += 1ull << 60;
	on_from(&was);
	at.f->rs.tx_pos = 0;
	at.f->rs.rx_pos = UINT64_MAX;
	on_from(&was);
	mapped_end(&lib[0]);
	stream_unmap(app[0].st);
	on_from(&was);
	close_app(0);
	close_app(1);
	all_gone();
	on_from(&was);
}

/* A connection that is used is mapped again, but not at once. */
static bool wanted_back(void *arg)
{
	const struct app *a = arg;

	return atomic_load(&a->page->want) & IW_WANT_UNMAP;
}

static void restless(void **state)
{
	int quick = 0;

	conf.map = CONF_MAP_RESTLESS;
	remote_pair();
	for (int n = 0; n < 20; n++) {
		uint64_t began = engine_now_ms();

		run_until(wanted, &app[0]);
		map(0);
		assert_false(wanted(&app[0]));
		run_until(wanted_back, &app[0]);
		unmap(0);
		assert_false(wanted_back(&app[0]));
		assert_in_range(app[0].st->remote->map_pause, 1, 4);
		quick += engine_now_ms() - began < 900;
	}
	assert_in_range(quick, 10, 20);		/* some may meet a machine that stands still */
	conf.map = CONF_MAP_YES;
}

static void wanted_again(void **state)
{
	uint64_t began;

	remote_pair();
	map(0);
	unmap(0);
	began = engine_now_ms();
	assert_false(wanted(&app[0]));
	run_until(wanted, &app[0]);
	assert_true(engine_now_ms() - began >= 900);
	map(0);
	unmap(0);
	began = engine_now_ms();
	run_until(wanted, &app[0]);
	assert_true(engine_now_ms() - began >= 1900);
	map(0);
	app[0].st->map->since -= 60000;	/* a minute ago: that was worth it, and the next pause is short again */
	unmap(0);
	began = engine_now_ms();
	run_until(wanted, &app[0]);
	assert_true(engine_now_ms() - began >= 900);
	assert_int_equal(app[0].st->remote->map_pause, 1000);
}

/* ---- bulk: each end moves what it can, on the path that it is on ---- */

struct flow {
	uint64_t total, out[2], in[2];
	uint64_t change;	/* octets that come in before an end changes its path */
	uint64_t next[2];
	unsigned int may;	/* ends that are mapped at all: bits */
	bool wrong;
	unsigned int refused, offered;
	int asks;
};

static void flow_out(struct flow *f, int i)
{
	static uint8_t b[100000];
	size_t n = f->total - f->out[i] < sizeof(b) ? (size_t)(f->total - f->out[i]) : sizeof(b);
	ssize_t k;

	for (size_t p = 0; p < n; p++)
		b[p] = octet_at(f->out[i] + p, (uint32_t)i);
	k = n ? end_send(i, b, n) : 0;
	f->out[i] += k > 0 ? (uint64_t)k : 0;
}

static void flow_in(struct flow *f, int i)
{
	static uint8_t b[70000];
	ssize_t n = end_recv(i, b, sizeof(b));

	for (ssize_t p = 0; p < n; p++)
		f->wrong |= b[p] != octet_at(f->in[i] + (uint64_t)p, (uint32_t)!i);
	f->in[i] += n > 0 ? (uint64_t)n : 0;
}

static bool flowed(void *arg)
{
	struct flow *f = arg;

	for (int i = 0; i < 2; i++) {
		flow_out(f, i);
		flow_in(f, i);
	}
	return f->wrong || (f->in[0] == f->total && f->in[1] == f->total);
}

/* Until it is time for a change, or all is there. */
static bool flows(void *arg)
{
	struct flow *f = arg;

	return flowed(f) || (f->may & 1 && f->in[0] >= f->next[0]) || (f->may & 2 && f->in[1] >= f->next[1]);
}

/* The other end goes on meanwhile. */
static bool answered(void *arg)
{
	struct flow *f = arg;

	flow_out(f, !f->asks);
	flow_in(f, !f->asks);
	return said_map.done;
}

static int ask_in(struct flow *f, int i)
{
	f->asks = i;
	said_map.done = false;
	stream_map(app[i].st, dup(life[i]), on_map, NULL);
	run_until(answered, f);
	return said_map.ret;
}

static void change(struct flow *f, int i)
{
	if (!(f->may & 1u << i) || f->in[i] < f->next[i])
		return;
	if (lib[i].map) {
		unmap(i);
	} else if (!ask_in(f, i)) {
		receive(i);
		if (f->offered++ % 3) {
			assert_true(take(i));
			use(i);
		} else {
			mapped_drop(&lib[i]);	/* it will not be used */
			assert_true(stream_map_cancel(app[i].st));
			return;
		}
	} else {
		assert_int_equal(said_map.ret, -EAGAIN);
		f->refused++;
		return;
	}
	f->next[i] = f->in[i] + f->change;
}

static unsigned int bulk(uint64_t total, uint64_t each, unsigned int may)
{
	struct flow f = { .total = total, .change = each, .next = { each, each }, .may = may };
	unsigned int mapped = 0;

	while (!f.wrong && (f.in[0] < total || f.in[1] < total)) {
		run_until(flows, &f);
		for (int i = 0; i < 2; i++) {
			bool was = lib[i].map;

			change(&f, i);
			mapped += !was && lib[i].map;
		}
	}
	assert_false(f.wrong);
	assert_int_equal(f.out[0], total);
	print_message("# mapped %u times, refused %u times\n", mapped, f.refused);
	return mapped;
}

static void bulk_mapped(void **state)
{
	remote_pair();
	map(0);
	bulk(16 << 20, UINT64_MAX, 0);
	unmap(0);
	both_ways();
}

static void bulk_both_mapped(void **state)
{
	remote_pair();
	map(0);
	map(1);
	bulk(16 << 20, UINT64_MAX, 0);
}

static uint64_t octets_of(int fd)
{
	struct stat s;

	assert_int_equal(fstat(fd, &s), 0);
	return (uint64_t)s.st_blocks * 512;
}

static uint64_t octets_in(const struct stream *st)
{
	return octets_of(st->segment) + octets_of(st->remote->area->fd);
}

static bool lean_now(void *st)
{
	return octets_in(st) <= 16 << 10;
}

/* Of what both ends had worked with before, the daemon has nothing but its state while they are mapped, before long. */
static void mapped_takes_no_more(void **state)
{
	remote_pair();
	for (int n = 0; n < 2; n++) {
		bulk(4 << 20, UINT64_MAX, 0);
		for (int i = 0; i < 2; i++) {
			struct stream *st = app[i].st;
			uint64_t before = octets_in(st);

			map(i);
			assert_true(before > 256 << 10);
			run_until(lean_now, st);
			print_message("# %" PRIu64 " octets, then %" PRIu64 "\n", before, octets_in(st));
		}
		both_ways();
		unmap(0);
		both_ways();
		unmap(1);
		both_ways();
	}
}

/* The map is taken where a direction is dry at that moment, which is chance: so long until it was. */
static void changes(uint64_t total, uint64_t each, unsigned int may)
{
	unsigned int mapped = 0;

	for (int round = 0; !mapped && round < 50; round++)
		mapped = bulk(total, each, may);
	assert_true(mapped > 0);
}

/* In the middle of both directions, at any octet. */
static void bulk_and_changes(void **state)
{
	remote_pair();
	map(0);
	changes(32 << 20, 777777, 1);
	if (lib[0].map)
		unmap(0);
	both_ways();
}

static void bulk_and_changes_of_both(void **state)
{
	remote_pair();
	map(0);
	map(1);
	changes(32 << 20, 555555, 3);
	for (int i = 0; i < 2; i++)
		if (lib[i].map)
			unmap(i);
	both_ways();
}

static void bulk_and_changes_in_a_small_ring(void **state)
{
	conf.ring_size = 64 << 10;
	remote_pair();
	changes(8 << 20, 99999, 3);
	for (int i = 0; i < 2; i++)
		if (lib[i].map)
			unmap(i);
	both_ways();
}

/* ---- not now ---- */

static void not_with_octets_unread(void **state)
{
	remote_pair();
	tell(1, "read me");
	run_until(readable, &app[0].fd);
	assert_int_equal(ask(0), -EAGAIN);
	tell(1, "me too");
	expect(0, "read me");	/* nothing follows for a moment */
	take_silently(0);
	use(0);
	expect(0, "me too");
	both_ways();
}

/* What the application has just written goes first. */
static void octets_written_go_first(void **state)
{
	remote_pair();
	tell(0, "first");
	take_silently(0);
	use(0);
	expect(1, "first");
	tell(0, "second");
	expect(1, "second");
	both_ways();
}

static bool two_of(void *arg)
{
	return app[1].st && info_of(1).rx_bytes >= 1 + *(uint64_t *)arg;
}

/* Also what the peer has not read then. */
static void octets_under_way_go_first(void **state)
{
	remote_pair();
	tell(0, "first");
	map(0);
	tell(0, "second");
	run_until(two_of, &(uint64_t){ 11 });
	expect(1, "firstsecond");
	tell(1, "and back");
	run_until(readable, &lib[0].tcp);
	unmap(0);
	tell(0, "third");
	expect(0, "and back");
	expect(1, "third");
}

static void not_what_is_half_closed(void **state)
{
	remote_pair();
	shutdown(app[0].fd, SHUT_WR);
	assert_int_equal(ask(0), -ENOTCONN);
	expect_end(&app[1], 0);
	assert_int_equal(ask(1), -ENOTCONN);
	tell(1, "still");
	expect(0, "still");
}

static void not_a_relay(void **state)
{
	relayed(0);
	assert_int_equal(ask(0), -ENOTCONN);
	assert_int_equal(stream_unmap(app[0].st), -EINVAL);
	assert_true(stream_map_cancel(app[0].st));
}

static void not_where_forbidden(void **state)
{
	conf.map = CONF_MAP_NO;
	remote_pair();
	assert_false(wanted(&app[0]));
	assert_int_equal(ask(0), -ENOTCONN);
	both_ways();
}

static void not_beyond_the_quota(void **state)
{
	const uint64_t *used = &prm_user_get(owner.uid)->used[PRM_MEMORY];
	uint64_t before;

	remote_pair();
	before = *used;
	conf.max_memory = before + 4096;
	assert_int_equal(ask(0), -EDQUOT);
	assert_false(wanted(&app[0]));
	assert_int_equal(*used, before);
	both_ways();
	conf.max_memory = before * 10;
	map(0);
	assert_true(*used > before);
	both_ways();
	unmap(0);
	assert_int_equal(*used, before);
}

static void one_at_a_time(void **state)
{
	struct stream_mapping m;

	remote_pair();
	granted(0);
	m = said_map.m;
	assert_int_equal(ask(0), -EAGAIN);
	said_map.m = m;
	receive(0);
	assert_true(take(0));
	use(0);
	assert_int_equal(ask(0), -EAGAIN);
	both_ways();
}

/* Whoever opens the carrier does not have the map: the library is asked to give it back. */
static void opened_by_another(void **state)
{
	struct stream_grant g = { 0 };

	remote_pair();
	assert_int_equal(stream_open(app[0].fd, &g), 0);
	close(g.segment);
	assert_int_equal(atomic_load(&app[0].page->want), IW_WANT_MAP);
	map(0);
	assert_int_equal(stream_open(app[0].fd, &g), 0);
	close(g.segment);
	assert_int_equal(atomic_load(&app[0].page->want), IW_WANT_UNMAP);
	both_ways();
	unmap(0);
	assert_int_equal(atomic_load(&app[0].page->want), 0);
	both_ways();
}

/* ---- offered, and not taken ---- */

static void abandoned(void **state)
{
	remote_pair();
	granted(0);
	receive(0);
	tell(1, "meanwhile");
	run_rounds(10);
	assert_true(stream_map_cancel(app[0].st));
	assert_false(take(0));
	mapped_drop(&lib[0]);
	expect(0, "meanwhile");
	both_ways();
	assert_int_equal(stream_mapped(app[0].st), -EINVAL);
	assert_int_equal(stream_unmap(app[0].st), -EINVAL);
}

/* By another connection than that it was offered on. */
static void given_back_before_it_was_said(void **state)
{
	remote_pair();
	take_silently(0);
	mapped_begin(&lib[0]);
	both_ways();
	unmap(0);
	both_ways();
	assert_true(stream_map_cancel(app[0].st));
	both_ways();
}

static void taken_though_it_was_not_said(void **state)
{
	remote_pair();
	take_silently(0);
	assert_false(stream_map_cancel(app[0].st));
	use(0);
	both_ways();
}

static void closed_before_it_was_taken(void **state)
{
	remote_pair();
	granted(0);
	receive(0);
	close_app(0);
	run_rounds(10);
	assert_true(stream_map_cancel(app[0].st));
	mapped_drop(&lib[0]);
	expect_end(&app[1], 0);
	close_app(1);
	all_gone();
}

/* Closed before the library could say that it has taken it. */
static void taken_and_closed(void **state)
{
	remote_pair();
	take_silently(0);
	mapped_begin(&lib[0]);
	tell(0, "the last");
	atomic_store(&lib[0].map->owner, IW_MAP_AGENT);
	close_app(0);
	run_rounds(10);
	assert_int_equal(ngone, 0);
	assert_int_equal(stream_mapped(app[0].st), 0);
	expect(1, "the last");
	expect_end(&app[1], 0);
	close_app(1);
	all_gone();
}

static bool acknowledged(void *arg)
{
	const struct iw_page_end *e = &app[1].page->end[0];

	return atomic_load(&e->tx_taken) == *(uint64_t *)arg && atomic_load(&e->tx_acked) == *(uint64_t *)arg;
}

/* What was read is acknowledged on an idle stream, whoever has read it. */
static void read_and_idle(void **state)
{
	remote_pair();
	map(0);
	tell(1, "one");
	expect(0, "one");
	unmap(0);
	run_until(acknowledged, &(uint64_t){ 3 });
	tell(1, "two");
	expect(0, "two");
	granted(0);
	receive(0);
	assert_true(stream_map_cancel(app[0].st));
	run_until(acknowledged, &(uint64_t){ 6 });
}

/* ---- ends ---- */

/* Its T stays open. */
static void closed_while_mapped(void **state)
{
	remote_pair();
	map(0);
	tell(0, "the last");
	atomic_store(&lib[0].map->owner, IW_MAP_AGENT);
	close_app(0);
	expect(1, "the last");
	expect_end(&app[1], 0);
	close_app(1);
	all_gone();
}

static bool has_unread(void *arg)
{
	struct mapped *m = arg;

	mapped_step(m);
	return iw_end_unread(&m->end) > 0;
}

static void closed_with_octets_unread(void **state)
{
	char b[64];

	remote_pair();
	map(0);
	tell(1, "nobody reads this");
	run_until(has_unread, &lib[0]);
	die(0);
	assert_int_equal(next(1, b), -ECONNRESET);
	close_app(1);
	all_gone();
}

static void the_peer_closes(void **state)
{
	remote_pair();
	map(0);
	tell(1, "the last");
	close_app(1);
	expect(0, "the last");
	expect(0, "");
	iw_end_fin(&lib[0].end);
	mapped_step(&lib[0]);
	unmap(0);
	expect_end(&app[0], 0);
	close_app(0);
	all_gone();
}

/* The FIN was seen by the library, and the rest happens by the carrier. */
static void half_closed_by_the_peer(void **state)
{
	remote_pair();
	map(0);
	shutdown(app[1].fd, SHUT_WR);
	expect(0, "");
	unmap(0);
	expect_end(&app[0], 0);
	tell(0, "more");
	expect(1, "more");
	close_app(0);
	expect_end(&app[1], 0);
	close_app(1);
	all_gone();
}

static void half_closed_by_the_library(void **state)
{
	remote_pair();
	map(0);
	tell(0, "the last");
	iw_end_fin(&lib[0].end);
	mapped_step(&lib[0]);
	shutdown(app[0].fd, SHUT_WR);
	unmap(0);
	expect(1, "the last");
	expect_end(&app[1], 0);
	tell(1, "more");
	expect(0, "more");
	close_app(1);
	expect_end(&app[0], 0);
	close_app(0);
	all_gone();
}

/* Both FINs, and the agent closes the connection. */
static void done_while_mapped(void **state)
{
	remote_pair();
	map(0);
	map(1);
	for (int i = 0; i < 2; i++) {
		iw_end_fin(&lib[i].end);
		mapped_step(&lib[i]);
	}
	expect(0, "");
	expect(1, "");
	for (int n = 0; n < 4; n++)
		mapped_step(&lib[n & 1]);
	assert_true(iw_end_state(&lib[0].end) & IW_END_DONE);
	for (int i = 0; i < 2; i++)
		atomic_store(&lib[i].map->owner, IW_MAP_AGENT);
	close_app(0);
	close_app(1);
	all_gone();
}

static void reset_by_the_library(void **state)
{
	char b[64];

	remote_pair();
	map(0);
	iw_end_abort(&lib[0].end, ECONNRESET);
	iw_end_pump(&lib[0].end);
	unmap(0);
	assert_int_equal(next(1, b), -ECONNRESET);
	close_app(0);
	close_app(1);
	all_gone();
}

static void reset_by_the_peer(void **state)
{
	char b[64];

	remote_pair();
	map(0);
	assert_int_equal(stream_close(app[1].g.stream_id), 0);
	assert_int_equal(next(0, b), -ECONNRESET);
	unmap(0);
	expect_end(&app[0], -ECONNRESET);
	close_app(0);
	close_app(1);
	all_gone();
}

/* By the administrator: the library learns it by T. */
static void ended_from_outside(void **state)
{
	char b[64];

	remote_pair();
	map(0);
	both_ways();
	assert_int_equal(stream_close(app[0].g.stream_id), 0);
	assert_int_equal(next(0, b), -ECONNRESET);
	mapped_drop(&lib[0]);
	expect_end(&app[0], -ECONNABORTED);
	expect_end(&app[1], -ECONNRESET);
	close_app(0);
	close_app(1);
	all_gone();
}

static void not_ended_while_offered(void **state)
{
	remote_pair();
	granted(0);
	assert_int_equal(stream_close(app[0].g.stream_id), -EBUSY);
	receive(0);
	assert_true(stream_map_cancel(app[0].st));
	mapped_drop(&lib[0]);
	assert_int_equal(stream_close(app[0].g.stream_id), 0);
	expect_end(&app[1], -ECONNRESET);
	close_app(0);
	close_app(1);
	all_gone();
}

static void the_daemon_leaves(void **state)
{
	char b[64];

	remote_pair();
	map(0);
	both_ways();
	streams_leave();
	assert_int_equal(next(0, b), -ECONNRESET);
	die(0);
	close_app(1);
	all_gone();
}

/* ---- its owner dies, or seems to ---- */

/* Sends n octets of what is framed, and does not come to note it. */
static void sent_unnoted(int i, size_t n)
{
	size_t len;
	const uint8_t *out;

	mapped_step(&lib[i]);
	assert_int_equal(iw_end_put(&lib[i].end, &(struct iovec){ (void *)"the last", 8 }, 1, 0, 8), 8);
	out = iw_end_out(&lib[i].end, &len);
	assert_true(n <= len);
	assert_int_equal(send(lib[i].tcp, out, n, MSG_DONTWAIT | MSG_NOSIGNAL), n);
}

static void dead(void **state)
{
	remote_pair();
	map(0);
	tell(0, "the last");
	die(0);
	expect(1, "the last");
	expect_end(&app[1], 0);
	close_app(1);
	all_gone();
}

static void dead_before_it_noted_what_it_sent(void **state)
{
	for (size_t n = 0; n < 36; n += 7) {
		eventfd_t x;

		remote_pair();
		map(0);
		sent_unnoted(0, n);
		die(0);
		expect(1, "the last");
		expect_end(&app[1], 0);
		close_app(1);
		all_gone();
		eventfd_read(life[0], &x);
		next_pair();
	}
}

/* An ACK, with nothing of the stream. */
static void dead_before_it_noted_what_it_received(void **state)
{
	size_t room;
	uint8_t *in;

	remote_pair();
	map(0);
	tell(0, "the last");
	expect(1, "the last");
	run_until(readable, &lib[0].tcp);
	in = iw_end_in(&lib[0].end, &room);
	assert_true(recv(lib[0].tcp, in, room, MSG_DONTWAIT) > 0);
	die(0);
	expect_end(&app[1], 0);
	close_app(1);
	all_gone();
}

/* As TCP. */
static void dead_with_octets_received_and_not_noted(void **state)
{
	size_t room;
	uint8_t *in;
	char b[64];

	remote_pair();
	map(0);
	tell(1, "nobody reads this");
	run_until(readable, &lib[0].tcp);
	in = iw_end_in(&lib[0].end, &room);
	assert_true(recv(lib[0].tcp, in, room, MSG_DONTWAIT) > 0);
	die(0);
	assert_int_equal(next(1, b), -ECONNRESET);
	close_app(1);
	all_gone();
}

static void dead_in_a_change(void **state)
{
	char b[64];

	remote_pair();
	map(0);
	both_ways();
	atomic_store(&lib[0].map->changing, 1);
	die(0);
	assert_int_equal(next(1, b), -ECONNRESET);
	close_app(1);
	all_gone();
}

/* Counts that cannot be: somebody else has the connection, or wrote them. */
static void dead_with_other_counts(void **state)
{
	char b[64];

	for (int k = 0; k < 4; k++) {
		eventfd_t x;

		remote_pair();
		map(0);
		both_ways();
		if (k < 2)
			lib[0].map->tcp_sent += k ? 1 : -(uint64_t)1;
		else
			lib[0].map->tcp_read += k & 1 ? 1 : -(uint64_t)(1 << 20);
		die(0);
		assert_int_equal(next(1, b), -ECONNRESET);
		close_app(1);
		all_gone();
		eventfd_read(life[0], &x);
		next_pair();
	}
}

/* A hang-up of the carrier is no death, nor is UNMAP of somebody who goes on. */
static void hung_up_and_alive(void **state)
{
	remote_pair();
	map(0);
	assert_int_equal(stream_unmap(app[0].st), -EBUSY);
	close_app(0);
	run_rounds(10);
	assert_int_equal(atomic_load(&app[0].page->want), IW_WANT_UNMAP);
	both_ways();
	tell(0, "the last");
	expect(1, "the last");
	unmap(0);
	expect_end(&app[1], 0);
	close_app(1);
	all_gone();
}

static void hung_up_and_ended(void **state)
{
	remote_pair();
	map(0);
	close_app(0);
	run_rounds(10);
	assert_int_equal(stream_close(app[0].g.stream_id), 0);
	expect_end(&app[1], -ECONNRESET);
	mapped_drop(&lib[0]);
	close_app(1);
	all_gone();
}

/* ---- whoever scribbles over it harms himself ---- */

static void scribbled(unsigned int seed)
{
	uint8_t *p;
	char b[64];

	remote_pair();
	map(0);
	tell(0, "good");
	expect(1, "good");
	p = (uint8_t *)lib[0].end.f;
	for (size_t k = 0; k < sizeof(struct iw_remote); k++)
		p[k] = (uint8_t)rand_r(&seed);
	p = (uint8_t *)&lib[0].end.s->qp;
	for (size_t k = 0; k < sizeof(struct iw_qp); k++)
		p[k] = (uint8_t)rand_r(&seed);
	info_of(0);
	if (seed & 1) {
		unmap(0);
		close_app(0);
	} else {
		die(0);
	}
	assert_int_equal(next(1, b), -ECONNRESET);
	close_app(1);
	all_gone();
}

/* An end whose application is gone waits for the other one a second, or some. */
static void impatient(void)
{
	const int s = 1;

	for (int i = 0; i < 2; i++)
		assert_int_equal(setsockopt(app[i].st->end[0].tcp, IPPROTO_TCP, TCP_LINGER2, &s, sizeof(s)), 0);
}

/* What is wrong may look sound, and leave either end waiting for the other: not for ever, once both applications are gone. */
static void a_map_that_says_less(void **state)
{
	for (unsigned int n = 0; n < 4; n++) {
		struct iw_soft *soft;
		struct iw_rs *rs;

		remote_pair();
		impatient();
		map(0);
		both_ways();
		rs = &lib[0].end.f->rs;
		soft = lib[0].end.s;
		if (n == 0)
			rs->credits = 0;
		else if (n == 1)
			rs->unreturned = 0;
		else if (n == 2)	/* of an FPDU, which the peer has not begun */
			memcpy(soft->rx, (uint8_t[2]){ 0xff, 0 }, 2);
		if (n == 2)
			soft->rx_off = 0, soft->rx_len = 2;
		if (n == 3)
			rs->ring_acked = rs->ring_sent - rs->peer_len;
		unmap(0);
		close_app(n & 1);
		close_app(!(n & 1));
		all_gone();
		next_pair();
	}
}

static bool left_alone(void *arg)
{
	return !app[0].st;
}

static bool later(void *arg)
{
	return engine_clock_us() >= *(uint64_t *)arg;
}

static bool sent_all(void *arg)
{
	struct flow *f = arg;

	flow_out(f, 0);
	return f->out[0] == f->total;
}

static bool received_all(void *arg)
{
	struct flow *f = arg;

	flow_in(f, 1);
	return f->wrong || f->in[1] == f->total;
}

/* The application that sent is gone, and the other one reads when it likes: all, and the end. */
static void a_late_reader(void **state)
{
	struct flow f = { .total = 600000 };
	uint64_t then;

	remote_pair();
	impatient();
	run_until(sent_all, &f);
	close_app(0);
	then = engine_clock_us() + 6000000;
	run_until(later, &then);
	assert_non_null(app[0].st);
	run_until(received_all, &f);
	assert_false(f.wrong);
	expect_end(&app[1], 0);
	run_until(left_alone, NULL);	/* and then nobody waits for it */
	close_app(1);
	all_gone();
}

/* What warnings there are while it runs. */
static void logged(void (*run)(void), char text[4096])
{
	int log = memfd_create("log", MFD_CLOEXEC), was = dup(2);
	ssize_t n;

	dup2(log, 2);
	log_init(LOG_WARNING, 1);
	run();
	log_init(0, 1);
	dup2(was, 2);
	n = pread(log, text, 4095, 0);
	text[n > 0 ? n : 0] = '\0';
	close(log);
	close(was);
}

static void unmap_first(void)
{
	unmap(0);
}

static void an_unsound_map_is_logged(void **state)
{
	char text[4096];

	remote_pair();
	map(0);
	both_ways();
	lib[0].end.f->rs.rx_cons += 1 << 30;
	logged(unmap_first, text);
	assert_non_null(strstr(text, "left its queue pair unsound: reset"));
	expect_end(&app[0], -ECONNRESET);
	expect_end(&app[1], -ECONNRESET);
	close_app(0);
	close_app(1);
	all_gone();
}

static void die_behind_a_reset(void)
{
	die(0);
	all_gone();
}

/* One whose other end had reset the connection, which it had seen or not, has left nothing wrong. */
static void dead_behind_a_reset(void **state)
{
	char text[4096], b[64];

	for (int seen = 0; seen < 2; seen++) {
		eventfd_t n;

		remote_pair();
		map(0);
		assert_int_equal(stream_close(app[1].g.stream_id), 0);
		if (seen)
			assert_int_equal(next(0, b), -ECONNRESET);
		close_app(1);
		logged(die_behind_a_reset, text);
		assert_string_equal(text, "");
		if (!seen) {
			eventfd_read(life[0], &n);
			next_pair();
		}
	}
}

static void a_scribbled_map(void **state)
{
	for (unsigned int seed = 1; seed < 9; seed++) {
		eventfd_t n;

		scribbled(seed);
		if (!(seed & 1))
			eventfd_read(life[0], &n);
		next_pair();
	}
}

/* Whatever is in a map, the daemon lives: some fields at a time, of a stream in use. */
static void a_map_with_some_wrong(void **state)
{
	unsigned int seed = (unsigned int)time(NULL), unsound = 0;

	print_message("# seed %u\n", seed);
	for (int n = 0; n < 100; n++) {
		uint8_t *p;
		size_t len;

		remote_pair();
		map(0);
		tell(1, "unread");
		tell(0, "sent");
		run_rounds(2);
		mapped_step(&lib[0]);
		p = n & 1 ? (uint8_t *)&lib[0].end.f->rs : (uint8_t *)&lib[0].end.s->qp.version;
		len = n & 1 ? sizeof(struct iw_rs) : offsetof(struct iw_soft, few) - offsetof(struct iw_soft, qp.version);
		for (int k = 0; k < 1 + n % 7; k++)
			p[(unsigned int)rand_r(&seed) % len] ^= (uint8_t)(1u << rand_r(&seed) % 8);
		unmap(0);
		run_rounds(3);
		unsound += !app[0].st;
		next_pair();
	}
	print_message("# unsound %u of 100\n", unsound);
}

/* ---- the owner is a process of its own ---- */

struct owner {			/* shared with it */
	_Atomic uint64_t accepted;	/* octets of calls that have returned */
};

static _Noreturn void owner_works(struct owner *o, unsigned int seed)
{
	static uint8_t b[100000];

	for (;;) {
		size_t n = 1 + (size_t)rand_r(&seed) % (1u << rand_r(&seed) % 17);
		struct pollfd p = { .fd = lib[0].tcp, .events = POLLIN };
		uint64_t at = atomic_load(&o->accepted);
		ssize_t out, in;

		for (size_t k = 0; k < n; k++)
			b[k] = octet_at(at + k, 0);
		out = mapped_send(&lib[0], b, n);
		if (out > 0)
			atomic_store(&o->accepted, at + (uint64_t)out);
		in = mapped_recv(&lib[0], b, sizeof(b));
		if (out <= 0 && in <= 0)
			poll(&p, 1, 1);
	}
}

static _Noreturn void owner_is_hostile(unsigned int seed)
{
	struct iw_soft *soft = lib[0].end.s;
	const struct { void *at; size_t len; } part[] = {
		{ lib[0].map, sizeof(struct iw_map) }, { lib[0].end.f, sizeof(struct iw_remote) }, { (uint8_t *)soft + IW_SOFT_HOT, IW_SOFT_PAGE },
		{ &soft->qp, sizeof(soft->qp) }, { soft->rx, 65536 }, { soft->txbuf[0], 65536 },
	};
	unsigned int nap = 1u << rand_r(&seed) % 15;

	for (;;) {
		unsigned int k = (unsigned int)rand_r(&seed) % (sizeof(part) / sizeof(part[0]));
		uint32_t *w = (uint32_t *)part[k].at + (size_t)rand_r(&seed) % (part[k].len / 4);

		*w = rand_r(&seed) % 3 ? *w ^ 1u << rand_r(&seed) % 32 : (uint32_t)rand_r(&seed);
		if (!(rand_r(&seed) % 32))
			usleep((unsigned int)rand_r(&seed) % nap);
	}
}

/* What a process with nothing but a map has of the daemon's memory: a wild write of it must not reach more. */
static void own_only(const struct owner *o)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[512], kind[8];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %7s", &from, &to, kind) == 3 && kind[3] == 's' && from != (uintptr_t)lib[0].map && from != (uintptr_t)o)
			munmap((void *)from, to - from);
}

/* Of end 0, which has nothing but its own from here on. Beside a hostile one it is harmed at will: what a sanitizer would say of it is no finding. */
enum owner_kind { ALONE, HOSTILE, HARMED };
static pid_t owner_of(struct owner *o, unsigned int seed, enum owner_kind kind)
{
	const struct rlimit nothing = { 0, 0 };
	pid_t pid = fork();

	for (int sig = 1; !pid && sig < SIGSYS; sig++)
		signal(sig, SIG_DFL);	/* a death is a death */
	if (!pid)
		own_only(o);
	if (!pid && kind == HARMED)
		setrlimit(RLIMIT_FSIZE, &nothing);
	if (!pid && kind == HOSTILE)
		owner_is_hostile(seed);
	if (!pid)
		owner_works(o, seed);
	assert_true(pid > 0);
	return pid;
}

static void killed(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

struct hears {
	struct flow f;
	uint64_t until;
	bool any, ended;	/* any: what it hears may be anything */
	int err;
};

static bool heard(void *arg)
{
	static uint8_t b[70000];
	struct hears *h = arg;
	ssize_t n = end_recv(1, b, sizeof(b));

	h->ended = !n || (n < 0 && errno != EAGAIN);
	h->err = n < 0 ? errno : 0;
	for (ssize_t p = 0; p < n && !h->any; p++)
		assert_int_equal(b[p], octet_at(h->f.in[1] + (uint64_t)p, 0));
	h->f.in[1] += n > 0 ? (uint64_t)n : 0;
	return h->ended;
}

static bool it_is_time(void *arg)
{
	struct stream_info info;
	struct hears *h = arg;

	flow_out(&h->f, 1);
	stream_look(app[0].g.stream_id, &info);
	return h->ended || heard(h) || engine_clock_us() >= h->until;
}

/* Both directions. */
static void owner_for(struct hears *h, uint64_t us)
{
	h->until = engine_clock_us() + us;
	run_until(it_is_time, h);
}

static void next_owner(void)
{
	eventfd_t n;

	eventfd_write(life[0], 1);
	close_app(1);
	all_gone();
	eventfd_read(life[0], &n);
	next_pair();
}

static unsigned int seed_of(void)
{
	const char *s = getenv("IW_SEED");
	unsigned int seed = s ? (unsigned int)strtoul(s, NULL, 0) : (unsigned int)time(NULL);

	print_message("# IW_SEED=%u\n", seed);
	return seed;
}

/* kill -9 at any instruction: whatever a call accepted arrives, or it is a reset; it is never a false end, and nothing is left. */
static void killed_at_any_moment(void **state)
{
	struct owner *o = mmap(NULL, sizeof(*o), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned int seed = seed_of(), runs = getenv("IW_LONG") ? 10000 : 200, ends[2] = { 0 };

	for (unsigned int i = 0; i < runs; i++) {
		struct hears h = { .f.total = rand_r(&seed) % 2 ? UINT32_MAX : 0 };
		pid_t pid;

		o->accepted = 0;
		remote_pair();
		map(0);
		pid = owner_of(o, (unsigned int)rand_r(&seed), ALONE);
		mapped_drop(&lib[0]);
		close_app(0);
		owner_for(&h, (unsigned int)rand_r(&seed) % 5000);
		killed(pid);
		run_rounds(rand_r(&seed) % 3);
		eventfd_write(life[0], 1);
		run_until(heard, &h);
		assert_true(h.err ? h.err == ECONNRESET || h.err == EPIPE : h.f.in[1] >= o->accepted);
		ends[!h.err]++;
		next_owner();
	}
	print_message("# %u resets, %u ends\n", ends[0], ends[1]);
	assert_true(ends[0] && ends[1]);
	munmap(o, sizeof(*o));
}

/* One process works its map, another one writes anything into it, also while it is taken over. The daemon and the peer live, and go on with others. */
static void a_live_map_scribbled_over(void **state)
{
	struct owner *o = mmap(NULL, sizeof(*o), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t end = engine_clock_us() + (getenv("IW_LONG") ? 1800000000u : 3000000u);
	unsigned int seed = seed_of(), runs = 0, over = 0;

	while (engine_clock_us() < end) {
		struct hears h = { .f.total = UINT32_MAX, .any = true };
		pid_t works, hostile;

		o->accepted = 0;
		remote_pair();
		impatient();
		map(0);
		works = owner_of(o, (unsigned int)rand_r(&seed), HARMED);
		hostile = owner_of(o, (unsigned int)rand_r(&seed), HOSTILE);
		owner_for(&h, (unsigned int)rand_r(&seed) % 20000);
		if (rand_r(&seed) % 2) {
			atomic_store(&lib[0].map->owner, IW_MAP_AGENT);
			if (app[0].st)
				stream_unmap(app[0].st);
			owner_for(&h, 2000);
		}
		killed(works);
		close_app(0);
		eventfd_write(life[0], 1);
		run_rounds(5);
		killed(hostile);
		mapped_drop(&lib[0]);
		run_rounds(5);
		over += !app[0].st;
		runs++;
		next_owner();
	}
	print_message("# %u, of which %u were reset\n", runs, over);
	assert_true(over);
	munmap(o, sizeof(*o));
}

static bool taken_back(void *arg)
{
	return !app[0].st->map;
}

/* A burst is over after half a millisecond without anything new; but not as long as its owner has only lost the processor, it seems: docs/mapped.md 5.5. */
static void a_burst_whose_owner_does_not_run(void **state)
{
	pid_t sleeps = fork();
	uint64_t began;

	if (!sleeps) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	close(life[0]);
	life[0] = (int)syscall(SYS_pidfd_open, sleeps, 0);
	assert_true(life[0] >= 0);
	remote_pair();
	map(0);
	atomic_store(&lib[0].map->bell, 1);
	assert_true(iw_end_gather(&lib[0].end, "more to come", 12));
	began = engine_clock_us();
	stream_bell(app[0].st);
	run_until(taken_back, NULL);
	assert_true(engine_clock_us() - began >= 5000);
	expect_octets(&app[1], "more to come");
	mapped_drop(&lib[0]);
	killed(sleeps);
}

#define M(f) cmocka_unit_test_setup_teardown(f, map_setup, map_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		M(killed_at_any_moment), M(a_live_map_scribbled_over),
		M(one_end), M(the_other_end), M(both_ends), M(again_and_again), M(shown), M(counted), M(a_map_that_counts_wrong), M(a_map_that_carried_wrong), M(wanted_again), M(restless), M(bulk_mapped), M(mapped_takes_no_more), M(bulk_both_mapped),
		M(bulk_and_changes), M(bulk_and_changes_of_both), M(bulk_and_changes_in_a_small_ring), M(not_with_octets_unread),
		M(octets_written_go_first), M(octets_under_way_go_first), M(not_what_is_half_closed), M(not_a_relay), M(not_where_forbidden), M(not_beyond_the_quota),
		M(one_at_a_time), M(opened_by_another), M(abandoned), M(given_back_before_it_was_said), M(taken_though_it_was_not_said), M(closed_before_it_was_taken), M(taken_and_closed), M(read_and_idle), M(closed_while_mapped),
		M(closed_with_octets_unread), M(the_peer_closes), M(half_closed_by_the_peer), M(half_closed_by_the_library), M(done_while_mapped),
		M(reset_by_the_library), M(reset_by_the_peer), M(ended_from_outside), M(not_ended_while_offered), M(the_daemon_leaves),
		M(dead), M(dead_before_it_noted_what_it_sent), M(dead_before_it_noted_what_it_received), M(dead_with_octets_received_and_not_noted),
		M(dead_in_a_change), M(dead_with_other_counts), M(hung_up_and_alive), M(hung_up_and_ended),
		M(an_unsound_map_is_logged), M(dead_behind_a_reset), M(a_scribbled_map), M(a_map_with_some_wrong), M(a_map_that_says_less), M(a_late_reader), M(a_burst_whose_owner_does_not_run),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
