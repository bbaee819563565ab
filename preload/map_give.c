// SPDX-License-Identifier: MIT
/*
 * Giving the map of a stream back, or its rings up: at once, whoever is inside. Nothing is held while somebody sleeps, and who sleeps for the TCP
 * socket is kicked. What was told of is not seen while it is on its way to the carrier (iw_stream.held): that is waited for.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "proto/ctlmsg.h"
#include "proto/probe.h"
#include "daemon.h"
#include "internal.h"
#include "kick.h"
#include "lock.h"
#include "map_priv.h"
#include "opts.h"
#include "orphan.h"
#include "path.h"
#include "paths/carrier.h"
#include "paths/mapped.h"
#include "paths/rings.h"
#include "reg.h"
#include "swap.h"
#include "sys.h"
#include "tcpstate.h"

#define TRIES	100	/* to find a number of a stream that another thread moves */

/* Locked: to the agent, once only. */
static void hand_over(struct iw_stream *s)
{
	if (iw_end_own(&s->view))
		iw_mapped_end(s);
	atomic_fetch_and(&s->map->owner, ~(uint64_t)IW_MAP_OWNER);	/* to IW_MAP_AGENT */
}

void iw_map_held(struct iw_stream *s)
{
	while (atomic_load(&s->held))
		iw_futex_wait(&s->held, 1, 0);
}

static void unhold(struct iw_stream *s)
{
	if (atomic_exchange(&s->held, 0))
		iw_futex_wake(&s->held, INT32_MAX);
}

/* Its octets do not go there any more. rest: what is left of them somebody else has. Returns the hidden number, 0: it was not mapped. */
static int stop(struct iw_stream *s, bool rest)
{
	struct iw_step st;
	int tcp;

	iw_map_lock(s, &st);
	tcp = atomic_load(&s->mapped);
	if (tcp && !s->map) {
		bool left = iw_rings_end(s) && !rest;	/* the carrier can be read until it was */

		if (!left)
			iw_rings_unmap(s);
		atomic_store(&s->mapped, 0);
		atomic_store(&s->path, left ? &iw_rest : &iw_carrier);
		atomic_store(&s->known, 0);
		atomic_fetch_add(&s->map_epoch, 1);
		atomic_fetch_sub(&iw_maps, !left);
	} else if (tcp) {
		hand_over(s);
		atomic_fetch_add(&s->tx_put, s->view.f->rs.tx_pos);	/* with what went by the map */
		atomic_store(&s->mapped, 0);
		atomic_store(&s->path, &iw_carrier);
		atomic_store(&s->known, 0);
		atomic_fetch_add(&s->map_epoch, 1);
		atomic_fetch_sub(&iw_maps, 1);
		iw_stream_carried(s, true);
		iw_map_vacate(s->map, s->map_len);
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

static bool is_of(const struct iw_stream *s, int fd)
{
	uint32_t w = iw_word(fd);

	return (iw_word_kind(w) == IW_FD_SWITCHING ? iw_word_ungated(w) : w) == iw_stream_word(s);
}

/* The next one of its numbers from fd on, or -1. */
static int number(struct iw_stream *s, int fd)
{
	for (int high = atomic_load(&iw_fd_high_app); fd <= high; fd++)
		if (is_of(s, fd))
			return fd;
	return -1;
}

/* Under iw_tab_lock: fd, or another one of its numbers, if another thread has closed that, or put something else there. fd: it has none. */
static int current(struct iw_stream *s, int fd)
{
	int n = is_of(s, fd) ? fd : number(s, 0);

	return n < 0 ? fd : n;
}

/* Its registrations, by all of its numbers. */
static void detach(struct iw_stream *s)
{
	for (int i = number(s, 0); i >= 0; i = number(s, i + 1))
		iw_reg_detach(i);
}

static void attach(struct iw_stream *s)
{
	for (int i = number(s, 0); i >= 0; i = number(s, i + 1))
		iw_reg_attach(i, true);
}

void iw_map_replace(struct iw_stream *s, int carrier)
{
	for (int i = number(s, 0); i >= 0; i = number(s, i + 1))
		IW_SYS(dup3, carrier, i, iw_map_survives_exec(i) ? 0 : O_CLOEXEC);
	s->ino = iw_fd_ino(carrier);
}

/*
 * Its registrations are C's again, or gone; carrier: another one, in its place, or -1. Not if another thread has closed it, and the slot may be another
 * stream's (epoch). Who waits goes on under the same lock: a child of a fork would wait for a thread that it does not have.
 */
static int out_of_sets(int fd, struct iw_stream *s, uint32_t epoch, bool again, bool shut, bool rest, int carrier)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	int tcp = 0;

	if (atomic_load(&s->mapped) && atomic_load(&s->map_epoch) == epoch) {
		fd = current(s, fd);
		detach(s);
		if (carrier >= 0)
			iw_map_replace(s, carrier);
		tcp = stop(s, rest);
		if (shut)
			IW_SYS(shutdown, fd, SHUT_WR);
		if (again)
			attach(s);
		unhold(s);
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
	IW_PROBE2(libiwsock, given_back, fd, s->stream_id);
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
	is = iw_orphan_mapped(s) && iw_orphan_over(s);
	if (is && (iw_end_state(&s->view) & IW_END_DONE))
		IW_SYS(setsockopt, atomic_load(&s->mapped), SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	iw_map_unlock(s, &st);
	return is;
}

/*
 * A duplicate of our own; -1: it has no number any more; -EMFILE: none are left. Other threads may close its numbers, and make others, at any time; that what
 * stands there is something else for long is the work of calls that nobody sees.
 */
static int duplicate(int fd, struct iw_stream *s)
{
	uint64_t ino = s->ino, sigs;
	long n;

	for (int tries = 0; tries < TRIES && atomic_load(&s->refs); tries++) {
		sigs = iw_lock(&iw_tab_lock);
		n = IW_SYS(fcntl, current(s, fd), F_DUPFD_CLOEXEC, 0);
		iw_unlock(&iw_tab_lock, sigs);
		if (n >= 0 && iw_fd_ino((int)n) == ino) {
			n = iw_fd_hide((int)n);
			return n < 0 ? -EMFILE : (int)n;
		}
		if (n >= 0)
			IW_SYS(close, n);
		else if (n != -EBADF)
			return -EMFILE;
		IW_SYS(sched_yield);
	}
	return -1;
}

/*
 * The other carrier, or -1: without the daemon the pair is reset. All is done to a duplicate of our own, as the number may be something else's at any time.
 * Where there is none any more, there is nothing to give, and nobody to tell.
 */
static int rest_elsewhere(int fd, struct iw_stream *s)
{
	int mine = duplicate(fd, s), carrier = -1;

	if (mine >= 0)
		carrier = iw_map_ask_carrier(IW_CTL_REST, mine, fd);
	if (mine == -EMFILE)
		fd = current(s, fd);
	if (carrier < 0 && mine != -1 && iw_fd_ino(mine < 0 ? fd : mine) == s->ino)
		iw_stream_reset(s, mine < 0 ? fd : mine);
	if (mine >= 0)
		iw_fd_unhide_close(mine);
	return carrier;
}

/*
 * Octets that are left in the ring come before what is in the carrier. If that can be read for as long as they are there, the library gives them,
 * else nobody could know of them: without the daemon that is a reset.
 */
static int give_rings(int fd, struct iw_stream *s, bool shut, bool away)
{
	int carrier = -1, tcp;
	uint32_t epoch;
	bool rest;

	if (!iw_rings_hold(s, away, &epoch, &rest))
		return 0;
	if (rest)
		carrier = rest_elsewhere(fd, s);
	tcp = out_of_sets(fd, s, epoch, true, shut, rest, carrier);
	if (carrier >= 0)
		IW_SYS(close, carrier);
	return tcp;
}

/* It is the daemon's from now on. false: another thread is giving it back. */
static bool hold(struct iw_stream *s, uint32_t *epoch)
{
	struct iw_step st;
	bool ours;

	iw_map_lock(s, &st);
	*epoch = atomic_load(&s->map_epoch);
	ours = atomic_load(&s->mapped) && !atomic_exchange(&s->held, 1);
	if (ours)
		hand_over(s);
	iw_map_unlock(s, &st);
	return ours;
}

/*
 * What is unread in the map was told of, and is in the carrier once the daemon has answered: until then nobody looks there for it, or is told that
 * there is nothing.
 */
static int give_mapped(int fd, struct iw_stream *s, bool shut)
{
	uint32_t epoch;

	if (!hold(s, &epoch)) {
		iw_map_held(s);
		return 0;
	}
	unmap(fd, s);
	return out_of_sets(fd, s, epoch, true, shut, false, -1);
}

/* No handler comes meanwhile, which would wait for its own thread. */
static bool give_back(int fd, struct iw_stream *s, bool shut, bool away)
{
	int saved = errno, tcp = 0;
	uint64_t sigs;

	if (iw_likely(!atomic_load(&s->mapped)))
		return false;
	sigs = iw_sig_block();
	if (iw_ringed(s))
		tcp = give_rings(fd, s, shut, away);
	else if (atomic_load(&s->mapped) && (!iw_orphan(fd, s) || over(s)))
		tcp = give_mapped(fd, s, shut);
	if (tcp) {
		close_tcp(s, tcp);
		iw_kick();
	}
	iw_sig_restore(sigs);
	errno = saved;
	return tcp;
}

void iw_map_rest_over(struct iw_stream *s)
{
	if (iw_path(s) == &iw_rest)
		atomic_fetch_sub(&iw_maps, 1);
	atomic_store(&s->path, &iw_carrier);
	iw_rings_unmap(s);
}

/* What is left of a ring, with nobody looking, goes into another carrier, which the daemon fills. */
static void rest_away(int fd, struct iw_stream *s)
{
	int saved = errno, carrier;
	struct iw_step st;
	uint64_t sigs = iw_sig_block(), ino = s->ino;
	bool still;

	if (!iw_rings_hold_rest(s)) {
		iw_sig_restore(sigs);
		return;
	}
	carrier = rest_elsewhere(fd, s);
	iw_lock_only(&iw_tab_lock);
	still = s->ino == ino && iw_path(s) == &iw_rest;	/* nobody has closed it */
	if (still && carrier >= 0) {
		detach(s);
		iw_map_replace(s, carrier);
		attach(s);
	}
	if (still) {
		iw_map_lock(s, &st);
		iw_map_rest_over(s);
		iw_map_unlock(s, &st);
	}
	unhold(s);
	iw_unlock_only(&iw_tab_lock);
	if (carrier >= 0)
		IW_SYS(close, carrier);
	iw_sig_restore(sigs);
	errno = saved;
}

void iw_map_duplicated(int from, int to, struct iw_stream *s)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);

	if (iw_fd_ino(to) != s->ino && iw_word(to) == iw_stream_word(s))
		IW_SYS(dup3, from, to, iw_map_survives_exec(to) ? 0 : O_CLOEXEC);
	iw_unlock(&iw_tab_lock, sigs);
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
		tcp = out_of_sets(fd, s, atomic_load(&s->map_epoch), false, false, false, -1);
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
