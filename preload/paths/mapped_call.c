// SPDX-License-Identifier: MIT
/* A call on a mapped stream: see mapped_call.h. */
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "preload/lock.h"
#include "preload/paths/burst.h"
#include "preload/paths/mapped_call.h"
#include "preload/ready.h"
#include "preload/sys.h"
#include "preload/tcpstate.h"
#include "preload/user.h"

#define PIECE	32768u	/* of memory that is good or bad */

bool iw_mapped_call(struct iw_mapped_call *c, struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	struct msghdr h = { .msg_iov = io->v, .msg_iovlen = io->n };
	int err = !io->vec ? iw_buf_check(io->one.iov_base, io->one.iov_len) : io->n > UIO_MAXIOV ? -EINVAL : iw_iov_check(&h);

	if (iw_unlikely(err)) {
		iw_fail(-err);
		return false;
	}
	c->s = s;
	c->fd = fd;
	c->flags = flags;
	c->v = io->vec ? io->v : &io->one;
	c->n = io->vec ? io->n : 1;
	c->len = iw_io_len(io) < IW_RW_MOST ? iw_io_len(io) : IW_RW_MOST;
	c->done = c->wanted = 0;
	c->own = !io->vec && io->own;
	c->looked = c->inside = false;
	c->watch = c->signals = -1;
	c->sends = false;
	c->slept.z = NULL;
	return true;
}

bool iw_mapped_here(const struct iw_mapped_call *c)
{
	return iw_mapped_ours(c->s) && atomic_load_explicit(&c->s->map_epoch, memory_order_relaxed) == c->epoch;
}

bool iw_mapped_enter(struct iw_mapped_call *c)
{
	iw_map_lock(c->s, &c->st);
	c->epoch = atomic_load_explicit(&c->s->map_epoch, memory_order_relaxed);
	if (iw_likely(iw_mapped_ours(c->s)))
		return true;
	if (atomic_load(&c->s->mapped) && !atomic_load(&c->s->held))
		iw_burst_lost(c->s);
	iw_map_unlock(c->s, &c->st);
	iw_map_give(c->fd, c->s);
	return false;
}

short iw_mapped_state(struct iw_stream *s)
{
	short in = iw_end_some(&s->view) ? POLLIN | POLLRDNORM : iw_orphan_eof(s) ? POLLIN | POLLRDNORM | POLLRDHUP : 0;

	return (short)(in | (iw_mapped_pending(s) || s->map_full ? IW_KNOWN_MORE : iw_end_room(&s->view) ? POLLOUT | POLLWRNORM : 0));
}

bool iw_mapped_has_room(struct iw_stream *s)
{
	if (s->map_full)
		s->map_full = !(iw_fd_bits(atomic_load(&s->mapped), POLLOUT) & POLLOUT);
	return !s->map_full;
}

bool iw_mapped_news(struct iw_stream *s, short *what)
{
	short now = iw_mapped_state(s), more = (short)(now & ~s->known);

	*what = (short)(s->map_came | (more & POLLOUT));
	s->map_came = 0;
	s->known = now;
	return *what || (more & IW_KNOWN_MORE);
}

void iw_mapped_leave(struct iw_mapped_call *c)
{
	short what;
	bool tell = iw_mapped_ours(c->s) && iw_mapped_news(c->s, &what);

	iw_map_unlock(c->s, &c->st);
	if (tell)
		iw_ready(c->s, c->fd, what);
}

void iw_mapped_pause(struct iw_mapped_call *c)
{
	short what;
	bool tell = iw_mapped_ours(c->s) && iw_mapped_news(c->s, &what);

	if (c->st.blocked)
		iw_unlock_only(&c->s->map_lock);
	else
		iw_map_unlock(c->s, &c->st);
	if (tell)
		iw_ready(c->s, c->fd, what);
}

void iw_mapped_resume(struct iw_mapped_call *c)
{
	if (c->st.blocked)
		iw_lock_only(&c->s->map_lock);
	else
		iw_map_lock(c->s, &c->st);
}

void iw_mapped_give(struct iw_mapped_call *c)
{
	iw_map_give(c->fd, c->s);
}

static bool good_piece(void *p, size_t n, enum iw_use use)
{
	return use == IW_USE_READ ? iw_user_readable(p, n) : use == IW_USE_FILL ? iw_user_fillable(p, n) : iw_user_writable(p, n);
}

size_t iw_mapped_good(const struct iw_mapped_call *c, size_t max, enum iw_use use)
{
	size_t skip = c->done, sum = 0, whole = 0;

	if (c->own)
		return max;
	if (c->n == 1 && max <= PIECE) {
		char *p = (char *)c->v[0].iov_base + skip;

		return good_piece(p, max, use) ? max : 0;
	}
	for (size_t i = 0; i < c->n && sum < max; i++) {
		size_t k = c->v[i].iov_len, n;
		char *p = c->v[i].iov_base;

		if (skip >= k) {
			skip -= k;
			continue;
		}
		p += skip;
		k -= skip;
		skip = 0;
		if (k > max - sum)
			k = max - sum;
		for (; k; k -= n, p += n) {
			n = k < whole + PIECE - sum ? k : whole + PIECE - sum;
			if (!good_piece(p, n, use))
				return whole;
			sum += n;
			if (sum == whole + PIECE)
				whole = sum;
		}
	}
	return sum;
}

bool iw_mapped_raw(const struct iw_mapped_call *c)
{
	int n = 0;

	return !iw_orphan_known(c->s) && IW_SYS(ioctl, c->fd, SIOCOUTQ, &n) >= 0 && n;
}

void iw_mapped_rest_of(const struct iw_mapped_call *c, struct iovec v[IW_MAPPED_VECTOR], struct msghdr *m)
{
	size_t skip = c->done, left = c->len - c->done, k = 0;

	for (size_t i = 0; i < c->n && k < IW_MAPPED_VECTOR && left; i++) {
		size_t n = c->v[i].iov_len;

		if (skip >= n) {
			skip -= n;
			continue;
		}
		v[k] = (struct iovec){ (char *)c->v[i].iov_base + skip, n - skip < left ? n - skip : left };
		left -= v[k++].iov_len;
		skip = 0;
	}
	*m = (struct msghdr){ .msg_iov = v, .msg_iovlen = k };
}

void iw_mapped_more(struct iw_mapped_call *c, ssize_t (*rx)(struct iw_stream *s, int fd, struct iw_io *io, int flags), int flags)
{
	struct iovec v[IW_MAPPED_VECTOR];
	struct msghdr m;
	struct iw_io one;
	int saved = errno;
	ssize_t n;

	do {
		iw_mapped_rest_of(c, v, &m);
		iw_io_vec(&one, v, m.msg_iovlen, IW_IO_SOCK);
		n = rx(c->s, c->fd, &one, flags);
		c->done += n > 0 ? (size_t)n : 0;
	} while (n > 0 && (size_t)n == iw_iov_total(v, m.msg_iovlen) && c->done < c->len && !(flags & MSG_PEEK));
	errno = saved;
}

ssize_t iw_mapped_elsewhere(struct iw_mapped_call *c, struct iw_io *io)
{
	c->fd = iw_map_fd(c->s, c->fd);
	if (!c->done || (c->flags & (MSG_PEEK | MSG_WAITALL)) == (MSG_PEEK | MSG_WAITALL))
		return iw_path(c->s)->rx(c->s, c->fd, io, c->flags);
	if (c->flags & MSG_WAITALL && c->done < c->len)
		iw_mapped_more(c, iw_path(c->s)->rx, c->flags);
	return (ssize_t)c->done;
}
