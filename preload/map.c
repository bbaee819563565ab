// SPDX-License-Identifier: MIT
/*
 * Taking the map of a stream, and giving it back. Taken as a TCP socket is taken back (switch.c): the fd is gated, nobody is inside a call on
 * it, and everything is judged as it is at this moment. Given back at once, whoever is inside: nothing is held while somebody sleeps, and
 * who sleeps for the TCP socket is kicked.
 */
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "proto/ctlmsg.h"
#include "daemon.h"
#include "handlers.h"
#include "holders.h"
#include "internal.h"
#include "kick.h"
#include "lock.h"
#include "map.h"
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

static _Atomic uint32_t maps;	/* streams that are mapped, or have something left of a ring */
static _Atomic uint32_t places;	/* an order that the kernel makes and nobody sees: a map lies where another one was, after that */

static void vacate(struct iw_map *m, uint64_t len)
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

static bool survives_exec(int fd)
{
	long fl = IW_SYS(fcntl, fd, F_GETFD, 0);

	return fl < 0 || !(fl & FD_CLOEXEC);
}

/* The next one from fd on, or -1. */
static int next(int fd, bool all, struct iw_stream **s)
{
	int high = atomic_load(&iw_fd_high_app);

	for (; atomic_load(&maps) && fd <= high; fd++) {
		*s = iw_stream_of(fd);
		if (*s && (atomic_load(&(*s)->mapped) || iw_path(*s) == &iw_rest) && (all || survives_exec(fd)))
			return fd;
	}
	return -1;
}

bool iw_maps_some(void)
{
	return atomic_load_explicit(&maps, memory_order_relaxed);
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
	IW_SYS(dup3, v[0], fd, survives_exec(fd) ? 0 : O_CLOEXEC);
	IW_SYS(close, v[0]);
	IW_SYS(close, v[1]);
	s->ino = iw_fd_ino(fd);
}

void iw_maps_forked_child(void)
{
	struct iw_stream *s;

	for (int fd = next(0, true, &s); fd >= 0; fd = next(fd + 1, true, &s)) {
		int tcp = atomic_exchange(&s->mapped, 0);

		atomic_store(&s->map_lock.v, 0);
		if (tcp)
			iw_fd_unhide_close(tcp);
		atomic_store(&s->path, &iw_carrier);
		atomic_fetch_sub(&maps, 1);
		if (s->ring.segment) {
			parents(fd, s);
			continue;
		}
		iw_stream_carried(s, true);
		vacate(s->map, s->map_len);
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

	return IW_SYS(prlimit64, 0, RLIMIT_NOFILE, NULL, &r) >= 0 && r.rlim_cur >= 1024 && atomic_load(&maps) < r.rlim_cur / 4;
}

static int option(int fd, int name)
{
	int v = 0;
	socklen_t l = sizeof(v);

	return IW_SYS(getsockopt, fd, SOL_SOCKET, name, &v, &l) < 0 ? 0 : v;
}

/* The daemon looks at what was written. */
static bool dry(struct iw_stream *s, int fd)
{
	int n = 0;

	return IW_SYS(ioctl, fd, SIOCINQ, &n) >= 0 && !n;
}

/* Behind the gate. */
static bool may(int fd, struct iw_stream *s)
{
	struct iw_page_end *me = iw_stream_end(s);
	struct iw_files files;

	if (atomic_load(&s->polled) || atomic_load(&s->map_stale) || atomic_load(&s->refs) != 1 || !iw_stream_alone(s, &fd, 1) || (atomic_load(&iw_candidate_at(s->holder)->flags) & IW_CAND_UNSEEN))
		return false;
	if (atomic_load(&me->shut) || atomic_load(&me->close_state) != IW_CLOSE_OPEN || !iw_quiet(fd, NULL))
		return false;
	if ((atomic_load(&me->opts) & IW_SOPT_RCVLOWAT) || option(fd, SO_PEEK_OFF) >= 0 || (IW_SYS(fcntl, fd, F_GETFL, 0) & O_ASYNC))
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
		vacate(g->map, g->len);
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
	atomic_fetch_add(&maps, 1);
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

static bool put_in_place(int fd, struct iw_stream *s, const struct given *g)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	bool done = iw_stream_alone(s, &fd, 1) && iw_fd_ino(fd) == s->ino && !iw_reg_lost(fd) && !iw_reg_detach(fd);

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

	if (iw_stream_local(s) || iw_stream_own(s, fd) || !may(fd, s) || !ask(fd, s, &g))
		return false;
	if (!prepare(fd, s, &g) || !dry(s, fd) || !put_in_place(fd, s, &g)) {
		drop(&g);
		iw_daemon_tell_id(IW_CTL_ABANDON, s->stream_id, IW_REASON_BUSY, fd);
		return false;
	}
	iw_daemon_tell_id(IW_CTL_SWITCHED, s->stream_id, 0, fd);
	return true;
}

/* The other end of the pair sees what is in the rings of its segment, whether it knows of them or not: nothing, if not. */
static bool take_rings(int fd, struct iw_stream *s)
{
	struct given g = { .tcp = -1 };

	if (iw_fd_bits(fd, POLLRDHUP | POLLPRI) & (POLLRDHUP | POLLHUP | POLLERR | POLLPRI))
		atomic_store(&s->ring_over, true);
	if (atomic_load(&s->ring_over) || !may(fd, s))
		return false;
	g.tcp = (int)IW_SYS(fcntl, fd, F_DUPFD_CLOEXEC, 0);
	if (g.tcp >= 0)
		g.tcp = iw_fd_hide(g.tcp);
	if (g.tcp < 0)
		return false;
	if (iw_rings_begin(s, fd) && put_in_place(fd, s, &g))
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

	if (n >= WET || dry(s, fd))
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
	if ((drains ? drains > 1 && !dry(s, fd) : rest || wet(s, fd)) || iw_in_vfork())
		return;
	atomic_store_explicit(&s->map_wet, 0, memory_order_relaxed);
	sigs = iw_sig_block();
	atomic_store_explicit(&s->map_drains, 0, memory_order_relaxed);
	if (!behind_gate(fd, s, take) && !drains && !dry(s, fd)) {
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
	uint64_t sigs;
	bool done;

	if (iw_in_vfork())
		return false;
	sigs = iw_sig_block();
	done = behind_gate(fd, s, take_rings);
	if (!done) {
		atomic_store_explicit(&s->map_rest, 8u << tries, memory_order_relaxed);
		atomic_store_explicit(&s->map_tries, tries + (tries < IW_CAND_TRIES), memory_order_relaxed);
	}
	iw_sig_restore(sigs);
	return done;
}

/* ---- giving back ---- */

/* Its octets do not go there any more. Returns the hidden number, 0: it was not mapped. */
static int stop(struct iw_stream *s)
{
	struct iw_step st;
	int tcp;

	iw_map_lock(s, &st);
	tcp = atomic_load(&s->mapped);
	if (tcp && !s->map) {
		bool left = iw_rings_end(s) && !s->ring.held;	/* the carrier can be read until it was */

		if (!left)
			iw_rings_unmap(s);
		atomic_store(&s->mapped, 0);
		atomic_store(&s->path, left ? &iw_rest : &iw_carrier);
		atomic_store(&s->known, 0);
		atomic_fetch_add(&s->map_epoch, 1);
		atomic_fetch_sub(&maps, !left);
	} else if (tcp) {
		if (iw_end_own(&s->view))
			iw_mapped_end(s);
		atomic_fetch_add(&s->tx_put, s->view.f->rs.tx_pos);	/* with what went by the map */
		atomic_store(&s->mapped, 0);
		atomic_store(&s->path, &iw_carrier);
		atomic_store(&s->known, 0);
		atomic_fetch_add(&s->map_epoch, 1);
		atomic_fetch_sub(&maps, 1);
		iw_stream_carried(s, true);
		atomic_fetch_and(&s->map->owner, ~(uint64_t)IW_MAP_OWNER);	/* to IW_MAP_AGENT */
		vacate(s->map, s->map_len);
	}
	iw_map_unlock(s, &st);
	return tcp;
}

/* The number means something else from now on; it is free when nobody can be about to sleep on it any more. */
static void put_over(struct iw_stream *s, int tcp, int fd)
{
	IW_SYS(dup3, fd, tcp, O_CLOEXEC);
	atomic_store(&s->map_stale, tcp);
	iw_map_sweep(s);
}

/* What stands there then can be read always. */
static void close_tcp(struct iw_stream *s, int tcp)
{
	int ready = atomic_load(&s->polled) ? (int)IW_SYS(eventfd2, 1, EFD_CLOEXEC) : -1;

	if (ready < 0) {
		iw_fd_unhide_close(tcp);
		return;
	}
	put_over(s, tcp, ready);
	IW_SYS(close, ready);
}

/* Another carrier in the place of the one that it had, under all its numbers. */
static void replace(struct iw_stream *s, int carrier)
{
	int high = atomic_load(&iw_fd_high_app);

	for (int i = 0; i <= high; i++) {
		uint32_t w = iw_word(i);

		if (iw_word_kind(w) == IW_FD_SWITCHING)
			w = iw_word_ungated(w);
		if (w == iw_stream_word(s))
			IW_SYS(dup3, carrier, i, survives_exec(i) ? 0 : O_CLOEXEC);
	}
	s->ino = iw_fd_ino(carrier);
}

/* Its registrations are C's again, or gone; carrier: another one, in its place, or -1. */
static int out_of_sets(int fd, struct iw_stream *s, bool again, bool shut, int carrier)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	int tcp = 0;

	if (atomic_load(&s->mapped)) {
		iw_reg_detach(fd);
		if (carrier >= 0)
			replace(s, carrier);
		tcp = stop(s);
		if (shut)
			IW_SYS(shutdown, fd, SHUT_WR);
		if (again)
			iw_reg_attach(fd, true);
	}
	iw_unlock(&iw_tab_lock, sigs);
	return tcp;
}

static void unmap(int fd, struct iw_stream *s)
{
	struct iw_ctl_id m;
	struct iw_ctl_ack r;

	if (iw_orphan_known(s) || !s->map)
		return;
	iw_ctl_init(&m, IW_CTL_UNMAP, 0);
	m.id = s->stream_id;
	m.fd = fd;
	if (iw_daemon_ask(&m, -1, &r, sizeof(r), NULL, 0))	/* whoever it is by now */
		iw_daemon_hint(&m);
}

/* Of an orphan nothing is left to do but a FIN of TCP's, after the stream's. */
static bool over(struct iw_stream *s)
{
	struct linger l = { 0, 0 };
	struct iw_step st;
	bool is;

	iw_map_lock(s, &st);
	is = iw_orphan_over(s);
	if (is && (iw_end_state(&s->view) & IW_END_DONE))
		IW_SYS(setsockopt, atomic_load(&s->mapped), SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	iw_map_unlock(s, &st);
	return is;
}

/* What belongs to the file. */
static void as_it_was(int from, int to)
{
	static const int names[] = { SO_RCVLOWAT, SO_OOBINLINE, SO_PEEK_OFF };
	struct iw_flags f;

	iw_flags_read(from, &f);
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int v = option(from, names[i]);

		if (v != option(to, names[i]))
			IW_SYS(setsockopt, to, SOL_SOCKET, names[i], &v, sizeof(v));
	}
	iw_flags_write(to, &f);
}

/* The daemon relays from now on, first what is left in the ring. Returns the carrier that it gives for that, or -1: it does not. */
static int ask_rest(int fd)
{
	struct iw_ctl_fdmsg m;
	struct iw_ctl_stream r;
	int fds[2] = { -1, -1 };

	iw_ctl_init(&m, IW_CTL_REST, 0);
	m.conn_id = 0;
	m.fd = fd;
	m.pad = 0;
	if (!iw_daemon_ready() || iw_daemon_ask(&m, fd, &r, sizeof(r), fds, 0) || r.result)
		return -1;
	if (fds[1] >= 0)
		IW_SYS(close, fds[1]);
	if (fds[0] >= 0)
		as_it_was(fd, fds[0]);
	return fds[0];
}

/*
 * Octets that are left in the ring come before what is in the carrier. If that can be read for as long as they are there, the library gives them,
 * else nobody could know of them: without the daemon that is a reset.
 */
static int give_rings(int fd, struct iw_stream *s, bool shut, bool away)
{
	int carrier = -1, tcp;

	if (!iw_rings_hold(s, away))
		return 0;
	if (s->ring.held) {
		carrier = ask_rest(fd);
		if (carrier < 0)
			iw_stream_reset(s, fd);
	}
	tcp = out_of_sets(fd, s, true, shut, carrier);
	iw_rings_unhold(s);
	if (carrier >= 0)
		IW_SYS(close, carrier);
	return tcp;
}

static bool give_back(int fd, struct iw_stream *s, bool shut, bool away)
{
	int saved = errno, tcp = 0;

	if (iw_ringed(s))
		tcp = give_rings(fd, s, shut, away);
	else if (atomic_load(&s->mapped) && (!iw_orphan(fd, s) || over(s)))
		tcp = out_of_sets(fd, s, true, shut, -1);
	if (tcp) {
		close_tcp(s, tcp);
		iw_kick();
		unmap(fd, s);
	}
	errno = saved;
	return tcp;
}

void iw_map_rest_over(struct iw_stream *s)
{
	if (iw_path(s) == &iw_rest)
		atomic_fetch_sub(&maps, 1);
	atomic_store(&s->path, &iw_carrier);
	iw_rings_unmap(s);
}

/* What is left of a ring, with nobody looking, goes into another carrier, which the daemon fills. */
static void rest_away(int fd, struct iw_stream *s)
{
	int saved = errno, carrier;
	struct iw_step st;
	uint64_t sigs;

	if (!iw_rings_hold_rest(s))
		return;
	carrier = ask_rest(fd);
	if (carrier < 0)
		iw_stream_reset(s, fd);
	sigs = iw_lock(&iw_tab_lock);
	if (carrier >= 0) {
		iw_reg_detach(fd);
		replace(s, carrier);
		iw_reg_attach(fd, true);
	}
	iw_map_lock(s, &st);
	iw_map_rest_over(s);
	iw_map_unlock(s, &st);
	iw_unlock(&iw_tab_lock, sigs);
	iw_rings_unhold(s);
	if (carrier >= 0)
		IW_SYS(close, carrier);
	errno = saved;
}

void iw_map_hand(int fd, struct iw_stream *s)
{
	give_back(fd, s, false, true);
	if (iw_path(s) == &iw_rest)
		rest_away(fd, s);
}

void iw_map_give(int fd, struct iw_stream *s)
{
	give_back(fd, s, false, false);
}

bool iw_map_shut(int fd, struct iw_stream *s)
{
	return give_back(fd, s, true, false);
}

/* As with TCP, it is closed when those who sleep for it are through: the number is the carrier's until then. */
void iw_map_close(int fd, struct iw_stream *s)
{
	int tcp = 0;

	if (atomic_load(&s->refs) > 1)	/* of an orphan another number may be left */
		return;
	if (atomic_load(&s->mapped)) {
		if (iw_orphan(fd, s))
			iw_orphan_end(s, iw_orphan_until());
		tcp = out_of_sets(fd, s, false, false, -1);
	}
	if (!atomic_load(&s->polled)) {
		if (tcp)
			iw_fd_unhide_close(tcp);
		return;
	}
	if (tcp || atomic_load(&s->map_stale))
		put_over(s, tcp ? tcp : atomic_load(&s->map_stale), fd);
	if (atomic_load(&s->map_calls))
		iw_kick();
	if (tcp)
		unmap(fd, s);
}
