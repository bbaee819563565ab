/* SPDX-License-Identifier: MIT */
/* What a stream's TCP would be doing: shared by the parts that answer for it (data, options, names, poll). */
#ifndef IW_PRELOAD_STREAM_H
#define IW_PRELOAD_STREAM_H

#include <string.h>

#include "priv.h"

#pragma GCC visibility push(hidden)

/* Answer of iw_tcp_eval(). */
#define IW_TCP_FIN	1u	/* FIN was received */
#define IW_TCP_RST	2u	/* reset: state CLOSE */
#define IW_TCP_ERR	4u	/* with RST: sk_err was not reported yet */
#define IW_TCP_CLOSE	8u	/* state CLOSE: RST, or both FINs */

static inline bool iw_stream_local(const struct iw_stream *s)
{
	return s->page->flags & IW_PAGE_LOCAL;
}

/* The other end of a LOCAL stream, as its library keeps it. */
static inline struct iw_page_end *iw_stream_other(struct iw_stream *s)
{
	return &s->page->end[!s->end];
}

/* POLLERR and POLLHUP (and those of events) as the kernel has them for the carrier. */
short iw_carrier_bits(int fd, short events);
/* The state, from the carrier's POLLERR and POLLHUP and the page; records a reset that the carrier tells of. */
unsigned int iw_tcp_eval(struct iw_stream *s, short bits);
/* Take sk_err: the errno to report once, or 0. */
int iw_tcp_take_error(struct iw_stream *s, unsigned int state);

/* The same from the carrier's bits, taking the carrier's own error as well. */
int iw_take_error(struct iw_stream *s, int fd, short bits);

/* The carrier gave EOF (n == 0) or ECONNRESET (n == -1): what TCP returns. */
ssize_t iw_rx_edge(struct iw_stream *s, int fd, ssize_t n);
/* The carrier refused a send of len octets with EPIPE or ECONNRESET: what TCP returns; raises SIGPIPE where TCP does. */
ssize_t iw_tx_edge(struct iw_stream *s, int fd, size_t len, int flags);

static inline int iw_fail(int err)
{
	errno = err;
	return -1;
}

static inline size_t iw_iov_total(const struct iovec *v, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += v[i].iov_len;
	return sum;
}
/* It took less than it was given. */
void iw_tx_short(struct iw_stream *s, int fd);

/*
 * Memory of the application where the kernel would answer EFAULT for a bad pointer. NULL, small numbers and kernel addresses are
 * caught; other bad ones fault, since a system call that could tell may be forbidden by a sandbox that kills. 0 or -EFAULT.
 */
static inline int iw_copy_in(void *dst, const void *user, size_t n)
{
	if (n && (intptr_t)user < 4096)
		return -EFAULT;
	if (n)
		memcpy(dst, user, n);
	return 0;
}

static inline int iw_copy_out(void *user, const void *src, size_t n)
{
	if (n && (intptr_t)user < 4096)
		return -EFAULT;
	if (n)
		memcpy(user, src, n);
	return 0;
}

/* The length that the application gives with its buffer. -1 with errno as the kernel has it. */
static inline int iw_room_in(socklen_t *room, const socklen_t *len)
{
	if (iw_copy_in(room, len, sizeof(*room)))
		return iw_fail(EFAULT);
	return (int)*room < 0 ? iw_fail(EINVAL) : 0;
}

/* getsockopt and setsockopt of the TCP socket behind a stream, by the daemon. -1 with errno, as the originals. */
int iw_opt_get(struct iw_stream *s, int fd, int level, int name, void *val, socklen_t *len);
int iw_opt_set(struct iw_stream *s, int fd, int level, int name, const void *val, socklen_t len);

/*
 * The stream to use for a call that moves data. *s is NULL when the call goes to the original. -1 with EAGAIN while a non-blocking
 * connect is under way. sockcall: the call makes sense on sockets only, so an unknown fd may be looked at.
 */
static inline int iw_data_stream(int fd, int flags, bool sockcall, struct iw_stream **s)
{
	int kind = sockcall ? iw_adopt(fd) : iw_fd_kind(fd);

	*s = NULL;
	if (__builtin_expect(kind != IW_FD_STREAM && kind != IW_FD_CONNECTING, 1))
		return 0;
	if (kind == IW_FD_CONNECTING) {
		kind = iw_connect_data(fd, flags);
		if (kind < 0)
			return -1;
	}
	if (kind == IW_FD_STREAM)
		*s = iw_stream_of(fd);
	return 0;
}

/* The same for calls that only ask. telling: the answer may tell whether a connect has completed. */
static inline struct iw_stream *iw_ask_stream(int fd, bool telling)
{
	enum iw_fd_kind kind = iw_adopt(fd);

	if (kind == IW_FD_CONNECTING)
		kind = telling ? iw_connect_settle(fd) : iw_connect_settle_seen(fd);
	return kind == IW_FD_STREAM ? iw_stream_of(fd) : NULL;
}

#pragma GCC visibility pop
#endif
