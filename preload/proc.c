// SPDX-License-Identifier: MIT
/*
 * fork and its relatives. A forked child has copies of all tables, which are right for it as they are; only the control
 * connection and what was said on it are the parent's alone. A vfork child runs in the parent's memory: for it every call passes
 * straight through; while there may be one (vfork.c), the kernel is asked who we are. A page that it wipes on fork tells of a
 * child that ran no fork handler.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "conf.h"
#include "daemon.h"
#include "fdtab.h"
#include "holders.h"
#include "kinds.h"
#include "lib.h"
#include "lock.h"
#include "map.h"
#include "proc.h"
#include "quiet.h"
#include "sys.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

_Atomic uint32_t iw_forks, iw_vforks;
static _Atomic int my_pid;
static _Atomic uint32_t *mark;
static uint64_t fork_sigs;

static void child_reset(void)
{
	atomic_store(&my_pid, (int)IW_SYS(getpid));
	if (mark)
		atomic_store(mark, 1);
	atomic_store(&iw_tab_lock.v, 0);
	iw_quiet_forked_child();
	iw_conf_forked_child();
	iw_daemon_forked_child();
	iw_maps_forked_child();
	iw_kinds_forked_child();
}

bool iw_in_vfork(void)
{
	bool forked = mark && !atomic_load_explicit(mark, memory_order_relaxed);

	if (iw_likely(mark && !forked && !atomic_load_explicit(&iw_vforks, memory_order_relaxed)))
		return false;
	if (mark && !forked)
		return (int)IW_SYS(getpid) != atomic_load(&my_pid);
	if (!mark && (int)IW_SYS(getpid) == atomic_load(&my_pid))
		return false;
	/* _Fork() or clone() by hand: what the handlers do before a fork could not be done */
	atomic_fetch_add(&iw_forks, 1);
	child_reset();
	iw_holders_forked_unseen(atomic_load(&my_pid));
	return false;
}

/*
 * A switch is over soon. The child of one under way would have what is about to be void. What the child has, nobody has mapped; all: also what
 * is close-on-exec.
 */
static uint64_t lock_no_gates(bool all)
{
	struct timespec t = { 0, 50000 };

	for (;;) {
		uint64_t sigs;

		iw_maps_give(all);
		sigs = iw_lock(&iw_tab_lock);
		if (!atomic_load(&iw_gates) && !iw_maps_any(all))
			return sigs;
		iw_unlock(&iw_tab_lock, sigs);
		IW_SYS(nanosleep, &t, NULL);
	}
}

void iw_between_switches(void (*fn)(void), bool all)
{
	uint64_t sigs = lock_no_gates(all);

	fn();
	iw_unlock(&iw_tab_lock, sigs);
}

static void prepare(void)
{
	fork_sigs = lock_no_gates(true);
	iw_kinds_fork();
	atomic_fetch_add(&iw_forks, 1);
}

static void parent(void)
{
	iw_holders_forked();
	iw_unlock(&iw_tab_lock, fork_sigs);
}

static void child(void)
{
	child_reset();
	iw_holders_forked_child(atomic_load(&my_pid));
	iw_sig_restore(fork_sigs);
}

void iw_proc_init(void)
{
	long p = IW_SYS(mmap, NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	atomic_store(&my_pid, (int)IW_SYS(getpid));
	if (p > 0 || p < -4095) {
		mark = (_Atomic uint32_t *)p;
		if (IW_SYS(madvise, mark, 4096, MADV_WIPEONFORK) < 0)
			mark = NULL;
		else
			atomic_store(mark, 1);
	}
	pthread_atfork(prepare, parent, child);
}
