/* SPDX-License-Identifier: MIT */
/* Futex locks that are held with signals blocked. */
#include <linux/futex.h>
#include <time.h>

#include "lock.h"
#include "sys.h"

uint64_t iw_sig_block(void)
{
	uint64_t all = ~IW_SIG_FAULTS, old = 0;

	IW_SYS(rt_sigprocmask, SIG_BLOCK, &all, &old, 8);
	return old;
}

void iw_sig_restore(uint64_t old)
{
	IW_SYS(rt_sigprocmask, SIG_SETMASK, &old, NULL, 8);
}

void iw_futex_wait(_Atomic uint32_t *v, uint32_t old, unsigned int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000L };

	IW_SYS(futex, v, FUTEX_WAIT_PRIVATE, old, ms ? &t : NULL, NULL, 0);
}

void iw_futex_wake(_Atomic uint32_t *v, int n)
{
	IW_SYS(futex, v, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

void iw_lock_only(struct iw_lock *l)
{
	uint32_t none = 0;

	if (atomic_compare_exchange_strong_explicit(&l->v, &none, 1, memory_order_acquire, memory_order_relaxed))
		return;
	while (atomic_exchange_explicit(&l->v, 2, memory_order_acquire))
		iw_futex_wait(&l->v, 2, 0);
}

void iw_unlock_only(struct iw_lock *l)
{
	if (atomic_exchange_explicit(&l->v, 0, memory_order_release) == 2)
		iw_futex_wake(&l->v, 1);
}

uint64_t iw_lock(struct iw_lock *l)
{
	uint64_t sigs = iw_sig_block();

	iw_lock_only(l);
	return sigs;
}

void iw_unlock(struct iw_lock *l, uint64_t sigs)
{
	iw_unlock_only(l);
	iw_sig_restore(sigs);
}
