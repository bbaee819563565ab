// SPDX-License-Identifier: MIT
/* What changes a thread's signal mask: the libc's own, noted. Those that restore one later are noted when they do (handlers.c, jump.c). */
#include <signal.h>
#include <ucontext.h>

#include "fault.h"
#include "init.h"
#include "lib.h"
#include "real.h"

IW_EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old);
IW_EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
IW_EXPORT int sigblock(int mask);
IW_EXPORT int sigsetmask(int mask);
IW_EXPORT int sighold(int n);
IW_EXPORT int sigrelse(int n);
IW_EXPORT int setcontext(const ucontext_t *to);
IW_EXPORT int swapcontext(ucontext_t *from, const ucontext_t *to);

#define NOTED(call) ({ int r_ = (call); iw_faults_changed(); r_; })

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	iw_init();
	return NOTED(iw_real.sigprocmask(how, set, old));
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	iw_init();
	return NOTED(iw_real.pthread_sigmask(how, set, old));
}

int sigblock(int mask)
{
	iw_init();
	return NOTED(iw_real.sigblock(mask));
}

int sigsetmask(int mask)
{
	iw_init();
	return NOTED(iw_real.sigsetmask(mask));
}

int sighold(int n)
{
	iw_init();
	return NOTED(iw_real.sighold(n));
}

int sigrelse(int n)
{
	iw_init();
	return NOTED(iw_real.sigrelse(n));
}

/* Who goes on elsewhere does so with another mask; and so does who comes back here. */
int setcontext(const ucontext_t *to)
{
	iw_init();
	iw_faults_changed();
	return iw_real.setcontext(to);
}

int swapcontext(ucontext_t *from, const ucontext_t *to)
{
	iw_init();
	iw_faults_changed();
	return NOTED(iw_real.swapcontext(from, to));
}
