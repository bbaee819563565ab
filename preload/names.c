// SPDX-License-Identifier: MIT
/* getsockname and getpeername of a stream: what the daemon said when it gave it out. */
#include <string.h>

#include "lib.h"
#include "lookup.h"
#include "path.h"
#include "real.h"
#include "stream.h"
#include "tcpstate.h"
#include "user.h"

static int stream_getsockname(struct iw_stream *s, struct sockaddr *a, socklen_t *len, bool peer)
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
	struct iw_stream *s = iw_ask_stream(fd, false);

	if (!s || !iw_stream_verify(fd, s))
		return iw_real.getsockname(fd, a, len);
	return stream_getsockname(s, a, len, false);
}

IW_EXPORT int getpeername(int fd, struct sockaddr *a, socklen_t *len)
{
	struct iw_stream *s = iw_ask_stream(fd, true);

	if (!s || !iw_stream_verify(fd, s))
		return iw_real.getpeername(fd, a, len);
	if (iw_tcp_eval(s, iw_path(s)->bits(s, fd, 0)) & IW_TCP_CLOSE) {
		errno = ENOTCONN;
		return -1;
	}
	return stream_getsockname(s, a, len, true);
}
