// SPDX-License-Identifier: MIT
/*
 * Readiness of mapped streams: which registrations have something to report that the kernel does not tell of, and who sleeps meanwhile.
 *
 * A registration is marked when there may be something to report, by whoever made it so; he kicks the set then, if somebody waits for it. Who
 * waits says so first and looks at the marked ones of his set then: one of the two sees the other. A mark goes when a look finds nothing, and
 * comes back when a second look, behind that, does. No lock: the common calls cannot afford the system calls that block signals.
 */
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/single_threaded.h>

#include "kick.h"
#include "lock.h"
#include "map.h"
#include "marks.h"
#include "fdtab.h"
#include "path.h"
#include "paths/mapped.h"
#include "paths/rings.h"
#include "ready.h"
#include "reg.h"
#include "tcpstate.h"

#define SETS	256u	/* sets of the same remainder are kicked together */
#define FLAGS	(EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE | EPOLLWAKEUP)
#define DATA	(POLLIN | POLLRDNORM | POLLRDBAND | POLLPRI)	/* what TCP says when some come */
#define INS	(DATA | POLLRDHUP)
#define OUTS	(POLLOUT | POLLWRNORM)
#define ENDS	(POLLERR | POLLHUP)
#define NOWHERE	UINT32_MAX	/* the place of an event that another one of its registration does not join */

static struct iw_marks marks;	/* of registrations */
static struct {
	_Alignas(64) _Atomic uint32_t sleepers;
	_Atomic bool strangers;		/* some may sleep who are not counted: since before the first was mapped, or for a set that holds it */
	_Atomic bool watched;
} sets[SETS];
static _Atomic uint32_t looks, turn;

static void mark(uint32_t i)
{
	iw_mark(&marks, i);
}

static void unmark(uint32_t i)
{
	iw_unmark(&marks, i);
}

static uint32_t marked(uint32_t i)
{
	return iw_marked(&marks, i);
}

/* ---- one registration ---- */

static short bits_of(struct iw_reg *r)
{
	struct iw_stream *s = r->s;

	return s->known & ((short)(r->events & 0xffff) | ENDS);
}

/* Has something come since it was reported last? Data that an entry does not wait for are nothing to it. */
static bool edge_in(struct iw_reg *r, short bits)
{
	return (r->events & DATA) || (bits & (ENDS | POLLRDHUP));
}

static bool edge_out(struct iw_reg *r)
{
	return r->events & OUTS;
}

static bool edge(struct iw_reg *r, short bits)
{
	struct iw_stream *s = r->s;

	return (r->seen_in != s->came && edge_in(r, bits)) || (r->seen_out != s->room && edge_out(r));
}

/* Is there something to report? */
static bool wants(struct iw_reg *r)
{
	short bits = r->spent ? 0 : bits_of(r);

	return bits && (!(r->events & EPOLLET) || edge(r, bits));
}

/* What has come until now is reported. false: it was, by somebody else. */
static bool taken(_Atomic uint32_t *reported, _Atomic uint32_t *now)
{
	uint32_t old = atomic_load(reported), is = atomic_load(now);

	return old != is && atomic_compare_exchange_strong(reported, &old, is);
}

static bool take_edge(struct iw_reg *r, short bits)
{
	struct iw_stream *s = r->s;
	bool in = taken(&r->seen_in, &s->came) && edge_in(r, bits), out = taken(&r->seen_out, &s->room) && edge_out(r);

	return in || out;
}

static bool was_told(struct iw_reg *r, const struct iw_look *l)
{
	return r->look >> 32 == l->nr;
}

/* Its page is there, whatever becomes of the stream. */
static uint64_t since(struct iw_stream *s)
{
	const struct iw_ring_dir *dir = (const struct iw_ring_dir *)((const uint8_t *)s->page + IW_PAGE_DIRS);

	return iw_stream_local(s) ? atomic_load_explicit(&dir[!s->end].since, memory_order_relaxed) : 0;
}

/* Reported by this look; of several threads one reports what is reported once. */
static bool report(struct iw_reg *r, struct iw_look *l, struct epoll_event *ev, uint32_t place)
{
	short bits = r->spent ? 0 : bits_of(r);

	if (!bits || ((r->events & EPOLLET) && !take_edge(r, bits)))
		return false;
	if ((r->events & EPOLLONESHOT) && atomic_exchange(&r->spent, true))
		return false;
	*ev = (struct epoll_event){ .events = (uint16_t)bits, .data.u64 = r->data };
	if (l->reported < 2 * IW_LOOK_KNOWN)
		l->since[l->reported] = since(r->s);
	l->reported++;
	r->look = (uint64_t)l->nr << 32 | place;
	if (!(r->events & (EPOLLET | EPOLLONESHOT)))
		l->level = r;
	return true;
}

/*
 * An edge of a full socket is not one of a stream that has no room. One that is told of edges only may be asked for room always, so that the
 * kernel's entry need not be changed; and one that is level-triggered not at all, as it is known when there is some.
 */
uint32_t iw_ready_asks(const struct iw_reg *r)
{
	struct iw_stream *s = r->s;
	uint32_t events = r->events, asks = (uint16_t)iw_path(s)->wait_events(s, (short)(events & 0xffff));

	if ((events & (EPOLLET | EPOLLONESHOT)) == EPOLLET && (events & OUTS))
		asks |= EPOLLIN | EPOLLOUT;
	else if (iw_reg_is_level(events) && !(s->known & IW_KNOWN_MORE) && iw_ready_counted(r->set))
		asks &= ~(uint32_t)OUTS;
	return asks | (events & FLAGS);
}

static bool asks_more(struct iw_reg *r)
{
	return !r->spent && (iw_ready_asks(r) & ~r->asked);
}

bool iw_ready_counted(uint32_t set)
{
	return !atomic_load(&sets[set % SETS].strangers) && !atomic_load(&sets[set % SETS].watched);
}

static void kick(struct iw_reg *r, bool strangers)
{
	uint32_t i = r->set % SETS;

	if (atomic_load(&sets[i].sleepers) || (strangers && atomic_load(&sets[i].strangers)))
		iw_reg_kick(r->epfd);
}

/* Those who wait for it are told if it has something to tell. */
static void tell(struct iw_reg *r)
{
	if (!wants(r) && !asks_more(r))
		return;
	mark(iw_reg_index(r));
	kick(r, true);
}

void iw_ready_armed(struct iw_reg *r)
{
	struct iw_stream *s = r->s;

	if (iw_ringed(s) && iw_ready_slept(s))	/* who goes to sleep from now on finds it in the set */
		iw_rings_shut(s);
	r->seen_in = s->came - 1;
	r->seen_out = s->room - 1;
	tell(r);
}

void iw_ready_gone(struct iw_reg *r)
{
	unmark(iw_reg_index(r));
}

void iw_ready_strangers(uint32_t set)
{
	atomic_store(&sets[set % SETS].strangers, true);
}

/* ---- what came ---- */

static void tell_all(int fd, const struct iw_reg *but)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);

	for (struct iw_reg *r = NULL; (r = iw_reg_next(fd, r));)
		if (r != but && iw_reg_is_mapped(r))
			tell(r);
	iw_unlock(&iw_tab_lock, sigs);
}

static void came(struct iw_stream *s, int fd, short what, const struct iw_reg *but)
{
	uint32_t one = atomic_load(&s->reg);

	if (what & POLLIN)
		atomic_fetch_add(&s->came, 1);
	if (what & POLLOUT)
		atomic_fetch_add(&s->room, 1);
	if (one == IW_REG_MANY)
		tell_all(fd, but);
	else if (one && iw_reg_at(one - 1) != but)
		tell(iw_reg_at(one - 1));
	if (atomic_load(&s->polled) && (what != POLLIN || (s->known & (INS | ENDS))))
		iw_kick();
}

void iw_ready(struct iw_stream *s, int fd, short what)
{
	came(s, fd, what, NULL);
}

/* ---- who waits ---- */

void iw_look_begin(struct iw_look *l, int epfd)
{
	l->epfd = epfd;
	l->set = iw_set_of(epfd);
	l->nr = atomic_fetch_add(&looks, 1) + 1;
	l->ev = NULL;
	l->level = NULL;
	l->reported = 0;
}

void iw_look_sleeps(const struct iw_look *l)
{
	atomic_fetch_add(&sets[l->set % SETS].sleepers, 1);
}

void iw_look_woke(const struct iw_look *l)
{
	atomic_fetch_sub(&sets[l->set % SETS].sleepers, 1);
}

bool iw_ready_slept(const struct iw_stream *s)
{
	uint32_t one = atomic_load(&s->reg), i;

	if (!one || one == IW_REG_MANY)
		return one;
	i = iw_reg_at(one - 1)->set % SETS;
	return atomic_load(&sets[i].sleepers) || !iw_ready_counted(i);
}

bool iw_ready_in(const struct iw_stream *s, uint32_t set)
{
	uint32_t one = atomic_load(&s->reg);

	return one && (one == IW_REG_MANY || iw_reg_at(one - 1)->set == set);
}

bool iw_look_any(void)
{
	return atomic_load(&marks.top);
}

/* What is level-triggered stays marked until a look finds nothing. */
static bool look_at(struct iw_look *l, struct iw_reg *r, struct epoll_event *ev)
{
	bool found = !was_told(r, l) && report(r, l, ev, (uint32_t)(ev - l->ev));

	if (found && !(r->events & (EPOLLET | EPOLLONESHOT)))
		return true;
	unmark(iw_reg_index(r));
	if (!found && asks_more(r))
		iw_reg_sync(r, false);
	if (wants(r))
		mark(iw_reg_index(r));
	return found;
}

static bool any_wants(uint32_t set)
{
	for (uint32_t i = marked(0); i != UINT32_MAX; i = marked(i + 1)) {
		struct iw_reg *r = iw_reg_at(i);

		if (r->set == set && iw_reg_is_mapped(r) && wants(r))
			return true;
	}
	return false;
}

bool iw_look_wants(const struct iw_look *l)
{
	return any_wants(l->set);
}

/* From behind the last one that was reported, so that all have their turn. */
int iw_look_known(struct iw_look *l, struct epoll_event *ev, int max)
{
	uint32_t begin = atomic_load(&turn), i = begin;
	int n = 0;

	l->ev = ev;
	for (bool again = begin; n < max; i++) {
		struct iw_reg *r;

		i = marked(i);
		if (i == UINT32_MAX && again) {
			again = false;
			i = marked(0);
		}
		if (i == UINT32_MAX || (!again && begin && i >= begin))
			break;
		r = iw_reg_at(i);
		if (r->set == l->set && iw_reg_is_mapped(r))
			n += look_at(l, r, &ev[n]);
	}
	if (n)
		atomic_store(&turn, i);
	return n;
}

/* Raw calls may have closed the fd, whose TCP socket lives on for a moment. */
static bool is_ours(struct iw_reg *r, uint32_t events)
{
	int fd = r->fd;

	return !(events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) || iw_fd_kind(fd) == IW_FD_SWITCHING || iw_stream_verify(fd, r->s);
}

/* TCP has room, as was known: nothing came. */
static bool only_room(const struct iw_stream *s, uint32_t events)
{
	return !(events & ~(uint32_t)OUTS) && s->known & POLLOUT;
}

/* It is told of octets as long as there are some, of those that are left to the kernel by the kernel, and neither of room nor of a FIN behind them. */
static bool only_in(const struct iw_reg *r, uint32_t events)
{
	return iw_reg_is_level(r->events) && r->events & DATA && !(r->events & OUTS) && !((r->events | events) & (EPOLLRDHUP | EPOLLHUP | EPOLLERR | EPOLLPRI));
}

/* The kernel said something of a mapped socket: does that mean something for the program? */
static bool meant(struct iw_look *l, struct iw_reg *r, struct epoll_event *ev)
{
	struct iw_stream *s = r->s;
	short what;

	if (r == &iw_reg_kicker || !iw_reg_is_mapped(r))
		return false;
	if (r->left) {
		iw_reg_left(r);
		return false;
	}
	if (!is_ours(r, ev->events))
		return false;
	what = only_room(s, ev->events) ? 0 : iw_path(s)->step(s, r->fd, only_in(r, ev->events));
	if (what)
		came(s, r->fd, what, r);
	if (was_told(r, l) && (uint32_t)r->look != NOWHERE) {		/* a moment ago: it is one event */
		take_edge(r, 0);
		l->ev[(uint32_t)r->look].events |= (uint16_t)bits_of(r);
		return false;
	}
	if (was_told(r, l)) {		/* the kernel was asked twice: what is new is the next look's */
		if (wants(r))
			mark(iw_reg_index(r));
		return false;
	}
	if (report(r, l, ev, NOWHERE)) {
		if (!(r->events & (EPOLLET | EPOLLONESHOT)))
			mark(iw_reg_index(r));
		return true;
	}
	if (!r->spent && ((r->events & EPOLLONESHOT) || iw_ready_asks(r) != r->asked))
		iw_reg_sync(r, r->events & EPOLLONESHOT);
	if (wants(r))		/* has come since */
		mark(iw_reg_index(r));
	return false;
}

static void prefetch(const struct epoll_event *ev)
{
	const struct iw_reg *r = iw_reg_of(ev->data.u64);

	if (r && r != &iw_reg_kicker && iw_reg_is_mapped(r) && iw_path(r->s) == &iw_mapped)
		iw_end_prefetch(&r->s->view);
}

int iw_look_at(struct iw_look *l, struct epoll_event *ev, int n, int *rest)
{
	int found = 0;

	*rest = 0;
	for (int i = 0; i < n; i++) {
		struct epoll_event e = ev[i];
		struct iw_reg *r = iw_reg_of(e.data.u64);

		if (i + 1 < n)
			prefetch(&ev[i + 1]);
		if (!r) {
			ev[found + (*rest)++] = e;
		} else if (meant(l, r, &e)) {
			ev[found + *rest] = ev[found];
			ev[found++] = e;
		}
	}
	return found;
}

void iw_look_order(const struct iw_look *l, struct epoll_event *ev, int n)
{
	struct epoll_event sorted[2 * IW_LOOK_KNOWN];
	uint64_t since[2 * IW_LOOK_KNOWN];
	int own = l->reported;

	if (n < 2 || own > n || own > 2 * IW_LOOK_KNOWN)
		return;
	for (int i = 0; i < own; i++) {
		int k = i;

		for (; k && since[k - 1] > l->since[i]; k--) {
			since[k] = since[k - 1];
			sorted[k] = sorted[k - 1];
		}
		since[k] = l->since[i];
		sorted[k] = ev[i];
	}
	memmove(ev, ev + own, (size_t)(n - own) * sizeof(*ev));
	memcpy(ev + (n - own), sorted, (size_t)own * sizeof(*ev));
}

/* As the kernel does: the next one of those who wait is told too of what stays ready. */
void iw_look_end(struct iw_look *l)
{
	if (l->level)
		kick(l->level, false);
}

/* ---- sets that are waited for themselves ---- */

void iw_ready_watched(uint32_t set)
{
	atomic_store(&sets[set % SETS].strangers, true);
	atomic_store(&sets[set % SETS].watched, true);
}

void iw_ready_sets(void)
{
	for (uint32_t i = marked(0); i != UINT32_MAX; i = marked(i + 1)) {
		struct iw_reg *r = iw_reg_at(i);

		if (atomic_load(&sets[r->set % SETS].watched) && iw_reg_is_mapped(r) && wants(r))
			iw_reg_kick(r->epfd);
	}
}

/* Whatever the mapped sockets in it have is taken, so that the kernel says of it what the program would see. */
static void step_all(int epfd)
{
	uint32_t end = iw_reg_end();

	for (uint32_t i = 0; i < end; i++) {
		struct iw_reg *r = iw_reg_at(i);
		int fd = r->fd;

		if (r->epfd != epfd || fd < 0)
			continue;
		if (iw_fd_kind(fd) == IW_FD_EPOLL) {
			iw_ready_set(fd);
		} else if (iw_reg_is_mapped(r)) {
			struct iw_stream *s = r->s;
			short what = iw_path(s)->step(s, fd, false);

			if (what)
				came(s, fd, what, NULL);
		}
	}
}

bool iw_ready_set(int epfd)
{
	uint32_t set = iw_set_of(epfd);

	if (any_wants(set))
		return true;
	step_all(epfd);
	iw_reg_unkick(epfd);
	if (any_wants(set)) {
		iw_reg_kick(epfd);
		return true;
	}
	return iw_fd_bits(epfd, POLLIN) & POLLIN;
}
