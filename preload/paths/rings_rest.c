// SPDX-License-Identifier: MIT
/*
 * What was left in the ring of a joined pair when it was given up, for those who read by the library: first that, then the carrier, which has
 * something, or its end, and is not read before. So the kernel says that it can be read for as long as there is something left.
 */
#include "preload/map.h"
#include "preload/paths/carrier.h"
#include "preload/paths/rings_priv.h"

static bool enter(struct iw_mapped_call *c)
{
	iw_rings_lock(c);
	if (iw_path(c->s) == &iw_rest)
		return true;
	iw_map_unlock(c->s, &c->st);
	return false;
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
	return (ssize_t)c.done;
}

static ssize_t rest_rx_into(struct iw_stream *s, const struct iw_move *v)
{
	return iw_carrier.rx_into(s, v);
}

static long rest_inq(struct iw_stream *s, int fd)
{
	struct iw_mapped_call c = { .s = s, .fd = fd };
	long n = 0, q = iw_carrier.inq(s, fd);

	if (enter(&c)) {
		n = (long)iw_rings_left(s);
		iw_map_unlock(s, &c.st);
	}
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
