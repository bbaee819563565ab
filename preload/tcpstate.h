/* SPDX-License-Identifier: MIT */
/* What a stream's TCP would be doing, and the results of calls that follow from it. */
#ifndef IW_PRELOAD_TCPSTATE_H
#define IW_PRELOAD_TCPSTATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "stream.h"

#pragma GCC visibility push(hidden)

/* Answer of iw_tcp_eval(). */
#define IW_TCP_FIN	1u	/* FIN was received */
#define IW_TCP_RST	2u	/* reset: state CLOSE */
#define IW_TCP_ERR	4u	/* with RST: sk_err was not reported yet */
#define IW_TCP_CLOSE	8u	/* state CLOSE: RST, or both FINs */

/* POLLERR and POLLHUP (and those of events) as the kernel has them for any fd, without waiting. */
short iw_fd_bits(int fd, short events);
/* The carrier says that it was reset, which the kernel says once: recorded. */
void iw_tcp_reset(struct iw_stream *s);
/* The state, from the path's POLLERR and POLLHUP and the page; records a reset that they tell of. */
unsigned int iw_tcp_eval(struct iw_stream *s, short bits);
/* Take sk_err: the errno to report once, or 0. */
int iw_tcp_take_error(struct iw_stream *s, unsigned int state);
/* The same from the path's bits, taking the carrier's own error as well. */
int iw_take_error(struct iw_stream *s, int fd, short bits);

/* The path gave EOF (n == 0) or ECONNRESET (n == -1): what TCP returns. */
ssize_t iw_rx_edge(struct iw_stream *s, int fd, ssize_t n);
/*
 * The path gave EAGAIN: of a reset that the daemon has recorded poll() and the like tell (iw_stream_fix_events) before it has given what came before, and
 * closed the carrier, which it does at once, if it runs. Waits for that: who was told is not to find nothing. true: there is something.
 */
bool iw_tcp_reset_comes(struct iw_stream *s, int fd);
/* The path refused a send of len octets with EPIPE or ECONNRESET: what TCP returns; raises SIGPIPE where TCP does. */
ssize_t iw_tx_edge(struct iw_stream *s, int fd, size_t len, int flags);
/* It took n octets, less than the len it was given: how many TCP would have taken. */
ssize_t iw_tx_short(struct iw_stream *s, int fd, ssize_t n, size_t len);

/*
 * poll bits of the path -> those TCP would report. Used for poll, select and epoll_wait results.
 * May clear bits (the HUP of a local peer's close) and add bits (ERR of a recorded reset). 0: TCP would not have woken up.
 */
short iw_stream_fix_events(struct iw_stream *s, int fd, short revents);

#pragma GCC visibility pop
#endif
