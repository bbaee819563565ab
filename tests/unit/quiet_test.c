// SPDX-License-Identifier: MIT
/*
 * Quiet (preload/quiet.c): who is inside a call on a fd, in every way that there is to be inside one, and to have left it: raw calls, stdio,
 * arrays, handlers, longjmp, cancellation, fork and vfork; and callers against one who wants them out, with delays at every step.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static void step(void);
#define IW_QUIET_STEP(what) step()
#ifdef __SANITIZE_THREAD__
#define IW_QUIET_FRAME 0	/* it calls handlers itself, from inside the call that was interrupted */
#endif
#include "preload/quiet.c"

void iw_sleeps_left(void) { }

/* What the sanitizers of gcc 12 do not survive. */
#ifdef __SANITIZE_THREAD__
#define NO_THREADS_IN_CHILDREN 1
#else
#define NO_THREADS_IN_CHILDREN 0
#endif

static unsigned int seed;
static _Atomic bool delays;

static unsigned int rnd(void)
{
	static _Atomic uint64_t at;
	uint64_t x = (atomic_fetch_add(&at, 1) + seed) * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
	return (unsigned int)(x >> 33);
}

/* Mostly nothing, sometimes some turns, now and then long enough for anything. */
static void step(void)
{
	unsigned int r = atomic_load_explicit(&delays, memory_order_relaxed) ? rnd() % 64 : 63;

	if (r < 4)
		usleep(r * 30);
	else if (r < 16)
		sched_yield();
	else if (r < 24)
		for (volatile unsigned int i = r * 20; i; i--)
			;
}

static void nap(void)
{
	usleep(200);
}

#define until(cond) \
	do { \
		for (int i_ = 0; !(cond); i_++) { \
			nap(); \
			assert_true(i_ < 20000); \
		} \
	} while (0)

/* ---- threads that do one thing ---- */

static int sv[2], other[2], pp[2], filefd;	/* sv[0] is the fd in question */

struct worker {
	pthread_t t;
	_Atomic int tid, stage, go;
	void (*fn)(struct worker *w);
	sigjmp_buf env;
	bool joined;
};

static void *worker_main(void *p)
{
	struct worker *w = p;

	atomic_store(&w->tid, (int)IW_SYS(gettid));
	w->fn(w);
	return NULL;
}

static void worker_start(struct worker *w, void (*fn)(struct worker *w))
{
	memset(w, 0, sizeof(*w));
	w->fn = fn;
	assert_false(pthread_create(&w->t, NULL, worker_main, w));
	until(atomic_load(&w->tid));
}

static void asleep_in(struct worker *w, long nr)
{
	struct look l = { .dir = open("/proc/self/task", O_RDONLY | O_DIRECTORY) };
	struct state k;

	for (int i = 0;; i++) {
		ask(&l, atomic_load(&w->tid), &k);
		if (k.is == ASLEEP && k.nr == nr)
			break;
		nap();
		if (i > 20000)
			{ fprintf(stderr, "want %ld: state %d nr %ld\n", nr, k.is, k.nr); abort(); }
	}
	close(l.dir);
}

/* As an entry point asks. */
static bool quiet(int fd)
{
	bool q;

	iw_call_begin(fd);
	q = iw_quiet(fd, NULL);
	iw_call_end();
	return q;
}

static int setup(void **state)
{
	assert_false(socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	assert_false(socketpair(AF_UNIX, SOCK_STREAM, 0, other));
	assert_false(pipe(pp));
	filefd = open("/dev/zero", O_RDONLY);
	return 0;
}

static int teardown(void **state)
{
	atomic_store(&delays, false);
	close(sv[0]);
	close(sv[1]);
	close(other[0]);
	close(other[1]);
	close(pp[0]);
	close(pp[1]);
	close(filefd);
	return 0;
}

/* The fd is not quiet while the worker sleeps in it, another is; and it is quiet when it is out. */
static void blocked(void (*fn)(struct worker *w), long nr, int wake)
{
	struct worker w;
	char c;

	worker_start(&w, fn);
	asleep_in(&w, nr);
	assert_false(quiet(sv[0]));
	assert_true(quiet(sv[1]));
	assert_int_equal(write(wake, "x", 1), 1);
	pthread_join(w.t, NULL);
	assert_true(quiet(sv[0]));
	recv(sv[0], &c, 1, MSG_DONTWAIT);	/* where it was waited for and not read */
}

static void w_recv(struct worker *w)
{
	char c;

	iw_call_begin(sv[0]);
	recv(sv[0], &c, 1, 0);
	iw_call_end();
}

static void w_raw(struct worker *w)
{
	char c;

	syscall(SYS_read, sv[0], &c, 1);
}

static void w_poll(struct worker *w)
{
	struct pollfd v[100];

	for (int i = 0; i < 100; i++)
		v[i] = (struct pollfd){ .fd = -1 };
	v[97] = (struct pollfd){ .fd = sv[0], .events = POLLIN };
	iw_call_begin_poll(v, 100);
	poll(v, 100, -1);
	iw_call_end();
}

static void w_poll_raw(struct worker *w)
{
	struct pollfd v = { .fd = sv[0], .events = POLLIN };

	syscall(SYS_ppoll, &v, 1, NULL, NULL, 8);
}

static void w_select(struct worker *w)
{
	fd_set r, e;

	FD_ZERO(&r);
	FD_ZERO(&e);
	FD_SET(sv[0], &r);
	FD_SET(other[0], &e);
	iw_call_begin_select(100, &r, NULL, &e);
	select(100, &r, NULL, &e, NULL);
	iw_call_end();
}

static void w_select_raw(struct worker *w)
{
	fd_set r;

	FD_ZERO(&r);
	FD_SET(sv[0], &r);
	select(100, &r, NULL, NULL, NULL);
}

static void w_splice(struct worker *w)
{
	splice(sv[0], NULL, pp[1], NULL, 1, 0);
}

static void is_blocked(void **state)
{
	blocked(w_recv, SYS_recvfrom, sv[1]);
	blocked(w_raw, SYS_read, sv[1]);
	blocked(w_poll, SYS_poll, sv[1]);
	blocked(w_poll_raw, SYS_ppoll, sv[1]);
	blocked(w_select, SYS_pselect6, sv[1]);
	blocked(w_select_raw, SYS_pselect6, sv[1]);
	blocked(w_splice, SYS_splice, sv[1]);
}

static FILE *stream;

static void w_fgetc(struct worker *w)
{
	fgetc(stream);
}

static void is_blocked_stdio(void **state)
{
	stream = fdopen(sv[0], "r");
	blocked(w_fgetc, SYS_read, sv[1]);
	fclose(stream);
	sv[0] = -1;
}

/* The socket is the second fd of the call. */
static void w_sendfile(struct worker *w)
{
	char buf[4096] = { 0 };

	while (send(sv[0], buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	iw_call_begin(sv[0]);
	sendfile(sv[0], filefd, NULL, 1 << 20);
	iw_call_end();
}

static void w_splice_out(struct worker *w)
{
	char buf[4096] = { 0 };

	while (send(sv[0], buf, sizeof(buf), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(write(pp[1], buf, sizeof(buf)), sizeof(buf));
	splice(pp[0], NULL, sv[0], NULL, sizeof(buf), 0);
}

static void is_blocked_out(void **state)
{
	void (*fns[])(struct worker *) = { w_sendfile, w_splice_out };
	long nrs[] = { SYS_sendfile, SYS_splice };

	for (int i = 0; i < 2; i++) {
		struct worker w;

		worker_start(&w, fns[i]);
		asleep_in(&w, nrs[i]);
		assert_false(quiet(sv[0]));
		assert_true(quiet(other[0]));
		shutdown(sv[1], SHUT_RDWR);
		pthread_join(w.t, NULL);
		assert_true(quiet(sv[0]));
		teardown(NULL);
		setup(NULL);
	}
}

/* ---- not asleep ---- */

static void w_spin_in(struct worker *w)
{
	iw_call_begin(sv[0]);
	atomic_store(&w->stage, 1);
	while (!atomic_load(&w->go))
		;
	iw_call_end();
	atomic_store(&w->stage, 2);
	while (atomic_load(&w->go) < 2)
		;
}

static void w_spin_array(struct worker *w)
{
	struct pollfd v = { .fd = sv[0], .events = POLLIN };

	iw_call_begin_poll(&v, 1);
	atomic_store(&w->stage, 1);
	while (!atomic_load(&w->go))
		;
	iw_call_end();
	atomic_store(&w->stage, 2);
	while (atomic_load(&w->go) < 2)
		;
}

/* It sleeps in something else that the call does. */
static void w_sleep_in(struct worker *w)
{
	iw_call_begin(sv[0]);
	atomic_store(&w->stage, 1);
	while (!atomic_load(&w->go))
		nap();
	iw_call_end();
	atomic_store(&w->stage, 2);
	while (atomic_load(&w->go) < 2)
		nap();
}

static void is_busy(void **state)
{
	void (*fns[])(struct worker *) = { w_spin_in, w_spin_array, w_sleep_in };

	for (int i = 0; i < 3; i++) {
		struct worker w;

		worker_start(&w, fns[i]);
		until(atomic_load(&w.stage) == 1);
		assert_false(quiet(sv[0]));
		assert_true(quiet(sv[1]));
		atomic_store(&w.go, 1);
		until(atomic_load(&w.stage) == 2);
		assert_true(quiet(sv[0]));
		atomic_store(&w.go, 2);
		pthread_join(w.t, NULL);
	}
}

/* A call that ends while it is looked at does not make the other one give up. */
static void w_short(struct worker *w)
{
	while (!atomic_load(&w->go)) {
		iw_call_begin(sv[0]);
		if (atomic_load(&w->stage) != 1)	/* the gate */
			for (volatile int i = 0; i < 1000; i++)
				;
		iw_call_end();
	}
}

static void waits_a_little(void **state)
{
	struct worker w;
	int got = 0;

	worker_start(&w, w_short);
	for (int i = 0; i < 200 || (!got && i < 1000000); i++) {	/* it may have no processor for all of the first */
		atomic_store(&w.stage, 1);
		got += quiet(sv[0]);
		atomic_store(&w.stage, 0);
	}
	atomic_store(&w.go, 1);
	pthread_join(w.t, NULL);
	assert_in_range(got, 1, 1000000);
}

/* ---- nested ---- */

static _Atomic int handled;
static _Atomic bool in_handler[3];

static void on_usr1(int sig)
{
	int e = errno;

	in_handler[0] = quiet(sv[0]);	/* which the handler interrupted */
	iw_call_begin(other[0]);
	in_handler[1] = iw_quiet(other[0], NULL);
	in_handler[2] = iw_quiet(sv[0], NULL);
	iw_call_end();
	atomic_fetch_add(&handled, 1);
	errno = e;
}

static void w_interrupted(struct worker *w)
{
	char c;

	iw_call_begin(sv[0]);
	while (recv(sv[0], &c, 1, 0) < 0)
		;
	iw_call_end();
}

static void handler_inside(void **state)
{
	struct sigaction sa = { .sa_handler = on_usr1 };	/* no SA_RESTART */
	struct worker w;

	sigaction(SIGUSR1, &sa, NULL);
	atomic_store(&handled, 0);
	worker_start(&w, w_interrupted);
	for (int i = 1; i < 5; i++) {
		asleep_in(&w, SYS_recvfrom);
		pthread_kill(w.t, SIGUSR1);
		until(atomic_load(&handled) == i);
		assert_false(in_handler[0]);
		assert_true(in_handler[1]);
		assert_false(in_handler[2]);
		asleep_in(&w, SYS_recvfrom);
		assert_false(quiet(sv[0]));
	}
	assert_int_equal(write(sv[1], "x", 1), 1);
	pthread_join(w.t, NULL);
	assert_true(quiet(sv[0]));
}

static __attribute__((noinline)) void deeper(int n, struct worker *w)
{
	volatile char room[2048];	/* as between a call and a handler's */

	room[0] = 0;
	iw_call_begin(n == 1 ? sv[0] : other[0]);
	if (n) {
		deeper(n - 1, w);
	} else {
		atomic_store(&w->stage, 1);
		while (!atomic_load(&w->go))
			nap();
	}
	iw_call_end();
	room[1] = room[0];
}

static void w_deep(struct worker *w)
{
	int n = atomic_load(&w->go);

	atomic_store(&w->go, 0);
	deeper(n, w);
	atomic_store(&w->stage, 2);
	while (atomic_load(&w->go) < 2)
		nap();
}

/* As many calls in one another as one likes: those that have no room count as any fd. */
static void nested_deep(void **state)
{
	for (int n = 0; n < IW_CALL_DEPTH + 4; n++) {
		struct worker w = { .fn = w_deep, .go = n };

		assert_false(pthread_create(&w.t, NULL, worker_main, &w));
		until(atomic_load(&w.stage) == 1);
		assert_int_equal(quiet(sv[0]), n == 0);
		assert_int_equal(quiet(sv[1]), n < IW_CALL_DEPTH);
		atomic_store(&w.go, 1);
		until(atomic_load(&w.stage) == 2);
		assert_true(quiet(sv[0]));
		assert_true(quiet(sv[1]));
		assert_true(quiet(other[0]));
		atomic_store(&w.go, 2);
		pthread_join(w.t, NULL);
	}
}

/* ---- left without an end ---- */

/* What the thread sleeps in after it has left this is less deep. */
static __attribute__((noinline)) void recv_deeper(void)
{
	volatile char room[8192];

	room[0] = 0;
	w_recv(NULL);
	room[1] = room[0];
}

static __thread struct worker *me;

static void on_usr2(int sig)
{
	siglongjmp(me->env, 1);
}

static void w_jumps(struct worker *w)
{
	me = w;
	for (volatile int i = 0; i < 4; i++) {
		if (!sigsetjmp(w->env, 1))
			recv_deeper();
		atomic_fetch_add(&w->stage, 1);
		until(atomic_load(&w->go) > i);
	}
	iw_call_begin(other[0]);	/* finds that what was left was left */
	if (iw_slot->call[1].sp)
		abort();
	iw_call_end();
	if (iw_slot->call[0].sp)
		abort();
}

static void jumped_out(void **state)
{
	struct sigaction sa = { .sa_handler = on_usr2 };
	struct worker w;

	sigaction(SIGUSR2, &sa, NULL);
	worker_start(&w, w_jumps);
	for (int i = 0; i < 4; i++) {
		asleep_in(&w, SYS_recvfrom);
		assert_false(quiet(sv[0]));
		pthread_kill(w.t, SIGUSR2);
		until(atomic_load(&w.stage) == i + 1);
		until(quiet(sv[0]));
		atomic_store(&w.go, i + 1);
	}
	pthread_join(w.t, NULL);
}

/* A handler's own call is left too, and both are forgotten. */
static void on_usr2_deep(int sig)
{
	iw_call_begin(other[0]);
	siglongjmp(me->env, 1);
}

static void jumped_out_nested(void **state)
{
	struct sigaction sa = { .sa_handler = on_usr2_deep };
	struct worker w;

	sigaction(SIGUSR2, &sa, NULL);
	worker_start(&w, w_jumps);
	for (int i = 0; i < 4; i++) {
		asleep_in(&w, SYS_recvfrom);
		pthread_kill(w.t, SIGUSR2);
		until(atomic_load(&w.stage) == i + 1);
		until(quiet(sv[0]));
		until(quiet(other[0]));
		atomic_store(&w.go, i + 1);
	}
	pthread_join(w.t, NULL);
}

static void cleanup(void *p)
{
	struct worker *w = p;

	atomic_store(&w->stage, 1);
	while (!atomic_load(&w->go))
		nap();
}

static void w_cancelled(struct worker *w)
{
	pthread_cleanup_push(cleanup, w);
	recv_deeper();
	pthread_cleanup_pop(0);
}

__attribute__((unused)) static void cancelled(void **state)
{
	struct worker w;

	worker_start(&w, w_cancelled);
	asleep_in(&w, SYS_recvfrom);
	assert_false(quiet(sv[0]));
	pthread_cancel(w.t);
	until(atomic_load(&w.stage));
	until(quiet(sv[0]));		/* though it is still there */
	atomic_store(&w.go, 1);
	pthread_join(w.t, NULL);
	assert_true(quiet(sv[0]));
	for (uint32_t i = 0; i < SLOTS; i++)
		assert_false(owners[i] && &slots[i] != iw_slot);
}

/* Killed as no thread should be: nothing of libc's runs, and the slot stays until somebody needs it. */
static void w_raw_exit(struct worker *w)
{
	char c;

	iw_call_begin(sv[0]);
	atomic_store(&w->stage, 1);
	recv(sv[0], &c, 1, 0);
	syscall(SYS_exit, 0);
}

static void w_attach(struct worker *w)
{
	iw_call_begin(other[0]);
	atomic_store(&w->stage, iw_slot == &nobody ? -1 : (int)(iw_slot - slots) + 1);
	while (!atomic_load(&w->go))
		nap();
	iw_call_end();
}

__attribute__((unused)) static void slots_of_the_dead(void **state)
{
	struct worker w, x;

	worker_start(&w, w_raw_exit);
	asleep_in(&w, SYS_recvfrom);
	assert_int_equal(write(sv[1], "x", 1), 1);
	while (!syscall(SYS_tgkill, getpid(), atomic_load(&w.tid), 0))
		nap();
	assert_true(quiet(sv[0]));
	for (uint32_t i = 0; i < SLOTS; i++)	/* nothing is free */
		if (!owners[i])
			owners[i] = (uint64_t)(uint32_t)getpid();
	high = SLOTS;
	worker_start(&x, w_attach);
	until(atomic_load(&x.stage));
	assert_in_range(atomic_load(&x.stage), 1, SLOTS);
	assert_int_equal(tid_of(owners[x.stage - 1]), atomic_load(&x.tid));
	assert_false(quiet(other[0]));
	assert_true(quiet(sv[0]));
	atomic_store(&x.go, 1);
	pthread_join(x.t, NULL);
	assert_false(slotless);
	/* really nothing */
	for (uint32_t i = 0; i < SLOTS; i++)
		if (!owners[i])
			owners[i] = (uint64_t)(uint32_t)getpid();
	worker_start(&x, w_attach);
	until(atomic_load(&x.stage));
	assert_int_equal(atomic_load(&x.stage), -1);
	assert_false(quiet(sv[0]));
	atomic_store(&x.go, 1);
	pthread_join(x.t, NULL);
	assert_true(slotless);
	slotless = false;
	high = 0;
	for (uint32_t i = 0; i < SLOTS; i++) {
		if (&slots[i] == iw_slot)
			high = i + 1;
		else
			owners[i] = 0;
	}
}

/* ---- many ---- */

static void w_wait(struct worker *w)
{
	while (!atomic_load(&w->go))
		usleep(20000);
}

static void many_threads(void **state)
{
	static struct worker w[IW_QUIET_THREADS];
	int n = threads(open("/proc/self/task", O_RDONLY | O_DIRECTORY)), k = 0;

	for (; n < IW_QUIET_THREADS; n++)
		worker_start(&w[k++], w_wait);
	assert_true(quiet(sv[0]));
	worker_start(&w[k++], w_wait);
	assert_false(quiet(sv[0]));
	for (int i = 0; i < k; i++)
		atomic_store(&w[i].go, 1);
	for (int i = 0; i < k; i++)
		pthread_join(w[i].t, NULL);
	assert_true(quiet(sv[0]));
}

/* Threads that come and go meanwhile: the list may be short, the answer may not be wrong. */
static void w_nothing(struct worker *w)
{
	iw_call_begin(other[0]);
	iw_call_end();
}

static void w_churn(struct worker *w)
{
	while (!atomic_load(&w->go)) {
		struct worker x;

		worker_start(&x, w_nothing);
		pthread_join(x.t, NULL);
	}
}

static void churn(void **state)
{
	struct worker c[3], w;
	int n = 0;

	atomic_store(&delays, true);
	for (int i = 0; i < 2; i++)
		worker_start(&c[i], w_churn);
	worker_start(&w, w_raw);
	asleep_in(&w, SYS_read);
	worker_start(&c[2], w_churn);
	for (int i = 0; i < 300; i++) {
		assert_false(quiet(sv[0]));
		n += quiet(sv[1]);
	}
	assert_int_equal(write(sv[1], "x", 1), 1);
	pthread_join(w.t, NULL);
	for (int i = 0; i < 3; i++) {
		atomic_store(&c[i].go, 1);
		pthread_join(c[i].t, NULL);
	}
	print_message("quiet %d of 300 times while threads come and go\n", n);
	assert_true(quiet(sv[0]));
	assert_true(atomic_load(&high) < 64);
}

/* ---- fork, vfork ---- */

static void in_child(int (*fn)(void))
{
	pid_t pid = fork();
	int st;

	assert_true(pid >= 0);
	if (!pid) {
		iw_quiet_forked_child();
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
}

static int child_alone(void)
{
	struct worker w;

	if (!quiet(sv[0]))	/* where the parent's thread sleeps */
		return 1;
	for (uint32_t i = 0; i < SLOTS; i++)
		if (owners[i] && &slots[i] != iw_slot)
			return 2;
	if (NO_THREADS_IN_CHILDREN)
		return 0;
	worker_start(&w, w_raw);
	asleep_in(&w, SYS_read);
	if (quiet(sv[0]) || !quiet(sv[1]))
		return 3;
	return 0;
}

/* Another thread of the child finds what this one, whose number changed, is in. */
static void w_asks(struct worker *w)
{
	atomic_store(&w->stage, quiet(sv[0]) ? 1 : 2);
	atomic_store(&w->go, 1);
}

static int child_seen(void)
{
	struct worker w;

	iw_call_begin(sv[0]);
	worker_start(&w, w_asks);
	while (!atomic_load(&w.go))
		;
	iw_call_end();
	pthread_join(w.t, NULL);
	return atomic_load(&w.stage) != 2;
}

static void forks(void **state)
{
	struct worker w;

	assert_true(quiet(sv[0]));	/* we have a slot */
	worker_start(&w, w_recv);
	asleep_in(&w, SYS_recvfrom);
	in_child(child_alone);
	if (!NO_THREADS_IN_CHILDREN)
		in_child(child_seen);
	assert_false(quiet(sv[0]));
	assert_int_equal(write(sv[1], "x", 1), 1);
	pthread_join(w.t, NULL);
}

/* In a vfork child calls are made in the parent's slot: also one that never ends. */
static void w_vforks(struct worker *w)
{
	for (volatile int i = 0; i < 3; i++) {
		pid_t pid = vfork();

		if (!pid) {
			iw_call_begin(sv[0]);
			if (i)
				iw_call_end();
			if (i == 2)
				syscall(SYS_kill, getpid(), SIGKILL);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	iw_call_begin(other[0]);
	iw_call_end();
	atomic_store(&w->stage, iw_slot->call[0].sp ? 2 : 1);
	while (!atomic_load(&w->go))
		nap();
}

__attribute__((unused)) static void vforks(void **state)
{
	struct worker w;

	worker_start(&w, w_vforks);
	until(atomic_load(&w.stage));
	assert_int_equal(atomic_load(&w.stage), 1);
	assert_true(quiet(sv[0]));
	atomic_store(&w.go, 1);
	pthread_join(w.t, NULL);
}

/* ---- what may be refused ---- */

static int refuse(int nr)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { sizeof(f) / sizeof(f[0]), f };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
}

static int refused_nr;

static int child_refused(void)
{
	static struct worker w;

	if (refuse(refused_nr) || !quiet(sv[0]))	/* alone there is nothing to ask */
		return 1;
	worker_start(&w, w_wait);
	return quiet(sv[0]) ? 2 : 0;
}

__attribute__((unused)) static void refusals(void **state)
{
	int nrs[] = { SYS_membarrier, SYS_openat, SYS_getdents64, SYS_read, SYS_fstat };

	for (unsigned int i = 0; i < sizeof(nrs) / sizeof(nrs[0]); i++) {
		refused_nr = nrs[i];
		in_child(child_refused);
	}
}

/* An array that cannot be looked at may have any fd. */
static void w_bad_array(struct worker *w)
{
	iw_call_begin_poll((void *)8, 1);
	atomic_store(&w->stage, 1);
	while (!atomic_load(&w->go))
		nap();
	iw_call_end();
}

static void bad_array(void **state)
{
	struct worker w;

	worker_start(&w, w_bad_array);
	until(atomic_load(&w.stage));
	assert_false(quiet(sv[0]));
	atomic_store(&w.go, 1);
	pthread_join(w.t, NULL);
	assert_true(quiet(sv[0]));
}

/* ---- callers against one who wants the fd ---- */

#define CALLERS	4
#define FDS	3

static _Atomic int word[FDS];		/* 1: gated */
static _Atomic int inside[FDS];
static _Atomic bool stop;
static int fds[FDS];

static void w_caller(struct worker *w)
{
	struct pollfd v[FDS];
	fd_set s;

	for (int i = 0; i < FDS; i++)
		v[i].fd = fds[i];
	while (!atomic_load(&stop)) {
		int i = (int)(rnd() % FDS), how = (int)(rnd() % 4), gated = 0;

		if (how == 0) {
			iw_call_begin_poll(v + i, 1);
		} else if (how == 1) {
			FD_ZERO(&s);
			FD_SET(fds[i], &s);
			iw_call_begin_select(fds[i] + 1, &s, NULL, NULL);
		} else {
			iw_call_begin(fds[i]);
		}
		gated = atomic_load_explicit(&word[i], memory_order_relaxed);
		if (!gated) {
			atomic_fetch_add_explicit(&inside[i], 1, memory_order_relaxed);
			step();
			atomic_fetch_sub_explicit(&inside[i], 1, memory_order_relaxed);
		}
		iw_call_end();
		if (gated)
			sched_yield();
	}
}

static void w_switcher(struct worker *w)
{
	while (!atomic_load(&stop)) {
		int i = (int)(rnd() % FDS), none = 0;

		if (!atomic_compare_exchange_strong(&word[i], &none, 1)) {
			sched_yield();
			continue;
		}
		step();
		if (quiet(fds[i])) {
			for (int k = rnd() % 4; k >= 0; k--) {
				if (atomic_load(&inside[i]))
					fail_msg("somebody was inside");
				step();
			}
			atomic_fetch_add(&w->stage, 1);
		}
		atomic_store(&word[i], 0);
		step();
	}
}

static void race(void **state)
{
	struct worker w[CALLERS + 2];
	fds[0] = sv[0];
	fds[1] = sv[1];
	fds[2] = other[0];
	atomic_store(&stop, false);
	atomic_store(&delays, true);
	for (int i = 0; i < CALLERS + 2; i++)
		worker_start(&w[i], i < CALLERS ? w_caller : w_switcher);
	/* for two seconds, and on a busy machine until it was quiet once */
	for (int i = 0; i < 2000 || (i < 60000 && !atomic_load(&w[CALLERS].stage) && !atomic_load(&w[CALLERS + 1].stage)); i++)
		usleep(1000);
	atomic_store(&stop, true);
	for (int i = 0; i < CALLERS + 2; i++)
		pthread_join(w[i].t, NULL);
	print_message("quiet %d + %d times\n", atomic_load(&w[CALLERS].stage), atomic_load(&w[CALLERS + 1].stage));
	assert_true(atomic_load(&w[CALLERS].stage) + atomic_load(&w[CALLERS + 1].stage) > 0);
}

/*
 * The caller's store and load against the other's, round by round, as close together as it gets. Without the fence they are seen to miss
 * each other on two processors that have nothing else to do, which tells that this can fail.
 */
static _Atomic int round_no, done_no, gate, missed;
static struct iw_slot *_Atomic theirs;

static void spin_until(_Atomic int *v, int want)
{
	for (unsigned int i = 1; atomic_load_explicit(v, memory_order_acquire) != want; i++)
		if (!(i % 4096))
			sched_yield();
}

static void w_dekker(struct worker *w)
{
	iw_call_begin(sv[0]);
	iw_call_end();
	atomic_store(&theirs, iw_slot);
	for (int i = 1;; i++) {
		spin_until(&round_no, i);
		if (atomic_load(&w->go))
			return;
		iw_call_begin(sv[0]);
		atomic_store_explicit(&missed, !atomic_load_explicit(&gate, memory_order_relaxed), memory_order_relaxed);
		atomic_store_explicit(&done_no, i, memory_order_release);
		spin_until(&done_no, 0);
		iw_call_end();
	}
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int dekker_rounds(bool fenced, int ms)
{
	int64_t end = now_ms() + ms;
	struct worker w;
	int both = 0, i;

	round_no = done_no = 0;
	theirs = NULL;
	worker_start(&w, w_dekker);
	until(atomic_load(&theirs));
	for (i = 1; now_ms() < end; i++) {
		bool unseen;

		atomic_store(&gate, 0);
		atomic_store_explicit(&round_no, i, memory_order_release);
		for (volatile unsigned int k = rnd() % 64; k; k--)
			;
		atomic_store_explicit(&gate, 1, memory_order_relaxed);
		if (fenced)
			assert_true(fence());
		unseen = !IW_SLOT_GET(atomic_load_explicit(&theirs, memory_order_relaxed)->call[0].sp);
		spin_until(&done_no, i);
		both += unseen && atomic_load(&missed);
		atomic_store_explicit(&done_no, 0, memory_order_release);
	}
	atomic_store(&w.go, 1);
	atomic_store(&round_no, i);
	pthread_join(w.t, NULL);
	print_message("with%s fence missed in %d of %d rounds\n", fenced ? "" : "out", both, i);
	return both;
}

static void dekker(void **state)
{
	dekker_rounds(false, 300);
	assert_int_equal(dekker_rounds(true, 700), 0);
}

/* ---- alone ---- */

static void alone(void **state)
{
	assert_true(quiet(sv[0]));
	iw_call_begin(sv[0]);
	deeper(0, &(struct worker){ .go = 1 });
	assert_true(iw_quiet(sv[0], NULL));
	iw_call_end();
	assert_false(iw_slot->call[0].sp);
	assert_false(iw_quiet(-1, NULL));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(alone),
#ifndef __SANITIZE_THREAD__
		TEST(refusals),
		TEST(vforks),
#endif
		TEST(is_blocked),
		TEST(is_blocked_stdio),
		TEST(is_blocked_out),
		TEST(is_busy),
		TEST(waits_a_little),
		TEST(handler_inside),
		TEST(nested_deep),
		TEST(jumped_out),
		TEST(jumped_out_nested),
#ifndef __SANITIZE_ADDRESS__
		TEST(cancelled),
#endif
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		TEST(slots_of_the_dead),
#endif
		TEST(many_threads),
		TEST(churn),
		TEST(forks),
		TEST(bad_array),
		TEST(race),
		TEST(dekker),
	};
	const char *s = getenv("IW_SEED");

	seed = s ? (unsigned int)strtoul(s, NULL, 0) : (unsigned int)time(NULL) * 31 + (unsigned int)getpid();
	printf("# IW_SEED=%u\n", seed);
	iw_quiet_init();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
