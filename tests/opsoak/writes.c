// SPDX-License-Identifier: MIT
/* Every way to write to a stream. */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/sendfile.h>

#include "opsoak.h"

static const enum op ways[] = { OP_write, OP_writev, OP_send, OP_sendto, OP_send_more, OP_send_dontwait, OP_sendmsg, OP_sendmmsg, OP_splice_out, OP_sendfile,
	OP_write, OP_send, OP_write, OP_send, OP_fwrite };

static ssize_t by_msg(struct hold *h, const uint8_t *p, size_t n, int flags)
{
	struct iovec v[PIECES];
	struct msghdr m = { .msg_iov = v };

	m.msg_iovlen = (size_t)pieces(&h->e->wr, v, p, n);
	return sendmsg(h->fd, &m, flags);
}

static ssize_t by_mmsg(struct hold *h, const uint8_t *p, size_t n, int flags)
{
	struct iovec v[PIECES];
	struct mmsghdr m[4] = { 0 };
	int k = pieces(&h->e->wr, v, p, n), full = 0, got;
	size_t sum = 0;

	for (int i = 0; i < k; i++)	/* one without octets would hide an error of the next */
		if (v[i].iov_len)
			v[full++] = v[i];
	k = full;
	for (int i = 0; i < k; i++)
		m[i].msg_hdr = (struct msghdr){ .msg_iov = &v[i], .msg_iovlen = 1 };
	got = sendmmsg(h->fd, m, (unsigned int)k, flags);
	for (int i = 0; i < got; i++) {
		sum += m[i].msg_len;
		if (m[i].msg_len > v[i].iov_len || (i < got - 1 && m[i].msg_len < v[i].iov_len))
			hfail(h, "sendmmsg: message %d of %d has %u octets of %zu", i, got, m[i].msg_len, v[i].iov_len);
	}
	return got < 0 ? got : (ssize_t)sum;
}

/* Through a pipe: what is not taken was not written. */
static ssize_t by_splice(struct hold *h, const uint8_t *p, size_t n, bool wait)
{
	int fd[2], err = 0;
	ssize_t r = -1;
	size_t sum = 0;
	loff_t from = p - table;

	if (pipe2(fd, O_CLOEXEC))
		hfail(h, "pipe2: %s", strerror(errno));
	if (n > 65536)
		n = 65536;
	if (one_in(&h->e->wr, 2))
		r = splice(TABLE_FD, &from, fd[1], NULL, n > 32768 ? 32768 : n, 0);
	else
		r = write(fd[1], p, n > 32768 ? 32768 : n);
	if (r <= 0)
		hfail(h, "into a pipe: %s", strerror(errno));
	n = (size_t)r;
	do {
		r = splice(fd[0], NULL, h->fd, NULL, n - sum, wait ? 0 : SPLICE_F_NONBLOCK);
		err = errno;
		if (r > 0)
			sum += (size_t)r;
	} while (r > 0 && sum < n && wait);
	close(fd[0]);
	close(fd[1]);
	errno = err;
	return sum ? (ssize_t)sum : r;
}

static ssize_t by_stdio(struct hold *h, const uint8_t *p, size_t n)
{
	FILE *f;
	char *space = malloc(4096);
	int fd = fcntl(h->fd, F_DUPFD_CLOEXEC, 0), err = 0;
	size_t put;

	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f || !space)
		hfail(h, "fdopen: %s", strerror(errno));
	setvbuf(f, space, _IOFBF, 1 + below(&h->e->wr, 4096));
	errno = 0;
	put = fwrite(p, 1, n, f);
	if (put < n)
		err = errno;
	if (fflush(f) && !err)
		err = errno;
	fclose(f);
	free(space);
	errno = err;
	return err ? -1 : (ssize_t)put;
}

static ssize_t call(struct hold *h, enum op op, const uint8_t *p, size_t n, int flags, bool wait)
{
	struct iovec v[PIECES];
	off_t from = p - table;

	switch (op) {
	case OP_write:
		return write(h->fd, p, n);
	case OP_writev:
		return writev(h->fd, v, pieces(&h->e->wr, v, p, n));
	case OP_sendto:
		return sendto(h->fd, p, n, flags, NULL, 0);
	case OP_send_more:
		return send(h->fd, p, n, flags | MSG_MORE);
	case OP_sendmsg:
		return by_msg(h, p, n, flags);
	case OP_sendmmsg:
		return by_mmsg(h, p, n, flags);
	case OP_splice_out:
		return by_splice(h, p, n, wait);
	case OP_sendfile:
		return sendfile(h->fd, TABLE_FD, &from, n);
	case OP_fwrite:
		return by_stdio(h, p, n);
	default:
		return send(h->fd, p, n, flags);
	}
}

static enum op choose(struct hold *h, size_t n, bool wait, bool last)
{
	struct rng *r = &h->e->wr;
	enum op op = ways[below(r, sizeof(ways) / sizeof(*ways))];

	if (shm->without[op])
		op = OP_send;
	/* stdio does not say how much it has written when a reset comes in between */
	if (op == OP_fwrite && (!wait || h->nonblock || h->stimeo || n > 20000 || h->s->may || !one_in(r, 4)))
		op = OP_write;
	if (op == OP_send_more && last)		/* TCP would keep it for a while */
		op = OP_send;
	if (!wait && !h->nonblock && (op == OP_write || op == OP_writev || op == OP_sendfile || op == OP_splice_out))
		op = OP_sendmsg;
	if (op == OP_splice_out && (h->s->may & MAY_DAEMON))
		op = OP_sendto;
	return op;
}

int64_t write_some(struct hold *h, size_t n, bool wait)
{
	uint64_t at = h->e->wpos, goal = h->e->walk.goal[h->me];
	enum op op = choose(h, n, wait, at + n >= goal);
	int flags = (wait ? 0 : MSG_DONTWAIT) | MSG_NOSIGNAL;
	const uint8_t *p = octets(h->s, h->me, at);
	struct call c;
	ssize_t r;
	int err;

	if (op == OP_send_dontwait) {
		flags |= MSG_DONTWAIT;
		wait = false;
	}
	h->e->wsaid = at + n;
	if (op == OP_fwrite)
		block_rude(true);
	call_begin(&c);
	r = call(h, op, p, n, flags, wait);
	err = errno;
	if (op == OP_fwrite)
		block_rude(false);
	note(h, op, (int64_t)n, r, r < 0 ? err : 0, at);
	if (r < 0) {
		if (op == OP_fwrite && (err == ECONNRESET || err == EPIPE))
			h->e->wpos = at + n;	/* or less: nobody reads it any more */
		h->e->wsaid = h->e->wpos;
		return refused(h, &c, op, err, wait && !h->nonblock, h->stimeo);
	}
	h->e->wpos = at + (uint64_t)r;
	if ((size_t)r < n && h->s->may)	/* the error behind these octets was reported to the kernel's loop, or libc's, and to nobody again */
		h->e->reset = 1;
	h->e->wsaid = h->e->wpos;
	if (!r || r > (ssize_t)n)
		hfail(h, "%zd octets written of %zu", r, n);
	if ((size_t)r < n && wait && !h->nonblock && !h->stimeo && op != OP_splice_out && op != OP_sendfile && op != OP_fwrite && !cut(&c) && !h->s->may)
		hfail(h, "%zd octets written of %zu, of a call that waits", r, n);
	return r;
}
