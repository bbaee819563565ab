// SPDX-License-Identifier: MIT
/* Socket options of a stream's TCP socket on behalf of its application: a whitelist, and only for streams of that client. */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "cm_priv.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif
#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#endif
#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

#define GET 1u
#define SET 2u

/* Nothing here changes how the daemon's own reads and writes behave (buffers, timeouts, low-water marks, filters stay away). */
static const struct { int level, name; unsigned int may; } allowed[] = {
	{ SOL_SOCKET, SO_KEEPALIVE, GET | SET }, { SOL_SOCKET, SO_LINGER, GET | SET }, { SOL_SOCKET, SO_PRIORITY, GET | SET },
	{ SOL_SOCKET, SO_MARK, GET }, { SOL_SOCKET, SO_INCOMING_CPU, GET }, { SOL_SOCKET, SO_INCOMING_NAPI_ID, GET },
	{ SOL_SOCKET, SO_REUSEADDR, GET | SET }, { SOL_SOCKET, SO_REUSEPORT, GET }, { SOL_SOCKET, SO_BINDTODEVICE, GET },
	{ SOL_SOCKET, SO_DONTROUTE, GET }, { SOL_SOCKET, SO_COOKIE, GET }, { SOL_SOCKET, SO_NETNS_COOKIE, GET },
	{ SOL_SOCKET, SO_MAX_PACING_RATE, GET | SET }, { SOL_SOCKET, SO_ACCEPTCONN, GET }, { SOL_SOCKET, SO_TYPE, GET },
	{ SOL_SOCKET, SO_DOMAIN, GET }, { SOL_SOCKET, SO_PROTOCOL, GET }, { SOL_SOCKET, SO_SNDBUF, GET }, { SOL_SOCKET, SO_RCVBUF, GET },
	{ SOL_SOCKET, SO_OOBINLINE, GET }, { SOL_SOCKET, SO_BROADCAST, GET | SET }, { SOL_SOCKET, SO_BUSY_POLL, GET },
	{ SOL_SOCKET, SO_PREFER_BUSY_POLL, GET }, { SOL_SOCKET, SO_TXREHASH, GET | SET },
	{ IPPROTO_TCP, TCP_NODELAY, GET | SET }, { IPPROTO_TCP, TCP_MAXSEG, GET | SET }, { IPPROTO_TCP, TCP_CORK, GET | SET },
	{ IPPROTO_TCP, TCP_KEEPIDLE, GET | SET }, { IPPROTO_TCP, TCP_KEEPINTVL, GET | SET }, { IPPROTO_TCP, TCP_KEEPCNT, GET | SET },
	{ IPPROTO_TCP, TCP_SYNCNT, GET | SET }, { IPPROTO_TCP, TCP_LINGER2, GET | SET }, { IPPROTO_TCP, TCP_DEFER_ACCEPT, GET },
	{ IPPROTO_TCP, TCP_WINDOW_CLAMP, GET }, { IPPROTO_TCP, TCP_INFO, GET }, { IPPROTO_TCP, TCP_QUICKACK, GET | SET },
	{ IPPROTO_TCP, TCP_CONGESTION, GET | SET }, { IPPROTO_TCP, TCP_USER_TIMEOUT, GET | SET }, { IPPROTO_TCP, TCP_NOTSENT_LOWAT, GET },
	{ IPPROTO_TCP, TCP_CC_INFO, GET }, { IPPROTO_TCP, TCP_SAVED_SYN, GET }, { IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, GET | SET },
	{ IPPROTO_TCP, TCP_TIMESTAMP, GET }, { IPPROTO_TCP, TCP_FASTOPEN, GET }, { IPPROTO_TCP, TCP_FASTOPEN_CONNECT, GET },
	{ IPPROTO_IP, IP_TOS, GET | SET }, { IPPROTO_IP, IP_TTL, GET | SET }, { IPPROTO_IP, IP_MTU_DISCOVER, GET | SET },
	{ IPPROTO_IP, IP_MTU, GET }, { IPPROTO_IP, IP_MINTTL, GET | SET }, { IPPROTO_IP, IP_FREEBIND, GET }, { IPPROTO_IP, IP_TRANSPARENT, GET },
	{ IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, GET }, { IPPROTO_IP, IP_RECVTOS, GET }, { IPPROTO_IP, IP_RECVERR, GET },
	{ IPPROTO_IPV6, IPV6_TCLASS, GET | SET }, { IPPROTO_IPV6, IPV6_UNICAST_HOPS, GET | SET }, { IPPROTO_IPV6, IPV6_V6ONLY, GET },
	{ IPPROTO_IPV6, IPV6_MTU, GET }, { IPPROTO_IPV6, IPV6_MTU_DISCOVER, GET | SET }, { IPPROTO_IPV6, IPV6_RECVTCLASS, GET },
	{ IPPROTO_IPV6, IPV6_RECVERR, GET }, { IPPROTO_IPV6, IPV6_DONTFRAG, GET | SET },
};

/* 0, or the errno that the application sees. */
static int may(int level, int name, unsigned int what)
{
	if (level == SOL_SOCKET && name == SO_MARK && what == SET)
		return EPERM;	/* takes a capability that the daemon must not lend */
	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		if (allowed[i].level == level && allowed[i].name == name)
			return allowed[i].may & what ? 0 : ENOPROTOOPT;
	return level == SOL_SOCKET || level == IPPROTO_TCP || level == IPPROTO_IP || level == IPPROTO_IPV6 ? ENOPROTOOPT : EOPNOTSUPP;
}

/* SO_PRIORITY above 6 takes CAP_NET_ADMIN, which a daemon started by root would have. */
static int privileged(const struct iw_ctl_opt *m)
{
	int v = 0;

	if (m->level != SOL_SOCKET || m->optname != SO_PRIORITY || m->optlen < sizeof(v))
		return 0;
	memcpy(&v, m->val, sizeof(v));
	return v < 0 || v > 6 ? EPERM : 0;
}

int ctl_option(struct client *c, const struct iw_ctl_opt *m)
{
	bool set = m->h.type == IW_CTL_SETSOCKOPT;
	socklen_t len = m->optlen;
	struct iw_ctl_opt r;
	struct stream *st = grant_has(c, m->stream_id, m->end) ? stream_find(m->stream_id) : NULL;
	int fd = st ? stream_tcp(st, m->end) : -1;

	iw_ctl_init(&r, IW_CTL_OPT, m->h.seq);
	r.stream_id = m->stream_id;
	r.end = m->end;
	r.level = m->level;
	r.optname = m->optname;
	r.error = fd < 0 ? ENOTCONN : may(m->level, m->optname, set ? SET : GET);
	if (!r.error && set)
		r.error = privileged(m);
	if (!r.error && set && setsockopt(fd, m->level, m->optname, m->val, len))
		r.error = errno;
	if (!r.error && !set) {
		if (getsockopt(fd, m->level, m->optname, r.val, &len))
			r.error = errno;
		else
			r.optlen = len;
	}
	if (!r.error && set)
		stream_option(st, m->end, m->level, m->optname);
	ctl_reply(c, &r, NULL, 0);
	return 0;
}
