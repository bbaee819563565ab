/* SPDX-License-Identifier: MIT */
/* The upgrade of the wire (docs/upgrade.md 3): two daemons, their sessions, what goes wrong with them, and applications that write what looks like MPA. */
#include "stream_util.h"

#include "proto/mpa.h"
#include "proto/rs.h"
#include "daemon/stream/relay.h"
#include "daemon/stream/remote.h"
#include "daemon/stream/stream_priv.h"

#include <netinet/tcp.h>

static bool gone(void *arg)
{
	return ngone;
}

static bool holding(void *arg)
{
	return said_last.nonce;
}

static struct stream_info info_of(int i)
{
	struct stream_info info = { 0 };

	assert_true(stream_look(app[i].g.stream_id, &info));
	return info;
}

static bool failed_as(void *arg)
{
	struct stream_info i = info_of(0);

	return i.failed && !strcmp(i.failed, arg);
}

static void both_relayed(void)
{
	relayed(0);
	relayed(1);
	for (int i = 0; i < 2; i++)
		stream_upgrade(app[i].st);
	run_rounds(2);
}

static void both_ways(void)
{
	say(app[0].fd, "there");
	expect_octets(&app[1], "there");
	say(app[1].fd, "and back");
	expect_octets(&app[0], "and back");
}

/* The settings are read again while it is relayed: its rings are as long as its segment has room for. */
static void other_ring_size(void **state)
{
	enum { N = 6 << 20 };
	struct job w = { .a = &app[0], .out = N, .seed_out = 5 }, r = { .a = &app[1], .in = N, .seed_in = 5 };

	relayed(0);
	conf.ring_size = 8 << 20;
	relayed(1);
	conf.ring_size = 64 << 10;
	upgrade_both();
	assert_int_equal(app[0].st->remote->f->p.tx_len, 1 << 20);
	assert_int_equal(app[0].st->remote->f->p.rx_len, 1 << 20);
	assert_int_equal(app[1].st->remote->f->p.rx_len, 8 << 20);
	start(&w, job_write);
	start(&r, job_read);
	finish(&w);
	finish(&r);
	assert_int_equal(r.err, 0);
	assert_int_equal(r.got, N);
	both_ways();
}

/* ---- who begins ---- */

static void shown(void **state)
{
	struct stream_info i;

	upgrade_least_ms = 10000;	/* the first attempt, on a busy machine, too */
	say(tcp[0], "before");
	expect_text(tcp[1], "before");
	remote_pair();
	i = info_of(0);
	assert_int_equal(i.attempts, 1);
	assert_null(i.failed);
	assert_int_equal(i.upgraded_tx, 6);
	assert_int_equal(i.upgraded_rx, 0);
	assert_true(i.upgraded_ms >= i.since_ms && i.since_ms);
	i = info_of(1);
	assert_int_equal(i.upgraded_tx, 0);
	assert_int_equal(i.upgraded_rx, 6);
	both_ways();
}

static bool has_come(void *arg)
{
	return info_of(0).rx_bytes > 0;
}

/* Who has nothing to send does not begin; the other end does. */
static void only_the_server_sends(void **state)
{
	enum { N = 4 << 20 };
	struct job w = { .a = &app[1], .out = N, .seed_out = 5 }, r = { .a = &app[0], .in = N, .seed_in = 5 };

	relayed(0);
	relayed(1);
	start(&w, job_write);
	start(&r, job_read);
	run_until(has_come, NULL);
	for (int i = 0; i < 2; i++)
		stream_upgrade(app[i].st);
	finish(&w);
	finish(&r);
	assert_int_equal(r.err, 0);
	for (uint64_t end = engine_now_ms() + 20000; !running(NULL) && engine_now_ms() < end;) {
		say(app[1].fd, "x");
		expect_octets(&app[0], "x");
		run_rounds(3);
	}
	assert_true(running(NULL));
	assert_true(info_of(0).upgraded_rx > 0);
	assert_int_equal(info_of(0).upgraded_tx, 0);
	both_ways();
}

/* A reader that always has so much unread that the first attempts do not wait for it. */
static void slow_reader(void **state)
{
	enum { UNREAD = 1 << 20, PIECE = 8 << 10, LIMIT_MS = 20000 };
	static uint8_t b[PIECE];
	uint64_t in = 0, out = 0, began = engine_now_ms(), reads = 0, last = began, longest = 0;

	relayed(0);
	relayed(1);
	do {
		uint64_t now;
		ssize_t n;

		while (out - in < UNREAD && (n = send(app[0].fd, b, sizeof(b), MSG_DONTWAIT)) > 0)
			out += (uint64_t)n;
		for (int i = 0; out >= UNREAD && i < 2; i++)
			stream_upgrade(app[i].st);
		if (!reads && out >= UNREAD)
			reads = engine_now_ms();
		run_rounds(3);
		while (reads && in < (engine_now_ms() - reads) * PIECE && (n = recv(app[1].fd, b, sizeof(b), MSG_DONTWAIT)) > 0)
			in += (uint64_t)n;
		now = engine_now_ms();
		longest = now - last > longest ? now - last : longest;
		last = now;
	} while (!running(NULL) && last - began < LIMIT_MS);
	assert_true(running(NULL));
	if (longest < 50)	/* a machine that stands still lets it catch up in one go */
		assert_true(info_of(0).attempts > 1);
	while (in < out) {
		ssize_t n = recv(app[1].fd, b, sizeof(b), MSG_DONTWAIT);

		in += n > 0 ? (uint64_t)n : 0;
		run_rounds(3);
	}
	both_ways();
}

/* Both at once: the end that connected goes on, the other answers it. */
static void both_begin(void **state)
{
	say_delay = NULL;
	upgrade_least_ms = 10000;
	both_relayed();
	run_rounds(40);		/* the server may begin, too */
	say(app[0].fd, "from the client");
	say(app[1].fd, "from the server");
	run_until(running, NULL);
	expect_octets(&app[1], "from the client");
	expect_octets(&app[0], "from the server");
	assert_int_equal(info_of(0).attempts, 1);
}

/* An octet that begins MPA's keys is no octet to begin with. */
static void not_with_a_key(void **state)
{
	both_relayed();
	for (int i = 0; i < 5; i++) {
		say(app[0].fd, "MPA ID Req Frame");
		expect_octets(&app[1], "MPA ID Req Frame");
	}
	assert_int_equal(info_of(0).attempts, 0);
	say(app[0].fd, "!");
	run_until(running, NULL);
	expect_octets(&app[1], "!");
	both_ways();
}

static void not_of_half_a_connection(void **state)
{
	relayed(0);
	relayed(1);
	shutdown(app[1].fd, SHUT_WR);
	expect_end(&app[0], 0);
	for (int i = 0; i < 2; i++)
		stream_upgrade(app[i].st);
	for (int i = 0; i < 5; i++) {
		say(app[0].fd, "x");
		expect_octets(&app[1], "x");
	}
	assert_int_equal(stream_state(app[0].st), STREAM_RELAY);
	assert_string_equal(info_of(0).failed, "one direction has ended");
}

static bool not_a_relay(void *arg)
{
	return app[0].st && stream_state(app[0].st) != STREAM_RELAY;
}

/* Counts that are not TCP's: somebody else has written to T. */
static void not_when_others_write(void **state)
{
	relayed(0);
	relayed(1);
	say(app[0].st->end[0].tcp, "stray");
	expect_octets(&app[1], "stray");
	for (int i = 0; i < 2; i++)
		stream_upgrade(app[i].st);
	for (int i = 0; i < 5; i++) {
		run_rounds(10);
		say(app[0].fd, "x");
		expect_octets(&app[1], "x");
	}
	assert_false(not_a_relay(NULL));
	assert_string_equal(info_of(0).failed, "octets were sent or read by somebody else");
}

/* ---- sessions ---- */

static int lost(const struct said *s)
{
	return -1;
}

/* No answer costs the pause, and nothing else; the next attempt succeeds. */
static void session_is_silent(void **state)
{
	both_relayed();
	say_delay = lost;
	say(app[0].fd, "one");
	expect_octets(&app[1], "one");
	run_until(failed_as, "the other daemon did not answer in time");
	say_delay = NULL;
	for (uint64_t end = engine_now_ms() + 20000; !running(NULL) && engine_now_ms() < end;) {
		say(app[0].fd, "x");
		expect_octets(&app[1], "x");
	}
	assert_true(running(NULL));
	assert_true(info_of(0).attempts > 1);
	both_ways();
}

static int answers_are_late(const struct said *s)
{
	return s->answer ? 500 : 0;	/* an attempt takes 128 ms at most, and what TCP takes */
}

/* The answer to an attempt that was given up begins no other one. */
static void late_answer(void **state)
{
	both_relayed();
	say_delay = answers_are_late;
	for (uint64_t end = engine_now_ms() + 1500; engine_now_ms() < end;) {
		say(app[0].fd, "x");
		expect_octets(&app[1], "x");
		say(app[1].fd, "y");
		expect_octets(&app[0], "y");
	}
	assert_int_equal(stream_state(app[0].st), STREAM_RELAY);
	assert_int_equal(stream_state(app[1].st), STREAM_RELAY);
	assert_true(info_of(0).attempts > 1);
}

static int refuse_all(const struct said *s)
{
	((struct said *)s)->yes = false;
	return 0;
}

static void refused(void **state)
{
	both_relayed();
	say_delay = refuse_all;
	say(app[0].fd, "one");
	expect_octets(&app[1], "one");
	run_until(failed_as, "the other daemon would not");
	both_ways();
}

static int crc_lies(const struct said *s)
{
	((struct said *)s)->crc ^= s->answer;
	return 0;
}

static int hold_crc_lies(const struct said *s)
{
	((struct said *)s)->crc ^= !s->answer;
	return 0;
}

static void wrong_crc(int (*lies)(const struct said *s), const char *why)
{
	relayed(0);
	relayed(1);
	both_ways();		/* there is something to compare */
	for (int i = 0; i < 2; i++)
		stream_upgrade(app[i].st);
	run_rounds(2);
	say_delay = lies;
	say(app[0].fd, "one");
	expect_octets(&app[1], "one");
	run_until(failed_as, (void *)(uintptr_t)why);
	for (int i = 0; i < 30; i++)
		both_ways();
	assert_false(not_a_relay(NULL));
}

static void crc_of_the_answer(void **state)
{
	wrong_crc(crc_lies, "the octets before differ");
}

static void crc_of_the_hold(void **state)
{
	wrong_crc(hold_crc_lies, "the other daemon would not");
}

/* ---- each message, at either end ---- */

enum message { HOLD, HELD, NO };

static struct trouble {
	enum message with;	/* the first of these */
	int late, again;	/* ms, -1: it is lost; not said twice */
	bool breaks;		/* the session, there */
	bool met, refused;
} trouble;

static int troubled(const struct said *s)
{
	enum message is = s->answer ? s->yes ? HELD : NO : HOLD;

	if (trouble.breaks && trouble.met)
		return -1;
	if (trouble.with == NO && is == HOLD && !trouble.refused) {
		trouble.refused = true;
		((struct said *)s)->pos = 0;	/* passed long ago */
	}
	if (trouble.met || is != trouble.with)
		return 0;
	trouble.met = true;
	say_again = trouble.again;
	return trouble.late;
}

static void request_and_answer(int i)
{
	say(app[i].fd, "request");
	expect_octets(&app[1 - i], "request");
	say(app[1 - i].fd, "answer");
	expect_octets(&app[i], "answer");
}

/* After which both are relayed, or both are not. */
static void settled(int i)
{
	for (uint64_t end = engine_now_ms() + 20000; !running(NULL);) {
		request_and_answer(i);
		assert_true(engine_now_ms() < end);
	}
	for (int n = 0; n < 20; n++)
		request_and_answer(i);
	assert_int_equal(nupgraded, 2);
}

static bool met_or_readable(void *arg)
{
	return trouble.met || readable(arg);
}

/* The end `i` begins; the first message in question meets with the trouble. */
static void begins(int i, const struct trouble *t)
{
	relayed(0);
	relayed(1);
	for (int n = 0; n < 3; n++)
		request_and_answer(i);
	trouble = *t;
	say_delay = troubled;
	stream_upgrade(app[i].st);
	run_rounds(2);
}

static void each_message(void **state)
{
	static const struct trouble what[] = {
		{ .late = 2, .again = -1 }, { .late = 60, .again = -1 }, { .late = -1, .again = -1 }, { .late = 0, .again = 0 }, { .late = 0, .again = 2 },
		{ .late = 0, .again = 60 }, { .late = 60, .again = 0 }, { .late = -1, .again = -1, .breaks = true },
	};
	unsigned int first = 1;

	for (unsigned int n = 0; n < sizeof(what) / sizeof(what[0]) * 6; n++) {
		struct trouble t = what[n / 6];
		int i = n % 2;

		t.with = (enum message)(n / 2 % 3);
		if (!first)
			next_pair();
		first = 0;
		begins(i, &t);
		for (uint64_t end = engine_now_ms() + 20000; !trouble.met;) {
			request_and_answer(i);
			assert_true(engine_now_ms() < end);
		}
		if (t.breaks) {
			for (int k = 0; k < 100; k++)
				request_and_answer(i);
			assert_int_equal(nupgraded, 0);
			assert_int_equal(stream_state(app[0].st), STREAM_RELAY);
			assert_int_equal(stream_state(app[1].st), STREAM_RELAY);
			say_delay = NULL;
		}
		settled(i);
	}
}

static void reset_tcp(int i)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	assert_int_equal(connect(app[i].st->end[0].tcp, &none, sizeof(none)), 0);
}

/* Either end closes, half-closes or is reset while a message is on its way: what was held comes first, and an end is an end. */
static void ends_at_each_message(void **state)
{
	enum { CLOSE, SHUT, RESET, ACTIONS };
	unsigned int first = 1;

	upgrade_least_ms = 30;
	for (unsigned int n = 0; n < ACTIONS * 8; n++) {
		int i = n % 2, who = n / 2 % 2, action = (int)(n / 8);
		struct trouble t = { .with = n / 4 % 2 ? HELD : HOLD, .late = 15, .again = -1 };
		struct app *a = &app[who], *b = &app[1 - who];

		if (!first)
			next_pair();
		first = 0;
		begins(i, &t);
		for (;;) {
			say(app[i].fd, "held");
			run_until(met_or_readable, &app[1 - i].fd);
			if (trouble.met)
				break;
			expect_octets(&app[1 - i], "held");
		}
		if (action == RESET) {
			reset_tcp(who);
			expect_end(a, -ECONNRESET);
			expect_end(b, -ECONNRESET);
			continue;
		}
		if (action == CLOSE)
			close_app(who);
		else
			shutdown(a->fd, SHUT_WR);
		if (who == i) {
			expect_octets(b, "held");
			expect_end(b, 0);
			continue;
		}
		if (action == SHUT) {
			expect_end(b, 0);
			expect_octets(a, "held");
		} else {	/* what was held is for nobody: a reset behind the end */
			int how = next_octets(b, &t, 1);

			assert_true(!how || how == -EPIPE);
		}
	}
}

/* ---- a peer that is this test ---- */

static bool answered(void *arg)
{
	return said_last.answer;
}

static void hold(uint64_t nonce, uint64_t pos)
{
	memset(&said_last, 0, sizeof(said_last));
	stream_their_hold(app[1].st, nonce, pos, 0);
}

/* The server is relayed and has said HELD; tcp[0] is the test's. */
static void given(uint64_t pos)
{
	relayed(1);
	hold(7, pos);
	run_until(answered, NULL);
	assert_true(said_last.yes);
	assert_int_equal(said_last.pos, 0);
}

static size_t request(uint8_t out[IW_MPA_FRAME_MAX], uint64_t nonce)
{
	struct iw_mpa_frame f = { .rev = 2, .crc = 1, .enhanced = 1, .p2p = 1, .rtr_write = 1, .ird = 4, .ord = 4, .pd_len = IW_RS_PD_LEN };
	struct iw_rs_pd pd = {
		.ver_lo = 1, .ver_hi = 1, .caps = IW_RS_CAP_IMM, .ring_stag = 1, .ring_len = 1 << 16, .bufs = 8, .buf_size = 64, .nonce = nonce,
	};

	iw_rs_pd_encode(&pd, f.pd);
	return (size_t)iw_mpa_encode(&f, out);
}

static void positions_that_cannot_be(void **state)
{
	relayed(1);
	say(tcp[0], "abc");
	expect_octets(&app[1], "abc");
	hold(1, 2);		/* passed */
	assert_true(said_last.answer && !said_last.yes && said_last.nonce == 1);
	hold(0, 3);		/* no nonce */
	assert_true(said_last.answer && !said_last.yes);
	hold(2, UINT64_MAX);	/* for ever */
	assert_false(said_last.answer);
	hold(3, 4);		/* the same daemon begins anew */
	assert_true(said_last.answer && !said_last.yes && said_last.nonce == 2);
	say(tcp[0], "de");	/* nor does it stop there */
	run_until(answered, NULL);
	expect_octets(&app[1], "de");
	assert_true(!said_last.yes && said_last.nonce == 3);
	say(app[1].fd, "on");
	expect_text(tcp[0], "on");
}

/* Nothing goes out while it waits for what stands at the position; then it is the application's. */
static void others_go_on(void **state)
{
	upgrade_least_ms = 10000;
	say(tcp[0], "before");
	relayed(1);
	hold(7, 6);
	run_until(answered, NULL);
	expect_octets(&app[1], "before");
	say(app[1].fd, "held");
	run_rounds(20);
	assert_int_equal(recv(tcp[0], &said_last, 1, MSG_DONTWAIT), -1);
	hold(8, 6);		/* not decided yet */
	assert_true(said_last.answer && !said_last.yes);
	say(tcp[0], "data");
	expect_octets(&app[1], "data");
	expect_text(tcp[0], "held");
}

static void end_at_the_position(void **state)
{
	upgrade_least_ms = 10000;
	given(0);
	say(app[1].fd, "held");
	run_rounds(3);
	shutdown(tcp[0], SHUT_WR);
	expect_end(&app[1], 0);
	expect_text(tcp[0], "held");
}

/* It does not wait for ever, but an octet that could be a Reply's first is no way to say so. */
static void tired(void **state)
{
	given(0);
	say(app[1].fd, "on");
	expect_text(tcp[0], "on");
	say(app[1].fd, "M");	/* at this position nothing is looked for any more */
	expect_text(tcp[0], "M");
	say(tcp[0], "yes");
	expect_octets(&app[1], "yes");
}

static bool kept_alive(void *arg)
{
	int v = 0;
	socklen_t len = sizeof(v);

	return !getsockopt(app[1].st->end[0].tcp, SOL_SOCKET, SO_KEEPALIVE, &v, &len) && v;
}

static bool program_says(void)
{
	int v = 0;
	socklen_t len = sizeof(v);

	assert_int_equal(stream_getsockopt(stream_id(app[1].st), 0, SOL_SOCKET, SO_KEEPALIVE, &v, &len), 0);
	return v;
}

static void tired_with_a_key(void **state)
{
	given(0);
	say(app[1].fd, "Mine");
	run_rounds(50);
	assert_int_equal(recv(tcp[0], &said_last, 1, MSG_DONTWAIT), -1);
	run_until(kept_alive, NULL);
	assert_false(program_says());
	say(tcp[0], "Your turn");
	expect_octets(&app[1], "Your turn");
	expect_text(tcp[0], "Mine");
	assert_false(kept_alive(NULL));
}

/* What the program has set meanwhile is what it has afterwards. */
static void tired_and_kept_alive(void **state)
{
	int one = 1;

	given(0);
	say(app[1].fd, "Mine");
	run_until(kept_alive, NULL);
	assert_false(program_says());
	assert_int_equal(stream_setsockopt(stream_id(app[1].st), 0, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)), 0);
	assert_true(program_says() && kept_alive(NULL));
	one = 0;
	assert_int_equal(stream_setsockopt(stream_id(app[1].st), 0, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)), 0);
	assert_true(!program_says() && kept_alive(NULL));
	one = 1;
	assert_int_equal(stream_setsockopt(stream_id(app[1].st), 0, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)), 0);
	say(tcp[0], "Your turn");
	expect_octets(&app[1], "Your turn");
	assert_true(program_says() && kept_alive(NULL));
}

/* What begins as a Request and is none is the application's, to the last octet, however it comes. */
static void no_request(const uint8_t *octets, size_t len, size_t step)
{
	uint8_t got[2 * IW_MPA_FRAME_MAX];
	int fd = app[1].fd;

	for (size_t n = 0; n < len; n += step) {
		assert_true(send(tcp[0], octets + n, n + step < len ? step : len - n, 0) > 0);
		run_rounds(3);
	}
	for (size_t n = 0; n < len;) {
		ssize_t k;

		run_until(readable, &fd);
		k = recv(fd, got + n, sizeof(got) - n, MSG_DONTWAIT);
		assert_true(k > 0);
		n += (size_t)k;
	}
	assert_memory_equal(got, octets, len);
	say(app[1].fd, "plain");
	expect_text(tcp[0], "plain");
	hold(9, len);		/* nor is it tried again */
	assert_true(said_last.answer && !said_last.yes);
}

static void text_like_a_request(void **state)
{
	given(0);
	no_request((const uint8_t *)"MPA ID Req frame is not one", 27, 1);
}

static void request_of_another_attempt(void **state)
{
	uint8_t r[IW_MPA_FRAME_MAX];
	size_t n = request(r, 8);

	given(0);
	no_request(r, n, 13);
}

static void half_a_request_and_the_end(void **state)
{
	uint8_t r[IW_MPA_FRAME_MAX], got[64];
	int fd;

	request(r, 7);
	given(0);
	fd = app[1].fd;
	assert_int_equal(send(tcp[0], r, 50, 0), 50);
	run_rounds(3);
	shutdown(tcp[0], SHUT_WR);
	run_until(readable, &fd);
	assert_int_equal(recv(fd, got, sizeof(got), MSG_DONTWAIT), 50);
	assert_memory_equal(got, r, 50);
	expect_end(&app[1], 0);
}

static bool is_running(void *arg)
{
	return app[1].st && stream_state(app[1].st) == STREAM_RUNNING;
}

static void request_in_pieces(void **state)
{
	uint8_t r[IW_MPA_FRAME_MAX];
	size_t n = request(r, 7);

	upgrade_least_ms = 10000;
	given(0);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(send(tcp[0], r + i, 1, 0), 1);
		run_rounds(2);
		assert_false(is_running(NULL) && i + 1 < n);
	}
	run_until(is_running, NULL);
	assert_int_equal(nupgraded, 1);
	assert_int_equal(info_of(1).upgraded_rx, 0);
}

/* What was switched on to wait for it is off again. */
static void request_after_a_while(void **state)
{
	uint8_t r[IW_MPA_FRAME_MAX];
	size_t n = request(r, 7);

	given(0);
	say(app[1].fd, "Mine");
	run_until(kept_alive, NULL);
	assert_int_equal(send(tcp[0], r, n, 0), n);
	run_until(is_running, NULL);
	assert_false(kept_alive(NULL));
}

/* It came when this end had gone on: dropped, and what is behind it is the application's. */
static void request_too_late(void **state)
{
	uint8_t r[IW_MPA_FRAME_MAX + 5];
	size_t n = request(r, 7);

	given(0);
	say(app[1].fd, "on");
	expect_text(tcp[0], "on");
	memcpy(r + n, "plain", 5);
	assert_int_equal(send(tcp[0], r, 30, 0), 30);
	run_rounds(3);
	assert_int_equal(send(tcp[0], r + 30, n + 5 - 30, 0), n + 5 - 30);
	expect_octets(&app[1], "plain");
	assert_int_equal(app[1].st->relay->down.pos, n + 5);
	hold(8, n + 5);		/* it may be tried again from there */
	run_until(answered, NULL);
	assert_true(said_last.yes);
	say(tcp[0], "x");
	expect_octets(&app[1], "x");
}

static bool is_reset(void *fd)
{
	struct pollfd p = { .fd = *(int *)fd };

	return poll(&p, 1, 0) == 1 && p.revents & POLLERR;
}

static void octets_behind_the_request(void **state)
{
	uint8_t r[IW_MPA_FRAME_MAX];
	size_t n = request(r, 7);

	given(0);
	assert_int_equal(send(tcp[0], r, n + 1, 0), n + 1);
	expect_end(&app[1], -ECONNRESET);
	run_until(is_reset, &tcp[0]);
}

/* The attempt of the client, tcp[1] is the test's. */
static void asked(void)
{
	size_t n;
	uint8_t got[IW_MPA_FRAME_MAX], r[IW_MPA_FRAME_MAX];

	upgrade_least_ms = 10000;
	relayed(0);
	stream_upgrade(app[0].st);
	run_rounds(2);
	memset(&said_last, 0, sizeof(said_last));
	say(app[0].fd, "held");
	run_until(holding, NULL);
	assert_false(said_last.answer);
	run_rounds(3);
	stream_held(app[0].st, said_last.nonce + 1, true, 0, 0);	/* another attempt's */
	run_rounds(3);
	assert_int_equal(recv(tcp[1], got, sizeof(got), MSG_DONTWAIT), -1);
	stream_held(app[0].st, said_last.nonce, true, 0, 0);
	run_until(readable, &tcp[1]);
	n = request(r, said_last.nonce);
	assert_int_equal(recv(tcp[1], got, sizeof(got), MSG_DONTWAIT), n);
	assert_memory_equal(got, "MPA ID Req Frame", 16);
}

static void no_reply(const char *octets)
{
	char got[100];
	int fd = app[0].fd;

	for (size_t n = 0; n < strlen(octets);) {
		ssize_t k;

		run_until(readable, &fd);
		k = recv(fd, got + n, sizeof(got) - n, MSG_DONTWAIT);
		assert_true(k > 0);
		n += (size_t)k;
	}
	assert_memory_equal(got, octets, strlen(octets));
	expect_text(tcp[1], "held");
}

static void data_instead_of_a_reply(void **state)
{
	asked();
	say(tcp[1], "going on");
	no_reply("going on");
}

static void end_instead_of_a_reply(void **state)
{
	asked();
	shutdown(tcp[1], SHUT_WR);
	expect_end(&app[0], 0);
	expect_text(tcp[1], "held");
}

static void text_like_a_reply(void **state)
{
	asked();
	say(tcp[1], "MPA ID R");
	run_rounds(5);
	say(tcp[1], "umours of a frame");
	no_reply("MPA ID Rumours of a frame");
}

static void reset_instead_of_a_reply(void **state)
{
	struct linger l = { .l_onoff = 1 };

	asked();
	setsockopt(tcp[1], SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	close(tcp[1]);
	tcp[1] = -1;
	expect_end(&app[0], -ECONNRESET);
}

static int backed_ret;

static void on_back(void *arg, int ret, int t)
{
	backed_ret = ret;
}

static void on_joined(void *arg, int ret, const struct stream_grant *g)
{
	backed_ret = ret;
}

/* T is not given back, nor is the end joined, while it is not decided what stands at a position. */
static void back_waits_for_the_decision(void **state)
{
	struct iw_tuple t;

	asked();
	stream_back(app[0].st, on_back, NULL);
	assert_int_equal(backed_ret, -EAGAIN);
	t = tuple_of(tcp[1]);
	stream_join(app[0].st, tcp[1], &t, &owner, 10, on_joined, NULL);
	assert_int_equal(backed_ret, -EBUSY);
	say(tcp[1], "x");
	no_reply("x");
}

/* Both ends go while it is under way. */
static void ends_meanwhile(void **state)
{
	asked();
	close_app(0);
	run_rounds(3);
	assert_int_equal(ngone, 0);	/* it waits for what stands there */
	say(tcp[1], "x");
	run_until(is_reset, &tcp[1]);	/* octets for nobody */
	run_until(gone, NULL);
}

/* ---- at random ---- */

static unsigned int seed;
static int drop_percent, delay_most;

static int at_random(const struct said *s)
{
	if ((int)((unsigned int)rand_r(&seed) % 100) < drop_percent)
		return -1;
	return delay_most ? (int)((unsigned int)rand_r(&seed) % (unsigned int)delay_most) : 0;
}

enum how { FREELY, ANSWERING, READS_LAST };

struct talker {			/* one application: a thread or two on its carrier */
	pthread_t thread[2];
	int i;
	enum how how;
	bool asks;		/* ANSWERING: it begins */
	uint32_t out, in;	/* octets; then the end */
	uint32_t chunk;
	uint32_t seed, seed_in;
	unsigned int nap_us;
	/* results */
	uint32_t sent, got;
	int err;
	bool ended, wrong;
	atomic_int left;
};

/* Much of it begins MPA's keys, or is one. */
static uint8_t tricky(uint64_t pos, uint32_t s)
{
	uint8_t c = octet_at(pos, s);

	if ((pos >> 6) % 8 == s % 8 && pos % 64 < 16)
		return (uint8_t)(s & 1 ? "MPA ID Req Frame" : "MPA ID Rep Frame")[pos % 64];
	return c < 100 ? 'M' : c;
}

static void talk_write(struct talker *t, uint32_t n)
{
	static __thread uint8_t buf[65536];
	uint32_t to = t->sent + n < t->out ? t->sent + n : t->out;

	while (t->sent < to && !t->err) {
		uint32_t len = to - t->sent < sizeof(buf) ? to - t->sent : sizeof(buf);
		ssize_t k;

		for (uint32_t i = 0; i < len; i++)
			buf[i] = tricky(t->sent + i, t->seed);
		k = send(app[t->i].fd, buf, len, MSG_NOSIGNAL);
		if (k < 0)
			t->err = errno;
		else
			t->sent += (uint32_t)k;
	}
}

/* Up to n octets; false: no more. */
static bool talk_read(struct talker *t, uint32_t n)
{
	static __thread uint8_t buf[65536];
	ssize_t k = app_recv(&app[t->i], buf, n < sizeof(buf) ? n : sizeof(buf), 0);

	if (k < 0)
		t->err = errno;
	t->ended |= !k;
	for (ssize_t i = 0; i < k; i++)
		t->wrong |= buf[i] != tricky(t->got + (uint64_t)i, t->seed_in);
	t->got += k > 0 ? (uint32_t)k : 0;
	return k > 0;
}

static void nap(struct talker *t, unsigned int *r)
{
	if (t->nap_us && rand_r(r) % 4 == 0)
		usleep((unsigned int)rand_r(r) % t->nap_us);
}

static void *talk_writer(void *arg)
{
	struct talker *t = arg;
	unsigned int r = t->seed;

	while (t->sent < t->out && !t->err) {
		talk_write(t, 1 + (uint32_t)rand_r(&r) % t->chunk);
		nap(t, &r);
	}
	shutdown(app[t->i].fd, SHUT_WR);
	t->left--;
	return NULL;
}

static void *talk_reader(void *arg)
{
	struct talker *t = arg;
	unsigned int r = t->seed + 1;

	while (talk_read(t, 1 + (uint32_t)rand_r(&r) % t->chunk))
		nap(t, &r);
	t->left--;
	return NULL;
}

static void *talk_last(void *arg)
{
	struct talker *t = arg;

	t->left++;
	talk_writer(t);
	return talk_reader(t);
}

static void *talk_answer(void *arg)
{
	struct talker *t = arg;
	unsigned int r = t->seed;
	bool more = true;

	while (more && !t->err && (t->sent < t->out || !t->asks)) {
		if (t->asks)
			talk_write(t, 1 + (uint32_t)rand_r(&r) % t->chunk);
		do
			more = talk_read(t, t->chunk);
		while (more && t->asks && t->got < t->sent);
		if (!t->asks)
			talk_write(t, t->got - t->sent);
		nap(t, &r);
	}
	shutdown(app[t->i].fd, SHUT_WR);
	while (talk_read(t, t->chunk))
		;
	t->left--;
	return NULL;
}

static void talk_start(struct talker *t)
{
	void *(*fn[2])(void *) = { t->how == ANSWERING ? talk_answer : t->how == READS_LAST ? talk_last : talk_writer,
				   t->how == FREELY ? talk_reader : NULL };

	t->left = t->how == FREELY ? 2 : 1;
	for (int i = 0; i < 2; i++)
		if (fn[i])
			assert_int_equal(pthread_create(&t->thread[i], NULL, fn[i], t), 0);
}

static bool talked(void *arg)
{
	const struct talker *t = arg;

	return !t[0].left && !t[1].left;
}

static void talk_end(struct talker *t)
{
	for (int i = 0; i < (t->how == FREELY ? 2 : 1); i++)
		pthread_join(t->thread[i], NULL);
}

static void step(unsigned int most)
{
	run_rounds(1 + (int)((unsigned int)rand_r(&seed) % most));
}

/* Nothing is lost, doubled or misread, and nothing ends before its end, unless it was cut; then it does not look like an end. */
static void talk_check(const struct talker *t, bool cut)
{
	for (int i = 0; i < 2; i++) {
		assert_false(t[i].wrong);
		assert_true(t[i].got <= t[1 - i].out);
		if (t[i].ended)
			assert_true(t[i].got == t[1 - i].out || t[1 - i].how == ANSWERING);
		if (cut)
			continue;
		assert_int_equal(t[i].err, 0);
		assert_int_equal(t[i].sent, t[i].out);
		assert_int_equal(t[i].got, t[1 - i].out);
		assert_true(t[i].ended);
	}
}

static void random_round(unsigned int round, unsigned int *up)
{
	enum how how = (enum how)(rand_r(&seed) % 3);
	uint32_t chunk = rand_r(&seed) % 2 ? 300 : 60000, out = 1 + (uint32_t)rand_r(&seed) % (200 * chunk);
	struct talker t[2] = { { .i = 0 }, { .i = 1 } };
	bool cut = rand_r(&seed) % 6 == 0;
	int first = rand_r(&seed) % 2;

	drop_percent = rand_r(&seed) % 3 ? 0 : rand_r(&seed) % 60;
	delay_most = rand_r(&seed) % 2 ? 0 : rand_r(&seed) % 12;
	say_delay = at_random;
	upgrade_least_ms = rand_r(&seed) % 2 ? 4 : 30;
	for (int i = 0; i < 2; i++) {
		t[i].how = how == READS_LAST && i ? FREELY : how;
		t[i].asks = i != (int)(round & 1);
		t[i].out = how == FREELY && rand_r(&seed) % 3 == 0 ? (uint32_t)rand_r(&seed) % 100 : out;
		t[i].chunk = chunk;
		t[i].seed = (uint32_t)rand_r(&seed);
		t[i].nap_us = rand_r(&seed) % 2 ? 0 : 1000;
	}
	for (int i = 0; i < 2; i++)
		t[i].seed_in = t[1 - i].seed;
	grant(0);
	grant(1);
	for (int i = 0; i < 2; i++) {
		if (rand_r(&seed) % 2) {
			assert_int_equal(stream_switched(app[first ^ i].st, 5), 0);
			stream_upgrade(app[first ^ i].st);
		}
	}
	for (int i = 0; i < 2; i++)
		talk_start(&t[i]);
	for (int i = 0; i < 2; i++) {
		struct stream *st;

		step(20);
		st = app[first ^ i].st;
		if (st && stream_state(st) == STREAM_GRANTED) {
			assert_int_equal(stream_switched(st, 5), 0);
			stream_upgrade(st);
		}
	}
	if (cut) {
		struct stream *st;

		step(60);
		st = app[rand_r(&seed) % 2].st;
		if (st)
			stream_close(stream_id(st));
	}
	run_until(talked, t);
	for (int i = 0; i < 2; i++)
		talk_end(&t[i]);
	talk_check(t, cut);
	*up += nupgraded == 2;
}

static void nothing_is_lost(void **state)
{
	unsigned int rounds = getenv("IW_ROUNDS") ? (unsigned int)atoi(getenv("IW_ROUNDS")) : 60, up = 0, done;

	seed = getenv("IW_SEED") ? (unsigned int)atoi(getenv("IW_SEED")) : (unsigned int)getpid();
	print_message("# IW_SEED=%u\n", seed);
	/* chance, and a machine that is busy, may let few be upgraded: then there are more rounds */
	for (done = 0; done < rounds || (up <= rounds / 10 && done < 20 * rounds); done++) {
		if (done)
			next_pair();
		random_round(done, &up);
	}
	print_message("# %u of %u were upgraded\n", up, done);
	assert_true(up > rounds / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(shown), T(other_ring_size), T(only_the_server_sends), T(slow_reader), T(both_begin), T(not_with_a_key), T(not_of_half_a_connection), T(not_when_others_write),
		T(session_is_silent), T(late_answer), T(refused), T(crc_of_the_answer), T(crc_of_the_hold), T(each_message), T(ends_at_each_message), T(positions_that_cannot_be),
		T(others_go_on), T(end_at_the_position), T(tired), T(tired_with_a_key), T(tired_and_kept_alive), T(text_like_a_request), T(request_of_another_attempt),
		T(half_a_request_and_the_end), T(request_in_pieces), T(request_after_a_while), T(request_too_late), T(octets_behind_the_request),
		T(data_instead_of_a_reply), T(end_instead_of_a_reply), T(text_like_a_reply), T(reset_instead_of_a_reply),
		T(back_waits_for_the_decision), T(ends_meanwhile), T(nothing_is_lost),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
