// SPDX-License-Identifier: MIT
/*
 * select and pselect: a connect is settled before its completion is reported. Otherwise what a carrier shows in the three sets is what
 * TCP shows: POLLHUP counts as readable, and a stream that ended is readable on both.
 */
#include <poll.h>
#include <string.h>
#include <sys/select.h>

#include "stream.h"
#include "waiting.h"

#define SETS_MAX 4096	/* fds; with more, connects in a set stay plain */

struct sets {
	fd_set *set[3];		/* the caller's */
	int n;
	size_t size;
	uint64_t asked[3][SETS_MAX / 64];
};

static bool in(const void *set, int fd)
{
	return set && ((const uint64_t *)set)[fd / 64] >> (fd % 64) & 1;
}

static void put(void *set, int fd, bool on)
{
	uint64_t bit = 1ull << (fd % 64);

	if (on)
		((uint64_t *)set)[fd / 64] |= bit;
	else
		((uint64_t *)set)[fd / 64] &= ~bit;
}

static bool any(const struct sets *v, int fd)
{
	return in(v->set[0], fd) || in(v->set[1], fd) || in(v->set[2], fd);
}

/* false: more than we follow, the connects in it are plain TCP from now on. */
static bool begin(struct sets *v, struct iw_sleepers *z)
{
	iw_sleepers_init(z);
	for (int fd = 0; fd < v->n; fd++) {
		if (iw_fd_kind(fd) != IW_FD_CONNECTING || !any(v, fd))
			continue;
		if (v->n > SETS_MAX)
			iw_tcp_plain(fd, IW_REASON_SWAP_UNSAFE);
		else
			iw_sleepers_add(z, fd);
	}
	if (v->n > SETS_MAX)
		return false;
	v->size = ((size_t)v->n + 63) / 64 * 8;
	for (int i = 0; i < 3; i++)
		if (v->set[i])
			memcpy(v->asked[i], v->set[i], v->size);
	return true;
}

/* After the wait: the number of bits that stay set. */
static int settle(struct sets *v, const struct iw_sleepers *z, int rc)
{
	static const short means[3] = { POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR, POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR, POLLPRI };

	for (unsigned int i = 0; i < z->n; i++) {
		int fd = z->fd[i];
		short bits;

		if (!any(v, fd) || iw_connect_settle(fd) != IW_FD_STREAM)
			continue;
		bits = iw_carrier_bits(fd, means[0] | means[1] | means[2]);
		for (int k = 0; k < 3; k++) {
			bool was = in(v->set[k], fd), is = v->set[k] && in(v->asked[k], fd) && (bits & means[k]);

			if (was != is)
				put(v->set[k], fd, is);
			rc += is - was;
		}
	}
	return rc;
}

static void again(struct sets *v)
{
	for (int i = 0; i < 3; i++)
		if (v->set[i])
			memcpy(v->set[i], v->asked[i], v->size);
}

static bool pass(int n)
{
	iw_waiting();
	return !atomic_load_explicit(&iw_connecting, memory_order_relaxed) || n <= 0 || n > IW_FD_MAX;
}

static void take(struct sets *v, int n, fd_set *r, fd_set *w, fd_set *e)
{
	v->set[0] = r;
	v->set[1] = w;
	v->set[2] = e;
	v->n = n;
}

IW_EXPORT int select(int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t)
{
	struct iw_sleepers z;
	struct sets v;
	int rc;

	if (pass(n))
		return iw_real.select(n, r, w, e, t);
	take(&v, n, r, w, e);
	for (;;) {
		bool follow = begin(&v, &z);

		rc = iw_real.select(n, r, w, e, t);	/* leaves in *t what is left of it */
		iw_sleepers_end(&z);
		if (rc <= 0 || !follow)
			return rc;
		rc = settle(&v, &z, rc);
		if (rc)
			return rc;
		again(&v);
	}
}

IW_EXPORT int pselect(int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t, const sigset_t *mask)
{
	struct iw_deadline d;
	struct iw_sleepers z;
	struct timespec left;
	struct sets v;
	int rc;

	if (pass(n) || !iw_deadline_ts(&d, t))
		return iw_real.pselect(n, r, w, e, t, mask);
	take(&v, n, r, w, e);
	for (;;) {
		bool follow = begin(&v, &z);

		rc = iw_real.pselect(n, r, w, e, iw_deadline_left(&d, &left), mask);
		iw_sleepers_end(&z);
		if (rc <= 0 || !follow)
			return rc;
		rc = settle(&v, &z, rc);
		if (rc)
			return rc;
		again(&v);
	}
}
