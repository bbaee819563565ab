// SPDX-License-Identifier: MIT
/* Epoll sets by their numbers: which set it is, whether it may have other numbers, and whether all that wait for it can be told. */
#include <poll.h>

#include "fdtab.h"
#include "kinds.h"
#include "lock.h"
#include "quiet.h"
#include "ready.h"
#include "reg_priv.h"
#include "sets.h"

/* The word of an epoll set: a serial number, so that a note knows whether it is the same one; above it whether it may have more numbers. */
#define SERIALS		(1u << 27)
#define ALIASED		SERIALS
#define SERVED		(1u << 31)	/* in iw_regs.waited: who sleeps in it has said so, or is known to be a stranger */

static uint32_t set_word(uint32_t aliased)
{
	static _Atomic uint32_t serial;

	return iw_word_make(IW_FD_EPOLL, (atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed) & (SERIALS - 1)) | aliased);
}

uint32_t iw_set_serial(uint32_t w)
{
	return iw_word_kind(w) == IW_FD_EPOLL ? iw_word_val(w) & (SERIALS - 1) : UINT32_MAX;
}

uint32_t iw_set_of(int epfd)
{
	uint32_t serial = iw_set_serial(iw_word(epfd));

	return serial == UINT32_MAX ? 0 : serial + 1;
}

void iw_set_waited(int epfd, uint32_t set)
{
	struct iw_regs *all = __atomic_load_n(&iw_regs, __ATOMIC_ACQUIRE);

	if (all && set && (atomic_load_explicit(&all->waited[epfd], memory_order_relaxed) & ~SERVED) != set)
		atomic_store_explicit(&all->waited[epfd], set, memory_order_relaxed);
}

static int another_number(uint32_t w)
{
	int high = atomic_load(&iw_fd_high);

	for (int fd = 0; fd <= high; fd++)
		if (iw_set_serial(iw_word(fd)) == iw_set_serial(w))
			return fd;
	return -1;
}

void iw_set_born(int epfd)
{
	iw_fd_born(epfd, set_word(0));
}

/* One that was made elsewhere may have other numbers. */
void iw_set_seen(int epfd)
{
	iw_word_found(epfd, set_word(ALIASED), iw_is_set);
}

static void forget(int epfd, uint32_t w)
{
	bool aliased = iw_word_val(w) & ALIASED;
	uint64_t sigs;

	if (!__atomic_load_n(&iw_regs, __ATOMIC_ACQUIRE))
		return;
	sigs = iw_lock(&iw_tab_lock);
	iw_reg_drop_fd(epfd);
	iw_reg_set_gone(epfd, aliased, aliased ? another_number(w) : -1);
	iw_unlock(&iw_tab_lock, sigs);
}

static uint32_t dup_epoll(int epfd, uint32_t w)
{
	w = iw_word_make(IW_FD_EPOLL, iw_word_val(w) | ALIASED);
	iw_word_set(epfd, w);
	return w;
}

const struct iw_kind_ops iw_epoll_ops = {
	.forget = forget,
	.dup = dup_epoll,
};

/* Whoever waits for this set can be told of what is ready. */
static bool serves(int epfd)
{
	uint32_t set = iw_set_of(epfd);

	if (!set || (iw_word_val(iw_word(epfd)) & ALIASED) || !iw_regs_map() || !iw_kicker_make() || !iw_kicker_add(epfd))
		return false;
	if (atomic_load(&iw_regs->waited[epfd]) != (set | SERVED) && !iw_quiet(epfd, NULL))
		iw_ready_strangers(set);
	return true;
}

/* Nothing was found against it before. */
static bool served(int epfd)
{
	struct iw_regs *all = __atomic_load_n(&iw_regs, __ATOMIC_ACQUIRE);
	uint32_t w = iw_word(epfd), set = iw_set_serial(w) + 1;

	return all && iw_word_kind(w) == IW_FD_EPOLL && !(iw_word_val(w) & ALIASED) && atomic_load(&all->kicked[epfd]) == set &&
	       atomic_load(&all->waited[epfd]) == (set | SERVED);
}

bool iw_set_serves(int epfd)
{
	uint64_t sigs;
	bool does;

	if (served(epfd))
		return true;
	sigs = iw_lock(&iw_tab_lock);
	does = serves(epfd);
	iw_unlock(&iw_tab_lock, sigs);
	return does;
}

bool iw_set_may_map(int epfd)
{
	if (!serves(epfd) || (atomic_load(&iw_regs->waited[epfd]) & ~SERVED) != iw_set_of(epfd))
		return false;
	atomic_fetch_or(&iw_regs->waited[epfd], SERVED);
	return true;
}
