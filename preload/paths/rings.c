// SPDX-License-Identifier: MIT
/* The rings of a joined pair as a path: begin and end, what they hold, and readiness. See rings.h. */
#include <linux/sockios.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "preload/conf.h"
#include "preload/deadline.h"
#include "preload/handlers.h"
#include "preload/map.h"
#include "preload/paths/carrier.h"
#include "preload/paths/carrier_all.h"
#include "preload/paths/rings_priv.h"
#include "preload/ready.h"
#include "preload/spin.h"
#include "preload/sys.h"
#include "preload/tcpstate.h"

#define SEGMENT	(IW_PAGE_RINGS + 2ul * IW_PAGE_RING)
#define ENDS	(POLLRDHUP | POLLHUP | POLLERR | POLLPRI)
#define IN	(POLLIN | POLLRDNORM)
#define OUT	(POLLOUT | POLLWRNORM)

#define JUDGED	128u	/* messages, about, after which it is seen whether they are worth it */
#define MISSED	2u	/* so many that came by the carrier take as long as one by a ring saves */
#define WASTED	2048u	/* calls on the carrier after that, and twice as many each time, */
#define TIMES	5u	/* so often */

struct iw_marks iw_rings_open;

/* ---- begin and end ---- */

bool iw_rings_begin(struct iw_stream *s, int fd, bool full)
{
	struct iw_ring_dir *dir;
	uint8_t *mem;
	long p;

	if (s->segment < SEGMENT)
		return false;
	p = IW_SYS(mremap, s->page, 0, SEGMENT, MREMAP_MAYMOVE, 0);	/* once more, and whole */
	if ((unsigned long)p > -4096ul)
		return false;
	mem = (uint8_t *)p;
	dir = (struct iw_ring_dir *)(mem + IW_PAGE_DIRS);
	s->ring = (struct iw_stream_ring){
		.segment = mem, .fd = fd, .slot = iw_word_val(iw_stream_word(s)),
		.tx = { .dir = &dir[s->end], .mem = mem + IW_PAGE_RINGS + s->end * IW_PAGE_RING, .len = IW_PAGE_RING },
		.rx = { .dir = &dir[!s->end], .mem = mem + IW_PAGE_RINGS + !s->end * IW_PAGE_RING, .len = IW_PAGE_RING },
	};
	iw_ring_begin(&s->ring.rx);
	s->ring.told = s->ring.rx.pos;
	s->map_full = full;
	s->known = full ? IW_KNOWN_MORE : OUT;
	atomic_store(&iw_stream_end(s)->ringed, 1);
	return true;
}

size_t iw_rings_left(struct iw_stream *s)
{
	ssize_t n = iw_ring_left(&s->ring.rx);

	return n > 0 ? (size_t)n : 0;
}

size_t iw_rings_close(struct iw_stream *s)
{
	iw_ring_shut(&s->ring.rx);
	iw_unmark(&iw_rings_open, s->ring.slot);
	return iw_rings_left(s);
}

size_t iw_rings_end(struct iw_stream *s)
{
	iw_ring_leave(&s->ring.tx);
	return iw_rings_close(s);
}

bool iw_rings_hold(struct iw_stream *s, bool away, uint32_t *epoch, bool *rest)
{
	struct iw_mapped_call c = { .s = s };

	if (!iw_rings_enter(&c))
		return false;
	*epoch = c.epoch;
	s->ring.ends = true;
	*rest = iw_rings_end(s) && (away || !iw_rings_behind(atomic_load(&s->mapped)));
	atomic_store(&s->held, true);
	iw_map_unlock(s, &c.st);
	return true;
}

bool iw_rings_behind(int carrier)
{
	return iw_fd_bits(carrier, POLLIN | POLLRDHUP) & (POLLIN | POLLRDHUP | POLLHUP);
}

bool iw_rings_hold_rest(struct iw_stream *s)
{
	struct iw_mapped_call c = { .s = s };
	bool held;

	iw_rings_lock(&c);
	held = iw_path(s) == &iw_rest && iw_rings_left(s);
	atomic_store(&s->held, held);
	iw_map_unlock(s, &c.st);
	return held;
}

void iw_rings_unmap(struct iw_stream *s)
{
	atomic_store(&iw_stream_end(s)->ringed, 0);
	IW_SYS(munmap, s->ring.segment, SEGMENT);
	s->ring.segment = NULL;
}

void iw_rings_gone(struct iw_stream *s)
{
	struct iw_step st;

	iw_map_lock(s, &st);
	if (s->ring.segment)
		iw_map_rest_over(s);
	iw_map_unlock(s, &st);
}

void iw_rings_ended(struct iw_stream *s)
{
	atomic_store(&s->ring_over, true);
	iw_ring_leave(&s->ring.tx);
}

/* ---- offered, and pulled into ---- */

/* Positions begin anew where nothing is left: what was told of goes with them. */
static void moved(struct iw_stream *s, uint64_t was)
{
	s->ring.told += s->ring.rx.pos - was;
}

/* Somebody of this process sleeps for it: who is about to says so before he takes the lock. */
static bool waited_for(struct iw_stream *s)
{
	return s->ring.sleepers || atomic_load(&s->polled) || iw_ready_slept(s);
}

void iw_rings_offer(struct iw_stream *s)
{
	uint64_t was = s->ring.rx.pos;

	if (s->ring.ends || !iw_ring_is_shut(&s->ring.rx) || iw_rings_left(s) || atomic_load_explicit(&s->ring_over, memory_order_relaxed) || waited_for(s))
		return;
	iw_ring_offer(&s->ring.rx);
	s->ring.pulled = false;
	moved(s, was);
	iw_mark(&iw_rings_open, s->ring.slot);
}

/* What wakes is in the carrier, and comes before what followed it into the ring, so it goes there first. */
static void disarm(struct iw_stream *s)
{
	uint8_t *mem;
	size_t behind = iw_ring_disarm(&s->ring.rx, &mem);
	long n;

	s->ring.armed = false;
	if (behind) {
		iw_rings_missed(s, (ssize_t)behind);
		n = iw_carrier_received(s, IW_SYS(recvfrom, atomic_load(&s->mapped), mem, behind, MSG_DONTWAIT, NULL, NULL));
		iw_ring_filled(&s->ring.rx, behind, n > 0 ? (size_t)n : 0);
	}
	if (!behind || waited_for(s))	/* they are told, and woken by the carrier from now on */
		iw_rings_close(s);
}

/* Who sleeps in a call that receives could not be told of what another thread puts into the ring, so there must be none. */
bool iw_rings_arm(struct iw_stream *s, bool calls)
{
	uint64_t was = s->ring.rx.pos, now;

	if (s->ring.ends || !s->ring.oneway || s->ring.armed || s->ring.sleepers || (calls && !iw_handlers_alone()) || !iw_ring_is_shut(&s->ring.rx) || iw_rings_left(s) ||
	    atomic_load_explicit(&s->ring_over, memory_order_relaxed))
		return false;
	now = (uint64_t)iw_mono_ns();
	s->ring.arm = now > s->ring.arm + IW_PAGE_RING ? now : s->ring.arm + IW_PAGE_RING;
	if (!iw_ring_move(&s->ring.rx, s->ring.arm))
		return false;
	moved(s, was);
	if (iw_carrier.inq(s, atomic_load(&s->mapped)) || !iw_ring_arm(&s->ring.rx))
		return false;
	s->ring.armed = true;
	iw_mark(&iw_rings_open, s->ring.slot);
	return true;
}

long iw_rings_pull(struct iw_stream *s)
{
	uint64_t was = s->ring.rx.pos;
	size_t len;
	uint8_t *p = iw_ring_free(&s->ring.rx, &len);
	long n = len ? iw_carrier_received(s, IW_SYS(recvfrom, atomic_load(&s->mapped), p, len, MSG_DONTWAIT, NULL, NULL)) : 0;

	if (n > 0) {
		iw_rings_missed(s, n);
		s->ring.pulled = true;
		iw_ring_staged(&s->ring.rx, (size_t)n);
		moved(s, was);
	}
	return n;
}

bool iw_rings_wasted(struct iw_stream *s)
{
	struct iw_stream_ring *r = &s->ring;
	bool wasted = r->missed > MISSED * r->used && atomic_load_explicit(&iw_conf_rings, memory_order_relaxed) != IW_RINGS_ALWAYS;

	if (iw_likely(r->used + r->missed < JUDGED))
		return false;
	if (wasted && (r->senders || r->sleepers || atomic_load(&s->polled) || iw_rings_close(s)))	/* after another one */
		return false;
	r->used = r->missed = 0;
	if (wasted)
		atomic_store_explicit(&s->map_rest, WASTED << s->ring_waste, memory_order_relaxed);
	if (!wasted)
		s->ring_waste = 0;
	else if (s->ring_waste < TIMES)
		s->ring_waste++;
	return wasted;
}

/* ---- a call ---- */

void iw_rings_lock(struct iw_mapped_call *c)
{
	iw_map_lock_still(c->s, &c->st);
	if (iw_unlikely(c->s->ring.armed) && iw_ringed(c->s))
		disarm(c->s);
}

bool iw_rings_enter(struct iw_mapped_call *c)
{
	iw_rings_lock(c);
	c->epoch = atomic_load_explicit(&c->s->map_epoch, memory_order_relaxed);
	if (iw_likely(iw_ringed(c->s)))
		return true;
	iw_map_unlock(c->s, &c->st);
	return false;
}

bool iw_rings_again(struct iw_mapped_call *c)
{
	iw_rings_lock(c);
	if (iw_likely(iw_ringed(c->s) && atomic_load_explicit(&c->s->map_epoch, memory_order_relaxed) == c->epoch))
		return true;
	iw_map_unlock(c->s, &c->st);
	return false;
}

/* What those who wait are to be told, and whether they are. */
static bool news(struct iw_stream *s, short *what)
{
	size_t n = iw_rings_left(s);
	uint64_t at = s->ring.rx.pos + n;
	short now = (short)((n ? IN : 0) | (s->map_full ? IW_KNOWN_MORE : OUT)), more = (short)(now & ~s->known);

	*what = (short)((n && at != s->ring.told ? POLLIN : 0) | (more & POLLOUT));
	s->ring.told = at;
	s->known = now;
	return *what || (more & IW_KNOWN_MORE);
}

void iw_rings_met(struct iw_stream *s)
{
	_Atomic uint32_t *mine = &iw_stream_end(s)->cpu;
	uint32_t here = (uint32_t)sched_getcpu() + 1;

	if (iw_unlikely(atomic_load_explicit(mine, memory_order_relaxed) != here))
		atomic_store_explicit(mine, here, memory_order_relaxed);
	iw_spin_met(here, atomic_load_explicit(&iw_stream_other(s)->cpu, memory_order_relaxed));
}

void iw_rings_leave(struct iw_mapped_call *c)
{
	short what;
	bool tell = news(c->s, &what);

	iw_map_unlock(c->s, &c->st);
	if (tell)
		iw_ready(c->s, c->fd, what);
}

/* ---- what it holds ---- */

/* Has the carrier come to its end? What it has got comes into the ring, if nobody sleeps in a call on it. */
static bool over(struct iw_stream *s)
{
	long n;

	if (iw_rings_close(s) || s->ring.sleepers)
		return iw_fd_bits(atomic_load(&s->mapped), POLLRDHUP | POLLPRI) & ENDS;
	n = iw_rings_pull(s);
	return n <= 0 && n != -EAGAIN && n != -EINTR;
}

static short rings_step(struct iw_stream *s, int fd, bool some)
{
	struct iw_mapped_call c = { .s = s, .fd = fd };
	short what;
	bool ended;

	if (!iw_rings_enter(&c))
		return 0;
	ended = over(s);
	if (ended)
		iw_rings_ended(s);
	if (s->map_full)
		s->map_full = !(iw_fd_bits(atomic_load(&s->mapped), POLLOUT) & POLLOUT);
	news(s, &what);
	iw_map_unlock(s, &c.st);
	if (ended)
		iw_map_give(fd, s);
	return what;
}

static short rings_bits(struct iw_stream *s, int fd, short events)
{
	struct iw_mapped_call c = { .s = s, .fd = fd };
	short bits;

	if (!iw_rings_enter(&c))
		return iw_path(s)->bits(s, fd, events);
	bits = iw_rings_close(s) ? IN : 0;
	bits |= iw_fd_bits(atomic_load(&s->mapped), (short)(events | POLLRDHUP | POLLPRI));
	if (events & OUT)
		s->map_full = !(bits & OUT);	/* as is known from now on: who asks again may not be told something else */
	if (bits & ENDS)
		iw_rings_ended(s);
	iw_rings_leave(&c);
	if (!(bits & ENDS))
		return bits & events;
	iw_map_give(fd, s);
	return iw_path(s)->bits(s, fd, events);
}

static short rings_wait_events(struct iw_stream *s, short events)
{
	return events;
}

static long rings_inq(struct iw_stream *s, int fd)
{
	struct iw_mapped_call c = { .s = s, .fd = fd };
	long n, q = 0;

	if (!iw_rings_enter(&c))
		return iw_path(s)->inq(s, fd);
	n = (long)iw_rings_left(s);
	if (!iw_ring_takes(&s->ring.rx, false)) {
		n = (long)iw_rings_close(s);
		q = iw_carrier.inq(s, fd);
	}
	iw_rings_leave(&c);
	return q < 0 ? q : n + q;
}

static int rings_outq(struct iw_stream *s, int fd, bool unsent)
{
	return iw_carrier.outq(s, fd, unsent);
}

/* Ends come behind what is in the rings. */
static int rings_shutdown(struct iw_stream *s, int fd, int how)
{
	struct iw_mapped_call c = { .s = s, .fd = fd };

	if (iw_rings_enter(&c)) {
		iw_ring_leave(&s->ring.tx);
		iw_rings_leave(&c);
	}
	return iw_carrier.shutdown(s, fd, how);
}

static ssize_t rings_rx_into(struct iw_stream *s, const struct iw_move *v)
{
	iw_map_give(v->in, s);
	return iw_path(s)->rx_into(s, v);
}

const struct iw_path_ops iw_rings = {
	.tx = iw_rings_tx,
	.rx = iw_rings_rx,
	.tx_from = iw_rings_tx_from,
	.rx_into = rings_rx_into,
	.bits = rings_bits,
	.wait_events = rings_wait_events,
	.step = rings_step,
	.inq = rings_inq,
	.outq = rings_outq,
	.shutdown = rings_shutdown,
};

/* ---- readiness ---- */

bool iw_rings_still(struct iw_stream *s)
{
	struct iw_mapped_call c = { .s = s };

	if (!iw_rings_enter(&c))
		return false;
	c.fd = s->ring.fd;
	atomic_store(&s->ring_over, true);
	iw_rings_close(s);
	iw_rings_leave(&c);
	return true;
}

void iw_rings_shut(struct iw_stream *s)
{
	struct iw_step st;

	iw_map_lock(s, &st);	/* who gives it up waits for iw_tab_lock: it is shut then */
	if (iw_ringed(s) && s->ring.armed)
		disarm(s);
	if (iw_ringed(s) && iw_rings_close(s))
		s->known |= IN;
	iw_map_unlock(s, &st);
}

void iw_rings_look_at(struct iw_stream *s, bool sleeps)
{
	struct iw_mapped_call c = { .s = s };

	if (!iw_rings_enter(&c))
		return;
	c.fd = s->ring.fd;
	if (sleeps && !iw_rings_close(s))
		iw_rings_arm(s, false);
	iw_rings_leave(&c);
}

bool iw_rings_look(uint32_t set, bool sleeps)
{
	bool found = false;

	for (uint32_t i = iw_marked(&iw_rings_open, 0); i != UINT32_MAX; i = iw_marked(&iw_rings_open, i + 1)) {
		struct iw_stream *s = iw_stream_at(i);

		if (!iw_ready_in(s, set))
			continue;
		iw_rings_look_at(s, sleeps);
		found |= s->known & POLLIN;
	}
	return found;
}
