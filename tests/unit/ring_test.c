// SPDX-License-Identifier: MIT
/*
 * The ring of one direction of a pair (proto/ring.h): what either side finds there, whatever the other one writes; and two processes that talk
 * through it and a carrier, with pauses, one of them killed: in order, nothing lost, nobody waits for ever. IW_SEED=n repeats a talk.
 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/sockios.h>

#include <cmocka.h>

#include "proto/ring.h"

#define LEN	4096u
#define TALKS	300u

struct shared {
	struct iw_ring_dir dir;
	_Atomic uint64_t accepted;	/* octets of the producer's finished calls */
	_Atomic uint64_t ringed;	/* of these, that went through the ring */
	uint8_t mem[LEN];
};

static struct iw_ring ring_of(struct shared *s, uint64_t len)
{
	return (struct iw_ring){ .dir = &s->dir, .mem = s->mem, .len = len };
}

static size_t put(struct iw_ring *r, const void *p, size_t len)
{
	struct iovec v = { (void *)p, len };

	return iw_ring_put(r, &v, 0, len);
}

static void get(struct iw_ring *r, void *p, size_t len)
{
	struct iovec v = { p, len };

	iw_ring_peek(r, &v, 0, 0, len);
	iw_ring_consumed(r, len);
}

/* ---- one after the other ---- */

static void states(void **state)
{
	struct shared s = { 0 };
	struct iw_ring tx = ring_of(&s, 8), rx = tx;
	char got[8];

	assert_int_equal(put(&tx, "a", 1), 0);
	assert_false(iw_ring_open(&tx));
	assert_true(iw_ring_is_shut(&rx));
	iw_ring_offer(&rx);
	assert_false(iw_ring_is_shut(&rx));
	assert_int_equal(put(&tx, "a", 1), 0);		/* offered is not open */
	assert_true(iw_ring_open(&tx));
	assert_int_equal(put(&tx, "abc", 3), 3);
	assert_int_equal(iw_ring_left(&rx), 3);
	get(&rx, got, 3);
	assert_memory_equal(got, "abc", 3);
	assert_int_equal(put(&tx, "defghijkl", 9), 8);	/* across its end; full */
	assert_int_equal(put(&tx, "m", 1), 0);
	assert_true(iw_ring_takes(&tx, false));
	iw_ring_leave(&tx);
	assert_false(iw_ring_takes(&tx, false));
	get(&rx, got, 1);
	assert_int_equal(got[0], 'd');
	assert_int_equal(put(&tx, "m", 1), 0);
	assert_false(iw_ring_open(&tx));		/* not everything is read */
	assert_int_equal(iw_ring_shut(&rx), 7);
	get(&rx, got, 7);
	assert_memory_equal(got, "efghijk", 7);
	assert_int_equal(iw_ring_left(&rx), 0);
	assert_false(iw_ring_open(&tx));		/* nobody looks */
	iw_ring_offer(&rx);
	assert_int_equal(rx.pos, 0);			/* from its first page again */
	assert_true(iw_ring_open(&tx));
	assert_int_equal(iw_ring_shut(&rx), 0);
	assert_int_equal(put(&tx, "n", 1), 0);
	assert_int_equal(iw_ring_left(&rx), 0);
	memcpy(rx.mem, "opq", 3);
	iw_ring_staged(&rx, 3);
	assert_true(iw_ring_is_shut(&rx));
	assert_int_equal(iw_ring_left(&rx), 3);
	get(&rx, got, 2);
	assert_memory_equal(got, "op", 2);
	assert_int_equal(put(&tx, "r", 1), 0);
	assert_false(iw_ring_open(&tx));
	get(&rx, got, 1);
	iw_ring_offer(&rx);
	assert_true(iw_ring_open(&tx));
	assert_int_equal(put(&tx, "r", 1), 1);
	assert_int_equal(iw_ring_left(&rx), 1);
}

/* What is put behind octets in the carrier comes behind them. */
static void armed(void **state)
{
	struct shared s = { 0 };
	struct iw_ring tx = ring_of(&s, 8), rx = tx;
	uint64_t w, v;
	uint8_t *mem;
	char got[8];

	iw_ring_begin(&rx);
	w = iw_ring_word(&tx);
	assert_true(iw_ring_move(&rx, 8));
	v = iw_ring_word(&tx);
	assert_false(iw_ring_woken(&tx, w, v, true));	/* it may find something, and not be armed */
	assert_true(iw_ring_arm(&rx));
	assert_true(iw_ring_is_shut(&rx));
	v = iw_ring_word(&tx);
	assert_true(iw_ring_woken(&tx, w, v, false));
	assert_true(iw_ring_woken(&tx, v, v, true));
	assert_false(iw_ring_woken(&tx, v, v, false));
	assert_true(iw_ring_woken(&tx, v & ~(uint64_t)IW_RING_ARMED, v, true));
	assert_false(iw_ring_follow(&tx, v, 8));
	assert_int_equal(put(&tx, "c", 1), 0);
	assert_true(iw_ring_follow(&tx, v, 3));
	assert_int_equal(put(&tx, "defghi", 6), 5);
	assert_false(iw_ring_follow(&tx, v, 3));
	assert_int_equal(iw_ring_disarm(&rx, &mem), 3);
	memcpy(mem, "abc", 3);
	iw_ring_filled(&rx, 3, 3);
	assert_int_equal(iw_ring_left(&rx), 8);
	get(&rx, got, 8);
	assert_memory_equal(got, "abcdefgh", 8);
	assert_int_equal(put(&tx, "ij", 2), 2);		/* it stays open */
	assert_int_equal(iw_ring_shut(&rx), 2);
	get(&rx, got, 2);

	assert_true(iw_ring_move(&rx, 1000));		/* disarmed before it is followed */
	assert_true(iw_ring_arm(&rx));
	v = iw_ring_word(&tx);
	assert_int_equal(iw_ring_disarm(&rx, &mem), 0);
	assert_false(iw_ring_follow(&tx, v, 3));
	assert_false(iw_ring_woken(&tx, w, iw_ring_word(&tx), true));
	assert_true(iw_ring_move(&rx, 2000));		/* another time */
	assert_true(iw_ring_arm(&rx));
	assert_false(iw_ring_follow(&tx, v, 3));
	v = iw_ring_word(&tx);
	assert_true(iw_ring_follow(&tx, v, 3));
	assert_int_equal(put(&tx, "d", 1), 1);
	assert_int_equal(iw_ring_disarm(&rx, &mem), 3);
	memcpy(mem, "c", 1);				/* some was read behind its back */
	iw_ring_filled(&rx, 3, 1);
	iw_ring_shut(&rx);
	assert_int_equal(iw_ring_left(&rx), 2);
	get(&rx, got, 2);
	assert_memory_equal(got, "cd", 2);
	iw_ring_offer(&rx);
	assert_true(iw_ring_open(&tx));
}

static void vectors(void **state)
{
	struct shared s = { 0 };
	struct iw_ring tx = ring_of(&s, 8), rx = tx;
	char a[3], b[1], c[9];
	const struct iovec out[] = { { "..ab", 4 }, { NULL, 0 }, { "c", 1 }, { "defg", 4 } };
	const struct iovec in[] = { { a, 3 }, { NULL, 0 }, { b, 1 }, { c, 9 } };

	iw_ring_offer(&rx);
	assert_true(iw_ring_open(&tx));
	assert_int_equal(put(&tx, "12345", 5), 5);
	get(&rx, c, 5);
	assert_int_equal(iw_ring_put(&tx, out, 2, 7), 7);
	iw_ring_peek(&rx, in, 1, 1, 6);
	assert_memory_equal(a + 1, "bc", 2);
	assert_memory_equal(b, "d", 1);
	assert_memory_equal(c, "efg", 3);
	assert_int_equal(iw_ring_left(&rx), 7);
}

/* Any two words, any position: no octet is read or written outside, and both sides come back. */
static void hostile(void **state)
{
	const uint64_t odd[] = { 0, 1, 2, 3, 4, 7, 31, 32, 35, 36, 37, UINT64_MAX, UINT64_MAX - 3, UINT64_MAX << 2, 1ull << 63, (1ull << 63) | 3, 1ull << 62 };
	struct { uint8_t before[64]; struct shared s; uint8_t after[64]; } *m = aligned_alloc(64, sizeof(*m));
	uint8_t buf[LEN] = { 0 };

	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++)
		for (size_t j = 0; j < sizeof(odd) / sizeof(*odd); j++)
			for (size_t k = 0; k < sizeof(odd) / sizeof(*odd); k++) {
				struct iw_ring tx = ring_of(&m->s, 8), rx;
				size_t behind;
				uint8_t *mem;
				ssize_t n;

				memset(m, 0x55, sizeof(*m));
				m->s.dir.head = odd[i];
				m->s.dir.tail = odd[j];
				tx.pos = odd[k];
				rx = tx;
				n = iw_ring_left(&rx);
				assert_true(n == -EPROTO || (n >= 0 && n <= 8));
				if (n > 0)
					get(&rx, buf, (size_t)n);
				assert_true(put(&tx, buf, 20) <= 8);
				iw_ring_open(&tx);
				assert_true(put(&tx, buf, 20) <= 8);
				iw_ring_leave(&tx);
				assert_int_equal(put(&tx, buf, 20), 0);
				n = iw_ring_shut(&rx);
				assert_true(n == -EPROTO || (n >= 0 && n <= 8));
				iw_ring_offer(&rx);
				iw_ring_staged(&rx, 8);
				n = iw_ring_left(&rx);
				assert_true(n == -EPROTO || (n >= 0 && n <= 8));
				if (iw_ring_move(&rx, odd[i] / 3))
					iw_ring_arm(&rx);
				iw_ring_follow(&tx, m->s.dir.head, 3);
				assert_true(put(&tx, buf, 20) <= 8);
				m->s.dir.behind = (uint32_t)odd[j];
				m->s.dir.head |= odd[k] & 15;
				behind = iw_ring_disarm(&rx, &mem);
				assert_true(behind < 8);
				if (behind) {
					memset(mem, 1, behind / 2);
					iw_ring_filled(&rx, behind, behind / 2);
				}
				n = iw_ring_left(&rx);
				assert_true(n == -EPROTO || (n >= 0 && n <= 8));
				for (size_t b = 8; b < LEN; b++)
					assert_int_equal(m->s.mem[b], 0x55);
				for (size_t b = 0; b < 64; b++)
					assert_true(m->before[b] == 0x55 && m->after[b] == 0x55);
			}
	free(m);
}

/* ---- two processes ---- */

struct talk {
	uint64_t rng, total, most;
	struct shared *s;
	int fd;
};

static uint64_t rnd(struct talk *t, uint64_t below)
{
	t->rng ^= t->rng << 13;
	t->rng ^= t->rng >> 7;
	t->rng ^= t->rng << 17;
	return (t->rng * 0x9e3779b97f4a7c15ull >> 20) % below;
}

static uint8_t octet(uint64_t pos)
{
	return (uint8_t)(pos * 0x9e3779b97f4a7c15ull >> 56);
}

static void pause_some(struct talk *t)
{
	struct timespec ts = { 0, (long)rnd(t, 30000) };

	switch (rnd(t, 40)) {
	case 0:
		nanosleep(&ts, NULL);
		break;
	case 1:
		sched_yield();
		break;
	}
}

static bool carrier_empty(int fd)
{
	int q = 1;

	return !ioctl(fd, SIOCOUTQ, &q) && !q;
}

static void produce(struct talk *t)
{
	struct iw_ring r = ring_of(t->s, LEN);
	static uint8_t buf[1 << 16];

	for (uint64_t pos = 0; pos < t->total;) {
		uint64_t len = 1 + rnd(t, t->most), n = 0;

		if (len > t->total - pos)
			len = t->total - pos;
		for (uint64_t i = 0; i < len; i++)
			buf[i] = octet(pos + i);
		while (n < len) {
			struct iovec iov = { buf, len };
			uint64_t in = iw_ring_put(&r, &iov, n, len - n), w, v, piece;
			bool first;
			ssize_t k;

			t->s->ringed += in;
			n += in;
			pause_some(t);
			if (n == len || (in && rnd(t, 2)) || (!iw_ring_takes(&r, false) && iw_ring_takes(&r, true) && carrier_empty(t->fd) && iw_ring_open(&r)))
				continue;
			if (iw_ring_takes(&r, false) && rnd(t, 4))
				continue;	/* for room */
			iw_ring_leave(&r);
			piece = len - n < 1000 ? len - n : 1000;	/* one for the kernel, too */
			w = iw_ring_word(&r);
			first = carrier_empty(t->fd);
			pause_some(t);
			k = send(t->fd, buf + n, piece, MSG_NOSIGNAL);
			if (k < 0)
				_exit(1);
			n += (uint64_t)k;
			pause_some(t);
			v = iw_ring_word(&r);
			if (iw_ring_woken(&r, w, v, first) && !carrier_empty(t->fd)) {
				pause_some(t);
				iw_ring_follow(&r, v, (uint32_t)k);
			}
		}
		pos += len;
		t->s->accepted = pos;
	}
	_exit(0);
}

/* Of the carrier, that come before all that the ring will have. */
static size_t carrier_before(struct talk *t, const struct iw_ring *r)
{
	struct timespec ts = { 0, 100000 };
	uint64_t w;
	int q = 0;

	if (!rnd(t, 8))		/* since it was empty: it may be full by now, and the rest in the carrier */
		nanosleep(&ts, NULL);
	w = iw_ring_word(r);
	pause_some(t);
	assert_int_equal(ioctl(t->fd, FIONREAD, &q), 0);
	pause_some(t);
	return q > 0 && iw_ring_waits(r, w) && iw_ring_word(r) == w ? (size_t)q : 0;
}

/* Returns how many octets came before the end. */
static uint64_t consume(struct talk *t)
{
	struct iw_ring r = ring_of(t->s, LEN);
	static uint8_t buf[1 << 16];
	uint64_t pos = 0, arm = 0;
	bool is_armed = false, shut;

	for (;;) {
		size_t len = 1 + rnd(t, t->most), behind, before;
		uint8_t *mem;
		ssize_t n;

		behind = is_armed ? iw_ring_disarm(&r, &mem) : 0;
		is_armed = false;
		pause_some(t);
		if (behind) {
			n = recv(t->fd, mem, behind, MSG_DONTWAIT);
			assert_int_equal(n, behind);
			iw_ring_filled(&r, behind, behind);
		}
		shut = iw_ring_is_shut(&r);	/* before the look: nothing comes behind it then */
		pause_some(t);
		n = iw_ring_left(&r);
		before = !n && !shut && rnd(t, 2) ? carrier_before(t, &r) : 0;
		if (!n && !shut && !before) {
			if (rnd(t, 20))
				continue;
			n = iw_ring_shut(&r);
		}
		assert_true(n >= 0);
		if (before) {
			n = recv(t->fd, buf, before < len ? before : len, MSG_DONTWAIT);
			assert_true(n > 0);
		} else if (n > 0) {
			n = (size_t)n < len ? n : (ssize_t)len;
			get(&r, buf, (size_t)n);
		} else {
			n = recv(t->fd, buf, len, MSG_DONTWAIT);
			if (n < 0 && rnd(t, 2)) {
				iw_ring_offer(&r);
				continue;
			}
			if (n < 0 && rnd(t, 2) && (n = recv(t->fd, r.mem, r.len, 0)) > 0) {
				iw_ring_staged(&r, (size_t)n);
				continue;
			}
			if (n < 0 && rnd(t, 2)) {
				assert_true(iw_ring_move(&r, arm += LEN));
				pause_some(t);
				is_armed = recv(t->fd, buf, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
				pause_some(t);
				if (is_armed)
					assert_true(iw_ring_arm(&r));
				if (is_armed && rnd(t, 2))
					assert_true(recv(t->fd, buf, 1, MSG_PEEK) >= 0);
				continue;
			}
			if (n < 0)
				n = recv(t->fd, buf, len, 0);
			assert_true(n >= 0);
			if (!n)
				return pos;
		}
		for (ssize_t i = 0; i < n; i++)
			assert_int_equal(buf[i], octet(pos + (uint64_t)i));
		pos += (uint64_t)n;
	}
}

/* Returns how many octets went through the ring. */
static uint64_t talk_once(uint64_t seed, bool kills)
{
	struct talk t = { .rng = seed * 0x9e3779b97f4a7c15ull + 1, .total = 100000, .most = seed % 3 ? 200 : 20000 };
	int sv[2];
	uint64_t got, ringed;
	pid_t pid, killer;

	t.s = mmap(NULL, sizeof(*t.s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(t.s, MAP_FAILED);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(sv[0]);
		t.fd = sv[1];
		t.rng += 77;
		produce(&t);
	}
	close(sv[1]);
	t.fd = sv[0];
	killer = kills ? fork() : 0;
	assert_true(killer >= 0);
	if (kills && !killer) {		/* at any moment of it */
		struct timespec ts = { 0, (long)rnd(&t, 3000000) };

		nanosleep(&ts, NULL);
		kill(pid, SIGKILL);
		_exit(0);
	}
	got = consume(&t);
	if (kills)
		waitpid(killer, NULL, 0);
	waitpid(pid, NULL, 0);
	if (got < t.s->accepted || got > t.total || (!kills && got != t.total))
		fail_msg("seed %llu: %llu octets came, %llu were accepted", (unsigned long long)seed, (unsigned long long)got, (unsigned long long)t.s->accepted);
	ringed = t.s->ringed;
	close(sv[0]);
	munmap(t.s, sizeof(*t.s));
	return ringed;
}

static void talks(bool kills)
{
	const char *given = getenv("IW_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL), ringed = 0;

	fprintf(stderr, "# IW_SEED=%llu\n", (unsigned long long)seed);
	for (uint64_t i = 0; i < (given ? 1 : TALKS); i++)
		ringed += talk_once(seed + i, kills);
	if (!given && !kills)
		assert_in_range(ringed, 100000, UINT64_MAX);
}

static void two_processes(void **state)
{
	talks(false);
}

static void one_is_killed(void **state)
{
	talks(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states), cmocka_unit_test(armed), cmocka_unit_test(vectors), cmocka_unit_test(hostile), cmocka_unit_test(two_processes),
		cmocka_unit_test(one_is_killed),
	};

	alarm(600);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
