// SPDX-License-Identifier: MIT
/* What changes a thread's signal mask: the libc's own, noted. Those that restore one later are noted when they do (handlers.c, jump.c). */
#include <signal.h>
#include <ucontext.h>

#include "fault.h"
#include "init.h"
#include "lib.h"
#include "real.h"

#define NOTED(name, params, args) \
	IW_EXPORT int name params; \
	int name params \
	{ \
		int r; \
		iw_init(); \
		r = iw_real.name args; \
		iw_faults_changed(); \
		return r; \
	}

NOTED(sigprocmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
NOTED(pthread_sigmask, (int how, const sigset_t *set, sigset_t *old), (how, set, old))
NOTED(sigblock, (int mask), (mask))
NOTED(sigsetmask, (int mask), (mask))
NOTED(sighold, (int n), (n))
NOTED(sigrelse, (int n), (n))

IW_EXPORT int setcontext(const ucontext_t *to);
IW_EXPORT int swapcontext(ucontext_t *from, const ucontext_t *to);

/* Who goes on elsewhere does so with another mask; and so does who comes back here. */
int setcontext(const ucontext_t *to)
{
	iw_init();
	iw_faults_changed();
	return iw_real.setcontext(to);
}

int swapcontext(ucontext_t *from, const ucontext_t *to)
{
	int r;

	iw_init();
	iw_faults_changed();
	r = iw_real.swapcontext(from, to);
	iw_faults_changed();
	return r;
}
