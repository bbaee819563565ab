// SPDX-License-Identifier: MIT
/* poll and ppoll: the bits of carriers become those of TCP. The waiting itself is the kernel's. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>

#include "deadline.h"
#include "fdtab.h"
#include "kick.h"
#include "lib.h"
#include "opts.h"
#include "path.h"
#include "paths/burst.h"
#include "paths/rings.h"
#include "poll.h"
#include "ready.h"
#include "real.h"
#include "reg.h"
#include "sleeps.h"
#include "spin.h"
#include "stream.h"
#include "sys.h"
#include "tcpstate.h"
#include "turn.h"
#include "user.h"

void __chk_fail(void) __attribute__((noreturn));

#define COPY_MAX 256u
#define LOOK	0x4000	/* revents: what was waited on in the stream's place said something, or something was put in its place */
#define WOKEN	(-2)	/* of a wait that ended before its time, and no entry may be ready */

struct call {
	struct pollfd *p;
	nfds_t n;
	struct iw_deadline d;
	const sigset_t *mask;
	bool with_mask;
	struct iw_slept slept;
};

static int wait_once(const struct call *c, struct pollfd *p, nfds_t n)
{
	struct timespec left, *t = iw_deadline_left(&c->d, &left);

	if (c->with_mask)
		return iw_real.ppoll(p, n, t, c->mask);
	if (!t || (t->tv_nsec % 1000000))
		return iw_real.ppoll(p, n, t, NULL);
	return iw_real.poll(p, n, (int)(t->tv_sec * 1000 + t->tv_nsec / 1000000));
}

/* Awake for a moment, where that paid; but not with signals of its own, whose handlers cannot be put off: afterwards they may be blocked again. */
static int wait_awake(const struct call *c, struct pollfd *v, nfds_t count)
{
	struct iw_spin z;
	long n;

	if (!c->d.end || c->mask)
		return wait_once(c, v, count);
	iw_spin_begin(&z);
	n = iw_spin_poll(&z, v, count);
	if (iw_spin_over(&z) && n <= 0)
		n = iw_fail(EINTR);
	else if (n <= 0)
		n = wait_once(c, v, count);
	iw_spin_end(&z);
	return (int)n;
}

/* Carriers among them are streams of one host, or plain. */
static int wait_carriers(const struct call *c, struct pollfd *v, nfds_t count)
{
	return atomic_load_explicit(&iw_streams_near, memory_order_relaxed) ? wait_awake(c, v, count) : wait_once(c, v, count);
}

/* It was kicked. */
static void seen(const struct call *c, const struct pollfd *kicked)
{
	if (iw_sleeps_still(&c->slept))
		iw_kick_seen(kicked->fd);
}

static int look_once(const struct call *c)
{
	struct call now = *c;

	iw_deadline_ms(&now.d, 0);
	return wait_once(&now, c->p, c->n);
}

/* A stream that is asked for room, which its carrier may not tell of: TCP has room when it is shut for writing. */
static struct iw_stream *wants_room(const struct pollfd *p)
{
	return (p->events & (POLLOUT | POLLWRNORM)) && iw_fd_kind(p->fd) == IW_FD_STREAM ? iw_stream_of(p->fd) : NULL;
}

static bool shut(const struct pollfd *p)
{
	struct iw_stream *s = wants_room(p);

	return s && (atomic_load(&iw_stream_end(s)->shut) & IW_SHUT_WR);
}

/* Some entry is one that another thread's shutdown() may make ready; *now: one is. */
static bool may_be_shut(const struct call *c, bool *now)
{
	bool may = false;

	*now = false;
	for (nfds_t i = 0; i < c->n && !*now; i++) {
		may |= wants_room(&c->p[i]) != NULL;
		*now = shut(&c->p[i]);
	}
	return may;
}

/* SO_RCVLOWAT: a unix socket says POLLIN from the first octet on; TCP waits for that many, or for the end. */
static bool below_lowat(struct iw_stream *s, int fd, short bits)
{
	int low = 1;
	socklen_t l = sizeof(low);

	if (!(bits & (POLLIN | POLLRDNORM)) || !(atomic_load(&iw_stream_end(s)->opts) & IW_SOPT_RCVLOWAT))
		return false;
	if (iw_path(s)->bits(s, fd, POLLRDHUP) & (POLLRDHUP | POLLHUP | POLLERR))
		return false;
	return IW_SYS(getsockopt, fd, SOL_SOCKET, SO_RCVLOWAT, &low, &l) == 0 && (uint64_t)iw_path(s)->inq(s, fd) < (uint64_t)low;
}

/* One reported entry put right. *mute: the kernel says something and TCP would say nothing; it would be repeated at once. */
static void correct(struct pollfd *p, bool *mute)
{
	const short asked = p->events | POLLERR | POLLHUP | POLLNVAL;
	struct iw_stream *s = iw_stream_of(p->fd);

	if (!s && iw_fd_kind(p->fd) == IW_FD_EPOLL && (p->revents & POLLIN) && atomic_load(&iw_reg_mapped) && !iw_ready_set(p->fd))
		p->revents = 0;
	if (!s) {
		p->revents &= ~LOOK;
		return;
	}
	if (p->revents & LOOK || atomic_load(&s->mapped)) {
		p->revents = iw_path(s)->bits(s, p->fd, p->events) & asked;
		if (below_lowat(s, p->fd, p->revents))
			p->revents &= ~(POLLIN | POLLRDNORM);
		if (atomic_load(&s->mapped))	/* else it was given back, and these are the carrier's */
			return;
	}
	*mute = p->revents != 0;
	p->revents = (short)(iw_stream_fix_events(s, p->fd, p->revents) & asked);
	if (below_lowat(s, p->fd, p->revents))
		p->revents &= ~(POLLIN | POLLRDNORM);
	*mute = *mute && !p->revents;
}

/* Number of entries that stay reported. */
static int correct_all(const struct call *c, bool *muted)
{
	int found = 0;

	for (nfds_t i = 0; i < c->n; i++) {
		bool mute = false;

		if (!c->p[i].revents && !shut(&c->p[i]))
			continue;
		correct(&c->p[i], &mute);
		found += c->p[i].revents != 0;
		*muted |= mute;
	}
	return found;
}

/* ---- mapped streams ---- */

static bool has_set(const struct call *c)
{
	for (nfds_t i = 0; i < c->n; i++)
		if (iw_fd_kind(c->p[i].fd) == IW_FD_EPOLL)
			return true;
	return false;
}

/* Sets among them that have something to report are ready. */
static void wake_sets(const struct call *c)
{
	bool any = false;

	for (nfds_t i = 0; i < c->n; i++)
		if (iw_fd_kind(c->p[i].fd) == IW_FD_EPOLL) {
			iw_ready_watched(iw_set_of(c->p[i].fd));
			any = true;
		}
	if (any)
		iw_ready_sets();
}

static struct iw_stream *mapped(const struct pollfd *p)
{
	struct iw_stream *s = iw_stream_of(p->fd);

	return s && atomic_load(&s->mapped) ? s : NULL;
}

/* What is known of it without a system call. */
static short known(struct iw_stream *s, const struct pollfd *p)
{
	short bits = s->known & (p->events | POLLERR | POLLHUP);

	return below_lowat(s, p->fd, bits) ? bits & ~(POLLIN | POLLRDNORM) : bits;
}

/* Is there one? *ready: there is nothing to wait for. */
static bool any_mapped(const struct call *c, bool *ready)
{
	bool any = false;

	*ready = !c->d.end;
	for (nfds_t i = 0; i < c->n; i++) {
		struct iw_stream *s = mapped(&c->p[i]);

		if (s && iw_ringed(s))
			iw_rings_look_at(s, false);
		any |= s != NULL;
		*ready |= s && known(s, &c->p[i]);
	}
	return any;
}

/* Somebody sleeps for them: which these were. */
static void polls(const struct call *c, struct iw_stream **v)
{
	for (nfds_t i = 0; i < c->n; i++) {
		v[i] = iw_stream_of(c->p[i].fd);
		if (v[i])
			iw_ready_polls(v[i]);
	}
}

static void polled(const struct call *c, struct iw_stream **v)
{
	for (nfds_t i = 0; i < c->n; i++)
		if (v[i])
			iw_ready_polled(v[i]);
}

/* What a handler that jumps is to undo. */
static void sleep_begin(struct call *c, int watch, struct iw_stream **v)
{
	struct iw_stream *s[IW_SLEEP_STREAMS + 1];
	uint32_t n = 0;

	for (nfds_t i = 0; i < c->n && n <= IW_SLEEP_STREAMS; i++)
		if (v[i])
			s[n++] = v[i];
	iw_sleep_begin(&c->slept, -1, watch, s, n);
}

/* What to ask the kernel for. Number of those that it need not be asked for. */
static int put_mapped(const struct call *c, struct pollfd *v)
{
	int found = 0;

	for (nfds_t i = 0; i < c->n; i++) {
		struct pollfd *p = &c->p[i];
		struct iw_stream *s = mapped(p);

		if (s && iw_ringed(s))
			iw_rings_look_at(s, c->d.end);
		p->revents = s ? known(s, p) : 0;
		v[i] = *p;
		if (p->revents)
			v[i].fd = -1;
		else if (s)
			v[i] = (struct pollfd){ .fd = iw_stream_wait_fd(s, p->fd), .events = iw_path(s)->wait_events(s, p->events) };
		found += p->revents != 0;
	}
	return found;
}

/* There are rings among them, and nothing else that is mapped. */
static bool has_rings(const struct call *c)
{
	bool any = false;

	for (nfds_t i = 0; i < c->n; i++) {
		struct iw_stream *s = mapped(&c->p[i]);

		if (s && !iw_ringed(s))
			return false;
		any |= s != NULL;
	}
	return any;
}

static bool rings_have(const void *call)
{
	const struct call *c = call;
	bool found = false;

	for (nfds_t i = 0; i < c->n && !found; i++) {
		struct iw_stream *s = mapped(&c->p[i]);

		if (s)
			iw_rings_look_at(s, false);
		found = s && known(s, &c->p[i]);
	}
	return found;
}

/* One wait by a copy in which mapped sockets stand for their streams. WOKEN: it is to be seen what is ready. */
static int wait_mapped(const struct call *c, struct pollfd *v)
{
	bool closed = false, ringed = c->d.end && !c->mask && has_rings(c);
	struct iw_spin z = { 0 };
	struct call now = *c;
	int found, rc = 0;

	if (ringed && iw_spin_have(&z, rings_have, c, v, c->n + 1))
		return iw_fail(EINTR);
	found = put_mapped(c, v);

	if (found)
		iw_deadline_ms(&now.d, 0);
	if ((nfds_t)found < c->n || !iw_mask_ok(c->mask))
		rc = ringed ? wait_once(&now, v, c->n + 1) : wait_awake(&now, v, c->n + 1);
	iw_spin_end(&z);
	for (nfds_t i = 0; i < c->n; i++) {
		closed |= v[i].fd >= 0 && v[i].fd != c->p[i].fd && !mapped(&c->p[i]);	/* the kernel looks once more when time is over */
		if (rc > 0 && !c->p[i].revents && (v[i].fd == c->p[i].fd || !(v[i].revents & POLLNVAL)))
			c->p[i].revents = v[i].fd == c->p[i].fd || !v[i].revents ? v[i].revents : LOOK;
		v[i].fd = c->p[i].fd;
	}
	if (rc > 0 && v[c->n].revents)
		seen(c, &v[c->n]);
	if (rc < 0 && (!found || errno != EINTR))
		return rc;
	return found || rc || closed ? WOKEN : 0;
}

/* ---- mute ones ---- */

static void drain(int ep)
{
	struct epoll_event ev;

	IW_SYS(epoll_pwait, ep, &ev, 1, 0, NULL, 8);
}

/* An edge-triggered epoll set with this one entry: becomes readable when the kernel has something new to say about it. */
static int edge_of(const struct pollfd *p)
{
	struct epoll_event ev = { .events = (uint32_t)(uint16_t)p->events | EPOLLET };
	int ep = (int)IW_SYS(epoll_create1, EPOLL_CLOEXEC);

	if (ep < 0)
		return -1;
	if (IW_SYS(epoll_ctl, ep, EPOLL_CTL_ADD, p->fd, &ev) < 0) {
		IW_SYS(close, ep);
		return -1;
	}
	drain(ep);
	return ep;
}

static short bits_now(const struct pollfd *p)
{
	struct iw_stream *s = iw_fd_kind(p->fd) == IW_FD_STREAM ? iw_stream_of(p->fd) : NULL;

	if (p->fd < 0)
		return 0;
	return s ? iw_path(s)->bits(s, p->fd, p->events) : iw_fd_bits(p->fd, p->events);
}

/* The entry of the caller as it stands now, and what to wait for instead when it is mute. */
static int look(struct pollfd *mine, struct pollfd *p)
{
	bool mute = false;

	p->revents = bits_now(p);
	if (p->revents || shut(p))
		correct(p, &mute);
	if (mapped(p)) {
		if (mine->fd == p->fd)
			mine->fd = (int)IW_SYS(fcntl, iw_stream_wait_fd(mapped(p), p->fd), F_DUPFD_CLOEXEC, 0);
		mine->events = iw_path(mapped(p))->wait_events(mapped(p), p->events);
	} else if (mute && mine->fd == p->fd) {
		mine->fd = edge_of(p);
		mine->events = POLLIN;
		p->revents = bits_now(p);
		if (mine->fd < 0)	/* no descriptor left: better early than never */
			return p->revents != 0;
		/* what came meanwhile is no edge any more */
		if (p->revents || shut(p))
			correct(p, &mute);
	}
	return p->revents != 0;
}

static int wait_edges(const struct call *c, struct pollfd *v)
{
	int rc, found = 0;

	for (nfds_t i = 0; i < c->n; i++)
		found += look(&v[i], &c->p[i]);
	while (!found) {
		rc = wait_once(c, v, c->n + 1);
		if (rc <= 0)
			return rc;
		if (v[c->n].revents) {
			seen(c, &v[c->n]);
			return WOKEN;
		}
		for (nfds_t i = 0; i < c->n; i++) {
			if (v[i].revents && v[i].fd != c->p[i].fd)
				drain(v[i].fd);
			found += look(&v[i], &c->p[i]);
		}
	}
	return found;
}

/* One wait, ended also by somebody's shutdown(). */
static int wait_woken(const struct call *c, struct pollfd *v)
{
	bool now = false;
	int rc;

	if (may_be_shut(c, &now) && now)
		return WOKEN;
	rc = wait_carriers(c, v, c->n + 1);
	if (rc <= 0)
		return rc;
	for (nfds_t i = 0; i < c->n; i++)
		c->p[i].revents = v[i].revents;
	if (v[c->n].revents)
		seen(c, &v[c->n]);
	return v[c->n].revents && rc == 1 ? WOKEN : rc - !!v[c->n].revents;
}

/* Waits by a copy of the array, and one more entry that is kicked. */
static __attribute__((noinline)) int wait_copy(const struct call *c, bool kicked, int (*wait)(const struct call *c, struct pollfd *v))
{
	nfds_t few = c->n <= COPY_MAX ? c->n : 0;	/* the stack may be small */
	struct iw_stream *some_s[few + 1], **s = some_s;
	struct pollfd some_v[few + 1], *v = some_v;
	struct call now = *c;
	size_t size = c->n * sizeof(*s) + (c->n + 1) * sizeof(*v);
	int rc, err, watch;

	if (c->n > COPY_MAX) {
		long r = IW_SYS(mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (r < 0 && r > -4096)
			return (int)iw_ret(-ENOMEM);
		s = (void *)r;
		v = (void *)(r + (long)(c->n * sizeof(*s)));
	}
	memcpy(v, c->p, c->n * sizeof(*v));
	watch = kicked && iw_kick_may() ? iw_kick_watch() : -1;
	v[c->n] = (struct pollfd){ .fd = watch, .events = POLLIN };
	if (watch >= 0) {
		polls(c, s);
		sleep_begin(&now, watch, s);
	}
	rc = wait(&now, v);
	err = errno;
	if (watch >= 0 && iw_sleep_end(&now.slept)) {
		polled(c, s);
		iw_kick_done(watch);
	}
	for (nfds_t i = 0; i < c->n; i++)
		if (v[i].fd >= 0 && v[i].fd != c->p[i].fd)
			IW_SYS(close, v[i].fd);
	if (v != some_v)
		IW_SYS(munmap, s, size);
	errno = err;
	return rc;
}

/* The kernel looks at the array first: it may not be one. */
static int wait_room(const struct call *c, bool now)
{
	int rc = look_once(c);

	if (rc || now || !c->d.end)
		return rc ? rc : now ? WOKEN : 0;
	return wait_copy(c, true, wait_woken);
}

static int poll_streams(const struct call *c)
{
	unsigned int late = 0;

	iw_cancel_point();
	for (;;) {
		uint32_t seq = atomic_load(&iw_reg_swaps);
		bool muted = false, ready, now;
		int rc, found;

		if (atomic_load(&iw_reg_mapped))
			wake_sets(c);
		if (any_mapped(c, &ready))
			rc = wait_copy(c, !ready, wait_mapped);
		else
			rc = may_be_shut(c, &now) && (now || iw_kick_may()) ? wait_room(c, now) : wait_carriers(c, c->p, c->n);
		if (!rc && has_set(c) && iw_reg_was_apart(seq) && late++ < IW_LATE_LOOKS)
			continue;
		if (rc <= 0 && rc != WOKEN)
			return rc;
		found = correct_all(c, &muted);
		if (found)
			return found;
		if (!muted)
			continue;
		rc = wait_copy(c, may_be_shut(c, &now) || any_mapped(c, &ready), wait_edges);	/* with something else in the place of mute entries */
		if (rc != WOKEN)
			return rc;
	}
}

int iw_poll_until(struct pollfd *p, nfds_t n, const struct iw_deadline *d, const sigset_t *mask, bool with_mask)
{
	struct call c = { .p = p, .n = n, .d = *d, .mask = mask, .with_mask = with_mask };

	return poll_streams(&c);
}

/* The array is looked at, and written, before the kernel has seen it. */
static bool bad(struct pollfd *p, nfds_t n)
{
	static __thread struct iw_user_good good __attribute__((tls_model("initial-exec")));

	return n > IW_FD_MAX || !iw_user_writable_still(&good, p, n * sizeof(*p));
}

/* Inside a turn, which the streams among them stay in. */
static int poll_turn(struct pollfd *p, nfds_t n, int ms)
{
	struct call c = { .p = p, .n = n };

	if (!atomic_load_explicit(&iw_streams, memory_order_relaxed) || bad(p, n))
		return iw_real.poll(p, n, ms);
	iw_deadline_ms(&c.d, ms);
	return poll_streams(&c);
}

static inline int do_poll(struct pollfd *p, nfds_t n, int ms)
{
	int rc;

	iw_burst_wait();
	if (!atomic_load_explicit(&iw_movable, memory_order_relaxed))
		return iw_real.poll(p, n, ms);
	iw_turn_poll(p, n);
	rc = poll_turn(p, n, ms);
	iw_turn_end();
	return rc;
}

static int ppoll_turn(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	struct call c = { .p = p, .n = n, .mask = mask, .with_mask = true };

	if (!atomic_load_explicit(&iw_streams, memory_order_relaxed) || bad(p, n) || !iw_deadline_ts(&c.d, t))
		return iw_real.ppoll(p, n, t, mask);
	return poll_streams(&c);
}

static inline int do_ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	int rc;

	iw_burst_wait();
	if (!atomic_load_explicit(&iw_movable, memory_order_relaxed))
		return iw_real.ppoll(p, n, t, mask);
	iw_turn_poll(p, n);
	rc = ppoll_turn(p, n, t, mask);
	iw_turn_end();
	return rc;
}

IW_EXPORT int poll(struct pollfd *p, nfds_t n, int ms)
{
	return do_poll(p, n, ms);
}

IW_EXPORT int ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	return do_ppoll(p, n, t, mask);
}

int __poll_chk(struct pollfd *p, nfds_t n, int ms, size_t size);
int __ppoll_chk(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t size);

IW_EXPORT int __poll_chk(struct pollfd *p, nfds_t n, int ms, size_t size)
{
	if (size / sizeof(*p) < n)
		__chk_fail();
	return do_poll(p, n, ms);
}

IW_EXPORT int __ppoll_chk(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t size)
{
	if (size / sizeof(*p) < n)
		__chk_fail();
	return do_ppoll(p, n, t, mask);
}
