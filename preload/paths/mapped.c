// SPDX-License-Identifier: MIT
/*
 * The map as a path: stream octets are framed into, and parsed out of, the TCP socket by the calls of the application. Its locked steps do
 * not wait. What ends a direction is not done here: the map is given back, and the carrier's answers hold.
 */
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "preload/deadline.h"
#include "preload/handlers.h"
#include "preload/kick.h"
#include "preload/lib.h"
#include "preload/lock.h"
#include "preload/map.h"
#include "preload/orphan.h"
#include "preload/opts.h"
#include "preload/path.h"
#include "preload/paths/burst.h"
#include "preload/paths/carrier.h"
#include "preload/paths/mapped.h"
#include "preload/ready.h"
#include "preload/real.h"
#include "preload/sleeps.h"
#include "preload/spin.h"
#include "preload/sys.h"
#include "preload/tcpstate.h"
#include "preload/user.h"

#define MOST	(256u << 10)	/* framed at a time, about */
#define LAST	IW_MAP_LAST	/* of a large send: not framed before TCP has the rest, so that what TCP does not take can be left to a caller that does not wait */
#define LARGE	16384u
#define BATCH	32768u	/* received at a time, if there is as much */
#define SOME	(200u << 10)	/* received for who is only told that there is some: three full FPDUs, so that nothing has to make way into the ring */
#define AROUND	512u	/* what frames some of a reader's octets */
#define ENOUGH	(512u << 10)	/* on its way to a reader that does not read: so much TCP takes */
#define PIECE	32768u	/* of memory that is good or bad */
#define ENDED	(IW_END_DEAD | IW_END_DONE)

/* What is to be done with memory that good() looks at: FILL may spoil what is there, KEEP not. */
enum use { READ, FILL, KEEP };

/* A call of the application. */
struct call {
	struct iw_stream *s;
	int fd, flags;
	const struct iovec *v;
	size_t n, len, done;
	size_t wanted;		/* so far, from its start, its memory was found good, and what is parsed may lie there: until it is read */
	uint32_t epoch;
	bool waits, looked;	/* looked: whether it waits is known */
	bool own;		/* the memory is the library's */
	bool sends;		/* it sleeps until TCP takes something */
	bool breaks;		/* a handler that comes ends its sleep */
	bool inside;		/* it sleeps for the stream, or did: counted until it ends */
	int watch;		/* see kick.h, or -1 */
	int signals;		/* a signalfd, or -1 */
	struct iw_deadline d;	/* once inside */
	struct iw_slept slept;
	struct iw_step st;
};

/* false, with errno: the kernel would not take it. */
static bool call_init(struct call *c, struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	struct msghdr h = { .msg_iov = io->v, .msg_iovlen = io->n };
	int err = !io->vec ? iw_buf_check(io->one.iov_base, io->one.iov_len) : io->n > UIO_MAXIOV ? -EINVAL : iw_iov_check(&h);

	if (iw_unlikely(err)) {
		iw_fail(-err);
		return false;
	}
	c->s = s;
	c->fd = fd;
	c->flags = flags;
	c->v = io->vec ? io->v : &io->one;
	c->n = io->vec ? io->n : 1;
	c->len = iw_io_len(io) < IW_RW_MOST ? iw_io_len(io) : IW_RW_MOST;
	c->done = c->wanted = 0;
	c->own = !io->vec && io->own;
	c->looked = c->inside = false;
	c->watch = c->signals = -1;
	c->sends = false;
	c->slept.z = NULL;
	return true;
}

/* Under the lock: is it ours to work? The daemon takes it when the carrier was closed without us. */
static bool ours(struct iw_stream *s)
{
	return atomic_load_explicit(&s->mapped, memory_order_relaxed) && iw_end_own(&s->view);
}

/* Is it still what the call began on? */
static bool here(const struct call *c)
{
	return ours(c->s) && atomic_load_explicit(&c->s->map_epoch, memory_order_relaxed) == c->epoch;
}

/* false: the carrier's again, and not locked. */
static bool enter(struct call *c)
{
	iw_map_lock(c->s, &c->st);
	c->epoch = atomic_load_explicit(&c->s->map_epoch, memory_order_relaxed);
	if (iw_likely(ours(c->s)))
		return true;
	if (atomic_load(&c->s->mapped))
		iw_burst_lost(c->s);
	iw_map_unlock(c->s, &c->st);
	iw_map_give(c->fd, c->s);
	return false;
}

static bool pending(struct iw_stream *s)
{
	size_t len;

	return iw_end_out(&s->view, &len);
}

/* It is framed, or gathered, and nobody waits until it goes. */
static bool forgotten(struct iw_stream *s)
{
	return iw_unlikely(pending(s) || iw_end_gathered(&s->view)) && !atomic_load(&s->map_senders);
}

static short state(struct iw_stream *s)
{
	short in = iw_end_some(&s->view) ? POLLIN | POLLRDNORM : iw_orphan_eof(s) ? POLLIN | POLLRDNORM | POLLRDHUP : 0;

	return (short)(in | (pending(s) || s->map_full ? IW_KNOWN_MORE : iw_end_room(&s->view) ? POLLOUT | POLLWRNORM : 0));
}

/* T has room, or says when it has: who does not wait was told of none. */
static bool has_room(struct iw_stream *s)
{
	if (s->map_full)
		s->map_full = !(iw_fd_bits(atomic_load(&s->mapped), POLLOUT) & POLLOUT);
	return !s->map_full;
}

void iw_mapped_begin(struct iw_stream *s)
{
	s->map_came = 0;
	s->map_full = s->map_nowait = false;
	s->map_room = 0;
	s->known = state(s);
}

/* At the end of a step: what came, and whether those who wait are to be told. */
static bool news(struct iw_stream *s, short *what)
{
	short now = state(s), more = (short)(now & ~s->known);

	*what = (short)(s->map_came | (more & POLLOUT));
	s->map_came = 0;
	s->known = now;
	return *what || (more & IW_KNOWN_MORE);
}

static void leave(struct call *c)
{
	short what;
	bool tell = ours(c->s) && news(c->s, &what);

	iw_map_unlock(c->s, &c->st);
	if (tell)
		iw_ready(c->s, c->fd, what);
}

/* For a while, in which no handler comes where the lock lets none come. */
static void pause_step(struct call *c)
{
	short what;
	bool tell = ours(c->s) && news(c->s, &what);

	if (c->st.blocked)
		iw_unlock_only(&c->s->map_lock);
	else
		iw_map_unlock(c->s, &c->st);
	if (tell)
		iw_ready(c->s, c->fd, what);
}

static void resume_step(struct call *c)
{
	if (c->st.blocked)
		iw_lock_only(&c->s->map_lock);
	else
		iw_map_lock(c->s, &c->st);
}

/* Not locked: the rest is the daemon's to do. */
static void give(struct call *c)
{
	iw_map_give(c->fd, c->s);
}

static bool good_piece(void *p, size_t n, enum use use)
{
	return use == READ ? iw_user_readable(p, n) : use == FILL ? iw_user_fillable(p, n) : iw_user_writable(p, n);
}

/* How many octets there are, from done on, of memory that is good, and at most max. Of a piece with a bad part there are none, as of a segment of TCP's. */
static size_t good(const struct call *c, size_t max, enum use use)
{
	size_t skip = c->done, sum = 0, whole = 0;

	if (c->own)
		return max;
	if (c->n == 1 && max <= PIECE) {
		char *p = (char *)c->v[0].iov_base + skip;

		return good_piece(p, max, use) ? max : 0;
	}
	for (size_t i = 0; i < c->n && sum < max; i++) {
		size_t k = c->v[i].iov_len, n;
		char *p = c->v[i].iov_base;

		if (skip >= k) {
			skip -= k;
			continue;
		}
		p += skip;
		k -= skip;
		skip = 0;
		if (k > max - sum)
			k = max - sum;
		for (; k; k -= n, p += n) {
			n = k < whole + PIECE - sum ? k : whole + PIECE - sum;
			if (!good_piece(p, n, use))
				return whole;
			sum += n;
			if (sum == whole + PIECE)
				whole = sum;
		}
	}
	return sum;
}

/* The program wrote into the carrier behind our back, and may wait for the answer: the daemon, which has the other end, is to pass it on. */
static bool raw_octets(const struct call *c)
{
	int n = 0;

	return !iw_orphan_known(c->s) && IW_SYS(ioctl, c->fd, SIOCOUTQ, &n) >= 0 && n;
}

/* ---- what TCP has for us ---- */

/* There is an end that TCP would tell of, whatever is unread: the carrier does. */
static bool ends(struct iw_stream *s)
{
	return iw_unlikely((iw_end_state(&s->view) & ENDED) || s->view.f->rs.rx_fin);
}

/* An orphan whose peer has ended is written to on. */
static bool tx_over(struct iw_stream *s)
{
	return iw_unlikely(ends(s) || (iw_end_state(&s->view) & IW_END_SHUT)) &&
	       (!iw_orphan_known(s) || (iw_end_state(&s->view) & (ENDED | IW_END_SHUT)));
}

/* Of the kernel's: some milliseconds. */
static uint32_t tick(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (uint32_t)(t.tv_sec + t.tv_nsec);
}

/* later: what comes may be left as it is, until a reader wants it. */
static void came(struct iw_stream *s, long n, bool later)
{
	size_t unread = iw_end_unread(&s->view);
	bool left = false;

	s->map_tick = tick();
	if (n > 0 && later)
		left = iw_end_in_later(&s->view, (size_t)n);
	else if (n > 0)
		iw_end_in_done(&s->view, (size_t)n);
	else if (!n)
		iw_end_in_eof(&s->view);
	else if (n != -EAGAIN && n != -EINTR && n != -ENOMEM && n != -ENOBUFS)
		iw_end_lost(&s->view, (int)-n);
	else
		return;
	if (n <= 0 || left || iw_end_unread(&s->view) > unread || iw_end_state(&s->view))
		s->map_came |= POLLIN;
}

/* What was left as it came: those who wait were told of it then. */
static void settle(struct iw_stream *s)
{
	if (iw_likely(!s->view.later))
		return;
	iw_end_settle(&s->view);
	if (iw_end_state(&s->view))
		s->map_came |= POLLIN;
}

/* The octets that came, of most, which are limit at most; else there are none now. later: as in came(), if nobody waits for credits that are in them. */
static long take(struct iw_stream *s, size_t limit, size_t *most, bool later)
{
	uint8_t *p;
	long n;

	settle(s);
	if (iw_end_state(&s->view) & ENDED)
		return 0;
	p = iw_end_in(&s->view, most);
	if (*most > limit)
		*most = limit;
	n = IW_SYS(recvfrom, atomic_load(&s->mapped), p, *most, MSG_DONTWAIT, NULL, NULL);
	came(s, n, later && n > (long)IW_QP_SINK && !atomic_load(&s->map_senders) && (state(s) & POLLOUT));
	return n;
}

/* For a reader that takes it at once: what it wants, so that much of it is in the processor's cache. */
static uint8_t *place_for(const struct call *c, size_t *most)
{
	uint8_t *p = iw_end_in(&c->s->view, most);
	size_t want = c->len - c->done;

	want += want / 64 + AROUND;
	if (want < BATCH)
		want = BATCH;
	if (*most > want)
		*most = want;
	return p;
}

/* Of n octets that are parsed next as many as it has memory for are for its caller. */
static void want(struct call *c, size_t n)
{
	size_t left = c->len - c->done;

	if (n < LARGE || left < LARGE || (c->flags & MSG_PEEK) || iw_end_unread(&c->s->view))
		return;
	n = good(c, n < left ? n : left, KEEP);	/* not all of it may be filled */
	c->wanted = c->done + n;
	if (n)
		iw_end_want(&c->s->view, c->v, c->done, n);
}

static bool fill_for(struct call *c)
{
	struct iw_stream *s = c->s;
	bool later = s->view.later;
	size_t most;
	uint8_t *p;
	long n = 1;

	if (iw_end_state(&s->view) & ENDED)
		return false;
	if (later) {
		want(c, s->view.s->rx_len - s->view.s->rx_off);
		settle(s);
	} else {
		p = place_for(c, &most);
		n = IW_SYS(recvfrom, atomic_load(&s->mapped), p, most, MSG_DONTWAIT, NULL, NULL);
		if (n > 0)
			want(c, (size_t)n);
		came(s, n, false);
	}
	iw_end_wanted(&s->view);
	return n > 0;
}

/* All that there is, so that the kernel says when there is more. false: nothing. */
static bool take_all(struct iw_stream *s)
{
	bool some = s->view.later;
	size_t most;
	long n;

	do {
		n = take(s, SIZE_MAX, &most, false);
		some |= n > 0;
	} while (n > 0 && (size_t)n == most);
	return some;
}

/* Some, if there are none that are unread. true: there may be more, which need not come into the map before they are wanted. */
static bool take_some(struct iw_stream *s)
{
	size_t most;
	long n;

	if (iw_end_some(&s->view))
		return true;
	do
		n = take(s, SOME, &most, true);
	while (n > 0 && (size_t)n == most && !iw_end_some(&s->view));
	return n > 0 && (size_t)n == most;
}

/* T's own end, which follows that of the stream, has come: that is to be told whatever is unread. */
static bool tcp_ends(struct iw_stream *s)
{
	return iw_fd_bits(atomic_load(&s->mapped), POLLRDHUP) & (POLLRDHUP | POLLHUP | POLLERR);
}

/* false: nothing now. */
static bool fill(struct iw_stream *s)
{
	bool later = s->view.later;
	size_t most;

	return take(s, SIZE_MAX, &most, false) > 0 || later;
}

/* ---- sleeping ---- */

static bool waits(struct call *c)
{
	if (!c->looked) {
		c->waits = !(c->flags & MSG_DONTWAIT) && !(IW_SYS(fcntl, c->fd, F_GETFL, 0) & O_NONBLOCK);
		c->looked = true;
		c->s->map_nowait = !c->waits;
	}
	return c->waits;
}

/* Of the program: for ever without. */
static void timeout_of(int fd, int option, struct iw_deadline *d)
{
	struct timeval tv = { 0, 0 };
	socklen_t l = sizeof(tv);

	d->end = -1;
	if (IW_SYS(getsockopt, fd, SOL_SOCKET, option, &tv, &l) >= 0 && (tv.tv_sec || tv.tv_usec))
		iw_deadline_ns(d, tv.tv_sec * 1000000000LL + tv.tv_usec * 1000);
}

/* What a handler that jumps is to undo. */
static void undo(struct call *c)
{
	struct iw_sleep *z = c->slept.z;

	if (!z)
		return;
	z->watch = c->watch;
	z->signals = c->signals;
	z->sends = c->sends;
}

/* It was. */
static void undone(struct call *c)
{
	c->watch = c->signals = -1;
	c->sends = c->inside = false;
	c->slept.z = NULL;
}

static void signals_done(struct call *c)
{
	int fd = c->signals;

	c->signals = -1;
	undo(c);
	if (fd >= 0)
		IW_SYS(close, fd);
}

/* The end of a call that slept. Not locked. */
static void outside(struct call *c)
{
	if (!iw_sleep_end(&c->slept))
		undone(c);
	if (c->watch >= 0)
		iw_kick_done(c->watch);
	c->watch = -1;
	signals_done(c);
	if (c->inside)
		iw_map_outside(c->s);
	c->inside = false;
}

static void cancelled(void *call)
{
	struct call *c = call;

	if (c->st.blocked)
		iw_sig_restore(c->st.sigs);
	if (!iw_sleep_end(&c->slept))
		undone(c);
	atomic_fetch_sub(&c->s->map_senders, c->sends);
	if (c->sends)
		give(c);
	outside(c);
}

/*
 * Which handlers end the sleep: all, if octets were moved or there is a time-out, as in TCP; else those without SA_RESTART. Where there are both,
 * those that do not end it are kept out, and let in when the signalfd tells of them. Returns what is kept out.
 */
static uint64_t interrupts(struct call *c)
{
	uint64_t in = c->st.blocked ? ~c->st.sigs : 0, go_on = atomic_load(&iw_handlers_restart) & in;

	c->breaks = c->done || c->d.end >= 0 || (atomic_load(&iw_handlers_interrupt) & in);
	if (c->breaks && go_on && !c->done && c->d.end < 0)
		c->signals = (int)IW_SYS(signalfd4, -1, &go_on, 8, SFD_CLOEXEC | SFD_NONBLOCK);
	return c->signals >= 0 ? go_on : 0;
}

/* The first one decides, as the kernel has it. */
static int let_in(struct call *c)
{
	uint64_t come = 0;

	signals_done(c);
	IW_SYS(rt_sigpending, &come, 8);
	come &= ~c->st.sigs;
	iw_sig_restore(c->st.sigs);
	iw_sig_block();
	return come & -come & atomic_load(&iw_handlers_interrupt) ? EINTR : 0;
}

/*
 * Until TCP takes something (POLLOUT), has something (POLLIN), or somebody kicks. Not locked, but as in the lock where handlers may come:
 * they do so in here only, so that none of them changes anything behind the last look.
 */
static int sleep_poll(struct call *c, int tcp, short events)
{
	uint64_t mask = interrupts(c) | c->st.sigs;
	struct pollfd p[3] = { { .fd = tcp, .events = events }, { .fd = c->watch, .events = POLLIN }, { .fd = c->signals, .events = POLLIN } };
	struct timespec t;
	struct iw_spin z;
	sigset_t sigs;
	int saved = errno, r;

	undo(c);
	sigemptyset(&sigs);
	memcpy(&sigs, &mask, sizeof(mask));
	iw_spin_begin(&z);
	r = (int)iw_spin_poll(&z, p, 3);
	iw_spin_over(&z);
	if (r <= 0) {
		pthread_cleanup_push(cancelled, c);
		r = iw_real.ppoll(p, 3, iw_deadline_left(&c->d, &t), c->st.blocked ? &sigs : NULL);
		pthread_cleanup_pop(0);
	}
	iw_spin_end(&z);
	r = r > 0 ? 0 : !r ? EAGAIN : errno == EINTR && c->breaks ? EINTR : 0;
	if (!iw_sleeps_still(&c->slept))
		undone(c);
	else if (p[1].revents > 0)
		iw_kick_seen(c->watch);
	if (p[2].revents > 0 && c->signals >= 0)
		r = let_in(c);
	else
		signals_done(c);
	errno = saved;
	return r;
}

/* Where nobody can come in between: the octets themselves, locked. */
static int receive(struct call *c)
{
	struct iw_stream *s = c->s;
	int saved = errno, err = EAGAIN, tcp = atomic_load(&s->mapped);
	struct iw_spin z;
	size_t room;
	uint8_t *p = place_for(c, &room);
	ssize_t n = -1;

	iw_spin_begin(&z);
	while (err == EAGAIN && iw_spin_on(&z)) {
		n = IW_SYS(recvfrom, tcp, p, room, MSG_DONTWAIT, NULL, NULL);
		err = n < 0 ? (int)-n : 0;
	}
	iw_spin_over(&z);
	if (err == EAGAIN) {
		n = iw_real.recv(tcp, p, room, 0);
		err = n < 0 ? errno : 0;
	}
	iw_spin_end(&z);
	errno = saved;
	came(s, n < 0 ? -err : n, false);
	return err == EINTR || err == EAGAIN ? err : 0;
}

/* Counted, and with a watch where others are: before its last look. false: not yet, or not by this path. */
static bool may_sleep(struct call *c, int option)
{
	if (!c->inside) {
		timeout_of(c->fd, option, &c->d);
		iw_map_inside(c->s);
		c->inside = true;
		iw_sleep_begin(&c->slept, c->fd, -1, &c->s, 1);
	}
	if (c->watch < 0 && iw_kick_may())
		c->watch = iw_kick_watch_kept();
	if (c->watch >= 0 || !iw_kick_may())
		return true;
	leave(c);
	c->watch = iw_kick_watch();
	if (c->watch < 0)
		give(c);
	iw_map_lock(c->s, &c->st);
	return false;
}

/*
 * Under the lock, which is left meanwhile: until there may be something new of what (IW_END_IN, IW_END_OUT). 0, EINTR, or EAGAIN: time is
 * over. Afterwards it may not be here() any more.
 */
static int wait_for(struct call *c, unsigned int what, int option)
{
	struct iw_stream *s = c->s;
	int tcp = atomic_load(&s->mapped), err;

	if (raw_octets(c)) {
		leave(c);
		give(c);
		iw_map_lock(s, &c->st);
		return 0;
	}
	if (what == IW_END_IN && option == SO_RCVTIMEO && iw_handlers_alone())
		return receive(c);
	if (!may_sleep(c, option))
		return 0;
	if (atomic_load(&iw_handlers))
		iw_step_block(&c->st);
	c->sends = what & IW_END_OUT;
	atomic_fetch_add(&s->map_senders, c->sends);
	pause_step(c);
	err = sleep_poll(c, tcp, (short)((what & IW_END_OUT ? POLLOUT : 0) | (what & IW_END_IN ? POLLIN : 0)));
	resume_step(c);
	atomic_fetch_sub(&s->map_senders, c->sends);
	c->sends = false;
	undo(c);
	return err;
}

/* ---- sending ---- */

static void look_for_room(struct iw_stream *s)
{
	uint32_t mem[SK_MEMINFO_VARS] = { 0 };
	socklen_t len = sizeof(mem);

	IW_SYS(getsockopt, atomic_load(&s->mapped), SOL_SOCKET, SO_MEMINFO, mem, &len);
	s->map_room = mem[SK_MEMINFO_SNDBUF] > mem[SK_MEMINFO_WMEM_QUEUED] ? mem[SK_MEMINFO_SNDBUF] - mem[SK_MEMINFO_WMEM_QUEUED] : 0;
}

/* Nothing of what is framed will be left when the call returns: TCP has room for more than that, or it waits. What is likelier is asked first. */
static bool takes_all(struct call *c, size_t n)
{
	struct iw_stream *s = c->s;

	if (iw_map_takes(n) <= s->map_room)
		return true;
	if (!s->map_nowait && waits(c))
		return true;
	look_for_room(s);
	return iw_map_takes(n) <= s->map_room || waits(c);
}

/*
 * How much of a send is framed next. Of one that does not wait something is left to the caller, who comes again, if TCP may not take all of it: what is
 * framed has to go, and there is nobody to send it once he thinks that all is done.
 */
static size_t piece(struct call *c)
{
	size_t want = c->len - c->done;

	if (want > MOST)
		return MOST;
	if (want <= LARGE && !c->done && !c->s->map_full)
		return want;
	if (takes_all(c, want)) {
		c->s->map_full = false;
		return want;
	}
	if (want > LARGE)
		return want - LAST;
	c->s->map_full = true;
	return has_room(c->s) ? want : 0;
}

/* As much as goes now. 0, EFAULT. */
static int tx_some(struct call *c)
{
	struct iw_stream *s = c->s;

	while (c->done < c->len && iw_map_flush_data(s, false)) {
		size_t want = piece(c), ok, n;

		if (!want)
			break;
		ok = good(c, want, READ);
		if (!ok)
			return EFAULT;
		n = iw_end_put(&s->view, c->v, c->n, c->done, ok);
		c->done += n;
		if (!n && !fill(s))
			break;
	}
	iw_map_flush_data(s, (c->flags & MSG_MORE) || (atomic_load_explicit(&iw_stream_end(s)->opts, memory_order_relaxed) & IW_SOPT_CORK));
	return 0;
}

/* By the carrier, which it goes on. */
static ssize_t tx_rest(struct call *c, struct iw_io *io)
{
	size_t skip = c->done;
	struct iw_io one;
	ssize_t n;

	c->fd = iw_map_fd(c->s, c->fd);
	if (!skip)
		return iw_path(c->s)->tx(c->s, c->fd, io, c->flags);
	for (size_t i = 0; i < c->n; i++) {
		size_t k = c->v[i].iov_len;

		if (skip >= k) {
			skip -= k;
			continue;
		}
		iw_io_buf(&one, (char *)c->v[i].iov_base + skip, k - skip, IW_IO_SOCK);
		n = iw_path(c->s)->tx(c->s, c->fd, &one, c->flags);
		if (n > 0)
			c->done += (size_t)n;
		if (n < (ssize_t)(k - skip))
			break;
		skip = 0;
	}
	return (ssize_t)c->done;
}

static ssize_t tx_end(struct call *c, int err)
{
	/* nobody would come back to give TCP what is left */
	bool left = ends(c->s) || iw_end_gathered(&c->s->view) || (forgotten(c->s) && (c->done == c->len || waits(c)));

	if (c->done != c->len || c->len > IW_BURST_MOST || c->inside || c->flags & MSG_MORE)
		iw_burst_end(c->s);
	else
		iw_burst_count(c->s);
	leave(c);
	if (left)
		give(c);
	if (c->done || !err)
		return (ssize_t)c->done;
	return iw_fail(err);
}

/* Each small send took a credit, and the other end does not read: TCP would take more. The daemon has a ring for it. */
static bool no_credits(struct iw_stream *s)
{
	return !pending(s) && s->view.f->rs.credits <= 2 && iw_end_unacked(&s->view, UINT64_MAX) < ENOUGH && !iw_orphan_known(s);
}

static ssize_t tx_call(struct call *c, struct iw_io *io)
{
	struct iw_stream *s = c->s;
	int err;

	if (iw_unlikely(atomic_load_explicit(&iw_bursts, memory_order_relaxed)))
		iw_bursts_send(s);
	if (!enter(c))
		return tx_rest(c, io);
	if (iw_unlikely(raw_octets(c))) {
		leave(c);
		give(c);
		return tx_rest(c, io);
	}
	if (tick() != s->map_tick)	/* a reset comes as octets: who only sends would hear of it when there are no credits left */
		take_all(s);
	for (;;) {
		unsigned int what;

		if (tx_over(s)) {
			bool shut = iw_end_state(&s->view) & (ENDED | IW_END_SHUT);

			leave(c);
			give(c);
			if (atomic_load(&s->mapped) && shut)
				return iw_fail(EPIPE);
			if (!atomic_load(&s->mapped) || !enter(c))
				return tx_rest(c, io);
			continue;
		}
		err = tx_some(c);
		if (iw_likely(c->done == c->len && !pending(s)) || err)
			break;
		if (tx_over(s))
			continue;
		if (no_credits(s)) {
			leave(c);
			give(c);
			return tx_rest(c, io);
		}
		if (!waits(c)) {
			err = EAGAIN;
			break;
		}
		what = pending(s) ? IW_END_OUT | IW_END_IN : iw_end_blocked(&s->view);
		err = what ? wait_for(c, what, SO_SNDTIMEO) : 0;
		if (!here(c)) {
			leave(c);
			return tx_rest(c, io);
		}
		if (err)
			break;
		take_all(s);	/* whatever it waited for: the peer may do the same */
	}
	return tx_end(c, err);
}

static ssize_t mapped_tx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	struct call c;
	ssize_t n;

	if (atomic_load_explicit(&s->burst, memory_order_relaxed) && iw_burst_tx(s, fd, io, flags))
		return (ssize_t)io->one.iov_len;
	if (iw_unlikely(flags & MSG_OOB))	/* no urgent mark on this path yet */
		return iw_fail(EOPNOTSUPP);
	if (io->vec || !io->own)	/* sendfile() is none */
		iw_cancel_point();
	if (!call_init(&c, s, fd, io, flags))
		return -1;
	n = tx_call(&c, io);
	if (iw_unlikely(c.inside))
		outside(&c);
	return n;
}

/* Octets of a file on their way: of those who send some at a time a few have a large place. Whoever ends in between keeps it. */
#define FILE_ROOMS	8
#define FILE_OWN	1024u	/* on the stack, which may be small */

static struct {
	_Atomic bool taken;
	uint8_t room[MOST];
} file_room[FILE_ROOMS];

static int file_room_take(void)
{
	for (int i = 0; i < FILE_ROOMS; i++) {
		bool taken = false;

		if (atomic_compare_exchange_strong(&file_room[i].taken, &taken, true))
			return i;
	}
	return -1;
}

static ssize_t tx_file(struct iw_stream *s, const struct iw_move *v, off64_t *at, uint8_t *buf, size_t size)
{
	size_t done = 0;

	while (done < v->len) {
		size_t want = v->len - done < size ? v->len - done : size;
		struct iw_io io;
		ssize_t n = (ssize_t)IW_SYS(pread64, v->in, buf, want, *at);

		if (n <= 0 && !done)
			return iw_ret(n);
		if (n <= 0)
			break;
		iw_io_buf(&io, buf, (size_t)n, IW_IO_SOCK);
		io.own = true;
		want = (size_t)n;
		n = iw_path(s)->tx(s, v->out, &io, 0);
		if (n < 0 && !done)
			return n;
		if (n < 0)
			break;
		*at += n;
		done += (size_t)n;
		if ((size_t)n < want)
			break;
	}
	return (ssize_t)done;
}

/* Out of a file by a buffer of ours. What is no file the carrier takes from. */
static ssize_t mapped_tx_from(struct iw_stream *s, const struct iw_move *v)
{
	uint8_t own[FILE_OWN];
	struct stat st;
	off64_t at = 0;
	ssize_t n;
	int i;

	if (v->splice || IW_SYS(fstat, v->in, &st) < 0 || !S_ISREG(st.st_mode) || (v->off_in && iw_copy_in(&at, v->off_in, sizeof(at)))) {
		iw_map_give(v->out, s);
		return atomic_load(&s->mapped) ? iw_fail(EINVAL) : iw_path(s)->tx_from(s, v);
	}
	if (!v->off_in)
		at = (off64_t)IW_SYS(lseek, v->in, 0, SEEK_CUR);
	i = v->len > sizeof(own) ? file_room_take() : -1;
	if (i >= 0) {
		n = tx_file(s, v, &at, file_room[i].room, sizeof(file_room[i].room));
		atomic_store(&file_room[i].taken, false);
	} else {
		n = tx_file(s, v, &at, own, sizeof(own));
	}
	if (n < 0)
		return n;
	if (!v->off_in)
		IW_SYS(lseek, v->in, at, SEEK_SET);
	else if (iw_copy_out(v->off_in, &at, sizeof(at)))
		return iw_fail(EFAULT);
	return n;
}

/* ---- receiving ---- */

static int rx_parsed(struct call *c)
{
	struct iw_stream *s = c->s;
	bool peeks = c->flags & MSG_PEEK;

	do {
		size_t have = iw_end_unread(&s->view), ok;

		if (have > c->len)
			have = c->len;
		if (peeks && have > c->done)
			have -= c->done;
		else if (peeks)
			have = 0;
		if (have > c->len - c->done)
			have = c->len - c->done;
		if (!have)
			continue;
		ok = c->done + have <= c->wanted ? have : good(c, have, c->wanted ? KEEP : FILL);
		if (!ok)
			return EFAULT;
		c->done += iw_end_get(&s->view, c->v, c->n, c->done, ok, peeks, peeks ? c->done : 0);
		if (ok < have || c->done == c->len || !(c->flags & MSG_WAITALL))
			break;
	} while (fill_for(c));
	return 0;
}

/* What there is, as much as is wanted. 0, EFAULT. */
static int rx_some(struct call *c)
{
	int err = rx_parsed(c);

	iw_end_unwant(&c->s->view);
	c->wanted = 0;
	if (!err)
		iw_map_flush(c->s);
	return err;
}

/* Nothing more can come by this path, and what came was read. */
static bool rx_over(struct iw_stream *s)
{
	return (iw_unlikely(iw_end_state(&s->view) & (ENDED | IW_END_FIN)) && !iw_end_unread(&s->view)) ||
	       iw_orphan_eof(s);
}

/* An end that this call found, and that others may wait for: nobody else will find it. */
static bool told(struct call *c)
{
	struct iw_stream *s = c->s;

	return ends(s) && (!iw_end_unread(&s->view) || atomic_load(&s->reg) || atomic_load(&s->polled) > c->inside);
}

static ssize_t rx_end(struct call *c, int err)
{
	bool left = forgotten(c->s) || told(c);		/* the peer may wait for it; the carrier says what TCP would say to who waits */

	if (c->done)
		iw_burst_end(c->s);
	leave(c);
	if (iw_unlikely(left))
		give(c);
	if (c->done || !err)
		return (ssize_t)c->done;
	return iw_fail(err);
}

/* The carrier's answer, if there is none yet. */
static ssize_t rx_rest(struct call *c, struct iw_io *io)
{
	return c->done ? (ssize_t)c->done : iw_path(c->s)->rx(c->s, iw_map_fd(c->s, c->fd), io, c->flags);
}

static bool rx_enough(const struct call *c)
{
	if (!c->len)
		return iw_end_unread(&c->s->view);
	return c->flags & MSG_WAITALL ? c->done == c->len : c->done;
}

/* There is nothing, and it sleeps in recv(T) if there is nothing there: one call of both. Not for who reads much, and seldom finds nothing. */
static bool at_once(struct call *c)
{
	struct iw_stream *s = c->s;

	return c->len && c->len < LARGE && iw_handlers_alone() && !iw_end_some(&s->view) && !(iw_end_state(&s->view) & (ENDED | IW_END_FIN)) && !iw_orphan_eof(s) && !pending(s) &&
	       waits(c) && !raw_octets(c);
}

static ssize_t rx_call(struct call *c, struct iw_io *io)
{
	struct iw_stream *s = c->s;
	int err;

	if (!enter(c))
		return rx_rest(c, io);
	err = at_once(c) ? receive(c) : 0;
	while (!err) {
		err = rx_some(c);
		if (iw_likely(rx_enough(c)) || err)
			break;
		if (rx_over(s)) {
			leave(c);
			give(c);
			return atomic_load(&s->mapped) && iw_orphan_known(s) ? (ssize_t)c->done : rx_rest(c, io);
		}
		if (!waits(c)) {
			err = EAGAIN;
			break;
		}
		err = wait_for(c, pending(s) ? IW_END_OUT | IW_END_IN : IW_END_IN, SO_RCVTIMEO);
		if (!here(c)) {
			leave(c);
			return rx_rest(c, io);
		}
	}
	return rx_end(c, err);
}

static ssize_t mapped_rx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	struct call c;
	ssize_t n;

	if (iw_unlikely((flags & MSG_OOB) || (io->form == IW_IO_V2 && io->off != -1)))
		return iw_carrier.rx(s, fd, io, flags);
	iw_cancel_point();
	if (!call_init(&c, s, fd, io, flags))
		return -1;
	if (!c.len && io->form != IW_IO_SOCK)
		return 0;
	n = rx_call(&c, io);
	if (iw_unlikely(c.inside))
		outside(&c);
	return n;
}

static ssize_t mapped_rx_into(struct iw_stream *s, const struct iw_move *v)
{
	iw_map_give(v->in, s);
	return atomic_load(&s->mapped) ? iw_fail(EINVAL) : iw_path(s)->rx_into(s, v);
}

/* ---- what it holds, and its ends ---- */

/*
 * Who asks for octets alone, as before each read, is told of some: the others need not come into the map before they are wanted. An end behind them
 * shows with T's own, which follows it.
 */
static bool only_in(struct iw_stream *s, short events)
{
	bool more = iw_end_some(&s->view);

	if (!events || (events & ~(POLLIN | POLLRDNORM)) || ends(s) || pending(s) || iw_end_gathered(&s->view))
		return false;
	if (!more) {
		more = take_some(s);
		if (!iw_map_flush(s) || !iw_end_some(&s->view) || ends(s))
			return false;
	}
	return !more || !tcp_ends(s);
}

static short mapped_bits(struct iw_stream *s, int fd, short events)
{
	struct call c = { .s = s, .fd = fd };
	short bits;

	if (!enter(&c))
		return iw_path(s)->bits(s, fd, events);
	if (only_in(s, events)) {
		leave(&c);
		return events;
	}
	/* who asks for ends alone, and finds nothing, makes no room: those who wait for some would be told */
	if (take_all(s) || events || iw_end_gathered(&s->view))
		iw_map_flush(s);
	if (events)
		has_room(s);
	if (ends(s) || iw_end_gathered(&s->view)) {
		leave(&c);
		give(&c);
		if (!atomic_load(&s->mapped))
			return iw_path(s)->bits(s, fd, events);
		iw_map_lock(s, &c.st);
	}
	bits = state(s);
	leave(&c);
	return bits & events;
}

static short mapped_step(struct iw_stream *s, int fd, bool some)
{
	struct call c = { .s = s, .fd = fd };
	short what;
	bool over;

	if (!enter(&c))
		return 0;
	if (!some || (take_some(s) && tcp_ends(s)))
		take_all(s);
	iw_map_flush(s);
	has_room(s);
	over = ends(s) || iw_end_gathered(&s->view);
	news(s, &what);
	iw_map_unlock(s, &c.st);
	if (!over)
		return what;
	give(&c);
	if (iw_orphan_known(s) && atomic_load(&s->mapped)) {	/* it is told here */
		iw_map_lock(s, &c.st);
		news(s, &what);
		if ((iw_end_state(&s->view) & ENDED) || (s->known & POLLIN))
			what |= POLLIN;
		iw_map_unlock(s, &c.st);
	}
	return what;
}

static short mapped_wait_events(struct iw_stream *s, short events)
{
	short known = s->known;

	/* ends come as octets, too */
	events |= POLLIN;
	if (!(known & POLLOUT))
		events &= ~(POLLOUT | POLLWRNORM | POLLWRBAND);
	return known & IW_KNOWN_MORE ? events | POLLOUT : events;
}

static long mapped_inq(struct iw_stream *s, int fd)
{
	struct call c = { .s = s, .fd = fd };
	bool over;
	long n;

	if (!enter(&c))
		return iw_path(s)->inq(s, fd);
	take_all(s);
	iw_map_flush(s);
	n = (long)iw_end_unread(&s->view);
	over = ends(s) || iw_end_gathered(&s->view);
	leave(&c);
	if (over)
		give(&c);
	return n;
}

/* What TCP has not got through, or not sent: its own answer, without what frames it. */
static int mapped_outq(struct iw_stream *s, int fd, bool unsent)
{
	struct call c = { .s = s, .fd = fd };
	size_t len;
	bool left;
	int n = 0;

	if (!enter(&c))
		return iw_path(s)->outq(s, fd, unsent);
	iw_map_flush(s);
	iw_end_out(&s->view, &len);
	IW_SYS(ioctl, atomic_load(&s->mapped), unsent ? SIOCOUTQNSD : SIOCOUTQ, &n);
	n = (int)iw_end_unacked(&s->view, len + (size_t)n);
	left = iw_end_gathered(&s->view);
	leave(&c);
	if (left)
		give(&c);
	return n;
}

static int mapped_shutdown(struct iw_stream *s, int fd, int how)
{
	if (how == SHUT_WR && iw_map_shut(fd, s))
		return 0;
	iw_map_give(fd, s);
	if (iw_likely(!atomic_load(&s->mapped)))
		return iw_path(s)->shutdown(s, fd, how);
	iw_orphan_shutdown(s, how);
	return 0;
}

bool iw_mapped_flush(struct iw_stream *s, int fd)
{
	struct call c = { .s = s, .fd = fd };
	bool left;

	if (!enter(&c))
		return false;
	while (iw_map_flush_data(s, false) && iw_end_gathered(&s->view) && fill(s))
		;
	left = pending(s) || iw_end_gathered(&s->view);
	leave(&c);
	return !left;
}

void iw_mapped_lost(struct iw_stream *s, int err)
{
	take_all(s);
	if (!(iw_end_state(&s->view) & ENDED))
		iw_end_lost(&s->view, err);
}

void iw_mapped_end(struct iw_stream *s)
{
	take_all(s);
	iw_map_flush(s);
}

const struct iw_path_ops iw_mapped = {
	.tx = mapped_tx,
	.rx = mapped_rx,
	.tx_from = mapped_tx_from,
	.rx_into = mapped_rx_into,
	.bits = mapped_bits,
	.wait_events = mapped_wait_events,
	.step = mapped_step,
	.inq = mapped_inq,
	.outq = mapped_outq,
	.shutdown = mapped_shutdown,
};
