// SPDX-License-Identifier: MIT
/* TCP sockets that are not connected yet: whether one may be accelerated when it is. */
#include <netinet/in.h>

#include "proto/reason.h"
#include "connect.h"
#include "connecting.h"
#include "fdtab.h"
#include "kinds.h"
#include "proc.h"
#include "sys.h"
#include "tcp.h"

static _Atomic uint32_t tcp_serial = 1, fork_serial;

uint32_t iw_tcp_new_serial(void)
{
	return atomic_fetch_add_explicit(&tcp_serial, 1, memory_order_relaxed) & (IW_TCP_SERIALS - 1);
}

/* Serial numbers wrap after 8 million sockets; a socket older than half of that counts as shared, which is only plain TCP. */
bool iw_tcp_forked(uint32_t w)
{
	uint32_t since = (iw_tcp_serial(w) - atomic_load(&fork_serial)) & (IW_TCP_SERIALS - 1);

	return atomic_load(&iw_forks) && since >= IW_TCP_SERIALS / 2;
}

void iw_tcp_note_fork(void)
{
	atomic_store(&fork_serial, atomic_load(&tcp_serial) & (IW_TCP_SERIALS - 1));
}

static int get_int(int fd, int opt)
{
	socklen_t len = sizeof(int);
	int v = -1;

	return IW_SYS(getsockopt, fd, SOL_SOCKET, opt, &v, &len) < 0 ? -1 : v;
}

bool iw_is_tcp(int fd)
{
	int domain;

	if (get_int(fd, SO_PROTOCOL) != IPPROTO_TCP || get_int(fd, SO_TYPE) != SOCK_STREAM)
		return false;
	domain = get_int(fd, SO_DOMAIN);
	return domain == AF_INET || domain == AF_INET6;
}

bool iw_is_nonblock(int fd)
{
	long fl = IW_SYS(fcntl, fd, F_GETFL, 0);

	return fl >= 0 && (fl & O_NONBLOCK);
}

void iw_tcp_plain(int fd, enum iw_reason reason)
{
	uint32_t w = iw_word(fd);

	if (iw_word_kind(w) == IW_FD_CONNECTING)
		iw_connecting_give_up(fd, reason);
	else if (iw_word_kind(w) == IW_FD_TCP && !iw_tcp_reason(w))
		iw_word_cas(fd, w, iw_tcp_word(iw_tcp_serial(w), reason));
}

/* A socket with two numbers cannot be swapped. */
static uint32_t dup_tcp(int fd, uint32_t w)
{
	iw_tcp_plain(fd, IW_REASON_FD_SHARED);
	return iw_word(fd);
}

const struct iw_kind_ops iw_tcp_ops = {
	.dup = dup_tcp,
	.connect = iw_connect_tcp,
	.fork = iw_tcp_note_fork,
};
