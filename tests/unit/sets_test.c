// SPDX-License-Identifier: MIT
/*
 * Sets (preload/sets.c): registrations that nobody told the library of, found with mask and data by what the kernel says, in small sets and
 * large ones, with and without kcmp; and io_uring with and without something to do.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "preload/sys.h"

static unsigned int asked;	/* of how many numbers what socket it is */

#undef IW_SYS5
#define IW_SYS5(n, a, b, c, d, e) (asked += SYS_##n == SYS_getsockopt, sys6(SYS_##n, IW_L(a), IW_L(b), IW_L(c), IW_L(d), IW_L(e), 0))
#include "preload/fdinfo.c"
#include "preload/sets.c"
#define IW_QUIET_STEP(what) ((void)0)
#include "preload/quiet.c"

void iw_sleeps_left(void) { }

_Atomic uint32_t iw_fdtab[IW_FD_MAX];
_Atomic int iw_fd_high = -1;

static int in_between = -1, instead;	/* before this number is noted another thread makes it another file's */

bool iw_word_cas(int fd, uint32_t old, uint32_t w)
{
	if (fd == in_between) {
		assert_int_equal(syscall(SYS_dup2, instead, fd), fd);
		in_between = -1;
	}
	if (w && atomic_load(&iw_fd_high) < fd)
		atomic_store(&iw_fd_high, fd);
	return atomic_compare_exchange_strong(&iw_fdtab[fd], &old, w);
}

void iw_set_seen(int epfd)
{
	iw_word_found(epfd, iw_word_make(IW_FD_EPOLL, 7), iw_is_set);
}

static int t, other, set;	/* the socket in question, its other end, a set that nobody told of */

static int new_set(void)
{
	return (int)syscall(SYS_epoll_create1, 0);
}

static int setup(void **state)
{
	int v[2];

	assert_false(socketpair(AF_UNIX, SOCK_STREAM, 0, v));
	t = v[0];
	other = v[1];
	set = new_set();
	memset(&sizes, 0, sizeof(sizes));
	next_us = 0;
	asked = 0;
	return 0;
}

/* As if every number were new: those that are closed are forgotten. */
static int teardown(void **state)
{
	int last = atomic_load(&iw_fd_high);

	close(t);
	close(other);
	close(set);
	for (int fd = 0; fd <= last; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			atomic_store(&iw_fdtab[fd], 0);
	return 0;
}

static void ctl(int ep, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event e = { .events = events, .data.u64 = data };

	assert_int_equal(syscall(SYS_epoll_ctl, ep, op, fd, &e), 0);
}

#define FOUND 4
static struct iw_in_set found[FOUND];

static int look_n(const int *fds, unsigned int n, const struct iw_in_set *known)
{
	struct iw_files v;

	memset(found, 0, sizeof(found));
	iw_files_look(&v, fds, n);
	return iw_sets_of(&v, known, found, FOUND);
}

static int find(const struct iw_in_set *known)
{
	return look_n(&t, 1, known);
}

#define STATES (uint32_t)(EPOLLERR | EPOLLHUP)	/* which the kernel has in each */

static bool is_there(int ep, int fd, uint32_t events, uint64_t data)
{
	for (int i = 0; i < FOUND; i++)
		if (found[i].epfd == ep && found[i].fd == fd && (found[i].events & ~STATES) == events && found[i].data == data)
			return true;
	return false;
}

/* ---- sets ---- */

static void entries(void **state)
{
	int set2 = new_set(), outer = new_set();

	assert_int_equal(find(NULL), 0);
	ctl(set, EPOLL_CTL_ADD, other, EPOLLIN, 1);
	assert_int_equal(find(NULL), 0);
	ctl(set, EPOLL_CTL_ADD, t, EPOLLIN | EPOLLET, 0xfedcba9876543210);
	assert_int_equal(find(NULL), 1);
	assert_true(is_there(set, t, EPOLLIN | EPOLLET, 0xfedcba9876543210));
	ctl(set2, EPOLL_CTL_ADD, t, EPOLLOUT | EPOLLET | EPOLLEXCLUSIVE, 5);
	assert_int_equal(find(NULL), 2);
	assert_true(is_there(set, t, EPOLLIN | EPOLLET, 0xfedcba9876543210));
	assert_true(is_there(set2, t, EPOLLOUT | EPOLLET | EPOLLEXCLUSIVE, 5));
	ctl(outer, EPOLL_CTL_ADD, set, EPOLLIN, 1);		/* a set of sets has not the file */
	assert_int_equal(find(NULL), 2);
	ctl(set2, EPOLL_CTL_DEL, t, 0, 0);
	ctl(set, EPOLL_CTL_MOD, t, 0, 2);
	assert_int_equal(find(NULL), 1);
	assert_true(is_there(set, t, 0, 2));
	close(set2);
	close(outer);
	assert_int_equal(find(NULL), 1);			/* sets that were closed unseen */
}

static void oneshot(void **state)
{
	struct epoll_event e;

	ctl(set, EPOLL_CTL_ADD, t, EPOLLIN | EPOLLONESHOT, 3);
	assert_int_equal(find(NULL), 1);
	assert_true(is_there(set, t, EPOLLIN | EPOLLONESHOT, 3));
	assert_int_equal(write(other, "x", 1), 1);
	assert_int_equal(epoll_wait(set, &e, 1, 10000), 1);
	assert_int_equal(find(NULL), 1);
	assert_true(found[0].fired && found[0].data == 3);
	ctl(set, EPOLL_CTL_MOD, t, EPOLLOUT | EPOLLONESHOT, 4);
	assert_int_equal(find(NULL), 1);
	assert_true(is_there(set, t, EPOLLOUT | EPOLLONESHOT, 4));
}

/* The same file by two numbers, and by one that is not ours any more. */
static void numbers(void **state)
{
	int two[2] = { t, dup(t) }, three;
	struct iw_files v;

	ctl(set, EPOLL_CTL_ADD, two[0], EPOLLIN, 1);
	ctl(set, EPOLL_CTL_ADD, two[1], EPOLLOUT, 2);
	assert_int_equal(look_n(two, 2, NULL), 2);
	assert_true(is_there(set, two[0], EPOLLIN, 1));
	assert_true(is_there(set, two[1], EPOLLOUT, 2));
	assert_int_equal(look_n(two, 1, NULL), -EBUSY);
	iw_files_look(&v, two, 2);
	assert_false(v.unknown);
	iw_files_look(&v, two, 1);
	assert_true(v.unknown);
	close(two[1]);
	assert_int_equal(look_n(two, 1, NULL), -EBUSY);
	iw_files_look(&v, two, 1);
	assert_false(v.unknown);
	ctl(set, EPOLL_CTL_DEL, t, 0, 0);
	/* the number has been another file's, which the set has still */
	three = dup(other);
	ctl(set, EPOLL_CTL_ADD, three, EPOLLIN, 7);
	close(three);
	close(set);
	set = new_set();
	three = dup(other);
	ctl(set, EPOLL_CTL_ADD, three, EPOLLIN, 7);
	dup2(t, three);
	ctl(set, EPOLL_CTL_ADD, three, EPOLLOUT, 8);
	two[1] = three;
	assert_int_equal(look_n(two, 2, NULL), 1);
	assert_true(is_there(set, three, EPOLLOUT, 8));
	close(three);
}

/* One set with several numbers has the file once. */
static void numbers_of_set(void **state)
{
	int again = dup(set), third = dup(set), set2 = new_set();

	ctl(set, EPOLL_CTL_ADD, t, EPOLLIN, 1);
	assert_int_equal(find(NULL), 1);
	assert_true(is_there(set, t, EPOLLIN, 1));
	ctl(set2, EPOLL_CTL_ADD, t, EPOLLIN, 1);	/* which looks the same and is not */
	assert_int_equal(find(NULL), 2);
	assert_true(is_there(set2, t, EPOLLIN, 1));
	close(again);
	close(third);
	close(set2);
}

static void too_many(void **state)
{
	int sets[IW_SETS];
	struct iw_files v;

	for (int i = 0; i < FOUND; i++) {
		sets[i] = new_set();
		ctl(sets[i], EPOLL_CTL_ADD, t, EPOLLIN, 1);
	}
	assert_int_equal(find(NULL), FOUND);
	ctl(set, EPOLL_CTL_ADD, t, EPOLLIN, 1);
	assert_int_equal(find(NULL), -E2BIG);
	for (int i = FOUND; i < IW_SETS; i++)
		sets[i] = new_set();
	assert_int_equal(find(NULL), -E2BIG);
	iw_files_look(&v, &t, 1);
	assert_true(v.many);
	assert_false(iw_uring_quiet(&v));
	for (int i = 0; i < IW_SETS; i++)
		close(sets[i]);
}

/* ---- numbers far away, and what is known of them ---- */

static struct rlimit old_limit;

static int far_dup(int fd)
{
	struct rlimit r;
	int far;

	assert_false(getrlimit(RLIMIT_NOFILE, &old_limit));
	r = old_limit;
	r.rlim_cur = r.rlim_cur > 3000 ? r.rlim_cur : r.rlim_max > 3000 ? 3000 : r.rlim_max;
	assert_false(setrlimit(RLIMIT_NOFILE, &r));
	far = fcntl(fd, F_DUPFD, (int)r.rlim_cur - 10);
	assert_true(far > 900);
	return far;
}

static void far_away(void **state)
{
	struct iw_files v;
	int far = far_dup(set);
	bool seen = false;

	close(set);
	set = -1;
	for (int i = 0; i < (open_count() < 0 ? (int)TURNS : 1) && !seen; i++) {
		iw_files_look(&v, &t, 1);
		seen = v.sets && v.set[v.sets - 1] == far;
	}
	assert_true(seen);
	iw_files_look(&v, &t, 1);		/* known from now on */
	assert_int_equal(v.set[v.sets - 1], far);
	close(far);
	setrlimit(RLIMIT_NOFILE, &old_limit);
}

/* A socket that was inherited is nothing that is noted: found once, it is asked alone, and not all numbers again. */
static void far_socket(void **state)
{
	struct iw_files v;
	int far, more;

	if (open_count() < 0)
		skip();
	far = far_dup(other);
	iw_files_look(&v, &t, 1);
	assert_true(asked > 900);
	asked = 0;
	iw_files_look(&v, &t, 1);
	assert_false(v.unknown);
	assert_in_range(asked, 1, 100);
	more = fcntl(t, F_DUPFD, far - 500);
	iw_files_look(&v, &t, 1);
	assert_true(v.unknown);
	close(far);
	close(more);
	asked = 0;
	iw_files_look(&v, &t, 1);
	iw_files_look(&v, &t, 1);
	assert_false(v.unknown);
	assert_in_range(asked, 1, 200);
	setrlimit(RLIMIT_NOFILE, &old_limit);
}

/* The table still knows of some that are closed, so that there are no more open than it knows. */
static void far_alias(void **state)
{
	int gone[3], far;
	struct iw_files v;

	if (open_count() < 0)
		skip();
	for (int i = 0; i < 3; i++)
		gone[i] = open("/dev/null", O_RDONLY);
	iw_files_look(&v, &t, 1);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(iw_word(gone[i]), IW_OTHER_SEEN);
		close(gone[i]);
	}
	iw_files_look(&v, &t, 1);
	assert_false(v.unknown);
	far = far_dup(t);
	iw_files_look(&v, &t, 1);
	assert_true(v.unknown);
	close(far);
	iw_files_look(&v, &t, 1);
	assert_false(v.unknown);
	setrlimit(RLIMIT_NOFILE, &old_limit);
}

static void once(void **state)
{
	int file = open("/dev/null", O_RDONLY);
	struct iw_files v;

	iw_files_look(&v, &t, 1);
	assert_int_equal(iw_word(file), IW_OTHER_SEEN);
	assert_int_equal(iw_word(other), 0);		/* an unknown socket is looked at each time */
	assert_int_equal(iw_word_kind(iw_word(set)), IW_FD_EPOLL);
	close(file);
}

/* ---- large sets ---- */

#define LARGE 1200

static int many[LARGE];

static void fill(void)
{
	struct rlimit r;

	getrlimit(RLIMIT_NOFILE, &r);
	r.rlim_cur = r.rlim_max < 4096 ? r.rlim_max : 4096;
	setrlimit(RLIMIT_NOFILE, &r);
	for (int i = 0; i < LARGE; i++) {
		many[i] = dup(other);
		assert_true(many[i] > 0);
		ctl(set, EPOLL_CTL_ADD, many[i], EPOLLIN, (uint64_t)i);
		atomic_store(&iw_fdtab[many[i]], IW_OTHER_SEEN);
	}
}

static void empty(void)
{
	for (int i = 0; i < LARGE; i++) {
		close(many[i]);
		atomic_store(&iw_fdtab[many[i]], 0);
	}
}

static int wait_find(const struct iw_in_set *known)
{
	int n, turns = 0;

	while ((n = find(known)) == -EAGAIN && turns++ < 20000)
		usleep(1000);
	return n;
}

static void large(void **state)
{
	struct iw_in_set noted = { set, t, EPOLLIN | EPOLLOUT, 99, false }, absent = { set, other, EPOLLIN, 1, false };

	fill();
	assert_int_equal(find(NULL), 0);		/* looked through: how many there are is known now */
	assert_int_equal(find(NULL), 0);		/* so that this needs no look at all of them */
	ctl(set, EPOLL_CTL_ADD, t, EPOLLIN, 5);
	assert_int_equal(find(NULL), -EAGAIN);		/* it is there, as what one cannot say at once */
	assert_int_equal(find(&absent), -EAGAIN);
	assert_int_equal(find(&noted), 1);		/* what one was told is believed */
	assert_true(is_there(set, t, EPOLLIN | EPOLLOUT, 99));
	assert_int_equal(wait_find(NULL), 1);
	assert_true(is_there(set, t, EPOLLIN, 5));
	ctl(set, EPOLL_CTL_DEL, t, 0, 0);
	assert_int_equal(wait_find(&noted), 0);		/* and not if the kernel says otherwise */
	empty();
}

static int refuse_kcmp(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kcmp, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog p = { sizeof(f) / sizeof(f[0]), f };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
}

#define child_assert(cond) \
	do { \
		if (!(cond)) { \
			fprintf(stderr, "# line %d: %s\n", __LINE__, #cond); \
			_exit(1); \
		} \
	} while (0)

/* Whoever calls kcmp is killed. */
static void without_kcmp(void **state)
{
	struct iw_in_set noted = { set, t, EPOLLIN | EPOLLOUT, 99, false };
	pid_t pid;
	int st;

	fill();
	ctl(set, EPOLL_CTL_ADD, t, EPOLLIN, 5);
	pid = fork();
	if (!pid) {
		int again;

		child_assert(!refuse_kcmp());
		child_assert(wait_find(NULL) == 1);
		child_assert(is_there(set, t, EPOLLIN, 5));
		child_assert(wait_find(&noted) == 1);
		child_assert(is_there(set, t, EPOLLIN, 5));	/* believed is what the kernel says */
		again = dup(set);
		child_assert(again >= 0);
		child_assert(wait_find(NULL) == -EACCES);	/* one set or two? */
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	empty();
}

/* ---- io_uring ---- */

static struct {
	int fd;
	struct io_uring_params p;
	void *sq;
	struct io_uring_sqe *sqes;
} u;

static void ring_open(void)
{
	memset(&u, 0, sizeof(u));
	u.fd = (int)syscall(SYS_io_uring_setup, 8, &u.p);
	assert_true(u.fd >= 0);
	u.sq = mmap(NULL, u.p.sq_off.array + u.p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, u.fd, IORING_OFF_SQ_RING);
	u.sqes = mmap(NULL, u.p.sq_entries * sizeof(*u.sqes), PROT_READ | PROT_WRITE, MAP_SHARED, u.fd, IORING_OFF_SQES);
	assert_ptr_not_equal(u.sq, MAP_FAILED);
	assert_ptr_not_equal(u.sqes, MAP_FAILED);
}

static void ring_close(void)
{
	munmap(u.sq, u.p.sq_off.array + u.p.sq_entries * 4);
	munmap(u.sqes, u.p.sq_entries * sizeof(*u.sqes));
	syscall(SYS_close, u.fd);
}

/* In the queue, not yet submitted. */
static void ring_put(const struct io_uring_sqe *sqe)
{
	uint32_t *tail = (uint32_t *)((char *)u.sq + u.p.sq_off.tail), *array = (uint32_t *)((char *)u.sq + u.p.sq_off.array);
	uint32_t i = *tail % u.p.sq_entries;

	u.sqes[i] = *sqe;
	array[i] = i;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
}

static void ring_submit(unsigned int wait)
{
	assert_int_equal(syscall(SYS_io_uring_enter, u.fd, 1, wait, wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0), 1);
}

static bool uring_quiet(void)
{
	struct iw_files v;

	iw_files_look(&v, &t, 1);
	return iw_uring_quiet(&v);
}

static void rings(void **state)
{
	static char buf[8];
	struct io_uring_sqe recv_t = { .opcode = IORING_OP_RECV, .fd = t, .addr = (uintptr_t)buf, .len = 8 };
	struct io_uring_sqe nop = { .opcode = IORING_OP_NOP };
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT, .data.u64 = 77 };
	struct io_uring_sqe add = { .opcode = IORING_OP_EPOLL_CTL, .fd = set, .off = (uint64_t)t, .len = EPOLL_CTL_ADD, .addr = (uintptr_t)&ev };
	int files[3] = { other, -1, t };

	assert_true(uring_quiet());
	ring_open();
	assert_true(uring_quiet());
	ring_put(&nop);
	assert_false(uring_quiet());		/* not taken yet: might be anything */
	ring_submit(1);
	assert_true(uring_quiet());
	ring_put(&recv_t);
	ring_submit(0);
	assert_false(uring_quiet());
	assert_int_equal(write(other, "x", 1), 1);
	ring_put(&nop);
	ring_submit(1);
	for (int i = 0; i < 10000 && !uring_quiet(); i++)
		usleep(1000);
	assert_true(uring_quiet());
	assert_int_equal(syscall(SYS_io_uring_register, u.fd, IORING_REGISTER_FILES, files, 2), 0);
	assert_true(uring_quiet());		/* another file is */
	assert_int_equal(syscall(SYS_io_uring_register, u.fd, IORING_UNREGISTER_FILES, NULL, 0), 0);
	assert_int_equal(syscall(SYS_io_uring_register, u.fd, IORING_REGISTER_FILES, files, 3), 0);
	assert_false(uring_quiet());
	assert_int_equal(syscall(SYS_io_uring_register, u.fd, IORING_UNREGISTER_FILES, NULL, 0), 0);
	assert_true(uring_quiet());
	/* a set that a ring fills */
	assert_int_equal(find(NULL), 0);
	ring_put(&add);
	ring_submit(1);
	assert_true(uring_quiet());
	assert_int_equal(find(NULL), 1);
	assert_true(is_there(set, t, EPOLLIN | EPOLLOUT, 77));
	ring_close();
	assert_true(uring_quiet());
	/* its number is another file's now, without a word */
	assert_int_equal(open("/dev/null", O_RDONLY), u.fd);
	assert_true(uring_quiet());
	close(u.fd);
}

/* An operation in a thread of the kernel's. */
static void ring_worker(void **state)
{
	static char buf[8];
	int p[2];
	struct io_uring_sqe slow = { .opcode = IORING_OP_READ, .addr = (uintptr_t)buf, .len = 8, .flags = IOSQE_ASYNC };

	assert_false(pipe(p));
	slow.fd = p[0];
	ring_open();
	ring_put(&slow);
	ring_submit(0);
	for (int i = 0; i < 10000 && !workers(); i++)
		usleep(1000);
	assert_true(workers());
	assert_false(uring_quiet());
	ring_close();
	for (int i = 0; i < 20000 && workers(); i++)
		usleep(1000);
	assert_true(uring_quiet());
	close(p[0]);
	close(p[1]);
}

/* ---- what the kernel might write ---- */

static struct ring said(const char *const *lines)
{
	struct ring r = { -1, -1, -1, .lists = false };

	for (; *lines; lines++)
		ring_line(&r, *lines, 4711);
	return r;
}

static void ring_text(void **state)
{
	static const char *const idle[] = { "pos:\t0", "SqHead:\t5", "SqTail:\t5", "UserFiles:\t3", "    0: socket:[471]", "    1: <none>", "    2: socket:[47110]",
		"UserBufs:\t0", "PollList:", "CqOverflowList:", "  user_data=4711", NULL };
	static const char *const files[] = { "SqHead:\t0", "SqTail:\t0", "UserFiles:\t1", "    0: socket:[4711]", "PollList:", NULL };
	static const char *const polls[] = { "SqHead:\t0", "SqTail:\t0", "PollList:", "  op=22, task_works=0", NULL };
	static const char *const short_[] = { "SqHead:\t1", "SqTail:\t2", "UserFiles:\t0", NULL };
	struct ring r = said(idle);

	assert_true(r.lists && !r.busy && r.submitted == 5 && r.taken == 5);
	assert_true(said(files).busy);
	assert_true(said(polls).busy);
	r = said(short_);
	assert_true(!r.lists && r.submitted != r.taken);
}

/* What came in its place, of which nothing is known, may be a connection. */
static void replaced_meanwhile(void **state)
{
	for (int i = 0; i < 2; i++) {
		int fd = i ? new_set() : (int)syscall(SYS_eventfd2, 0, 0);

		instead = other;
		in_between = fd;
		assert_int_equal(find(NULL), 0);
		assert_int_equal(in_between, -1);
		assert_int_equal(iw_word(fd), 0);
		close(fd);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(entries),
		TEST(oneshot),
		TEST(numbers),
		TEST(numbers_of_set),
		TEST(too_many),
		TEST(far_away),
		TEST(far_socket),
		TEST(far_alias),
		TEST(once),
		TEST(large),
		TEST(without_kcmp),
		TEST(rings),
		TEST(ring_worker),
		TEST(ring_text),
		TEST(replaced_meanwhile),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
