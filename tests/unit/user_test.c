// SPDX-License-Identifier: MIT
/*
 * Memory of the application (preload/user.c, fault.c): four pages with every combination of rights, ranges from and to each side of their edges, by
 * touching and by asking the kernel; and what becomes of faults that are the program's, and of those for whom none may come.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "preload/user.c"
#include "preload/fault.c"

_Atomic uint32_t iw_handlers_unseen;
struct iw_real iw_real;
static bool vforked;
bool iw_in_vfork(void) { return vforked; }

#define PAGES	4u
#define FULL	0xa5

static uint8_t full[PAGE];
static const int rights[] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE };
static const size_t at[] = { 0, 1, 3, 4, 5, 7, 8, 9, 2000, PAGE - 9, PAGE - 8, PAGE - 7, PAGE - 5, PAGE - 4, PAGE - 3, PAGE - 1 };
#define NAT (sizeof(at) / sizeof(at[0]))

/* That of page i in the combination of this number. */
static int right(unsigned int n, size_t i)
{
	while (i--)
		n /= 3;
	return rights[n % 3];
}

static bool all(unsigned int n, size_t from, size_t to, int need)
{
	for (size_t i = from / PAGE; i <= (to - 1) / PAGE; i++)
		if (!(right(n, i) & need))
			return false;
	return true;
}

/* Nothing but these octets was touched. */
static void only_within(unsigned int n, const uint8_t *m, size_t from, size_t to)
{
	for (size_t i = 0; i < PAGES; i++) {
		size_t start = i * PAGE, end = start + PAGE, head = from < end ? from : end, tail = to > start ? to : start;

		if (!(right(n, i) & PROT_READ))
			continue;
		assert_true(head <= start || !memcmp(m + start, full, head - start));
		assert_true(tail >= end || !memcmp(m + tail, full, end - tail));
	}
}

static void range(unsigned int n, uint8_t *m, size_t from, size_t to)
{
	bool writes = all(n, from, to, PROT_WRITE);

	assert_int_equal(iw_user_readable(m + from, to - from), all(n, from, to, PROT_READ));
	assert_int_equal(iw_user_writable(m + from, to - from), writes);
	only_within(n, m, 0, 0);
	assert_int_equal(iw_user_fillable(m + from, to - from), writes);
	only_within(n, m, from, to);
	for (size_t i = from; i < to; i += i % PAGE ? PAGE - i % PAGE : PAGE)
		if (right(n, i / PAGE) & PROT_WRITE)
			memset(m + i, FULL, to - i < PAGE - i % PAGE ? to - i : PAGE - i % PAGE);
}

static void rights_of_pages(void **state)
{
	uint8_t *m = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(m != MAP_FAILED);
	memset(full, FULL, PAGE);
	for (unsigned int n = 0; n < 81; n++) {
		assert_int_equal(mprotect(m, PAGES * PAGE, PROT_READ | PROT_WRITE), 0);
		memset(m, FULL, PAGES * PAGE);
		for (size_t i = 0; i < PAGES; i++)
			assert_int_equal(mprotect(m + i * PAGE, PAGE, right(n, i)), 0);
		for (size_t from = 0; from < NAT; from++)
			for (size_t to = 0; to < NAT * PAGES; to++)
				if (at[from] < to / NAT * PAGE + at[to % NAT])
					range(n, m, at[from], to / NAT * PAGE + at[to % NAT]);
	}
	munmap(m, PAGES * PAGE);
}

static void no_address(void **state)
{
	static void *const bad[] = { NULL, (void *)1, (void *)-1, (void *)-8, (void *)(1ul << 63) };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_true(iw_user_readable(bad[i], 0) && iw_user_fillable(bad[i], 0));
		assert_false(iw_user_readable(bad[i], 8) || iw_user_writable(bad[i], 8) || iw_user_fillable(bad[i], 8));
		assert_false(iw_user_readable(bad[i], SIZE_MAX / 2) || iw_user_fillable(bad[i], SIZE_MAX / 2));
	}
}

/* ---- faults ---- */

static void stand_not(void)
{
	struct sigaction none = { .sa_handler = SIG_DFL };

	atomic_store(&iw_faults, false);
	sigaction(SIGSEGV, &none, NULL);
	sigaction(SIGBUS, &none, NULL);
	iw_faults_changed();
}

/* cmocka has handlers of its own in a test. */
static void stand_now(void)
{
	stand_not();
	iw_real.sigaction = sigaction;
	iw_faults_stand();
	if (KNOWN)
		assert_true(iw_faults_come());
	else
		skip();
}

static void rights_by_touch(void **state)
{
	stand_now();
	rights_of_pages(NULL);
	stand_not();
}

static void no_address_by_touch(void **state)
{
	stand_now();
	no_address(NULL);
	stand_not();
}

static void *bad(void)
{
	void *p = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static void behind_a_file(void **state)
{
	int fd = memfd_create("iwt", MFD_CLOEXEC);
	char *p;

	stand_now();
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(p != MAP_FAILED);
	close(fd);
	assert_true(iw_user_readable(p, PAGE) && iw_user_writable(p, PAGE));
	assert_false(iw_user_readable(p, PAGE + 1) || iw_user_writable(p, PAGE + 1) || iw_user_fillable(p + 1, PAGE));
	munmap(p, 2 * PAGE);
	stand_not();
}

/* What a child ended by. */
static int status_of(void (*f)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		f();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void crash(void) { *(volatile char *)bad() = 1; }
static char *volatile nowhere = (char *)16;
static void crash_low(void) { *(volatile char *)nowhere = 1; }
static void sent(void) { kill(getpid(), SIGSEGV); }
static void sent_bus(void) { raise(SIGBUS); }

static int set_by(int n, sighandler_t h, int flags, struct sigaction *old)
{
	struct sigaction a = { .sa_handler = h, .sa_flags = flags }, was;

	if (!old)
		old = &was;
	sigemptyset(&a.sa_mask);
	sigaddset(&a.sa_mask, SIGUSR1);
	return iw_fault_change(n, &a, old);
}

static sigjmp_buf out;
static volatile sig_atomic_t came;
static uint64_t inside;

static void jumps(int n)
{
	came = n;
	IW_SYS(rt_sigprocmask, SIG_BLOCK, NULL, &inside, 8);
	siglongjmp(out, 1);
}

static void exits(int n) { _exit(40 + n); }
static void once(void) { set_by(SIGSEGV, exits, (int)SA_RESETHAND, NULL); kill(getpid(), SIGSEGV); }
static void returns(int n) { came++; }
static void returns_twice(void) { set_by(SIGSEGV, returns, (int)SA_RESETHAND, NULL); kill(getpid(), SIGSEGV); if (came == 1) kill(getpid(), SIGSEGV); }
static void ignored(void) { set_by(SIGSEGV, SIG_IGN, 0, NULL); kill(getpid(), SIGSEGV); if (!atomic_load(&iw_faults)) _exit(7); }
static void ignored_fault(void) { set_by(SIGSEGV, SIG_IGN, 0, NULL); crash(); }

/* As without the library: the status, and a core that says where. */
static void without_handler(void **state)
{
	int seg;

	stand_now();
	seg = status_of(crash);
	assert_true(WIFSIGNALED(seg) && WTERMSIG(seg) == SIGSEGV);
	seg = status_of(crash_low);
	assert_true(WIFSIGNALED(seg) && WTERMSIG(seg) == SIGSEGV);
	seg = status_of(sent);
	assert_true(WIFSIGNALED(seg) && WTERMSIG(seg) == SIGSEGV);
	seg = status_of(sent_bus);
	assert_true(WIFSIGNALED(seg) && WTERMSIG(seg) == SIGBUS);
	stand_not();
}

static void with_handler(void **state)
{
	struct sigaction a;
	char *p = bad();
	int st;

	stand_now();
	assert_int_equal(set_by(SIGSEGV, jumps, SA_RESTART, &a), 0);
	assert_ptr_equal(a.sa_handler, SIG_DFL);
	came = 0;
	if (!sigsetjmp(out, 1))
		*(volatile char *)p = 1;
	assert_int_equal(came, SIGSEGV);
	assert_true(inside & (1ull << (SIGUSR1 - 1)) && inside & (1ull << (SIGSEGV - 1)));
	assert_int_equal(iw_faults_way, IW_FAULTS_ASK);
	came = 0;
	assert_false(iw_user_readable(p, 1) || iw_user_writable(p, 1));
	assert_int_equal(came, 0);
	sigaction(SIGSEGV, NULL, &a);
	iw_fault_theirs(SIGSEGV, &a);
	assert_true(a.sa_handler == jumps && a.sa_flags == SA_RESTART && sigismember(&a.sa_mask, SIGUSR1) == 1);
	assert_int_equal(set_by(SIGSEGV, SIG_DFL, 0, &a), 0);
	assert_true(a.sa_handler == jumps && a.sa_flags == SA_RESTART);
	st = status_of(once);
	assert_true(WIFEXITED(st) && WEXITSTATUS(st) == 40 + SIGSEGV);
	st = status_of(returns_twice);
	assert_true(WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV);
	st = status_of(ignored);
	assert_true(WIFEXITED(st) && WEXITSTATUS(st) == 7);
	st = status_of(ignored_fault);
	assert_true(WIFSIGNALED(st) && WTERMSIG(st) == SIGSEGV);
	munmap(p, PAGE);
	stand_not();
}

/* Set before, by whatever call: it is the program's still. */
static void had_handler(void **state)
{
	struct sigaction a = { .sa_handler = jumps };
	char *p = bad();

	stand_now();
	stand_not();
	sigaction(SIGSEGV, &a, NULL);
	iw_faults_stand();
	assert_false(iw_user_readable(p, 1));
	came = 0;
	if (!sigsetjmp(out, 1))
		(void)*(volatile char *)p;
	assert_int_equal(came, SIGSEGV);
	munmap(p, PAGE);
	stand_not();
}

/* With faults blocked the kernel would end the process, so it is asked; and so it is in a handler that has them blocked. */
static void blocked(void **state)
{
	char *p = bad();
	sigset_t m, was;

	stand_now();
	for (int n = SIGBUS; n <= SIGSEGV; n += SIGSEGV - SIGBUS) {
		sigemptyset(&m);
		sigaddset(&m, n);
		sigprocmask(SIG_BLOCK, &m, &was);
		iw_faults_changed();
		assert_false(iw_faults_come());
		assert_int_equal(iw_faults_way, IW_FAULTS_BLOCKED);
		assert_false(iw_user_readable(p, 1) || iw_user_writable(p, 1));
		assert_true(iw_user_readable(&m, sizeof(m)));
		sigprocmask(SIG_SETMASK, &was, NULL);
		iw_faults_changed();
		assert_true(iw_faults_come());
	}
	atomic_store(&iw_handlers_unseen, 1);
	iw_faults_changed();
	assert_true(iw_faults_come());
	assert_int_equal(iw_faults_way, IW_FAULTS_ASK);
	atomic_store(&iw_handlers_unseen, 0);
	vforked = true;
	assert_true(iw_faults_come());
	assert_int_equal(iw_faults_way, IW_FAULTS_ASK);
	vforked = false;
	munmap(p, PAGE);
	stand_not();
}

static char *nobodys;
static _Atomic bool over;

static void *touches(void *arg)
{
	long good = 0;

	for (int i = 0; i < 20000 && !atomic_load(&over); i++)
		good += iw_user_readable(nobodys, 1) + iw_user_writable(nobodys, 1);
	return (void *)good;
}

/* Rights come and go, threads touch: each fault finds its way. */
static void threads(void **state)
{
	pthread_t t[3];

	stand_now();
	nobodys = bad();
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&t[i], NULL, touches, NULL), 0);
	for (int i = 0; i < 2000; i++)
		mprotect(nobodys, PAGE, rights[i % 3]);
	atomic_store(&over, true);
	for (size_t i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	munmap(nobodys, PAGE);
	stand_not();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rights_of_pages), cmocka_unit_test(no_address), cmocka_unit_test(rights_by_touch), cmocka_unit_test(no_address_by_touch),
		cmocka_unit_test(behind_a_file), cmocka_unit_test(without_handler), cmocka_unit_test(with_handler), cmocka_unit_test(had_handler),
		cmocka_unit_test(blocked), cmocka_unit_test(threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
