// SPDX-License-Identifier: MIT
/* The state TCP would be in, derived from the carrier and the shared page, and the results of calls that follow from it. */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "proto/page.h"
#include "proto/probe.h"
#include "proto/ring.h"
#include "lib.h"
#include "path.h"
#include "reg.h"
#include "stream.h"
#include "sys.h"
#include "tcpstate.h"

#define SEND_MAX	0x7ffff000u	/* the most that a call sends */
#define CLOSES_S	1	/* it does so at once; a daemon that is stopped is not waited for any longer */

short iw_fd_bits(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };
	struct timespec zero = { 0, 0 };

	if (IW_SYS(ppoll, &p, 1, &zero, NULL, 8) <= 0)
		return 0;
	return p.revents;
}

static void record_reset(struct iw_page_end *e, uint32_t from, uint32_t err)
{
	atomic_store(&e->close_errno, err);
	if (atomic_compare_exchange_strong(&e->close_state, &from, IW_CLOSE_RESET))
		IW_PROBE1(libiwsock, reset, err);
}

void iw_tcp_reset(struct iw_stream *s)
{
	record_reset(iw_stream_end(s), IW_CLOSE_OPEN, ECONNRESET);
}

static unsigned int reset_state(const struct iw_page_end *me, bool fin)
{
	return IW_TCP_RST | IW_TCP_CLOSE | (fin ? IW_TCP_FIN : 0) |
	       (atomic_load(&me->err_taken) ? 0 : IW_TCP_ERR);
}

/*
 * Remote: the daemon records the close state before it closes its end, so a hang-up with the state still OPEN means that the
 * daemon died. After SHUT_RDWR of our own the carrier always hangs up and tells nothing.
 */
static unsigned int eval_remote(struct iw_page_end *me, short bits)
{
	uint32_t cs = atomic_load(&me->close_state), shut = atomic_load(&me->shut);
	bool gone = (bits & (POLLHUP | POLLERR)) && !((shut & IW_SHUT_RD) && (shut & IW_SHUT_WR));

	if (cs == IW_CLOSE_OPEN && gone) {
		record_reset(me, IW_CLOSE_OPEN, ECONNRESET);
		cs = atomic_load(&me->close_state);
	} else if (cs == IW_CLOSE_FIN && gone && !(shut & IW_SHUT_WR)) {
		record_reset(me, IW_CLOSE_FIN, EPIPE);
		cs = atomic_load(&me->close_state);
	}
	if (cs == IW_CLOSE_RESET)
		return reset_state(me, atomic_load(&me->close_errno) == EPIPE);
	if (cs == IW_CLOSE_FIN)
		return IW_TCP_FIN | (shut & IW_SHUT_WR ? IW_TCP_CLOSE : 0);
	return 0;
}

/* The carrier says that the other end is closed. That hangs up, too, when each direction was shut by somebody. */
static bool is_gone(struct iw_stream *s, short bits)
{
	uint32_t shut = atomic_load(&iw_stream_end(s)->shut), oshut = atomic_load(&iw_stream_other(s)->shut);
	bool in = (shut & IW_SHUT_RD) || (oshut & IW_SHUT_WR), out = (shut & IW_SHUT_WR) || (oshut & IW_SHUT_RD);

	return (bits & POLLHUP) && ((oshut & IW_SHUT_CLOSED) || !(in && out));
}

/* Octets that we sent are in the ring still; whoever is gone did not read them. */
static bool unread(const struct iw_stream *s)
{
	const struct iw_ring r = { .dir = (struct iw_ring_dir *)((uint8_t *)s->page + IW_PAGE_DIRS) + s->end };

	return !iw_ring_taken(&r);
}

/*
 * Local: the kernel tells what happened to the other end; its application, perhaps another user's, writes in the page what it likes. So
 * what stands there says only of which kind an end is that the kernel tells of. A RESET counts once the other end is gone: SO_LINGER
 * {1, 0} records it in advance (opts.c).
 */
static unsigned int eval_local(struct iw_stream *s, short bits)
{
	struct iw_page_end *me = iw_stream_end(s), *other = iw_stream_other(s);
	uint32_t shut = atomic_load(&me->shut), oshut = atomic_load(&other->shut);
	bool fin = oshut & IW_SHUT_WR, wr = shut & IW_SHUT_WR, hup = bits & (POLLHUP | POLLERR), gone = is_gone(s, bits);
	bool theirs = (bits & POLLHUP) && !(wr && (shut & IW_SHUT_RD));	/* a hang-up that is not our own doing: the daemon would have said FIN before */

	if (hup && wr && (oshut & IW_SHUT_WR))
		return IW_TCP_FIN | IW_TCP_CLOSE;
	if (gone)
		fin = true;
	if ((bits & POLLERR) || (gone && unread(s)) || (fin && theirs && iw_page_relayed(s->page)))
		record_reset(me, IW_CLOSE_OPEN, ECONNRESET);
	if (hup && atomic_load(&me->close_state) == IW_CLOSE_RESET)
		return reset_state(me, oshut & IW_SHUT_WR);
	if (hup && (shut & IW_SHUT_RST))
		return reset_state(me, true);
	return (fin ? IW_TCP_FIN : 0) | (hup && fin && wr ? IW_TCP_CLOSE : 0);
}

unsigned int iw_tcp_eval(struct iw_stream *s, short bits)
{
	return iw_stream_local(s) ? eval_local(s, bits) : eval_remote(iw_stream_end(s), bits);
}

/* What a reset gives: one that another application may have written is one that TCP gives within a host. */
static int reset_errno(struct iw_stream *s)
{
	uint32_t err = atomic_load(&iw_stream_end(s)->close_errno);

	if (iw_stream_near(s))
		return err == ETIMEDOUT || err == ECONNABORTED ? (int)err : ECONNRESET;
	return err && err < 4096 ? (int)err : ECONNRESET;
}

int iw_tcp_take_error(struct iw_stream *s, unsigned int state)
{
	if (!(state & IW_TCP_ERR) || atomic_exchange(&iw_stream_end(s)->err_taken, 1))
		return 0;
	return state & IW_TCP_FIN ? EPIPE : reset_errno(s);	/* EPIPE: a RST in CLOSE_WAIT */
}

int iw_take_error(struct iw_stream *s, int fd, short bits)
{
	socklen_t l = sizeof(int);
	int e;

	if (bits & POLLERR)
		IW_SYS(getsockopt, fd, SOL_SOCKET, SO_ERROR, &e, &l);	/* from now on the page says it */
	return iw_tcp_take_error(s, iw_tcp_eval(s, bits));
}

ssize_t iw_rx_edge(struct iw_stream *s, int fd, ssize_t n)
{
	struct iw_page_end *me = iw_stream_end(s);
	int err = errno;
	uint32_t cs = atomic_load(&me->close_state);
	bool local = iw_stream_local(s);
	unsigned int st;

	if (n == 0 && !(local && unread(s)) && cs == (local && !iw_page_relayed(s->page) ? IW_CLOSE_OPEN : IW_CLOSE_FIN))
		return 0;
	if (!iw_stream_verify(fd, s)) {
		errno = err;
		return n;
	}
	st = iw_tcp_eval(s, n < 0 ? POLLERR | POLLHUP : iw_path(s)->bits(s, fd, 0));
	if (!st && !local && !(atomic_load(&me->shut) & IW_SHUT_RD)) {
		record_reset(me, IW_CLOSE_OPEN, ECONNRESET);
		st = iw_tcp_eval(s, 0);
	}
	errno = err;
	if (st & IW_TCP_FIN)
		return 0;
	err = iw_tcp_take_error(s, st);
	return err ? iw_fail(err) : 0;
}

bool iw_tcp_reset_comes(struct iw_stream *s, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec t = { CLOSES_S, 0 };

	return !iw_stream_local(s) && !atomic_load(&s->mapped) && atomic_load(&iw_stream_end(s)->close_state) == IW_CLOSE_RESET &&
	       IW_SYS(ppoll, &p, 1, &t, NULL, 8) > 0;
}

/* The kernel itself raises it: a send of nothing on an end that cannot send. */
static void raise_sigpipe(int fd)
{
	if (IW_SYS(sendto, fd, "", 0, 0, NULL, 0) != -EPIPE)
		IW_SYS(tgkill, IW_SYS(getpid), IW_SYS(gettid), SIGPIPE);
}

/*
 * The other end of a local stream takes no more. TCP notices by the RST that its first octets cause, so one send still succeeds as a
 * whole; after a mere SHUT_RD of the peer all of them do, and nobody reads them.
 */
static ssize_t send_lost(struct iw_stream *s, int fd, unsigned int st, size_t len)
{
	struct iw_page_end *other = iw_stream_other(s);

	if (len > SEND_MAX)
		len = SEND_MAX;
	if ((st & IW_TCP_FIN) && len) {
		atomic_fetch_or(&iw_stream_end(s)->shut, IW_SHUT_RST);
		record_reset(other, IW_CLOSE_OPEN, ECONNRESET);	/* data for one that did SHUT_RDWR */
		/* everybody who waits for this end is to look again, here and in other processes */
		IW_SYS(shutdown, fd, SHUT_RDWR);
		iw_reg_look_again(fd);
	}
	return (ssize_t)len;
}

ssize_t iw_tx_edge(struct iw_stream *s, int fd, size_t len, int flags)
{
	struct iw_page_end *me = iw_stream_end(s);
	int err = errno;
	unsigned int st;
	short bits;

	if (!iw_stream_verify(fd, s))
		return iw_fail(err);
	bits = iw_path(s)->bits(s, fd, 0);
	if (bits & POLLERR) {
		int e;
		socklen_t l = sizeof(e);

		IW_SYS(getsockopt, fd, SOL_SOCKET, SO_ERROR, &e, &l);	/* from now on the page says it */
	}
	st = iw_tcp_eval(s, bits | (err == ECONNRESET ? POLLERR : 0));
	if (st & IW_TCP_RST) {
		err = iw_tcp_take_error(s, st);
		if (err && err != EPIPE)
			return iw_fail(err);
	} else if (!(atomic_load(&me->shut) & IW_SHUT_WR)) {
		if (iw_stream_local(s))
			return send_lost(s, fd, st, len);
		record_reset(me, atomic_load(&me->close_state), st & IW_TCP_FIN ? EPIPE : ECONNRESET);
		err = iw_tcp_take_error(s, iw_tcp_eval(s, 0));
		if (err && err != EPIPE)
			return iw_fail(err);
	}
	if (!(flags & MSG_NOSIGNAL))
		raise_sigpipe(fd);
	return iw_fail(EPIPE);
}

/*
 * A local send was cut short. When the other end went away meanwhile, the kernel has spent the error on this call; TCP keeps it for
 * the next one. (Should the other end have read everything and closed cleanly after a merely full buffer, the rest of this
 * message gets the same answer a moment later.) When it only reads no more, the rest is lost like all that follows.
 */
ssize_t iw_tx_short(struct iw_stream *s, int fd, ssize_t n, size_t len)
{
	if (!iw_stream_local(s) || (atomic_load(&iw_stream_end(s)->shut) & IW_SHUT_WR))
		return n;
	if (iw_path(s)->bits(s, fd, 0) & POLLHUP)
		record_reset(iw_stream_end(s), IW_CLOSE_OPEN, ECONNRESET);
	else if (atomic_load(&iw_stream_other(s)->shut) & IW_SHUT_RD)
		return (ssize_t)(len < SEND_MAX ? len : SEND_MAX);
	return n;
}

/* On a local stream with urgent data the carrier says POLLIN for the urgent octet alone; TCP does not. */
static bool only_urgent(int fd)
{
	int inq = 0, mark = 0;

	return IW_SYS(ioctl, fd, FIONREAD, &inq) == 0 && inq == 1 &&
	       IW_SYS(ioctl, fd, SIOCATMARK, &mark) == 0 && mark;
}

/* The kernel says that the carrier takes no more, whatever stands in the page. */
static bool shut_by_daemon(struct iw_stream *s, int fd)
{
	return !(atomic_load(&iw_stream_end(s)->shut) & IW_SHUT_WR) && IW_SYS(sendto, fd, "", 0, MSG_NOSIGNAL, NULL, 0) == -EPIPE;
}

short iw_stream_fix_events(struct iw_stream *s, int fd, short ev)
{
	const short in = POLLIN | POLLRDNORM, all = in | POLLRDHUP | POLLOUT | POLLWRNORM | POLLHUP;
	bool local = iw_stream_local(s);
	unsigned int st;

	ev &= ~(POLLWRBAND | POLLRDBAND);
	if (atomic_load(&iw_stream_end(s)->shut) & IW_SHUT_WR)
		ev |= POLLOUT | POLLWRNORM;	/* the carrier may be full */
	if ((ev & POLLPRI) && (ev & in) && !(ev & (POLLHUP | POLLRDHUP)) && only_urgent(fd))
		ev &= ~in;
	/* a recorded reset is one before the daemon has closed its end: it delivers what came before */
	if (!(ev & (POLLHUP | POLLERR)) && (local || atomic_load(&iw_stream_end(s)->close_state) != IW_CLOSE_RESET))
		return ev;
	if (!iw_stream_verify(fd, s))
		return ev;
	if (!(ev & (POLLHUP | POLLERR)) && iw_stream_near(s) && !shut_by_daemon(s, fd))
		return ev;
	st = iw_tcp_eval(s, ev);
	ev &= ~POLLERR;
	if (st & IW_TCP_RST)
		return ev | all | (st & IW_TCP_ERR ? POLLERR : 0);
	if (local && !(atomic_load(&iw_stream_end(s)->shut) & IW_SHUT_WR))
		ev &= ~POLLHUP;
	return ev;
}
