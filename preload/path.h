/* SPDX-License-Identifier: MIT */
/*
 * What moves the octets of a stream: the operations of a path, and the path that a stream is on. Each path is a file of paths/; calls of
 * the application reach it through stream_tx() and stream_rx() (data_tx.c, data_rx.c), the waiting calls through bits().
 */
#ifndef IW_PRELOAD_PATH_H
#define IW_PRELOAD_PATH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "stream.h"
#include "user.h"

#pragma GCC visibility push(hidden)

/* The octets of one call. */
struct iw_io {
	bool vec;
	bool own;		/* not vec: memory of the library, which is good */
	struct iovec *v;	/* vec: the application's, as it gave it */
	size_t n;		/* its elements */
	struct iovec one;	/* not vec: of a call that has one buffer */
	enum iw_io_form {
		IW_IO_SOCK,	/* send, recv and their like */
		IW_IO_FILE,	/* read, readv, write, writev: what the kernel does with a number that is a file by now is right */
		IW_IO_V2,	/* preadv2: with off and rwf */
	} form;
	int rwf;		/* RWF_* */
	off64_t off;
	int msg_flags;		/* out, receiving: as recvmsg has them */
};

/* One buffer, or a vector. What belongs to other forms is not set: a call has no time for it. */
static inline void iw_io_buf(struct iw_io *io, const void *buf, size_t len, enum iw_io_form form)
{
	io->vec = io->own = false;
	io->one = (struct iovec){ (void *)buf, len };
	io->form = form;
}

static inline void iw_io_vec(struct iw_io *io, const struct iovec *v, size_t n, enum iw_io_form form)
{
	io->vec = true;
	io->v = (struct iovec *)v;
	io->n = n;
	io->form = form;
}

/* Octets asked for. Of a vector only once the kernel has seen it. */
static inline size_t iw_io_len(const struct iw_io *io)
{
	return io->vec ? iw_iov_total(io->v, io->n) : io->one.iov_len;
}

/* Octets that the kernel moves between a stream and another file. */
struct iw_move {
	bool splice;		/* else sendfile */
	int in, out;
	off64_t *off_in, *off_out;
	size_t len;
	unsigned int flags;	/* of splice */
};

/* fd is one of those of s in the application's hands. Where nothing else is said: -1 with errno, as the system call of that name. */
struct iw_path_ops {
	/*
	 * Octets, waiting as the fd does unless flags say MSG_DONTWAIT. tx does not raise SIGPIPE; EPIPE and ECONNRESET, and 0 of rx, mean
	 * that the path has come to its end: what TCP answers then the caller finds out. tx may say more than it took where TCP would have
	 * taken and lost the rest. Flags of rx: MSG_PEEK, MSG_WAITALL, MSG_OOB; of tx
	 * MSG_OOB; others are hints.
	 */
	ssize_t (*tx)(struct iw_stream *s, int fd, struct iw_io *io, int flags);
	ssize_t (*rx)(struct iw_stream *s, int fd, struct iw_io *io, int flags);
	ssize_t (*tx_from)(struct iw_stream *s, const struct iw_move *v);	/* v->out is its fd */
	ssize_t (*rx_into)(struct iw_stream *s, const struct iw_move *v);	/* v->in is its fd */
	/* poll bits as they are now, of events and POLLERR and POLLHUP; not yet made TCP's (iw_stream_fix_events). */
	short (*bits)(struct iw_stream *s, int fd, short events);
	/* What the kernel is to be asked for, on iw_stream_wait_fd(), by who waits for these events. After bits(). */
	short (*wait_events)(struct iw_stream *s, short events);
	/*
	 * Of a stream that is mapped (iw_stream.mapped), whose bits() are TCP's as they are; they keep iw_stream.known. step: gives and takes all
	 * that the mapped socket takes and has now, without waiting; with `some` it takes no more than makes stream octets readable, if nothing
	 * else is to be told; returns POLLIN when stream octets, the FIN or an error came, POLLOUT when
	 * there is room where there was none. Whoever calls it, or does the same in other operations, says iw_ready() what came.
	 */
	short (*step)(struct iw_stream *s, int fd, bool some);
	/* SIOCINQ, SIOCOUTQ and SIOCOUTQNSD: octets, or -errno. */
	long (*inq)(struct iw_stream *s, int fd);
	int (*outq)(struct iw_stream *s, int fd, bool unsent);
	int (*shutdown)(struct iw_stream *s, int fd, int how);
};

static inline const struct iw_path_ops *iw_path(struct iw_stream *s)
{
	return atomic_load_explicit(&s->path, memory_order_acquire);
}

#pragma GCC visibility pop
#endif
