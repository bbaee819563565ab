// SPDX-License-Identifier: MIT
/*
 * poll and ppoll: a connect is settled before its completion is reported, and the bits of carriers become those of TCP. The waiting
 * itself is the kernel's.
 */
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
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

/* SO_RCVLOWAT: a unix socket says POLLIN from the first octet on; TCP waits for that many, or for the end. */
static bool below_lowat(struct iw_stream *s, int fd, short bits)
{
	int have = 0, low = 1;
	socklen_t l = sizeof(low);

	if (!(bits & (POLLIN | POLLRDNORM)) || !(atomic_load(&iw_stream_end(s)->opts) & IW_SOPT_RCVLOWAT))
		return false;
	if (iw_carrier_bits(fd, POLLRDHUP) & (POLLRDHUP | POLLHUP | POLLERR))
		return false;
	return IW_SYS(getsockopt, fd, SOL_SOCKET, SO_RCVLOWAT, &low, &l) == 0 && IW_SYS(ioctl, fd, FIONREAD, &have) == 0 && have < low;
}

/* One reported entry put right. *mute: the kernel says something and TCP would say nothing; it would be repeated at once. */
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
	if (below_lowat(s, p->fd, p->revents))
		p->revents &= ~(POLLIN | POLLRDNORM);
	*mute = *mute && !p->revents;
}

/* Number of entries that stay reported. */
static int correct_all(const struct call *c, bool *muted)
{
	int found = 0;

	for (nfds_t i = 0; i < c->n; i++) {
		bool mute = false;

		if (!c->p[i].revents)
			continue;
		correct(&c->p[i], &mute);
		found += c->p[i].revents != 0;
		*muted |= mute;
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

static void drain(int ep)
{
	struct epoll_event ev;

	IW_SYS(epoll_pwait, ep, &ev, 1, 0, NULL, 8);
}

/* An edge-triggered epoll set with this one entry: becomes readable when the kernel has something new to say about it. */
static int edge_of(const struct pollfd *p)
{
	struct epoll_event ev = { .events = (uint32_t)(uint16_t)p->events | EPOLLET };
	int ep = (int)IW_SYS(epoll_create1, EPOLL_CLOEXEC);

	if (ep < 0)
		return -1;
	if (IW_SYS(epoll_ctl, ep, EPOLL_CTL_ADD, p->fd, &ev) < 0) {
		IW_SYS(close, ep);
		return -1;
	}
	drain(ep);
	return ep;
}

/* The entry of the caller as it stands now, and what to wait for instead when it is mute. */
static int look(struct pollfd *mine, struct pollfd *p)
{
	bool mute = false;

	p->revents = p->fd < 0 ? 0 : iw_carrier_bits(p->fd, p->events);
	if (p->revents)
		correct(p, &mute);
	if (mute && mine->fd == p->fd) {
		mine->fd = edge_of(p);
		mine->events = POLLIN;
		p->revents = iw_carrier_bits(p->fd, p->events);
		if (mine->fd < 0)	/* no descriptor left: better early than never */
			return p->revents != 0;
		/* what came meanwhile is no edge any more */
		if (p->revents)
			correct(p, &mute);
	}
	return p->revents != 0;
}

static int wait_edges(const struct call *c, struct pollfd *v)
{
	int rc, found = 0;

	for (nfds_t i = 0; i < c->n; i++)
		found += look(&v[i], &c->p[i]);
	while (!found) {
		struct iw_sleepers z;

		begin(c, &z);
		rc = wait_once(c, v);
		iw_sleepers_end(&z);
		if (rc <= 0)
			return rc;
		for (nfds_t i = 0; i < c->n; i++) {
			if (v[i].revents && v[i].fd != c->p[i].fd)
				drain(v[i].fd);
			found += look(&v[i], &c->p[i]);
		}
	}
	return found;
}

/* The wait goes on with something else in the place of mute entries. */
static __attribute__((noinline)) int wait_muted(const struct call *c)
{
	struct pollfd some[COPY_MAX], *v = some;
	size_t size = c->n * sizeof(*v);
	int rc, err;

	if (c->n > COPY_MAX) {
		long r = IW_SYS(mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (r < 0 && r > -4096)
			return (int)iw_ret(-ENOMEM);
		v = (void *)r;
	}
	memcpy(v, c->p, size);
	rc = wait_edges(c, v);
	err = errno;
	for (nfds_t i = 0; i < c->n; i++)
		if (v[i].fd >= 0 && v[i].fd != c->p[i].fd)
			IW_SYS(close, v[i].fd);
	if (v != some)
		IW_SYS(munmap, v, size);
	errno = err;
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
		found = correct_all(c, &muted);
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
