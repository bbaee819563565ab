// SPDX-License-Identifier: MIT
/*
 * Faults: the handler that stands for SIGSEGV and SIGBUS in the kernel, and what the program has set, which it believes to stand there. A fault that is
 * not one of ours is the program's: its handler is called as the kernel would call it; without one it comes once more, and the kernel ends
 * the process by it.
 */
#include <string.h>
#include <ucontext.h>

#include "fault.h"
#include "handlers.h"
#include "proc.h"
#include "real.h"
#include "sys.h"

#define EMULATED (SA_SIGINFO | SA_RESETHAND)

_Atomic bool iw_faults;
__thread uint8_t iw_faults_way __attribute__((tls_model("initial-exec")));

/* ---- touching ---- */

#if defined(__x86_64__)
#define KNOWN true
/* The instruction that faults is named; both have one way out. */
__asm__(".pushsection .text\n"
	".hidden iw_touch_read, iw_touch_write, iw_touch_reads, iw_touch_writes, iw_touch_failed\n"
	".globl iw_touch_read, iw_touch_write, iw_touch_reads, iw_touch_writes, iw_touch_failed\n"
	".type iw_touch_read, @function\n"
	".type iw_touch_write, @function\n"
	"iw_touch_read:\n"
	"iw_touch_reads:\n"
	"	testb $0, (%rdi)\n"
	"	xorl %eax, %eax\n"
	"	ret\n"
	"iw_touch_write:\n"
	"iw_touch_writes:\n"
	"	lock orb $0, (%rdi)\n"
	"	xorl %eax, %eax\n"
	"	ret\n"
	"iw_touch_failed:\n"
	"	movl $1, %eax\n"
	"	ret\n"
	".size iw_touch_read, iw_touch_write - iw_touch_read\n"
	".size iw_touch_write, . - iw_touch_write\n"
	".popsection\n");
extern const char iw_touch_reads[], iw_touch_writes[], iw_touch_failed[] __attribute__((visibility("hidden")));

static bool ours(ucontext_t *uc)
{
	greg_t *pc = &uc->uc_mcontext.gregs[REG_RIP];

	if (*pc != (greg_t)iw_touch_reads && *pc != (greg_t)iw_touch_writes)
		return false;
	*pc = (greg_t)iw_touch_failed;
	return true;
}
#else	/* the kernel is asked instead */
#define KNOWN false
int iw_touch_read(uintptr_t a) { return 1; }
int iw_touch_write(uintptr_t a) { return 1; }
static bool ours(ucontext_t *uc) { return false; }
#endif

static uint64_t mask_of(const ucontext_t *uc)
{
	uint64_t mask;

	memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	return mask;
}

static uint8_t way(uint64_t mask)
{
	return mask & IW_FAULTS ? IW_FAULTS_BLOCKED : IW_FAULTS_COME;
}

/* Not remembered where handlers come that nobody sees, which may have a mask of their own, nor of a child in the memory of its parent. */
enum iw_faults_way iw_faults_ask(void)
{
	uint64_t mask = ~0ull;

	IW_SYS(rt_sigprocmask, SIG_BLOCK, NULL, &mask, 8);
	if (!atomic_load_explicit(&iw_handlers_unseen, memory_order_relaxed) && !iw_in_vfork())
		iw_faults_way = way(mask);
	return way(mask);
}

void iw_faults_handler(sighandler_t h, int n, siginfo_t *info, void *context)
{
	iw_faults_changed();
	(struct sigaction){ .sa_handler = h }.sa_sigaction(n, info, context);
	iw_faults_way = atomic_load_explicit(&iw_handlers_unseen, memory_order_relaxed) ? IW_FAULTS_ASK : way(mask_of(context));
}

/* ---- the handler ---- */

/* As the program sees it. The mask under the lock; the others are read by the handler. */
static struct theirs {
	_Atomic(sighandler_t) handler;
	_Atomic int flags;
	sigset_t mask;
} theirs[2];

static struct theirs *of(int n)
{
	return &theirs[n == SIGBUS];
}

/* Comes once more: by its instruction, or, from a process that sent it, by hand. */
static void end_by(int n, siginfo_t *info)
{
	struct { sighandler_t handler; unsigned long flags; void *restorer; uint64_t mask; } none = { .handler = SIG_DFL };

	IW_SYS(rt_sigaction, n, &none, NULL, 8);
	if (info->si_code <= 0)
		IW_SYS(rt_tgsigqueueinfo, IW_SYS(getpid), IW_SYS(gettid), n, info);
}

static void fault(int n, siginfo_t *info, void *context)
{
	struct theirs *t = of(n);
	sighandler_t h;

	if (ours(context))
		return;
	h = atomic_load(&t->handler);
	if (h != SIG_DFL && atomic_load(&t->flags) & SA_RESETHAND && !atomic_compare_exchange_strong(&t->handler, &h, SIG_DFL))
		h = SIG_DFL;	/* another one has found it */
	if (h == SIG_DFL) {
		end_by(n, info);
		return;
	}
	iw_faults_handler(h, n, info, context);
}

static bool is_fault(const struct sigaction *a)
{
	return a->sa_sigaction == fault;
}

/* ---- what stands ---- */

static void view(const struct theirs *t, struct sigaction *a)
{
	a->sa_handler = atomic_load(&t->handler);
	a->sa_flags = atomic_load(&t->flags);
	a->sa_mask = t->mask;
}

static void keep(struct theirs *t, const struct sigaction *a)
{
	t->mask = a->sa_mask;
	atomic_store(&t->flags, a->sa_flags);
	atomic_store(&t->handler, a->sa_handler);
}

/* A stack of its own, if there is one: what the program's handler wants is the program's to say, and none needs it more than a stack's end. */
static int stand(int n, const struct sigaction *a, struct sigaction *old)
{
	struct sigaction k = { .sa_flags = SA_ONSTACK };

	if (a->sa_handler == SIG_DFL)
		sigemptyset(&k.sa_mask);
	else
		k = *a;
	k.sa_sigaction = fault;
	k.sa_flags = (k.sa_flags & ~EMULATED) | SA_SIGINFO;
	return iw_real.sigaction(n, &k, old);
}

/* Where a fault is ignored, the kernel ends the process all the same. And a child would ignore it, too: it would not if something else stood there. */
static bool stand_before(int n)
{
	struct sigaction a;

	if (iw_real.sigaction(n, NULL, &a) || a.sa_handler == SIG_IGN)
		return false;
	if (is_fault(&a))
		return true;
	keep(of(n), &a);
	return !stand(n, &a, NULL);
}

void iw_faults_stand(void)
{
	bool both = KNOWN && stand_before(SIGSEGV);

	atomic_store(&iw_faults, both && stand_before(SIGBUS));
}

int iw_fault_change(int n, const struct sigaction *a, struct sigaction *old)
{
	struct theirs *t = of(n);
	struct sigaction now;
	int r = iw_real.sigaction(n, NULL, &now);

	if (r || !is_fault(&now))
		return iw_real.sigaction(n, a, old);
	view(t, &now);
	if (a->sa_handler == SIG_IGN) {
		atomic_store(&iw_faults, false);
		r = iw_real.sigaction(n, a, NULL);
	} else {
		keep(t, a);
		r = stand(n, a, NULL);
	}
	if (!r)
		*old = now;
	return r;
}

void iw_fault_theirs(int n, struct sigaction *old)
{
	if (is_fault(old))
		view(of(n), old);
}
