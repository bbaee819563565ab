/* SPDX-License-Identifier: MIT */
/* The table of peers: what libraries find in its page, and what it costs to list. */
#include <sys/mman.h>
#include <time.h>

#include "util.h"

#include "daemon/net/locals.h"
#include "daemon/net/peers.h"
#include "daemon/net/peers_page.h"
#include "daemon/session/session.h"
#include "daemon/stream/stream.h"

#define STREAMS	90u	/* room for them with 1024 files */
#define PEERS	900u

static const struct iw_peers *page;

static void ip4(uint8_t ip[16], uint32_t v)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	v = htonl(v);
	memcpy(ip, mapped, 12);
	memcpy(ip + 12, &v, 4);
}

/* As the library looks it up. */
static enum iw_peer_state seen(uint32_t addr)
{
	uint8_t ip[16];
	uint64_t half[2];
	uint32_t h;

	ip4(ip, addr);
	memcpy(half, ip, 16);
	h = iw_addr_hash(ip, 0);
	for (uint32_t i = 0; i < IW_PEERS_PROBE; i++) {
		const struct iw_peer_slot *s = &page->slot[(h + i) % IW_PEERS_SLOTS];

		if (s->ip[0] == half[0] && s->ip[1] == half[1])
			return s->state;
	}
	return IW_PEER_UNKNOWN;
}

static struct peer *positive(uint32_t addr)
{
	struct peer *p;
	uint8_t ip[16];

	ip4(ip, addr);
	p = peer_get(ip, 0);
	assert_non_null(p);
	peer_set(p, IW_PEER_POSITIVE, 0, 0);
	return p;
}

/* Any program may ask about any address of 127.0.0.0/8: that leaves no room taken from other hosts. */
static void loopback_takes_no_room(void **state)
{
	uint8_t ip[16];

	for (uint32_t i = 1; i < 1u << 16; i++) {
		ip4(ip, 0x7f010000u + i);
		assert_true(addr_is_local(ip));
	}
	for (uint32_t i = 1; i <= 100; i++)
		positive(0xcb007100u + i);
	for (uint32_t i = 1; i <= 100; i++)
		assert_int_equal(seen(0xcb007100u + i), IW_PEER_POSITIVE);
	/* and one that is used is there */
	ip4(ip, 0x7f000777u);
	assert_true(addr_is_local(ip));
	assert_int_equal(seen(0x7f000777u), IW_PEER_LOCAL);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static unsigned int nstreams, npeers;

static void see_stream(void *arg, const struct stream_info *i)
{
	nstreams++;
}

static void see_peer(void *arg, const struct peer_info *i)
{
	npeers++;
	nstreams += i->streams;
}

static uint64_t list_streams(void)
{
	uint64_t t = now_ns();

	nstreams = 0;
	stream_foreach(see_stream, NULL);
	t = now_ns() - t;
	assert_int_equal(nstreams, STREAMS);
	return t;
}

static uint64_t list_peers(void)
{
	uint64_t t = now_ns();

	nstreams = npeers = 0;
	peers_foreach(see_peer, NULL);
	t = now_ns() - t;
	assert_int_equal(nstreams, STREAMS);
	assert_int_equal(npeers, PEERS);
	return t;
}

static bool none(void *arg)
{
	return !stream_count();
}

/* Anybody may ask for the list as often as he likes: it takes one walk over the streams, not one for each peer. */
static void listing_is_linear(void **state)
{
	const struct stream_owner owner = { .pid = 1, .uid = 1000, .fd = 3, .program = "test" };
	uint64_t streams = UINT64_MAX, peers = UINT64_MAX;
	struct stream *st[STREAMS];
	struct stream_grant g;
	struct iw_tuple t = { 0 };

	files_like_daemon();
	for (uint32_t i = 0; i < PEERS; i++)
		positive(0x0a000000u + i);
	for (uint32_t i = 0; i < STREAMS; i++) {
		ip4(t.peer.ip, 0x0a000000u + i % 7);
		assert_int_equal(stream_grant(socket(AF_INET, SOCK_STREAM, 0), &t, &owner, true, 0, &g, &st[i]), 0);
		close(g.carrier);
		close(g.segment);
	}
	for (int i = 0; i < 20; i++) {
		uint64_t a = list_streams(), b = list_peers();

		streams = a < streams ? a : streams;
		peers = b < peers ? b : peers;
	}
	for (uint32_t i = 0; i < STREAMS; i++)
		stream_abandon(st[i]);
	run_until(none, NULL);
	assert_in_range(peers, 0, streams * 100);
}

static int group_setup(void **state)
{
	conf_default(&conf);
	log_init(0, 1);
	if (engine_init() || peers_start())
		return -1;
	page = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, peers_fd(), 0);
	return page == MAP_FAILED ? -1 : 0;
}

static int group_teardown(void **state)
{
	peers_stop();
	engine_fini();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(loopback_takes_no_room), cmocka_unit_test(listing_is_linear) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
