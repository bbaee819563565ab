/* SPDX-License-Identifier: MIT */
/* TCP sockets that are not connected yet, and the word they have in the table of fds. */
#ifndef IW_PRELOAD_TCP_H
#define IW_PRELOAD_TCP_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/reason.h"
#include "fdtab.h"

#pragma GCC visibility push(hidden)

/* TCP: 5 bits of reason (0: may be accelerated; all: one that has no room), 23 bits serial number of the socket */
#define IW_TCP_SERIALS	(1u << 23)
#define IW_TCP_OTHER	31u
static_assert(IW_REASON_MAX <= IW_TCP_OTHER, "the reasons of the table have room in the word of a TCP fd: take bits of the serial number");

static inline uint32_t iw_tcp_word(uint32_t serial, enum iw_reason why)
{
	uint32_t r = why < IW_REASON_MAX ? (uint32_t)why : IW_TCP_OTHER;

	return iw_word_make(IW_FD_TCP, (serial & (IW_TCP_SERIALS - 1)) << 5 | r);
}

static inline enum iw_reason iw_tcp_reason(uint32_t w)
{
	uint32_t r = iw_word_val(w) & 31;

	return r == IW_TCP_OTHER ? IW_REASON_OTHER : (enum iw_reason)r;
}

static inline uint32_t iw_tcp_serial(uint32_t w)
{
	return iw_word_val(w) >> 5;
}

uint32_t iw_tcp_new_serial(void);
bool iw_tcp_forked(uint32_t w);	/* a fork happened since this socket was made */
void iw_tcp_note_fork(void);
/* It must stay plain, for this reason: Fast Open, an option only TCP has, ... CONNECTING gives its offer up. */
void iw_tcp_plain(int fd, enum iw_reason reason);
/* AF_INET or AF_INET6, SOCK_STREAM, IPPROTO_TCP? Asks the kernel. */
bool iw_is_tcp(int fd);
bool iw_is_nonblock(int fd);

#pragma GCC visibility pop
#endif
