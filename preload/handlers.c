// SPDX-License-Identifier: MIT
/*
 * Handlers of signals. In the place of each stands come(): one that interrupts a step of the library is put off to the step's end, so that a
 * step need not block signals before any come. The program is answered as if its own stood there.
 */
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include "fault.h"
#include "handlers.h"
#include "init.h"
#include "lib.h"
#include "lock.h"
#include "proc.h"
#include "real.h"
#include "sys.h"

IW_EXPORT int sigaction(int n, const struct sigaction *a, struct sigaction *old);
IW_EXPORT int __sigaction(int n, const struct sigaction *a, struct sigaction *old);
IW_EXPORT sighandler_t signal(int n, sighandler_t h);
IW_EXPORT sighandler_t bsd_signal(int n, sighandler_t h);
IW_EXPORT sighandler_t ssignal(int n, sighandler_t h);
IW_EXPORT sighandler_t sysv_signal(int n, sighandler_t h);
IW_EXPORT sighandler_t __sysv_signal(int n, sighandler_t h);
IW_EXPORT sighandler_t sigset(int n, sighandler_t h);
IW_EXPORT int siginterrupt(int n, int flag);

#define OURS (SA_SIGINFO | SA_RESETHAND)	/* of its flags the kernel has our own: come() wants the information, and is not reset before the handler runs */

_Atomic uint32_t iw_handlers, iw_handlers_unseen;
_Atomic uint64_t iw_handlers_restart, iw_handlers_interrupt;
__thread struct iw_handlers_step iw_handlers_step __attribute__((tls_model("initial-exec"))) = { .mask = ~0ull };

/* What the program set where the kernel has come(). Changed under the lock. */
static struct {
	_Atomic(sighandler_t) handler;
	_Atomic int flags;
} set[NSIG];
static struct iw_lock lock;
static uint64_t interrupting;	/* siginterrupt(), for signal(): under the lock */

static bool is_handler(sighandler_t h)
{
	return h != SIG_DFL && h != SIG_IGN && h != SIG_ERR;
}

/* Faults have to be dealt with where they happen, and 32 and 33 are libc's. */
static bool put_off(int n)
{
	return n > 0 && n < NSIG && n != SIGKILL && n != SIGSTOP && n != 32 && n != 33 && !(IW_SIG_BIT(n) & IW_SIG_FAULTS);
}

/* ---- a signal ---- */

/* Nothing else comes before the step ends, this one then. */
static void later(int n, siginfo_t *info, ucontext_t *uc)
{
	struct iw_handlers_step *t = &iw_handlers_step;
	uint64_t mask;

	memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	t->mask &= mask;	/* one that interrupts us, or that we interrupt, is no different: the smallest is the program's */
	if (!t->came)
		t->first = n;
	t->came = true;
	mask |= ~IW_SIG_FAULTS;
	memcpy(&uc->uc_sigmask, &mask, sizeof(mask));
	if (IW_SYS(rt_tgsigqueueinfo, IW_SYS(getpid), IW_SYS(gettid), n, info) < 0)
		IW_SYS(kill, IW_SYS(getpid), n);
}

/* SA_RESETHAND: of two that come at once one finds the handler. */
static bool reset(int n, sighandler_t *h)
{
	struct sigaction k;

	if (!atomic_compare_exchange_strong(&set[n].handler, h, SIG_DFL))
		return false;
	iw_real.sigaction(n, NULL, &k);
	k.sa_handler = SIG_DFL;
	k.sa_flags = (k.sa_flags & ~OURS) | (atomic_load(&set[n].flags) & OURS);
	iw_real.sigaction(n, &k, NULL);
	return true;
}

static void come(int n, siginfo_t *info, void *context)
{
	sighandler_t h = atomic_load(&set[n].handler);

	if (iw_handlers_step.n || !is_handler(h) || (atomic_load(&set[n].flags) & SA_RESETHAND && !reset(n, &h)))
		later(n, info, context);
	else
		iw_faults_handler(h, n, info, context);
}

static bool is_come(sighandler_t h)
{
	return (struct sigaction){ .sa_handler = h }.sa_sigaction == come;
}

void iw_handlers_late(void)
{
	struct iw_handlers_step *t = &iw_handlers_step;
	uint64_t mask = t->mask;

	t->came = false;
	t->mask = ~0ull;
	iw_sig_restore(mask);
}

void iw_handlers_left(void)
{
	iw_handlers_step.n = 0;
	if (iw_handlers_step.came)
		iw_handlers_late();
}

/* ---- those that the library did not see set ---- */

struct kernel_action {
	sighandler_t handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

static bool ask(int n, struct kernel_action *k)
{
	return IW_SYS(rt_sigaction, n, NULL, k, sizeof(k->mask)) >= 0;
}

void iw_handlers_look(void)
{
	struct kernel_action k;
	uint64_t sigs;

	for (int n = 1; n < NSIG && !atomic_load(&iw_handlers_unseen); n++)
		if (put_off(n) && ask(n, &k) && is_handler(k.handler) && !is_come(k.handler)) {
			atomic_store(&iw_handlers, 1);
			atomic_store(&iw_handlers_unseen, 1);
		}
	sigs = iw_lock(&lock);
	iw_faults_stand();
	iw_unlock(&lock, sigs);
}

/* ---- setting one ---- */

static void put(_Atomic uint64_t *v, uint64_t bit, bool on)
{
	if (on)
		atomic_fetch_or(v, bit);
	else
		atomic_fetch_and(v, ~bit);
}

static void know(int n, bool handler, bool restart)
{
	put(&iw_handlers_restart, IW_SIG_BIT(n), handler && restart);
	put(&iw_handlers_interrupt, IW_SIG_BIT(n), handler && !restart);
}

/* What the program had set. */
static void theirs(int n, struct sigaction *old, sighandler_t handler, int flags)
{
	if (iw_fault_is(n))
		iw_fault_theirs(n, old);
	if (old->sa_sigaction != come)
		return;
	old->sa_handler = handler;
	old->sa_flags = (old->sa_flags & ~OURS) | (flags & OURS);
}

/* Under the lock. */
static int change(int n, const struct sigaction *a, struct sigaction *old)
{
	sighandler_t was = atomic_load(&set[n].handler);
	int flags = atomic_load(&set[n].flags), r;
	struct sigaction k = *a;

	if (is_handler(a->sa_handler) && put_off(n)) {
		atomic_store(&set[n].flags, a->sa_flags);
		atomic_store(&set[n].handler, a->sa_handler);
		k.sa_sigaction = come;
		k.sa_flags = (k.sa_flags & ~OURS) | SA_SIGINFO;
	}
	r = iw_real.sigaction(n, &k, old);
	if (!r)
		theirs(n, old, was, flags);
	return r;
}

int sigaction(int n, const struct sigaction *a, struct sigaction *old)
{
	struct sigaction new, was;
	uint64_t sigs;
	int r;

	iw_init();
	/* the one set by a vfork child is its own, what is kept here is its parent's */
	if (!a || n < 1 || n >= NSIG || iw_in_vfork()) {
		r = iw_real.sigaction(n, a, old);
		if (!r && old)
			theirs(n, old, atomic_load(&set[n].handler), atomic_load(&set[n].flags));
		return r;
	}
	new = *a;
	if (is_handler(new.sa_handler))
		atomic_store(&iw_handlers, 1);
	sigs = iw_lock(&lock);
	r = iw_fault_is(n) ? iw_fault_change(n, &new, &was) : change(n, &new, &was);
	if (!r)
		know(n, is_handler(new.sa_handler), new.sa_flags & SA_RESTART);
	iw_unlock(&lock, sigs);
	if (!r && old)
		*old = was;
	return r;
}

int __sigaction(int n, const struct sigaction *a, struct sigaction *old)
{
	return sigaction(n, a, old);
}

/* As libc makes them of sigaction(). */
static sighandler_t simple(int n, sighandler_t h, int flags, bool masks)
{
	struct sigaction a = { .sa_handler = h, .sa_flags = flags }, old;

	sigemptyset(&a.sa_mask);
	if (h == SIG_ERR || n < 1 || n >= NSIG || (masks && sigaddset(&a.sa_mask, n))) {
		errno = EINVAL;
		return SIG_ERR;
	}
	return sigaction(n, &a, &old) ? SIG_ERR : old.sa_handler;
}

sighandler_t signal(int n, sighandler_t h)
{
	return simple(n, h, n > 0 && n < NSIG && interrupting & IW_SIG_BIT(n) ? 0 : SA_RESTART, true);
}

sighandler_t bsd_signal(int n, sighandler_t h)
{
	return signal(n, h);
}

sighandler_t ssignal(int n, sighandler_t h)
{
	return signal(n, h);
}

sighandler_t __sysv_signal(int n, sighandler_t h)
{
	return simple(n, h, (int)(SA_RESETHAND | SA_NODEFER), false);
}

sighandler_t sysv_signal(int n, sighandler_t h)
{
	return __sysv_signal(n, h);
}

sighandler_t sigset(int n, sighandler_t h)
{
	uint64_t bit, was = 0;
	sighandler_t old;

	iw_init();
	if (h == SIG_HOLD) {
		struct sigaction a = { .sa_flags = 0 };

		a.sa_handler = iw_real.sigset(n, h);
		iw_faults_changed();
		theirs(n, &a, atomic_load(&set[n].handler), 0);
		return a.sa_handler;
	}
	old = simple(n, h, 0, false);
	if (old == SIG_ERR)
		return old;
	bit = IW_SIG_BIT(n);
	IW_SYS(rt_sigprocmask, SIG_UNBLOCK, &bit, &was, 8);
	iw_faults_changed();
	return was & bit ? SIG_HOLD : old;
}

int siginterrupt(int n, int flag)
{
	struct kernel_action k;
	uint64_t sigs;
	int r;

	iw_init();
	sigs = iw_lock(&lock);
	r = iw_real.siginterrupt(n, flag);
	if (!r && !iw_in_vfork()) {
		interrupting = flag ? interrupting | IW_SIG_BIT(n) : interrupting & ~IW_SIG_BIT(n);
		if (ask(n, &k))
			know(n, is_handler(k.handler), k.flags & SA_RESTART);
	}
	iw_unlock(&lock, sigs);
	return r;
}
