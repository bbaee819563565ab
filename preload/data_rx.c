// SPDX-License-Identifier: MIT
/* Receiving: the calls of the application, into one funnel; flags and ends of stream that only TCP knows. */
#include <limits.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "deadline.h"
#include "fdtab.h"
#include "lib.h"
#include "path.h"
#include "paths/burst.h"
#include "real.h"
#include "stream.h"
#include "sys.h"
#include "tcpstate.h"
#include "turn.h"
#include "user.h"

void __chk_fail(void) __attribute__((noreturn));

/* Flags that a path need not know. */
#define ODD_FLAGS	(MSG_TRUNC | MSG_OOB | MSG_ERRQUEUE)
#define SCRATCH		16384u
#define OWN_SCRATCH	1024u	/* on the stack, which may be small */

static inline ssize_t rx_path(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	ssize_t n;

	do
		n = iw_path(s)->rx(s, fd, io, flags);
	while (iw_unlikely(n < 0) && errno == EAGAIN && iw_tcp_reset_comes(s, fd));
	return n;
}

/* Of a recv of nothing TCP does not say why its wait was over. */
static bool waited_for_none(int fd, const struct iw_io *io, int flags)
{
	return (errno == EAGAIN || errno == EINTR) && io->form == IW_IO_SOCK && !iw_io_len(io) && !(flags & MSG_DONTWAIT) &&
	       !(IW_SYS(fcntl, fd, F_GETFL, 0) & O_NONBLOCK);
}

static IW_APART ssize_t rx_result(struct iw_stream *s, int fd, ssize_t n, const struct iw_io *io, int flags)
{
	if (n == 0)
		return iw_io_len(io) ? iw_rx_edge(s, fd, 0) : 0;
	if (n < 0 && waited_for_none(fd, io, flags))
		return 0;
	return n < 0 && errno == ECONNRESET ? iw_rx_edge(s, fd, -1) : n;
}

/* MSG_TRUNC with MSG_PEEK: how many there are. */
static ssize_t rx_count(struct iw_stream *s, int fd, const struct iw_io *whole, int flags)
{
	size_t len = iw_io_len(whole);
	struct iw_io io;
	ssize_t n;
	long inq;
	char c;

	iw_io_buf(&io, &c, len ? 1 : 0, IW_IO_SOCK);
	n = rx_result(s, fd, rx_path(s, fd, &io, flags & ~MSG_WAITALL), whole, flags);
	if (n <= 0)
		return n;
	inq = iw_path(s)->inq(s, fd);
	if (inq < 1)
		return n;
	return (size_t)inq < len ? inq : (ssize_t)len;
}

static ssize_t rx_discard_by(struct iw_stream *s, int fd, const struct iw_io *whole, int flags, char *scratch, size_t size)
{
	size_t done = 0, len = iw_io_len(whole);
	int more = flags & MSG_WAITALL ? 0 : MSG_DONTWAIT;
	struct iw_io io;

	do {
		int err = errno;
		ssize_t n;

		iw_io_buf(&io, scratch, len - done < size ? len - done : size, IW_IO_SOCK);
		n = rx_path(s, fd, &io, flags);
		if (done && n <= 0) {
			errno = err;
			break;
		}
		n = rx_result(s, fd, n, whole, flags);
		if (n <= 0)
			return n;
		done += (size_t)n;
		flags |= more;
	} while (done < len);
	return (ssize_t)done;
}

/* MSG_TRUNC on TCP throws the octets away and returns their number. Of those who do at a time one has the large place; whoever leaves in between keeps it. */
static ssize_t rx_discard(struct iw_stream *s, int fd, const struct iw_io *whole, int flags)
{
	static char large[SCRATCH];
	static _Atomic bool taken;
	char own[OWN_SCRATCH];
	bool free = false;
	ssize_t n;

	if (iw_io_len(whole) <= sizeof(own) || !atomic_compare_exchange_strong(&taken, &free, true))
		return rx_discard_by(s, fd, whole, flags, own, sizeof(own));
	n = rx_discard_by(s, fd, whole, flags, large, sizeof(large));
	atomic_store(&taken, false);
	return n;
}

static IW_APART ssize_t rx_odd(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	if (flags & MSG_ERRQUEUE)
		return iw_fail(EAGAIN);
	if (flags & MSG_OOB)
		return iw_path(s)->rx(s, fd, io, flags);
	flags &= ~MSG_TRUNC;
	return flags & MSG_PEEK ? rx_count(s, fd, io, flags) : rx_discard(s, fd, io, flags);
}

/* Every call of the application that receives octets of a stream ends here. */
static inline ssize_t stream_rx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	int saved = errno;
	ssize_t n;

	if (iw_unlikely(flags & ODD_FLAGS))
		return iw_kept(rx_odd(s, fd, io, flags), saved);
	n = rx_path(s, fd, io, flags);
	return iw_likely(n > 0) ? n : iw_kept(rx_result(s, fd, n, io, flags), saved);
}

/* With these the memory is looked at before the kernel does. */
#define WANTS_MEMORY(flags) (((flags) & ODD_FLAGS) || (((flags) & MSG_PEEK) && ((flags) & MSG_WAITALL)))

/* recvmsg: neither address nor control message ever come on a connected TCP socket. */
static IW_APART ssize_t rx_msg(struct iw_stream *s, int fd, struct msghdr *m, int flags)
{
	struct msghdr h;
	struct iw_io io;
	int err = iw_msg_in(&h, m, false);
	ssize_t n;

	if (!err && WANTS_MEMORY(flags))
		err = iw_iov_check(&h);
	if (err)
		return iw_fail(-err);
	iw_io_vec(&io, h.msg_iov, h.msg_iovlen, IW_IO_SOCK);
	io.msg_flags = 0;
	n = stream_rx(s, fd, &io, flags);
	if (n < 0)
		return n;
	if (!iw_user_writable(m, sizeof(*m)))
		return iw_fail(EFAULT);
	if (h.msg_name)
		m->msg_namelen = 0;
	m->msg_controllen = 0;
	m->msg_flags = (io.msg_flags & MSG_OOB) | (flags & MSG_CMSG_CLOEXEC);
	return n;
}

static IW_APART ssize_t rx_buf(struct iw_stream *s, int fd, void *buf, size_t len, int flags)
{
	struct iw_io io;

	if (iw_unlikely(len > IW_RW_MOST))
		len = IW_RW_MOST;
	if (WANTS_MEMORY(flags) && iw_buf_check(buf, len))
		return iw_fail(EFAULT);
	iw_io_buf(&io, buf, len, IW_IO_SOCK);
	return stream_rx(s, fd, &io, flags);
}

/* Descriptors that arrive by SCM_RIGHTS on an ordinary unix socket: their numbers mean something new. */
static void forget_rights(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		const unsigned char *p = CMSG_DATA(c);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(0))
			continue;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, p + i * sizeof(fd), sizeof(fd));
			iw_fd_forget(fd);
		}
	}
}

/* Entry points never call each other by name: those names may be somebody else's by then. */
static IW_APART ssize_t rx_read(struct iw_stream *s, int fd, void *buf, size_t len)
{
	struct iw_io io;

	iw_io_buf(&io, buf, len, IW_IO_FILE);
	return stream_rx(s, fd, &io, 0);
}

static inline ssize_t do_read(int fd, void *buf, size_t len)
{
	struct iw_turn t;

	iw_burst_wait();
	if (!iw_turn(&t, fd, IW_TURN_DATA))
		return iw_real.read(fd, buf, len);
	return iw_turn_moved(&t, fd, t.s ? rx_read(t.s, fd, buf, len) : iw_real.read(fd, buf, len));
}

static IW_APART ssize_t rx_vec(struct iw_stream *s, int fd, const struct iovec *v, int cnt)
{
	struct iw_io io;

	iw_io_vec(&io, v, (size_t)cnt, IW_IO_FILE);
	return stream_rx(s, fd, &io, 0);
}

IW_EXPORT ssize_t readv(int fd, const struct iovec *v, int cnt)
{
	struct iw_turn t;

	iw_burst_wait();
	if (!iw_turn(&t, fd, IW_TURN_DATA))
		return iw_real.readv(fd, v, cnt);
	return iw_turn_moved(&t, fd, t.s ? rx_vec(t.s, fd, v, cnt) : iw_real.readv(fd, v, cnt));
}

static IW_APART ssize_t rx_v2(struct iw_stream *s, int fd, const struct iovec *v, int cnt, off64_t off, int flags)
{
	struct iw_io io;

	iw_io_vec(&io, v, (size_t)cnt, IW_IO_V2);
	io.off = off;
	io.rwf = flags;
	return stream_rx(s, fd, &io, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0);
}

static ssize_t do_preadv2(int fd, const struct iovec *v, int cnt, off64_t off, int flags)
{
	struct iw_turn t;

	iw_burst_wait();
	if (!iw_turn(&t, fd, IW_TURN_DATA))
		return iw_real.preadv64v2(fd, v, cnt, off, flags);
	return iw_turn_moved(&t, fd, t.s ? rx_v2(t.s, fd, v, cnt, off, flags) : iw_real.preadv64v2(fd, v, cnt, off, flags));
}

IW_EXPORT ssize_t preadv2(int fd, const struct iovec *v, int cnt, off_t off, int flags)
{
	return do_preadv2(fd, v, cnt, off, flags);
}

IW_EXPORT ssize_t preadv64v2(int fd, const struct iovec *v, int cnt, off64_t off, int flags)
{
	return do_preadv2(fd, v, cnt, off, flags);
}

/* Urgent data: where it lies among the others only TCP knows. */
static inline void rx_urgent(const struct iw_turn *t, int flags)
{
	if (iw_unlikely(flags & MSG_OOB) && t->c)
		iw_candidate_flag(t->c, IW_CAND_URGENT);
}

/* What was seen by MSG_PEEK is there, and not moved; nor is what comes from the queue of errors. */
static inline __attribute__((always_inline)) ssize_t rx_moved(const struct iw_turn *t, int fd, int flags, ssize_t n)
{
	bool stays = iw_unlikely(flags & (MSG_PEEK | MSG_ERRQUEUE)) && n > 0;

	if (iw_unlikely(flags & MSG_PEEK) && t->c)
		iw_candidate_told(t->c, n);
	iw_turn_over(t, fd, stays ? 0 : n);
	return n;
}

static inline ssize_t do_recv(int fd, void *buf, size_t len, int flags)
{
	struct iw_turn t;

	iw_burst_wait();
	if (!iw_turn(&t, fd, IW_TURN_DATA | IW_TURN_SOCKET))
		return iw_real.recv(fd, buf, len, flags);
	rx_urgent(&t, flags);
	return rx_moved(&t, fd, flags, t.s ? rx_buf(t.s, fd, buf, len, flags) : iw_real.recv(fd, buf, len, flags));
}

static ssize_t rx_from(struct iw_stream *s, int fd, void *buf, size_t len, int flags, struct sockaddr *addr, socklen_t *alen)
{
	ssize_t n = rx_buf(s, fd, buf, len, flags);

	if (n >= 0 && addr) {
		socklen_t zero = 0, have = 0;

		if (iw_copy_in(&have, alen, sizeof(have)) || iw_copy_out(alen, &zero, sizeof(zero))) {
			errno = EFAULT;
			return -1;
		}
		if ((int)have < 0) {
			errno = EINVAL;
			return -1;
		}
	}
	return n;
}

static inline ssize_t do_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *addr, socklen_t *alen)
{
	struct iw_turn t;
	ssize_t n;

	iw_burst_wait();
	if (!iw_turn(&t, fd, IW_TURN_DATA | IW_TURN_SOCKET))
		return iw_real.recvfrom(fd, buf, len, flags, addr, alen);
	rx_urgent(&t, flags);
	n = t.s ? rx_from(t.s, fd, buf, len, flags, addr, alen) : iw_real.recvfrom(fd, buf, len, flags, addr, alen);
	return rx_moved(&t, fd, flags, n);
}

IW_EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	struct iw_turn t;
	ssize_t n;

	iw_burst_wait();
	if (!iw_turn(&t, fd, IW_TURN_DATA | IW_TURN_SOCKET)) {
		n = iw_real.recvmsg(fd, m, flags);
		if (n >= 0 && m->msg_controllen)
			forget_rights(m);
		return n;
	}
	rx_urgent(&t, flags);
	n = t.s ? rx_msg(t.s, fd, m, flags) : iw_real.recvmsg(fd, m, flags);
	if (!t.s && n >= 0 && m->msg_controllen)	/* an accepted one may be a unix socket */
		forget_rights(m);
	return rx_moved(&t, fd, flags, n);
}

/* recvmmsg reports sk_err before it looks at what is queued. */
static int rx_pending(struct iw_stream *s, int fd)
{
	short bits = iw_path(s)->bits(s, fd, 0);
	bool ended = bits || atomic_load(&iw_stream_end(s)->close_state) == IW_CLOSE_RESET;	/* the page is told before the carrier is closed */
	int err = ended && iw_stream_verify(fd, s) ? iw_take_error(s, fd, bits) : 0;

	return err ? iw_fail(err) : 0;
}

/* As the kernel does it: one message after the other, the timeout looked at after each, an error kept for the next call. */
static int rx_mmsg(struct iw_stream *s, int fd, struct mmsghdr *v, unsigned int vlen, int flags, struct timespec *to)
{
	struct timespec left = { 0, 0 };
	struct iw_deadline d;
	unsigned int i;
	int err = errno;

	if (to && iw_copy_in(&left, to, sizeof(left)))
		return iw_fail(EFAULT);
	if (!iw_deadline_ts(&d, to ? &left : NULL))
		return iw_fail(EINVAL);
	if (!(flags & MSG_ERRQUEUE) && rx_pending(s, fd) < 0)
		return -1;
	if (vlen > UIO_MAXIOV)
		vlen = UIO_MAXIOV;
	for (i = 0; i < vlen; i++) {
		ssize_t n = rx_msg(s, fd, &v[i].msg_hdr, flags & ~MSG_WAITFORONE);
		unsigned int got = (unsigned int)n;

		if (n >= 0 && iw_copy_out(&v[i].msg_len, &got, sizeof(got)))
			n = iw_fail(EFAULT);
		if (n < 0) {
			if (!i)
				return -1;
			if (errno == ECONNRESET || errno == EPIPE || errno == ETIMEDOUT)
				atomic_store(&iw_stream_end(s)->err_taken, 0);
			errno = err;
			break;
		}
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if ((iw_deadline_left(&d, &left) && !left.tv_sec && !left.tv_nsec) || (v[i].msg_hdr.msg_flags & MSG_OOB)) {
			i++;
			break;
		}
	}
	return i && to && iw_copy_out(to, &left, sizeof(left)) ? iw_fail(EFAULT) : (int)i;
}

IW_EXPORT int recvmmsg(int fd, struct mmsghdr *v, unsigned int vlen, int flags, struct timespec *to)
{
	ssize_t octets = 0;
	struct iw_turn t;
	int n;

	iw_burst_wait();
	if (!iw_turn(&t, fd, IW_TURN_DATA | IW_TURN_SOCKET))
		t = (struct iw_turn){ NULL, NULL };
	rx_urgent(&t, flags);
	n = t.s ? rx_mmsg(t.s, fd, v, vlen, flags, to) : iw_real.recvmmsg(fd, v, vlen, flags, to);
	for (int i = 0; !t.s && i < n; i++) {
		octets += v[i].msg_len;
		if (v[i].msg_hdr.msg_controllen)
			forget_rights(&v[i].msg_hdr);
	}
	if (t.s || t.c)
		rx_moved(&t, fd, flags, octets);
	return n;
}

IW_EXPORT ssize_t read(int fd, void *buf, size_t len)
{
	return do_read(fd, buf, len);
}

IW_EXPORT ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	return do_recv(fd, buf, len, flags);
}

IW_EXPORT ssize_t recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *addr, socklen_t *alen)
{
	return do_recvfrom(fd, buf, len, flags, addr, alen);
}

/* The fortified names: what the compiler calls when it knows the size of the buffer. */
ssize_t __read_chk(int fd, void *buf, size_t len, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t size, int flags, struct sockaddr *addr, socklen_t *alen);

IW_EXPORT ssize_t __read_chk(int fd, void *buf, size_t len, size_t size)
{
	if (len > size)
		__chk_fail();
	return do_read(fd, buf, len);
}

IW_EXPORT ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags)
{
	if (len > size)
		__chk_fail();
	return do_recv(fd, buf, len, flags);
}

IW_EXPORT ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t size, int flags, struct sockaddr *addr, socklen_t *alen)
{
	if (len > size)
		__chk_fail();
	return do_recvfrom(fd, buf, len, flags, addr, alen);
}
