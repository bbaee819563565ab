/* SPDX-License-Identifier: MIT */
/*
 * What the parts of libiwsock.so share. Rules for all of them: no interposed name is ever called from inside (raw system
 * calls of sys.h, or the resolved originals in `real`); no malloc, no output, no thread; errno is kept unless the call
 * fails; async-signal-safe where the original is; nothing blocks longer than the original except for the bounded answer
 * of the daemon.
 */
#ifndef IW_PRELOAD_PRIV_H
#define IW_PRELOAD_PRIV_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "../proto/page.h"
#include "../proto/reason.h"
#include "real.h"
#include "sys.h"

#pragma GCC visibility push(hidden)	/* everything below is reached without the GOT; entry points say IW_EXPORT */

#define IW_EXPORT __attribute__((visibility("default")))
#define IW_FD_MAX (1 << 20)	/* fds above are never accelerated */

enum iw_fd_kind {
	IW_FD_OTHER = 0,	/* not ours: everything goes to the original */
	IW_FD_TCP,		/* a TCP socket made by socket(), not connected: watched */
	IW_FD_LISTENER,		/* listening TCP socket */
	IW_FD_CONNECTING,	/* non-blocking connect under way, offered to the daemon */
	IW_FD_PLAIN,		/* connected, stays plain TCP; known to the daemon as such */
	IW_FD_STREAM,		/* a carrier */
	IW_FD_INTERNAL,		/* our own (control socket): hidden from close_range and the like */
	IW_FD_EPOLL,		/* an epoll instance that holds, or may hold, our fds */
};

/*
 * One word per fd: kind in the low 4 bits, above it what belongs to the kind (STREAM, LISTENER, CONNECTING: index of the entry;
 * TCP: flags and serial number, see fdtab.h; PLAIN: conn_id; OTHER: 1 = looked at by iw_adopt). A call on an fd that is not ours costs this load. */
extern _Atomic uint32_t iw_fdtab[IW_FD_MAX];

static inline enum iw_fd_kind iw_fd_kind(int fd)
{
	if ((unsigned int)fd >= IW_FD_MAX)
		return IW_FD_OTHER;
	return (enum iw_fd_kind)(atomic_load_explicit(&iw_fdtab[fd], memory_order_relaxed) & 15);
}

/* A stream as this process knows it; shared by all fds duplicated from one. Slots and their page address are never
 * unmapped (a closed slot shows a zero page), so a racing reader cannot fault. */
struct iw_stream {
	struct iw_page *page;		/* first, and once set never NULL; see iw_stream_new() */
	_Atomic uint32_t refs;
	uint32_t flags;			/* IW_PAGE_LOCAL */
	uint32_t end;			/* our iw_page.end */
	uint64_t stream_id, conn_id;
	_Atomic uint64_t tx_put;	/* octets this process wrote (threads may lose some): bounds SIOCOUTQ */
	_Atomic uint32_t sopt;		/* options kept by the library, see opts.c */
	_Atomic uint32_t fin_sent_once;	/* LOCAL: a send after the peer's close succeeded once, as on TCP */
	_Atomic uint32_t connect_told;	/* 0: a second connect() after a non-blocking one still returns 0, then EISCONN */
	uint32_t serial;		/* fork count when it was made: older than iw_forks means that others may hold it too */
	uint64_t ino;			/* st_ino of the carrier, to recognise an fd that was closed behind our back */
	_Atomic uint64_t ctl_gen;	/* control connection that knows this stream as ours; see iw_stream_own() */
};

/*
 * Bits of iw_page_end.opts, what the library keeps of options itself; IW_SOPT_LINGER0 also in iw_stream.sopt, as this process
 * knows it.
 */
#define IW_SOPT_LINGER0	1u	/* SO_LINGER {1, 0} is set: close is a reset */
#define IW_SOPT_NODELAY	2u
#define IW_SOPT_CORK	4u
#define IW_SOPT_NOQUICKACK 8u
#define IW_SOPT_SNDBUF	16u	/* set by the application: the carrier's value is the answer */
#define IW_SOPT_RCVBUF	32u
#define IW_SOPT_LOWAT	64u	/* TCP_NOTSENT_LOWAT, value in iw_page_end.notsent_lowat */
#define IW_SOPT_OOBINLINE 128u
#define IW_SOPT_RCVLOWAT 256u	/* more than 1: poll has to count */

/*
 * Is fd really still the carrier of s? stdio, the resolver and raw system calls close fds behind our back, and the number may be a
 * file by now. Ask this (one fstat) before a result is changed: before EOF becomes ECONNRESET, before an answer from the page.
 * false: the entry was dropped, the fd is OTHER now; give the kernel's own answer.
 */
bool iw_stream_verify(int fd, struct iw_stream *s);

/* Make sure that this process's control connection knows s (after a fork or a daemon restart it does not): before GETSOCKOPT and
 * SETSOCKOPT. 0 or -errno as iw_rpc. */
int iw_stream_own(struct iw_stream *s, int fd);

/*
 * For socket-specific calls on an fd of kind OTHER: a carrier inherited by exec or received by SCM_RIGHTS becomes a STREAM. Costs one
 * array load when the fd was looked at before, one getpeername the first time. Returns the kind afterwards.
 */
enum iw_fd_kind iw_adopt_slow(int fd);
static inline enum iw_fd_kind iw_adopt(int fd)
{
	if ((unsigned int)fd >= IW_FD_MAX || atomic_load_explicit(&iw_fdtab[fd], memory_order_relaxed))
		return iw_fd_kind(fd);
	return iw_adopt_slow(fd);
}
/* Before a sendmsg that may pass descriptors on: sockets that are shared before they are connected stay plain. */
void iw_rights_leaving_slow(const struct msghdr *m);
static inline void iw_rights_leaving(const struct msghdr *m)
{
	if (__builtin_expect((uintptr_t)m >= 4096 && m->msg_controllen && m->msg_control, 0))
		iw_rights_leaving_slow(m);
}
/* fd is new to this process (came by SCM_RIGHTS): forget what its number meant before. */
void iw_fd_forget(int fd);

/* The stream of an fd, or NULL. Valid while the fd is open in the caller's eyes. */
struct iw_stream *iw_stream_of(int fd);
static inline struct iw_page_end *iw_stream_end(struct iw_stream *s)
{
	return &s->page->end[s->end];
}

/*
 * The state of a stream's end as TCP has it (data.c, poll.c; bits of iw_page_end.shut). IW_SHUT_CLOSED is set by close.c when
 * the last descriptor of this end goes; on LOCAL streams the other end's library reads it.
 */
#define IW_SHUT_RD	1u
#define IW_SHUT_WR	2u
#define IW_SHUT_CLOSED	4u
#define IW_SHUT_RST	8u	/* LOCAL: wrote after the peer's close: TCP would have got a RST in CLOSE_WAIT */
#define IW_SHUT_OOB	16u	/* LOCAL: MSG_OOB was used: POLLPRI, SIOCATMARK and SIGURG are the carrier's */

/*
 * poll bits the kernel reported for the carrier -> those TCP would report. Used for poll, select and epoll_wait results.
 * May clear bits (the HUP of a local peer's close) and add bits (ERR of a recorded reset). 0: TCP would not have woken up.
 */
short iw_stream_fix_events(struct iw_stream *s, int fd, short revents);
/* Call when fd's fixed bits may have become more without a wake-up from the kernel (IW_SHUT_RST was set): epoll looks again. */
void iw_epoll_look_again(int fd);

/*
 * A CONNECTING fd is about to be used or looked at: if the TCP connect has completed, swap it to its carrier (or give the
 * offer up and make it PLAIN). Returns the fd's kind afterwards. Cheap when fd is not CONNECTING.
 */
enum iw_fd_kind iw_connect_settle(int fd);
/*
 * How does the program wait for a connect? By poll, select or epoll calls of libc: they say so by iw_connect_seen(). Else the fd may be
 * registered where no swap can follow (raw system calls, io_uring), and whoever settles first keeps it plain (epoll-unknown). So calls
 * that tell nothing about the connect use iw_connect_settle_seen(), which leaves it as it is until then.
 */
void iw_connect_seen(int fd);
enum iw_fd_kind iw_connect_settle_seen(int fd);
/* Number of CONNECTING fds in this process: 0 lets the waiting calls pass straight through. */
extern _Atomic uint32_t iw_connecting;
/*
 * The same for calls that move data (send, recv, read, write families), shutdown excepted. When the connect is still under way, such a
 * call must not reach the TCP socket, which may become established in between: a non-blocking one (O_NONBLOCK, or
 * MSG_DONTWAIT in msg_flags) returns -1 with EAGAIN at once, as SYN_SENT does; for a blocking one the offer is given up
 * (swap-unsafe) and TCP goes on. Returns the kind to go on with: never CONNECTING.
 */
int iw_connect_data(int fd, int msg_flags);
/*
 * Around a poll/select that sleeps on a CONNECTING fd: while somebody sleeps on the old file another thread's settle gives the offer
 * up instead of swapping under the sleeper. begin settles first and returns the kind; call end only when it returned CONNECTING,
 * before settling yourself.
 */
enum iw_fd_kind iw_connect_wait_begin(int fd);
void iw_connect_wait_end(int fd);
/* A TCP fd (not connected yet) must stay plain, for this reason: Fast Open, an option only TCP has, ... CONNECTING gives its offer up. */
void iw_tcp_plain(int fd, enum iw_reason reason);
/* Listeners of a forked child, or from systemd, wait to be registered: the waiting calls do it before they sleep. */
extern _Atomic uint32_t iw_listeners_pending;
void iw_listeners_look(void);
static inline void iw_waiting(void)
{
	if (__builtin_expect(atomic_load_explicit(&iw_listeners_pending, memory_order_relaxed), 0))
		iw_listeners_look();
}
/* Number of STREAM fds: 0 lets poll and friends pass straight through. */
extern _Atomic uint32_t iw_streams;

/*
 * Options that live in a socket itself (buffers, linger, TCP_NODELAY, SO_RCVLOWAT, ...): read before the daemon uses the TCP socket,
 * written when the stream is there and the application does not have it yet. iw_opts_read returns 0, or the reason to stay plain: an
 * option that a stream could not honour. Some getsockopt; errno is kept.
 */
struct iw_opts {
	uint32_t bits;	/* IW_SOPT_* */
	int sndbuf, rcvbuf, lowat, notsent_lowat;
};
enum iw_reason iw_opts_read(int tcp, struct iw_opts *o);
void iw_opts_write(struct iw_stream *s, int carrier, const struct iw_opts *o);

/*
 * Requests to the daemon (ctl.c). Fill msg by iw_ctl_init(); reply is checked by iw_ctl_check(). Signals are blocked and
 * several may wait side by side. fds_out receives up to 2 fds (CLOEXEC), -1 where none came.
 * 0, or -ENOTCONN (no daemon), -ETIMEDOUT, -EPROTO; -ECONNRESET: a CLAIM that had begun (iw_proc.promised). Reconnects, rate-limited, and registers the listeners again.
 */
int iw_rpc(void *msg, int fd_in, void *reply, size_t reply_size, int fds_out[2]);
/* The same without reply; dropped when there is no daemon. */
void iw_tell(void *msg, int fd_in);
void iw_tell_sync(void);

/* The answers a stream's carrier cannot give. Return -1 with errno, as the originals. Called for STREAM fds only. */
int iw_stream_getsockname(struct iw_stream *s, struct sockaddr *a, socklen_t *len, bool peer);

#pragma GCC visibility pop
#endif
