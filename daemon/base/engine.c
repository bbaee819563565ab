/* SPDX-License-Identifier: MIT */
/* The event loop: one io_uring, timers in a binary heap, deferred work after each batch of completions. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>

#include "engine.h"

#define SQ_ENTRIES	1024u
#define CQ_ENTRIES	8192u
#define BATCH		256u	/* completions taken before timers and work get their turn */
#define SLICE_US	50u	/* of a class of work, while others wait */
#define CONTENDED_MS	20u
#define SPUN_MAX	64u

static struct {
	struct io_uring ring;
	bool up, stop;
	uint64_t now;
	struct timer **heap;
	size_t ntimers, cap;
	uint64_t turn;			/* of the timer started last */
	struct work_class own;		/* work without a class */
	struct work_class *ready, **ready_tail;
	const struct work_class *last;	/* class that had work last, and when it was another */
	uint64_t switched;
	uint32_t round;			/* of work: what is queued in this one runs in the next */
} eng = { .own.tail = &eng.own.first, .ready_tail = &eng.ready };

static void clock_update(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	eng.now = (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

uint64_t engine_now_ms(void)
{
	if (!eng.now)
		clock_update();
	return eng.now;
}

/* ---- timers: heap[0] is due first; timer.node holds the index + 1 ---- */

static size_t heap_index(const struct timer *t)
{
	return (size_t)(uintptr_t)t->node - 1;
}

static void heap_set(size_t i, struct timer *t)
{
	eng.heap[i] = t;
	t->node = (void *)(uintptr_t)(i + 1);
}

static bool sooner(const struct timer *a, const struct timer *b)
{
	return a->due != b->due ? a->due < b->due : a->turn < b->turn;
}

static void heap_up(size_t i, struct timer *t)
{
	while (i && sooner(t, eng.heap[(i - 1) / 2])) {
		heap_set(i, eng.heap[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	heap_set(i, t);
}

static void heap_down(size_t i, struct timer *t)
{
	size_t kid;

	while ((kid = 2 * i + 1) < eng.ntimers) {
		if (kid + 1 < eng.ntimers && sooner(eng.heap[kid + 1], eng.heap[kid]))
			kid++;
		if (!sooner(eng.heap[kid], t))
			break;
		heap_set(i, eng.heap[kid]);
		i = kid;
	}
	heap_set(i, t);
}

void timer_stop(struct timer *t)
{
	struct timer *last;
	size_t i;

	if (!t->node)
		return;
	i = heap_index(t);
	last = eng.heap[--eng.ntimers];
	if (last != t) {
		if (i && sooner(last, eng.heap[(i - 1) / 2]))
			heap_up(i, last);
		else
			heap_down(i, last);
	}
	t->node = NULL;
	t->due = 0;
}

void timer_start(struct timer *t, unsigned int ms, void (*fn)(struct timer *))
{
	timer_stop(t);
	if (eng.ntimers == eng.cap) {
		size_t cap = eng.cap ? eng.cap * 2 : 256;
		struct timer **heap = realloc(eng.heap, cap * sizeof(*heap));

		if (!heap)
			abort();	/* a timer that is silently lost would break every promise about time */
		eng.heap = heap;
		eng.cap = cap;
	}
	t->fn = fn;
	t->due = engine_now_ms() + ms;
	t->turn = ++eng.turn;
	heap_up(eng.ntimers++, t);
}

/* What was due when the pass began: one started in it with 0 ms waits for the next, so that completions get their turn. */
static void timers_run(void)
{
	uint64_t last = eng.turn;

	while (eng.ntimers && eng.heap[0]->due <= eng.now && eng.heap[0]->turn <= last && !eng.stop) {
		struct timer *t = eng.heap[0];

		timer_stop(t);
		t->fn(t);
	}
}

/* ---- work ---- */

void work_class_init(struct work_class *c)
{
	c->first = NULL;
	c->tail = &c->first;
	c->waiting = false;
}

static void class_wait(struct work_class *c)
{
	c->waiting = true;
	c->next = NULL;
	c->pprev = eng.ready_tail;
	*eng.ready_tail = c;
	eng.ready_tail = &c->next;
}

static void class_unwait(struct work_class *c)
{
	if (!c->waiting)
		return;
	*c->pprev = c->next;
	if (c->next)
		c->next->pprev = c->pprev;
	else
		eng.ready_tail = c->pprev;
	c->waiting = false;
}

bool engine_contended(void)
{
	return eng.switched && eng.now - eng.switched <= CONTENDED_MS;
}

static void class_put(struct work_class *c, struct work *w)
{
	w->queued = true;
	w->round = eng.round;
	w->next = NULL;
	w->pprev = c->tail;
	*c->tail = w;
	c->tail = &w->next;
}

static void class_remove(struct work_class *c, struct work *w)
{
	*w->pprev = w->next;
	if (w->next)
		w->next->pprev = w->pprev;
	else
		c->tail = w->pprev;
	w->queued = false;
}

void work_queue(struct work *w, void (*fn)(struct work *))
{
	struct work_class *c = w->turn;

	w->fn = fn;
	if (w->queued)
		return;
	class_put(c ? c : &eng.own, w);
	if (!c)
		return;
	if (!c->waiting)
		class_wait(c);
	if (c != eng.last) {
		if (eng.last)
			eng.switched = eng.now;
		eng.last = c;
	}
}

void work_cancel(struct work *w)
{
	if (w->queued)
		class_remove(w->turn ? w->turn : &eng.own, w);
}

uint64_t engine_clock_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* What was queued before this round, until the time is up (0: no limit). What that queues in turn waits, so that completions do not starve. */
static void class_run(struct work_class *c, uint64_t until)
{
	while (c->first && c->first->round != eng.round) {
		struct work *w = c->first;

		class_remove(c, w);
		w->fn(w);
		if (until && engine_clock_us() >= until)
			break;
	}
}

static void work_run(void)
{
	unsigned int n = 0;

	eng.round++;
	class_run(&eng.own, 0);
	for (const struct work_class *c = eng.ready; c; c = c->next)
		n++;
	for (bool alone = n == 1; n && eng.ready && !eng.stop; n--) {
		struct work_class *c = eng.ready;

		class_unwait(c);
		class_run(c, alone ? 0 : engine_clock_us() + SLICE_US);
		if (c->first && !c->waiting)
			class_wait(c);
	}
}

/* ---- requests ---- */

struct io_uring_sqe *engine_sqe(void)
{
	struct io_uring_sqe *sqe;

	while (!(sqe = io_uring_get_sqe(&eng.ring))) {
		int ret = io_uring_submit(&eng.ring);

		if (ret < 0 && ret != -EINTR && ret != -EAGAIN && ret != -EBUSY)
			abort();
		if (ret < 0 && ret != -EINTR)
			io_uring_get_events(&eng.ring);
	}
	return sqe;
}

void engine_file_waits(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

bool engine_file_again(int fd, int res, unsigned int *spun)
{
	if (res != -EAGAIN)
		return op_again(res);
	engine_file_waits(fd);
	return ++*spun < SPUN_MAX;
}

void engine_submit(struct io_uring_sqe *sqe, struct op *op)
{
	op->busy = true;
	io_uring_sqe_set_data(sqe, op);
}

void engine_cancel(struct op *op)
{
	struct io_uring_sqe *sqe;

	if (!op->busy)
		return;
	sqe = engine_sqe();
	io_uring_prep_cancel(sqe, op, 0);
	io_uring_sqe_set_data(sqe, NULL);
}

struct io_uring_sqe *engine_unsubmitted(const struct op *op)
{
	const struct io_uring_sq *sq = &eng.ring.sq;

	for (unsigned int i = sq->sqe_head; i != sq->sqe_tail; i++) {
		struct io_uring_sqe *sqe = &sq->sqes[i & sq->ring_mask];

		if (sqe->user_data == (uintptr_t)op)
			return sqe;
	}
	return NULL;
}

static void completions_run(void)
{
	struct io_uring_cqe *cqe;

	for (unsigned int n = 0; n < BATCH && !io_uring_peek_cqe(&eng.ring, &cqe); n++) {
		struct op *op = io_uring_cqe_get_data(cqe);
		bool more = cqe->flags & IORING_CQE_F_MORE;
		int res = cqe->res;

		io_uring_cqe_seen(&eng.ring, cqe);
		if (!op)
			continue;
		op->busy = more;
		op->fn(op, res, more);
	}
}

/* ---- the loop ---- */

static void engine_wait(void)
{
	struct io_uring_cqe *cqe;
	struct __kernel_timespec ts = { 0 }, *tsp = NULL;

	if (eng.own.first || eng.ready || io_uring_cq_ready(&eng.ring)) {
		io_uring_submit_and_get_events(&eng.ring);
		return;
	}
	if (eng.ntimers) {
		uint64_t due = eng.heap[0]->due, ms = due > eng.now ? due - eng.now : 0;

		ts.tv_sec = (long long)(ms / 1000);
		ts.tv_nsec = (long long)(ms % 1000) * 1000000;
		tsp = &ts;
	}
	io_uring_submit_and_wait_timeout(&eng.ring, &cqe, 1, tsp, NULL);
}

void engine_run(void)
{
	eng.stop = false;
	clock_update();
	while (!eng.stop) {
		timers_run();
		work_run();
		if (eng.stop)
			break;
		engine_wait();
		clock_update();
		completions_run();
	}
	io_uring_submit(&eng.ring);
}

void engine_stop(void)
{
	eng.stop = true;
}

int engine_init(void)
{
	static const unsigned int flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL,
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL,
		0,
	};
	int ret = -EINVAL;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]) && ret == -EINVAL; i++) {
		struct io_uring_params p = { .flags = flags[i] | IORING_SETUP_CQSIZE, .cq_entries = CQ_ENTRIES };

		ret = io_uring_queue_init_params(SQ_ENTRIES, &eng.ring, &p);
	}
	if (ret < 0)
		return ret;
	io_uring_ring_dontfork(&eng.ring);
	io_uring_register_ring_fd(&eng.ring);	/* only saves time; older kernels refuse */
	eng.up = true;
	clock_update();
	return 0;
}

void engine_fini(void)
{
	if (!eng.up)
		return;
	io_uring_queue_exit(&eng.ring);
	free(eng.heap);
	eng.heap = NULL;
	eng.ntimers = eng.cap = 0;
	eng.up = false;
}
