// SPDX-License-Identifier: MIT
/*
 * Octets both ways at the same time, sent and waited for in all the ways there are, by chance, with naps in between: by a thread that sends and one
 * that receives, and by one that does both. Nobody misses any, and nobody waits for what is there. IW_SEED repeats what chance did.
 */
#include <pthread.h>
#include <sys/select.h>
#include <sys/uio.h>

#include "../sock.h"

#define OCTETS	250000u	/* each way, of each phase */
#define MOST	40000u

static unsigned int seed;

struct way {
	int fd, level, edge;	/* the socket, and sets with it, or -1 */
	uint64_t rnd;
	uint64_t pos;		/* octets so far */
	unsigned int dir;
	uint8_t buf[MOST];
};

static unsigned int rnd(struct way *w, unsigned int n)
{
	w->rnd ^= w->rnd << 13;
	w->rnd ^= w->rnd >> 7;
	w->rnd ^= w->rnd << 17;
	return (unsigned int)(w->rnd >> 33) % n;
}

static void nap(struct way *w)
{
	struct timespec t = { 0, 0 };

	if (rnd(w, 24))
		return;
	t.tv_nsec = (long)rnd(w, 4) * 100000;
	nanosleep(&t, NULL);
}

static size_t size(struct way *w, uint64_t left)
{
	size_t n = 1 + rnd(w, rnd(w, 16) ? 300 : MOST - 1);

	return n < left ? n : (size_t)left;
}

/* ---- sending ---- */

/* What one call took; 0: it has no room. */
static size_t send_some(struct way *w, size_t n, bool waits)
{
	size_t half = rnd(w, (unsigned int)n + 1);
	struct iovec v[2] = { { w->buf, half }, { w->buf + half, n - half } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	ssize_t r;

	t_fill(w->buf, n, w->pos, w->dir);
	switch (waits ? rnd(w, 5) : 4) {
	case 0:
		r = write(w->fd, w->buf, n);
		break;
	case 1:
		r = writev(w->fd, v, 2);
		break;
	case 2:
		r = sendmsg(w->fd, &m, 0);
		break;
	case 3:
		r = send(w->fd, w->buf, n, 0);
		break;
	default:
		r = send(w->fd, w->buf, n, MSG_DONTWAIT);
	}
	must(r > 0 || (r < 0 && errno == EAGAIN));
	w->pos += r > 0 ? (size_t)r : 0;
	return r > 0 ? (size_t)r : 0;
}

static void *sends(void *p)
{
	struct way *w = p;

	while (w->pos < OCTETS) {
		nap(w);
		if (!send_some(w, size(w, OCTETS - w->pos), true))
			t_until(w->fd, POLLOUT);
	}
	return NULL;
}

/* ---- receiving ---- */

static void came(struct way *w, ssize_t n)
{
	must(n > 0);
	t_same(w->buf, (size_t)n, w->pos, w->dir);
	w->pos += (size_t)n;
}

static bool recv_now(struct way *w, size_t n)
{
	ssize_t r = recv(w->fd, w->buf, n, MSG_DONTWAIT);

	if (r < 0) {
		must(errno == EAGAIN);
		return false;
	}
	came(w, r);
	return true;
}

static void recv_some(struct way *w, size_t n)
{
	struct iovec v[2] = { { w->buf, n / 2 }, { w->buf + n / 2, n - n / 2 } };
	struct epoll_event ev;
	fd_set set;
	ssize_t r;

	switch (rnd(w, 7 + (w->level >= 0) + (w->edge >= 0))) {
	case 0:
		came(w, recv(w->fd, w->buf, n, 0));
		break;
	case 1:
		came(w, read(w->fd, w->buf, n));
		break;
	case 2:
		came(w, readv(w->fd, v, 2));
		break;
	case 3:
		n = n < 2000 ? n : 2000;
		r = recv(w->fd, w->buf, n, MSG_WAITALL);
		must(r == (ssize_t)n);
		came(w, r);
		break;
	case 4:
		r = recv(w->fd, w->buf, n, MSG_PEEK);
		must(r > 0);
		t_same(w->buf, (size_t)r, w->pos, w->dir);
		came(w, recv(w->fd, w->buf, (size_t)r, MSG_DONTWAIT));
		break;
	case 5:
		must(t_poll(w->fd, POLLIN, T_WAIT_MS) & POLLIN);
		must(recv_now(w, n));
		break;
	case 6:
		FD_ZERO(&set);
		FD_SET(w->fd, &set);
		must(select(w->fd + 1, &set, NULL, NULL, &(struct timeval){ T_WAIT_MS / 1000, 0 }) == 1);
		must(recv_now(w, n));
		break;
	case 7:
		if (w->level < 0)
			goto edge;
		must(epoll_wait(w->level, &ev, 1, T_WAIT_MS) == 1 && ev.events & EPOLLIN);
		must(recv_now(w, n));
		break;
	default:
edge:		while (!recv_now(w, n))		/* there is nothing: what comes is an edge */
			must(epoll_wait(w->edge, &ev, 1, T_WAIT_MS) == 1);
	}
}

static void *receives(void *p)
{
	struct way *w = p;

	while (w->pos < OCTETS) {
		nap(w);
		recv_some(w, size(w, OCTETS - w->pos));
	}
	return NULL;
}

static void both_at_once(struct way *tx, struct way *rx)
{
	while (tx->pos < OCTETS || rx->pos < OCTETS) {
		int want = (tx->pos < OCTETS ? POLLOUT : 0) | (rx->pos < OCTETS ? POLLIN : 0), is;

		nap(tx);
		is = rnd(tx, 3) ? t_poll(tx->fd, want, T_WAIT_MS) : want;	/* or just tries */
		must(is);
		if (is & POLLOUT)
			send_some(tx, size(tx, OCTETS - tx->pos), false);
		if (is & POLLIN)
			recv_now(rx, size(rx, OCTETS - rx->pos));
	}
}

static int set_of(int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events };
	int ep = (int)ok(epoll_create1(EPOLL_CLOEXEC));

	ok(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	return ep;
}

static void both(int fd, bool client)
{
	static struct way tx, rx;
	const char *given = getenv("IW_SEED");
	pthread_t t;

	seed = given ? (unsigned int)atoi(given) : (unsigned int)getpid();
	fprintf(stderr, "# IW_SEED=%u\n", seed);
	tx = (struct way){ .fd = fd, .rnd = seed * 2654435761u + 17 + client, .dir = client };
	rx = (struct way){ .fd = fd, .rnd = seed * 2246822519u + 29 + client, .dir = !client };
	for (int phase = 0; phase < 5; phase++) {
		tx.pos = rx.pos = 0;
		rx.level = phase & 1 ? set_of(fd, EPOLLIN) : -1;
		rx.edge = phase & 2 ? set_of(fd, EPOLLIN | EPOLLET) : -1;
		if (phase == 4) {
			both_at_once(&tx, &rx);
		} else {
			must(!pthread_create(&t, NULL, sends, &tx));
			receives(&rx);
			must(!pthread_join(t, NULL));
		}
		if (rx.level >= 0)
			close(rx.level);
		if (rx.edge >= 0)
			close(rx.edge);
		t_sync();
	}
	say("all octets");
}

SOCK_BOTH(both)
