// SPDX-License-Identifier: MIT
/* getsockname and getpeername of a stream: what the daemon said when it gave it out. */
#include <string.h>

#include "lib.h"
#include "path.h"
#include "real.h"
#include "stream.h"
#include "tcpstate.h"
#include "turn.h"
#include "user.h"

static int stream_name(struct iw_stream *s, struct sockaddr *a, socklen_t *len, bool peer)
{
	struct sockaddr_storage ss;
	socklen_t full = iw_addr_to_sockaddr(peer ? &s->peer : &s->local, &ss), room;

	if (iw_room_in(&room, len))
		return -1;
	if (iw_copy_out(a, &ss, room < full ? room : full) || iw_copy_out(len, &full, sizeof(full)))
		return iw_fail(EFAULT);
	return 0;
}

IW_EXPORT int getsockname(int fd, struct sockaddr *a, socklen_t *len)
{
	struct iw_turn t;
	int r;

	if (!iw_turn(&t, fd, IW_TURN_SOCKET))
		return iw_real.getsockname(fd, a, len);
	r = t.s && iw_stream_verify(fd, t.s) ? stream_name(t.s, a, len, false) : iw_real.getsockname(fd, a, len);
	iw_turn_end();
	return r;
}

static int stream_getpeername(struct iw_stream *s, int fd, struct sockaddr *a, socklen_t *len)
{
	if (iw_tcp_eval(s, iw_path(s)->bits(s, fd, 0)) & IW_TCP_CLOSE)
		return iw_fail(ENOTCONN);
	return stream_name(s, a, len, true);
}

IW_EXPORT int getpeername(int fd, struct sockaddr *a, socklen_t *len)
{
	struct iw_turn t;
	int r;

	if (!iw_turn(&t, fd, IW_TURN_SOCKET))
		return iw_real.getpeername(fd, a, len);
	r = t.s && iw_stream_verify(fd, t.s) ? stream_getpeername(t.s, fd, a, len) : iw_real.getpeername(fd, a, len);
	iw_turn_end();
	return r;
}
