// SPDX-License-Identifier: MIT
/* A call on a mapped stream sleeps: see mapped_sleep.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/time.h>

#include "preload/handlers.h"
#include "preload/kick.h"
#include "preload/lock.h"
#include "preload/paths/mapped_in.h"
#include "preload/paths/mapped_sleep.h"
#include "preload/real.h"
#include "preload/spin.h"
#include "preload/sys.h"

bool iw_mapped_waits(struct iw_mapped_call *c)
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
static void undo(struct iw_mapped_call *c)
{
	struct iw_sleep *z = c->slept.z;

	if (!z)
		return;
	z->watch = c->watch;
	z->signals = c->signals;
	z->sends = c->sends;
}

/* It was. */
static void undone(struct iw_mapped_call *c)
{
	c->watch = c->signals = -1;
	c->sends = c->inside = false;
	c->slept.z = NULL;
}

static void signals_done(struct iw_mapped_call *c)
{
	int fd = c->signals;

	c->signals = -1;
	undo(c);
	if (fd >= 0)
		IW_SYS(close, fd);
}

void iw_mapped_outside(struct iw_mapped_call *c)
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
	struct iw_mapped_call *c = call;

	if (c->st.blocked)
		iw_sig_restore(c->st.sigs);
	if (!iw_sleep_end(&c->slept))
		undone(c);
	atomic_fetch_sub(&c->s->map_senders, c->sends);
	if (c->sends)
		iw_mapped_give(c);
	iw_mapped_outside(c);
}

/*
 * Which handlers end the sleep: all, if octets were moved or there is a time-out, as in TCP; else those without SA_RESTART. Where there are both,
 * those that do not end it are kept out, and let in when the signalfd tells of them. Returns what is kept out.
 */
static uint64_t interrupts(struct iw_mapped_call *c)
{
	uint64_t in = c->st.blocked ? ~c->st.sigs : 0, go_on = atomic_load(&iw_handlers_restart) & in;

	c->breaks = c->done || c->d.end >= 0 || (atomic_load(&iw_handlers_interrupt) & in);
	if (c->breaks && go_on && !c->done && c->d.end < 0)
		c->signals = (int)IW_SYS(signalfd4, -1, &go_on, 8, SFD_CLOEXEC | SFD_NONBLOCK);
	return c->signals >= 0 ? go_on : 0;
}

/* The first one decides, as the kernel has it. */
static int let_in(struct iw_mapped_call *c)
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
static int sleep_poll(struct iw_mapped_call *c, int tcp, short events)
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

int iw_mapped_receive(struct iw_mapped_call *c)
{
	struct iw_stream *s = c->s;
	int saved = errno, err = EAGAIN, tcp = atomic_load(&s->mapped);
	struct iw_spin z;
	size_t room;
	uint8_t *p = iw_mapped_place(c, &room);
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
	iw_mapped_came(s, n < 0 ? -err : n, false);
	return err == EINTR || err == EAGAIN ? err : 0;
}

/* Counted, and with a watch where others are: before its last look. false: not yet, or not by this path. */
static bool may_sleep(struct iw_mapped_call *c, int option)
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
	iw_mapped_leave(c);
	c->watch = iw_kick_watch();
	if (c->watch < 0)
		iw_mapped_give(c);
	iw_map_lock(c->s, &c->st);
	return false;
}

int iw_mapped_wait(struct iw_mapped_call *c, unsigned int what, int option)
{
	struct iw_stream *s = c->s;
	int tcp = atomic_load(&s->mapped), err;

	if (iw_mapped_raw(c)) {
		iw_mapped_leave(c);
		iw_mapped_give(c);
		iw_map_lock(s, &c->st);
		return 0;
	}
	if (what == IW_END_IN && option == SO_RCVTIMEO && iw_handlers_alone())
		return iw_mapped_receive(c);
	if (!may_sleep(c, option))
		return 0;
	if (atomic_load(&iw_handlers))
		iw_step_block(&c->st);
	c->sends = what & IW_END_OUT;
	atomic_fetch_add(&s->map_senders, c->sends);
	iw_mapped_pause(c);
	err = sleep_poll(c, tcp, (short)((what & IW_END_OUT ? POLLOUT : 0) | (what & IW_END_IN ? POLLIN : 0)));
	iw_mapped_resume(c);
	atomic_fetch_sub(&s->map_senders, c->sends);
	c->sends = false;
	undo(c);
	return err;
}
