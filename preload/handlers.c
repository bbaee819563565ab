// SPDX-License-Identifier: MIT
/* Handlers of signals: the calls that set one are seen before they do. */
#include <signal.h>
#include <string.h>

#include "handlers.h"
#include "init.h"
#include "lib.h"
#include "map.h"
#include "real.h"

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

static void coming(uint32_t what)
{
	iw_init();
	if ((atomic_load(&iw_handlers) & what) == what)
		return;
	atomic_fetch_or(&iw_handlers, what);
	iw_maps_settle();
}

static void handler(sighandler_t h, uint32_t what)
{
	if (h != SIG_DFL && h != SIG_IGN && h != SIG_ERR)
		coming(what);
}

int sigaction(int n, const struct sigaction *a, struct sigaction *old)
{
	struct sigaction new;

	iw_init();
	/* libc reads it, too, unless it keeps the signal to itself */
	if (a && n > 0 && n < NSIG && n != 32 && n != 33) {
		memcpy(&new, a, sizeof(new));
		handler(new.sa_handler, IW_HANDLERS_ANY | (new.sa_flags & SA_RESTART ? 0 : IW_HANDLERS_INTERRUPT));
	}
	return iw_real.sigaction(n, a, old);
}

int __sigaction(int n, const struct sigaction *a, struct sigaction *old)
{
	return sigaction(n, a, old);
}

sighandler_t signal(int n, sighandler_t h)
{
	iw_init();
	handler(h, IW_HANDLERS_ANY);
	return iw_real.signal(n, h);
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
	iw_init();
	handler(h, IW_HANDLERS_ANY | IW_HANDLERS_INTERRUPT);
	return iw_real.__sysv_signal(n, h);
}

sighandler_t sysv_signal(int n, sighandler_t h)
{
	return __sysv_signal(n, h);
}

sighandler_t sigset(int n, sighandler_t h)
{
	iw_init();
	handler(h, IW_HANDLERS_ANY | IW_HANDLERS_INTERRUPT);
	return iw_real.sigset(n, h);
}

/* What it changes is a handler that there is, or one that comes by signal(). */
int siginterrupt(int n, int flag)
{
	coming(flag ? IW_HANDLERS_ANY | IW_HANDLERS_INTERRUPT : 0);
	return iw_real.siginterrupt(n, flag);
}
