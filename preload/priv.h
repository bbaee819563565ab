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
};

/* One word per fd: kind in the low 4 bits, index of its entry above. A call on an fd that is not ours costs this load. */
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
	_Atomic uint32_t refs;
	uint32_t flags;			/* IW_PAGE_LOCAL */
	uint32_t end;			/* our iw_page.end */
	uint64_t stream_id, conn_id;
	struct iw_page *page;
	_Atomic uint32_t sopt;		/* options kept by the library, see opts.c */
	_Atomic uint32_t fin_sent_once;	/* LOCAL: a send after the peer's close succeeded once, as on TCP */
};

/* The stream of an fd, or NULL. Valid while the fd is open in the caller's eyes. */
struct iw_stream *iw_stream_of(int fd);
static inline struct iw_page_end *iw_stream_end(struct iw_stream *s)
{
	return &s->page->end[s->end];
}

/*
 * A CONNECTING fd is about to be used or looked at: if the TCP connect has completed, swap it to its carrier (or give the
 * offer up and make it PLAIN). Returns the fd's kind afterwards. Cheap when fd is not CONNECTING.
 */
enum iw_fd_kind iw_connect_settle(int fd);
/* Number of CONNECTING fds in this process: 0 lets the waiting calls pass straight through. */
extern _Atomic uint32_t iw_connecting;
/* Number of STREAM fds: 0 lets poll and friends pass straight through. */
extern _Atomic uint32_t iw_streams;

/*
 * Requests to the daemon (ctl.c). Fill msg by iw_ctl_init(); reply is checked by iw_ctl_check(). Signals are blocked and
 * one request runs at a time per process. fds_out receives up to 2 fds (CLOEXEC), -1 where none came.
 * 0, or -ENOTCONN (no daemon), -ETIMEDOUT, -EPROTO. Reconnects, rate-limited, and registers the listeners again.
 */
int iw_rpc(void *msg, int fd_in, void *reply, size_t reply_size, int fds_out[2]);
/* The same without reply; dropped when there is no daemon. */
void iw_tell(void *msg, int fd_in);

/* The answers a stream's carrier cannot give. Return -1 with errno, as the originals. Called for STREAM fds only. */
int iw_stream_getsockname(struct iw_stream *s, struct sockaddr *a, socklen_t *len, bool peer);

#endif
