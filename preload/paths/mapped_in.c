// SPDX-License-Identifier: MIT
/* What the TCP socket of a mapped stream has: see mapped_in.h. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "preload/paths/mapped_in.h"
#include "preload/sys.h"
#include "preload/tcpstate.h"

#define BATCH	32768u	/* received at a time, if there is as much */
#define SOME	(200u << 10)	/* received for who is only told that there is some: three full FPDUs, so that nothing has to make way into the ring */
#define AROUND	512u	/* what frames some of a reader's octets */

void iw_mapped_came(struct iw_stream *s, long n, bool later)
{
	size_t unread = iw_end_unread(&s->view);
	bool left = false;

	s->map_tick = iw_mapped_tick();
	if (n > 0 && later)
		left = iw_end_in_later(&s->view, (size_t)n);
	else if (n > 0)
		iw_end_in_done(&s->view, (size_t)n);
	else if (!n)
		iw_end_in_eof(&s->view);
	else if (n != -EAGAIN && n != -EINTR && n != -ENOMEM && n != -ENOBUFS)
		iw_end_lost(&s->view, (int)-n);
	else
		return;
	if (n <= 0 || left || iw_end_unread(&s->view) > unread || iw_end_state(&s->view))
		s->map_came |= POLLIN;
}

/* What was left as it came: those who wait were told of it then. */
static void settle(struct iw_stream *s)
{
	if (iw_likely(!s->view.later))
		return;
	iw_end_settle(&s->view);
	if (iw_end_state(&s->view))
		s->map_came |= POLLIN;
}

/* The octets that came, of most, which are limit at most; else there are none now. later: as in iw_mapped_came(), if nobody waits for credits that are in them. */
static long take(struct iw_stream *s, size_t limit, size_t *most, bool later)
{
	uint8_t *p;
	long n;

	settle(s);
	if (iw_end_state(&s->view) & IW_MAPPED_ENDED)
		return 0;
	p = iw_end_in(&s->view, most);
	if (*most > limit)
		*most = limit;
	n = IW_SYS(recvfrom, atomic_load(&s->mapped), p, *most, MSG_DONTWAIT, NULL, NULL);
	iw_mapped_came(s, n, later && n > (long)IW_QP_SINK && !atomic_load(&s->map_senders) && (iw_mapped_state(s) & POLLOUT));
	return n;
}

uint8_t *iw_mapped_place(const struct iw_mapped_call *c, size_t *most)
{
	uint8_t *p = iw_end_in(&c->s->view, most);
	size_t want = c->len - c->done;

	want += want / 64 + AROUND;
	if (want < BATCH)
		want = BATCH;
	if (*most > want)
		*most = want;
	return p;
}

/* Of n octets that are parsed next as many as it has memory for are for its caller. */
static void want(struct iw_mapped_call *c, size_t n)
{
	size_t left = c->len - c->done;

	if (n < IW_MAPPED_LARGE || left < IW_MAPPED_LARGE || (c->flags & MSG_PEEK) || iw_end_unread(&c->s->view))
		return;
	n = iw_mapped_good(c, n < left ? n : left, IW_USE_KEEP);	/* not all of it may be filled */
	c->wanted = c->done + n;
	if (n)
		iw_end_want(&c->s->view, c->v, c->done, n);
}

bool iw_mapped_fill_for(struct iw_mapped_call *c)
{
	struct iw_stream *s = c->s;
	bool later = s->view.later;
	size_t most;
	uint8_t *p;
	long n = 1;

	if (iw_end_state(&s->view) & IW_MAPPED_ENDED)
		return false;
	if (later) {
		want(c, s->view.s->rx_len - s->view.s->rx_off);
		settle(s);
	} else {
		p = iw_mapped_place(c, &most);
		n = IW_SYS(recvfrom, atomic_load(&s->mapped), p, most, MSG_DONTWAIT, NULL, NULL);
		if (n > 0)
			want(c, (size_t)n);
		iw_mapped_came(s, n, false);
	}
	iw_end_wanted(&s->view);
	return n > 0;
}

bool iw_mapped_take_all(struct iw_stream *s)
{
	bool some = s->view.later;
	size_t most;
	long n;

	do {
		n = take(s, SIZE_MAX, &most, false);
		some |= n > 0;
	} while (n > 0 && (size_t)n == most);
	return some;
}

bool iw_mapped_take_some(struct iw_stream *s)
{
	size_t most;
	long n;

	if (iw_end_some(&s->view))
		return true;
	do
		n = take(s, SOME, &most, true);
	while (n > 0 && (size_t)n == most && !iw_end_some(&s->view));
	return n > 0 && (size_t)n == most;
}

bool iw_mapped_tcp_ends(struct iw_stream *s)
{
	return iw_fd_bits(atomic_load(&s->mapped), POLLRDHUP) & (POLLRDHUP | POLLHUP | POLLERR);
}

bool iw_mapped_fill(struct iw_stream *s)
{
	bool later = s->view.later;
	size_t most;

	return take(s, SIZE_MAX, &most, false) > 0 || later;
}
