// SPDX-License-Identifier: MIT
/* A worker's event loop: many ends that never wait, in one of the ways to wait for many. */
#include <sys/epoll.h>
#include <sys/select.h>

#include "opsoak.h"

#define ENDS	(2 * STREAMS)

static struct hold *ends[ENDS];
static int count_ends, listener, passes, set = -1;
static enum op kind;
struct hold *loop_now;

void loop_init(enum op how, int listener_fd, int passes_fd)
{
	struct epoll_event v = { .events = EPOLLIN };

	kind = how;
	listener = listener_fd;
	passes = passes_fd;
	if (kind != OP_epoll && kind != OP_epoll_et && kind != OP_epoll_oneshot)
		return;
	set = epoll_create1(EPOLL_CLOEXEC);
	v.data.u64 = 1;
	epoll_ctl(set, EPOLL_CTL_ADD, listener, &v);
	v.data.u64 = 2;
	epoll_ctl(set, EPOLL_CTL_ADD, passes, &v);
}

int loop_count(void)
{
	return count_ends;
}

/* what is registered of it: LT and ONESHOT for what it wants, ET for all */
static int mask(struct hold *h)
{
	int w = wants(h);

	if (w & POLLOUT && h->until && now_ms() < h->until)
		w &= ~POLLOUT;
	return w;
}

static void registered(struct hold *h, int op)
{
	int want = kind == OP_epoll_et ? POLLIN | POLLOUT | POLLRDHUP : mask(h);
	struct epoll_event v = { .events = (uint32_t)want, .data.ptr = h };

	if (kind == OP_epoll_et)
		v.events |= EPOLLET;
	if (kind == OP_epoll_oneshot)
		v.events |= EPOLLONESHOT;
	if (epoll_ctl(set, op, h->fd, &v))
		hfail(h, "epoll_ctl %d: %s", op, strerror(errno));
	h->ep_want = want;
}

void loop_add(struct hold *h)
{
	ends[count_ends++] = h;
	h->ready = 0;
	h->level = false;
	h->ep = -1;
	if (set >= 0)
		registered(h, EPOLL_CTL_ADD);
	if (!h->nonblock)
		set_nonblock(h, true, one_in(&h->e->cr, 2));
}

/* Also of one that is not in it. A close takes a description out of its sets by itself, unless somebody else has it, as after a fork. */
void loop_del(struct hold *h)
{
	struct epoll_event v = { 0 };

	for (int i = 0; i < count_ends; i++) {
		if (ends[i] != h)
			continue;
		ends[i] = ends[--count_ends];
		if (set >= 0 && epoll_ctl(set, EPOLL_CTL_DEL, h->fd, &v))
			hfail(h, "EPOLL_CTL_DEL: %s", strerror(errno));
		return;
	}
}

static bool at_once(struct hold *h)
{
	return !wants(h) || (h->e->deed >= 0 && h->e->rpos + h->e->wpos - h->e->begun >= (uint64_t)h->e->deed_at) || h->ready & mask(h);
}

static int patience(int ms)
{
	uint64_t t = now_ms();

	for (int i = 0; i < count_ends; i++) {
		if (at_once(ends[i]))
			return 0;
		if (ends[i]->until > t && ends[i]->until - t < (uint64_t)ms)
			ms = (int)(ends[i]->until - t);
	}
	return ms;
}

/* what was said of it */
static void said(struct hold *h, int bits)
{
	if (bits & POLLERR && !h->s->may)
		hfail(h, "POLLERR in a loop, but nothing was done that permits a reset");
	if (bits & POLLHUP && !h->s->may && h->e->fin < 2 && (!h->peer->fin || !h->e->fin))
		hfail(h, "POLLHUP in a loop, but not both ends have ended");
	if (bits & POLLRDHUP && !h->s->may && h->e->fin < 2 && !h->peer->fin)
		hfail(h, "POLLRDHUP in a loop, but the other end has not ended");
	h->level = kind != OP_epoll_et && bits & POLLIN;
	if (bits & (POLLERR | POLLHUP | POLLRDHUP))
		bits |= POLLIN | (bits & POLLERR ? POLLOUT : 0);
	h->ready |= bits & (POLLIN | POLLOUT);
	if (bits)
		note(h, OP_loop, kind, bits, 0, h->e->rpos);
}

static int by_poll(int ms)
{
	struct pollfd p[ENDS + 2] = { { .fd = listener, .events = POLLIN }, { .fd = passes, .events = POLLIN } };
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	nfds_t n = (nfds_t)count_ends + 2;
	sigset_t m;

	for (int i = 0; i < count_ends; i++)
		p[i + 2] = (struct pollfd){ .fd = ends[i]->fd, .events = (short)mask(ends[i]) };
	wait_mask(&m, 0);
	if ((kind == OP_ppoll ? ppoll(p, n, &t, &m) : poll(p, n, ms)) <= 0)
		return 0;
	for (int i = 0; i < count_ends; i++) {
		if (p[i + 2].revents & POLLNVAL)
			hfail(ends[i], "POLLNVAL");
		said(ends[i], p[i + 2].revents);
	}
	return (p[0].revents ? 1 : 0) | (p[1].revents ? 2 : 0);
}

static int by_select(int ms)
{
	fd_set in, out;
	struct timeval v = { ms / 1000, ms % 1000 * 1000 };
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	int most = listener > passes ? listener : passes;
	sigset_t m;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(listener, &in);
	FD_SET(passes, &in);
	for (int i = 0; i < count_ends; i++) {
		int w = mask(ends[i]), fd = ends[i]->fd;

		if (w & POLLIN)
			FD_SET(fd, &in);
		if (w & POLLOUT)
			FD_SET(fd, &out);
		most = fd > most ? fd : most;
	}
	wait_mask(&m, 0);
	if ((kind == OP_pselect ? pselect(most + 1, &in, &out, NULL, &t, &m) : select(most + 1, &in, &out, NULL, &v)) <= 0)
		return 0;
	for (int i = 0; i < count_ends; i++)
		said(ends[i], (FD_ISSET(ends[i]->fd, &in) ? POLLIN : 0) | (FD_ISSET(ends[i]->fd, &out) ? POLLOUT : 0));
	return (FD_ISSET(listener, &in) ? 1 : 0) | (FD_ISSET(passes, &in) ? 2 : 0);
}

static int by_epoll(int ms)
{
	struct epoll_event v[8];
	int r, what = 0;

	for (int i = 0; i < count_ends && kind != OP_epoll_et; i++)
		if (ends[i]->ep_want != mask(ends[i]) || kind == OP_epoll_oneshot)
			registered(ends[i], EPOLL_CTL_MOD);
	r = epoll_wait(set, v, 8, ms);
	for (int i = 0; i < r; i++) {
		if (v[i].data.u64 < 3)
			what |= (int)v[i].data.u64;
		else
			said(v[i].data.ptr, (int)v[i].events);
	}
	return what;
}

int loop_wait(int ms)
{
	ms = patience(ms);
	switch (kind) {
	case OP_poll:
	case OP_ppoll:
		return by_poll(ms);
	case OP_select:
	case OP_pselect:
		return by_select(ms);
	default:
		return by_epoll(ms);
	}
}

/* Some operations of each that is ready. What is left of an edge stays. */
static void turns_of(struct hold *h)
{
	for (int n = 6; n; n--) {
		loop_now = h;
		turn(h, h->ready);
		if (!loop_now)	/* a thread has it now */
			return;
		loop_now = NULL;
		if (h->gone) {
			hold_free(h);
			free(h);
			return;
		}
		if (n > 1 && !at_once(h))
			break;
	}
	h->level = false;
	if (kind != OP_epoll_et)
		h->ready = 0;
}

void loop_turns(void)
{
	struct hold *all[ENDS];
	int n = count_ends;

	memcpy(all, ends, sizeof(all));
	for (int i = 0; i < n; i++)
		if (at_once(all[i]))
			turns_of(all[i]);
}
