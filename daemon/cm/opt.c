// SPDX-License-Identifier: MIT
/* Socket options of a stream's TCP socket on behalf of its application: a whitelist, and only for streams of that client. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "book.h"
#include "opt.h"

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

static bool listed(const char *path, const char *name)
{
	char text[1024], *save = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (n < 0)
		return false;
	text[n] = 0;
	for (char *w = strtok_r(text, " \n", &save); w; w = strtok_r(NULL, " \n", &save))
		if (!strcmp(w, name))
			return true;
	return false;
}

/* What anybody may set. Others take CAP_NET_ADMIN, with which the kernel would also load modules by that name, here and now. */
static int congestion(const struct iw_ctl_opt *m)
{
	char name[16] = "";	/* TCP_CA_NAME_MAX */

	memcpy(name, m->val, m->optlen < sizeof(name) - 1 ? m->optlen : sizeof(name) - 1);
	if (!m->optlen || listed("/proc/sys/net/ipv4/tcp_allowed_congestion_control", name))
		return 0;
	return listed("/proc/sys/net/ipv4/tcp_available_congestion_control", name) ? EPERM : ENOENT;
}

/* Those that the options below take. The shipped unit has none, and no /proc/sys to look things up in: the kernel judges as it does of users. */
static bool has_rights(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return syscall(SYS_capget, &h, d) || d[0].effective & (1u << CAP_NET_ADMIN | 1u << CAP_NET_RAW);
}

/*
 * Values that take a capability: a daemon started by root would have it, and one that looks after IPsec has CAP_NET_ADMIN. Of the options
 * above the kernel asks for one with SO_PRIORITY above 6 and with TCP_CONGESTION; all the others anybody may set to any value.
 */
static int privileged(const struct iw_ctl_opt *m)
{
	bool ca = m->level == IPPROTO_TCP && m->optname == TCP_CONGESTION;
	int v = 0;

	if (!ca && (m->level != SOL_SOCKET || m->optname != SO_PRIORITY || m->optlen < sizeof(v)))
		return 0;
	if (!has_rights())
		return 0;
	if (ca)
		return congestion(m);
	memcpy(&v, m->val, sizeof(v));
	return v < 0 || v > 6 ? EPERM : 0;
}

int ctl_option(struct client *c, const struct iw_ctl_opt *m)
{
	bool set = m->h.type == IW_CTL_SETSOCKOPT;
	socklen_t len = m->optlen;
	struct iw_ctl_opt r;

	iw_ctl_init(&r, IW_CTL_OPT, m->h.seq);
	r.stream_id = m->stream_id;
	r.end = m->end;
	r.level = m->level;
	r.optname = m->optname;
	r.error = !grant_has(c, m->stream_id, m->end) || !stream_answers(m->stream_id, m->end) ? ENOTCONN : may(m->level, m->optname, set ? SET : GET);
	if (!r.error && set)
		r.error = privileged(m);
	if (!r.error && set)
		r.error = -stream_setsockopt(m->stream_id, m->end, m->level, m->optname, m->val, len);
	if (!r.error && !set) {
		r.error = -stream_getsockopt(m->stream_id, m->end, m->level, m->optname, r.val, &len);
		r.optlen = r.error ? r.optlen : len;
	}
	ctl_reply(c, &r, NULL, 0);
	return 0;
}
