// SPDX-License-Identifier: MIT
/*
 * Which streams are mapped, their steps, and taking the map of one, as a TCP socket is taken back (switch.c): the fd is gated, nobody is inside a
 * call on it, and everything is judged as it is at this moment. Giving it back: map_give.c.
 */
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "proto/ctlmsg.h"
#include "proto/probe.h"
#include "daemon.h"
#include "handlers.h"
#include "holders.h"
#include "internal.h"
#include "kick.h"
#include "lock.h"
#include "map_priv.h"
#include "opts.h"
#include "orphan.h"
#include "path.h"
#include "paths/burst.h"
#include "paths/carrier.h"
#include "paths/mapped.h"
#include "paths/rings.h"
#include "proc.h"
#include "quiet.h"
#include "reg.h"
#include "sets.h"
#include "swap.h"
#include "sys.h"
#include "tcpstate.h"

#define WET	32u	/* calls in which it is waited for a moment at which the carrier is empty: with requests and answers there is one */
#define DRAINS	255u	/* calls in which the program may read what the carrier has, while the daemon gives it nothing more */

_Atomic uint32_t iw_maps;
static _Atomic uint32_t places;	/* an order that the kernel makes and nobody sees: a map lies where another one was, after that */

void iw_map_vacate(struct iw_map *m, uint64_t len)
{
	atomic_fetch_add(&places, 1);
	IW_SYS(munmap, m, len);
}

/* ---- steps ---- */

void iw_step_begin(struct iw_lock *l, struct iw_step *st)
{
	st->blocked = atomic_load_explicit(&iw_handlers_unseen, memory_order_relaxed);
	if (iw_unlikely(st->blocked))
		st->sigs = iw_sig_block();
	else
		iw_handlers_hold();
	iw_lock_only(l);
}

void iw_step_end(struct iw_lock *l, const struct iw_step *st)
{
	iw_unlock_only(l);
	if (iw_unlikely(st->blocked))
		iw_sig_restore(st->sigs);
	else
		iw_handlers_release();
}

void iw_step_block(struct iw_step *st)
{
	struct iw_handlers_step *h = &iw_handlers_step;

	if (st->blocked)
		return;
	st->sigs = iw_sig_block();
	st->blocked = true;
	h->n--;
	if (!h->came)
		return;
	st->sigs = h->mask;
	h->came = false;
	h->mask = ~0ull;
}

void iw_map_lock(struct iw_stream *s, struct iw_step *st)
{
	iw_step_begin(&s->map_lock, st);
}

void iw_map_unlock(struct iw_stream *s, const struct iw_step *st)
{
	iw_step_end(&s->map_lock, st);
}

static bool flush(struct iw_stream *s, int flags)
{
	const uint8_t *p;
	size_t len;
	long n;

	while ((p = iw_end_out(&s->view, &len))) {
		n = IW_SYS(sendto, atomic_load(&s->mapped), p, len, flags | MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
		if (n > 0) {
			iw_end_out_done(&s->view, (size_t)n);
			s->map_room = (size_t)n < len || iw_map_takes(len) > s->map_room ? 0 : s->map_room - iw_map_takes(len);
			continue;
		}
		if (n != -EAGAIN && n != -EINTR && n != -ENOBUFS && n != -ENOMEM)
			iw_mapped_lost(s, (int)-n);
		return false;
	}
	return true;
}

static void nodelay(int tcp, int v)
{
	IW_SYS(setsockopt, tcp, IPPROTO_TCP, TCP_NODELAY, &v, sizeof(v));
}

/* Without gathering: TCP would have had no such octets to wait for, nor would those that follow have waited for them. */
static bool push(struct iw_stream *s)
{
	if (!s->map_nodelay)
		nodelay(atomic_load(&s->mapped), 1);
	s->map_nodelay = true;
	return flush(s, 0);
}

static void gather(struct iw_stream *s)
{
	if (s->map_nodelay)
		nodelay(atomic_load(&s->mapped), 0);
	s->map_nodelay = false;
}

bool iw_map_flush(struct iw_stream *s)
{
	size_t len;

	iw_end_pump(&s->view);
	if (!iw_end_out(&s->view, &len))
		return true;
	s->map_pushed = s->map_gathers;
	return s->map_gathers ? push(s) : flush(s, 0);
}

bool iw_map_flush_data(struct iw_stream *s, bool more)
{
	size_t len;

	iw_end_pump(&s->view);
	if (!iw_end_out(&s->view, &len))
		return true;
	if (iw_unlikely(s->map_pushed)) {
		s->map_pushed = false;
		return push(s);
	}
	if (s->map_gathers)
		gather(s);
	return flush(s, more ? MSG_MORE : 0);
}

void iw_map_gather(struct iw_stream *s)
{
	struct iw_step st;
	int tcp;

	if (iw_likely(!atomic_load(&s->mapped)))
		return;
	iw_burst_wait();
	iw_map_lock(s, &st);
	tcp = s->map ? atomic_load(&s->mapped) : 0;
	if (tcp) {
		iw_burst_end(s);
		s->map_gathers = !(atomic_load(&iw_stream_end(s)->opts) & IW_SOPT_NODELAY);
		nodelay(tcp, 1);	/* what waits goes, as when TCP_CORK ends */
		nodelay(tcp, !s->map_gathers);
		s->map_nodelay = !s->map_gathers;
	}
	iw_map_unlock(s, &st);
}

void iw_map_sweep(struct iw_stream *s)
{
	int fd = atomic_load(&s->polled) ? 0 : atomic_exchange(&s->map_stale, 0);

	if (fd)
		iw_fd_unhide_close(fd);
}

void iw_map_inside(struct iw_stream *s)
{
	atomic_fetch_add(&s->polled, 1);
	atomic_fetch_add(&s->map_calls, 1);
}

void iw_map_outside(struct iw_stream *s)
{
	atomic_fetch_sub(&s->map_calls, 1);
	atomic_fetch_sub(&s->polled, 1);
	iw_map_sweep(s);
}

int iw_map_fd(struct iw_stream *s, int fd)
{
	int stale = atomic_load(&s->map_stale);
	uint32_t w = stale ? iw_word(fd) : 0;

	if (iw_word_kind(w) == IW_FD_SWITCHING)
		w = iw_word_ungated(w);
	return !stale || (iw_word_kind(w) == IW_FD_STREAM && iw_stream_at(iw_word_val(w)) == s) ? fd : stale;
}

/* ---- which ---- */

bool iw_map_survives_exec(int fd)
{
	long fl = IW_SYS(fcntl, fd, F_GETFD, 0);

	return fl < 0 || !(fl & FD_CLOEXEC);
}

/* The next one from fd on, or -1. */
static int next(int fd, bool all, struct iw_stream **s)
{
	int high = atomic_load(&iw_fd_high_app);

	for (; atomic_load(&iw_maps) && fd <= high; fd++) {
		*s = iw_stream_of(fd);
		if (*s && (atomic_load(&(*s)->mapped) || iw_path(*s) == &iw_rest) && (all || iw_map_survives_exec(fd)))
			return fd;
	}
	return -1;
}

bool iw_maps_some(void)
{
	return atomic_load_explicit(&iw_maps, memory_order_relaxed);
}

bool iw_maps_any(bool all)
{
	struct iw_stream *s;
	int fd = next(0, all, &s);

	while (fd >= 0 && iw_orphan_known(s))
		fd = next(fd + 1, all, &s);
	return fd >= 0;
}

void iw_maps_give(bool all)
{
	struct iw_stream *s;

	for (int fd = next(0, all, &s); fd >= 0; fd = next(fd + 1, all, &s))
		iw_map_hand(fd, s);
}

static int fd_of(int tcp, struct iw_stream **s)
{
	int fd = next(0, true, s);

	while (fd >= 0 && atomic_load(&(*s)->mapped) != tcp)
		fd = next(fd + 1, true, s);
	return fd;
}

bool iw_map_owns(int fd)
{
	struct iw_stream *s;

	return fd_of(fd, &s) >= 0;
}

/* Under another number. */
static void elsewhere(int fd, struct iw_stream *s)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	int old = atomic_load(&s->mapped), new = (int)IW_SYS(fcntl, old, F_DUPFD_CLOEXEC, 0);
	struct iw_step st;

	if (new >= 0)
		new = iw_fd_hide(new);
	if (new >= 0) {
		iw_reg_detach(fd);
		atomic_store(&s->mapped, new);
		iw_reg_attach(fd, true);
		iw_map_lock(s, &st);	/* nobody is in a step on the old one any more */
		iw_map_unlock(s, &st);
	}
	iw_unlock(&iw_tab_lock, sigs);
	if (new >= 0)
		iw_fd_unhide_close(old);
}

void iw_map_make_way(int tcp)
{
	struct iw_stream *s;
	int fd = fd_of(tcp, &s);

	if (fd < 0)
		return;
	if (iw_ringed(s) || iw_orphan(fd, s))
		elsewhere(fd, s);
	else
		iw_map_give(fd, s);
}

/* Of a ring, which is its parent's: what comes by the carrier may come behind it, so here it has ended, without an end. */
static void parents(int fd, struct iw_stream *s)
{
	int v[2];

	iw_rings_unmap(s);
	iw_stream_apart(s);
	atomic_store(&s->flags, 0);
	if (IW_SYS(socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, v) < 0) {
		IW_SYS(close, fd);
		return;
	}
	IW_SYS(dup3, v[0], fd, iw_map_survives_exec(fd) ? 0 : O_CLOEXEC);
	IW_SYS(close, v[0]);
	IW_SYS(close, v[1]);
	s->ino = iw_fd_ino(fd);
}

void iw_maps_forked_child(void)
{
	int high = atomic_load(&iw_fd_high_app);
	struct iw_stream *s;

	for (int fd = 0; fd <= high; fd++) {	/* threads that it does not have were in a step */
		s = iw_stream_of(fd);
		if (s && atomic_load(&s->map_lock.v))
			atomic_store(&s->map_lock.v, 0);
	}
	for (int fd = next(0, true, &s); fd >= 0; fd = next(fd + 1, true, &s)) {
		int tcp = atomic_exchange(&s->mapped, 0);

		atomic_store(&s->held, 0);
		if (tcp)
			iw_fd_unhide_close(tcp);
		atomic_store(&s->path, &iw_carrier);
		atomic_fetch_sub(&iw_maps, 1);
		if (s->ring.segment) {
			parents(fd, s);
			continue;
		}
		iw_stream_carried(s, true);
		iw_map_vacate(s->map, s->map_len);
		iw_stream_apart(s);
	}
}

void iw_maps_exit(void)
{
	uint64_t until = iw_orphan_until();
	struct iw_stream *s;

	for (int fd = next(0, true, &s); fd >= 0; fd = next(fd + 1, true, &s))
		if (iw_orphan(fd, s))
			iw_orphan_end(s, until);
}

/* ---- taking ---- */

static bool room_for_one(void)
{
	struct rlimit r;

	return IW_SYS(prlimit64, 0, RLIMIT_NOFILE, NULL, &r) >= 0 && r.rlim_cur >= 1024 && atomic_load(&iw_maps) < r.rlim_cur / 4;
}

int iw_map_option(int fd, int name)
{
	int v = 0;
	socklen_t l = sizeof(v);

	return IW_SYS(getsockopt, fd, SOL_SOCKET, name, &v, &l) < 0 ? 0 : v;
}

bool iw_map_dry(struct iw_stream *s, int fd)
{
	int n = 0;

	return IW_SYS(ioctl, fd, SIOCINQ, &n) >= 0 && !n;
}

bool iw_map_may(int fd, struct iw_stream *s)
{
	struct iw_page_end *me = iw_stream_end(s);
	struct iw_files files;

	if (atomic_load(&s->polled) || atomic_load(&s->map_stale) || atomic_load(&s->refs) != 1 || !iw_stream_alone(s, &fd, 1) || (atomic_load(&iw_candidate_at(s->holder)->flags) & IW_CAND_UNSEEN))
		return false;
	if (atomic_load(&me->shut) || atomic_load(&me->close_state) != IW_CLOSE_OPEN || !iw_quiet(fd, NULL))
		return false;
	if ((atomic_load(&me->opts) & IW_SOPT_RCVLOWAT) || iw_map_option(fd, SO_PEEK_OFF) >= 0 || (IW_SYS(fcntl, fd, F_GETFL, 0) & O_ASYNC))
		return false;
	iw_files_look(&files, &fd, 1);
	return !files.unknown && !files.rings && !files.many && room_for_one() && iw_fd_room(fd) && iw_reg_may_map(fd);
}

/* What the daemon gives. */
struct given {
	int tcp;
	struct iw_map *map;	/* NULL: rings */
	uint64_t len;
};

static bool ask(int fd, const struct iw_stream *s, struct given *g)
{
	struct iw_ctl_mapped r;
	struct iw_ctl_id m;
	struct stat st;
	int fds[2];
	long p;

	iw_ctl_init(&m, IW_CTL_MAP, 0);
	m.id = s->stream_id;
	m.fd = fd;
	if (iw_daemon_ask(&m, -1, &r, sizeof(r), fds, s->ctl_gen) || r.result)
		return false;
	*g = (struct given){ .tcp = fds[0], .len = r.size };
	p = IW_SYS(fstat, fds[1], &st) < 0 || st.st_size < (off_t)r.size ? -EINVAL :
	    IW_SYS(mmap, NULL, r.size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
	IW_SYS(close, fds[1]);
	atomic_fetch_add(&places, 1);
	if (p > 0 || p < -4095)
		g->map = (struct iw_map *)p;
	return true;
}

static void drop(struct given *g)
{
	if (g->map)
		iw_map_vacate(g->map, g->len);
	if (g->tcp >= 0)
		iw_fd_unhide_close(g->tcp);
}

/* It may be ours: hidden, and a view on it. */
static bool prepare(int fd, struct iw_stream *s, struct given *g)
{
	if (!g->map || iw_end_open(&s->view, g->map, g->len)) {
		IW_SYS(close, g->tcp);
		g->tcp = -1;
		return false;
	}
	g->tcp = iw_fd_hide(g->tcp);
	return g->tcp >= 0;
}

static void timeouts(int fd, int tcp)
{
	struct iw_flags f;

	iw_flags_read(fd, &f);
	IW_SYS(setsockopt, tcp, SOL_SOCKET, SO_RCVTIMEO, &f.rcv, sizeof(f.rcv));
	IW_SYS(setsockopt, tcp, SOL_SOCKET, SO_SNDTIMEO, &f.snd, sizeof(f.snd));
}

void iw_map_timeouts(int fd, struct iw_stream *s)
{
	int tcp = atomic_load(&s->mapped);

	if (tcp)
		timeouts(fd, tcp);
}

/* From here on its octets go there. Under iw_tab_lock, with its registrations out of all sets. */
static void begin(int fd, struct iw_stream *s, const struct given *g)
{
	iw_handlers_look();
	atomic_fetch_add(&s->map_epoch, 1);
	atomic_fetch_add(&iw_maps, 1);
	s->map = g->map;
	if (!g->map) {
		atomic_store(&s->mapped, g->tcp);
		atomic_store(&s->path, &iw_rings);
		return;
	}
	timeouts(fd, g->tcp);
	s->map_gathers = !(atomic_load(&iw_stream_end(s)->opts) & IW_SOPT_NODELAY);
	s->map_pushed = s->map_gathers;		/* what the agent sent last may have been none of the program's */
	s->map_nodelay = true;
	iw_burst_end(s);
	nodelay(g->tcp, 1);
	s->map_len = g->len;
	iw_mapped_begin(s);
	iw_stream_carried(s, false);
	atomic_fetch_sub(&s->tx_put, s->view.f->rs.tx_pos);
	atomic_store(&s->mapped, g->tcp);
	atomic_store(&s->path, &iw_mapped);
}

static bool taken(struct iw_stream *s)
{
	uint32_t offered = IW_HAND_OFFERED;

	return atomic_compare_exchange_strong(&iw_stream_end(s)->hand, &offered, IW_HAND_TAKEN);
}

bool iw_map_detach(int fd, struct iw_stream *s)
{
	return iw_stream_alone(s, &fd, 1) && iw_fd_ino(fd) == s->ino && !iw_reg_lost(fd) && !iw_reg_detach(fd);
}

static bool put_in_place(int fd, struct iw_stream *s, const struct given *g)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	bool done = iw_map_detach(fd, s);

	if (done) {
		if (!g->map || taken(s))
			begin(fd, s, g);
		else
			done = false;
		iw_reg_attach(fd, done);
	}
	iw_unlock(&iw_tab_lock, sigs);
	return done;
}

static bool take(int fd, struct iw_stream *s)
{
	struct given g = { .tcp = -1 };

	if (iw_stream_local(s) || iw_stream_own(s, fd) || !iw_map_may(fd, s) || !ask(fd, s, &g))
		return false;
	if (!prepare(fd, s, &g) || !iw_map_dry(s, fd) || !put_in_place(fd, s, &g)) {
		drop(&g);
		iw_daemon_tell_id(IW_CTL_ABANDON, s->stream_id, IW_REASON_BUSY, fd);
		return false;
	}
	IW_PROBE2(libiwsock, mapped, fd, s->stream_id);
	iw_daemon_tell_id(IW_CTL_SWITCHED, s->stream_id, 0, fd);
	return true;
}

/* The other end of the pair sees what is in the rings of its segment, whether it knows of them or not: nothing, if not. */
static bool take_rings(int fd, struct iw_stream *s)
{
	struct given g = { .tcp = -1 };
	short bits = iw_fd_bits(fd, POLLRDHUP | POLLPRI | POLLOUT);

	if (bits & (POLLRDHUP | POLLHUP | POLLERR | POLLPRI))
		atomic_store(&s->ring_over, true);
	if (s->ring.segment || atomic_load(&s->ring_over) || iw_page_relayed(s->page) || !iw_map_may(fd, s))	/* something is left of the one before */
		return false;
	g.tcp = (int)IW_SYS(fcntl, fd, F_DUPFD_CLOEXEC, 0);
	if (g.tcp >= 0)
		g.tcp = iw_fd_hide(g.tcp);
	if (g.tcp < 0)
		return false;
	if (iw_rings_begin(s, fd, !(bits & POLLOUT)) && put_in_place(fd, s, &g))
		return true;
	if (s->ring.segment)
		iw_rings_unmap(s);
	drop(&g);
	return false;
}

static bool behind_gate(int fd, struct iw_stream *s, bool (*how)(int fd, struct iw_stream *s))
{
	uint32_t w = iw_stream_word(s);
	bool done;

	if (atomic_load(&s->mapped) || !s->holder || !iw_word_cas(fd, w, iw_word_gated(w)))
		return false;
	done = how(fd, s);
	iw_word_set(fd, w);
	iw_futex_wake(&iw_fdtab[fd], INT32_MAX);
	return done;
}

/* Octets lie in the carrier, as before most reads. Not for ever. */
static bool wet(struct iw_stream *s, int fd)
{
	uint8_t n = atomic_load_explicit(&s->map_wet, memory_order_relaxed);

	if (n >= WET || iw_map_dry(s, fd))
		return false;
	atomic_store_explicit(&s->map_wet, n + 1, memory_order_relaxed);
	return true;
}

void iw_map_take(int fd, struct iw_stream *s)
{
	uint32_t rest = atomic_load_explicit(&s->map_rest, memory_order_relaxed);
	uint8_t tries = atomic_load_explicit(&s->map_tries, memory_order_relaxed), drains = atomic_load_explicit(&s->map_drains, memory_order_relaxed);
	uint64_t sigs;

	if (drains)
		atomic_store_explicit(&s->map_drains, drains - 1, memory_order_relaxed);
	else if (rest)
		atomic_store_explicit(&s->map_rest, rest - 1, memory_order_relaxed);
	if ((drains ? drains > 1 && !iw_map_dry(s, fd) : rest || wet(s, fd)) || iw_in_vfork())
		return;
	atomic_store_explicit(&s->map_wet, 0, memory_order_relaxed);
	sigs = iw_sig_block();
	atomic_store_explicit(&s->map_drains, 0, memory_order_relaxed);
	if (!behind_gate(fd, s, take) && !drains && !iw_map_dry(s, fd)) {
		atomic_store_explicit(&s->map_drains, DRAINS, memory_order_relaxed);
	} else if (!atomic_load(&s->mapped)) {
		atomic_store_explicit(&s->map_rest, 8u << tries, memory_order_relaxed);
		atomic_store_explicit(&s->map_tries, tries + (tries < IW_CAND_TRIES), memory_order_relaxed);
	}
	iw_sig_restore(sigs);
}

bool iw_map_rings(int fd, struct iw_stream *s)
{
	uint8_t tries = atomic_load_explicit(&s->map_tries, memory_order_relaxed);
	bool relayed = iw_map_relayed(s), done;
	int saved = errno;
	uint64_t sigs;

	if (iw_in_vfork() || (relayed && wet(s, fd)))
		return false;
	atomic_store_explicit(&s->map_wet, 0, memory_order_relaxed);
	sigs = iw_sig_block();
	done = behind_gate(fd, s, relayed ? iw_map_direct : take_rings);
	if (done && relayed) {
		atomic_store_explicit(&s->map_tries, 0, memory_order_relaxed);
		done = false;		/* the next call does */
	} else if (!done) {
		atomic_store_explicit(&s->map_rest, 8u << tries, memory_order_relaxed);
		atomic_store_explicit(&s->map_tries, tries + (tries < IW_CAND_TRIES), memory_order_relaxed);
	}
	iw_sig_restore(sigs);
	errno = saved;
	return done;
}
