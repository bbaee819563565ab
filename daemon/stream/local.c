/* SPDX-License-Identifier: MIT */
/*
 * A pair of applications of this host holds both ends of the carrier; we only have to learn that both were closed. Until
 * then the witness sockets answer for options. An epoll set that we filled while we had the ends does not keep them open,
 * and the kernel takes an end out of it when its last holder closes (fdinfo lists what is left). What wakes us is the
 * hang-up that this causes at the other end; the second close wakes nobody, so sets with one end left are looked at again and again,
 * and all of them once when something was closed, whose hang-up may have come and gone. While nothing is closed nobody looks.
 * Nothing but our own book-keeping waits for that.
 */
#include "local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "daemon/base/fdinfo.h"
#include "daemon/base/log.h"
#include "daemon/rnic/rnic.h"
#include "carrier.h"
#include "keep_pair.h"
#include "life.h"
#include "rest.h"
#include "stream_priv.h"
#include "table.h"

#define SWEEP_MS	2000u
#define SWEEP_MAX	256u	/* sets looked at per round */
#define HALF_MS		100u	/* pairs with one end left; the longer nothing happens, the longer */
#define HALF_MOST_MS	10000u
#define KEEP_MS		20u	/* what a full service manager did not take is offered again; the longer it takes nothing, the later */

static struct timer sweep_timer, half_timer;
static uint64_t sweep_id;	/* where the next round starts */
static unsigned int sweeps;	/* all of them, so often; the first is under way */
static struct list half = { &half, &half };
static unsigned int half_ms;
static struct timer keep_timer;
static struct list unkept = { &unkept, &unkept };
static unsigned int keep_ms;
static void sweep(struct timer *t);
static void look_at_half(struct timer *t);

/* ---- rings ---- */

void local_needs(const struct stream *st, struct prm_bill *b)
{
	*b = (struct prm_bill){ 0 };
	if (st->state != STREAM_LOCAL)
		return;
	b->n[PRM_MEMORY] = 2 * (uint64_t)IW_PAGE_RING;
	b->n[PRM_STAGS] = 2;
}

/* Memory like any other of the RNIC, that nobody from remote may use: no queue pair is in the domain of this stream. */
static void register_rings(struct stream *st)
{
	uint8_t *ring = (uint8_t *)st->page + IW_PAGE_RINGS;
	int ret = 0;

	for (unsigned int e = 0; e < 2 && !ret; e++)
		ret = rnic_mr_reg(st->pd, NULL, ring + e * IW_PAGE_RING, IW_PAGE_RING, 0, RNIC_PREPAID | IW_ACCESS_LOCAL_READ | IW_ACCESS_LOCAL_WRITE, &st->ring[e]);
	if (ret)
		stream_log(st, LOG_WARNING, "its rings are not among the STags: %s", strerror(-ret));
}

static void rings_over(struct stream *st)
{
	for (unsigned int e = 0; e < 2; e++)
		rnic_mr_dereg(st->ring[e]);
	st->ring[0] = st->ring[1] = NULL;
}

const char *local_path(const struct stream *st, unsigned int end)
{
	if (st->rest[0] || st->rest[1])
		return "relayed";
	return atomic_load(&st->page->end[end].ringed) ? "rings" : "carrier";
}

/* ---- the ends ---- */

int local_prepare(struct stream *st, int a)
{
	struct epoll_event e = { .events = EPOLLET | EPOLLHUP };

	st->watch = epoll_create1(EPOLL_CLOEXEC);
	if (st->watch < 0)
		return -errno;
	st->watched[0] = a;
	st->watched[1] = st->d;
	if (epoll_ctl(st->watch, EPOLL_CTL_ADD, a, &e) || epoll_ctl(st->watch, EPOLL_CTL_ADD, st->d, &e))
		return -errno;	/* stream_free() closes it */
	return 0;
}

void local_forget(struct stream *st)
{
	rings_over(st);
	if (st->local_half.next)
		list_del(&st->local_half);
	if (st->unkept.next)
		list_del(&st->unkept);
	if (st->watch >= 0)
		close(st->watch);
	st->watch = -1;
}

/* Whether the set has it under that number, which is the one it was added by. */
static bool lists(const char *text, int fd)
{
	for (const char *p = text; (p = strstr(p, "tfd:")); )
		if (strtol(p += 4, NULL, 10) == fd)
			return true;
	return false;
}

bool local_lists(int watch, int number)
{
	char text[1024];

	return fdinfo(watch, text, sizeof(text)) && lists(text, number);
}

/* A number that nothing in the set has: of what was in an end's place before, too, which may not be closed yet. */
static int unused_number(const struct stream *st, int fd)
{
	int n = fcntl(fd, F_DUPFD_CLOEXEC, 0), next;

	while (n >= 0 && (n == st->watched[0] || n == st->watched[1] || local_lists(st->watch, n))) {
		next = fcntl(fd, F_DUPFD_CLOEXEC, n + 1);
		close(n);
		n = next;
	}
	return n;
}

int local_watch(struct stream *st, unsigned int end, int fd)
{
	struct epoll_event e = { .events = EPOLLET | EPOLLHUP };
	int number = unused_number(st, fd), ret;

	if (number < 0)
		return -errno;
	ret = epoll_ctl(st->watch, EPOLL_CTL_ADD, number, &e) ? -errno : 0;
	if (!ret)
		st->watched[end] = number;
	close(number);
	return ret;
}

/* Which ends are still open. Without /proc a hang-up counts as both closed. */
static void ends_open(const struct stream *st, bool hup, bool is_open[2])
{
	char text[1024];

	is_open[0] = is_open[1] = !hup;
	if (!fdinfo(st->watch, text, sizeof(text)))
		return;
	for (unsigned int e = 0; e < 2; e++)
		is_open[e] = lists(text, st->watched[e]) || (st->rest[e] && rest_stopped(st->rest[e]));
}

static void local_check(struct stream *st)
{
	struct epoll_event e[2];
	bool hup = epoll_wait(st->watch, e, 2, 0) > 0;
	bool is_open[2];

	ends_open(st, hup, is_open);
	if (is_open[0] && is_open[1])
		return;
	/* what it has from here on it has for the other end's user, who may hold that for as long as he likes */
	for (unsigned int i = 0; i < 2; i++)
		if (!is_open[i] && st->end[i].counted) {
			stream_uncount(st, i);
			keep_pair_end(st, i);
		}
	rings_over(st);
	stream_unreserve(st);
	if (is_open[0] || is_open[1]) {
		if (list_empty(&st->local_half)) {
			list_add_tail(&half, &st->local_half);
			half_ms = HALF_MS;
			timer_start(&half_timer, half_ms, look_at_half);
		}
		return;
	}
	list_del(&st->local_half);
	list_del(&st->unkept);
	/* the two witnesses know nothing of what the applications said: no FIN, no TIME-WAIT */
	st->tcp_reset = true;
	keep_pair_not(st);
	stream_kill(st);
}

static void watch_arm(struct stream *st);

static void watch_woken(struct op *op, int res, bool more)
{
	struct stream *st = container_of(op, struct stream, watch_op);

	if (st->state != STREAM_LOCAL) {
		stream_ended_op(st);
		return;
	}
	if (!more && res >= 0)
		watch_arm(st);	/* first, so that nothing happens between the look and the wait */
	stream_stir();
	local_check(st);
}

static void watch_arm(struct stream *st)
{
	struct io_uring_sqe *sqe = engine_sqe();

	st->watch_op.fn = watch_woken;
	io_uring_prep_poll_multishot(sqe, st->watch, POLLIN);
	engine_submit(sqe, &st->watch_op);
}

static void sweep(struct timer *t)
{
	struct stream *st = sweep_id ? stream_find(sweep_id) : NULL, *next;
	unsigned int n = 0;

	if (!st)
		st = table_next(NULL);
	for (; st && n < SWEEP_MAX; st = next, n++) {
		next = table_next(st);
		if (st->state != STREAM_LOCAL)
			continue;
		local_check(st);
	}
	sweep_id = st ? stream_id(st) : 0;
	sweeps -= !st;
	if (sweeps)
		timer_start(&sweep_timer, SWEEP_MS, sweep);
}

static void look_at_half(struct timer *t)
{
	list_each(n, next, &half)
		local_check(list_entry(n, struct stream, local_half));
	half_ms = half_ms < HALF_MOST_MS / 2 ? 2 * half_ms : HALF_MOST_MS;
	if (!list_empty(&half))
		timer_start(&half_timer, half_ms, look_at_half);
}

static void keep_more(struct timer *t)
{
	list_each(n, next, &unkept) {
		if (!keep_pair(list_entry(n, struct stream, unkept)))
			break;
		list_del(n);
		keep_ms = KEEP_MS / 2;
	}
	keep_ms = keep_ms < SWEEP_MS / 2 ? 2 * keep_ms : SWEEP_MS;
	if (!list_empty(&unkept))
		timer_start(t, keep_ms, keep_more);
}

static void keep_soon(struct stream *st)
{
	list_add_tail(&unkept, &st->unkept);
	if (keep_timer.due)
		return;
	keep_ms = KEEP_MS;
	timer_start(&keep_timer, keep_ms, keep_more);
}

void stream_stir(void)
{
	if (!sweeps)
		timer_start(&sweep_timer, SWEEP_MS, sweep);
	sweeps = 2;
	half_ms = HALF_MS;
	if (!list_empty(&half) && half_timer.due > engine_now_ms() + HALF_MS)
		timer_start(&half_timer, half_ms, look_at_half);
}

int local_start(struct stream *st)
{
	if (st->watch < 0)
		return -EINVAL;
	list_init(&st->local_half);
	list_init(&st->unkept);
	register_rings(st);
	if (!keep_pair(st))
		keep_soon(st);
	watch_arm(st);
	stream_stir();
	return 0;
}
