// SPDX-License-Identifier: MIT
/* The record of a stream: its script, its octets, and what TCP permits it to see. */
#include <inttypes.h>

#include "opsoak.h"

enum { TALK, BULK, DUPLEX, TRICKLE, IDLE, KINDS };
enum { BY_CLOSE, BY_HALF, BY_BOTH, BY_RDWR, BY_LINGER, BY_UNREAD, ENDINGS };

/*
 * How the script goes on when its octets are through, for who starts the end and for the other one:
 * w SHUT_WR, b SHUT_RDWR, e read up to the end, t write the tail, l SO_LINGER {1, 0}, u wait for octets and leave them unread, c close
 */
static const char *const part[ENDINGS][2] = {
	[BY_CLOSE] = { "c", "ec" },
	[BY_HALF] = { "wec", "etc" },
	[BY_BOTH] = { "wec", "wec" },
	[BY_RDWR] = { "bc", "ec" },
	[BY_LINGER] = { "lc", "ec" },
	[BY_UNREAD] = { "uc", "tec" },
};

uint64_t rnd(struct rng *r)
{
	uint64_t z = r->s += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

uint64_t mix(uint64_t a, uint64_t b)
{
	struct rng r = { a };

	r.s = rnd(&r) ^ b;
	return rnd(&r);
}

uint32_t below(struct rng *r, uint32_t n)
{
	return (uint32_t)(rnd(r) % n);
}

bool one_in(struct rng *r, uint32_t n)
{
	return !below(r, n);
}

int pieces(struct rng *r, struct iovec *v, const void *p, size_t n)
{
	char *at = (char *)(uintptr_t)p;
	int k = 1 + (int)below(r, PIECES);

	for (int i = 0; i < k; i++) {
		size_t m = i == k - 1 ? n : below(r, (uint32_t)n + 1);

		v[i] = (struct iovec){ at, m };
		at += m;
		n -= m;
	}
	return k;
}

static void segment(struct walk *w)
{
	static const int kinds[] = { TALK, TALK, TALK, BULK, BULK, DUPLEX, DUPLEX, TRICKLE, IDLE };

	w->kind = kinds[below(&w->rng, sizeof(kinds) / sizeof(*kinds))];
	w->dir = (int)below(&w->rng, 2);
	w->turns = w->kind == TALK ? 2 + (int)below(&w->rng, 80) : 1 + (int)below(&w->rng, 3);
	w->most = one_in(&w->rng, 3) ? 4096 : 64;
}

/* The next step; false: there is none. */
bool walk_on(struct walk *w)
{
	uint32_t n;

	w->pause = 0;
	if (!w->turns) {
		if (!w->segments--) {
			w->over = true;
			return false;
		}
		segment(w);
	}
	w->turns--;
	n = 1 + below(&w->rng, one_in(&w->rng, 2) ? MOST : 40000);
	switch (w->kind) {
	case TALK:
		n = 1 + below(&w->rng, (uint32_t)w->most);
		break;
	case TRICKLE:
		n = 1 + n % 20000;
		break;
	case IDLE:
		n = 1;
		w->pause = 1 + (int)below(&w->rng, 120);
		break;
	case DUPLEX:
		w->goal[!w->dir] += 1 + below(&w->rng, MOST);
	}
	w->goal[w->dir] += n;
	if (w->kind == TALK || w->kind == IDLE)
		w->dir = !w->dir;
	return true;
}

static void end_begin(struct stream *s, int me, int holder)
{
	struct end *e = &s->end[me];
	uint64_t seed = mix(mix(shm->seed, s->id), (uint64_t)me + 1);

	memset(e, 0, sizeof(*e));
	e->rr.s = mix(seed, 1);
	e->wr.s = mix(seed, 2);
	e->cr.s = mix(seed, 3);
	e->temper = (int)below(&e->cr, 4);
	e->deed = -1;
	e->fd = -1;
	e->holder = holder;
	e->state = END_LIVE;
}

void stream_begin(struct stream *s, uint64_t id, int server, int client_proc, int server_proc)
{
	struct walk w = { .rng = { mix(shm->seed, id) } };

	s->id = id;
	s->epoch = shm->epoch;
	s->may = s->epoch & 1 && shm->preload[0] ? MAY_DAEMON : 0;	/* set up by one that is about to end */
	s->begun_ms = now_ms();
	s->handed = 0;
	s->server = server;
	s->port = 0;
	s->accepted = 0;
	w.segments = 1 + (int)below(&w.rng, one_in(&w.rng, 6) ? 40 : 10);
	s->ending = (int)below(&w.rng, ENDINGS);
	if ((s->ending == BY_LINGER && shm->without[OP_linger0]) || (s->ending == BY_UNREAD && shm->without[OP_wait_unread]))
		s->ending = BY_BOTH;
	s->starter = (int)below(&w.rng, 2);
	s->tail = 1 + below(&w.rng, one_in(&w.rng, 3) ? MOST : 3000);
	end_begin(s, 0, client_proc);
	end_begin(s, 1, server_proc);
	s->end[0].walk = s->end[1].walk = w;
	while (walk_on(&w))
		;
	s->total[0] = w.goal[0];
	s->total[1] = w.goal[1];
	s->moved_ms = now_ms();
	s->used = 1;
}

const char *parts(const struct stream *s, int me)
{
	return part[s->ending][s->starter != me];
}

const uint8_t *octets(const struct stream *s, int dir, uint64_t pos)
{
	return table + (mix(s->id, (uint64_t)dir) + pos) % PERIOD;
}

void check(struct hold *h, const void *p, size_t n, uint64_t pos, enum op op)
{
	const uint8_t *got = p, *want;
	size_t i = 0, k;

	for (size_t at = 0; at < n; at += k) {
		k = n - at < MOST ? n - at : MOST;
		want = octets(h->s, !h->me, pos + at);
		if (!memcmp(got + at, want, k))
			continue;
		while (got[at + i] == want[i])
			i++;
		note(h, op, (int64_t)n, (int64_t)n, 0, pos);
		for (int64_t d = -(1 << 20); d < 1 << 20; d++) {	/* octets of another place? */
			if ((int64_t)(pos + at + i) + d < 0 || n - at - i < 8)
				continue;
			if (!memcmp(got + at + i, octets(h->s, !h->me, (uint64_t)((int64_t)(pos + at + i) + d)), 8))
				hfail(h, "wrong octets from position %" PRIu64 " on, of %zu at %" PRIu64 ": they are those of %+" PRId64,
				      pos + at + i, n, pos, d);
		}
		hfail(h, "wrong octets from position %" PRIu64 " on, of %zu at %" PRIu64, pos + at + i, n, pos);
	}
}

/*
 * An end of file is right where the other end has ended and everything it wrote was read. Of one that was killed nobody knows whether its last write was
 * made. After an error that was reported once, to whoever holds this end, TCP says end of file, too. One that ended by a reset says no end of file.
 */
void check_eof(struct hold *h, enum op op)
{
	uint64_t at = h->e->rpos, least = h->peer->wpos, most = h->peer->wsaid;
	unsigned int may = h->s->may;

	note(h, OP_eof, op, 0, 0, at);
	if (h->e->reset || (h->shared && may))
		return;
	if (op == OP_fread && may)	/* libc reads by itself, whatever it reads: nobody can make an error of what it finds there */
		return;
	if (may & MAY_KILLED && at >= least && at <= most)
		return;
	if (!h->peer->fin)
		hfail(h, "end of file at %" PRIu64 ", but the other end has not ended (wrote %" PRIu64 ")", at, least);
	if (at != least)
		hfail(h, "end of file at %" PRIu64 ", but %" PRIu64 " were written", at, least);
	if (may & (MAY_LINGER | MAY_UNREAD) && !(may & (MAY_KILLED | MAY_DAEMON)))
		hfail(h, "end of file at %" PRIu64 ", but the other end ended by a reset", at);
}

/* A reset was seen: whether it may be. Always true. */
bool lost(struct hold *h, enum op op, int err)
{
	note(h, OP_reset, op, -1, err, h->e->rpos);
	if (!h->s->may)
		hfail(h, "%s, but nothing was done that permits it", strerror(err));
	if (err == EPIPE && h->s->may == MAY_LINGER && !h->e->reset && !h->shared)
		hfail(h, "EPIPE, but no ECONNRESET before");
	h->e->reset = 1;
	shm->resets_seen++;
	return true;
}

void end_over(struct stream *s, int me, enum end_state how)
{
	shm->octets += s->end[me].rpos;
	s->moved_ms = now_ms();
	s->end[me].state = how;
	if (s->end[!me].state >= END_DONE && s->end[me].state >= END_DONE) {
		int one = 1;

		if (atomic_compare_exchange_strong(&s->used, &one, 0))
			shm->finished++;
	}
}
