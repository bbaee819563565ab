// SPDX-License-Identifier: MIT
/* Receiving on a mapped stream: see mapped_rx.h. */
#include <errno.h>
#include <sys/socket.h>

#include "preload/handlers.h"
#include "preload/paths/burst.h"
#include "preload/paths/carrier.h"
#include "preload/paths/mapped_in.h"
#include "preload/paths/mapped_rx.h"
#include "preload/paths/mapped_sleep.h"
#include "preload/real.h"
#include "preload/sys.h"

static int rx_parsed(struct iw_mapped_call *c)
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
		ok = c->done + have <= c->wanted ? have : iw_mapped_good(c, have, c->wanted ? IW_USE_KEEP : IW_USE_FILL);
		if (!ok)
			return EFAULT;
		c->done += iw_end_get(&s->view, c->v, c->n, c->done, ok, peeks, peeks ? c->done : 0);
		if (ok < have || c->done == c->len || !(c->flags & MSG_WAITALL))
			break;
	} while (iw_mapped_fill_for(c));
	return 0;
}

/* What there is, as much as is wanted. 0, EFAULT. */
static int rx_some(struct iw_mapped_call *c)
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
	return (iw_unlikely(iw_end_state(&s->view) & (IW_MAPPED_ENDED | IW_END_FIN)) && !iw_end_unread(&s->view)) ||
	       iw_orphan_eof(s);
}

/* An end that this call found, and that others may wait for: nobody else will find it. */
static bool told(struct iw_mapped_call *c)
{
	struct iw_stream *s = c->s;

	return iw_mapped_ends(s) && (!iw_end_unread(&s->view) || atomic_load(&s->reg) || atomic_load(&s->polled) > c->inside);
}

static ssize_t rx_end(struct iw_mapped_call *c, int err)
{
	bool left = iw_mapped_forgotten(c->s) || told(c);		/* the peer may wait for it; the carrier says what TCP would say to who waits */

	if (c->done)
		iw_burst_end(c->s);
	iw_mapped_leave(c);
	if (iw_unlikely(left))
		iw_mapped_give(c);
	if (c->done || !err)
		return (ssize_t)c->done;
	return iw_fail(err);
}

static bool rx_enough(const struct iw_mapped_call *c)
{
	if (!c->len)
		return iw_end_unread(&c->s->view);
	return c->flags & MSG_WAITALL ? c->done == c->len : c->done;
}

/* There is nothing, and it sleeps in recv(T) if there is nothing there: one call of both. Not for who reads much, and seldom finds nothing. */
static bool at_once(struct iw_mapped_call *c)
{
	struct iw_stream *s = c->s;

	return c->len && c->len < IW_MAPPED_LARGE && iw_handlers_alone() && !iw_end_some(&s->view) && !(iw_end_state(&s->view) & (IW_MAPPED_ENDED | IW_END_FIN)) && !iw_orphan_eof(s) && !iw_mapped_pending(s) &&
	       iw_mapped_waits(c) && !iw_mapped_raw(c);
}

static ssize_t rx_call(struct iw_mapped_call *c, struct iw_io *io)
{
	struct iw_stream *s = c->s;
	int err;

	if (!iw_mapped_enter(c))
		return iw_mapped_elsewhere(c, io);
	err = at_once(c) ? iw_mapped_receive(c) : 0;
	while (!err) {
		err = rx_some(c);
		if (iw_likely(rx_enough(c)) || err)
			break;
		if (rx_over(s)) {
			iw_mapped_leave(c);
			iw_mapped_give(c);
			return atomic_load(&s->mapped) && iw_orphan_known(s) ? (ssize_t)c->done : iw_mapped_elsewhere(c, io);
		}
		if (!iw_mapped_waits(c)) {
			err = EAGAIN;
			break;
		}
		err = iw_mapped_wait(c, iw_mapped_pending(s) ? IW_END_OUT | IW_END_IN : IW_END_IN, SO_RCVTIMEO);
		if (!iw_mapped_here(c)) {
			iw_mapped_leave(c);
			return iw_mapped_elsewhere(c, io);
		}
	}
	return rx_end(c, err);
}

ssize_t iw_mapped_rx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	struct iw_mapped_call c;
	ssize_t n;

	if (iw_unlikely((flags & MSG_OOB) || (io->form == IW_IO_V2 && io->off != -1)))
		return iw_carrier.rx(s, fd, io, flags);
	iw_cancel_point();
	if (!iw_mapped_call(&c, s, fd, io, flags))
		return -1;
	if (!c.len && io->form != IW_IO_SOCK)
		return 0;
	n = rx_call(&c, io);
	if (iw_unlikely(c.inside))
		iw_mapped_outside(&c);
	return n;
}

ssize_t iw_mapped_rx_into(struct iw_stream *s, const struct iw_move *v)
{
	iw_map_give(v->in, s);
	return atomic_load(&s->mapped) ? iw_fail(EINVAL) : iw_path(s)->rx_into(s, v);
}
