// SPDX-License-Identifier: MIT
/*
 * What was left in the ring of a joined pair when it was given up, for those who read by the library: first that, then the carrier, which has
 * something, or its end, and is not read before. So the kernel says that it can be read for as long as there is something left.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "preload/map.h"
#include "preload/paths/carrier.h"
#include "preload/paths/rings_priv.h"
#include "preload/sys.h"

static bool enter(struct iw_mapped_call *c)
{
	iw_rings_lock(c);
	if (iw_path(c->s) == &iw_rest)
		return true;
	iw_map_unlock(c->s, &c->st);
	return false;
}

/* What was looked at in the carrier came behind what is left: that is not in it, too, by now. */
static bool still_there(struct iw_mapped_call *c)
{
	if (!enter(c))
		return false;
	iw_map_unlock(c->s, &c->st);
	return true;
}

static ssize_t rest_rx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	struct iw_mapped_call c;
	int err;

	if ((flags & MSG_OOB) || (io->form == IW_IO_V2 && io->off != -1))
		return iw_carrier.rx(s, fd, io, flags);
	if (!iw_mapped_call(&c, s, fd, io, flags))
		return -1;
	if (!c.len || !enter(&c))
		return iw_carrier.rx(s, fd, io, flags);
	err = iw_rings_take(&c, iw_rings_left(s));
	if (!iw_rings_left(s))
		iw_map_rest_over(s);
	iw_map_unlock(s, &c.st);
	if (err)
		return iw_fail(err);
	if (c.done < c.len)
		iw_mapped_more(&c, iw_carrier_rx, flags | (flags & MSG_WAITALL ? 0 : MSG_DONTWAIT));
	return !(flags & MSG_PEEK) || still_there(&c) ? (ssize_t)c.done : iw_path(s)->rx(s, iw_map_fd(s, fd), io, flags);
}

/* By a pipe of ours, from which the kernel moves as much as the other one has room for. Octets, 0: nothing is left, or -errno. */
static ssize_t spliced(struct iw_stream *s, const struct iw_move *v, const int pipe[2])
{
	struct iw_mapped_call c = { .s = s, .fd = v->in };
	const struct iw_ring *r = &s->ring.rx;
	ssize_t n = 0;
	size_t have, off;

	if (!enter(&c))
		return 0;
	off = r->pos & (r->len - 1);
	have = iw_rings_left(s);
	if (have > r->len - off)
		have = r->len - off;
	if (have)
		n = IW_SYS(write, pipe[1], r->mem + off, have < v->len ? have : v->len);
	if (n > 0)
		n = IW_SYS(splice, pipe[0], NULL, v->out, NULL, n, v->flags | SPLICE_F_NONBLOCK);
	if (n > 0)
		iw_ring_consumed(&s->ring.rx, (size_t)n);
	if (!iw_rings_left(s))
		iw_map_rest_over(s);
	iw_map_unlock(s, &c.st);
	return n;
}

static bool waits(const struct iw_move *v)
{
	return !(v->flags & SPLICE_F_NONBLOCK) && !(IW_SYS(fcntl, v->out, F_GETFL, 0) & O_NONBLOCK);
}

/* What cannot be moved from here is in the file before the kernel sleeps for it. */
static ssize_t rest_rx_into(struct iw_stream *s, const struct iw_move *v)
{
	ssize_t n = -EAGAIN;
	struct stat st;
	int pipe[2];

	if (!v->splice || v->off_in || v->off_out || !v->len || IW_SYS(fstat, v->out, &st) < 0 || !S_ISFIFO(st.st_mode))
		return iw_carrier.rx_into(s, v);
	if (IW_SYS(pipe2, pipe, O_CLOEXEC | O_NONBLOCK) >= 0) {
		n = spliced(s, v, pipe);
		IW_SYS(close, pipe[0]);
		IW_SYS(close, pipe[1]);
		if (n > 0)
			return n;
		if (n < 0 && (n != -EAGAIN || !waits(v)))
			return iw_fail((int)-n);
	}
	if (n < 0)
		iw_map_hand(v->in, s);
	return iw_path(s)->rx_into(s, v);
}

/* Of both at one moment: what is left goes into another carrier when the stream is given to others. */
static long rest_inq(struct iw_stream *s, int fd)
{
	struct iw_mapped_call c = { .s = s, .fd = fd };
	long n, q;

	if (!enter(&c))
		return iw_path(s)->inq(s, fd);
	n = (long)iw_rings_left(s);
	q = iw_carrier.inq(s, fd);
	iw_map_unlock(s, &c.st);
	return q < 0 ? q : n + q;
}

static ssize_t rest_tx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	return iw_carrier.tx(s, fd, io, flags);
}

static ssize_t rest_tx_from(struct iw_stream *s, const struct iw_move *v)
{
	return iw_carrier.tx_from(s, v);
}

static short rest_bits(struct iw_stream *s, int fd, short events)
{
	return iw_carrier.bits(s, fd, events);
}

static short rest_wait_events(struct iw_stream *s, short events)
{
	return events;
}

static short rest_step(struct iw_stream *s, int fd, bool some)
{
	return 0;
}

static int rest_outq(struct iw_stream *s, int fd, bool unsent)
{
	return iw_carrier.outq(s, fd, unsent);
}

static int rest_shutdown(struct iw_stream *s, int fd, int how)
{
	return iw_carrier.shutdown(s, fd, how);
}

const struct iw_path_ops iw_rest = {
	.tx = rest_tx,
	.rx = rest_rx,
	.tx_from = rest_tx_from,
	.rx_into = rest_rx_into,
	.bits = rest_bits,
	.wait_events = rest_wait_events,
	.step = rest_step,
	.inq = rest_inq,
	.outq = rest_outq,
	.shutdown = rest_shutdown,
};
