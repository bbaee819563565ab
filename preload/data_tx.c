// SPDX-License-Identifier: MIT
/* Sending: the calls of the application, into one funnel; SIGPIPE and the errors where TCP has them. */
#include <fcntl.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "proto/reason.h"
#include "adopt.h"
#include "connecting.h"
#include "fdtab.h"
#include "lib.h"
#include "lookup.h"
#include "path.h"
#include "real.h"
#include "scm.h"
#include "stream.h"
#include "sys.h"
#include "tcp.h"
#include "tcpstate.h"
#include "user.h"

/* Control messages of SOL_SOCKET as sock_cmsg_send() knows them. */
#ifndef SCM_TS_OPT_ID
#define SCM_TS_OPT_ID 81
#endif

/* The path took nothing. */
static IW_APART ssize_t tx_failed(struct iw_stream *s, int fd, const struct iw_io *io, int flags)
{
	size_t len;

	if (errno != EPIPE && errno != ECONNRESET)
		return -1;
	len = iw_io_len(io);
	if (!len && io->form == IW_IO_FILE && io->vec)
		return 0;	/* a vector of nothing does not get to the socket */
	return iw_tx_edge(s, fd, len, flags);
}

/* Every call of the application that sends octets on a stream ends here. */
static inline ssize_t stream_tx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	ssize_t n;

	if (iw_unlikely(flags & MSG_FASTOPEN))
		return iw_fail(EISCONN);
	n = iw_path(s)->tx(s, fd, io, flags);
	return iw_likely(n >= 0) ? n : tx_failed(s, fd, io, flags);
}

static IW_APART ssize_t tx_buf(struct iw_stream *s, int fd, const void *buf, size_t len, int flags)
{
	struct iw_io io;

	if (iw_unlikely(flags & (MSG_OOB | MSG_FASTOPEN)) && iw_buf_check(buf, len))
		return iw_fail(EFAULT);
	iw_io_buf(&io, buf, len, IW_IO_SOCK);
	return stream_tx(s, fd, &io, flags);
}

/*
 * TCP looks at control messages and passes none on: descriptors and credentials are ignored, time stamps and marks concern
 * segments, an unknown type of SOL_SOCKET is EINVAL. SO_MARK and SO_TXTIME cannot be applied here: EPERM and EINVAL, as without the
 * right and without SO_TXTIME.
 */
static int check_control(const struct msghdr *m)
{
	const char *end = (const char *)m->msg_control + m->msg_controllen;

	if (m->msg_controllen > INT_MAX)
		return ENOBUFS;
	if (!iw_user_readable(m->msg_control, m->msg_controllen))
		return EFAULT;
	for (const struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR((struct msghdr *)m, (struct cmsghdr *)c)) {
		if (c->cmsg_len < sizeof(*c) || (const char *)c + c->cmsg_len > end)
			return EINVAL;
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		switch (c->cmsg_type) {
		case SCM_RIGHTS:
		case SCM_CREDENTIALS:
		case SO_TIMESTAMPING:
		case SO_PRIORITY:
		case SCM_TS_OPT_ID:
			break;
		case SO_MARK:
			return EPERM;
		default:
			return EINVAL;
		}
	}
	return 0;
}

/* What the kernel finds wrong before TCP sees it. 0 or -errno. */
static int tx_header(struct msghdr *h, const struct msghdr *m, int flags)
{
	int err = iw_msg_in(h, m, true);

	if (!err && (h->msg_controllen || (flags & (MSG_OOB | MSG_FASTOPEN))))
		err = iw_iov_check(h);
	if (!err && h->msg_controllen)
		err = -check_control(h);
	return err;
}

static IW_APART ssize_t tx_msg(struct iw_stream *s, int fd, const struct msghdr *m, int flags, size_t *len)
{
	struct msghdr h;
	int err = tx_header(&h, m, flags);
	struct iw_io io;
	ssize_t n;

	if (err)
		return iw_fail(-err);
	iw_io_vec(&io, h.msg_iov, h.msg_iovlen, IW_IO_SOCK);
	n = stream_tx(s, fd, &io, flags);
	if (n >= 0)
		*len = iw_io_len(&io);
	return n;
}

/* write on a stale number: the carrier was closed behind our back and the number is a file now. */
static bool stale(struct iw_stream *s, int fd)
{
	return errno == ENOTSOCK && !iw_stream_verify(fd, s);
}

static IW_APART ssize_t tx_write(struct iw_stream *s, int fd, const void *buf, size_t len)
{
	struct iw_io io;
	ssize_t n;

	iw_io_buf(&io, buf, len, IW_IO_FILE);
	n = stream_tx(s, fd, &io, 0);
	return iw_unlikely(n < 0) && stale(s, fd) ? iw_real.write(fd, buf, len) : n;
}

IW_EXPORT ssize_t write(int fd, const void *buf, size_t len)
{
	struct iw_stream *s;

	if (iw_data_stream(fd, 0, false, &s))
		return -1;
	return s ? tx_write(s, fd, buf, len) : iw_real.write(fd, buf, len);
}

static inline ssize_t tx_vec(struct iw_stream *s, int fd, const struct iovec *v, int cnt, int flags)
{
	struct iw_io io;

	iw_io_vec(&io, v, (size_t)cnt, IW_IO_FILE);
	return stream_tx(s, fd, &io, flags);
}

static IW_APART ssize_t tx_writev(struct iw_stream *s, int fd, const struct iovec *v, int cnt)
{
	ssize_t n = tx_vec(s, fd, v, cnt, 0);

	return iw_unlikely(n < 0) && stale(s, fd) ? iw_real.writev(fd, v, cnt) : n;
}

IW_EXPORT ssize_t writev(int fd, const struct iovec *v, int cnt)
{
	struct iw_stream *s;

	if (iw_data_stream(fd, 0, false, &s))
		return -1;
	return !s || cnt <= 0 || cnt > IOV_MAX ? iw_real.writev(fd, v, cnt) : tx_writev(s, fd, v, cnt);
}

/* All but NOWAIT are about files. What is unknown, and a position, the kernel refuses. */
#define RWF_KNOWN (RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND)

static bool plain_v2(struct iw_stream *s, int cnt, int64_t off, int flags)
{
	return !s || cnt <= 0 || cnt > IOV_MAX || off != -1 || (flags & ~RWF_KNOWN);
}

static IW_APART ssize_t tx_v2(struct iw_stream *s, int fd, const struct iovec *v, int cnt, off64_t off, int flags)
{
	ssize_t n = tx_vec(s, fd, v, cnt, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0);

	return n < 0 && stale(s, fd) ? iw_real.pwritev64v2(fd, v, cnt, off, flags) : n;
}

static ssize_t do_pwritev2(int fd, const struct iovec *v, int cnt, off64_t off, int flags)
{
	struct iw_stream *s;

	if (iw_data_stream(fd, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0, false, &s))
		return -1;
	return plain_v2(s, cnt, off, flags) ? iw_real.pwritev64v2(fd, v, cnt, off, flags) : tx_v2(s, fd, v, cnt, off, flags);
}

IW_EXPORT ssize_t pwritev2(int fd, const struct iovec *v, int cnt, off_t off, int flags)
{
	return do_pwritev2(fd, v, cnt, off, flags);
}

IW_EXPORT ssize_t pwritev64v2(int fd, const struct iovec *v, int cnt, off64_t off, int flags)
{
	return do_pwritev2(fd, v, cnt, off, flags);
}

IW_EXPORT ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	struct iw_stream *s;

	if (iw_data_stream(fd, flags, true, &s))
		return -1;
	return s ? tx_buf(s, fd, buf, len, flags) : iw_real.send(fd, buf, len, flags);
}

IW_EXPORT ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr, socklen_t alen)
{
	struct iw_stream *s;

	/* a send that connects: Fast Open */
	if ((flags & MSG_FASTOPEN) && iw_adopt(fd) != IW_FD_STREAM)
		iw_tcp_plain(fd, IW_REASON_FASTOPEN);
	if (iw_data_stream(fd, flags, true, &s))
		return -1;
	if (!s)
		return iw_real.sendto(fd, buf, len, flags, addr, alen);
	if (addr && ((int)alen < 0 || alen > sizeof(struct sockaddr_storage)))
		return iw_fail(EINVAL);
	if (addr && !iw_user_readable(addr, alen))
		return iw_fail(EFAULT);
	return tx_buf(s, fd, buf, len, flags);
}

IW_EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	struct iw_stream *s;
	size_t len;
	ssize_t n;

	if ((flags & MSG_FASTOPEN) && iw_adopt(fd) != IW_FD_STREAM)
		iw_tcp_plain(fd, IW_REASON_FASTOPEN);
	if (iw_data_stream(fd, flags, true, &s))
		return -1;
	if (s)
		return tx_msg(s, fd, m, flags, &len);
	iw_rights_leaving(m);
	n = iw_real.sendmsg(fd, m, flags);
	if (n >= 0)
		iw_rights_left(m);
	return n;
}

static int mmsg_plain(int fd, struct mmsghdr *v, unsigned int vlen, int flags)
{
	int n;

	for (unsigned int i = 0; atomic_load(&iw_connecting) && i < vlen && i < UIO_MAXIOV; i++)
		iw_rights_leaving(&v[i].msg_hdr);
	n = iw_real.sendmmsg(fd, v, vlen, flags);
	for (int i = 0; i < n; i++)
		iw_rights_left(&v[i].msg_hdr);
	return n;
}

/* As the kernel does it: one after the other, an error of a later one is not said. */
static int tx_mmsg(struct iw_stream *s, int fd, struct mmsghdr *v, unsigned int vlen, int flags)
{
	unsigned int i;
	int err = errno;

	if (vlen > UIO_MAXIOV)
		vlen = UIO_MAXIOV;
	for (i = 0; i < vlen; i++) {
		size_t len = 0;
		ssize_t n = tx_msg(s, fd, &v[i].msg_hdr, flags, &len);
		unsigned int sent = (unsigned int)n;

		if (n >= 0 && iw_copy_out(&v[i].msg_len, &sent, sizeof(sent)))
			n = iw_fail(EFAULT);
		if (n < 0) {
			if (!i)
				return -1;
			errno = err;
			break;
		}
		if ((size_t)n < len) {
			i++;
			break;
		}
	}
	return (int)i;
}

IW_EXPORT int sendmmsg(int fd, struct mmsghdr *v, unsigned int vlen, int flags)
{
	struct iw_stream *s;

	if (iw_data_stream(fd, flags, true, &s))
		return -1;
	return s ? tx_mmsg(s, fd, v, vlen, flags) : mmsg_plain(fd, v, vlen, flags);
}

#define PIECE	65536	/* moved by the kernel at a time: after a close the answer to the first is there before the second */

/* The path refused, and nothing of the source was used up. What TCP would take and lose is taken and thrown away. */
static ssize_t tx_refused(struct iw_stream *s, const struct iw_move *v)
{
	ssize_t n = iw_tx_edge(s, v->out, v->len, 0);
	int null;

	if (n <= 0)
		return n;
	if ((atomic_load(&iw_stream_end(s)->shut) & IW_SHUT_RST) && n > PIECE)
		n = PIECE;
	null = (int)IW_SYS(openat, AT_FDCWD, "/dev/null", O_WRONLY | O_CLOEXEC, 0);
	if (null < 0)
		return iw_tx_edge(s, v->out, 1, 0);
	if (v->splice)
		n = iw_real.splice(v->in, v->off_in, null, NULL, (size_t)n, v->flags);
	else
		n = iw_real.sendfile64(null, v->in, v->off_in, (size_t)n);
	IW_SYS(close, null);
	return n;
}

static ssize_t tx_from(struct iw_stream *s, const struct iw_move *v)
{
	ssize_t n = iw_path(s)->tx_from(s, v);

	return n < 0 && (errno == EPIPE || errno == ECONNRESET) ? tx_refused(s, v) : n;
}

static ssize_t do_sendfile(int out, int in, off64_t *off, size_t len)
{
	struct iw_move v = { .in = in, .out = out, .off_in = off, .len = len };
	struct iw_stream *s;

	if (iw_data_stream(out, 0, false, &s))
		return -1;
	return s ? tx_from(s, &v) : iw_real.sendfile64(out, in, off, len);
}

IW_EXPORT ssize_t sendfile64(int out, int in, off64_t *off, size_t len)
{
	return do_sendfile(out, in, off, len);
}

#if defined(__LP64__)
IW_EXPORT ssize_t sendfile(int out, int in, off_t *off, size_t len)
{
	return do_sendfile(out, in, off, len);
}
#else
#error "off_t and off64_t differ: sendfile, preadv2 and pwritev2 need bodies of their own"
#endif

IW_EXPORT ssize_t splice(int in, off64_t *poff_in, int out, off64_t *poff_out, size_t len, unsigned int flags)
{
	struct iw_move v = { true, in, out, poff_in, poff_out, len, flags };
	struct iw_stream *src, *dst;
	ssize_t n;
	int f = flags & SPLICE_F_NONBLOCK ? MSG_DONTWAIT : 0;

	if (iw_data_stream(in, f, false, &src) || iw_data_stream(out, f, false, &dst))
		return -1;
	if (!src && !dst)
		return iw_real.splice(in, poff_in, out, poff_out, len, flags);
	if (dst)
		return tx_from(dst, &v);
	n = iw_path(src)->rx_into(src, &v);
	return (n == 0 && len) || (n < 0 && errno == ECONNRESET) ? iw_rx_edge(src, in, n) : n;
}
