// SPDX-License-Identifier: MIT
/* Handlers of signals: the calls that set one are seen, before they do and after. */
#include <signal.h>
#include <string.h>

#include "handlers.h"
#include "init.h"
#include "lib.h"
#include "map.h"
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

_Atomic uint32_t iw_handlers;
_Atomic uint64_t iw_handlers_restart, iw_handlers_interrupt;

static bool is_handler(sighandler_t h)
{
	return h != SIG_DFL && h != SIG_IGN && h != SIG_ERR;
}

static void coming(sighandler_t h)
{
	iw_init();
	if (!is_handler(h) || atomic_load(&iw_handlers))
		return;
	atomic_store(&iw_handlers, 1);
	iw_maps_settle();
}

static void set(_Atomic uint64_t *v, uint64_t bit, bool on)
{
	if (on)
		atomic_fetch_or(v, bit);
	else
		atomic_fetch_and(v, ~bit);
}

/* It is there. That of a vfork child is its own, these words are its parent's. */
static void came(int n, bool handler, bool restart)
{
	if (n <= 0 || n >= NSIG || iw_in_vfork())
		return;
	set(&iw_handlers_restart, 1ull << (n - 1), handler && restart);
	set(&iw_handlers_interrupt, 1ull << (n - 1), handler && !restart);
}

/* The same, by what libc made of it. */
static void changed(int n)
{
	struct {
		sighandler_t handler;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} k;

	if (IW_SYS(rt_sigaction, n, NULL, &k, sizeof(k.mask)) >= 0)
		came(n, is_handler(k.handler), k.flags & SA_RESTART);
}

static sighandler_t changed_from(int n, sighandler_t old)
{
	if (old != SIG_ERR)
		changed(n);
	return old;
}

int sigaction(int n, const struct sigaction *a, struct sigaction *old)
{
	/* libc reads it, too, unless it keeps the signal to itself */
	bool reads = a && n > 0 && n < NSIG && n != 32 && n != 33;
	struct sigaction new;
	int r;

	iw_init();
	if (reads) {
		memcpy(&new, a, sizeof(new));
		coming(new.sa_handler);
	}
	r = iw_real.sigaction(n, a, old);
	if (reads && !r)
		came(n, is_handler(new.sa_handler), new.sa_flags & SA_RESTART);
	return r;
}

int __sigaction(int n, const struct sigaction *a, struct sigaction *old)
{
	return sigaction(n, a, old);
}

sighandler_t signal(int n, sighandler_t h)
{
	coming(h);
	return changed_from(n, iw_real.signal(n, h));
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
	coming(h);
	return changed_from(n, iw_real.__sysv_signal(n, h));
}

sighandler_t sysv_signal(int n, sighandler_t h)
{
	return __sysv_signal(n, h);
}

sighandler_t sigset(int n, sighandler_t h)
{
	coming(h);
	return changed_from(n, iw_real.sigset(n, h));
}

int siginterrupt(int n, int flag)
{
	int r;

	iw_init();
	r = iw_real.siginterrupt(n, flag);
	if (!r)
		changed(n);
	return r;
}
