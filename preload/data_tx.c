// SPDX-License-Identifier: MIT
/* Sending: the calls of the application, into one funnel; SIGPIPE and the errors where TCP has them. */
#include <fcntl.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fdtab.h"
#include "lib.h"
#include "path.h"
#include "paths/burst.h"
#include "real.h"
#include "scm.h"
#include "stream.h"
#include "switch.h"
#include "sys.h"
#include "tcpstate.h"
#include "turn.h"
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
	int saved = errno;
	ssize_t n;

	if (iw_unlikely(flags & MSG_FASTOPEN))
		return iw_fail(EISCONN);
	n = iw_path(s)->tx(s, fd, io, flags);
	return iw_likely(n >= 0) ? n : iw_kept(tx_failed(s, fd, io, flags), saved);
}

static IW_APART ssize_t tx_buf(struct iw_stream *s, int fd, const void *buf, size_t len, int flags)
{
	struct iw_io io;

	if (iw_unlikely(len > IW_RW_MOST))
		len = IW_RW_MOST;
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
	struct iw_turn t;

	iw_burst_wait_tx(fd);
	if (!iw_turn(&t, fd, IW_TURN_DATA))
		return iw_real.write(fd, buf, len);
	return iw_turn_moved(&t, fd, t.s ? tx_write(t.s, fd, buf, len) : iw_real.write(fd, buf, len));
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
	struct iw_turn t;

	iw_burst_wait_tx(fd);
	if (!iw_turn(&t, fd, IW_TURN_DATA))
		return iw_real.writev(fd, v, cnt);
	return iw_turn_moved(&t, fd, !t.s || cnt <= 0 || cnt > IOV_MAX ? iw_real.writev(fd, v, cnt) : tx_writev(t.s, fd, v, cnt));
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
	struct iw_turn t;

	iw_burst_wait_tx(fd);
	if (!iw_turn(&t, fd, IW_TURN_DATA))
		return iw_real.pwritev64v2(fd, v, cnt, off, flags);
	return iw_turn_moved(&t, fd, plain_v2(t.s, cnt, off, flags) ? iw_real.pwritev64v2(fd, v, cnt, off, flags) :
			     tx_v2(t.s, fd, v, cnt, off, flags));
}

IW_EXPORT ssize_t pwritev2(int fd, const struct iovec *v, int cnt, off_t off, int flags)
{
	return do_pwritev2(fd, v, cnt, off, flags);
}

IW_EXPORT ssize_t pwritev64v2(int fd, const struct iovec *v, int cnt, off64_t off, int flags)
{
	return do_pwritev2(fd, v, cnt, off, flags);
}

static IW_APART void tx_urgent_now(struct iw_turn *t, int fd)
{
	if (t->s && !iw_stream_local(t->s) && iw_switch_urgent(fd, t->s)) {
		t->s = NULL;
		t->c = iw_candidate_at(iw_word_val(iw_word(fd)));
	}
	if (t->c)
		iw_candidate_flag(t->c, IW_CAND_URGENT);
}

/* Urgent data: where it lies among the others only TCP can say. A stream that is relayed becomes TCP again. */
static inline void tx_urgent(struct iw_turn *t, int fd, int flags)
{
	if (iw_unlikely(flags & MSG_OOB))
		tx_urgent_now(t, fd);
}

IW_EXPORT ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	struct iw_turn t;

	iw_burst_wait_tx(fd);
	if (!iw_turn(&t, fd, IW_TURN_DATA | IW_TURN_SOCKET))
		return iw_real.send(fd, buf, len, flags);
	tx_urgent(&t, fd, flags);
	return iw_turn_moved(&t, fd, t.s ? tx_buf(t.s, fd, buf, len, flags) : iw_real.send(fd, buf, len, flags));
}

static IW_APART ssize_t tx_to(struct iw_stream *s, int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr, socklen_t alen)
{
	if (addr && ((int)alen < 0 || alen > sizeof(struct sockaddr_storage)))
		return iw_fail(EINVAL);
	if (addr && !iw_user_readable(addr, alen))
		return iw_fail(EFAULT);
	return tx_buf(s, fd, buf, len, flags);
}

IW_EXPORT ssize_t sendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *addr, socklen_t alen)
{
	struct iw_turn t;

	iw_burst_wait_tx(fd);
	if (!iw_turn(&t, fd, IW_TURN_DATA | IW_TURN_SOCKET))
		return iw_real.sendto(fd, buf, len, flags, addr, alen);
	tx_urgent(&t, fd, flags);
	return iw_turn_moved(&t, fd, t.s ? tx_to(t.s, fd, buf, len, flags, addr, alen) : iw_real.sendto(fd, buf, len, flags, addr, alen));
}

/* Not on TCP: descriptors may leave with it. */
static IW_APART ssize_t sendmsg_other(int fd, const struct msghdr *m, int flags)
{
	ssize_t n;

	iw_rights_leaving(m);
	n = iw_real.sendmsg(fd, m, flags);
	if (n >= 0)
		iw_rights_left(m);
	return n;
}

IW_EXPORT ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	struct iw_turn t;
	size_t len;

	iw_burst_wait_tx(fd);
	if (!iw_turn(&t, fd, IW_TURN_DATA | IW_TURN_SOCKET))
		return sendmsg_other(fd, m, flags);
	tx_urgent(&t, fd, flags);
	return iw_turn_moved(&t, fd, t.s ? tx_msg(t.s, fd, m, flags, &len) : sendmsg_other(fd, m, flags));
}

static int mmsg_plain(int fd, struct mmsghdr *v, unsigned int vlen, int flags)
{
	int n;

	for (unsigned int i = 0; i < vlen && i < UIO_MAXIOV; i++)
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
	ssize_t octets = 0;
	struct iw_turn t;
	int n;

	iw_burst_wait_tx(fd);
	if (!iw_turn(&t, fd, IW_TURN_DATA | IW_TURN_SOCKET))
		return mmsg_plain(fd, v, vlen, flags);
	tx_urgent(&t, fd, flags);
	n = t.s ? tx_mmsg(t.s, fd, v, vlen, flags) : mmsg_plain(fd, v, vlen, flags);
	for (int i = 0; t.c && i < n; i++)
		octets += v[i].msg_len;
	iw_turn_moved(&t, fd, octets);
	return n;
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
	int saved = errno;
	ssize_t n = iw_path(s)->tx_from(s, v);

	return iw_kept(n < 0 && (errno == EPIPE || errno == ECONNRESET) ? tx_refused(s, v) : n, saved);
}

static ssize_t do_sendfile(int out, int in, off64_t *off, size_t len)
{
	struct iw_move v = { .in = in, .out = out, .off_in = off, .len = len };
	struct iw_turn t;

	iw_burst_wait();
	if (!iw_turn(&t, out, IW_TURN_DATA))
		return iw_real.sendfile64(out, in, off, len);
	if (t.c)
		iw_candidate_flag(t.c, IW_CAND_FILE);
	return iw_turn_moved(&t, out, t.s ? tx_from(t.s, &v) : iw_real.sendfile64(out, in, off, len));
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

static ssize_t splice_in(struct iw_stream *s, const struct iw_move *v)
{
	int saved = errno;
	ssize_t n = iw_path(s)->rx_into(s, v);

	if (n < 0 && errno == EAGAIN && iw_tcp_reset_comes(s, v->in))
		n = iw_path(s)->rx_into(s, v);
	return iw_kept((n == 0 && v->len) || (n < 0 && errno == ECONNRESET) ? iw_rx_edge(s, v->in, n) : n, saved);
}

/* What is due for the fd is done; the turn itself is that of both. */
static inline void splice_look(int fd)
{
	struct iw_turn t;

	if (iw_turn(&t, fd, IW_TURN_DATA))
		iw_turn_end();
}

static ssize_t splice_both(const struct iw_move *v)
{
	uint32_t in = iw_word(v->in), out = iw_word(v->out);

	if (iw_word_kind(out) == IW_FD_STREAM)
		return tx_from(iw_stream_at(iw_word_val(out)), v);
	if (iw_word_kind(in) == IW_FD_STREAM)
		return splice_in(iw_stream_at(iw_word_val(in)), v);
	return iw_real.splice(v->in, v->off_in, v->out, v->off_out, v->len, v->flags);
}

/* The candidate that fd is, if iw_turn_after() is to be called. */
static struct iw_candidate *splice_count(int fd, ssize_t n, uint32_t flag)
{
	uint32_t w = iw_word(fd);
	struct iw_candidate *c = iw_word_kind(w) == IW_FD_CANDIDATE ? iw_candidate_at(iw_word_val(w)) : NULL;

	if (c && flag)
		iw_candidate_flag(c, flag);
	return c && iw_candidate_count(c, n) ? c : NULL;
}

IW_EXPORT ssize_t splice(int in, off64_t *poff_in, int out, off64_t *poff_out, size_t len, unsigned int flags)
{
	struct iw_move v = { true, in, out, poff_in, poff_out, len, flags };
	struct pollfd both[2] = { { .fd = in }, { .fd = out } };
	struct iw_candidate *a, *b;
	ssize_t n;

	iw_burst_wait();
	if (iw_likely(!iw_word_moves(iw_word(in)) && !iw_word_moves(iw_word(out))))
		return iw_real.splice(in, poff_in, out, poff_out, len, flags);
	splice_look(in);
	splice_look(out);
	iw_turn_poll(both, 2);
	n = splice_both(&v);
	a = splice_count(in, n, 0);
	b = splice_count(out, n, IW_CAND_FILE);
	iw_turn_end();
	if (a)
		iw_turn_after(in, a);
	if (b)
		iw_turn_after(out, b);
	return n;
}
