// SPDX-License-Identifier: MIT
/* Sending on a mapped stream: see mapped_tx.h. */
#include <errno.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/opts.h"
#include "preload/paths/burst.h"
#include "preload/paths/mapped_in.h"
#include "preload/paths/mapped_sleep.h"
#include "preload/paths/mapped_tx.h"
#include "preload/real.h"
#include "preload/sys.h"
#include "preload/user.h"

#define MOST	(256u << 10)	/* framed at a time, about */
#define LAST	IW_MAP_LAST	/* of a large send: not framed before TCP has the rest, so that what TCP does not take can be left to a caller that does not wait */
#define ENOUGH	(512u << 10)	/* on its way to a reader that does not read: so much TCP takes */

static void look_for_room(struct iw_stream *s)
{
	uint32_t mem[SK_MEMINFO_VARS] = { 0 };
	socklen_t len = sizeof(mem);

	IW_SYS(getsockopt, atomic_load(&s->mapped), SOL_SOCKET, SO_MEMINFO, mem, &len);
	s->map_room = mem[SK_MEMINFO_SNDBUF] > mem[SK_MEMINFO_WMEM_QUEUED] ? mem[SK_MEMINFO_SNDBUF] - mem[SK_MEMINFO_WMEM_QUEUED] : 0;
}

/* Nothing of what is framed will be left when the call returns: TCP has room for more than that, or it waits. What is likelier is asked first. */
static bool takes_all(struct iw_mapped_call *c, size_t n)
{
	struct iw_stream *s = c->s;

	if (iw_map_takes(n) <= s->map_room)
		return true;
	if (!s->map_nowait && iw_mapped_waits(c))
		return true;
	look_for_room(s);
	return iw_map_takes(n) <= s->map_room || iw_mapped_waits(c);
}

/*
 * How much of a send is framed next. Of one that does not wait something is left to the caller, who comes again, if TCP may not take all of it: what is
 * framed has to go, and there is nobody to send it once he thinks that all is done.
 */
static size_t piece(struct iw_mapped_call *c)
{
	size_t want = c->len - c->done;

	if (want > MOST)
		return MOST;
	if (want <= IW_MAPPED_LARGE && !c->done && !c->s->map_full)
		return want;
	if (takes_all(c, want)) {
		c->s->map_full = false;
		return want;
	}
	if (want > IW_MAPPED_LARGE)
		return want - LAST;
	c->s->map_full = true;
	return iw_mapped_has_room(c->s) ? want : 0;
}

/* As much as goes now. 0, EFAULT. */
static int tx_some(struct iw_mapped_call *c)
{
	struct iw_stream *s = c->s;

	while (c->done < c->len && iw_map_flush_data(s, false)) {
		size_t want = piece(c), ok, n;

		if (!want)
			break;
		ok = iw_mapped_good(c, want, IW_USE_READ);
		if (!ok)
			return EFAULT;
		n = iw_end_put(&s->view, c->v, c->n, c->done, ok);
		c->done += n;
		if (!n && !iw_mapped_fill(s))
			break;
	}
	iw_map_flush_data(s, (c->flags & MSG_MORE) || (atomic_load_explicit(&iw_stream_end(s)->opts, memory_order_relaxed) & IW_SOPT_CORK));
	return 0;
}

/* By the carrier, which it goes on. */
static ssize_t tx_rest(struct iw_mapped_call *c, struct iw_io *io)
{
	size_t skip = c->done;
	struct iw_io one;
	ssize_t n;

	c->fd = iw_map_fd(c->s, c->fd);
	if (!skip)
		return iw_path(c->s)->tx(c->s, c->fd, io, c->flags);
	for (size_t i = 0; i < c->n; i++) {
		size_t k = c->v[i].iov_len;

		if (skip >= k) {
			skip -= k;
			continue;
		}
		iw_io_buf(&one, (char *)c->v[i].iov_base + skip, k - skip, IW_IO_SOCK);
		n = iw_path(c->s)->tx(c->s, c->fd, &one, c->flags);
		if (n > 0)
			c->done += (size_t)n;
		if (n < (ssize_t)(k - skip))
			break;
		skip = 0;
	}
	return (ssize_t)c->done;
}

static ssize_t tx_end(struct iw_mapped_call *c, int err)
{
	/* nobody would come back to give TCP what is left */
	bool left = iw_mapped_ends(c->s) || iw_end_gathered(&c->s->view) || (iw_mapped_forgotten(c->s) && (c->done == c->len || iw_mapped_waits(c)));

	if (c->done != c->len || c->len > IW_BURST_MOST || c->inside || c->flags & MSG_MORE)
		iw_burst_end(c->s);
	else
		iw_burst_count(c->s);
	iw_mapped_leave(c);
	if (left)
		iw_mapped_give(c);
	if (c->done || !err)
		return (ssize_t)c->done;
	return iw_fail(err);
}

/* An orphan whose peer has ended is written to on. */
static bool tx_over(struct iw_stream *s)
{
	return iw_unlikely(iw_mapped_ends(s) || (iw_end_state(&s->view) & IW_END_SHUT)) &&
	       (!iw_orphan_known(s) || (iw_end_state(&s->view) & (IW_MAPPED_ENDED | IW_END_SHUT)));
}

/* Each small send took a credit, and the other end does not read: TCP would take more. The daemon has a ring for it. */
static bool no_credits(struct iw_stream *s)
{
	return !iw_mapped_pending(s) && s->view.f->rs.credits <= 2 && iw_end_unacked(&s->view, UINT64_MAX) < ENOUGH && !iw_orphan_known(s);
}

static ssize_t tx_call(struct iw_mapped_call *c, struct iw_io *io)
{
	struct iw_stream *s = c->s;
	int err;

	if (iw_unlikely(atomic_load_explicit(&iw_bursts, memory_order_relaxed)))
		iw_bursts_send(s);
	if (!iw_mapped_enter(c))
		return tx_rest(c, io);
	if (iw_unlikely(iw_mapped_raw(c))) {
		iw_mapped_leave(c);
		iw_mapped_give(c);
		return tx_rest(c, io);
	}
	if (iw_mapped_tick() != s->map_tick)	/* a reset comes as octets: who only sends would hear of it when there are no credits left */
		iw_mapped_take_all(s);
	for (;;) {
		unsigned int what;

		if (tx_over(s)) {
			bool shut = iw_end_state(&s->view) & (IW_MAPPED_ENDED | IW_END_SHUT);

			iw_mapped_leave(c);
			iw_mapped_give(c);
			if (atomic_load(&s->mapped) && shut)
				return iw_fail(EPIPE);
			if (!atomic_load(&s->mapped) || !iw_mapped_enter(c))
				return tx_rest(c, io);
			continue;
		}
		err = tx_some(c);
		if (iw_likely(c->done == c->len && !iw_mapped_pending(s)) || err)
			break;
		if (tx_over(s))
			continue;
		if (no_credits(s)) {
			iw_mapped_leave(c);
			iw_mapped_give(c);
			return tx_rest(c, io);
		}
		if (!iw_mapped_waits(c)) {
			err = EAGAIN;
			break;
		}
		what = iw_mapped_pending(s) ? IW_END_OUT | IW_END_IN : iw_end_blocked(&s->view);
		err = what ? iw_mapped_wait(c, what, SO_SNDTIMEO) : 0;
		if (!iw_mapped_here(c)) {
			iw_mapped_leave(c);
			return tx_rest(c, io);
		}
		if (err)
			break;
		iw_mapped_take_all(s);	/* whatever it waited for: the peer may do the same */
	}
	return tx_end(c, err);
}

ssize_t iw_mapped_tx(struct iw_stream *s, int fd, struct iw_io *io, int flags)
{
	struct iw_mapped_call c;
	ssize_t n;

	if (atomic_load_explicit(&s->burst, memory_order_relaxed) && iw_burst_tx(s, fd, io, flags))
		return (ssize_t)io->one.iov_len;
	if (iw_unlikely(flags & MSG_OOB))	/* no urgent mark on this path yet */
		return iw_fail(EOPNOTSUPP);
	if (io->vec || !io->own)	/* sendfile() is none */
		iw_cancel_point();
	if (!iw_mapped_call(&c, s, fd, io, flags))
		return -1;
	n = tx_call(&c, io);
	if (iw_unlikely(c.inside))
		iw_mapped_outside(&c);
	return n;
}

/* Octets of a file on their way: of those who send some at a time a few have a large place. Whoever ends in between keeps it. */
#define FILE_ROOMS	8
#define FILE_OWN	1024u	/* on the stack, which may be small */

static struct {
	_Atomic bool taken;
	uint8_t room[MOST];
} file_room[FILE_ROOMS];

static int file_room_take(void)
{
	for (int i = 0; i < FILE_ROOMS; i++) {
		bool taken = false;

		if (atomic_compare_exchange_strong(&file_room[i].taken, &taken, true))
			return i;
	}
	return -1;
}

static ssize_t tx_file(struct iw_stream *s, const struct iw_move *v, off64_t *at, uint8_t *buf, size_t size)
{
	size_t done = 0;

	while (done < v->len) {
		size_t want = v->len - done < size ? v->len - done : size;
		struct iw_io io;
		ssize_t n = (ssize_t)IW_SYS(pread64, v->in, buf, want, *at);

		if (n <= 0 && !done)
			return iw_ret(n);
		if (n <= 0)
			break;
		iw_io_buf(&io, buf, (size_t)n, IW_IO_SOCK);
		io.own = true;
		want = (size_t)n;
		n = iw_path(s)->tx(s, v->out, &io, 0);
		if (n < 0 && !done)
			return n;
		if (n < 0)
			break;
		*at += n;
		done += (size_t)n;
		if ((size_t)n < want)
			break;
	}
	return (ssize_t)done;
}

/* Out of a file by a buffer of ours. What is no file the carrier takes from. */
ssize_t iw_mapped_tx_from(struct iw_stream *s, const struct iw_move *v)
{
	uint8_t own[FILE_OWN];
	struct stat st;
	off64_t at = 0;
	ssize_t n;
	int i;

	if (v->splice || IW_SYS(fstat, v->in, &st) < 0 || !S_ISREG(st.st_mode) || (v->off_in && iw_copy_in(&at, v->off_in, sizeof(at)))) {
		iw_map_give(v->out, s);
		return atomic_load(&s->mapped) ? iw_fail(EINVAL) : iw_path(s)->tx_from(s, v);
	}
	if (!v->off_in)
		at = (off64_t)IW_SYS(lseek, v->in, 0, SEEK_CUR);
	i = v->len > sizeof(own) ? file_room_take() : -1;
	if (i >= 0) {
		n = tx_file(s, v, &at, file_room[i].room, sizeof(file_room[i].room));
		atomic_store(&file_room[i].taken, false);
	} else {
		n = tx_file(s, v, &at, own, sizeof(own));
	}
	if (n < 0)
		return n;
	if (!v->off_in)
		IW_SYS(lseek, v->in, at, SEEK_SET);
	else if (iw_copy_out(v->off_in, &at, sizeof(at)))
		return iw_fail(EFAULT);
	return n;
}
