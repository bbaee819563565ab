// SPDX-License-Identifier: MIT
/* Sending: the carrier's own calls without what a unix socket would add, and SIGPIPE and the errors where TCP has them. */
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "stream.h"

/* Control messages of SOL_SOCKET as sock_cmsg_send() knows them. */
#ifndef SCM_TS_OPT_ID
#define SCM_TS_OPT_ID 81
#endif

static inline void tx_count(struct iw_stream *s, ssize_t n)
{
	atomic_store_explicit(&s->tx_put, atomic_load_explicit(&s->tx_put, memory_order_relaxed) + (uint64_t)n, memory_order_relaxed);
}

static ssize_t tx_result(struct iw_stream *s, int fd, ssize_t n, size_t len, int flags)
{
	if (__builtin_expect(n >= 0, 1)) {
		tx_count(s, n);
		if ((size_t)n < len)
			iw_tx_short(s, fd);
		return n;
	}
	return errno == EPIPE || errno == ECONNRESET ? iw_tx_edge(s, fd, len, flags) : n;
}

/*
 * What of the flags concerns the carrier; the others are hints about segments (MSG_MORE, MSG_EOR, ...) or do nothing on a connected
 * TCP socket (MSG_ZEROCOPY without SO_ZEROCOPY). -1 with errno for those that cannot be honoured.
 */
static int tx_flags(struct iw_stream *s, int flags)
{
	int f = (flags & MSG_DONTWAIT) | MSG_NOSIGNAL;

	if (flags & MSG_FASTOPEN) {
		errno = EISCONN;
		return -1;
	}
	if (flags & MSG_OOB) {
		if (!iw_stream_local(s)) {	/* no urgent mark on this path yet */
			errno = EOPNOTSUPP;
			return -1;
		}
		atomic_fetch_or(&iw_stream_end(s)->shut, IW_SHUT_OOB);
		f |= MSG_OOB;
	}
	return f;
}

static ssize_t tx_buf(struct iw_stream *s, int fd, const void *buf, size_t len, int flags)
{
	int f = tx_flags(s, flags);

	if (f < 0)
		return -1;
	return tx_result(s, fd, iw_real.send(fd, buf, len, f), len, flags);
}

/*
 * TCP looks at control messages and passes none on: descriptors and credentials are ignored, time stamps and marks concern
 * segments, an unknown type of SOL_SOCKET is EINVAL. SO_MARK and SO_TXTIME cannot be applied here: EPERM and EINVAL, as without the
 * right and without SO_TXTIME.
 */
static int check_control(const struct msghdr *m)
{
	const char *end = (const char *)m->msg_control + m->msg_controllen;

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

static ssize_t tx_msg(struct iw_stream *s, int fd, const struct msghdr *m, int flags)
{
	struct msghdr w = { .msg_iov = m->msg_iov, .msg_iovlen = m->msg_iovlen };
	int f = tx_flags(s, flags);
	ssize_t n;

	if (f < 0)
		return -1;
	if (m->msg_controllen && m->msg_control) {
		int err = check_control(m);

		if (err) {
			errno = err;
			return -1;
		}
	}
	n = iw_real.sendmsg(fd, &w, f);
	if (n < 0 && errno != EPIPE && errno != ECONNRESET)
		return n;
	return tx_result(s, fd, n, iw_iov_total(m->msg_iov, m->msg_iovlen), flags);
}

/* write on a stale number: the carrier was closed behind our back and the number is a file now. */
static bool stale(struct iw_stream *s, int fd)
{
	return errno == ENOTSOCK && !iw_stream_verify(fd, s);
}

IW_EXPORT ssize_t write(int fd, const void *buf, size_t len)
{
	struct iw_stream *s;
	ssize_t n;

	if (iw_data_stream(fd, 0, false, &s))
		return -1;
	if (!s)
		return iw_real.write(fd, buf, len);
	n = iw_real.send(fd, buf, len, MSG_NOSIGNAL);
	if (n < 0 && stale(s, fd))
		return iw_real.write(fd, buf, len);
	return tx_result(s, fd, n, len, 0);
}

static ssize_t tx_vec(struct iw_stream *s, int fd, const struct iovec *v, int cnt, int flags)
{
	struct msghdr m = { .msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)cnt };

	return iw_real.sendmsg(fd, &m, flags | MSG_NOSIGNAL);
}

IW_EXPORT ssize_t writev(int fd, const struct iovec *v, int cnt)
{
	struct iw_stream *s;
	size_t len;
	ssize_t n;

	if (iw_data_stream(fd, 0, false, &s))
		return -1;
	if (!s || cnt <= 0 || cnt > IOV_MAX)
		return iw_real.writev(fd, v, cnt);
	n = tx_vec(s, fd, v, cnt, 0);
	if (n < 0 && stale(s, fd))
		return iw_real.writev(fd, v, cnt);
	if (n < 0 && errno != EPIPE && errno != ECONNRESET)
		return n;
	len = iw_iov_total(v, (size_t)cnt);
	return len ? tx_result(s, fd, n, len, 0) : 0;	/* writev of nothing does not get to the socket */
}

static bool plain_v2(struct iw_stream *s, int cnt, int64_t off, int flags)
{
	return !s || cnt <= 0 || cnt > IOV_MAX || (off != -1 && off != 0) || (flags & ~RWF_NOWAIT);
}

static ssize_t tx_v2(struct iw_stream *s, int fd, const struct iovec *v, int cnt, off64_t off, int flags)
{
	ssize_t n = tx_vec(s, fd, v, cnt, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0);

	if (n < 0 && stale(s, fd))
		return iw_real.pwritev64v2(fd, v, cnt, off, flags);
	if (n < 0 && errno != EPIPE && errno != ECONNRESET)
		return n;
	return tx_result(s, fd, n, iw_iov_total(v, (size_t)cnt), 0);
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
	if (addr && ((int)alen < 0 || alen > sizeof(struct sockaddr_storage))) {
		errno = EINVAL;
		return -1;
	}
	return tx_buf(s, fd, buf, len, flags);
}

IW_EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	struct iw_stream *s;

	if ((flags & MSG_FASTOPEN) && iw_adopt(fd) != IW_FD_STREAM)
		iw_tcp_plain(fd, IW_REASON_FASTOPEN);
	if (iw_data_stream(fd, flags, true, &s))
		return -1;
	if (!s || (uintptr_t)m < 4096) {
		iw_rights_leaving(m);
		return iw_real.sendmsg(fd, m, flags);
	}
	return tx_msg(s, fd, m, flags);
}

IW_EXPORT int sendmmsg(int fd, struct mmsghdr *v, unsigned int vlen, int flags)
{
	struct iw_stream *s;
	unsigned int i;
	int err = errno;

	if (iw_data_stream(fd, flags, true, &s))
		return -1;
	if (!s) {
		for (i = 0; (uintptr_t)v >= 4096 && i < vlen && i < UIO_MAXIOV; i++)
			iw_rights_leaving(&v[i].msg_hdr);
		return iw_real.sendmmsg(fd, v, vlen, flags);
	}
	if (vlen > UIO_MAXIOV)
		vlen = UIO_MAXIOV;
	for (i = 0; i < vlen; i++) {
		ssize_t n = tx_msg(s, fd, &v[i].msg_hdr, flags);

		if (n < 0) {
			if (!i)
				return -1;
			errno = err;
			break;
		}
		v[i].msg_len = (unsigned int)n;
		if ((size_t)n < iw_iov_total(v[i].msg_hdr.msg_iov, v[i].msg_hdr.msg_iovlen)) {
			i++;
			break;
		}
	}
	return (int)i;
}

/*
 * sendfile and splice into a carrier have no MSG_NOSIGNAL: SIGPIPE is blocked around them, taken back when the carrier raised it,
 * and raised again where TCP does.
 */
struct quiet {
	uint64_t old;
	bool was;
};

static void quiet_begin(struct quiet *q)
{
	uint64_t bit = 1ull << (SIGPIPE - 1), pend = 0;

	IW_SYS(rt_sigprocmask, SIG_BLOCK, &bit, &q->old, 8);
	q->was = false;
	if (q->old & bit) {	/* blocked by the caller: one may be pending already */
		IW_SYS(rt_sigpending, &pend, 8);
		q->was = pend & bit;
	}
}

/* n of len were sent: a short count too may have ended with a piece that the carrier refused. */
static void quiet_end(struct quiet *q, ssize_t n, size_t len)
{
	uint64_t bit = 1ull << (SIGPIPE - 1);
	struct timespec zero = { 0, 0 };
	bool raised = n < 0 ? errno == EPIPE : (size_t)n < len;

	if (raised && !q->was)
		IW_SYS(rt_sigtimedwait, &bit, NULL, &zero, 8);
	IW_SYS(rt_sigprocmask, SIG_SETMASK, &q->old, NULL, 8);
}

/* Nothing of the source was used up when the carrier refused, so a send that TCP would lose is reported as EPIPE already. */
static ssize_t tx_refused(struct iw_stream *s, int fd)
{
	ssize_t n = iw_tx_edge(s, fd, 1, 0);

	return n < 0 ? n : iw_tx_edge(s, fd, 1, 0);
}

/* Is there more where that came from, so that the carrier must have cut it short? */
static bool more(int in, const off64_t *off)
{
	struct stat st;
	off64_t at;
	int q = 0;

	if (IW_SYS(fstat, in, &st) < 0)
		return false;
	if (!S_ISREG(st.st_mode))
		return IW_SYS(ioctl, in, FIONREAD, &q) == 0 && q > 0;
	at = off ? *off : (off64_t)IW_SYS(lseek, in, 0, SEEK_CUR);
	return at >= 0 && at < st.st_size;
}

static ssize_t do_sendfile(int out, int in, off64_t *off, size_t len)
{
	struct iw_stream *s;
	struct quiet q;
	ssize_t n;

	if (iw_data_stream(out, 0, false, &s))
		return -1;
	if (!s)
		return iw_real.sendfile64(out, in, off, len);
	quiet_begin(&q);
	n = iw_real.sendfile64(out, in, off, len);
	quiet_end(&q, n, len);
	if (n > 0)
		tx_count(s, n);
	if (n > 0 && (size_t)n < len && more(in, off))
		iw_tx_short(s, out);
	return n < 0 && (errno == EPIPE || errno == ECONNRESET) ? tx_refused(s, out) : n;
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
	struct iw_stream *src, *dst;
	struct quiet q;
	ssize_t n;
	int f = flags & SPLICE_F_NONBLOCK ? MSG_DONTWAIT : 0;

	if (iw_data_stream(in, f, false, &src) || iw_data_stream(out, f, false, &dst))
		return -1;
	if (!src && !dst)
		return iw_real.splice(in, poff_in, out, poff_out, len, flags);
	if (dst)
		quiet_begin(&q);
	n = iw_real.splice(in, poff_in, out, poff_out, len, flags);
	if (dst)
		quiet_end(&q, n, len);
	if (dst && n > 0)
		tx_count(dst, n);
	if (dst && n > 0 && (size_t)n < len && more(in, poff_in))
		iw_tx_short(dst, out);
	if (dst && n < 0 && (errno == EPIPE || errno == ECONNRESET))
		return tx_refused(dst, out);
	if (src && ((n == 0 && len) || (n < 0 && errno == ECONNRESET)))
		return iw_rx_edge(src, in, n);
	return n;
}
