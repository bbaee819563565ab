// SPDX-License-Identifier: MIT
/* Mapped streams whose daemon is dead for good: their ends, which its agent would say. */
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "deadline.h"
#include "kick.h"
#include "map.h"
#include "opts.h"
#include "orphan.h"
#include "sys.h"
#include "tcpstate.h"

#define END_MS	1000u	/* at a close, or the end of the process, until the other end has read all */
#define LOOK_MS	2

/* What the daemon had taken, as at the end of a burst, died with it. */
static bool left_to_us(struct iw_stream *s)
{
	struct iw_step st;
	bool is;

	iw_map_lock(s, &st);
	is = iw_orphan_mapped(s) && iw_map_owner(s->map) != IW_MAP_AGENT;
	iw_map_unlock(s, &st);
	return is;
}

bool iw_orphan(int fd, struct iw_stream *s)
{
	if (!iw_orphan_known(s) && (iw_fd_bits(fd, 0) & POLLHUP) && atomic_load(&iw_stream_end(s)->close_state) == IW_CLOSE_OPEN && left_to_us(s))
		atomic_store(&s->orphan, true);
	return iw_orphan_known(s);
}

bool iw_orphan_over(struct iw_stream *s)
{
	struct iw_page_end *me = iw_stream_end(s);
	unsigned int state = iw_end_state(&s->view);

	if (iw_end_some(&s->view) || !(state & (IW_END_DEAD | IW_END_DONE)))
		return false;
	if (state & IW_END_DONE) {
		atomic_store(&me->close_state, IW_CLOSE_FIN);
	} else {
		atomic_store(&me->close_errno, atomic_load(&me->close_state) == IW_CLOSE_FIN ? EPIPE : (uint32_t)iw_end_err(&s->view));
		atomic_store(&me->close_state, IW_CLOSE_RESET);
	}
	return true;
}

bool iw_orphan_eof_slow(struct iw_stream *s)
{
	struct iw_page_end *me = iw_stream_end(s);
	bool fin = iw_end_state(&s->view) & IW_END_FIN;	/* which may have come with an offer, whose octets are still to be read there */

	if (iw_end_some(&s->view))
		return false;
	if (fin)
		atomic_store(&me->close_state, IW_CLOSE_FIN);
	return fin || (atomic_load(&me->shut) & IW_SHUT_RD);
}

void iw_orphan_shutdown(struct iw_stream *s, int how)
{
	struct iw_step st;

	iw_map_lock(s, &st);
	if (how != SHUT_RD && iw_orphan_mapped(s)) {
		iw_end_fin(&s->view);
		iw_map_flush(s);
	}
	iw_map_unlock(s, &st);
	iw_kick();
}

/* What came; it is for nobody. */
static void drain(struct iw_stream *s)
{
	size_t room;
	uint8_t *p;
	long n;

	while (!(iw_end_state(&s->view) & (IW_END_DEAD | IW_END_DONE))) {
		p = iw_end_in(&s->view, &room);
		n = IW_SYS(recvfrom, atomic_load(&s->mapped), p, room, MSG_DONTWAIT, NULL, NULL);
		if (n > 0)
			iw_end_in_done(&s->view, (size_t)n);
		else if (!n)
			iw_end_in_eof(&s->view);
		else if (n == -EAGAIN || n == -EINTR)
			return;
		else
			iw_end_lost(&s->view, (int)-n);
	}
}

/* The other host has it all. */
static bool arrived(struct iw_stream *s)
{
	int n = 1;

	return s->view.f->rs.tx_fin_sent && IW_SYS(ioctl, atomic_load(&s->mapped), SIOCOUTQ, &n) >= 0 && !n;
}

/* And its reader, who would take what closing brings after it for a reset, the end; or nobody ever will. */
static bool read_there(struct iw_stream *s)
{
	iw_map_flush(s);
	drain(s);
	return s->view.f->rs.tx_fin_acked || (iw_end_state(&s->view) & (IW_END_DEAD | IW_END_DONE));
}

uint64_t iw_orphan_until(void)
{
	return iw_now_ms() + END_MS;
}

void iw_orphan_end(struct iw_stream *s, uint64_t until)
{
	struct linger l = { 0, 0 };
	struct iw_step st;
	bool done;

	/* as TCP: a reset; so it is if somebody else may have it, whom this end would cut short */
	if (!iw_stream_alone(s, NULL, 0) || (atomic_load(&s->sopt) & IW_SOPT_LINGER0))
		return;
	iw_map_lock(s, &st);
	if (!iw_orphan_mapped(s)) {
		iw_map_unlock(s, &st);
		return;
	}
	drain(s);
	done = iw_end_unread(&s->view);
	if (!done)
		iw_end_fin(&s->view);
	while (!done && !(done = read_there(s)) && iw_now_ms() < until) {
		struct pollfd p = { .fd = atomic_load(&s->mapped), .events = POLLIN };
		struct timespec t = { 0, LOOK_MS * 1000000 };

		IW_SYS(ppoll, &p, 1, &t, NULL, 8);
	}
	if (arrived(s) && !(iw_end_state(&s->view) & IW_END_DEAD))
		IW_SYS(setsockopt, atomic_load(&s->mapped), SOL_SOCKET, SO_LINGER, &l, sizeof(l));
	iw_map_unlock(s, &st);
}
