// SPDX-License-Identifier: MIT
/* Threads of one process share an end: one or two read, one writes, up to the end of the script. */
#include <pthread.h>

#include "opsoak.h"

struct part {
	struct hold h;
	pthread_mutex_t *lock;
	bool reads, over;
};

static bool done(const struct part *p)
{
	const struct end *e = p->h.e;

	return p->over || (p->reads ? e->rpos >= e->walk.goal[!p->h.me] : e->wpos >= e->walk.goal[p->h.me]);
}

static size_t some(struct rng *r, uint64_t left)
{
	uint32_t most = one_in(r, 4) ? 64 : one_in(r, 2) ? 3000 : 120000;
	size_t n = 1 + below(r, most);

	return n < left ? n : (size_t)left;
}

static void step(struct part *p)
{
	struct hold *h = &p->h;
	struct end *e = h->e;
	uint64_t left = p->reads ? e->walk.goal[!h->me] - e->rpos : e->walk.goal[h->me] - e->wpos;
	struct rng *r = p->reads ? &e->rr : &e->wr;
	int64_t n;

	if ((h->nonblock || one_in(r, 6)) && !wait_for(h, p->reads ? POLLIN : POLLOUT, one_in(r, 2) ? 500 : -1))
		return;
	n = p->reads ? read_some(h, some(r, left), !h->nonblock) : write_some(h, some(r, left), !h->nonblock);
	if (n == -ECONNRESET || (p->reads && !n)) {
		if (!h->s->may)
			hfail(h, "end of file in the middle of the script");
		p->over = true;
	}
}

static void *part_main(void *arg)
{
	struct part *p = arg;
	struct rng *r = p->reads ? &p->h.e->rr : &p->h.e->wr;

	while (!done(p)) {
		if (!p->reads) {
			step(p);
			continue;
		}
		pthread_mutex_lock(p->lock);
		for (uint32_t n = 1 + below(r, 8); n && !done(p); n--)
			step(p);
		pthread_mutex_unlock(p->lock);
	}
	wait_forget(&p->h);
	return NULL;
}

void run_threads(struct hold *h, int readers)
{
	struct part p[3] = { 0 };
	pthread_t t[3];
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	bool over = false;

	wait_forget(h);
	note(h, OP_threads, readers, 0, 0, h->e->rpos);
	h->e->walk.goal[0] = h->s->total[0];
	h->e->walk.goal[1] = h->s->total[1];
	h->e->walk.turns = h->e->walk.segments = 0;
	h->e->deed = -1;
	h->until = 0;
	set_nonblock(h, one_in(&h->e->cr, 3), false);
	for (int i = 0; i <= readers; i++) {
		hold_init(&p[i].h, h->s, h->me, h->fd);
		p[i].h.nonblock = h->nonblock;
		p[i].h.rtimeo = h->rtimeo;
		p[i].h.stimeo = h->stimeo;
		p[i].h.shared = true;
		p[i].lock = &lock;
		p[i].reads = i < readers;
		if (i && pthread_create(&t[i], NULL, part_main, &p[i]))
			hfail(h, "pthread_create: %s", strerror(errno));
	}
	part_main(&p[0]);
	for (int i = 0; i <= readers; i++) {
		if (i)
			pthread_join(t[i], NULL);
		over |= p[i].over;
		hold_free(&p[i].h);
	}
	if (over)
		h->e->reset = 1;	/* each was told by a call of its own */
}
