// SPDX-License-Identifier: MIT
/* The double-underscore names under which libc exports the same functions, and sockatmark(), which is an ioctl inside libc. */
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib.h"

#define ALIAS(ret, name, params, args) \
	IW_EXPORT ret __##name params; \
	ret __##name params { return name args; }

ALIAS(int, socket, (int d, int t, int p), (d, t, p))
ALIAS(int, connect, (int fd, const struct sockaddr *a, socklen_t l), (fd, a, l))
ALIAS(ssize_t, read, (int fd, void *b, size_t n), (fd, b, n))
ALIAS(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n))
ALIAS(ssize_t, send, (int fd, const void *b, size_t n, int f), (fd, b, n, f))
ALIAS(ssize_t, recv, (int fd, void *b, size_t n, int f), (fd, b, n, f))
ALIAS(int, sendmmsg, (int fd, struct mmsghdr *m, unsigned int n, int f), (fd, m, n, f))
ALIAS(int, poll, (struct pollfd *p, nfds_t n, int t), (p, n, t))
ALIAS(int, select, (int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t), (n, r, w, e, t))

IW_EXPORT int sockatmark(int fd);
int sockatmark(int fd)
{
	int at = 0;

	return ioctl(fd, SIOCATMARK, &at) < 0 ? -1 : at;
}
