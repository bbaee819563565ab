// SPDX-License-Identifier: MIT
/* Every way to wait for one stream. */
#include <inttypes.h>
#include <sys/epoll.h>
#include <sys/select.h>

#include "opsoak.h"

static int by_poll(struct hold *h, int want, int ms, bool mask)
{
	struct pollfd p = { .fd = h->fd, .events = (short)want };
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	sigset_t m;
	int r;

	wait_mask(&m, SIGUSR1);
	r = mask ? ppoll(&p, 1, ms < 0 ? NULL : &t, &m) : poll(&p, 1, ms);
	if (r > 1 || (r == 1 && !p.revents) || (r == 0 && p.revents) || p.revents & ~(want | POLLHUP | POLLERR))
		hfail(h, "poll for %#x says %d, %#x", want, r, p.revents);
	return r <= 0 ? r : p.revents;
}

static int by_select(struct hold *h, int want, int ms, bool mask)
{
	fd_set in, out, ex;
	struct timeval v = { ms / 1000, ms % 1000 * 1000 };
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	sigset_t m;
	int r, bits = 0, n = 0;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&ex);
	if (want & POLLIN)
		FD_SET(h->fd, &in);
	if (want & POLLOUT)
		FD_SET(h->fd, &out);
	FD_SET(h->fd, &ex);
	wait_mask(&m, 0);
	r = mask ? pselect(h->fd + 1, &in, &out, &ex, ms < 0 ? NULL : &t, &m) : select(h->fd + 1, &in, &out, &ex, ms < 0 ? NULL : &v);
	if (r <= 0)
		return r;
	for (int i = 0; i <= h->fd; i++)
		n += !!FD_ISSET(i, &in) + !!FD_ISSET(i, &out) + !!FD_ISSET(i, &ex);
	if (FD_ISSET(h->fd, &in))
		bits |= POLLIN;
	if (FD_ISSET(h->fd, &out))
		bits |= POLLOUT;
	if (n != r || bits & ~want || FD_ISSET(h->fd, &ex))
		hfail(h, "select for %#x says %d, %#x%s", want, r, bits, FD_ISSET(h->fd, &ex) ? " and an exception" : "");
	return bits;
}

/* A set that is kept while the end is here; what it is registered for changes. */
static int by_epoll(struct hold *h, enum op kind, int want, int ms)
{
	struct epoll_event v = { .events = (uint32_t)want, .data.u64 = (uint64_t)(h->s - shm->streams) << 32 | (uint32_t)h->fd }, got[2];
	int r;

	if (kind == OP_epoll_et)
		v.events |= EPOLLET;
	if (kind == OP_epoll_oneshot)
		v.events |= EPOLLONESHOT;
	if (h->ep < 0) {
		h->ep = epoll_create1(EPOLL_CLOEXEC);
		h->ep_kind = -1;
	}
	if (h->ep_kind != (int)kind || h->ep_want != want || kind != OP_epoll) {
		if (epoll_ctl(h->ep, h->ep_kind < 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, h->fd, &v))
			hfail(h, "epoll_ctl: %s", strerror(errno));
		h->ep_kind = (int)kind;
		h->ep_want = want;
	}
	r = epoll_wait(h->ep, got, 2, ms);
	if (r <= 0)
		return r;
	if (r != 1 || got[0].data.u64 != v.data.u64 || got[0].events & ~(uint32_t)(want | EPOLLHUP | EPOLLERR))
		hfail(h, "epoll_wait for %#x says %d, %#x", want, r, got[0].events);
	return (int)got[0].events;
}

void wait_forget(struct hold *h)
{
	if (h->ep >= 0)
		close(h->ep);
	h->ep = -1;
}

/* By one of the calls; the bits that are ready, 0 when the time is over, or a signal came. */
int wait_by(struct hold *h, enum op kind, int want, int ms)
{
	struct call c;
	uint64_t took;
	int r;

	call_begin(&c);
	switch (kind) {
	case OP_poll:
	case OP_ppoll:
		r = by_poll(h, want, ms, kind == OP_ppoll);
		break;
	case OP_select:
	case OP_pselect:
		r = by_select(h, want, ms, kind == OP_pselect);
		break;
	default:
		r = by_epoll(h, kind, want, ms);
	}
	took = (now_us() - c.us) / 1000;
	note(h, kind, want << 20 | (ms & 0xfffff), r, r < 0 ? errno : 0, h->e->rpos);
	if (r < 0 && (errno != EINTR || !cut(&c)))
		hfail(h, "a wait fails: %s", strerror(errno));
	if (!r && ms < 0 && !cut(&c))	/* a time is over that there is not */
		hfail(h, "a wait without end ends");
	if (!r && took + 2 < (uint64_t)ms && !cut(&c))
		hfail(h, "a wait for %d ms ends after %" PRIu64, ms, took);
	if (r > 0 && r & POLLERR && !h->s->may)
		hfail(h, "POLLERR, but nothing was done that permits a reset");
	if (r > 0 && r & POLLHUP && !h->s->may && h->e->fin < 2 && (!h->peer->fin || !h->e->fin))
		hfail(h, "POLLHUP, but not both ends have ended");
	return r < 0 ? 0 : r;
}

int wait_for(struct hold *h, int want, int ms)
{
	static const enum op kinds[] = { OP_poll, OP_ppoll, OP_select, OP_pselect, OP_epoll, OP_epoll_et, OP_epoll_oneshot };

	struct rng *r = !h->shared ? &h->e->cr : want & POLLIN ? &h->e->rr : &h->e->wr;

	return wait_by(h, kinds[below(r, sizeof(kinds) / sizeof(*kinds))], want, ms);
}
