// SPDX-License-Identifier: MIT
/*
 * poll and ppoll: a connect is settled before its completion is reported, and the bits of carriers become those of TCP. The waiting
 * itself is the kernel's.
 */
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "stream.h"
#include "waiting.h"

void __chk_fail(void) __attribute__((noreturn));

#define COPY_MAX 256u

struct call {
	struct pollfd *p;
	nfds_t n;
	struct iw_deadline d;
	const sigset_t *mask;
	bool with_mask;
};

static inline bool idle(void)
{
	iw_waiting();
	return !atomic_load_explicit(&iw_connecting, memory_order_relaxed) && !atomic_load_explicit(&iw_streams, memory_order_relaxed);
}

static int wait_once(const struct call *c, struct pollfd *p)
{
	struct timespec left, *t = iw_deadline_left(&c->d, &left);

	if (c->with_mask)
		return iw_real.ppoll(p, c->n, t, c->mask);
	if (!t || (t->tv_nsec % 1000000))
		return iw_real.ppoll(p, c->n, t, NULL);
	return iw_real.poll(p, c->n, (int)(t->tv_sec * 1000 + t->tv_nsec / 1000000));
}

/* One reported entry put right. POLLHUP that TCP would not show may be all there was: then *mute, the kernel would repeat it. */
static void correct(struct pollfd *p, bool *mute)
{
	const short asked = p->events | POLLERR | POLLHUP | POLLNVAL;
	enum iw_fd_kind kind = iw_fd_kind(p->fd);
	bool fresh = false;
	struct iw_stream *s;

	if (kind == IW_FD_CONNECTING) {
		kind = iw_connect_settle(p->fd);
		fresh = kind == IW_FD_STREAM;
	}
	if (kind != IW_FD_STREAM || !(s = iw_stream_of(p->fd)))
		return;
	if (fresh)
		p->revents = iw_carrier_bits(p->fd, p->events);
	*mute = p->revents != 0;
	p->revents = (short)(iw_stream_fix_events(s, p->fd, p->revents) & asked);
	*mute = *mute && !p->revents;
}

/* Number of entries that stay reported; muted entries are taken out of the next wait in `next`, when there is one. */
static int correct_all(const struct call *c, struct pollfd *p, struct pollfd *next, bool *muted)
{
	int found = 0;

	for (nfds_t i = 0; i < c->n; i++) {
		bool mute = false;

		if (!p[i].revents)
			continue;
		correct(&p[i], &mute);
		if (p[i].revents) {
			found++;
			continue;
		}
		*muted |= mute;
		if (mute && next)
			next[i].fd = -1;
	}
	return found;
}

static void begin(const struct call *c, struct iw_sleepers *z)
{
	iw_sleepers_init(z);
	if (!atomic_load(&iw_connecting))
		return;
	for (nfds_t i = 0; i < c->n; i++)
		if (iw_fd_kind(c->p[i].fd) == IW_FD_CONNECTING)
			iw_sleepers_add(z, c->p[i].fd);
}

/*
 * The wait goes on without the entries that have nothing but a POLLHUP of the carrier. Nothing TCP reports unasked can come to
 * them before this process itself writes or shuts down.
 */
static __attribute__((noinline)) int wait_muted(const struct call *c)
{
	struct pollfd some[COPY_MAX], *v = some;
	size_t size = c->n * sizeof(*v);
	bool muted;
	int rc;

	if (c->n > COPY_MAX) {
		long r = IW_SYS(mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (r < 0 && r > -4096) {
			errno = ENOMEM;
			return -1;
		}
		v = (void *)r;
	}
	memcpy(v, c->p, size);
	for (nfds_t i = 0; i < c->n; i++) {	/* those that are mute now */
		bool mute = false;

		v[i].revents = v[i].fd < 0 ? 0 : iw_carrier_bits(v[i].fd, v[i].events);
		if (v[i].revents)
			correct(&v[i], &mute);
		if (mute)
			v[i].fd = -1;
	}
	do {
		struct iw_sleepers z;

		begin(c, &z);
		rc = wait_once(c, v);
		iw_sleepers_end(&z);
		if (rc <= 0)
			break;
		rc = correct_all(c, v, v, &muted);
	} while (!rc);
	for (nfds_t i = 0; i < c->n && rc >= 0; i++)
		c->p[i].revents = v[i].fd < 0 ? 0 : v[i].revents;
	if (v != some)
		IW_SYS(munmap, v, size);
	return rc;
}

static int poll_streams(const struct call *c)
{
	for (;;) {
		struct iw_sleepers z;
		bool muted = false;
		int rc, found;

		begin(c, &z);
		rc = wait_once(c, c->p);
		iw_sleepers_end(&z);
		if (rc <= 0)
			return rc;
		found = correct_all(c, c->p, NULL, &muted);
		if (found)
			return found;
		if (muted)
			return wait_muted(c);
	}
}

static int do_poll(struct pollfd *p, nfds_t n, int ms)
{
	struct call c = { .p = p, .n = n };

	if (idle() || (uintptr_t)p < 4096)
		return iw_real.poll(p, n, ms);
	iw_deadline_ms(&c.d, ms);
	return poll_streams(&c);
}

static int do_ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	struct call c = { .p = p, .n = n, .mask = mask, .with_mask = true };

	if (idle() || (uintptr_t)p < 4096 || !iw_deadline_ts(&c.d, t))
		return iw_real.ppoll(p, n, t, mask);
	return poll_streams(&c);
}

IW_EXPORT int poll(struct pollfd *p, nfds_t n, int ms)
{
	return do_poll(p, n, ms);
}

IW_EXPORT int ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	return do_ppoll(p, n, t, mask);
}

int __poll_chk(struct pollfd *p, nfds_t n, int ms, size_t size);
int __ppoll_chk(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t size);

IW_EXPORT int __poll_chk(struct pollfd *p, nfds_t n, int ms, size_t size)
{
	if (size / sizeof(*p) < n)
		__chk_fail();
	return do_poll(p, n, ms);
}

IW_EXPORT int __ppoll_chk(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask, size_t size)
{
	if (size / sizeof(*p) < n)
		__chk_fail();
	return do_ppoll(p, n, t, mask);
}
