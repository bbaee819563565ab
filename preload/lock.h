/* SPDX-License-Identifier: MIT */
/* Locks: a futex, held with all signals blocked, so that a handler may call anything of ours. */
#ifndef IW_PRELOAD_LOCK_H
#define IW_PRELOAD_LOCK_H

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

/* They are never blocked: what raised them would end the process. */
#define IW_SIG_BIT(n)	(1ull << ((n) - 1))
#define IW_SIG_FAULTS	(IW_SIG_BIT(SIGSEGV) | IW_SIG_BIT(SIGBUS) | IW_SIG_BIT(SIGILL) | IW_SIG_BIT(SIGFPE) | IW_SIG_BIT(SIGTRAP) | IW_SIG_BIT(SIGSYS))

#pragma GCC visibility push(hidden)

struct iw_lock {
	_Atomic uint32_t v;	/* 0 free, 1 held, 2 held and waited for */
};

uint64_t iw_sig_block(void);
void iw_sig_restore(uint64_t old);
uint64_t iw_lock(struct iw_lock *l);	/* returns the signal mask for iw_unlock() */
void iw_unlock(struct iw_lock *l, uint64_t sigs);
/* By who has them blocked, or knows that no handler comes. */
void iw_lock_only(struct iw_lock *l);
void iw_unlock_only(struct iw_lock *l);
void iw_futex_wait(_Atomic uint32_t *v, uint32_t old, unsigned int ms);
void iw_futex_wake(_Atomic uint32_t *v, int n);

#pragma GCC visibility pop
#endif
