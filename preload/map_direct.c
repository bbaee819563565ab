// SPDX-License-Identifier: MIT
/*
 * An end of a joined pair that the daemon relays, since it was handed on with octets unread, goes by the carrier itself again: once it is this process's
 * alone, and at a moment at which nothing is on its way (docs/rings.md, 5; tests/direct.pml).
 */
#include <poll.h>

#include "daemon.h"
#include "internal.h"
#include "lock.h"
#include "map_priv.h"
#include "path.h"
#include "paths/carrier.h"
#include "reg.h"
#include "sys.h"
#include "tcpstate.h"

static bool change(struct iw_stream *s, uint32_t from, uint32_t to)
{
	return atomic_compare_exchange_strong(&iw_stream_end(s)->relay, &from, to);
}

/* false: the daemon has taken it back, or it is not as it was any more. */
static bool put_in_place(int fd, struct iw_stream *s, int carrier)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);
	bool done = iw_stream_alone(s, &fd, 1) && iw_fd_ino(fd) == s->ino && !iw_reg_lost(fd) && !iw_reg_detach(fd);

	if (done) {
		done = change(s, IW_RELAY_OFFERED, IW_RELAY_NONE);
		if (done)
			iw_map_replace(s, carrier);
		iw_reg_attach(fd, done);
	}
	iw_unlock(&iw_tab_lock, sigs);
	return done;
}

bool iw_map_direct(int fd, struct iw_stream *s)
{
	bool done;
	int carrier;

	if (!iw_map_may(fd, s) || !iw_map_dry(s, fd) || iw_fd_bits(fd, POLLRDHUP | POLLPRI) & (POLLRDHUP | POLLHUP | POLLERR | POLLPRI) ||
	    !change(s, IW_RELAY_ON, IW_RELAY_ASKED))
		return false;
	carrier = iw_map_ask_carrier(IW_CTL_DIRECT, fd, fd);
	if (carrier < 0) {
		change(s, IW_RELAY_ASKED, IW_RELAY_ON);
		return false;
	}
	done = put_in_place(fd, s, carrier);
	IW_SYS(close, carrier);
	iw_daemon_tell_id(done ? IW_CTL_SWITCHED : IW_CTL_ABANDON, s->stream_id, IW_REASON_BUSY, fd);
	return done;
}
