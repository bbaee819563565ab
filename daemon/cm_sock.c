// SPDX-License-Identifier: MIT
/* Questions to the kernel about the TCP sockets that libraries pass, and addresses as text. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm_priv.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

void addr_from_sockaddr(struct iw_addr *a, const struct sockaddr_storage *ss)
{
	memset(a, 0, sizeof(*a));
	a->family = ss->ss_family;
	if (ss->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)ss;

		memcpy(a->ip, mapped, 12);
		memcpy(a->ip + 12, &in->sin_addr, 4);
		a->port = ntohs(in->sin_port);
	} else if (ss->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)ss;

		memcpy(a->ip, &in6->sin6_addr, 16);
		a->port = ntohs(in6->sin6_port);
		a->scope_id = in6->sin6_scope_id;
	}
}

/* IPv4-mapped addresses become AF_INET, whatever a->family says. */
socklen_t addr_to_sockaddr(const struct iw_addr *a, struct sockaddr_storage *ss)
{
	memset(ss, 0, sizeof(*ss));
	if (!memcmp(a->ip, mapped, 12)) {
		struct sockaddr_in *in = (void *)ss;

		in->sin_family = AF_INET;
		in->sin_port = htons(a->port);
		memcpy(&in->sin_addr, a->ip + 12, 4);
		return sizeof(*in);
	}
	struct sockaddr_in6 *in6 = (void *)ss;

	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(a->port);
	in6->sin6_scope_id = a->scope_id;
	memcpy(&in6->sin6_addr, a->ip, 16);
	return sizeof(*in6);
}

uint32_t tuple_hash(const struct tuple *t)
{
	return iw_addr_hash(t->local.ip, t->local.port) * 31u + iw_addr_hash(t->peer.ip, t->peer.port);
}

bool ip_any(const uint8_t ip[16])
{
	static const uint8_t zero[16];

	return !memcmp(ip, zero, 16) || (!memcmp(ip, mapped, 12) && !memcmp(ip + 12, zero, 4));
}

bool ip_loopback(const uint8_t ip[16])
{
	static const uint8_t one[16] = { [15] = 1 };

	return !memcmp(ip, one, 16) || (!memcmp(ip, mapped, 12) && ip[12] == 127);
}

const char *ip_text(const uint8_t ip[16])
{
	static char buf[4][INET6_ADDRSTRLEN];
	static unsigned int turn;
	char *s = buf[turn++ % 4];

	if (!memcmp(ip, mapped, 12))
		inet_ntop(AF_INET, ip + 12, s, sizeof(buf[0]));
	else
		inet_ntop(AF_INET6, ip, s, sizeof(buf[0]));
	return s;
}

const char *addr_text(const struct iw_addr *a)
{
	static char buf[4][INET6_ADDRSTRLEN + 12];
	static unsigned int turn;
	char *s = buf[turn++ % 4];

	snprintf(s, sizeof(buf[0]), memcmp(a->ip, mapped, 12) ? "[%s]:%u" : "%s:%u", ip_text(a->ip), a->port);
	return s;
}

const char *tuple_text(const struct tuple *t)
{
	static char buf[2][2 * INET6_ADDRSTRLEN + 32];
	static unsigned int turn;
	char *s = buf[turn++ % 2];

	snprintf(s, sizeof(buf[0]), "%s - %s", addr_text(&t->local), addr_text(&t->peer));
	return s;
}

static int get_int(int fd, int level, int name)
{
	int v = 0;
	socklen_t len = sizeof(v);

	return getsockopt(fd, level, name, &v, &len) ? -errno : v;
}

static uint64_t netns_cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) ? 0 : cookie;
}

static uint64_t own_netns(void)
{
	static uint64_t own;

	if (!own) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0) {
			own = netns_cookie(fd);
			close(fd);
		}
	}
	return own;
}

enum iw_reason sock_check(int fd)
{
	int domain = get_int(fd, SOL_SOCKET, SO_DOMAIN);
	uint64_t ns;

	if (domain != AF_INET && domain != AF_INET6)
		return IW_REASON_NOT_STREAM;
	if (get_int(fd, SOL_SOCKET, SO_TYPE) != SOCK_STREAM || get_int(fd, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP)
		return IW_REASON_NOT_STREAM;
	ns = netns_cookie(fd);
	return ns && ns == own_netns() ? IW_REASON_ACCELERATED : IW_REASON_NETNS;
}

static int get_info(int fd, struct tcp_info *ti)
{
	socklen_t len = sizeof(*ti);

	memset(ti, 0, sizeof(*ti));
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, ti, &len) ? -errno : 0;
}

int sock_state(int fd)
{
	struct tcp_info ti;
	int ret = get_info(fd, &ti);

	return ret ? ret : ti.tcpi_state;
}

bool sock_unused(int fd)
{
	struct tcp_info ti;
	int n = 0;

	if (ioctl(fd, SIOCINQ, &n) || n || get_info(fd, &ti))
		return false;
	return !ti.tcpi_bytes_sent && !ti.tcpi_notsent_bytes;
}

int sock_name(int fd, struct iw_addr *a, bool peer)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof(ss);

	if (peer ? getpeername(fd, (void *)&ss, &len) : getsockname(fd, (void *)&ss, &len))
		return -errno;
	addr_from_sockaddr(a, &ss);
	return 0;
}

uint64_t sock_cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) ? 0 : cookie;
}
