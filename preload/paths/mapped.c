// SPDX-License-Identifier: MIT
/*
 * The map as a path: stream octets are framed into, and parsed out of, the TCP socket by the calls of the application. Its locked steps do
 * not wait. What ends a direction is not done here: the map is given back, and the carrier's answers hold.
 */
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "preload/map.h"
#include "preload/orphan.h"
#include "preload/path.h"
#include "preload/paths/mapped.h"
#include "preload/paths/mapped_call.h"
#include "preload/paths/mapped_in.h"
#include "preload/paths/mapped_rx.h"
#include "preload/paths/mapped_tx.h"
#include "preload/sys.h"

void iw_mapped_begin(struct iw_stream *s)
{
	s->map_came = 0;
	s->map_full = s->map_nowait = false;
	s->map_room = 0;
	s->known = iw_mapped_state(s);
}

/*
 * Who asks for octets alone, as before each read, is told of some: the others need not come into the map before they are wanted. An end behind them
 * shows with T's own, which follows it.
 */
static bool only_in(struct iw_stream *s, short events)
{
	bool more = iw_end_some(&s->view);

	if (!events || (events & ~(POLLIN | POLLRDNORM)) || iw_mapped_ends(s) || iw_mapped_pending(s) || iw_end_gathered(&s->view))
		return false;
	if (!more) {
		more = iw_mapped_take_some(s);
		if (!iw_map_flush(s) || !iw_end_some(&s->view) || iw_mapped_ends(s))
			return false;
	}
	return !more || !iw_mapped_tcp_ends(s);
}

static short mapped_bits(struct iw_stream *s, int fd, short events)
{
	struct iw_mapped_call c = { .s = s, .fd = fd };
	short bits;

	if (!iw_mapped_enter(&c))
		return iw_path(s)->bits(s, fd, events);
	if (only_in(s, events)) {
		iw_mapped_leave(&c);
		return events;
	}
	/* who asks for ends alone, and finds nothing, makes no room: those who wait for some would be told */
	if (iw_mapped_take_all(s) || events || iw_end_gathered(&s->view))
		iw_map_flush(s);
	if (events)
		iw_mapped_has_room(s);
	if (iw_mapped_ends(s) || iw_end_gathered(&s->view)) {
		iw_mapped_leave(&c);
		iw_mapped_give(&c);
		if (!atomic_load(&s->mapped))
			return iw_path(s)->bits(s, fd, events);
		iw_map_lock(s, &c.st);
	}
	bits = iw_mapped_state(s);
	iw_mapped_leave(&c);
	return bits & events;
}

static short mapped_step(struct iw_stream *s, int fd, bool some)
{
	struct iw_mapped_call c = { .s = s, .fd = fd };
	short what;
	bool over;

	if (!iw_mapped_enter(&c))
		return 0;
	if (!some || (iw_mapped_take_some(s) && iw_mapped_tcp_ends(s)))
		iw_mapped_take_all(s);
	iw_map_flush(s);
	iw_mapped_has_room(s);
	over = iw_mapped_ends(s) || iw_end_gathered(&s->view);
	iw_mapped_news(s, &what);
	iw_map_unlock(s, &c.st);
	if (!over)
		return what;
	iw_mapped_give(&c);
	if (iw_orphan_known(s)) {	/* it is told here */
		iw_map_lock(s, &c.st);
		if (iw_orphan_mapped(s)) {
			iw_mapped_news(s, &what);
			if ((iw_end_state(&s->view) & IW_MAPPED_ENDED) || (s->known & POLLIN))
				what |= POLLIN;
		}
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
	struct iw_mapped_call c = { .s = s, .fd = fd };
	bool over;
	long n;

	if (!iw_mapped_enter(&c))
		return iw_path(s)->inq(s, fd);
	iw_mapped_take_all(s);
	iw_map_flush(s);
	n = (long)iw_end_unread(&s->view);
	over = iw_mapped_ends(s) || iw_end_gathered(&s->view);
	iw_mapped_leave(&c);
	if (over)
		iw_mapped_give(&c);
	return n;
}

/* What TCP has not got through, or not sent: its own answer, without what frames it. */
static int mapped_outq(struct iw_stream *s, int fd, bool unsent)
{
	struct iw_mapped_call c = { .s = s, .fd = fd };
	size_t len;
	bool left;
	int n = 0;

	if (!iw_mapped_enter(&c))
		return iw_path(s)->outq(s, fd, unsent);
	iw_map_flush(s);
	iw_end_out(&s->view, &len);
	IW_SYS(ioctl, atomic_load(&s->mapped), unsent ? SIOCOUTQNSD : SIOCOUTQ, &n);
	n = (int)iw_end_unacked(&s->view, len + (size_t)n);
	left = iw_end_gathered(&s->view);
	iw_mapped_leave(&c);
	if (left)
		iw_mapped_give(&c);
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
	struct iw_mapped_call c = { .s = s, .fd = fd };
	bool left;

	if (!iw_mapped_enter(&c))
		return false;
	while (iw_map_flush_data(s, false) && iw_end_gathered(&s->view) && iw_mapped_fill(s))
		;
	left = iw_mapped_pending(s) || iw_end_gathered(&s->view);
	iw_mapped_leave(&c);
	return !left;
}

void iw_mapped_lost(struct iw_stream *s, int err)
{
	iw_mapped_take_all(s);
	if (!(iw_end_state(&s->view) & IW_MAPPED_ENDED))
		iw_end_lost(&s->view, err);
}

void iw_mapped_end(struct iw_stream *s)
{
	iw_mapped_take_all(s);
	iw_map_flush(s);
}

const struct iw_path_ops iw_mapped = {
	.tx = iw_mapped_tx,
	.rx = iw_mapped_rx,
	.tx_from = iw_mapped_tx_from,
	.rx_into = iw_mapped_rx_into,
	.bits = mapped_bits,
	.wait_events = mapped_wait_events,
	.step = mapped_step,
	.inq = mapped_inq,
	.outq = mapped_outq,
	.shutdown = mapped_shutdown,
};
