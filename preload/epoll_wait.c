// SPDX-License-Identifier: MIT
/*
 * epoll_wait() and its like: the wait stays the kernel's, with the few event bits put right in which a carrier differs from TCP.
 *
 * An event that the old registration of a swapped fd left behind is dropped, and the new registration is armed again, so that
 * it reports by itself: no edge and no ONESHOT is lost, none is delivered twice.
 */
#include <errno.h>
#include <poll.h>

#include "deadline.h"
#include "fdinfo.h"
#include "fdtab.h"
#include "lib.h"
#include "lock.h"
#include "path.h"
#include "ready.h"
#include "paths/burst.h"
#include "paths/rings.h"
#include "real.h"
#include "reg.h"
#include "spin.h"
#include "stream.h"
#include "sys.h"
#include "tcpstate.h"
#include "user.h"

IW_EXPORT int epoll_wait(int epfd, struct epoll_event *ev, int n, int ms);
IW_EXPORT int epoll_pwait(int epfd, struct epoll_event *ev, int n, int ms, const sigset_t *ss);
IW_EXPORT int epoll_pwait2(int epfd, struct epoll_event *ev, int n, const struct timespec *t, const sigset_t *ss);

#define BATCH	64
#define AWAKE_MS 2	/* a wait that may be shorter is the kernel's */
#define KNOWN	IW_LOOK_KNOWN

struct hit {
	int fd;			/* -1: not ours */
	uint32_t swapped, mask;
	bool raw, room, fired;
};

#define CHANGED_BITS (EPOLLERR | EPOLLHUP | EPOLLRDHUP)

/* Can these events be those of this stream? The kernel says them by their data only, which may stand for several fds. */
static bool may_have(int fd, uint32_t events)
{
	struct iw_stream *s = iw_stream_of(fd);

	events &= CHANGED_BITS;
	return !events || !s || !(events & ~(uint32_t)(uint16_t)iw_path(s)->bits(s, fd, POLLRDHUP));
}

/* Which of our fds do these events belong to? With equal data for several, one that was just swapped. */
static void hits(int epfd, const struct epoll_event *ev, int n, uint32_t seq, struct hit *h)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);

	for (int i = 0; i < n; i++) {
		h[i] = (struct hit){ .fd = -1 };
		for (struct iw_reg *r = NULL; (r = iw_reg_by_data(epfd, ev[i].data.u64, r));) {
			bool moved = (int32_t)(r->swapped - seq) > 0;

			if (iw_fd_kind(r->fd) == IW_FD_EPOLL)
				continue;
			if (!moved && !may_have(r->fd, ev[i].events))
				continue;
			r->fired |= r->moving && (r->events & EPOLLONESHOT);	/* this was its one event */
			h[i] = (struct hit){ r->fd, r->swapped, r->events, r->raw, r->room, r->fired };
			if (moved)
				break;
		}
	}
	iw_unlock(&iw_tab_lock, sigs);
}

/* Is some stream whose registrations we do not know hung up, so that an event that nobody explains may be its? */
static bool unexplained(int epfd)
{
	int high = atomic_load(&iw_fd_high);
	bool found = false;

	for (int fd = 0; fd <= high && !found; fd++) {
		struct iw_stream *s = iw_stream_of(fd);
		uint64_t sigs;

		if (!s || !(iw_path(s)->bits(s, fd, 0) & (POLLHUP | POLLERR)))
			continue;
		sigs = iw_lock(&iw_tab_lock);
		found = !iw_reg_find(fd, epfd);
		iw_unlock(&iw_tab_lock, sigs);
	}
	return found;
}

/* One entry of a set as the kernel lists it: a registration made, and perhaps changed, by a raw system call or by io_uring. */
static void learn_line(int epfd, const char *line)
{
	struct iw_tfd t;
	struct epoll_event ev;
	struct iw_reg *r;
	uint64_t sigs;

	if (!iw_tfd_parse(line, &t) || iw_fd_kind(t.fd) != IW_FD_STREAM || iw_fd_ino(t.fd) != t.ino)
		return;
	ev = (struct epoll_event){ .events = t.events, .data.u64 = t.data };
	sigs = iw_lock(&iw_tab_lock);
	r = iw_reg_find(t.fd, epfd);
	if (!r || r->raw) {
		if (r)
			iw_reg_del(r);
		iw_reg_add(t.fd, epfd, &ev);
		r = iw_reg_find(t.fd, epfd);
		if (r)
			r->raw = true;
	}
	iw_unlock(&iw_tab_lock, sigs);
}

/* The kernel is asked what is in the set. */
static bool learn(int epfd)
{
	struct iw_fdinfo f;
	const char *line;

	if (iw_fdinfo_open(&f, epfd))
		return false;
	while ((line = iw_fdinfo_line(&f)))
		learn_line(epfd, line);
	iw_fdinfo_close(&f);
	return true;
}

/* Report again whatever is ready. park: it is ready with nothing that TCP would show, so keep it out until something changes. */
static void rearm(int epfd, int fd, bool park)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct iw_reg *r = iw_reg_find(fd, epfd);

	if (r && !r->parked)
		r->fired = false;	/* it was not reported */
	if (r && r->raw && park && !(r->events & (EPOLLONESHOT | EPOLLEXCLUSIVE))) {
		r->events |= EPOLLET;	/* once more, then when something changes */
		iw_reg_ctl(r, EPOLL_CTL_MOD);
	} else if (r && !r->parked) {
		if (park || (r->events & EPOLLEXCLUSIVE))
			iw_reg_ctl(r, EPOLL_CTL_DEL);
		if (park) {
			iw_reg_room_drop(r);
			r->parked = true;
		}
		else
			iw_reg_ctl(r, r->events & EPOLLEXCLUSIVE ? EPOLL_CTL_ADD : EPOLL_CTL_MOD);
	}
	iw_unlock(&iw_tab_lock, sigs);
}

enum verdict {
	DROPPED,
	KEPT,		/* with corrected bits */
	MOVED,		/* dropped; the carrier's registration reports by itself */
};

static enum verdict judge(int epfd, struct epoll_event *ev, const struct hit *h, uint32_t seq)
{
	uint32_t w = h->fd < 0 ? 0 : iw_word(h->fd), bits;
	bool swapped = (int32_t)(h->swapped - seq) > 0;
	struct iw_stream *s;

	if (iw_word_kind(w) == IW_FD_SWITCHING)
		w = iw_word_ungated(w);
	if (iw_word_kind(w) != IW_FD_STREAM)
		return KEPT;
	if (swapped && !h->fired) {
		rearm(epfd, h->fd, false);
		return MOVED;
	}
	s = ev->events & CHANGED_BITS ? iw_stream_of(h->fd) : NULL;
	if (!s || !iw_stream_verify(h->fd, s))
		return KEPT;
	bits = (uint16_t)iw_stream_fix_events(s, h->fd, (short)ev->events) & (h->mask | EPOLLERR | EPOLLHUP);
	if (bits) {
		ev->events = bits;
		return KEPT;
	}
	if (!(h->mask & EPOLLET) || (h->mask & EPOLLONESHOT))
		rearm(epfd, h->fd, true);
	return DROPPED;
}

static bool interesting(const struct epoll_event *ev, int n, uint32_t seq)
{
	if (atomic_load(&iw_reg_swaps) != seq || atomic_load(&iw_reg_rooms) || atomic_load(&iw_gates))
		return true;
	if (!atomic_load(&iw_streams))
		return false;
	for (int i = 0; i < n; i++)
		if (ev[i].events & CHANGED_BITS)
			return true;
	return false;
}

/* Is one of these events a stream's that we do not know, or of which the program may have changed what we know? */
static bool unknown(int epfd, const struct epoll_event *ev, const struct hit *h, int n)
{
	bool foreign = false;

	if (!atomic_load(&iw_streams))
		return false;
	for (int i = 0; i < n; i++) {
		if (!(ev[i].events & (EPOLLHUP | EPOLLERR)))
			continue;
		if (h[i].fd >= 0 && h[i].raw)
			return true;
		foreign |= h[i].fd < 0;
	}
	return foreign && unexplained(epfd);
}

static void fired(int epfd, int fd)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct iw_reg *r = iw_reg_find(fd, epfd);

	if (r && !r->parked) {
		iw_reg_room_drop(r);
		iw_reg_ctl(r, EPOLL_CTL_DEL);
		r->parked = r->fired = true;
	}
	iw_unlock(&iw_tab_lock, sigs);
}

/* Two descriptors report for one registration: their events are one, and what reports once has done so with either. */
static int keep_room(int epfd, struct epoll_event *ev, int kept, const struct epoll_event *e, const struct hit *h)
{
	int i = 0;

	if (h->mask & EPOLLONESHOT)
		fired(epfd, h->fd);
	while (i < kept && ev[i].data.u64 != e->data.u64)
		i++;
	if (i < kept)
		ev[i].events |= e->events;
	else
		ev[kept++] = *e;
	return kept;
}

static int judge_all(int epfd, struct epoll_event *ev, int n, uint32_t seq, int *moved)
{
	struct hit h[BATCH];
	int kept = 0;

	for (int i = 0; i < n; i += BATCH) {
		int k = n - i < BATCH ? n - i : BATCH;

		hits(epfd, ev + i, k, seq, h);
		if (unknown(epfd, ev + i, h, k) && learn(epfd))
			hits(epfd, ev + i, k, seq, h);
		for (int j = 0; j < k; j++) {
			enum verdict v = judge(epfd, &ev[i + j], &h[j], seq);

			if (v == KEPT && h[j].room)
				kept = keep_room(epfd, ev, kept, &ev[i + j], &h[j]);
			else if (v == KEPT)
				ev[kept++] = ev[i + j];
			*moved += v == MOVED;
		}
	}
	return kept;
}

/* To the events that are there add those behind them, but that of the same data is one. Returns how many there are then. */
static int join(struct epoll_event *ev, int have, int more)
{
	int n = have;

	for (int i = have; i < have + more; i++) {
		int j = 0;

		while (j < have && ev[j].data.u64 != ev[i].data.u64)
			j++;
		if (j < have)
			ev[j].events |= ev[i].events;
		else
			ev[n++] = ev[i];
	}
	return n;
}

struct wait {
	enum { WAIT, PWAIT, PWAIT2 } call;
	int epfd, n;
	struct epoll_event *ev;
	int ms;
	const struct timespec *t;
	const sigset_t *ss;
	struct timespec left;	/* what t points to once we have waited */
};

static int wait_once(const struct wait *w)
{
	switch (w->call) {
	case WAIT:
		return iw_real.epoll_wait(w->epfd, w->ev, w->n, w->ms);
	case PWAIT:
		return iw_real.epoll_pwait(w->epfd, w->ev, w->n, w->ms, w->ss);
	default:
		return iw_real.epoll_pwait2(w->epfd, w->ev, w->n, w->t, w->ss);
	}
}

/* Of those in the set with this data: a set, whose number is returned; its events; or -1: something else is among them, or there is none. */
static int nested(int epfd, uint64_t data, uint32_t *events)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	struct iw_reg *r = iw_reg_by_data(epfd, data, NULL);
	int inner = r && !iw_reg_by_data(epfd, data, r) && iw_fd_kind(r->fd) == IW_FD_EPOLL ? r->fd : -1;

	if (inner >= 0)
		*events = r->events;
	iw_unlock(&iw_tab_lock, sigs);
	return inner;
}

/* A set is ready for the program if it would find something there. */
static int review_sets(int epfd, struct epoll_event *ev, int n)
{
	int kept = 0;

	for (int i = 0; i < n; i++) {
		uint32_t events = 0;
		int inner = nested(epfd, ev[i].data.u64, &events);

		if (inner < 0 || iw_ready_set(inner))
			ev[kept++] = ev[i];
		else if (events & EPOLLONESHOT)
			rearm(epfd, inner, false);
	}
	return kept;
}

/* What stands of events that the kernel gave, of mapped streams too, which stand first. *moved: of so many dropped ones the carrier reports by itself. */
static int sift(struct iw_look *l, int epfd, struct epoll_event *ev, int n, uint32_t seq, int *moved)
{
	bool mapped = atomic_load(&iw_reg_mapped);
	int rest = n, found = mapped ? iw_look_at(l, ev, n, &rest) : 0;

	ev += found;
	if (rest && mapped && atomic_load(&iw_reg_nested))
		rest = review_sets(epfd, ev, rest);
	if (rest && interesting(ev, rest, seq))
		rest = judge_all(epfd, ev, rest, seq, moved);
	return found + rest;
}

/*
 * What the kernel said at the same time is said at the same time: the carriers of those that moved report now. Level-triggered ones that
 * were reported come again, in turn, so that as many are asked for as there is room left until all had theirs.
 */
static int with_moved(struct iw_look *l, const struct wait *w, int kept, int moved)
{
	int turns = kept / (w->n - kept) + 1, want = kept + moved, ignored = 0;

	while (turns-- > 0 && kept < want && kept < w->n) {
		uint32_t seq = atomic_load(&iw_reg_swaps);
		long n = IW_SYS(epoll_pwait, w->epfd, w->ev + kept, w->n - kept, 0, NULL, 8);

		if (n <= 0)
			break;
		kept = join(w->ev, kept, sift(l, w->epfd, w->ev + kept, (int)n, seq, &ignored));
	}
	return kept;
}

static int review_look(struct iw_look *l, const struct wait *w, int n, uint32_t seq)
{
	int saved = errno, moved = 0;

	n = sift(l, w->epfd, w->ev, n, seq, &moved);
	if (n && moved)
		n = with_moved(l, w, n, moved);
	errno = saved;
	return n;
}

/* What is known is said with what the kernel says at the same time, for which there is always room left, or every other time. */
static int with_known(struct iw_look *l, const struct wait *w, uint32_t seq)
{
	int room = w->n > KNOWN ? KNOWN : w->n > 1 ? w->n - 1 : (int)(l->nr & 1), known = iw_look_known(l, w->ev, room);
	struct wait more = *w;
	long n;

	if (!known && (room || !iw_look_wants(l)))
		return 0;
	more.ev += known;
	more.n -= known;
	n = more.n ? IW_SYS(epoll_pwait, w->epfd, more.ev, more.n, 0, NULL, 8) : 0;
	if (n > 0)
		known += review_look(l, &more, (int)n, seq);
	else if (known < w->n && known < KNOWN)
		known += iw_look_known(l, w->ev + known, (w->n < KNOWN ? w->n : KNOWN) - known);
	if (!known)
		known = iw_look_known(l, w->ev, 1);
	iw_look_order(l, w->ev, known);
	return known;
}

/* As many as there is use for can be written to. */
static bool writable(struct epoll_event *ev, int n)
{
	static __thread struct iw_user_good good __attribute__((tls_model("initial-exec")));

	return n > 0 && iw_user_writable_still(&good, ev, (size_t)(n < KNOWN ? n : KNOWN) * sizeof(*ev));
}

/* Awake for a moment, where that paid; but not with signals of its own, as poll.c says. */
static int wait_some(const struct wait *w)
{
	struct iw_spin z;
	long n = 0;

	if ((w->call == PWAIT2 ? w->t && !w->left.tv_sec : (unsigned int)w->ms < AWAKE_MS) || (w->call != WAIT && w->ss))
		return wait_once(w);
	iw_spin_begin(&z);
	while (!n && iw_spin_on(&z))
		n = IW_SYS(epoll_pwait, w->epfd, w->ev, w->n, 0, NULL, 8);
	if (iw_spin_over(&z) && n <= 0)
		n = iw_fail(EINTR);
	else if (n <= 0)
		n = wait_once(w);
	iw_spin_end(&z);
	return (int)n;
}

/* Does it return at once, whatever there is? */
static bool at_once(const struct wait *w)
{
	return w->call == PWAIT2 ? w->t && !w->left.tv_sec && !w->left.tv_nsec : !w->ms;
}

static bool set_has(const void *set)
{
	return iw_rings_look(*(const uint32_t *)set, false);
}

static int what_is_known(struct iw_look *l, const struct wait *w, uint32_t seq)
{
	return iw_look_any() && writable(w->ev, w->n) && iw_mask_ok(w->ss) ? with_known(l, w, seq) : 0;
}

static int known_of_rings(struct iw_look *l, const struct wait *w, uint32_t seq, bool sleeps)
{
	if (iw_rings_look(l->set, sleeps))
		iw_rings_look(l->set, false);	/* and what came before that, into one that was looked at before it */
	return what_is_known(l, w, seq);
}

/* With mapped streams in some set. *none: so many events that the kernel gave, of which none stands: it has not said that the time is over. */
static int wait_look(const struct wait *w, int *none)
{
	uint32_t seq = atomic_load(&iw_reg_swaps);
	struct iw_look l;
	bool ringed = iw_rings_any(), sleeps = !at_once(w);
	struct pollfd p = { .fd = w->epfd, .events = POLLIN };
	struct iw_spin z = { 0 };
	int n, given = 0;

	*none = 0;
	iw_look_begin(&l, w->epfd);
	iw_set_waited(w->epfd, l.set);
	n = ringed ? known_of_rings(&l, w, seq, false) : 0;
	if (ringed && !n && sleeps && (w->call == WAIT || !w->ss) && iw_spin_have(&z, set_has, &l.set, &p, 1)) {
		iw_look_end(&l);
		return iw_fail(EINTR);
	}
	iw_look_sleeps(&l);
	if (atomic_load(&iw_reg_nested) && iw_look_any())
		iw_ready_sets();
	if (!n)
		n = ringed ? known_of_rings(&l, w, seq, sleeps) : what_is_known(&l, w, seq);
	if (!n) {
		n = atomic_load_explicit(&iw_reg_mapped, memory_order_relaxed) || atomic_load_explicit(&iw_streams_near, memory_order_relaxed) ?
			    (ringed ? wait_once(w) : wait_some(w)) : wait_once(w);
		given = n;
	}
	iw_spin_end(&z);
	iw_look_woke(&l);
	if (given > 0) {
		n = review_look(&l, w, given, seq);
		*none = n ? 0 : given;
	}
	iw_look_end(&l);
	return n;
}

/* Until something stands, or the kernel has nothing in the time that is left. */
static int wait_for(struct wait *w)
{
	struct iw_deadline d;
	unsigned int late = 0;
	uint32_t seq;
	int n, none;
	bool over, more;

	iw_cancel_point();
	if (w->call != PWAIT2)
		iw_deadline_ms(&d, w->ms);
	else if ((w->t && iw_copy_in(&w->left, w->t, sizeof(w->left))) || !iw_deadline_ts(&d, w->t ? &w->left : NULL))
		return wait_once(w);
	for (;;) {
		over = at_once(w);
		seq = atomic_load(&iw_reg_swaps);
		n = wait_look(w, &none);
		/* behind as many as there was room for may be others; but not for ever, as some may be there each time */
		more = none && !(over && none < w->n);
		if (n || !(more || iw_reg_was_apart(seq)) || (over && ++late == IW_LATE_LOOKS))
			return n;
		w->t = iw_deadline_left(&d, &w->left);
		if (w->t)
			w->ms = (int)(w->left.tv_sec * 1000 + (w->left.tv_nsec + 999999) / 1000000);
	}
}

static int wait_any(struct wait *w)
{
	static const struct timespec at_last = { 0 };
	struct iw_look l;
	uint32_t seq;
	int n;

	iw_burst_wait();
	if (atomic_load_explicit(&iw_streams, memory_order_relaxed) || atomic_load_explicit(&iw_reg_mapped, memory_order_relaxed))
		return wait_for(w);
	/* No stream so far, nor an entry of ours in a set: the kernel's call and nothing else, unless another thread's first switch came in between. */
	seq = atomic_load(&iw_reg_swaps);
	n = wait_once(w);
	if (!n && iw_reg_was_apart(seq)) {		/* the time is over */
		w->ms = 0;
		w->t = w->t ? &at_last : NULL;
		return wait_for(w);
	}
	if (n <= 0 || (atomic_load(&iw_reg_swaps) == seq && !atomic_load(&iw_gates)))
		return n;
	iw_look_begin(&l, w->epfd);
	n = review_look(&l, w, n, seq);
	iw_look_end(&l);
	return n ? n : wait_for(w);
}

int epoll_wait(int epfd, struct epoll_event *ev, int n, int ms)
{
	struct wait w = { .call = WAIT, .epfd = epfd, .ev = ev, .n = n, .ms = ms };

	return wait_any(&w);
}

int epoll_pwait(int epfd, struct epoll_event *ev, int n, int ms, const sigset_t *ss)
{
	struct wait w = { .call = PWAIT, .epfd = epfd, .ev = ev, .n = n, .ms = ms, .ss = ss };

	return wait_any(&w);
}

int epoll_pwait2(int epfd, struct epoll_event *ev, int n, const struct timespec *t, const sigset_t *ss)
{
	struct wait w = { .call = PWAIT2, .epfd = epfd, .ev = ev, .n = n, .t = t, .ss = ss };

	return wait_any(&w);
}
