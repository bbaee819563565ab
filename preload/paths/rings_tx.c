// SPDX-License-Identifier: MIT
/* Sending into the ring of a joined pair, and into the carrier where it takes nothing. See rings.h. */
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "preload/deadline.h"
#include "preload/paths/carrier.h"
#include "preload/paths/mapped_in.h"
#include "preload/paths/rings_priv.h"
#include "preload/spin.h"
#include "preload/sys.h"
#include "preload/tcpstate.h"

#define ROOM_NS	20000	/* who finds it full looks so long for room */
#define DRY_NS	20000	/* and who finds it offered, that what was sent by the carrier is read */
#define TENTH	10	/* of the time, at most */
#define SENDS	16u	/* by the carrier, after which it is asked for room: so many of WHOLE are there still when it says first that there is none */
#define SINCE_TICKS	20000u	/* of the processor's, some microseconds: so exact is the order of what is sent without an answer */
#define WHOLE	2048u	/* octets that a carrier takes in one piece, however small its buffers are */

static bool dry(int fd)
{
	int n = 0;

	return IW_SYS(ioctl, fd, SIOCOUTQ, &n) >= 0 && !n;
}

/* It is offered, and what was sent before is not read yet, as always where one sends as fast as the other reads: what is gained by a moment lasts. */
static bool dry_soon(struct iw_stream *s)
{
	int tcp = atomic_load(&s->mapped);
	int64_t begin, now;
	bool is = dry(tcp);

	if (is || !iw_spin_may())
		return is;
	now = begin = iw_mono_ns();
	if (begin < s->ring.dry)
		return false;
	while (!is && now - begin < DRY_NS && iw_ring_takes(&s->ring.tx, true)) {
		is = dry(tcp);
		now = iw_mono_ns();
	}
	s->ring.dry = now + TENTH * (now - begin);
	return is;
}

/* The other end may have gone, of which the ring knows nothing: found by its word for it, or within some milliseconds. */
static bool gone(struct iw_stream *s)
{
	uint32_t tick;

	if (atomic_load_explicit(&iw_stream_other(s)->shut, memory_order_relaxed) & (IW_SHUT_CLOSED | IW_SHUT_RD))
		return true;
	tick = iw_mapped_tick();
	if (tick == s->ring.tick)
		return false;
	if (iw_fd_bits(atomic_load(&s->mapped), 0) & (POLLHUP | POLLERR))
		return true;
	s->ring.tick = tick;
	return false;
}

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#else
	return (uint64_t)iw_mono_ns();
#endif
}

/* The other end is told of what came by several connections in the order in which it was sent, as the kernel would. */
static void say_since(struct iw_stream *s, bool again)
{
	uint64_t now = ticks();

	if (again && (now - s->ring.ticks < SINCE_TICKS))
		return;
	s->ring.ticks = now;
	if (!again || iw_ring_taken(&s->ring.tx))
		atomic_store_explicit(&s->ring.tx.dir->since, (uint64_t)iw_mono_ns(), memory_order_relaxed);
}

/* Does it take octets, or can be made to? */
static bool opens(struct iw_stream *s)
{
	if (iw_ring_takes(&s->ring.tx, false))
		return !gone(s);
	return iw_ring_takes(&s->ring.tx, true) && !s->ring.senders && !(atomic_load(&iw_stream_end(s)->shut) & (IW_SHUT_WR | IW_SHUT_OOB)) &&
	       dry_soon(s) && !gone(s) && iw_ring_open(&s->ring.tx);
}

/* As much as the ring takes. 0, EFAULT. */
static int tx_ring(struct iw_mapped_call *c)
{
	struct iw_stream *s = c->s;
	int64_t until = 0;

	while (c->done < c->len) {
		size_t want = c->len - c->done, ok, n;

		ok = iw_mapped_good(c, want < IW_RINGS_PIECE ? want : IW_RINGS_PIECE, IW_USE_READ);
		if (!ok)
			return EFAULT;
		n = iw_ring_put(&s->ring.tx, c->v, c->done, ok);
		c->done += n;
		if (n) {
			until = 0;
			continue;
		}
		if (!iw_ring_takes(&s->ring.tx, false) || !iw_spin_may())
			break;
		if (!until)
			until = iw_mono_ns() + ROOM_NS;
		else if (iw_mono_ns() > until)
			break;
	}
	return 0;
}

/* From here on octets go into the carrier, until it is over. */
static void aside(struct iw_mapped_call *c)
{
	iw_ring_leave(&c->s->ring.tx);
	c->s->ring.senders++;
	c->s->ring.sends++;
	iw_rings_leave(c);
}

/* Locked, where it is over. false: it is on this path no more. */
static bool back(struct iw_mapped_call *c, bool full)
{
	struct iw_stream *s = c->s;

	if (!iw_rings_again(c))
		return false;
	s->ring.senders--;
	if (full)
		s->known &= ~(POLLOUT | POLLWRNORM);	/* so was the call told: room that is there by now has come */
	if (full || c->len >= WHOLE || s->ring.sends % SENDS == 0)
		s->map_full = !(iw_fd_bits(atomic_load(&s->mapped), POLLOUT) & POLLOUT);
	return true;
}

static void aside_over(struct iw_mapped_call *c, bool full)
{
	if (back(c, full))
		iw_rings_leave(c);
}

/*
 * Octets that wake the consumer, who does not run at once: what follows them need not go the same way. They are of one piece, so
 * they are all there, or none is any more. Locked before, and not after.
 */
static ssize_t tx_wake(struct iw_mapped_call *c, struct iw_io *io)
{
	struct iw_stream *s = c->s;
	uint64_t was = iw_ring_word(&s->ring.tx), is;
	bool alone = !s->ring.senders, first = was >> IW_RING_SHIFT != s->ring.tried && dry(atomic_load(&s->mapped));
	uint32_t sends = s->ring.sends + 1;
	ssize_t n;

	s->ring.tried = was >> IW_RING_SHIFT;
	aside(c);
	n = iw_carrier.tx(s, c->fd, io, c->flags);
	if (!back(c, n < (ssize_t)c->len))
		return n;
	is = iw_ring_word(&s->ring.tx);
	alone &= s->ring.sends == sends && !s->ring.senders;
	if (n > 0 && alone && iw_ring_woken(&s->ring.tx, was, is, first) && !dry(atomic_load(&s->mapped)))
		iw_ring_follow(&s->ring.tx, is, (uint32_t)n);
	iw_rings_leave(c);
	return n;
}

/* Not worth it for what is answered. */
static bool wakes(const struct iw_mapped_call *c, bool again)
{
	return again && !c->done && c->len && c->len <= WHOLE && !(c->flags & MSG_OOB) &&
	       !(atomic_load(&iw_stream_end(c->s)->shut) & (IW_SHUT_WR | IW_SHUT_OOB));
}

/* What is left goes into the carrier, behind what is in the ring. Locked before, and not after. */
static ssize_t tx_carrier(struct iw_mapped_call *c, struct iw_io *io)
{
	struct iovec v[IW_MAPPED_VECTOR];
	struct msghdr m;
	struct iw_io one;
	ssize_t n;

	aside(c);
	if (!c->done) {
		n = iw_carrier.tx(c->s, c->fd, io, c->flags);
		aside_over(c, n < (ssize_t)c->len);
		return n;
	}
	do {
		iw_mapped_rest_of(c, v, &m);
		iw_io_vec(&one, v, m.msg_iovlen, IW_IO_SOCK);
		n = iw_carrier.tx(c->s, c->fd, &one, c->flags);
		c->done += n > 0 ? (size_t)n : 0;
	} while (n > 0 && (size_t)n == iw_iov_total(v, m.msg_iovlen) && c->done < c->len);
	aside_over(c, c->done < c->len);
	return (ssize_t)c->done;
}

ssize_t iw_rings_tx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	struct iw_mapped_call c;
	int saved = errno, err = 0;
	bool again;

	if (io->vec || !io->own)
		iw_cancel_point();
	if (!iw_mapped_call(&c, s, fd, io, flags))
		return -1;
	if (!iw_rings_enter(&c))
		return iw_path(s)->tx(s, fd, io, flags);
	again = s->ring.wrote;
	say_since(s, again);
	s->ring.wrote = true;
	s->ring.pours = false;
	iw_rings_met(s);
	if (!(flags & MSG_OOB) && opens(s))
		err = tx_ring(&c);
	s->ring.used += c.done > 0;
	if (!c.len || (c.done < c.len && !err))
		return wakes(&c, again) ? tx_wake(&c, io) : tx_carrier(&c, io);
	iw_rings_leave(&c);
	errno = saved;
	return c.done || !err ? (ssize_t)c.done : iw_fail(err);
}

/* The kernel moves them: into the carrier. */
ssize_t iw_rings_tx_from(struct iw_stream *s, const struct iw_move *v)
{
	struct iw_mapped_call c = { .s = s, .fd = v->out };
	ssize_t n;

	if (!iw_rings_enter(&c))
		return iw_path(s)->tx_from(s, v);
	say_since(s, false);
	aside(&c);
	n = iw_carrier.tx_from(s, v);
	aside_over(&c, n < (ssize_t)v->len);
	return n;
}
