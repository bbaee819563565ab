// SPDX-License-Identifier: MIT
/* Questions to the kernel about TCP sockets: sock.h. */
#include <errno.h>
#include <linux/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sock.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

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

uint64_t sock_own_netns(void)
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

enum iw_reason sock_check(int fd, uint64_t netns)
{
	int domain = get_int(fd, SOL_SOCKET, SO_DOMAIN);
	uint64_t ns;

	if (domain != AF_INET && domain != AF_INET6)
		return IW_REASON_NOT_STREAM;
	if (get_int(fd, SOL_SOCKET, SO_TYPE) != SOCK_STREAM || get_int(fd, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP)
		return IW_REASON_NOT_STREAM;
	if (get_int(fd, IPPROTO_TCP, TCP_REPAIR) > 0)	/* what is sent goes nowhere, and a close says nothing */
		return IW_REASON_OPTION;
	ns = netns_cookie(fd);
	return ns && ns == netns ? IW_REASON_ACCELERATED : IW_REASON_NETNS;
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

int sock_name(int fd, struct iw_addr *a, bool peer)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof(ss);

	if (peer ? getpeername(fd, (void *)&ss, &len) : getsockname(fd, (void *)&ss, &len))
		return -errno;
	iw_addr_from_sockaddr(a, (void *)&ss, len);
	return 0;
}

uint64_t sock_cookie(int fd)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) ? 0 : cookie;
}
