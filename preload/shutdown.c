// SPDX-License-Identifier: MIT
/* shutdown(): the carrier's own, remembered in the page, with ENOTCONN where TCP's connection is over. */
#include <poll.h>

#include "kick.h"
#include "lib.h"
#include "path.h"
#include "real.h"
#include "reg.h"
#include "stream.h"
#include "tcpstate.h"
#include "turn.h"

/*
 * SHUT_RD is the carrier's own too, so that blocked readers and every kind of waiter wake up as on TCP. A unix socket then refuses
 * what the peer sends; the sender's library (LOCAL) or the daemon sees IW_SHUT_RD in the page and drops those octets.
 */
static int stream_shutdown(struct iw_stream *s, int fd, int how)
{
	static const uint32_t bits[3] = { IW_SHUT_RD, IW_SHUT_WR, IW_SHUT_RD | IW_SHUT_WR };
	struct iw_page_end *me = iw_stream_end(s);
	uint32_t before;

	if (how < SHUT_RD || how > SHUT_RDWR) {
		errno = EINVAL;
		return -1;
	}
	if (!iw_stream_verify(fd, s))
		return iw_real.shutdown(fd, how);
	if (iw_tcp_eval(s, iw_path(s)->bits(s, fd, 0)) & IW_TCP_CLOSE) {
		errno = ENOTCONN;
		return -1;
	}
	before = atomic_fetch_or(&me->shut, bits[how]);
	if (iw_path(s)->shutdown(s, fd, how) < 0) {
		atomic_fetch_and(&me->shut, ~(bits[how] & ~before));
		return -1;
	}
	iw_reg_look_again(fd);
	if (bits[how] & IW_SHUT_WR) {
		iw_reg_room(fd);
		iw_kick();
	}
	return 0;
}

IW_EXPORT int shutdown(int fd, int how)
{
	struct iw_turn t;
	int r;

	if (!iw_turn(&t, fd, IW_TURN_SOCKET))
		return iw_real.shutdown(fd, how);
	r = t.s ? stream_shutdown(t.s, fd, how) : iw_real.shutdown(fd, how);
	iw_turn_end();
	return r;
}
