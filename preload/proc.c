// SPDX-License-Identifier: MIT
/*
 * fork and its relatives. A forked child has copies of all tables, which are right for it as they are; only the control
 * connection and connects under way are the parent's alone. A vfork child runs in the parent's memory: for it every call passes
 * straight through. A page that the kernel wipes on fork tells the two apart, also when no fork handler ran.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conf.h"
#include "daemon.h"
#include "fdtab.h"
#include "kinds.h"
#include "lib.h"
#include "lock.h"
#include "proc.h"
#include "sys.h"
#include "tcp.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

_Atomic uint32_t iw_forks;
static _Atomic int my_pid;
static _Atomic uint32_t *mark;
static uint64_t fork_sigs;

static void child_reset(void)
{
	atomic_store(&my_pid, (int)IW_SYS(getpid));
	if (mark)
		atomic_store(mark, 1);
	atomic_store(&iw_tab_lock.v, 0);
	iw_conf_forked_child();
	iw_daemon_forked_child();
	iw_kinds_forked_child();
}

bool iw_in_vfork(void)
{
	int pid = (int)IW_SYS(getpid);

	if (iw_likely(pid == atomic_load(&my_pid)))
		return false;
	if (mark && atomic_load(mark))
		return true;
	/* _Fork() or clone() by hand: what the handlers do before a fork could not be done */
	atomic_fetch_add(&iw_forks, 1);
	iw_tcp_note_fork();
	child_reset();
	return false;
}

/* Nothing here waits: locks are held for a few instructions, and what is told to the daemon is one-way. */
static void prepare(void)
{
	uint64_t sigs = iw_lock(&iw_tab_lock);

	fork_sigs = sigs;
	iw_kinds_fork();
	atomic_fetch_add(&iw_forks, 1);
}

static void parent(void)
{
	iw_unlock(&iw_tab_lock, fork_sigs);
}

static void child(void)
{
	child_reset();
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
