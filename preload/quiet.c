// SPDX-License-Identifier: MIT
/*
 * Which threads are inside a call on a fd: their slots, and what /proc says of them.
 *
 * A slot belongs to a thread from its first call to its end. It is written by its thread alone; what a longjmp or a cancellation left in
 * it is passed over by others when the thread sleeps further up on its stack, and put right by the thread at its next call. A handler on an
 * alternate stack above the interrupted call takes that for one that was left. So for the instant between its begin and its system call the
 * interrupted one is not seen, as raw calls are not: what it may find then under the number is a carrier, which is the kernel's to use too.
 */
#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>

#include "fdtab.h"
#include "quiet.h"
#include "sleeps.h"
#include "sys.h"

#ifndef IW_QUIET_STEP	/* tests wait here, each for as long as it likes */
#define IW_QUIET_STEP(what) ((void)0)
#endif

#ifndef IW_QUIET_FRAME
#define IW_QUIET_FRAME	512u	/* less than what lies on the stack between a call and one of a handler that interrupted it */
#endif

#define SLOTS	4096u	/* threads at a time */
#define LOOKS	16	/* at threads that may be about to return */
#define YIELD	8	/* left of them when we begin to let others run */

static struct iw_slot slots[SLOTS];
static _Atomic uint64_t owners[SLOTS];	/* 0, or the thread; above it, how often the slot was taken over from a dead one of that number */
static _Atomic uint32_t high;		/* no slot from here on was ever used */
static _Atomic bool slotless;		/* some thread found none */
static pthread_key_t key;
static bool keyed;

static struct iw_slot nobody = { .call = { [0].sp = 1, [1].sp = 1 } };
__thread struct iw_slot *iw_slot __attribute__((tls_model("initial-exec"))) = &nobody;

/* ---- slots ---- */

/* What libc knows of this thread without asking the kernel; in a vfork child, the parent's thread, whose slot it is. */
static int own_tid(void)
{
	pthread_mutex_t m = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	int tid;

	pthread_mutex_lock(&m);
	tid = m.__data.__owner;
	pthread_mutex_unlock(&m);
	return tid > 0 ? tid : (int)IW_SYS(gettid);
}

static int tid_of(uint64_t owner)
{
	return (int)(uint32_t)owner;
}

static void slot_clear(struct iw_slot *s)
{
	for (int i = IW_CALL_DEPTH - 1; i >= 0; i--)
		IW_SLOT_SET(s->call[i].sp, 0);
	IW_SLOT_SET(s->over, 0);
}

/* A handler's call in between may take it back. */
static void slot_release(void *p)
{
	struct iw_slot *s = p;
	uint64_t o = atomic_load(&owners[s - slots]);

	iw_sleeps_left();
	iw_slot = &nobody;
	atomic_signal_fence(memory_order_seq_cst);
	slot_clear(s);
	atomic_compare_exchange_strong(&owners[s - slots], &o, 0);
}

static bool take(uint32_t i, uint64_t old, int tid)
{
	uint64_t gen = old ? (old >> 32) + 1 : 0;
	uint32_t h = atomic_load(&high);

	if (!atomic_compare_exchange_strong(&owners[i], &old, (uint64_t)(uint32_t)tid | gen << 32))
		return false;
	while (h <= i && !atomic_compare_exchange_weak(&high, &h, i + 1))
		;
	return true;
}

/* One that a thread with our number left, or that is free. */
static int slot_unused(int tid)
{
	int first = -1;

	for (uint32_t i = 0; i < SLOTS; i++) {
		uint64_t o = atomic_load(&owners[i]);

		if (tid_of(o) == tid && take(i, o, tid))
			return (int)i;
		if (!o && first < 0)
			first = (int)i;
		if (first >= 0 && i >= atomic_load(&high))
			break;
	}
	return first;
}

/* That of a thread which is no more. */
static int slot_left(int tid)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		uint64_t o = atomic_load(&owners[i]);

		if (o && IW_SYS(tgkill, IW_SYS(getpid), tid_of(o), 0) == -ESRCH && take(i, o, tid))
			return (int)i;
	}
	return -1;
}

static int slot_find(int tid)
{
	int i;

	do
		i = slot_unused(tid);
	while (i >= 0 && tid_of(atomic_load(&owners[i])) != tid && !take((uint32_t)i, 0, tid));
	return i >= 0 ? i : slot_left(tid);
}

static struct iw_slot *attach(void)
{
	int i = slot_find(own_tid());

	if (i < 0) {
		atomic_store(&slotless, true);
		return NULL;
	}
	slot_clear(&slots[i]);
	iw_slot = &slots[i];
	if (keyed)
		pthread_setspecific(key, &slots[i]);
	return &slots[i];
}

/* Calls that began at sp or below it are over, since this one is not inside them. Returns the number of those that are left. */
static int prune(struct iw_slot *s, uintptr_t sp)
{
	int n = IW_CALL_DEPTH;

	while (n && IW_SLOT_GET(s->call[n - 1].sp) <= sp + IW_QUIET_FRAME) {	/* what is not in use has 0 */
		IW_SLOT_SET(s->call[n - 1].sp, 0);
		n--;
	}
	if (n < IW_CALL_DEPTH)
		IW_SLOT_SET(s->over, 0);
	return n;
}

void iw_call_begin_nested(int fd, uint32_t n, const void *a, const void *b, const void *c, uintptr_t sp)
{
	struct iw_slot *s = iw_slot == &nobody ? attach() : iw_slot;
	int i;

	if (!s)
		return;
	i = prune(s, sp);
	if (i == IW_CALL_DEPTH) {
		IW_SLOT_SET(s->over, IW_SLOT_GET(s->over) + 1);
		return;
	}
	IW_SLOT_SET(s->call[i].sp, sp);
	atomic_signal_fence(memory_order_seq_cst);
	IW_SLOT_SET(s->call[i].fd, fd);
	IW_SLOT_SET(s->call[i].n, n);
	IW_SLOT_SET(s->call[i].v[0], (uintptr_t)a);
	IW_SLOT_SET(s->call[i].v[1], (uintptr_t)b);
	IW_SLOT_SET(s->call[i].v[2], (uintptr_t)c);
	atomic_signal_fence(memory_order_seq_cst);
}

void iw_call_end_nested(uintptr_t sp)
{
	struct iw_slot *s = iw_slot;
	int n = IW_CALL_DEPTH;

	if (s == &nobody)
		return;
	atomic_thread_fence(memory_order_release);
	if (IW_SLOT_GET(s->over)) {
		IW_SLOT_SET(s->over, IW_SLOT_GET(s->over) - 1);
		return;
	}
	while (n && !IW_SLOT_GET(s->call[n - 1].sp))
		n--;
	if (n)
		IW_SLOT_SET(s->call[n - 1].sp, 0);
	prune(s, sp);
}

/* ---- the look ---- */

struct look {
	int fd;
	int dir, mem;		/* /proc/self/task; /proc/self/mem, opened when first needed: -1 */
	int left;		/* looks at threads that may be about to return */
	uint64_t way;		/* the number of a slot + 1, above it the fd of the call */
};

static int proc_open(const char *name, int flags)
{
	return (int)IW_SYS(openat, AT_FDCWD, name, flags | O_CLOEXEC, 0);
}

/* Another thread's memory, which it may give back meanwhile. */
static bool mem_read(struct look *l, uint64_t at, void *to, size_t n)
{
	if (l->mem < 0)
		l->mem = proc_open("/proc/self/mem", O_RDONLY);
	return l->mem >= 0 && at <= INT64_MAX && IW_SYS(pread64, l->mem, to, n, at) == (long)n;
}

/* Is fd in it? What cannot be read may have it. */
static bool array_has(struct look *l, uint64_t at, uint64_t n)
{
	struct pollfd p[64];

	if (n > IW_FD_MAX)
		return true;
	while (n) {
		uint64_t k = n < 64 ? n : 64;

		if (!mem_read(l, at, p, k * sizeof(*p)))
			return true;
		for (uint64_t i = 0; i < k; i++)
			if (p[i].fd == l->fd)
				return true;
		at += k * sizeof(*p);
		n -= k;
	}
	return false;
}

static bool sets_have(struct look *l, uint64_t n, const uint64_t *set)
{
	unsigned long word;

	for (int i = 0; i < 3 && (uint64_t)l->fd < n; i++) {
		if (!set[i])
			continue;
		if (!mem_read(l, set[i] + (uint64_t)l->fd / (8 * sizeof(word)) * sizeof(word), &word, sizeof(word)))
			return true;
		if (word >> (uint64_t)l->fd % (8 * sizeof(word)) & 1)
			return true;
	}
	return false;
}

static bool call_has(struct look *l, const struct iw_call *c)
{
	uint64_t v[3] = { IW_SLOT_GET(c->v[0]), IW_SLOT_GET(c->v[1]), IW_SLOT_GET(c->v[2]) };
	int fd = IW_SLOT_GET(c->fd);

	if (fd == IW_CALL_POLL)
		return array_has(l, v[0], IW_SLOT_GET(c->n));
	if (fd == IW_CALL_SELECT)
		return sets_have(l, IW_SLOT_GET(c->n), v);
	return fd == l->fd;
}

/* What the kernel says of a thread. */
struct state {
	enum { GONE, RUNNING, ASLEEP, HIDDEN } is;
	long nr;		/* ASLEEP in this system call; -1: in none */
	uint64_t arg[6], sp;
};

static const char *hex(const char *p, uint64_t *v)
{
	for (*v = 0; *p == ' ' || *p == 'x' || (*p == '0' && p[1] == 'x'); p++)
		;
	for (;; p++) {
		unsigned int c = (unsigned char)*p, d = c >= 'a' ? c - 'a' + 10 : c - '0';

		if (d >= 16)
			return p;
		*v = *v * 16 + d;
	}
}

/* "running", "-1 sp pc", or "number six-arguments sp pc" */
static void parse(const char *p, struct state *k)
{
	k->is = ASLEEP;
	k->nr = 0;
	if (*p == 'r') {
		k->is = RUNNING;
	} else if (*p == '-') {
		k->nr = -1;
		hex(p + 2, &k->sp);
	} else if (*p >= '0' && *p <= '9') {
		for (; *p >= '0' && *p <= '9'; p++)
			k->nr = k->nr * 10 + (*p - '0');
		for (int i = 0; i < 6; i++)
			p = hex(p, &k->arg[i]);
		hex(p, &k->sp);
	} else {
		k->is = HIDDEN;
	}
	if (k->is == ASLEEP && !k->sp)	/* has ended and waits for the others, or never is where programs are: a worker of io_uring */
		k->is = GONE;
}

static void ask(const struct look *l, int tid, struct state *k)
{
	char name[32], line[256], *p = name + sizeof(name) - sizeof("/syscall");
	int fd;
	long n;

	*k = (struct state){ .is = GONE };
	memcpy(p, "/syscall", sizeof("/syscall"));
	do
		*--p = (char)('0' + tid % 10);
	while (tid /= 10);
	fd = (int)IW_SYS(openat, l->dir, p, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0) {
		k->is = fd == -ENOENT || fd == -ESRCH ? GONE : HIDDEN;
		return;
	}
	n = IW_SYS(read, fd, line, sizeof(line) - 1);
	IW_SYS(close, fd);
	if (n <= 0) {
		k->is = !n || n == -ESRCH ? GONE : HIDDEN;
		return;
	}
	line[n] = 0;
	parse(line, k);
}

/* Does this system call, which sleeps, work on the fd? */
static bool sleeps_on(struct look *l, const struct state *k)
{
	const uint64_t *a = k->arg;
	int fd = l->fd;

	switch (k->nr) {
	case -1:
	case SYS_futex:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_wait4:
	case SYS_waitid:
	case SYS_rt_sigsuspend:
	case SYS_rt_sigtimedwait:
	case SYS_msgrcv:
	case SYS_msgsnd:
	case SYS_semop:
	case SYS_semtimedop:
#ifdef SYS_pause
	case SYS_pause:
#endif
		return false;
#ifdef SYS_poll
	case SYS_poll:
#endif
	case SYS_ppoll:
		return array_has(l, a[0], (uint32_t)a[1]);
	case SYS_restart_syscall:	/* of poll, among others */
		return a[1] <= IW_FD_MAX && array_has(l, a[0], (uint32_t)a[1]);
#ifdef SYS_select
	case SYS_select:
#endif
	case SYS_pselect6:
		return sets_have(l, (int)a[0] > 0 ? (uint32_t)a[0] : 0, a + 1);
	case SYS_sendfile:
	case SYS_tee:
		return (int)a[0] == fd || (int)a[1] == fd;
	case SYS_splice:
		return (int)a[0] == fd || (int)a[2] == fd;
	default:
		return (int)a[0] == fd;
	}
}

/* Is the thread, by its slot, in a call on the fd that it has not left? */
static bool slot_has(struct look *l, int tid, const struct state *k)
{
	uint32_t n = atomic_load(&high);

	for (uint32_t i = 0; i < n; i++) {
		if (tid_of(atomic_load(&owners[i])) != tid)
			continue;
		for (int j = 0; j < IW_CALL_DEPTH; j++) {
			const struct iw_call *c = &slots[i].call[j];
			uintptr_t sp = atomic_load_explicit(&c->sp, memory_order_acquire);

			if (sp && !(k->is == ASLEEP && k->sp >= sp) && (IW_SLOT_GET(slots[i].over) || call_has(l, c))) {
				l->way = (uint64_t)(uint32_t)IW_SLOT_GET(c->fd) << 32 | (i + 1);
				return true;
			}
		}
	}
	return false;
}

static bool thread_out(struct look *l, int tid)
{
	struct state k;

	for (; l->left > 0; l->left--) {
		ask(l, tid, &k);
		IW_QUIET_STEP("asked");
		if (k.is == HIDDEN || (k.is == ASLEEP && sleeps_on(l, &k))) {
			slot_has(l, tid, &k);	/* whose call it is, if it is one of ours */
			return false;
		}
		if (k.is == GONE || !slot_has(l, tid, &k))
			return true;
		if (l->left <= YIELD)
			IW_SYS(sched_yield);
	}
	return false;
}

/* Number of threads, by the links of the directory. -errno. */
static int threads(int dir)
{
	struct stat st;
	long r = IW_SYS(fstat, dir, &st);

	return r < 0 ? (int)r : (int)st.st_nlink - 2;
}

/* What a part of the list has, behind the n that are there. How many there are then. */
static int tids_of(const char *buf, long len, int tids[IW_QUIET_THREADS], int n)
{
	for (long at = 0; at < len;) {
		const char *name = buf + at + 19;	/* ino, off: 8 each; length: 2; type: 1 */
		uint16_t step;
		int tid = 0;

		memcpy(&step, buf + at + 16, sizeof(step));
		at += step;
		for (; *name >= '0' && *name <= '9'; name++)
			tid = tid * 10 + (*name - '0');
		if (tid && n < IW_QUIET_THREADS)
			tids[n++] = tid;
	}
	return n;
}

/* A list that threads enter and leave meanwhile may miss others. In parts, since the stack may be small. */
static int list_once(int dir, int tids[IW_QUIET_THREADS])
{
	_Alignas(8) char buf[32 * 32];
	int want = threads(dir), n = 0;
	long len;

	if (want < 1 || want > IW_QUIET_THREADS)
		return -1;
	IW_SYS(lseek, dir, 0, SEEK_SET);
	while ((len = IW_SYS(getdents64, dir, buf, sizeof(buf))) > 0)
		n = tids_of(buf, len, tids, n);
	IW_QUIET_STEP("listed");
	return n == want && threads(dir) == want ? n : -1;
}

int iw_threads(int dir, int tids[IW_QUIET_THREADS])
{
	int n = -1;

	for (int tries = 4; n < 0 && tries; tries--)
		n = list_once(dir, tids);
	return n;
}

static bool others_out(struct look *l, int self)
{
	int tids[IW_QUIET_THREADS], n = iw_threads(l->dir, tids);
	bool seen = false;

	for (int i = 0; i < n; i++) {
		if (tids[i] == self)
			seen = true;
		else if (!thread_out(l, tids[i]))
			return false;
	}
	return seen;	/* else it is the /proc of another pid namespace */
}

/* Calls of our own that this one interrupted. */
static bool interrupted(struct look *l)
{
	struct iw_slot *s = iw_slot;

	if (s == &nobody)
		return false;
	for (int i = 0; i + 1 < IW_CALL_DEPTH && IW_SLOT_GET(s->call[i + 1].sp); i++)
		if (call_has(l, &s->call[i]))
			return true;
	return IW_SLOT_GET(s->over);
}

static bool fence(void)
{
	if (IW_SYS(membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) >= 0)
		return true;
	return IW_SYS(membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) >= 0 &&
	       IW_SYS(membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) >= 0;
}

static bool look(struct look *l)
{
	if (interrupted(l))
		return false;
	if (__libc_single_threaded)
		return true;
	if (atomic_load(&slotless) || !fence())
		return false;
	IW_QUIET_STEP("fence");
	l->dir = proc_open("/proc/self/task", O_RDONLY | O_DIRECTORY);
	return l->dir >= 0 && others_out(l, (int)IW_SYS(gettid));
}

bool iw_quiet(int fd, uint64_t *way)
{
	struct look l = { .fd = fd, .dir = -1, .mem = -1, .left = LOOKS };
	bool quiet = fd >= 0 && look(&l);

	if (way)
		*way = l.way;

	if (l.dir >= 0)
		IW_SYS(close, l.dir);
	if (l.mem >= 0)
		IW_SYS(close, l.mem);
	return quiet;
}

bool iw_quiet_in_way(uint64_t way)
{
	for (int i = 0; way && i < IW_CALL_DEPTH; i++) {
		const struct iw_call *c = &slots[(uint32_t)way - 1].call[i];

		if (IW_SLOT_GET(c->sp) && IW_SLOT_GET(c->fd) == (int)(way >> 32))
			return true;
	}
	return false;
}

/* ---- start, fork ---- */

void iw_quiet_init(void)
{
	keyed = !pthread_key_create(&key, slot_release) && key < 32;	/* libc has no need of memory for the first ones */
	IW_SYS(membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
}

/* The one thread that is left has another number. */
void iw_quiet_forked_child(void)
{
	uint32_t n = atomic_load(&high);

	for (uint32_t i = 0; i < n; i++) {
		if (&slots[i] == iw_slot) {
			atomic_store(&owners[i], (uint64_t)IW_SYS(gettid));
		} else if (atomic_load(&owners[i])) {
			slot_clear(&slots[i]);
			atomic_store(&owners[i], 0);
		}
	}
	atomic_store(&slotless, iw_slot == &nobody && atomic_load(&slotless));
}
