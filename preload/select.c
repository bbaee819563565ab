// SPDX-License-Identifier: MIT
/* select and pselect: by poll, when streams are among the fds. */
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>

#include "deadline.h"
#include "fdtab.h"
#include "lib.h"
#include "paths/burst.h"
#include "poll.h"
#include "real.h"
#include "reg.h"
#include "sys.h"
#include "turn.h"
#include "user.h"

#define SOME 256u	/* entries for which no memory is asked */

#define IN	(POLLIN | POLLRDNORM | POLLRDBAND)
#define OUT	(POLLOUT | POLLWRNORM | POLLWRBAND)
/* What poll calls the three sets: asked for, and reported. */
static const short asks[3] = { IN, OUT, POLLPRI };
static const short means[3] = { IN | POLLHUP | POLLERR, OUT | POLLERR, POLLPRI };

struct sets {
	uint64_t *set[3];	/* the caller's */
	int n;
	size_t words;
};

/* The fds of word i that are in any of the sets. */
static uint64_t any(const struct sets *v, size_t i)
{
	uint64_t bits = 0;

	for (int k = 0; k < 3; k++)
		bits |= v->set[k] ? v->set[k][i] : 0;
	return i == v->words - 1 && v->n % 64 ? bits & ~(~0ull << (v->n % 64)) : bits;
}

/* There is a stream, or a set that may hold a mapped one. */
static bool ours(const struct sets *v)
{
	bool mapped = atomic_load(&iw_reg_mapped);

	for (size_t i = 0; i < v->words; i++)
		for (uint64_t bits = any(v, i); bits; bits &= bits - 1) {
			enum iw_fd_kind kind = iw_fd_kind((int)(i * 64) + __builtin_ctzll(bits));

			if (kind == IW_FD_STREAM || (mapped && kind == IW_FD_EPOLL))
				return true;
		}
	return false;
}

/* false: the original it is, which also says of bad memory what there is to be said. */
static bool take(struct sets *v, int n, fd_set *r, fd_set *w, fd_set *e)
{
	if (!atomic_load_explicit(&iw_streams, memory_order_relaxed))
		return false;
	if (n <= 0 || n > IW_FD_MAX)
		return false;
	*v = (struct sets){ { (uint64_t *)r, (uint64_t *)w, (uint64_t *)e }, n, ((size_t)n + 63) / 64 };
	for (int k = 0; k < 3; k++)
		if (v->set[k] && !iw_user_writable(v->set[k], v->words * 8))
			return false;
	return ours(v);
}

/* The array of what is asked. Returns the number of entries; p may be NULL. */
static nfds_t to_poll(const struct sets *v, struct pollfd *p)
{
	nfds_t n = 0;

	for (size_t i = 0; i < v->words; i++)
		for (uint64_t bits = any(v, i); bits; bits &= bits - 1, n++) {
			uint64_t bit = bits & -bits;
			short events = 0;

			for (int k = 0; k < 3; k++)
				events |= v->set[k] && (v->set[k][i] & bit) ? asks[k] : 0;
			if (p)
				p[n] = (struct pollfd){ .fd = (int)(i * 64) + __builtin_ctzll(bits), .events = events };
		}
	return n;
}

static bool reported(const struct pollfd *p, int k)
{
	return p->fd >= 0 && (p->events & asks[k]) && (p->revents & means[k]);
}

/* The number of bits. What poll alone reports, as a hang-up of one that is asked for room, is left out from now on. */
static int count(struct pollfd *p, nfds_t n)
{
	int sum = 0;

	for (nfds_t i = 0; i < n; i++) {
		int bits = reported(&p[i], 0) + reported(&p[i], 1) + reported(&p[i], 2);

		if (p[i].revents && !bits)
			p[i].fd = -1;
		sum += bits;
	}
	return sum;
}

static void from_poll(const struct sets *v, const struct pollfd *p, nfds_t n)
{
	for (int k = 0; k < 3; k++)
		if (v->set[k])
			memset(v->set[k], 0, v->words * 8);
	for (nfds_t i = 0; i < n; i++)
		for (int k = 0; k < 3; k++)
			if (reported(&p[i], k))
				v->set[k][p[i].fd / 64] |= 1ull << (p[i].fd % 64);
}

/* Descriptors that are not open: the kernel says EBADF, or has no table for numbers that high and does not look at them. */
static int bad_fds(const struct sets *v, struct pollfd *p, nfds_t n)
{
	struct timeval zero = { 0, 0 };
	bool bad = false;

	for (nfds_t i = 0; i < n; i++)
		bad |= p[i].revents & POLLNVAL;
	if (bad && iw_real.select(v->n, (fd_set *)v->set[0], (fd_set *)v->set[1], (fd_set *)v->set[2], &zero) < 0)
		return -1;
	for (nfds_t i = 0; bad && i < n; i++)
		if (p[i].revents & POLLNVAL)
			p[i].fd = -1;
	return 0;
}

/* Number of bits, or -1 with errno. */
static int wait_poll(const struct sets *v, struct pollfd *p, nfds_t n, const struct iw_deadline *d, const sigset_t *mask, bool with_mask)
{
	int rc, bits = 0;

	do {
		rc = iw_poll_until(p, n, d, mask, with_mask);
		if (rc < 0 || (rc && bad_fds(v, p, n) < 0))
			return -1;
		bits = count(p, n);
	} while (rc && !bits);
	from_poll(v, p, n);
	return bits;
}

static int by_poll(const struct sets *v, const struct iw_deadline *d, const sigset_t *mask, bool with_mask)
{
	struct pollfd some[SOME], *p = some;
	nfds_t n = to_poll(v, NULL);
	size_t size = n * sizeof(*p);
	int rc, err;

	if (n > SOME) {
		long r = IW_SYS(mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (r < 0 && r > -4096)
			return (int)iw_ret(-ENOMEM);
		p = (void *)r;
	}
	to_poll(v, p);
	rc = wait_poll(v, p, n, d, mask, with_mask);
	err = errno;
	if (p != some)
		IW_SYS(munmap, p, size);
	errno = err;
	return rc;
}

static int select_turn(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t)
{
	struct timespec ts = { 0, 0 };
	struct iw_deadline d;
	struct timeval tv;
	struct sets v;
	int rc;

	if (!take(&v, n, r, w, e))
		return iw_real.select(n, r, w, e, t);
	if (t && (iw_copy_in(&tv, t, sizeof(tv)) || tv.tv_sec < 0 || tv.tv_usec < 0))
		return iw_real.select(n, r, w, e, t);
	if (t)
		ts = (struct timespec){ tv.tv_sec + tv.tv_usec / 1000000, tv.tv_usec % 1000000 * 1000 };
	iw_deadline_ts(&d, t ? &ts : NULL);
	rc = by_poll(&v, &d, NULL, false);
	if (t && iw_deadline_left(&d, &ts))
		*t = (struct timeval){ ts.tv_sec, ts.tv_nsec / 1000 };	/* as libc, which faults too where it cannot be written */
	return rc;
}

IW_EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t)
{
	int rc;

	iw_burst_wait();
	if (!atomic_load_explicit(&iw_movable, memory_order_relaxed))
		return iw_real.select(n, r, w, e, t);
	iw_turn_select(n, r, w, e);
	rc = select_turn(n, r, w, e, t);
	iw_turn_end();
	return rc;
}

static int pselect_turn(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t, const sigset_t *mask)
{
	struct timespec ts;
	struct iw_deadline d;
	struct sets v;

	if (!take(&v, n, r, w, e) || (t && iw_copy_in(&ts, t, sizeof(ts))) || !iw_deadline_ts(&d, t ? &ts : NULL))
		return iw_real.pselect(n, r, w, e, t, mask);
	return by_poll(&v, &d, mask, true);
}

IW_EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t, const sigset_t *mask)
{
	int rc;

	iw_burst_wait();
	if (!atomic_load_explicit(&iw_movable, memory_order_relaxed))
		return iw_real.pselect(n, r, w, e, t, mask);
	iw_turn_select(n, r, w, e);
	rc = pselect_turn(n, r, w, e, t, mask);
	iw_turn_end();
	return rc;
}
