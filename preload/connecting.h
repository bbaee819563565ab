/* SPDX-License-Identifier: MIT */
/* CONNECTING fds: connect.c fills their entries; whoever uses or looks at such an fd settles what becomes of it. */
#ifndef IW_PRELOAD_CONNECTING_H
#define IW_PRELOAD_CONNECTING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/reason.h"
#include "fdtab.h"
#include "stream.h"
#include "tcp.h"

#pragma GCC visibility push(hidden)

struct iw_connecting;

/* Number of CONNECTING fds in this process: 0 lets the waiting calls pass straight through. */
extern _Atomic uint32_t iw_connecting;

/* TCP to CONNECTING, PENDING. NULL: the fd changed in the meantime, or no entry is free. */
struct iw_connecting *iw_connecting_begin(int fd, uint32_t w);
/* The three ends of PENDING: the connect failed (TCP again), it stays plain, or there is a stream. */
void iw_connecting_undo(struct iw_connecting *c);
void iw_connecting_plain(struct iw_connecting *c, uint32_t conn_id);
void iw_connecting_offered(struct iw_connecting *c, struct iw_stream *s, int carrier, bool established);
/* fd must stay plain, if it is CONNECTING. */
void iw_connecting_give_up(int fd, enum iw_reason why);

/*
 * A CONNECTING fd is about to be used or looked at: if the TCP connect has completed, swap it to its carrier (or give the
 * offer up and make it PLAIN). Returns the fd's kind afterwards. Cheap when fd is not CONNECTING.
 */
enum iw_fd_kind iw_connecting_settle(int fd);
/*
 * How does the program wait for a connect? By poll, select or epoll calls of libc: they say so by iw_connecting_seen(). Else the fd may
 * be registered where no swap can follow (raw system calls, io_uring), and whoever settles first keeps it plain (epoll-unknown). So
 * calls that tell nothing about the connect use iw_connecting_settle_seen(), which leaves it as it is until then.
 */
void iw_connecting_seen(int fd);
enum iw_fd_kind iw_connecting_settle_seen(int fd);
/*
 * The same for calls that move data (send, recv, read, write families), shutdown excepted. When the connect is still under way, such a
 * call must not reach the TCP socket, which may become established in between: a non-blocking one (O_NONBLOCK, or
 * MSG_DONTWAIT in msg_flags) returns -1 with EAGAIN at once, as SYN_SENT does; for a blocking one the offer is given up
 * (swap-unsafe) and TCP goes on. Returns the kind to go on with: never CONNECTING.
 */
int iw_connecting_data(int fd, int msg_flags);

/*
 * Around a poll/select that sleeps on a CONNECTING fd: while somebody sleeps on the old file another thread's settle gives the offer
 * up instead of swapping under the sleeper. begin settles first and returns the kind; call end only when it returned CONNECTING,
 * before settling yourself.
 */
enum iw_fd_kind iw_connecting_wait_begin(int fd);
void iw_connecting_wait_end(int fd);

/* The CONNECTING fds of one sleep. More than fit stay plain TCP. */
#define IW_SLEEPERS_MAX 128u
struct iw_sleepers {
	unsigned int n;
	int fd[IW_SLEEPERS_MAX];
};

static inline void iw_sleepers_init(struct iw_sleepers *z)
{
	z->n = 0;
}

static inline void iw_sleepers_add(struct iw_sleepers *z, int fd)
{
	if (z->n == IW_SLEEPERS_MAX)
		iw_tcp_plain(fd, IW_REASON_SWAP_UNSAFE);
	else if (iw_connecting_wait_begin(fd) == IW_FD_CONNECTING)
		z->fd[z->n++] = fd;
}

static inline void iw_sleepers_end(const struct iw_sleepers *z)
{
	for (unsigned int i = 0; i < z->n; i++)
		iw_connecting_wait_end(z->fd[i]);
}

bool iw_connecting_owns(int fd);	/* fd is the hidden carrier of a connect under way */
void iw_connecting_closing_internal(int fd);

#pragma GCC visibility pop
#endif
