// SPDX-License-Identifier: MIT
/* What was left in a ring, and the carrier behind it, relayed. It needs nothing of the stream once it goes but the page, in which ends are said. */
#include "rest.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/ring.h"
#include "carrier.h"
#include "stream_priv.h"
#include "table.h"

#define BUF	16384u

struct rest;

struct way {
	struct op op;
	struct rest *r;
	int from, to;
	unsigned int end;	/* of the page: whoever reads what comes this way */
	size_t len, off;	/* of buf: what is to be sent */
	unsigned int spun;
	bool over;
	uint8_t *buf;
	size_t size;
};

struct rest {
	struct way way[2];	/* from the carrier that the other end has; and to it */
	struct iw_page *page;
	uint64_t id;		/* of the stream, which may be gone */
	unsigned int end;
	struct rest_carrier carrier;
	bool over;

	enum { PASSES, STOPS, STOPPED } direct;
	void (*done)(void *arg, int carrier);
	void *arg;
};

static void go_on(struct way *w);

static void discard(struct rest *r)
{
	for (unsigned int i = 0; i < 2; i++)
		free(r->way[i].buf);
	munmap(r->page, IW_PAGE_SIZE);
	free(r);
}

static void forget(struct rest *r)
{
	struct stream *st = stream_find(r->id);

	if (st)
		st->rest[r->end] = NULL;
	discard(r);
}

static void maybe_free(struct rest *r)
{
	if (!r->over || r->way[0].op.busy || r->way[1].op.busy)
		return;
	close_passed(r->carrier.fd, r->carrier.uid);
	close(r->way[0].to);
	forget(r);
}

static void finish(struct rest *r)
{
	if (!r->over)
		for (unsigned int i = 0; i < 2; i++) {
			shutdown(r->way[i].from, SHUT_RDWR);
			if (r->way[i].op.busy)
				engine_cancel(&r->way[i].op);
		}
	r->over = true;
	maybe_free(r);
}

static void record(struct rest *r, unsigned int end, uint32_t state, uint32_t err)
{
	struct iw_page_end *e = &r->page->end[end];
	uint32_t open = IW_CLOSE_OPEN;

	atomic_store(&e->close_errno, err);
	atomic_compare_exchange_strong(&e->close_state, &open, state);
}

static struct way *back(const struct way *w)
{
	return &w->r->way[w == w->r->way];
}

/* That end, whose other side is fd, is closed; shut in both directions it hangs up, too, and goes on to take what it throws away. */
static bool closed(const struct rest *r, unsigned int end, int fd)
{
	uint32_t shut = atomic_load(&r->page->end[end].shut);
	struct pollfd p = { .fd = fd };

	if (!(shut & IW_SHUT_CLOSED) && (shut & IW_SHUT_RD) && (shut & IW_SHUT_WR))
		return false;
	return poll(&p, 1, 0) > 0 && p.revents & (POLLHUP | POLLERR);
}

/* Octets on their way to that end, which has closed: here, or in its ring, of which we know by the words only. */
static bool unread(const struct rest *r, const struct way *to)
{
	struct iw_ring ring = { .dir = (struct iw_ring_dir *)((uint8_t *)r->page + IW_PAGE_DIRS) + !to->end };

	return to->off < to->len || !iw_ring_taken(&ring);
}

/*
 * Who writes this way shut it, or closed: that is said before it can be seen, and of a close nothing is seen before the whole of it. Octets that he had not
 * read are a reset; those in a carrier the kernel has seen.
 */
static void ended(struct way *w)
{
	bool gone = closed(w->r, back(w)->end, w->from);

	w->over = true;
	if (gone && unread(w->r, back(w)))
		record(w->r, w->end, IW_CLOSE_RESET, ECONNRESET);
	else
		record(w->r, w->end, IW_CLOSE_FIN, 0);
	if (gone || back(w)->over)
		finish(w->r);
	else
		shutdown(w->to, SHUT_WR);
}

/* Nobody reads what goes this way. Who has closed with octets unread has reset the connection; who has only shut it is not told of them. */
static void not_read(struct way *w)
{
	if ((atomic_load(&w->r->page->end[w->end].shut) & IW_SHUT_RD) && !closed(w->r, w->end, w->to)) {
		w->off = w->len;
		go_on(w);
		return;
	}
	record(w->r, back(w)->end, IW_CLOSE_RESET, ECONNRESET);
	finish(w->r);
}

/* ---- direct again ---- */

static bool change(struct rest *r, uint32_t from, uint32_t to)
{
	return atomic_compare_exchange_strong(&r->page->end[r->end].relay, &from, to);
}

/* Both ways, but for one that is at work, or about to be. */
static void pass_on(struct rest *r, const struct way *but)
{
	r->direct = PASSES;
	for (unsigned int i = 0; i < 2; i++)
		if (&r->way[i] != but && !r->way[i].op.busy && !r->way[i].over)
			go_on(&r->way[i]);
}

static void not_now(struct rest *r, const struct way *but, int err)
{
	change(r, IW_RELAY_ASKED, IW_RELAY_ON);
	pass_on(r, but);
	r->done(r->arg, err);
}

static bool hung_up(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0;
}

/* We have nothing in hand. The end that asked has read all, and everything that it sent has come here. */
static bool still(const struct rest *r)
{
	int there = 0, here = 0, s = r->way[0].to;

	return !ioctl(s, SIOCOUTQ, &there) && !ioctl(s, SIOCINQ, &here) && !there && !here && !hung_up(s) && !hung_up(r->way[0].from);
}

static void stopped(struct rest *r)
{
	int carrier;

	if (r->way[0].op.busy || r->way[1].op.busy)
		return;
	carrier = still(r) ? fcntl(r->way[0].from, F_DUPFD_CLOEXEC, 0) : -1;
	if (carrier >= 0 && !change(r, IW_RELAY_ASKED, IW_RELAY_OFFERED)) {
		close(carrier);
		carrier = -1;
	}
	if (carrier < 0) {
		not_now(r, NULL, -EAGAIN);
		return;
	}
	r->direct = STOPPED;
	r->done(r->arg, carrier);
}

int rest_direct(struct rest *r, void (*done)(void *arg, int carrier), void *arg)
{
	for (unsigned int i = 0; i < 2; i++)
		if (r->over || r->direct || r->way[i].over || r->way[i].off < r->way[i].len) {
			change(r, IW_RELAY_ASKED, IW_RELAY_ON);
			return -EAGAIN;
		}
	r->direct = STOPS;
	r->done = done;
	r->arg = arg;
	for (unsigned int i = 0; i < 2; i++)
		engine_cancel(&r->way[i].op);
	return 0;
}

bool rest_stopped(const struct rest *r)
{
	return r->direct == STOPPED;
}

bool rest_taken(const struct rest *r, uint64_t cookie)
{
	return r->direct == STOPPED && r->carrier.cookie == cookie && atomic_load(&r->page->end[r->end].relay) == IW_RELAY_NONE;
}

/* What that end wrote between our last look and the exchange, unseen by its library. */
static void late(struct rest *r)
{
	const struct way *w = &r->way[1];

	if (carrier_late(w->from, w->to, r->carrier.uid) >= 0)
		return;
	record(r, 0, IW_CLOSE_RESET, ECONNRESET);
	record(r, 1, IW_CLOSE_RESET, ECONNRESET);
	shutdown(w->to, SHUT_RDWR);
}

bool rest_settle(struct rest *r, struct rest_carrier *c)
{
	bool taken = !change(r, IW_RELAY_OFFERED, IW_RELAY_ON) && !change(r, IW_RELAY_ASKED, IW_RELAY_ON) && r->direct == STOPPED &&
		     atomic_load(&r->page->end[r->end].relay) == IW_RELAY_NONE;

	if (!taken) {
		atomic_store(&r->page->end[r->end].relay, IW_RELAY_ON);	/* whatever was written there */
		pass_on(r, NULL);
		return false;
	}
	late(r);
	*c = r->carrier;
	close(r->way[0].to);
	forget(r);
	return true;
}

/* ---- passing on ---- */

static void sent(struct op *op, int res, bool more)
{
	struct way *w = container_of(op, struct way, op);

	if (w->r->over) {
		maybe_free(w->r);
		return;
	}
	if (res > 0)
		w->off += (size_t)res;
	if (res > 0 || op_again(res))
		go_on(w);
	else
		not_read(w);
}

static void received(struct op *op, int res, bool more)
{
	struct way *w = container_of(op, struct way, op);

	if (w->r->over) {
		maybe_free(w->r);
		return;
	}
	if (res == -ECANCELED && w->r->direct == STOPS) {
		stopped(w->r);
		return;
	}
	if (res > 0) {
		w->len = (size_t)res;
		w->off = 0;
	}
	if (w->r->direct == STOPS)
		not_now(w->r, w, -EAGAIN);
	if (res > 0 || res == -ECANCELED || (op_again(res) && engine_file_again(w->from, res, &w->spun))) {
		go_on(w);
	} else if (!res) {
		ended(w);
	} else {
		record(w->r, w->end, IW_CLOSE_RESET, ECONNRESET);
		finish(w->r);
	}
}

/* What was left may have been more than is needed from then on. */
static void shrink(struct way *w)
{
	uint8_t *p = w->off < w->len || w->size <= BUF ? NULL : realloc(w->buf, BUF);

	if (p) {
		w->buf = p;
		w->size = BUF;
	}
}

static void go_on(struct way *w)
{
	struct io_uring_sqe *sqe = engine_sqe();

	shrink(w);
	if (w->off < w->len) {
		w->op.fn = sent;
		io_uring_prep_send(sqe, w->to, w->buf + w->off, w->len - w->off, MSG_NOSIGNAL);
	} else {
		w->op.fn = received;
		io_uring_prep_recv(sqe, w->from, w->buf, w->size, 0);
	}
	engine_submit(sqe, &w->op);
}

/* As its consumer left it. Either side may have written anything there. */
static int left(const struct stream *st, unsigned int e, struct way *w)
{
	const uint8_t *mem = (const uint8_t *)st->page;
	struct iw_ring_dir *dir = (struct iw_ring_dir *)(mem + IW_PAGE_DIRS) + !e;
	struct iw_ring r = { .dir = dir, .mem = (uint8_t *)mem + IW_PAGE_RINGS + !e * IW_PAGE_RING, .len = IW_PAGE_RING, .pos = atomic_load(&dir->tail) };
	struct iovec v = { w->buf, w->size };
	ssize_t n = iw_ring_shut(&r);

	if (n < 0)
		return (int)n;
	iw_ring_peek(&r, &v, 0, 0, (size_t)n);
	iw_ring_consumed(&r, (size_t)n);	/* its consumer waits for our answer */
	w->len = (size_t)n;
	return 0;
}

/* What is there by now is there for whoever asks the new carrier, as far as that takes it. */
static void at_once(struct way *w)
{
	ssize_t n;

	do {
		while (w->off < w->len && (n = send(w->to, w->buf + w->off, w->len - w->off, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
			w->off += (size_t)n;
		if (w->off < w->len)
			return;
		n = recv(w->from, w->buf, w->size, MSG_DONTWAIT);
		w->off = 0;
		w->len = n > 0 ? (size_t)n : 0;
		if (n < 0 && errno == ECONNRESET)	/* the kernel says it once */
			record(w->r, w->end, IW_CLOSE_RESET, ECONNRESET);
	} while (n > 0);
}

static struct rest *make(const struct stream *st, unsigned int e, int carrier, int to)
{
	struct rest *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->page = mmap(NULL, IW_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, st->segment, 0);
	if (r->page == MAP_FAILED) {
		free(r);
		return NULL;
	}
	for (unsigned int i = 0; i < 2; i++) {
		struct way *w = &r->way[i];

		w->r = r;
		w->from = i ? to : carrier;
		w->to = i ? carrier : to;
		w->end = i ? !e : e;
		w->size = i ? BUF : IW_PAGE_RING;
		w->buf = malloc(w->size);
	}
	if (r->way[0].buf && r->way[1].buf)
		return r;
	discard(r);
	return NULL;
}

/* By a daemon before us, which may have taken of it what nobody has now. */
static bool begun(const struct stream *st, unsigned int e)
{
	return atomic_load(&st->page->end[e].relay) != IW_RELAY_NONE;
}

int rest_begin(struct stream *st, unsigned int e, int carrier, uint32_t uid, int *s)
{
	struct rest *r;
	int v[2], ret;

	ret = st->size < IW_PAGE_RINGS + 2 * (size_t)IW_PAGE_RING || st->rest[e] || begun(st, e) ? -EINVAL : carrier_make(st->id, v);
	if (ret) {
		close_passed(carrier, uid);
		return ret;
	}
	r = make(st, e, carrier, v[1]);
	if (r)		/* before anything is taken; and before anybody can see an end of what we hold: ours alone is none */
		atomic_store(&r->page->end[e].relay, IW_RELAY_ON);
	ret = r ? left(st, e, &r->way[0]) : -ENOMEM;
	if (ret) {
		if (r)
			discard(r);
		close_passed(carrier, uid);
		close(v[0]);
		close(v[1]);
		return ret;
	}
	r->id = st->id;
	r->end = e;
	r->carrier = (struct rest_carrier){ .fd = carrier, .uid = uid, .watched = st->watched[e], .cookie = st->end[e].cookie };
	st->rest[e] = r;	/* it has no ring from then on */
	engine_file_waits(carrier);
	at_once(&r->way[0]);
	go_on(&r->way[0]);
	go_on(&r->way[1]);
	*s = v[0];
	return 0;
}
