/* SPDX-License-Identifier: MIT */
/* Socket options of a stream: which the library keeps itself, and how they are brought over at the switch. */
#ifndef IW_PRELOAD_OPTS_H
#define IW_PRELOAD_OPTS_H

#include <stdint.h>

#include "proto/reason.h"
#include "stream.h"

#pragma GCC visibility push(hidden)

/* Bits of iw_page_end.opts; IW_SOPT_LINGER0 (proto/page.h) also in iw_stream.sopt, as this process knows it. */
#define IW_SOPT_NODELAY	2u
#define IW_SOPT_CORK	4u
#define IW_SOPT_NOQUICKACK 8u
#define IW_SOPT_SNDBUF	16u	/* set by the application: the carrier's value is the answer */
#define IW_SOPT_RCVBUF	32u
#define IW_SOPT_LOWAT	64u	/* TCP_NOTSENT_LOWAT, value in iw_page_end.notsent_lowat */
#define IW_SOPT_OOBINLINE 128u
#define IW_SOPT_RCVLOWAT 256u	/* more than 1: poll has to count */

/*
 * Options that live in a socket itself (buffers, linger, TCP_NODELAY, SO_RCVLOWAT, ...): read before the daemon uses the TCP socket,
 * written when the stream is there and the application does not have it yet; and the other way when it gets its socket back.
 * iw_opts_read returns 0, or the reason to stay plain: an option that a stream could not honour. Some getsockopt; errno is kept.
 */
struct iw_opts {
	uint32_t bits;	/* IW_SOPT_* */
	int sndbuf, rcvbuf, lowat, notsent_lowat;
};
enum iw_reason iw_opts_read(int tcp, struct iw_opts *o);
void iw_opts_write(struct iw_stream *s, int carrier, const struct iw_opts *o);
void iw_opts_back(struct iw_stream *s, int carrier, int tcp);

#pragma GCC visibility pop
#endif
