// SPDX-License-Identifier: MIT
/* getsockname and getpeername of a stream, from the shared page. */
#include <arpa/inet.h>
#include <string.h>

#include "stream.h"

static socklen_t to_sockaddr(const struct iw_addr *a, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *s6 = (void *)ss;
	struct sockaddr_in *s4 = (void *)ss;

	memset(ss, 0, sizeof(*ss));
	if (a->family == AF_INET) {
		s4->sin_family = AF_INET;
		s4->sin_port = htons(a->port);
		memcpy(&s4->sin_addr, a->ip + 12, 4);
		return sizeof(*s4);
	}
	s6->sin6_family = AF_INET6;
	s6->sin6_port = htons(a->port);
	memcpy(&s6->sin6_addr, a->ip, 16);
	s6->sin6_scope_id = a->scope_id;
	return sizeof(*s6);
}

int iw_stream_getsockname(struct iw_stream *s, struct sockaddr *a, socklen_t *len, bool peer)
{
	const struct iw_page_end *me = iw_stream_end(s);
	struct sockaddr_storage ss;
	socklen_t full = to_sockaddr(peer ? &me->peer : &me->local, &ss), room;

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
	return iw_stream_getsockname(s, a, len, false);
}

IW_EXPORT int getpeername(int fd, struct sockaddr *a, socklen_t *len)
{
	struct iw_stream *s = iw_ask_stream(fd, true);

	if (!s || !iw_stream_verify(fd, s))
		return iw_real.getpeername(fd, a, len);
	if (iw_tcp_eval(s, iw_carrier_bits(fd, 0)) & IW_TCP_CLOSE) {
		errno = ENOTCONN;
		return -1;
	}
	return iw_stream_getsockname(s, a, len, true);
}
