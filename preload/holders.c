// SPDX-License-Identifier: MIT
/* How many processes hold a socket: counts in memory that forks share, and a map of what this process holds. */
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include "holders.h"
#include "sys.h"

#ifndef IW_HOLDERS_STEP	/* tests wait here, or die */
#define IW_HOLDERS_STEP(what) ((void)0)
#endif

#define LOST	(1u << 31)	/* in a count: somebody may hold it who is not counted */
#define COUNT	(LOST - 1)
#define PROBES	64u

static _Atomic uint32_t *counts;	/* shared; 0: free */

/* This process's own. */
static _Atomic uint64_t held[IW_HOLDERS / 64];
static uint64_t given[IW_HOLDERS / 64];	/* counted for the child, of the fork under way */
static _Atomic uint32_t born_fork[IW_HOLDERS], seen_spawn[IW_HOLDERS];	/* value of forks, spawns when it was made, or looked at */
static _Atomic uint32_t forks, spawns, hint;
static _Atomic uint32_t forking;	/* threads between iw_holders_fork() and its end */
static _Atomic bool relatives, split;	/* there ever were any; see iw_holders_split() */
static __thread uint32_t fork_no __attribute__((tls_model("initial-exec")));

static uint64_t bit(uint32_t idx)
{
	return 1ull << idx % 64;
}

static bool ours(uint32_t idx)
{
	return idx && idx < IW_HOLDERS && (atomic_load(&held[idx / 64]) & bit(idx));
}

static void count_down(uint32_t idx)
{
	uint32_t v = atomic_load(&counts[idx]);

	IW_HOLDERS_STEP("down");
	while ((v & COUNT) && !atomic_compare_exchange_weak(&counts[idx], &v, (v & COUNT) > 1 ? v - 1 : 0))
		;
}

static bool take(uint32_t idx)
{
	uint32_t none = 0;

	return idx && !atomic_load_explicit(&counts[idx], memory_order_relaxed) && atomic_compare_exchange_strong(&counts[idx], &none, 1);
}

uint32_t iw_holders_new(void)
{
	uint32_t at = atomic_load_explicit(&hint, memory_order_relaxed), idx, i;

	if (!counts)
		return 0;
	for (i = 0; i < PROBES; i++)
		if (take(idx = (at + i) % IW_HOLDERS))
			break;
	atomic_store_explicit(&hint, (at + i + 1) % IW_HOLDERS, memory_order_relaxed);
	if (i == PROBES)
		return 0;
	IW_HOLDERS_STEP("taken");
	atomic_store(&born_fork[idx], atomic_load(&forks));
	atomic_store(&seen_spawn[idx], atomic_load(&spawns));
	atomic_fetch_or(&held[idx / 64], bit(idx));
	IW_HOLDERS_STEP("held");
	if (!atomic_load(&forking) && atomic_load(&forks) == atomic_load(&born_fork[idx]) && !atomic_load(&split))
		return idx;
	iw_holders_put(idx);
	return 0;
}

void iw_holders_lose(uint32_t idx)
{
	if (ours(idx))
		atomic_fetch_or(&counts[idx], LOST);
}

/* Programs that have it: those who are left cannot know of them. */
static void lose_if_spawned(uint32_t idx)
{
	if (atomic_load(&seen_spawn[idx]) != atomic_load(&spawns) && (atomic_load(&counts[idx]) & COUNT) > 1)
		atomic_fetch_or(&counts[idx], LOST);
}

void iw_holders_put(uint32_t idx)
{
	if (!ours(idx))
		return;
	lose_if_spawned(idx);
	IW_HOLDERS_STEP("put");
	if (!(atomic_fetch_and(&held[idx / 64], ~bit(idx)) & bit(idx)))
		return;
	IW_HOLDERS_STEP("let go");
	count_down(idx);
	atomic_store_explicit(&hint, idx, memory_order_relaxed);
}

bool iw_holders_relatives(void)
{
	return atomic_load(&relatives);
}

/* The number may be somebody else's by now, whose socket stays plain then. */
static void join_uncounted(uint32_t idx)
{
	atomic_fetch_add(&counts[idx], 1);
	iw_holders_lose(idx);
}

void iw_holders_back(uint32_t idx)
{
	if (!(atomic_fetch_or(&held[idx / 64], bit(idx)) & bit(idx)))
		join_uncounted(idx);
}

static bool survives_exec(int fd)
{
	long fl = IW_SYS(fcntl, fd, F_GETFD, 0);

	return fl < 0 || !(fl & FD_CLOEXEC);
}

void iw_holders_settle(uint32_t idx, int fd, bool only)
{
	uint32_t now = atomic_load(&spawns);

	if (!ours(idx) || atomic_load(&seen_spawn[idx]) == now)
		return;
	if (survives_exec(fd))
		atomic_fetch_or(&counts[idx], LOST);
	if (only)
		atomic_store(&seen_spawn[idx], now);
}

bool iw_holders_alone(uint32_t idx, const int *fds, unsigned int n)
{
	uint32_t now = atomic_load(&spawns);

	if (!ours(idx) || atomic_load(&split))
		return false;
	if (atomic_load(&seen_spawn[idx]) != now) {
		if (!n)
			return false;
		for (unsigned int i = 0; i < n; i++)
			iw_holders_settle(idx, fds[i], false);
		atomic_store(&seen_spawn[idx], now);
	}
	return atomic_load(&counts[idx]) == 1;
}

/* ---- processes ---- */

static void each(void (*fn)(uint32_t idx))
{
	for (uint32_t w = 0; counts && w < IW_HOLDERS / 64; w++)
		for (uint64_t bits = atomic_load(&held[w]); bits; bits &= bits - 1)
			fn(w * 64 + (uint32_t)__builtin_ctzll(bits));
}

static void count_up(uint32_t idx)
{
	atomic_fetch_add(&counts[idx], 1);
	IW_HOLDERS_STEP("up");
	if (ours(idx))
		given[idx / 64] |= bit(idx);
	else			/* closed meanwhile */
		count_down(idx);
}

/* One that is made meanwhile sees that we are at it, if we did not see it. */
void iw_holders_fork(void)
{
	atomic_store(&relatives, true);
	atomic_fetch_add(&forking, 1);
	fork_no = atomic_fetch_add(&forks, 1) + 1;
	IW_HOLDERS_STEP("fork");
	for (uint32_t w = 0; w < IW_HOLDERS / 64; w++)
		if (given[w])
			given[w] = 0;
	each(count_up);
}

void iw_holders_forked(void)
{
	atomic_fetch_sub(&forking, 1);
}

static void count_back(uint32_t idx)
{
	if ((int32_t)(atomic_load(&born_fork[idx]) - fork_no) < 0)
		count_down(idx);
}

/* What was closed since then stays counted. */
void iw_holders_fork_failed(void)
{
	each(count_back);
}

/* Apart from our relatives, so that the first look for a free one finds it. */
static void start_at(int pid)
{
	atomic_store(&hint, (uint32_t)pid * 0x9e3779b1u >> 14);
}

void iw_holders_forked_child(int pid)
{
	atomic_store(&forking, 0);
	atomic_store(&split, false);
	for (uint32_t w = 0; w < IW_HOLDERS / 64; w++)	/* closed in between */
		for (uint64_t bits = given[w] & ~atomic_load(&held[w]); bits; bits &= bits - 1)
			count_down(w * 64 + (uint32_t)__builtin_ctzll(bits));
	start_at(pid);
}

void iw_holders_forked_unseen(int pid)
{
	atomic_store(&relatives, true);
	each(join_uncounted);
	atomic_store(&forking, 0);
	atomic_store(&split, false);
	start_at(pid);
}

void iw_holders_uncounted(void)
{
	atomic_store(&relatives, true);
	each(iw_holders_lose);
}

void iw_holders_spawn(void)
{
	atomic_fetch_add(&spawns, 1);
}

void iw_holders_split(void)
{
	atomic_store(&split, true);
	iw_holders_uncounted();
}

void iw_holders_exit(void)
{
	if (atomic_load(&relatives))
		each(iw_holders_put);
}

void iw_holders_init(int pid)
{
	long p = IW_SYS(mmap, NULL, IW_HOLDERS * sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p < 0 && p > -4096)
		return;
	counts = (_Atomic uint32_t *)p;
	start_at(pid);
}
