// SPDX-License-Identifier: MIT
/* The carrier as a path: the kernel's own calls on a unix socket, with the flags put right that it has no notion of. */
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>

#include "preload/handlers.h"
#include "preload/lib.h"
#include "preload/map.h"
#include "preload/opts.h"
#include "preload/opts_tcp.h"
#include "preload/path.h"
#include "preload/paths/carrier.h"
#include "preload/paths/carrier_all.h"
#include "preload/real.h"
#include "preload/spin.h"
#include "preload/stream.h"
#include "preload/sys.h"
#include "preload/tcpstate.h"

#define LOOK_MOST	(1ul << 30)	/* above it read() and recv() may differ in what they say of a length */
#define SKB_OVERHEAD	768	/* what the kernel accounts for a small buffer beside its octets */

/* ---- sending ---- */

static inline void tx_count(struct iw_stream *s, ssize_t n)
{
	atomic_store_explicit(&s->tx_put, atomic_load_explicit(&s->tx_put, memory_order_relaxed) + (uint64_t)n, memory_order_relaxed);
}

static inline ssize_t tx_done(struct iw_stream *s, int fd, ssize_t n, size_t len)
{
	if (iw_unlikely(n < 0))
		return n;
	tx_count(s, n);
	return iw_unlikely((size_t)n < len) ? iw_tx_short(s, fd, n, len) : n;
}

static IW_APART ssize_t send_vec(struct iw_stream *s, int fd, struct iw_io *io, int f)
{
	struct msghdr m = { .msg_iov = io->v, .msg_iovlen = io->n };
	ssize_t n = iw_real.sendmsg(fd, &m, f);

	return n < 0 ? n : tx_done(s, fd, n, iw_io_len(io));
}

static int tx_oob(struct iw_stream *s)
{
	if (!iw_stream_paired(s))	/* no urgent mark on this path yet */
		return iw_fail(EOPNOTSUPP);
	atomic_fetch_or(&iw_stream_end(s)->shut, IW_SHUT_OOB);
	return 0;
}

/*
 * The other flags are hints about segments (MSG_MORE, MSG_EOR, ...) or do nothing on a connected TCP socket (MSG_ZEROCOPY without
 * SO_ZEROCOPY).
 */
static ssize_t carrier_tx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	int f = (flags & (MSG_DONTWAIT | MSG_OOB)) | MSG_NOSIGNAL;
	size_t len;

	if (iw_unlikely(iw_map_wants_rings(s)) && !(flags & MSG_OOB) && iw_map_rings(fd, s))
		return iw_path(s)->tx(s, fd, io, flags);
	if (iw_unlikely(flags & MSG_OOB) && tx_oob(s) < 0)
		return -1;
	if (iw_unlikely(io->vec))
		return send_vec(s, fd, io, f);
	len = io->one.iov_len;
	return tx_done(s, fd, iw_real.send(fd, io->one.iov_base, len, f), len);
}

/*
 * sendfile and splice into a carrier have no MSG_NOSIGNAL: SIGPIPE is blocked around them, taken back when the carrier raised it,
 * and raised again where TCP does.
 */
struct quiet {
	uint64_t old;
	bool was;
};

static void quiet_begin(struct quiet *q)
{
	uint64_t bit = 1ull << (SIGPIPE - 1), pend = 0;

	IW_SYS(rt_sigprocmask, SIG_BLOCK, &bit, &q->old, 8);
	q->was = false;
	if (q->old & bit) {	/* blocked by the caller: one may be pending already */
		IW_SYS(rt_sigpending, &pend, 8);
		q->was = pend & bit;
	}
}

/* n of len were sent: a short count too may have ended with a piece that the carrier refused. */
static void quiet_end(struct quiet *q, ssize_t n, size_t len)
{
	uint64_t bit = 1ull << (SIGPIPE - 1);
	struct timespec zero = { 0, 0 };
	bool raised = n < 0 ? errno == EPIPE : (size_t)n < len;

	if (raised && !q->was)
		IW_SYS(rt_sigtimedwait, &bit, NULL, &zero, 8);
	IW_SYS(rt_sigprocmask, SIG_SETMASK, &q->old, NULL, 8);
}

/* Is there more where that came from, so that the carrier must have cut it short? */
static bool more(int in, const off64_t *off)
{
	struct stat st;
	off64_t at;
	int q = 0;

	if (IW_SYS(fstat, in, &st) < 0)
		return false;
	if (!S_ISREG(st.st_mode))
		return IW_SYS(ioctl, in, FIONREAD, &q) == 0 && q > 0;
	at = off ? *off : (off64_t)IW_SYS(lseek, in, 0, SEEK_CUR);
	return at >= 0 && at < st.st_size;
}

static ssize_t move(const struct iw_move *v)
{
	if (v->splice)
		return iw_real.splice(v->in, v->off_in, v->out, v->off_out, v->len, v->flags);
	return iw_real.sendfile64(v->out, v->in, v->off_in, v->len);
}

static ssize_t carrier_tx_from(struct iw_stream *s, const struct iw_move *v)
{
	struct quiet q;
	ssize_t n;

	quiet_begin(&q);
	n = move(v);
	quiet_end(&q, n, v->len);
	if (n > 0)
		tx_count(s, n);
	if (n > 0 && (size_t)n < v->len && more(v->in, v->off_in))
		iw_tx_short(s, v->out, n, v->len);	/* the rest is still in the source: for the next call */
	return n;
}

static ssize_t carrier_rx_into(struct iw_stream *s, const struct iw_move *v)
{
	return move(v);
}

/* ---- receiving ---- */

/* A unix stream does not wait for more when it peeks; SO_PEEK_OFF makes it look, and sleep, behind what was seen. */
static ssize_t peek_all(int fd, struct iw_io *io, int flags)
{
	size_t len = iw_io_len(io);
	int none = -1, err = errno;

	for (;;) {
		struct msghdr m = { .msg_iov = io->vec ? io->v : &io->one, .msg_iovlen = io->vec ? io->n : 1 };
		ssize_t n, r;
		int off;
		char c;

		n = iw_real.recvmsg(fd, &m, (flags & ~MSG_WAITALL) | MSG_DONTWAIT);
		if (n >= (ssize_t)len || (n < 0 && errno != EAGAIN) || n == 0)
			return n;
		if (flags & MSG_DONTWAIT)
			return n;
		off = n < 0 ? 0 : (int)n;
		iw_real.setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off));
		r = iw_real.recv(fd, &c, 1, MSG_PEEK);
		iw_real.setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &none, sizeof(none));
		if (r > 0)
			continue;
		if (n <= 0)
			return r;
		errno = err;
		return n;
	}
}

static ssize_t rx_file(int fd, struct iw_io *io)
{
	if (io->form == IW_IO_V2)
		return iw_real.preadv64v2(fd, io->v, (int)io->n, io->off, io->rwf);
	return iw_real.readv(fd, io->v, (int)io->n);
}

static ssize_t recv_vec(int fd, struct iw_io *io, int flags)
{
	struct msghdr m = { .msg_iov = io->v, .msg_iovlen = io->n };
	ssize_t n = iw_real.recvmsg(fd, &m, flags);

	io->msg_flags = m.msg_flags;
	return n;
}

static IW_APART ssize_t rx_flags(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	if (!(flags & MSG_OOB))
		return peek_all(fd, io, flags);
	if (!iw_stream_local(s))	/* as without urgent data */
		return iw_fail(EINVAL);
	return io->vec ? recv_vec(fd, io, flags) : iw_real.recv(fd, io->one.iov_base, io->one.iov_len, flags);
}

static ssize_t rx_call(int fd, struct iw_io *io, int flags)
{
	if (io->form != IW_IO_SOCK)
		return io->vec ? rx_file(fd, io) : iw_real.read(fd, io->one.iov_base, io->one.iov_len);
	return io->vec ? recv_vec(fd, io, flags) : iw_real.recv(fd, io->one.iov_base, io->one.iov_len, flags);
}

/* It waits, and is awake for a moment first; but where the kernel would wait for more than the first octet. */
static bool may_look(struct iw_stream *s, const struct iw_io *io, int flags)
{
	return iw_stream_local(s) && !io->vec && io->one.iov_len - 1 < LOOK_MOST && io->form != IW_IO_V2 && !(flags & (MSG_DONTWAIT | MSG_WAITALL)) &&
	       !atomic_load_explicit(&s->nowait, memory_order_relaxed) &&
	       !(atomic_load_explicit(&iw_stream_end(s)->opts, memory_order_relaxed) & IW_SOPT_RCVLOWAT);
}

static bool waits(struct iw_stream *s, int fd)
{
	bool nowait = IW_SYS(fcntl, fd, F_GETFL, 0) & O_NONBLOCK;

	atomic_store_explicit(&s->nowait, nowait, memory_order_relaxed);
	return !nowait;
}

bool iw_carrier_interrupts(int fd, int sig)
{
	struct timeval tv = { 0, 0 };
	socklen_t l = sizeof(tv);

	return (atomic_load(&iw_handlers_interrupt) >> (sig - 1) & 1) ||
	       (IW_SYS(getsockopt, fd, SOL_SOCKET, SO_RCVTIMEO, &tv, &l) >= 0 && (tv.tv_sec || tv.tv_usec));
}

static ssize_t rx_look(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	struct iw_spin z;
	ssize_t n = -EAGAIN;

	iw_cancel_point();
	iw_spin_begin(&z);
	while (n == -EAGAIN && iw_spin_on(&z)) {
		n = IW_SYS(recvfrom, fd, io->one.iov_base, io->one.iov_len, flags | MSG_DONTWAIT, NULL, NULL);
		if (n == -EAGAIN && z.looks == 1 && !waits(s, fd))
			z.begin = z.most = 0;
	}
	iw_spin_over(&z);
	if (n == -EAGAIN && z.signal && z.begin && iw_carrier_interrupts(fd, z.signal))
		n = -EINTR;
	if (n == -EAGAIN || n == -ENOTSOCK)
		n = rx_call(fd, io, flags);
	else
		n = iw_ret(n);
	iw_spin_end(&z);
	return n;
}

ssize_t iw_carrier_rx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	if (iw_unlikely(io->form == IW_IO_SOCK && ((flags & MSG_OOB) || ((flags & MSG_PEEK) && (flags & MSG_WAITALL)))))
		return rx_flags(s, fd, io, flags);
	if (iw_unlikely(flags & MSG_WAITALL && io->form == IW_IO_SOCK && iw_stream_local(s)))
		return iw_carrier_rx_all(s, fd, io, flags, rx_call);
	return rx_call(fd, io, flags);
}

static ssize_t carrier_rx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	if (iw_unlikely(iw_map_wants_rings(s))) {
		ssize_t n;

		if (!iw_map_relayed(s))
			return iw_map_rings(fd, s) ? iw_path(s)->rx(s, fd, io, flags) : iw_carrier_rx(s, fd, io, flags);
		n = iw_carrier_rx(s, fd, io, flags);	/* behind it nothing may be left, which who only receives does not find before */
		iw_map_rings(fd, s);
		return n;
	}
	return may_look(s, io, flags) ? rx_look(s, fd, io, flags) : iw_carrier_rx(s, fd, io, flags);
}

/* ---- what it holds, and its ends ---- */

static short carrier_bits(struct iw_stream *s, int fd, short events)
{
	return iw_fd_bits(fd, events);
}

static short carrier_wait_events(struct iw_stream *s, short events)
{
	return events;
}

static short carrier_step(struct iw_stream *s, int fd, bool some)
{
	return 0;
}

static long carrier_inq(struct iw_stream *s, int fd)
{
	int q = 0;
	long r = IW_SYS(ioctl, fd, SIOCINQ, &q);

	return r < 0 ? r : q;
}

/*
 * Octets in the carrier that the other side has not taken. The kernel tells its own accounting, which is 0 exactly when there are
 * none; above that it is bounded by what was written, which is exact when this process is the only writer.
 */
static int held(struct iw_stream *s, int fd, uint64_t taken)
{
	uint64_t put = atomic_load(&s->tx_put);
	int q = 0;

	if (IW_SYS(ioctl, fd, SIOCOUTQ, &q) < 0 || q <= 0)
		return 0;
	q = q > SKB_OVERHEAD ? q - SKB_OVERHEAD : 1;
	return put > taken && put - taken < (uint64_t)q ? (int)(put - taken) : q;
}

/* Of what the daemon took, as it stands in the page. */
static int unacked(struct iw_stream *s)
{
	struct iw_page_end *me = iw_stream_end(s);
	uint64_t n = atomic_load(&me->tx_taken) - atomic_load(&me->tx_acked);

	return n < 1u << 30 ? (int)n : 0;
}

/* By an answer of the daemon's it is as of now. */
static int unacked_now(struct iw_stream *s, int fd)
{
	int type, err = errno;
	socklen_t len = sizeof(type);

	if (!unacked(s))
		return 0;
	iw_opt_get(s, fd, SOL_SOCKET, SO_TYPE, &type, &len);
	errno = err;
	return unacked(s);
}

/*
 * TCP: not yet acknowledged. On a LOCAL stream what was written lies in the reader's receive queue, which TCP would have
 * acknowledged; but for what no longer fits.
 */
static int carrier_outq(struct iw_stream *s, int fd, bool unsent)
{
	int q;

	if (iw_stream_local(s))
		return iw_fd_bits(fd, POLLOUT) & POLLOUT ? 0 : held(s, fd, 0);
	q = held(s, fd, atomic_load(&iw_stream_end(s)->tx_taken));
	return unsent ? q : q + unacked_now(s, fd);
}

static int carrier_shutdown(struct iw_stream *s, int fd, int how)
{
	return iw_real.shutdown(fd, how);
}

const struct iw_path_ops iw_carrier = {
	.tx = carrier_tx,
	.rx = carrier_rx,
	.tx_from = carrier_tx_from,
	.rx_into = carrier_rx_into,
	.bits = carrier_bits,
	.wait_events = carrier_wait_events,
	.step = carrier_step,
	.inq = carrier_inq,
	.outq = carrier_outq,
	.shutdown = carrier_shutdown,
};
