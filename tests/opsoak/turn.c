// SPDX-License-Identifier: MIT
/* What an end does next: the script of its stream, then its part in the end of it; alone with calls that wait, in a loop, or by threads. */
#include "opsoak.h"

static char stage(const struct hold *h)
{
	return parts(h->s, h->me)[h->e->stage];
}

/* POLLIN and POLLOUT as long as there is something to read and write in this step; 0: something else is to be done. */
int wants(struct hold *h)
{
	struct end *e = h->e;
	int w = 0;

	if (e->walk.over) {
		switch (stage(h)) {
		case 'e':
		case 'u':
			return POLLIN;
		case 't':
			return e->wpos < h->s->total[h->me] + h->s->tail ? POLLOUT : 0;
		default:
			return 0;
		}
	}
	if (e->rpos < e->walk.goal[!h->me])
		w |= POLLIN;
	if (e->wpos < e->walk.goal[h->me])
		w |= POLLOUT;
	return w;
}

/* at its begin it is settled what besides is done in this step, and when */
static void step_begun(struct hold *h)
{
	struct end *e = h->e;
	static const uint32_t often[] = { 60, 60, 20, 8 };	/* by temper */

	e->begun = e->rpos + e->wpos;
	e->deed = one_in(&e->cr, often[e->temper]) ? (int)below(&e->cr, 1000) : -1;
	e->deed_at = one_in(&e->cr, 2) ? 0 : (int)below(&e->cr, 60000);
	e->before = e->temper ? (int)below(&e->cr, 2) : 0;
	if (e->walk.pause && e->wpos < e->walk.goal[h->me])
		h->until = now_ms() + (uint64_t)e->walk.pause;
}

static void stage_next(struct hold *h)
{
	h->e->stage++;
	step_begun(h);
}

static void reset_now(struct hold *h)
{
	wait_forget(h);
	loop_del(h);
	note(h, OP_close, 0, 0, 0, h->e->rpos);
	h->e->fin = 1;
	close(h->fd);
	h->gone = true;
	end_over(h->s, h->me, END_DONE);
}

/* Closes; the description may be in a set of epoll for which it goes by itself, unless somebody else has it for a moment. */
static void close_now(struct hold *h)
{
	note(h, OP_close, 0, 0, 0, h->e->rpos);
	h->e->fin = 1;
	loop_del(h);
	if (one_in(&h->e->cr, 2))
		wait_forget(h);
	if (close(h->fd) && errno != EINTR)
		hfail(h, "close: %s", strerror(errno));
	wait_forget(h);
	h->gone = true;
	end_over(h->s, h->me, END_DONE);
}

static void shut(struct hold *h, int how)
{
	enum op op = how == SHUT_WR ? OP_shut_wr : OP_shut_rdwr;
	int r;

	h->e->fin = how == SHUT_WR ? 1 : 2;
	r = shutdown(h->fd, how);
	note(h, op, how, r, r ? errno : 0, h->e->wpos);
	/* ENOTCONN: it was reset, or, for SHUT_RDWR, has ended in both directions */
	if (r && (errno != ENOTCONN || !h->s->may))
		hfail(h, "shutdown: %s", strerror(errno));
	stage_next(h);
}

static void linger0(struct hold *h)
{
	struct linger l = { 1, 0 };
	int r;

	h->s->may |= MAY_LINGER;
	r = setsockopt(h->fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	note(h, OP_linger0, 0, r, r ? errno : 0, h->e->wpos);
	if (r && h->s->may == MAY_LINGER)
		hfail(h, "SO_LINGER: %s", strerror(errno));
	stage_next(h);
}

/* Octets or a step are through: what is next, without waiting. */
static void go_on(struct hold *h)
{
	struct end *e = h->e;

	if (!e->walk.over) {
		walk_on(&e->walk);
		step_begun(h);
		return;
	}
	switch (stage(h)) {
	case 't':
		stage_next(h);
		break;
	case 'w':
		shut(h, SHUT_WR);
		break;
	case 'b':
		shut(h, SHUT_RDWR);
		break;
	case 'l':
		linger0(h);
		break;
	default:
		close_now(h);
	}
}

static size_t piece(struct rng *r, uint64_t left)
{
	static const uint32_t most[] = { 1, 64, 64, 1500, 4096, 20000, 70000, MOST };
	size_t n = 1 + below(r, most[below(r, 8)]);

	return left && (n > left || one_in(r, 3)) ? left < MOST ? (size_t)left : MOST : n;
}

static void read_now(struct hold *h, bool wait)
{
	struct end *e = h->e;
	uint64_t goal = e->walk.goal[!h->me], total = h->s->total[!h->me];
	size_t n = piece(&e->rr, e->rpos < goal ? goal - e->rpos : 0);
	int64_t r;

	if (e->walk.over && stage(h) == 'u') {
		/* octets that are there when it closes: TCP answers that by a reset */
		int bits = wait_by(h, OP_poll, POLLIN, wait ? -1 : 0);

		if (!bits) {
			h->ready &= ~POLLIN;
			return;
		}
		note(h, OP_wait_unread, 0, bits, 0, e->rpos);
		h->s->may |= MAY_UNREAD;
		stage_next(h);
		return;
	}
	/* not of the tail, where that is not to be read */
	if (!strchr(parts(h->s, h->me), 'e') && e->rpos < total && n > total - e->rpos)
		n = (size_t)(total - e->rpos);
	r = read_some(h, n, wait);
	if (r == -EAGAIN) {
		if (h->level && h->ready & POLLIN && !h->s->may)
			hfail(h, "nothing to read, of what was said to be readable");
		h->ready &= ~POLLIN;
	}
	if (r == -ECONNRESET) {
		reset_now(h);
		return;
	}
	if (!r) {
		if (!e->walk.over || stage(h) != 'e') {	/* before its time: it must have been killed, or reset */
			if (!h->s->may)
				hfail(h, "end of file in the middle of the script");
			reset_now(h);
			return;
		}
		stage_next(h);
	}
	if (r > 0)
		h->level = false;	/* from now on nobody has said it */
}

static void write_now(struct hold *h, bool wait)
{
	struct end *e = h->e;
	uint64_t goal = e->walk.over ? h->s->total[h->me] + h->s->tail : e->walk.goal[h->me];
	int64_t r = write_some(h, piece(&e->wr, goal - e->wpos), wait);

	if (r == -EAGAIN)
		h->ready &= ~POLLOUT;
	if (r == -ECONNRESET)
		reset_now(h);
}

static bool deed_due(struct hold *h)
{
	return h->e->deed >= 0 && h->e->rpos + h->e->wpos - h->e->begun >= (uint64_t)h->e->deed_at;
}

/* What comes before octets is done: a deed that is due, or the next step, where this one wants none. */
static bool something_else(struct hold *h, int w)
{
	if (deed_due(h))
		deed(h);
	else if (!w)
		go_on(h);
	else
		return false;
	return true;
}

/* One operation, of what may be done without waiting: ready are the bits of poll. */
void turn(struct hold *h, int ready)
{
	int w = wants(h);

	if (something_else(h, w))
		return;
	if (w & POLLOUT && h->until) {
		if (now_ms() < h->until)
			w &= ~POLLOUT;
		else
			h->until = 0;
	}
	w &= ready;
	if (w == (POLLIN | POLLOUT))
		w = one_in(&h->e->cr, 2) ? POLLIN : POLLOUT;
	if (w & POLLIN)
		read_now(h, false);
	else if (w & POLLOUT)
		write_now(h, false);
}

static void pause_now(struct hold *h)
{
	uint64_t t = now_ms();

	if (t < h->until) {	/* nothing is asked for: what comes meanwhile ends nothing, but an end does */
		int r = poll(&(struct pollfd){ .fd = h->fd }, one_in(&h->e->cr, 2), (int)(h->until - t));

		note(h, OP_pause, (int64_t)(h->until - t), r, r < 0 ? errno : 0, h->e->rpos);
	}
	h->until = 0;
}

/* By calls that may wait. With both directions open each only if the other one is not in need. */
void run(struct hold *h)
{
	struct rng *r = &h->e->cr;

	h->ready = 0;
	while (!h->gone) {
		int w = wants(h), bits;

		if (something_else(h, w))
			continue;
		if (w & POLLOUT && h->until)
			pause_now(h);
		if (w == (POLLIN | POLLOUT)) {
			bits = wait_for(h, w, one_in(r, 4) ? 1000 : -1);
			h->ready = bits;
			h->level = true;
			if (bits & (POLLERR | POLLHUP))
				bits |= POLLIN;
			turn(h, bits);
			h->ready = 0;
			continue;
		}
		h->level = h->nonblock || one_in(r, 3);
		bits = h->level ? wait_for(h, w, one_in(r, 3) ? 1 + (int)below(r, 50) : -1) : w;
		h->ready = h->level ? bits : 0;
		if (!bits)
			continue;
		if (w & POLLIN)
			read_now(h, !h->nonblock);
		else
			write_now(h, !h->nonblock);
	}
}
