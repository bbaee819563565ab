// SPDX-License-Identifier: MIT
/* Every way to read from a stream. */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/ioctl.h>

#include "opsoak.h"

static const enum op ways[] = { OP_read, OP_readv, OP_recv, OP_recvfrom, OP_peek, OP_waitall, OP_peek_all, OP_dontwait, OP_recvmsg, OP_recvmmsg, OP_splice_in,
	OP_read, OP_recv, OP_read, OP_recv, OP_fread };

static ssize_t by_msg(struct hold *h, size_t n, int flags)
{
	struct iovec v[PIECES];
	char ctl[64];
	struct msghdr m = { .msg_iov = v };
	ssize_t r;

	m.msg_iovlen = (size_t)pieces(&h->e->rr, v, h->buf, n);
	if (one_in(&h->e->rr, 2)) {
		m.msg_control = ctl;
		m.msg_controllen = sizeof(ctl);
	}
	r = recvmsg(h->fd, &m, flags);
	if (r >= 0 && (m.msg_controllen || m.msg_flags & (MSG_TRUNC | MSG_CTRUNC | MSG_OOB)))
		hfail(h, "recvmsg: %zu octets of control messages, flags %#x", m.msg_controllen, m.msg_flags);
	return r;
}

/* More than one message waits for each: never here where nobody may come. */
static ssize_t by_mmsg(struct hold *h, size_t n, int flags)
{
	struct iovec v[PIECES];
	struct mmsghdr m[4] = { 0 };
	int k = 1 + (int)below(&h->e->rr, 4), got;
	size_t each = n / (size_t)k, sum = 0;

	if (!each)
		each = n, k = 1;
	for (int i = 0; i < k; i++) {
		v[i] = (struct iovec){ h->buf + (size_t)i * each, each };
		m[i].msg_hdr = (struct msghdr){ .msg_iov = &v[i], .msg_iovlen = 1 };
	}
	got = recvmmsg(h->fd, m, (unsigned int)k, flags | MSG_WAITFORONE, NULL);
	for (int i = 0; i < got; i++) {
		memmove(h->buf + sum, v[i].iov_base, m[i].msg_len);
		sum += m[i].msg_len;
		if (m[i].msg_len > each)
			hfail(h, "recvmmsg: %u octets where %zu fit", m[i].msg_len, each);
	}
	return got < 0 ? got : (ssize_t)sum;
}

static ssize_t by_splice(struct hold *h, size_t n, bool wait)
{
	int p[2], err;
	ssize_t r, got = 0, k;

	if (pipe2(p, O_CLOEXEC))
		hfail(h, "pipe2: %s", strerror(errno));
	if (n > 65536)
		n = 65536;
	/* SPLICE_F_NONBLOCK is about the pipe, on TCP; a descriptor that waits for octets does so */
	r = splice(h->fd, NULL, p[1], NULL, n, wait || !h->nonblock ? SPLICE_F_MOVE : SPLICE_F_NONBLOCK);
	err = errno;
	while (r > 0 && got < r) {
		k = read(p[0], h->buf + got, (size_t)(r - got));
		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			hfail(h, "%zd octets were spliced, %zd are in the pipe", r, got);
		got += k;
	}
	close(p[0]);
	close(p[1]);
	errno = err;
	return r;
}

/* stdio on a duplicate; what it has read and was not asked for is taken, too */
static ssize_t by_stdio(struct hold *h, size_t n)
{
	FILE *f;
	char *space;
	size_t got, more;
	int fd, err;

	if (n > 8000)
		n = 8000;
	fd = fcntl(h->fd, F_DUPFD_CLOEXEC, 0);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	space = malloc(4096);
	if (!f || !space)
		hfail(h, "fdopen: %s", strerror(errno));
	setvbuf(f, space, one_in(&h->e->rr, 4) ? _IONBF : _IOFBF, 1 + below(&h->e->rr, 4096));
	errno = 0;
	got = fread(h->buf, 1, n, f);
	err = errno;
	more = (size_t)(f->_IO_read_end - f->_IO_read_ptr);
	if (more)
		got += fread(h->buf + got, 1, more, f);
	fclose(f);
	free(space);
	if (got && (err == ECONNRESET || err == EPIPE))
		lost(h, OP_fread, err);
	errno = err;
	return !got && err ? -1 : (ssize_t)got;
}

/* What was peeked stays: the octets are looked at, and are there for whoever reads next. */
static ssize_t by_peek(struct hold *h, size_t n, int flags)
{
	uint64_t at = h->e->rpos;
	ssize_t r = recv(h->fd, h->buf, n, MSG_PEEK | flags);
	ssize_t peeked;
	int there;

	if (r <= 0)
		return r;
	note(h, flags & MSG_WAITALL ? OP_peek_all : OP_peek, (int64_t)n, r, 0, at);
	check(h, h->buf, (size_t)r, at, OP_peek);
	if (ioctl(h->fd, FIONREAD, &there) || there < r)
		hfail(h, "FIONREAD is %d after %zd octets were peeked", there, r);
	memset(h->buf, 0, (size_t)r);
	peeked = r;
	r = recv(h->fd, h->buf, n, MSG_DONTWAIT);
	if (r < peeked && !h->s->may)
		hfail(h, "%zd octets were peeked, %zd (%s) come by the next call", peeked, r, r < 0 ? strerror(errno) : "no error");
	return r;
}

static ssize_t call(struct hold *h, enum op op, size_t n, int flags, bool wait)
{
	struct iovec v[PIECES];

	switch (op) {
	case OP_read:
		return read(h->fd, h->buf, n);
	case OP_readv:
		return readv(h->fd, v, pieces(&h->e->rr, v, h->buf, n));
	case OP_recvfrom:
		return recvfrom(h->fd, h->buf, n, flags, NULL, NULL);
	case OP_peek:
		return by_peek(h, n, flags);
	case OP_waitall:
		return recv(h->fd, h->buf, n, flags | MSG_WAITALL);
	case OP_peek_all:
		return by_peek(h, n, flags | MSG_WAITALL);
	case OP_recvmsg:
		return by_msg(h, n, flags);
	case OP_recvmmsg:
		return by_mmsg(h, n, flags);
	case OP_splice_in:
		return by_splice(h, n, wait);
	case OP_fread:
		return by_stdio(h, n);
	default:
		return recv(h->fd, h->buf, n, flags);
	}
}

/*
 * An error, which may be: EAGAIN where the call was not to wait, or its time was over; EINTR where a signal came that may end it.
 * Of those -errno; for a reset -ECONNRESET.
 */
int refused(struct hold *h, const struct call *c, enum op op, int err, bool wait, int timeo)
{
	uint64_t ms = (now_us() - c->us) / 1000;

	if (err == ECONNRESET || err == EPIPE) {
		lost(h, op, err);
		return -ECONNRESET;
	}
	if (err == EAGAIN && (!wait || (timeo && ms + 12 >= (uint64_t)timeo)))
		return -EAGAIN;
	if (err == EINTR && (cut_rudely(c) || (timeo && cut(c))))
		return -EINTR;
	hfail(h, "%s after %" PRIu64 " ms, %s", strerror(err), ms, wait ? "in a call that waits" : "in a call that does not wait");
}

/* n, and all of them if the script says that they come. A call that waits does so where the other end will write without waiting for us. */
static enum op choose(struct hold *h, size_t n, bool wait, size_t *sure)
{
	struct rng *r = &h->e->rr;
	enum op op = ways[below(r, sizeof(ways) / sizeof(*ways))];

	if (shm->without[op])
		op = OP_recv;
	/* nor where octets are to be left unread: libc takes more than it is asked for */
	if (op == OP_fread && (!wait || h->nonblock || !*sure || h->rtimeo || !strchr(parts(h->s, h->me), 'e') || !one_in(r, 4)))
		op = OP_read;
	if ((op == OP_waitall || op == OP_peek_all) && (!wait || !*sure))
		op = OP_recv;
	if (op == OP_peek_all) {
		/* only what is there: Linux does not always open its window again for who waits for more and takes nothing */
		int there = 0;

		ioctl(h->fd, FIONREAD, &there);
		if (there < 1)
			op = OP_recv;
		else if (*sure > (size_t)there)
			*sure = (size_t)there;
	}
	if (h->shared && (op == OP_peek || op == OP_peek_all || op == OP_fread))
		op = OP_recvmsg;
	if (op == OP_splice_in && !wait && !h->nonblock)	/* it would wait */
		op = OP_recvfrom;
	if (op == OP_splice_in && (h->s->may & MAY_DAEMON))	/* docs/semantics.md: EINVAL with a map whose daemon is gone */
		op = OP_recvfrom;
	if ((op == OP_read || op == OP_readv) && !wait && !h->nonblock)
		op = OP_dontwait;
	return op;
}

int64_t read_some(struct hold *h, size_t n, bool wait)
{
	size_t sure = 0;
	enum op op;
	int flags = wait ? 0 : MSG_DONTWAIT;
	uint64_t at = h->e->rpos, goal = h->e->walk.goal[!h->me];
	struct call c;
	ssize_t r;

	if (wait && at < goal)
		sure = goal - at < n ? goal - at : n;
	op = choose(h, n, wait, &sure);
	if (op == OP_dontwait) {
		flags = MSG_DONTWAIT;
		wait = false;
	}
	if (op == OP_waitall || op == OP_peek_all || op == OP_fread)
		n = sure;
	if (op == OP_fread)
		block_rude(true);
	call_begin(&c);
	r = call(h, op, n, flags, wait);
	if (op == OP_fread) {
		int err = errno;

		block_rude(false);
		errno = err;
		n = n > 8000 ? 8000 : n;
	}
	if (r < 0) {
		int err = errno;

		note(h, op, (int64_t)n, r, err, at);
		return refused(h, &c, op, err, wait && !h->nonblock, h->rtimeo);
	}
	note(h, op, (int64_t)n, r, 0, at);
	if (!r) {
		check_eof(h, op);
		return 0;
	}
	if (at + (uint64_t)r > h->peer->wsaid)
		hfail(h, "%zd octets at %" PRIu64 ", but only %" PRIu64 " were written", r, at, h->peer->wsaid);
	check(h, h->buf, (size_t)r, at, op);
	h->e->rpos = at + (uint64_t)r;
	if ((op == OP_waitall || op == OP_fread) && (size_t)r < n && !h->nonblock && !h->rtimeo && !cut(&c) && !h->peer->fin && !h->s->may)
		hfail(h, "%zd octets of %zu, of a call that waits for all of them", r, n);
	return r;
}
