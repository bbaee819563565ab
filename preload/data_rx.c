// SPDX-License-Identifier: MIT
/* Receiving: the carrier's own calls, with the flags and the ends of stream that only TCP knows put right. */
#include <limits.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "stream.h"
#include "waiting.h"

void __chk_fail(void) __attribute__((noreturn));

/* Flags a unix stream has no notion of, or another one. */
#define ODD_FLAGS	(MSG_TRUNC | MSG_OOB | MSG_ERRQUEUE)
#define IS_ODD(f)	(((f) & ODD_FLAGS) || (((f) & MSG_PEEK) && ((f) & MSG_WAITALL)))
#define SCRATCH		16384u

static ssize_t rx_result(struct iw_stream *s, int fd, ssize_t n, size_t len)
{
	if (__builtin_expect(n > 0, 1))
		return n;
	if (n == 0)
		return len ? iw_rx_edge(s, fd, 0) : 0;
	return errno == ECONNRESET ? iw_rx_edge(s, fd, -1) : n;
}

/* MSG_TRUNC on TCP throws the octets away and returns their number. */
static ssize_t rx_discard(struct iw_stream *s, int fd, size_t len, int flags)
{
	char scratch[SCRATCH];
	size_t done = 0;
	int more = flags & MSG_WAITALL ? 0 : MSG_DONTWAIT;

	flags &= ~MSG_TRUNC;
	if (flags & MSG_PEEK) {
		int inq = 0;
		ssize_t n = rx_result(s, fd, iw_real.recv(fd, scratch, len ? 1 : 0, flags & ~MSG_WAITALL), len);

		if (n <= 0)
			return n;
		if (iw_real.ioctl(fd, 0x541bul /* FIONREAD */, &inq) < 0 || inq < 1)
			return n;
		return (size_t)inq < len ? inq : (ssize_t)len;
	}
	do {
		size_t want = len - done < SCRATCH ? len - done : SCRATCH;
		int err = errno;
		ssize_t n = iw_real.recv(fd, scratch, want, flags);

		if (done && n <= 0) {
			errno = err;
			break;
		}
		n = rx_result(s, fd, n, len);
		if (n <= 0)
			return n;
		done += (size_t)n;
		flags |= more;
	} while (done < len);
	return (ssize_t)done;
}

/* A unix stream does not wait for more when it peeks; SO_PEEK_OFF makes it look, and sleep, behind what was seen. */
static ssize_t rx_peek_all(struct iw_stream *s, int fd, struct msghdr *m, int flags)
{
	struct msghdr first = *m;
	size_t len = iw_iov_total(m->msg_iov, m->msg_iovlen);
	int none = -1, err = errno;

	for (;;) {
		char c;
		int off;
		ssize_t n, r;

		*m = first;
		n = iw_real.recvmsg(fd, m, (flags & ~MSG_WAITALL) | MSG_DONTWAIT);
		if (n >= (ssize_t)len || (n < 0 && errno != EAGAIN) || n == 0)
			return rx_result(s, fd, n, len);
		if (flags & MSG_DONTWAIT)
			return n;
		off = n < 0 ? 0 : (int)n;
		iw_real.setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off));
		r = iw_real.recv(fd, &c, 1, MSG_PEEK);
		iw_real.setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &none, sizeof(none));
		if (r > 0)
			continue;
		if (n <= 0)
			return rx_result(s, fd, r, len);
		errno = err;
		return n;
	}
}

static ssize_t rx_odd(struct iw_stream *s, int fd, struct msghdr *m, int flags)
{
	if (flags & MSG_ERRQUEUE) {
		errno = EAGAIN;
		return -1;
	}
	if (flags & MSG_OOB) {
		if (iw_stream_local(s))
			return iw_real.recvmsg(fd, m, flags);
		errno = EINVAL;	/* as without urgent data */
		return -1;
	}
	if (flags & MSG_TRUNC)
		return rx_discard(s, fd, iw_iov_total(m->msg_iov, m->msg_iovlen), flags);
	return rx_peek_all(s, fd, m, flags);
}

/* recvmsg: neither address nor control message ever come on a connected TCP socket. */
static ssize_t rx_msg(struct iw_stream *s, int fd, struct msghdr *m, int flags)
{
	struct msghdr w = { .msg_iov = m->msg_iov, .msg_iovlen = m->msg_iovlen };
	ssize_t n;

	if (IS_ODD(flags) && m->msg_iovlen <= IOV_MAX) {
		n = rx_odd(s, fd, &w, flags);
	} else {
		n = iw_real.recvmsg(fd, &w, flags);
		if (n <= 0 && m->msg_iovlen <= IOV_MAX)
			n = rx_result(s, fd, n, n ? 1 : iw_iov_total(m->msg_iov, m->msg_iovlen));
	}
	if (n < 0)
		return n;
	if (m->msg_name)
		m->msg_namelen = 0;
	m->msg_controllen = 0;
	m->msg_flags = (w.msg_flags & MSG_OOB) | (flags & MSG_CMSG_CLOEXEC);
	return n;
}

static ssize_t rx_buf(struct iw_stream *s, int fd, void *buf, size_t len, int flags)
{
	struct iovec v = { buf, len };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	if (IS_ODD(flags))
		return rx_odd(s, fd, &m, flags);
	return rx_result(s, fd, iw_real.recv(fd, buf, len, flags), len);
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
static ssize_t do_read(int fd, void *buf, size_t len)
{
	struct iw_stream *s;

	if (iw_data_stream(fd, 0, false, &s))
		return -1;
	if (!s)
		return iw_real.read(fd, buf, len);
	return rx_result(s, fd, iw_real.read(fd, buf, len), len);
}

static ssize_t rx_vec(struct iw_stream *s, int fd, const struct iovec *v, int cnt, ssize_t n)
{
	return n > 0 ? n : rx_result(s, fd, n, n ? 1 : iw_iov_total(v, (size_t)cnt));
}

IW_EXPORT ssize_t readv(int fd, const struct iovec *v, int cnt)
{
	struct iw_stream *s;
	ssize_t n;

	if (iw_data_stream(fd, 0, false, &s))
		return -1;
	n = iw_real.readv(fd, v, cnt);
	return s ? rx_vec(s, fd, v, cnt, n) : n;
}

static ssize_t do_preadv2(int fd, const struct iovec *v, int cnt, off64_t off, int flags)
{
	struct iw_stream *s;
	ssize_t n;

	if (iw_data_stream(fd, flags & RWF_NOWAIT ? MSG_DONTWAIT : 0, false, &s))
		return -1;
	n = iw_real.preadv64v2(fd, v, cnt, off, flags);
	return s ? rx_vec(s, fd, v, cnt, n) : n;
}

IW_EXPORT ssize_t preadv2(int fd, const struct iovec *v, int cnt, off_t off, int flags)
{
	return do_preadv2(fd, v, cnt, off, flags);
}

IW_EXPORT ssize_t preadv64v2(int fd, const struct iovec *v, int cnt, off64_t off, int flags)
{
	return do_preadv2(fd, v, cnt, off, flags);
}

static ssize_t do_recv(int fd, void *buf, size_t len, int flags)
{
	struct iw_stream *s;

	if (iw_data_stream(fd, flags, true, &s))
		return -1;
	return s ? rx_buf(s, fd, buf, len, flags) : iw_real.recv(fd, buf, len, flags);
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

static ssize_t do_recvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *addr, socklen_t *alen)
{
	struct iw_stream *s;

	if (iw_data_stream(fd, flags, true, &s))
		return -1;
	if (!s)
		return iw_real.recvfrom(fd, buf, len, flags, addr, alen);
	return rx_from(s, fd, buf, len, flags, addr, alen);
}

IW_EXPORT ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	struct iw_stream *s;
	ssize_t n;

	if (iw_data_stream(fd, flags, true, &s))
		return -1;
	if (s && (uintptr_t)m >= 4096)
		return rx_msg(s, fd, m, flags);
	n = iw_real.recvmsg(fd, m, flags);
	if (n >= 0 && m->msg_controllen)
		forget_rights(m);
	return n;
}

/* recvmmsg reports sk_err before it looks at what is queued. */
static int rx_pending(struct iw_stream *s, int fd)
{
	short bits = iw_carrier_bits(fd, 0);
	int err = bits && iw_stream_verify(fd, s) ? iw_take_error(s, fd, bits) : 0;

	return err ? iw_fail(err) : 0;
}

/* As the kernel does it: one message after the other, the timeout looked at after each, an error kept for the next call. */
static int rx_mmsg(struct iw_stream *s, int fd, struct mmsghdr *v, unsigned int vlen, int flags, struct timespec *to)
{
	struct iw_deadline d;
	unsigned int i;
	int err = errno;

	if (!iw_deadline_ts(&d, to))
		return iw_fail(EINVAL);
	if (!(flags & MSG_ERRQUEUE) && rx_pending(s, fd) < 0)
		return -1;
	if (vlen > UIO_MAXIOV)
		vlen = UIO_MAXIOV;
	for (i = 0; i < vlen; i++) {
		ssize_t n = rx_msg(s, fd, &v[i].msg_hdr, flags & ~MSG_WAITFORONE);

		if (n < 0) {
			if (!i)
				return -1;
			if (errno == ECONNRESET || errno == EPIPE || errno == ETIMEDOUT)
				atomic_store(&iw_stream_end(s)->err_taken, 0);
			errno = err;
			break;
		}
		v[i].msg_len = (unsigned int)n;
		if (flags & MSG_WAITFORONE)
			flags |= MSG_DONTWAIT;
		if ((to && iw_deadline_left(&d, to) && !to->tv_sec && !to->tv_nsec) || (v[i].msg_hdr.msg_flags & MSG_OOB)) {
			i++;
			break;
		}
	}
	return (int)i;
}

IW_EXPORT int recvmmsg(int fd, struct mmsghdr *v, unsigned int vlen, int flags, struct timespec *to)
{
	struct iw_stream *s;
	int n;

	if (iw_data_stream(fd, flags, true, &s))
		return -1;
	if (s)
		return rx_mmsg(s, fd, v, vlen, flags, to);
	n = iw_real.recvmmsg(fd, v, vlen, flags, to);
	for (int i = 0; i < n; i++)
		if (v[i].msg_hdr.msg_controllen)
			forget_rights(&v[i].msg_hdr);
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
