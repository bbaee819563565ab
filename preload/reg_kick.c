// SPDX-License-Identifier: MIT
/* The kicker: an eventfd in each epoll set with mapped streams, by which a wait for the set is made to return. */
#include <sys/eventfd.h>

#include "fdtab.h"
#include "internal.h"
#include "reg_priv.h"
#include "sys.h"

struct iw_reg iw_reg_kicker;
static _Atomic int kicker;		/* 0: none yet */
static uint64_t kicker_ino;

static bool is_there(void)
{
	int fd = atomic_load(&kicker);

	return fd && iw_fd_kind(fd) == IW_FD_INTERNAL && iw_fd_ino(fd) == kicker_ino;
}

bool iw_kicker_make(void)
{
	int fd;

	if (is_there())
		return true;
	fd = (int)IW_SYS(eventfd2, 1, EFD_CLOEXEC | EFD_NONBLOCK);
	if (fd >= 0)
		fd = iw_fd_hide(fd);
	if (fd < 0)
		return false;
	for (int i = 0; kicker_ino && i <= atomic_load(&iw_fd_high); i++)
		if (atomic_load_explicit(&iw_regs->kicked[i], memory_order_relaxed))
			atomic_store(&iw_regs->kicked[i], 0);
	kicker_ino = iw_fd_ino(fd);
	atomic_store(&kicker, fd);
	return true;
}

static long kicker_ctl(int epfd, int op, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u64 = iw_reg_tag ^ IW_REGS };

	return IW_SYS(epoll_ctl, epfd, op, atomic_load(&kicker), &ev);
}

bool iw_kicker_add(int epfd)
{
	long r = kicker_ctl(epfd, EPOLL_CTL_ADD, 0);

	if (r < 0 && r != -EEXIST)
		return false;
	atomic_store(&iw_regs->kicked[epfd], iw_set_of(epfd));
	return true;
}

/* To be seen by one that waits, once. */
void iw_reg_kick(int epfd)
{
	kicker_ctl(epfd, EPOLL_CTL_MOD, EPOLLIN | EPOLLONESHOT);
}

void iw_reg_unkick(int epfd)
{
	kicker_ctl(epfd, EPOLL_CTL_MOD, 0);
}

bool iw_kicker_is(int fd)
{
	return fd == atomic_load(&kicker) && is_there();
}

void iw_kicker_move(void)
{
	int old = atomic_exchange(&kicker, 0);

	iw_kicker_make();
	for (uint32_t i = 0; i < iw_reg_used; i++)
		if (iw_regs->r[i].fd >= 0 && iw_reg_is_mapped(&iw_regs->r[i])) {
			IW_SYS(epoll_ctl, iw_regs->r[i].epfd, EPOLL_CTL_DEL, old, NULL);
			iw_kicker_add(iw_regs->r[i].epfd);
		}
	iw_fd_unhide_close(old);
}
