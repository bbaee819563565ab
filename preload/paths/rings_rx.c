// SPDX-License-Identifier: MIT
/* Receiving by the ring of a joined pair, and by the carrier where it is shut. See rings.h. */
#include <fcntl.h>
#include <poll.h>
#include <sys/time.h>

#include "preload/deadline.h"
#include "preload/map.h"
#include "preload/opts.h"
#include "preload/paths/carrier.h"
#include "preload/paths/carrier_all.h"
#include "preload/paths/rings_priv.h"
#include "preload/real.h"
#include "preload/spin.h"
#include "preload/sys.h"
#include "preload/tcpstate.h"

#define MODE_NS		100000	/* so long is believed what the file said of waiting */
#define ASK_NS		20000	/* an end may be found so late by who looks and does not wait */
#define LOOKS		16u	/* at the ring, between two at the clock */
#define GATHER_NS	700

int iw_rings_take(struct iw_mapped_call *c, size_t have)
{
	struct iw_stream *s = c->s;
	bool peeks = c->flags & MSG_PEEK;

	if (have > c->len - c->done)
		have = c->len - c->done;
	while (have) {
		size_t ok = iw_mapped_good(c, have < IW_RINGS_PIECE ? have : IW_RINGS_PIECE, IW_USE_FILL);

		if (!ok)
			return c->done ? 0 : EFAULT;
		iw_ring_peek(&s->ring.rx, c->v, c->done, peeks ? c->done : 0, ok);
		if (!peeks)
			iw_ring_consumed(&s->ring.rx, ok);
		c->done += ok;
		have -= ok;
	}
	return 0;
}

/* Of n octets in the ring those that the call has not had: one that peeks leaves them there. */
static size_t unseen(const struct iw_mapped_call *c, size_t n)
{
	return !(c->flags & MSG_PEEK) ? n : n > c->done ? n - c->done : 0;
}

/* How many octets it waits for. */
static size_t least(const struct iw_mapped_call *c)
{
	int low = 1;
	socklen_t len = sizeof(low);

	if (c->flags & MSG_WAITALL)
		return c->len;
	if (iw_likely(!(atomic_load_explicit(&iw_stream_end(c->s)->opts, memory_order_relaxed) & IW_SOPT_RCVLOWAT)))
		return 1;
	IW_SYS(getsockopt, c->fd, SOL_SOCKET, SO_RCVLOWAT, &low, &len);
	return low > 0 && (size_t)low < c->len ? (size_t)low : c->len;
}

/*
 * Does the call wait? What fcntl() said is believed for a moment: nobody else has the file, and calls that change it have that forgotten.
 */
static bool waits(struct iw_mapped_call *c)
{
	struct iw_stream *s = c->s;
	int64_t now;

	if (c->looked || c->flags & MSG_DONTWAIT)
		return c->looked && c->waits;
	now = iw_mono_ns();
	if (now - atomic_load_explicit(&s->ring_mode, memory_order_relaxed) >= MODE_NS) {
		s->ring.nowait = IW_SYS(fcntl, c->fd, F_GETFL, 0) & O_NONBLOCK;
		atomic_store_explicit(&s->ring_mode, now, memory_order_relaxed);
	}
	c->waits = !s->ring.nowait;
	c->looked = true;
	return c->waits;
}

/*
 * The ring is empty, and not shut: is nothing in the carrier either? While it is open only the end can be there, of which who waits hears in time;
 * else what was sent before it could be opened: so many octets, or 0 if that is not known.
 */
static bool nothing(struct iw_mapped_call *c, long *before)
{
	struct iw_stream *s = c->s;
	uint64_t word = iw_ring_word(&s->ring.rx);
	bool open = word & IW_RING_OPEN;
	int64_t now;
	long n;

	*before = 0;
	if (atomic_load_explicit(&iw_stream_other(s)->shut, memory_order_relaxed) & (IW_SHUT_CLOSED | IW_SHUT_WR))
		return false;
	n = open ? 0 : iw_carrier.inq(s, atomic_load(&s->mapped));
	if (n > 0 && iw_ring_waits(&s->ring.rx, word) && iw_ring_word(&s->ring.rx) == word)
		*before = n;
	if (n || waits(c))
		return !n;
	now = iw_mono_ns();
	if (now - s->ring.asked < ASK_NS)
		return true;
	s->ring.asked = now;
	return !iw_fd_bits(atomic_load(&s->mapped), POLLIN | POLLRDHUP);
}

/* Of the carrier not more than so many octets, while the ring may be opened behind them, as soon as they were read. */
static bool rx_before(struct iw_mapped_call *c, size_t most)
{
	size_t len = c->len;
	long n;

	if (c->flags & MSG_PEEK)
		return false;
	if (most < len - c->done)
		c->len = c->done + most;
	n = iw_carrier_receive(c, atomic_load(&c->s->mapped));
	c->len = len;
	iw_rings_missed(c->s, n);
	return n > 0;
}

/*
 * What there is now. 0, EFAULT, EAGAIN, or -1: nothing is left, and the carrier has come to its end. What came before the carrier's octets is in the
 * ring, and stays there once it is shut.
 */
static int rx_now(struct iw_mapped_call *c)
{
	struct iw_stream *s = c->s;
	size_t have = unseen(c, iw_rings_left(s));
	long n;
	int err;

	if (iw_likely(have)) {
		s->ring.used += !s->ring.pulled;
		err = iw_rings_take(c, have);
		if (iw_likely(err || c->done == c->len || iw_ring_takes(&s->ring.rx, false)))
			return err;
	} else if (!iw_ring_is_shut(&s->ring.rx)) {
		if (nothing(c, &n))
			return EAGAIN;
		if (n && rx_before(c, (size_t)n))
			return 0;
	}
	have = unseen(c, iw_rings_close(s));
	if (c->flags & MSG_PEEK && !s->ring.sleepers) {	/* so that all of it is in one place */
		while (iw_rings_pull(s) > 0)
			;
		have = unseen(c, iw_rings_left(s));
	}
	err = iw_rings_take(c, have);
	if (err || c->done == c->len)
		return err;
	n = iw_carrier_receive(c, atomic_load(&s->mapped));
	iw_rings_missed(s, n);
	if (n > 0 || c->done)
		return 0;
	return n == -EAGAIN || n == -EINTR ? EAGAIN : -1;
}

/* ---- waiting ---- */

/*
 * Awake for a moment, in which the ring is looked at. Locked before and after. 0: on to the next step; EAGAIN: there is something; or EINTR; -1: not locked,
 * and on this path no more.
 */
static int rx_look(struct iw_mapped_call *c, struct iw_spin *z)
{
	struct iw_stream *s = c->s;
	bool found = false, here = true;
	int err = 0;

	iw_spin_begin(z);
	if (!z->most)
		return 0;
	if (!s->ring.pours)
		z->apart = 0;
	iw_rings_offer(s);
	iw_rings_leave(c);
	while (!found && iw_spin_on(z) && (here = iw_rings_again(c))) {
		for (uint32_t i = 0; !(found = iw_rings_left(s)) && !z->apart && i < LOOKS; i++)
			iw_relax();
		if (!found && !iw_ring_takes(&s->ring.rx, false))	/* what was sent before it was offered */
			found = iw_carrier.inq(s, atomic_load(&s->mapped));
		iw_map_unlock(s, &c->st);
	}
	if (iw_spin_over(z) && !found && iw_carrier_interrupts(c->fd, z->signal))
		err = EINTR;
	if (found) {
		iw_spin_end(z);
		z->begin = 0;
		err = EAGAIN;
	}
	return here && iw_rings_again(c) ? err : -1;
}

/* Octets, or so. */
static void came(struct iw_mapped_call *c)
{
	c->s->ring.oneway = !c->s->ring.wrote;
	c->s->ring.wrote = false;
	iw_rings_met(c->s);
}

/* A call that received, or had nothing to. */
static void rx_leave(struct iw_mapped_call *c)
{
	bool wasted = iw_rings_wasted(c->s);

	iw_rings_leave(c);
	if (iw_unlikely(wasted))
		iw_map_give(c->fd, c->s);
}

/* Until the carrier has something, with the ring shut and empty: its own call, and its own answer. Locked before, and not after. */
static ssize_t rx_sleep(struct iw_mapped_call *c, struct iw_io *io, struct iw_spin *z)
{
	struct iw_stream *s = c->s;
	size_t left = iw_rings_left(s);
	struct iovec v[IW_MAPPED_VECTOR];
	struct msghdr m;
	struct iw_io one;
	ssize_t n;

	if (c->flags & MSG_PEEK && c->done > left)	/* the rest was in the carrier */
		c->done = left;
	s->ring.sleepers++;
	iw_rings_leave(c);
	if (!c->done) {
		n = iw_carrier_rx(s, c->fd, io, c->flags);
	} else if (c->flags & MSG_PEEK) {
		iw_mapped_rest_of(c, v, &m);
		iw_io_vec(&one, v, m.msg_iovlen, IW_IO_SOCK);
		n = iw_carrier_rx(s, c->fd, &one, c->flags);
		n = (ssize_t)c->done + (n > 0 ? n : 0);
	} else {
		iw_carrier_more(c, least(c), iw_mono_ns());
		n = (ssize_t)c->done;
	}
	iw_spin_end(z);
	if (iw_rings_again(c)) {
		s->ring.sleepers--;
		iw_rings_missed(s, n);
		came(c);
		rx_leave(c);
	}
	return n;
}

/* The same; or armed, where nothing is taken before the lock: woken, but by a signal or the time. Not locked after. true: *n is the answer. */
static bool rx_wait(struct iw_mapped_call *c, struct iw_io *io, struct iw_spin *z, bool *woken, ssize_t *n)
{
	bool arms = !c->done && !(c->flags & MSG_PEEK) && iw_rings_arm(c->s, true);
	uint8_t octet;

	if (!arms) {
		*n = rx_sleep(c, io, z);
		return true;
	}
	iw_rings_leave(c);
	*n = iw_real.recv(c->fd, &octet, 1, MSG_PEEK);
	iw_spin_end(z);
	*woken = true;
	return *n < 0;
}

/* Nothing is left but the carrier's end: it says so itself. */
static ssize_t rx_over(struct iw_mapped_call *c, struct iw_io *io)
{
	iw_rings_ended(c->s);
	iw_rings_leave(c);
	iw_map_give(c->fd, c->s);
	return iw_path(c->s)->rx(c->s, c->fd, io, c->flags);
}

/* It was a sleep the last time: if looking has not paid either, it is one now, and the carrier's call is all there is to it. */
static bool asleep(struct iw_mapped_call *c)
{
	return !c->done && iw_ring_is_shut(&c->s->ring.rx) && !iw_rings_left(c->s) && waits(c);
}

/*
 * Small pieces, one after the other, without an answer: each look at the ring takes its words from who is writing them, so they are left alone for
 * a moment, and taken together.
 */
static void gather(void)
{
	int64_t until = iw_mono_ns() + GATHER_NS;

	do
		for (uint32_t i = 0; i < LOOKS; i++)
			iw_relax();
	while (iw_mono_ns() < until);
}

static ssize_t rx_call(struct iw_mapped_call *c, struct iw_io *io)
{
	struct iw_stream *s = c->s;
	int saved = errno, err;
	bool here = iw_rings_enter(c), woken = false;	/* there is something, if only its end */
	ssize_t n;

	for (; here; here = iw_rings_again(c)) {
		struct iw_spin z = { 0 };

		if (!woken && asleep(c)) {
			iw_spin_begin(&z);
			if (!z.most) {
				if (rx_wait(c, io, &z, &woken, &n))
					return n;
				continue;
			}
			iw_spin_over(&z);
		}
		if (s->ring.pours && waits(c) && iw_spin_may())
			gather();
		err = rx_now(c);
		if (err == -1)
			return rx_over(c, io);
		if ((err && err != EAGAIN) || c->done >= least(c) || !waits(c))
			break;
		err = c->done ? 0 : rx_look(c, &z);
		if (err == EINTR)
			break;
		if (err == -1)
			continue;
		if (err != EAGAIN && !unseen(c, iw_rings_left(s)) && !unseen(c, iw_rings_close(s))) {
			if (rx_wait(c, io, &z, &woken, &n))
				return n;
			continue;
		}
		woken = false;
		iw_rings_leave(c);
	}
	if (!here)
		return iw_mapped_elsewhere(c, io);
	came(c);
	s->ring.pours = s->ring.oneway && c->done && c->done < IW_RINGS_SMALL;
	if (iw_spin_may() || !iw_rings_arm(s, true))	/* where nobody looks for long, it may not run at once when it is woken */
		iw_rings_offer(s);
	rx_leave(c);
	errno = saved;
	return c->done || !err ? (ssize_t)c->done : iw_fail(err);
}

/* Of no octets: it waits until there are some, as TCP does. */
static ssize_t rx_none(struct iw_mapped_call *c, struct iw_io *io)
{
	struct iw_spin z = { 0 };

	if (io->form != IW_IO_SOCK)
		return 0;
	if (!iw_rings_enter(c))
		return iw_path(c->s)->rx(c->s, c->fd, io, c->flags);
	if (!iw_rings_close(c->s))
		return rx_sleep(c, io, &z);
	iw_rings_leave(c);
	return 0;
}

ssize_t iw_rings_rx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	struct iw_mapped_call c;

	if (iw_unlikely((flags & MSG_OOB) || (io->form == IW_IO_V2 && io->off != -1)))
		return iw_carrier.rx(s, fd, io, flags);
	iw_cancel_point();
	if (!iw_mapped_call(&c, s, fd, io, flags))
		return -1;
	return c.len ? rx_call(&c, io) : rx_none(&c, io);
}
